"""``python -m polyloop``."""

import sys

from polyloop.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
