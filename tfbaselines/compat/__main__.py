"""``python -m tfbaselines.compat`` writes MIGRATION.md to standard output."""

import sys

from tfbaselines.compat.page import migration_page

sys.stdout.write(migration_page())
