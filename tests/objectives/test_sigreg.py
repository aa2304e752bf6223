"""SIGReg, fused and tensor paths, against the textbook statistic."""

import itertools
import math
import multiprocessing
import os
import subprocess
import sys

import numba
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isojepa.objectives import SIGReg
from isojepa.objectives.directions import draw_directions
from isojepa.objectives.gaussianity import UNIVARIATE
from isojepa.objectives.gaussianity import epps_pulley as sweeps
from isojepa.objectives.gaussianity.epps_pulley import Grid, sliced_epps_pulley
from isojepa.seeds import generator
from tests.processes import run
from tests.reference.global_state import untouched
from tests.reference.textbook_sigreg import pairs_statistic, textbook, with_gradient

SHAPES = [  # batch, dim, slices: each value of the brief in several company
    (2, 1, 1),
    (2, 17, 5),
    (2, 64, 100),
    (7, 2, 1),
    (7, 17, 100),
    (7, 64, 5),
    (512, 1, 5),
    (512, 2, 100),
    (512, 64, 1),
    (1500, 1, 100),
    (1500, 2, 5),
    (1500, 17, 1),
]
KNOTS = [2, 3, 16, 17, 33, 64]
T_MAX = [3.0, 5.0]


def sample(batch: int, dim: int, slices: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch of N(0, I) and directions, float32."""
    x = torch.randn(batch, dim, generator=generator(0, "x", batch, dim))
    return x, draw_directions(dim, slices, generator(0, "directions", dim, slices))


def fused(x: torch.Tensor, directions: torch.Tensor, knots: int, t_max: float, unbiased: bool = False):
    """Value and gradient of the package's statistic, in the dtype of x."""
    leaf = x.detach().clone().requires_grad_()
    value = sliced_epps_pulley(leaf, directions, Grid.trapezoid(knots, t_max), unbiased)
    value.backward()
    return value.item(), leaf.grad


def relative(error: torch.Tensor, truth: torch.Tensor) -> float:
    return (error.norm() / truth.norm()).item()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_fused_sigreg_equals_textbook(shape):
    x, directions = sample(*shape)
    for knots, t_max in itertools.product(KNOTS, T_MAX):
        if shape[0] * shape[2] * knots > 1_500_000 and t_max == 3.0:
            continue  # the reference stores this many complex numbers: once per shape is enough
        value, gradient = fused(x, directions, knots, t_max)
        truth, truth_gradient = with_gradient(textbook, x, directions, knots, t_max)
        assert value == pytest.approx(truth, rel=1e-5), (knots, t_max)
        assert relative(gradient - truth_gradient, truth_gradient) < 1e-5, (knots, t_max)


@pytest.mark.parametrize("shape", [(2, 17, 5), (7, 2, 1), (512, 64, 20), (1500, 2, 5)], ids=str)
@pytest.mark.parametrize(("scale", "shift"), [(0.01, 0), (30, 0), (1, 10)])
def test_fused_sigreg_equals_textbook_far_from_gaussian(shape, scale, shift):
    x, directions = sample(*shape)
    x = scale * x + shift
    # float32 keeps a projection p to about |p| / 2^23, which moves its phase t p by t times as much; the
    # gradient may cancel to almost nothing, so its error is held against the largest it could be
    size = max(1.0, (x.double() @ directions.double().T).abs().max().item())
    for knots, t_max in itertools.product(KNOTS, T_MAX):
        value, gradient = fused(x, directions, knots, t_max)
        truth, truth_gradient = with_gradient(textbook, x, directions, knots, t_max)
        grid = Grid.trapezoid(knots, t_max)
        largest = 4 * (grid.table[2] * grid.t).sum() / math.sqrt(len(directions))
        assert value == pytest.approx(truth, rel=1e-5 * size), (knots, t_max)
        assert (gradient - truth_gradient).abs().max().item() < 2e-6 * size * largest, (knots, t_max)
        if scale < 1:
            assert relative(gradient - truth_gradient, truth_gradient) < 1e-5


@pytest.mark.parametrize("scale", [1e5, 1e7, 1e10])
@pytest.mark.parametrize("knots", [2, 17])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_sigreg_of_huge_embeddings_stays_within_its_bound(scale, knots, dtype):
    # |ecf| <= 1 whatever the embeddings are, so T <= n sum_j w_j (1 + phi_j)^2 and a run that diverges
    # still gets a finite loss; phases of this size mean nothing in float32, the bound does
    x, directions = sample(512, 17, 5)
    value, gradient = fused(scale * x.to(dtype), directions.to(dtype), knots, 5.0)
    t = np.linspace(-5, 5, knots)
    phi = np.exp(-(t**2) / 2)
    assert 0 <= value <= 512 * np.trapezoid((1 + phi) ** 2 * phi, t) * (1 + 1e-4)
    bound = np.trapezoid(2 * np.abs(t) * phi * (1 + phi), t)
    assert gradient.norm(dim=1).max().item() <= bound * (1 + 1e-4)


@pytest.mark.parametrize("shape", [(2, 1, 1), (7, 17, 5), (512, 2, 20), (1500, 64, 5)], ids=str)
@pytest.mark.parametrize("unbiased", [False, True])
def test_float64_sigreg_equals_textbook_to_12_digits(shape, unbiased):
    x, directions = (part.double() for part in sample(*shape))
    n = shape[0]
    for knots, t_max in itertools.product(KNOTS, T_MAX):
        value, gradient = fused(x, directions, knots, t_max, unbiased)

        def truth_of(x, directions, knots=knots, t_max=t_max):
            biased = textbook(x, directions, knots, t_max)
            if not unbiased:
                return biased
            # the U-statistic drops the i = j terms of |ecf|^2 = sum_ij e^{it(p_i - p_j)} / n^2
            t = torch.linspace(-t_max, t_max, knots, dtype=torch.float64)
            phi = torch.exp(-(t**2) / 2)
            power = torch.exp(1j * (x @ directions.T).unsqueeze(-1) * t).mean(0).abs().square()
            change = (n * power - 1) / (n - 1) - power
            return biased + n * torch.trapezoid(change * phi, t, dim=-1).mean()

        truth, truth_gradient = with_gradient(truth_of, x, directions)
        assert value == pytest.approx(truth, rel=1e-12, abs=1e-12 * n)
        assert relative(gradient - truth_gradient, truth_gradient) < 1e-11


def test_tensor_path_in_float32_equals_textbook():
    # what other devices run; n |ecf - phi|^2 formed from float32 squares would lose log10(n) digits
    for batch, knots in ((512, 3), (512, 17), (512, 64), (50_000, 17)):
        x, directions = sample(batch, 17, 2 if batch > 512 else 50)
        grid = Grid.trapezoid(knots, 5.0)
        value, gradient = sweeps._tensor_sweeps(x[None], directions, grid, False, True)
        truth, truth_gradient = with_gradient(textbook, x, directions, knots, 5.0)
        assert value.mean().item() == pytest.approx(truth, rel=1e-5)
        assert relative(gradient[0] - truth_gradient, truth_gradient) < 1e-5


@settings(deadline=None, max_examples=40, derandomize=True)
@given(
    batch=st.integers(2, 60),
    dim=st.integers(1, 9),
    slices=st.integers(1, 12),
    knots=st.integers(2, 40),
    t_max=st.floats(0.5, 8.0),
    unbiased=st.booleans(),
)
def test_fused_and_tensor_paths_agree_in_any_shape(batch, dim, slices, knots, t_max, unbiased):
    x, directions = sample(batch, dim, slices)
    grid = Grid.trapezoid(knots, t_max)
    value, gradient = sweeps._compiled_sweeps(x[None], directions, grid, unbiased, True)
    truth, truth_gradient = sweeps._tensor_sweeps(x[None].double(), directions, grid, unbiased, True)
    size = batch * grid.table[2].sum()
    assert value.tolist() == [pytest.approx(truth[0].tolist(), rel=1e-5, abs=1e-6 * size)]
    assert (gradient - truth_gradient).abs().max() < 1e-5 * (grid.table[2] * grid.t).sum()


@pytest.mark.parametrize("batch", [65, 1023, 1024, 1025, 2050])
def test_work_cut_into_chunks_and_blocks_leaves_no_seam(batch, monkeypatch):
    x, directions = sample(batch, 3, 150)
    truth, truth_gradient = with_gradient(textbook, x, directions, 17, 5.0)
    monkeypatch.setattr(sweeps, "_CHUNK", 10 * batch)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-6)):
        value, gradient = fused(x.to(dtype), directions, 17, 5.0)
        assert value == pytest.approx(truth, rel=tolerance)
        assert relative(gradient - truth_gradient, truth_gradient) < tolerance


