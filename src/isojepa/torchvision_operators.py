"""Let `import torchvision` succeed beside a torch that is built for the CPU alone.

torchvision describes two operators of its compiled library to torch on import, `nms` and `qnms`. The files on
the package index are built for CUDA: beside a CPU build of torch their library does not load, the operators
are missing, and the import dies ("operator torchvision::nms does not exist"), and with it that of timm and
lightly. Nothing here uses either operator. Where the library does not load, their schemas are declared before
the import; a call of them raises an error of torch that there is no kernel.

    python -m isojepa.torchvision_operators

does so for every program of an environment, only if the import fails there: it copies this file to
site-packages, with a .pth file beside it that Python reads when it starts. So nothing of isojepa is imported
here.
"""

import sys

SCHEMAS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
_COPY = "_torchvision_operators"
_libraries: list[object] = []  # torch drops a schema with its library object


def declare_operators() -> None:
    """Declare the operators that torchvision describes to torch, if its own library does not bring them."""
    import contextlib  # not above: Python reads this file at each start
    from importlib.machinery import PathFinder
    from importlib.util import find_spec

    spec = find_spec("torchvision")
    if spec is None:
        return
    import torch

    library = PathFinder.find_spec("_C", spec.submodule_search_locations)
    if library is not None and library.origin is not None:
        with contextlib.suppress(OSError):  # it is built for another torch
            torch.ops.load_library(library.origin)  # as torchvision does; a second time does nothing
    missing = [name for name in SCHEMAS if not hasattr(torch.ops.torchvision, name)]
    if missing:
        declared = torch.library.Library("torchvision", "FRAGMENT")
        for name in missing:
            declared.define(SCHEMAS[name])
        _libraries.append(declared)


class _Hook:
    """Declares the operators when torchvision is first looked for."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            declare_operators()


def install_hook() -> None:
    """Declare the operators before this process imports torchvision."""
    sys.meta_path.insert(0, _Hook())


def main() -> None:
    """Install the hook for every program of this environment, if torchvision cannot be imported without."""
    import shutil
    import subprocess
    import sysconfig
    from importlib.util import find_spec
    from pathlib import Path

    folder = Path(sysconfig.get_path("purelib"))
    start, copy = folder / f"{_COPY}.pth", folder / f"{_COPY}.py"
    start.unlink(missing_ok=True)
    if find_spec("torchvision") is None:
        return
    result = subprocess.run([sys.executable, "-c", "import torchvision"], capture_output=True, text=True)
    if "torchvision::nms does not exist" in result.stderr:
        shutil.copyfile(__file__, copy)
        start.write_text(f"import {_COPY}; {_COPY}.install_hook()\n")
        print(f"torchvision does not fit this torch: its operators are declared by {start}")


if __name__ == "__main__":
    main()
