"""``python -m tfbaselines.porting`` writes MIGRATION.md to standard output."""

import sys

from tfbaselines.porting.page import migration_page

sys.stdout.write(migration_page())