def test_sigreg_under_autocast_equals_float32():
    # projections in half precision would move the phases by percents; in a process of its own because
    # torch's bfloat16 products crash some virtual machines unless AMX is switched off before import
    code = """
import torch
from isojepa import generator
from isojepa.objectives import SIGReg
x = torch.randn(64, 8, generator=generator(0))
plain = SIGReg(16)(x, generator(1))
with torch.autocast("cpu", torch.bfloat16):
    mixed = SIGReg(16)(x, generator(1))
assert torch.equal(plain, mixed), (plain, mixed)
"""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr[-800:]


@pytest.mark.parametrize("shape", [(2, 3, 2), (9, 2, 3)], ids=str)
@pytest.mark.parametrize("knots", [3, 16])
def test_unbiased_sigreg_is_the_mean_over_distinct_pairs(shape, knots):
    x, directions = sample(*shape)
    truth, truth_gradient = with_gradient(pairs_statistic, x, directions, knots, 5.0)
    value, gradient = fused(x.double(), directions, knots, 5.0, unbiased=True)
    assert value == pytest.approx(truth, rel=1e-11, abs=1e-11)
    torch.testing.assert_close(gradient, truth_gradient, rtol=1e-10, atol=1e-11)
    value, gradient = fused(x, directions, knots, 5.0, unbiased=True)
    assert value == pytest.approx(truth, rel=1e-4, abs=1e-5)
    torch.testing.assert_close(gradient.double(), truth_gradient, rtol=1e-4, atol=1e-5)


