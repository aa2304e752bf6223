"""Tests that render skip, with the reason, where nothing draws."""

import pytest

from isojepa_lab.environments.plants import ReacherPlant
from isojepa_lab.environments.rendering import NoRendering, backend


def rendering_or_skip() -> str:
    """MuJoCo's backend on this machine; skips the test if no backend works."""
    try:
        return backend()
    except (NoRendering, ImportError) as error:
        pytest.skip(str(error))


def plant_or_skip(repeat: int = 1) -> ReacherPlant:
    """A plant; skips the test if MuJoCo or dm_control is not installed."""
    try:
        return ReacherPlant(repeat)
    except (ImportError, NoRendering) as error:
        pytest.skip(str(error))
