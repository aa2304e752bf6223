"""python -m isojepa: the command line."""

import sys

from isojepa.cli import main

if __name__ == "__main__":
    sys.exit(main())
