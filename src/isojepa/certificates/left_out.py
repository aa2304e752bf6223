"""What readers of data say besides giving arrays: what they left out, and why they refuse."""

import warnings


class LeftOut(UserWarning):
    """Something in the data was not used; the message says what and why."""


class Refused(ValueError):
    """A file is whole but is not read; the message says why and what to do."""


def leave_out(message: str) -> None:
    """Say that something is left out, as a warning that the command line prints in its own way."""
    warnings.warn(message, LeftOut, stacklevel=3)
