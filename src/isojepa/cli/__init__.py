"""The command line: isojepa demo | train | certify | report | list."""

from isojepa.cli.main import main

__all__ = ["main"]
