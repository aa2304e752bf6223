"""SIGReg by Triton kernels against tensor operations and lightly, on a device: never run on one here.

    python benchmarks/triton_sweeps.py                # on the first device that Triton serves
    python benchmarks/triton_sweeps.py --interpret    # tiny, on the CPU, to see that the script works

Value and gradient of the same embeddings, on lightly's grid of 17 knots on [0, 3], which is 33 on [-3, 3]
here. Peak memory is what the device had to give beyond the embeddings. Errors are against float64.
"""

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from measure import alternate

KNOTS, T_MAX = 33, 3.0
SHAPES = [  # views, batch, dim, slices
    (8, 128, 64, 1024),
    (8, 512, 512, 1024),
    (8, 2048, 512, 1024),
    (2, 32768, 512, 8192),
]
TINY = [(2, 20, 3, 4)]


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--interpret", action="store_true", help="tiny sizes in Triton's interpreter")
    interpret = parser.parse_args().interpret
    if interpret:
        os.environ["TRITON_INTERPRET"] = "1"
    device = torch.device("cpu") if interpret else _device()
    if device is None or find_spec("triton") is None:
        lacking = "no device that Triton serves" if device is None else "no triton"
        print(f"nothing was measured: {lacking} here; --interpret tries the script", file=sys.stderr)
        return 2
    from isojepa.objectives.gaussianity.epps_pulley import served

    if not served(device):
        print(f"nothing was measured: Triton's kernels do not run on {device}", file=sys.stderr)
        return 2
    where = "Triton's interpreter on the CPU: times mean nothing" if interpret else _name(device)
    print(f"{where}; torch {torch.__version__}; milliseconds of value and gradient, {KNOTS} knots")
    for shape in TINY if interpret else SHAPES:
        _compare(shape, device, seconds=0.0 if interpret else 4.0)
    return 0


def _compare(shape: tuple[int, int, int, int], device: torch.device, seconds: float) -> None:
    """Print a line for each form."""
    import isojepa as ij
    from isojepa.objectives.directions import draw_directions
    from isojepa.objectives.gaussianity import epps_pulley as fused
    from isojepa.objectives.gaussianity.epps_pulley import Grid

    views, batch, dim, slices = shape
    print(f"{views} x {batch} x {dim}, {slices} slices")
    source = ij.generator(0, "bench")
    x = torch.randn(views, batch, dim, generator=source).to(device).requires_grad_()
    directions = draw_directions(dim, slices, source).to(device)
    settings = directions, Grid.trapezoid(KNOTS, T_MAX), False, True  # biased, with gradient
    forms = {"SIGReg, Triton": fused._triton_sweeps, "SIGReg, tensor operations": fused._tensor_sweeps}
    _errors(forms, x.detach()[:, :2048], settings)

    def project() -> None:
        for part in directions.split(1024):
            (x.detach() @ part.T) @ part

    loss = ij.objectives.LeJEPA(0.05, ij.objectives.SIGReg(slices, KNOTS, T_MAX, kernel="triton"))
    tasks: dict[str, Callable[[], Any]] = {
        **{name: partial(form, x.detach(), *settings) for name, form in forms.items()},
        "its projections alone": project,
        "LeJEPA, Triton": lambda: torch.autograd.grad(loss(x, source, global_views=views // 4 or 1).total, x),
    }
    theirs = _lightly(slices, device)
    if theirs is not None:
        tasks["LeJEPA, lightly"] = lambda: torch.autograd.grad(
            theirs(global_proj=x[: views // 4 or 1], local_proj=x[views // 4 or 1 :]), x
        )
    memory = {}
    for name, task in list(tasks.items()):
        try:
            memory[name] = _peak(task, device)
        except torch.OutOfMemoryError:
            print(f"  {name}: does not fit in the device's memory")
            del tasks[name]
    times = alternate({name: _waited(task, device) for name, task in tasks.items()}, seconds, least=1)
    for name, took in times.items():
        print(f"  {name}: {1000 * took:.3g} ms, peak {memory[name]:.0f} MiB")
    for ours, other in (list(forms), ["LeJEPA, Triton", "LeJEPA, lightly"]):
        if ours in times and other in times:
            print(f"  {other} / {ours}: {times[other] / times[ours]:.3g}")


def _errors(forms: dict[str, Callable[..., Any]], x: torch.Tensor, settings: tuple[Any, ...]) -> None:
    """Print how far value and gradient are from those in float64."""
    from isojepa.objectives.gaussianity import epps_pulley as fused

    truth, truth_gradient = fused._tensor_sweeps(x.double(), *settings)
    for name, form in forms.items():
        value, gradient = form(x, *settings)
        off = float((value.mean() - truth.mean()).abs() / truth.mean().abs())
        error = float((gradient - truth_gradient).norm() / truth_gradient.norm())
        print(f"  {name}: value error {off:.1e}, gradient error {error:.1e}")


def _lightly(slices: int, device: torch.device) -> torch.nn.Module | None:
    """lightly's loss, where it is installed."""
    if find_spec("lightly") is None or find_spec("torchvision") is None:
        print("  lightly or torchvision is not installed: not compared with")
        return None
    from isojepa.importing import import_torchvision

    import_torchvision()  # lightly asks for it
    from lightly.loss import LeJEPALoss

    return LeJEPALoss(sigreg_num_vectors=slices).to(device)


def _waited(task: Callable[[], Any], device: torch.device) -> Callable[[], None]:
    """A task that ends when the device has done it."""

    def run() -> None:
        task()
        if device.type != "cpu":
            getattr(torch, device.type).synchronize(device)

    return run


def _peak(task: Callable[[], Any], device: torch.device) -> float:
    """MiB that a task takes on the device beyond what is there; 0 on the CPU, where nobody counts."""
    if device.type == "cpu":
        task()
        return 0.0
    module = getattr(torch, device.type)
    task()  # compile and load before
    module.synchronize(device)
    module.reset_peak_memory_stats(device)
    before = module.memory_allocated(device)
    task()
    return float(module.max_memory_allocated(device) - before) / 2**20


def _device() -> torch.device | None:
    for name in ("cuda", "xpu"):
        if hasattr(torch, name) and getattr(torch, name).is_available():
            return torch.device(name, 0)
    return None


def _name(device: torch.device) -> str:
    return str(getattr(torch, device.type).get_device_name(device))


if __name__ == "__main__":
    sys.exit(main())