def test_expectation_under_the_standard_normal_law():
    # n E|ecf - phi|^2 = 1 - phi^2, so the biased statistic has mean int (1 - phi^2) phi = sqrt(2 pi)
    # (1 - 1 / sqrt 3) up to quadrature, whatever n and dim; the unbiased one has mean 0
    t = np.linspace(-5, 5, 17)
    phi = np.exp(-(t**2) / 2)
    expected = np.trapezoid((1 - phi**2) * phi, t)
    assert expected == pytest.approx(math.sqrt(2 * math.pi) * (1 - 1 / math.sqrt(3)), abs=1e-4)
    assert expected == pytest.approx(1.06, abs=0.005)
    biased, unbiased = SIGReg(slices=8), SIGReg(slices=8, unbiased=True)
    for n, dim in ((4, 1), (64, 5)):
        draws = []
        for repeat in range(1500):
            x = torch.randn(n, dim, generator=generator(repeat, "null", n))
            draws.append([biased(x).item(), unbiased(x).item()])
        draws = np.array(draws)
        standard_error = draws.std(0) / math.sqrt(len(draws))
        assert (np.abs(draws.mean(0) - [expected, 0]) < 5 * standard_error).all()
        assert (standard_error < 0.05).all()


@pytest.fixture
def threads():
    """Restore the number of threads."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_compiled_sweeps_do_not_depend_on_the_number_of_threads_or_on_what_lies_between_them(threads):
    x, directions = sample(1500, 17, 1001)
    threads(1)
    projections = directions @ x.T
    results = []
    for count, sweep in itertools.product((1, 2, 3), (sweeps._sweep_rows, sweeps._sweep_shared_rows)):
        threads(count)
        rows = projections.clone()
        results.append(
            (
                sweep(rows, Grid.trapezoid(17, 5.0), False, 1500, 1.0),
                rows,
            )
        )
    assert all(
        torch.equal(value, results[0][0]) and torch.equal(rows, results[0][1]) for value, rows in results
    )


def _in_child(queue):
    # like torch's own data workers: torch's OpenMP pool does not survive a fork
    torch.set_num_threads(1)
    queue.put(fused(*sample(4096, 32, 512), 17, 5.0)[0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_computes_after_its_parent_used_threads(threads):
    threads(2)
    parent, _ = fused(*sample(4096, 32, 512), 17, 5.0)
    assert numba.threading_layer()  # else the parent had no threads to lose
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_in_child, args=(queue,))
    process.start()
    try:
        result = queue.get(timeout=30)
        process.join(10)
    finally:
        if process.is_alive():
            process.kill()
    assert result == pytest.approx(parent, rel=1e-5)


@pytest.mark.slow
def test_nothing_of_size_batch_x_slices_x_knots_is_stored():
    # peak memory of a process of its own; the product is 1.3 GB in float32, 2.7 GB in float64
    code = """
