"""Powers of unit complex numbers by Triton kernels: nothing of size batch x slices x knots is stored.

Triton comes with torch where torch was built for a device that it serves; with TRITON_INTERPRET=1 its
interpreter serves the CPU, slowly, for tests. On each device the first call is held against the same by
tensor operations; where the kernels fail or say something else, they are left alone, with a warning. They
were never run on a GPU here, and run only where they are asked for.

Shapes of programs are fixed rather than tuned by timing, for which the same call could add in another order.
"""

import contextlib
import os
import warnings
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from isojepa.objectives.gaussianity.quadrature import Grid, TensorPowers

_ROWS, _COLUMNS, _WARPS = 16, 32, 4  # a tile: 4 projections for each of 128 threads; more spill registers
_SPAN = 32  # rows per knot in a partial sum, which so takes a sixteenth of the projections' memory
_SERVED = "cuda", "xpu", "cpu"  # torch calls AMD's devices cuda too
_OLDEST = 7, 0  # compute capability that Triton asks for


class TritonPowers:
    """As `TensorPowers`, in float32, for equally spaced knots.

    Args:
        p: (view, batch, slices) projections.
        grid: the knots.
    """

    def __init__(self, p: Tensor, grid: Grid) -> None:
        self.p, self.grid = p, grid

    def sums(self) -> Tensor:
        """(2, view, slices, half) sums of cosines and of sines over the batch."""
        from isojepa.objectives.gaussianity import triton_kernels as kernels

        views, batch, slices = self.p.shape
        half = len(self.grid.t)
        groups = -(-half // kernels.GROUP)
        span = _SPAN * kernels.GROUP * groups
        blocks = -(-batch // span)
        parts = self.p.new_empty(2, views, blocks, kernels.GROUP * groups, slices)
        programs = views * blocks * groups * -(-slices // _COLUMNS)
        self._launch(kernels.sum_powers, programs, (*parts, batch, slices, span, blocks, groups))
        return parts.sum(2)[..., :half, :].mT

    def series(self, re: Tensor, im: Tensor) -> Tensor:
        """Re( sum_j (re_j + i im_j) e^{i t_j p} ), as p, of (view, slices, half) coefficients."""
        from isojepa.objectives.gaussianity import triton_kernels as kernels

        views, batch, slices = self.p.shape
        out = self.p.new_empty(self.p.shape)
        programs = views * -(-batch // _ROWS) * -(-slices // _COLUMNS)
        coefficients = re.mT.contiguous(), im.mT.contiguous()  # one knot's side by side, as they are read
        self._launch(kernels.horner, programs, (*coefficients, out, batch, slices, len(self.grid.t)))
        return out

    def _launch(self, kernel: object, programs: int, arguments: tuple[object, ...]) -> None:
        if programs == 0:  # a rank without samples
            return
        with _within(self.p.device):
            kernel[(programs,)](  # type: ignore[index]
                self.p,
                *arguments,
                self.grid.first,
                *self.p.stride(),
                halved=self.grid.halved,
                rows=_ROWS,
                columns=_COLUMNS,
                num_warps=_WARPS,
                enable_fp_fusion=True,  # versions differ in what they do unasked
            )


def _within(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Inside, kernels run on a device; they would run on the process's own, whatever their tensors are on."""
    if device.type == "cpu":
        return contextlib.nullcontext()
    module = getattr(torch, device.type)  # torch.cuda or torch.xpu
    entered: contextlib.AbstractContextManager[object] = module.device(device)
    return entered


def served(device: torch.device) -> bool:
    """Whether the kernels run on a device; the first call for each tries them.

    Example:
        >>> served(torch.device("meta"))
        False
    """
    if device.type == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        return False
    return device.type in _SERVED and _works(device)


@cache
def _works(device: torch.device) -> bool:
    """Whether the kernels say what tensor operations do; a warning if they do not."""
    try:
        fault = _fault(device)
    except Exception as error:  # no compiler, no driver, another version: whatever it is, others go on
        fault = f"{type(error).__name__}: {error}".splitlines()[0]
    if fault:
        warnings.warn(
            f"Triton's kernels do not work on {device}, so SIGReg runs without them there: {fault}",
            RuntimeWarning,
            stacklevel=2,
        )
    return not fault


def _fault(device: torch.device) -> str:
    """What is wrong with the kernels of a device, if anything is."""
    if find_spec("triton") is None:
        return "triton is not installed"
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < _OLDEST:
        return f"its compute capability is below {_OLDEST[0]}.{_OLDEST[1]}"
    grid = Grid.trapezoid(40, 5.0)
    values = torch.linspace(-4, 4, 2 * 37 * 5, dtype=torch.float32, device=device)
    p, (re, im) = values.view(2, 37, 5), values[:200].view(2, 2, 5, 10).repeat(1, 1, 1, 2)
    ours, theirs = TritonPowers(p, grid), TensorPowers(p, grid)
    pairs = (ours.sums(), theirs.sums()), (ours.series(re, im), theirs.series(re, im))
    difference = max(float((a - b).abs().max()) for a, b in pairs)
    return "" if difference < 1e-2 else f"a sum is off by {difference:.2g}"
