"""SIGReg by Triton kernels, run by Triton's interpreter on the CPU, against the textbook and the other forms.

The interpreter must be asked for before Triton is imported, and would make every SIGReg of this process slow:
the kernels run in a process of their own. It takes seconds for some thousand projections.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from inspect import signature
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from isojepa.objectives import SIGReg
from isojepa.objectives.directions import draw_directions
from isojepa.objectives.gaussianity import epps_pulley as fused
from isojepa.objectives.gaussianity.epps_pulley import Grid, epps_pulley, served, sliced_epps_pulley
from isojepa.seeds import generator
from tests.distributed import joined, run_ranks, share
from tests.processes import run
from tests.reference.textbook_sigreg import textbook, with_gradient

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
with_triton = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("triton") is None, reason="needs triton, which .ci/run installs"),
]
BATCHES = 33, 8  # of two ranks


def kernels(function: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that needs Triton."""
    for mark in with_triton:
        function = mark(function)
    return function


def _interpret() -> None:
    os.environ["TRITON_INTERPRET"] = "1"
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def interpreted() -> Iterator[Callable[..., Any]]:
    """Call a function of this module where Triton's interpreter serves the CPU."""
    with ProcessPoolExecutor(1, get_context("spawn"), _interpret) as pool:
        yield lambda function, *arguments: pool.submit(function, *arguments).result(timeout=250)