import resource, torch
from isojepa import generator
from isojepa.objectives import SIGReg
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
SIGReg(2, knots=65)(torch.randn(8, 4, requires_grad=True)).backward()
for dtype in (torch.float32, torch.float64):
    x = torch.randn(20_000, 4, generator=generator(0), dtype=dtype, requires_grad=True)
    before = peak()
    SIGReg(256, knots=65)(x).backward()
    print(peak() - before)
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr[-800:]
    product = 20_000 * 256 * 65
    for grown, width in zip(map(int, done.stdout.split()), (4, 8), strict=True):
        assert grown < product * width / 8


@pytest.mark.parametrize("unbiased", [False, True])
def test_views_are_tested_one_by_one_or_pooled_as_said(unbiased):
    views = torch.randn(3, 40, 5, generator=generator(0, "views")) + torch.arange(3.0).view(3, 1, 1) / 4
    directions = draw_directions(5, 16, generator(1, "slices"))

    def value(x):
        return fused(x, directions, 17, 5.0, unbiased)[0]

    one_by_one = SIGReg(16, unbiased=unbiased)(views, generator(1, "slices")).item()
    pooled = SIGReg(16, unbiased=unbiased, pooled=True)(views, generator(1, "slices")).item()
    assert one_by_one == pytest.approx(np.mean([value(view) for view in views]), rel=1e-5)
    assert pooled == pytest.approx(value(views.reshape(120, 5)), rel=1e-5)
    assert abs(pooled - one_by_one) > 0.1


def test_calls_without_a_generator_draw_new_directions_reproducibly():
    x = torch.randn(50, 4, generator=generator(0, "x"))
    module = SIGReg(slices=4, seed=3)
    with untouched():
        values = [module(x).item() for _ in range(5)]
    assert len(set(values)) == 5
    torch.manual_seed(77)
    again = SIGReg(slices=4, seed=3)
    assert [again(x).item() for _ in range(5)] == values
    assert SIGReg(slices=4, seed=4)(x).item() not in values


