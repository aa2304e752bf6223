"""The arm for tests, which skip where MuJoCo or dm_control is not installed."""

import pytest

from isojepa.planning.closed_loop import ReacherPlant
from isojepa.worlds.rendering import NoRendering


def plant_or_skip(**options):
    """A plant; a test that calls this skips where there is none."""
    try:
        return ReacherPlant(**options)
    except (ImportError, NoRendering) as error:
        pytest.skip(str(error))