def sample(batch: int, dim: int, slices: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch of N(0, I) and directions."""
    x = torch.randn(batch, dim, generator=generator(0, "x", batch, dim))
    return x, draw_directions(dim, slices, generator(0, "directions", dim, slices))


def form() -> str:
    """What runs SIGReg of float32 on the CPU in this process, where Triton is asked for."""
    return fused._sweeps(torch.zeros(2, 1), Grid.trapezoid(17, 5.0), True).__name__


def sliced(x, directions, knots, t_max=5.0, unbiased=False, dtype="float32") -> tuple[float, np.ndarray]:
    """Value and gradient, of arrays and as arrays."""
    leaf = torch.as_tensor(x).to(DTYPES[dtype]).requires_grad_()
    grid = Grid.trapezoid(knots, t_max)
    value = sliced_epps_pulley(leaf, torch.as_tensor(directions), grid, unbiased, triton=True)
    value.backward()
    assert leaf.grad.dtype == DTYPES[dtype]
    return value.item(), leaf.grad.double().numpy()


def relative(found: Any, truth: Any) -> float:
    return float(np.linalg.norm(np.asarray(found) - np.asarray(truth)) / np.linalg.norm(np.asarray(truth)))


def test_without_its_interpreter_triton_does_not_serve_the_cpu():
    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("the interpreter is asked for")
    assert form() == "_compiled_sweeps"
    assert not served(torch.device("mps"))


def test_triton_is_not_the_default_and_serves_where_it_is_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(fused, "served", lambda device: asked.append(device) or True)
    monkeypatch.setattr(fused, "_triton_sweeps", fused._tensor_sweeps)
    x, directions = sample(20, 3, 4)
    plain = SIGReg(4)(x, generator(1))
    sliced_epps_pulley(x, directions, Grid.trapezoid(17, 5.0))
    assert asked == []
    assert SIGReg(4, kernel="triton")(x, generator(1)).item() == pytest.approx(plain.item(), rel=1e-5)
    assert asked == [x.device]


def test_a_kernel_that_is_not_there_is_refused_by_name():
    with pytest.raises(ValueError, match="kernel"):
        SIGReg(kernel="cuda")
    with pytest.raises(ValueError, match="epps-pulley alone"):
        SIGReg(kernel="triton", test="cramer-von-mises")


@pytest.mark.parametrize("fault", ["raise OSError('no compiler')", None], ids=["broken", "absent"])
def test_where_triton_does_not_work_the_other_forms_go_on_and_say_so_once(fault, tmp_path):
    if fault is None and find_spec("triton") is not None:
        pytest.skip("triton is there")
    if fault is not None:
        (tmp_path / "triton.py").write_text(fault + "\n")
    code = """
import warnings, torch
from isojepa.objectives import SIGReg
from isojepa.seeds import generator
x = torch.randn(64, 4, generator=generator(0))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    values = {SIGReg(16, kernel="triton")(x, generator(1)).item() for _ in range(3)}
print(*values)
for each in told: print(each.message)
"""
    # without the compiled form, which takes long to start
    off = {"NUMBA_DISABLE_JIT": "1", "TRITON_INTERPRET": "1"}
    done = run(code, env={**os.environ, **off}, path=[tmp_path])
    assert done.returncode == 0, done.stderr[-800:]
    value, *told = done.stdout.splitlines()
    truth = SIGReg(16)(torch.randn(64, 4, generator=generator(0)), generator(1)).item()
    assert float(value) == pytest.approx(truth, rel=1e-5)
    (warning,) = told
    assert "do not work on cpu" in warning
    assert ("triton is not installed" if fault is None else "OSError: no compiler") in warning


@kernels
@pytest.mark.parametrize(
    ("shape", "knots"),
    [
        ((2, 1, 1), 17),
        ((7, 17, 5), 16),
        ((17, 64, 1), 64),
        ((40, 5, 3), 257),
        ((257, 2, 3), 17),  # more rows than one program sums
    ],
    ids=str,
)
@pytest.mark.parametrize("unbiased", [False, True], ids=["biased", "unbiased"])
def test_value_and_gradient_are_those_of_the_textbook_and_of_the_compiled_form(
    shape, knots, unbiased, interpreted
):
    x, directions = sample(*shape)
    found = interpreted(sliced, x.numpy(), directions.numpy(), knots, 5.0, unbiased)
    compiled = sliced(x, directions, knots, 5.0, unbiased)
    size = shape[0] * Grid.trapezoid(knots, 5.0).table[2].sum()  # what the unbiased statistic cancels from
    assert found[0] == pytest.approx(compiled[0], rel=1e-5, abs=1e-6 * size)
    assert relative(found[1], compiled[1]) < 1e-5
    if not unbiased:
        truth, truth_gradient = with_gradient(textbook, x, directions, knots, 5.0)
        assert found[0] == pytest.approx(truth, rel=1e-5)
        assert relative(found[1], truth_gradient) < 1e-5
    assert interpreted(form) == "_triton_sweeps"


def strided(seam: int) -> list[np.ndarray]:
    """Value and gradient of columns and of slices of tensors with odd strides, cut into chunks."""
    before, fused._CHUNK = fused._CHUNK, seam
    try:
        source = torch.randn(4, 150, 11, 3, generator=generator(0, "strided"))
        found = []
        for x in (source.permute(3, 2, 0, 1)[..., ::2], source[:2, :, ::3, 1].mT):
            leaf = x.detach().requires_grad_()
            values = epps_pulley(leaf, Grid.trapezoid(17, 5.0), triton=True)
            (gradient,) = torch.autograd.grad((values * torch.arange(1.0, 1 + values.shape[-1])).sum(), leaf)
            found += [values.detach().numpy(), gradient.numpy()]
        x = source[0, :40:2, ::2, 0].detach().requires_grad_()
        value = SIGReg(70, kernel="triton")(x, generator(1))
        (gradient,) = torch.autograd.grad(value, x)
        return [*found, value.detach().numpy(), gradient.numpy()]
    finally:
        fused._CHUNK = before


@kernels
def test_views_strides_and_chunks_leave_no_seam(interpreted):
    for found, truth in zip(interpreted(strided, 1), strided(1 << 20), strict=True):
        np.testing.assert_allclose(found, truth, rtol=1e-5, atol=1e-6 * np.abs(truth).max())


class Largest(TorchDispatchMode):
    """Notes the numbers of the largest tensor that any operation makes."""

    numel = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for part in result if isinstance(result, tuple | list) else (result,):
            if isinstance(part, torch.Tensor):
                self.numel = max(self.numel, part.untyped_storage().nbytes() // 4)
        return result


def memory(knots: int) -> tuple[int, list[int]]:
    """The largest tensor made, and the sizes of those that are kept for the backward pass."""
    x, directions = sample(64, 2, 33)
    x.requires_grad_()
    kept = []

    def keep(part: torch.Tensor) -> torch.Tensor:
        kept.append(part.numel())
        return part

    served(x.device)  # its trial has tensors of its own
    with Largest() as largest, torch.autograd.graph.saved_tensors_hooks(keep, lambda part: part):
        sliced_epps_pulley(x, directions, Grid.trapezoid(knots, 5.0), triton=True).backward()
    return largest.numel, kept


@kernels
def test_nothing_of_size_batch_x_slices_x_knots_is_made_or_kept(interpreted):
    for knots in (2, 17, 129):
        made, kept = interpreted(memory, knots)
        coefficients = 2 * 2 * 33 * -(-(knots // 2) // 8) * 8  # no batch in them
        assert made <= max(64 * 33, coefficients), knots
        assert kept
        assert max(kept) <= 64 * 2, knots


def shared(rank: int, world: int, folder: str) -> dict[str, Any]:
    _interpret()
    x = torch.randn(2, sum(BATCHES), 3, generator=generator(0, "ranks"))
    found = {}
    with joined(rank, world, folder):
        for name, sizes in {"both": BATCHES, "one": (sum(BATCHES), 0)}.items():
            leaf = x[:, share(sizes, rank)].clone().requires_grad_()
            value = SIGReg(8, kernel="triton")(leaf, generator(1))
            value.backward()
            found[name] = {"value": value.item(), "gradient": leaf.grad, "sizes": sizes}
    return {**found, "form": form()}


@kernels
def test_two_ranks_give_the_loss_of_one_with_the_whole_batch(tmp_path):
    x = torch.randn(2, sum(BATCHES), 3, generator=generator(0, "ranks"))
    truth, gradient = sliced(x, draw_directions(3, 8, generator(1)), 17)
    for rank, found in enumerate(run_ranks(shared, 2, tmp_path, new=True)):
        assert found.pop("form") == "_triton_sweeps"
        for case in found.values():
            assert case["value"] == pytest.approx(truth, rel=1e-5)
            expected = 2 * gradient[:, share(case["sizes"], rank)]  # DDP takes the mean over ranks
            np.testing.assert_allclose(case["gradient"], expected, rtol=1e-4, atol=1e-6)


@kernels
@pytest.mark.filterwarnings("ignore:.*FP fusion.*:UserWarning")
@pytest.mark.parametrize("ones", [False, True], ids=["large", "ones"])
@pytest.mark.parametrize(
    "target", [("cuda", 75, 32), ("cuda", 90, 32), ("hip", "gfx90a", 64), ("hip", "gfx1100", 32)], ids=str
)
def test_the_kernels_compile_to_machine_code_of_real_devices(target, ones, tmp_path, monkeypatch):
    """Integers of 1 are constants to Triton's compiler, which may meet other rules than numbers do."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("the interpreter is asked for")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from isojepa.objectives.gaussianity import triton_kernels

    tensors = "p", "cos_sums", "sin_sums", "re", "im", "out"
    for kernel in (triton_kernels.sum_powers, triton_kernels.horner):
        kinds: dict[str, str] = {}
        constants: dict[tuple[int], object] = {}
        for place, name in enumerate(signature(kernel.fn).parameters):
            kinds[name] = "*fp32" if name in tensors else "fp32" if name == "first" else "i32"
            fixed = {"halved": True, "rows": 16, "columns": 32}
            if name in fixed or (ones and kinds[name] == "i32" and name != "span"):
                kinds[name], constants[(place,)] = "constexpr", fixed.get(name, 1)
        made = triton.compile(
            ASTSource(kernel, kinds, constants), target=GPUTarget(*target), options={"num_warps": 4}
        )
        assert len(made.asm["cubin" if target[0] == "cuda" else "hsaco"]) > 1000
        if target[0] == "cuda":  # hardware's quick cosine knows no range reduction
            assert "cos.approx" not in made.asm["ptx"]
