"""Tests that render skip, with the reason, where nothing draws."""

import pytest

from isojepa.worlds.rendering import NoRendering, backend


def rendering_or_skip() -> str:
    """How MuJoCo draws here; a test that calls this skips where it does not."""
    try:
        return backend()
    except (NoRendering, ImportError) as error:
        pytest.skip(str(error))
