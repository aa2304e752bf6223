"""The command line: one file per command, each command a dataclass."""

from isojepa.cli.main import main

__all__ = ["main"]
