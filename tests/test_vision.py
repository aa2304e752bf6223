"""The libraries for pictures, beside a torch of whatever build, each case in a process of its own."""

import pytest

from isojepa.importing import import_pillow, import_timm, import_torchvision
from tests.processes import run
from tests.vision import timm_or_skip


def test_torchvision_is_imported_beside_this_torch_and_so_is_timm():
    timm_or_skip()
    torchvision = import_torchvision()
    assert import_torchvision() is torchvision
    assert import_torchvision("transforms.v2").Resize(8).size == [8]
    assert len(import_timm().list_models()) > 1000
    assert import_timm("models.vision_transformer").VisionTransformer.__name__ == "VisionTransformer"
    assert import_pillow().new("L", (3, 2)).size == (3, 2)


def test_operators_are_declared_only_where_the_library_of_torchvision_does_not_bring_them():
    done = run(
        "import torch, isojepa.importing as vision, isojepa.torchvision_operators as operators\n"
        "library = torch.library.Library('torchvision', 'DEF')\n"  # as if the library had been loaded
        "for schema in operators.SCHEMAS.values(): library.define(schema)\n"
        "vision.import_torchvision()\n"
        "print(len(operators._libraries))"
    )
    assert done.stdout.strip() == "0", done.stderr


@pytest.mark.parametrize(
    ("name", "called", "package"),
    [
        ("torchvision", "import_torchvision", "torchvision"),
        ("timm", "import_timm", "timm"),
        ("PIL", "import_pillow", "Pillow"),
    ],
)
def test_a_missing_library_is_told_with_the_command_that_installs_it(name, called, package):
    done = run(
        f"import sys, isojepa.importing as vision\nsys.modules[{name!r}] = None\n"
        f"try: vision.{called}()\nexcept ImportError as error: print(error)"
    )
    assert done.stdout.startswith(f"pictures need {package}, which cannot be imported"), done.stderr
    assert done.stdout.strip().endswith("pip install -c constraints.txt '.[vision]' in the clone of isojepa")
