"""The libraries for pictures, or a reason to skip. importorskip would import torchvision unprepared."""

from importlib.util import find_spec
from types import ModuleType

import pytest

from isojepa.importing import import_timm


def timm_or_skip() -> ModuleType:
    """timm, imported; without it the test is skipped."""
    if find_spec("timm") is None or find_spec("torchvision") is None:
        pytest.skip("needs the extra vision")
    return import_timm()
