import sys
from pathlib import Path

# Helpers that the tests of this room share.
sys.path.insert(0, str(Path(__file__).parent))
