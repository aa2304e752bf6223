"""python -m isojepa: the command line."""

import sys

from isojepa.cli import main

sys.exit(main())