def test_directions_are_uniform_on_the_sphere():
    directions = draw_directions(3, 20_000, generator(0, "sphere")).double()
    np.testing.assert_allclose(directions.norm(dim=1), 1, rtol=1e-6)
    # E u = 0, E u u^T = I / 3, E u_1^4 = 1 / 5
    assert directions.mean(0).abs().max() < 6 / math.sqrt(3 * 20_000)
    second = directions.T @ directions / 20_000
    assert (second - torch.eye(3).double() / 3).abs().max() < 0.012
    assert (directions**4).mean(0).numpy() == pytest.approx(np.full(3, 0.2), abs=0.012)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slices": 0}, "slices must be a positive integer, got 0"),
        ({"knots": 1}, "knots must be an integer of at least 2, got 1"),
        ({"t_max": 0}, "t_max must be positive and finite, got 0"),
    ],
)
def test_sigreg_refuses_settings_without_meaning(options, message):
    with pytest.raises(ValueError, match=message):
        SIGReg(**options)


@pytest.mark.parametrize("shape", [(1, 4), (3, 1, 4), (0, 4)], ids=str)
@pytest.mark.filterwarnings("ignore:x of shape")
def test_sigreg_refuses_fewer_than_two_samples(shape):
    with pytest.raises(ValueError, match=f"needs at least 2 samples, got {shape[-2]}"):
        SIGReg()(torch.zeros(shape))


def test_training_goes_on_after_an_evaluation_in_inference_mode():
    x, directions = sample(64, 8, 16)
    truth = fused(x, directions, 17, 5.0)
    with torch.inference_mode():
        assert sliced_epps_pulley(x, directions, Grid.trapezoid(17, 5.0)).item() == truth[0]
        assert SIGReg(slices=2000)(torch.zeros(3000, 4)) > 0  # more memory than any call before
    value, gradient = fused(x, directions, 17, 5.0)
    assert value == truth[0]
    assert torch.equal(gradient, truth[1])


def test_the_default_dtype_changes_nothing():
    code = """
import torch
from isojepa.objectives import SIGReg
from isojepa.seeds import generator
x = torch.randn(64, 4, generator=generator(0), dtype=torch.float32)
modules = [SIGReg(slices=16), SIGReg(slices=16, sampler="sobol"), SIGReg(slices=3, sampler="orthogonal")]
torch.set_default_dtype(torch.float64)
first = [m(x, generator(1)).item() for m in modules]
torch.set_default_dtype(torch.float32)
assert first == [m(x, generator(1)).item() for m in modules], first
"""
    run(code).check_returncode()


@pytest.mark.parametrize(
    "setting",
    [
        *(pytest.param(f"LAYER={name}", marks=pytest.mark.slow) for name in ("tbb", "forksafe", "workqueue")),
        "DISABLE_JIT=1",
    ],
)
def test_any_setting_of_the_compilers_threads_gives_the_same_value(setting):
    code = """
from concurrent.futures import ThreadPoolExecutor
import torch
from isojepa.objectives import SIGReg
from isojepa.seeds import generator
torch.set_num_threads(2)
x = torch.randn(1024, 8, generator=generator(0))
with ThreadPoolExecutor(4) as pool:
    values = list(pool.map(lambda _: SIGReg(slices=128)(x, generator(1)).item(), range(8)))
assert len(set(values)) == 1
print(values[0])
"""
    name, _, value = setting.partition("=")
    name = "NUMBA_THREADING_LAYER" if name == "LAYER" else f"NUMBA_{name}"
    environment = {**os.environ, name: value}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    x = torch.randn(1024, 8, generator=generator(0))
    assert float(done.stdout) == pytest.approx(SIGReg(slices=128)(x, generator(1)).item(), rel=1e-5)


@pytest.mark.filterwarnings("ignore:x of shape")
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", UNIVARIATE)
def test_of_a_value_that_is_no_number_comes_no_number(name, bad):
    """One bad row among any number of rows: a loss that looks ordinary would hide it."""
    for n in (1, 2, 3, 40):
        test = UNIVARIATE[name]()
        if n < test.least:
            continue
        for dim in (1, 3):
            h = torch.randn(n, dim, generator=generator(n, "bad"))
            h[0, 0] = bad
            assert not math.isfinite(SIGReg(8, test=test)(h).item()), (n, dim)
