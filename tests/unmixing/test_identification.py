"""No names where nothing can be named, in many small worlds; tolerances; what a block is."""

import functools

import numpy as np
import pytest
import scipy
import torch

from isojepa.data import Copula
from isojepa.distributions import GeneralizedNormal, Uniform, eigensystem
from isojepa.seeds import generator
from isojepa.unmixing import unmix
from isojepa.unmixing.identification import (
    MAX_DEPENDENCE,
    Cause,
    Evidence,
    beyond_chance,
    departures,
    reject_independence,
    shared_functions,
    world_departure,
)
from tests.unmixing.worlds import latents, normal_pairs, normal_paths, overlaps, rotation


def trial(seed: int) -> tuple[int, int, float, np.random.Generator]:
    """Dimension, rows, correlation and source of a small world."""
    return (
        2 + seed % 4,
        (60, 300, 1000)[seed % 3],
        (0.5, 0.9, 0.98)[seed // 3 % 3],
        np.random.default_rng(seed),
    )


def false_names(give, trials: int, **asked) -> int:
    """Worlds in which something is named."""
    return sum(
        unmix(**give(*trial(seed)), linearize=False, seed=seed, **asked).n_identified_ > 0
        for seed in range(trials)
    )


def paired(dim: int, n: int, rho: float, rng: np.random.Generator) -> dict:
    h, h_next = normal_pairs(n, dim, rho, rng)
    return {"h": h, "h_next": h_next}


def single(dim: int, n: int, rho: float, rng: np.random.Generator) -> dict:
    return {"h": rng.standard_normal((n, dim))}


def walked(dim: int, n: int, rho: float, rng: np.random.Generator) -> dict:
    return {"paths": normal_paths(n // 5, 5, dim, rho, rng)}


def one_path(dim: int, n: int, rho: float, rng: np.random.Generator) -> dict:
    """Rows that depend on their neighbours, and nothing that says so."""
    return {"h": normal_paths(n, 1, dim, rho, rng)[:, 0]}


@functools.cache
def hidden(dim: int, rho: float) -> Copula:
    return Copula(dim=dim, law=Uniform(), rho=rho)


def copula(dim: int, n: int, rho: float, rng: np.random.Generator) -> dict:
    world = hidden(dim, rho)
    views = world.sample(n, generator(int(rng.integers(1 << 30)), "copula"))
    h, h_next = (world.embed(view).numpy() @ rotation(dim, n).T for view in views)
    return {"h": h, "h_next": h_next}


@pytest.mark.parametrize("give", [paired, single, walked, one_path, copula])
def test_nothing_is_named_where_nothing_can_be(give):
    # what is named at a tolerance is named at 0
    assert false_names(give, 18, tolerance=0.0) <= 2


@pytest.mark.long
@pytest.mark.parametrize("give", [paired, single, walked, one_path, copula])
@pytest.mark.parametrize("tolerance", [0.0, 0.01])
def test_false_names_are_at_most_one_in_twenty(give, tolerance):
    assert false_names(give, 200, tolerance=tolerance) <= 10


ENERGY = 0.003
LEFT = {
    "cubic": lambda z: (z**3 - 3 * z) / np.sqrt(6),
    "square": lambda z: (z**2 - 1) / np.sqrt(2),
    "product": lambda z: z * np.roll(z, 1, 1),
}


@pytest.mark.parametrize("kind", LEFT)
@pytest.mark.parametrize("dim", [2, 4])
def test_what_an_encoder_left_of_a_normal_world_names_nothing(kind, dim):
    views = normal_pairs(40_000, dim, 0.9, np.random.default_rng(dim))
    h, h_next = (np.sqrt(1 - ENERGY) * z + np.sqrt(ENERGY) * LEFT[kind](z) for z in views)
    assert unmix(h, linearize=False).n_identified_ == 0
    assert unmix(h, h_next, linearize=False).n_identified_ == 0


def test_a_tolerance_of_0_names_what_an_encoder_left():
    z, _ = normal_pairs(100_000, 2, 0.9, np.random.default_rng(0))
    h = np.sqrt(1 - ENERGY) * z + np.sqrt(ENERGY) * LEFT["cubic"](z)
    assert unmix(h, linearize=False, tolerance=0.0).n_identified_ == 2


def test_rates_that_differ_by_less_than_the_tolerance_are_one():
    y, y_next = latents(["normal", "normal"], [0.9, 0.8], n=20_000)
    assert unmix(y, y_next, linearize=False).n_identified_ == 2
    assert unmix(y, y_next, linearize=False, tolerance=0.3).n_identified_ == 0


def test_departures_are_0_for_normal_rows_and_known_for_uniform_ones():
    rng = np.random.default_rng(0)
    found = departures(np.column_stack((rng.standard_normal(50_000), rng.uniform(size=50_000))))
    # corr(u, normal score)^2 is 3 / pi
    assert found == pytest.approx([0.0, 1 - 3 / np.pi], abs=0.003)


@pytest.mark.parametrize("rho", [0.5, 0.9, 0.98])
def test_the_worlds_departure_is_that_of_the_slowest_eigenfunction_whatever_an_encoder_left(rho):
    block = np.arange(50_000) * 20 // 50_000
    for law, name in (
        (GeneralizedNormal(1.5), "1.5"),
        (GeneralizedNormal(2.5), "2.5"),
        (Uniform(), "uniform"),
    ):
        system = eigensystem(law, 1)
        keep = system.mass > 1e-12
        mass, phi = system.mass[keep] / system.mass[keep].sum(), system.values[1][keep]
        scores = scipy.special.ndtri(np.clip(np.cumsum(mass) - mass / 2, 1e-15, 1 - 1e-15))
        known = 1 - (mass @ (phi * scores)) ** 2 / ((mass @ phi**2) * (mass @ scores**2))
        y, y_next = (view[:, 0] for view in latents([name], rho, 50_000))
        for left in (lambda y: y, np.exp, lambda y: y + y**3):
            found, error = world_departure(left(y), left(y_next), block)
            # polynomials of degree 7 miss a little of an eigenfunction that ends in a wall
            assert found == pytest.approx(known, abs=4 * error + 0.25 * known)
            assert found - 4 * error > 0


def test_the_error_of_the_worlds_departure_is_not_that_of_a_few_far_rows():
    block = np.arange(100_000) // 5_000
    y, y_next = latents(["1.5"] * 8, 0.8, 100_000)
    found = [world_departure(one, later, block) for one, later in zip(y.T, y_next.T, strict=True)]
    estimates, errors = np.array(found).T
    assert (np.abs(estimates - np.median(estimates)) < 4 * errors).all()
    assert errors.max() < 0.02  # of 0.06: without a cut it is 0.054, and some axes have no names


@pytest.mark.parametrize("left", [lambda u: u, np.tanh, np.exp, lambda u: u + u**3])
def test_a_normal_process_has_no_departure_of_its_own_whatever_an_encoder_left(left):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(20):
        z, z_next = normal_pairs(5000, 1, 0.9, rng)
        found.append(world_departure(left(z[:, 0]), left(z_next[:, 0]), np.arange(5000) // 250))
    estimates, errors = np.array(found).T
    assert np.abs(estimates).max() < 0.01
    assert (np.abs(estimates) < 4 * errors + 1e-3).all()


def test_chance_is_kept_over_all_pairs_together():
    rng = np.random.default_rng(0)
    wrong = sum(
        beyond_chance(rng.standard_normal((20, 6)), sign).any() for sign in (1.0, -1.0) for _ in range(500)
    )
    assert wrong <= 5
    shifted = rng.standard_normal((20, 3)) + np.array([0, 3, 0])
    assert beyond_chance(shifted, -1.0).tolist() == [
        [False, True, False],
        [True, False, True],
        [False, True, False],
    ]
    assert not beyond_chance(-np.abs(rng.standard_normal((20, 2))), 1.0).any()  # a sum below 0 tells nothing


@pytest.mark.parametrize("rho", [0.98, 0.995])
def test_paths_that_forget_nothing_name_nothing(rho):
    # all rows of a path are nearly one: blocks of a few rows would agree with each other
    wrong = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        wrong += unmix(paths=normal_paths(20, 4, 2 + seed % 4, rho, rng), linearize=False).n_identified_ > 0
        wrong += unmix(normal_paths(150, 1, 2 + seed % 4, rho, rng)[:, 0], linearize=False).n_identified_ > 0
    assert wrong <= 1


def functions(x: np.ndarray) -> np.ndarray:
    """(n, 4) white Hermite polynomials of standardized values, one row at a time."""
    x = np.clip((x - x.mean()) / x.std(ddof=1), -4, 4)
    table = np.stack([x, x**2 - 1, x**3 - 3 * x, x**4 - 6 * x**2 + 3], 1) / np.sqrt([1, 2, 6, 24])
    table -= table.mean(0)
    table /= np.maximum(table.std(0), 0.5)
    root = np.linalg.cholesky(table.T @ table / len(x) + 0.03 * np.eye(4))
    return np.linalg.solve(root, table.T).T


def blocks(n: int) -> np.ndarray:
    return np.arange(n) * 20 // n


def test_shared_functions_are_those_of_canonical_correlations():
    z = np.random.default_rng(0).normal(size=(4001, 3))
    y = np.stack([z[:, 0], 0.6 * (z[:, 0] ** 2 - 1) + 0.8 * z[:, 1], z[:, 1] ** 3, z[:, 2]], 1)
    links, carried = shared_functions(torch.from_numpy(y.T), blocks(len(y)))
    for i, j in ((0, 1), (1, 2), (1, 0), (2, 1)):
        first, second = functions(y[:, i]), functions(y[:, j])
        shared, own = [], []
        for which in (0, 1):
            fit, test = (blocks(len(y)) % 2 == which, blocks(len(y)) % 2 != which)
            cross, other = (first[rows].T @ second[rows] / rows.sum() for rows in (fit, test))
            left, _, right = np.linalg.svd(cross)
            shared.append(left[:, 0] @ other @ right[0])
            own.append(cross[:, 0] @ other[:, 0] / np.linalg.norm(cross[:, 0]))
        assert links[i, j] == pytest.approx(np.mean(shared), abs=1e-3)
        assert carried[i, j] == pytest.approx(np.mean(own), abs=1e-3)
    assert np.abs(links[3]).max() < 0.05
    still, carried = shared_functions(torch.zeros(2, 500), blocks(500))
    assert np.isfinite(still).all()
    assert np.isfinite(carried).all()


def test_a_harmonic_is_a_function_of_its_component_and_no_half_of_a_circle_is_one_of_the_other():
    rng, rows = np.random.default_rng(0), 20_000
    angle, other = rng.uniform(0, 2 * np.pi, rows), rng.standard_normal(rows)
    links, carried = shared_functions(torch.tensor(np.stack((np.cos(angle), np.sin(angle)))), blocks(rows))
    assert links[0, 1] > 0.9
    assert np.abs(carried).max() < 0.05
    z = rng.uniform(-1, 1, rows)
    harmonic = z**2 - 1 / 3
    for share in (1.0, 0.5):  # of the variance; the rest is another latent's
        mixed = np.sqrt(share) * harmonic / harmonic.std() + np.sqrt(1 - share) * other
        links, carried = shared_functions(torch.tensor(np.stack((z, mixed))), blocks(rows))
        assert carried[0, 1] == pytest.approx(np.sqrt(share), abs=0.05)
        assert carried[0, 1] > 0.9 * links[0, 1]
        assert abs(carried[1, 0]) < 0.05


def evidence(dependence: list[list[float]], **other) -> Evidence:
    """Components that shape tells apart, with a dependence."""
    links = np.array(dependence)
    dim = len(links)
    no, zero = np.zeros((dim, dim), bool), np.zeros((dim, dim))
    plain = {
        "by_shape": ~np.eye(dim, dtype=bool),
        "by_rate": no,
        "together": np.eye(dim, dtype=bool),
        "stability": np.ones(dim),
        "departure": np.full(dim, 0.1),
        "world_departure": np.full(dim, np.nan),
        "doubted": np.zeros(dim, bool),
        "correlation": None,
        "dependence": links,
        "upper": links + 0.01,
        "notable": links.max(1) > 0.1,
        "carried": zero,
        "rejected": no,
        "unexplained": no,
        "effective": np.full((dim, dim), 20_000.0),
        "excess": 1.0,
    }
    return Evidence(**(plain | other))


def identified(known: Evidence) -> list[str]:
    return [known.identify(i, 0.01, 20_000)[0] for i in range(len(known.together))]


@pytest.mark.parametrize(("link", "named"), [(0.15, True), (0.16, False), (0.17, False)])
def test_the_upper_end_of_the_dependence_decides(link, named):
    known = evidence([[0.0, link], [link, 0.0]], correlation=np.array([0.9, 0.9]))
    assert identified(known) == ["shape" if named else "none"] * 2
    _, cause, reason = known.identify(0, 0.01, 20_000)
    assert cause is (None if named else Cause.DEPENDENT if link > MAX_DEPENDENCE else Cause.FEW_ROWS)
    assert ("rows would decide" in reason) is (cause is Cause.FEW_ROWS)


def test_of_components_that_depend_on_each_other_only_a_slower_one_with_harmonics_is_identified():
    links = [[0.0, 0.5, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]]
    rates = {"correlation": np.array([0.95, 0.8, 0.9])}
    carried = np.array(links)
    assert identified(evidence(links, carried=carried, **rates)) == ["shape", "none", "shape"]
    assert identified(evidence(links, carried=0.1 * carried, **rates)) == ["none", "none", "shape"]
    alike = evidence(links, carried=carried, correlation=np.array([0.9, 0.9, 0.9]))
    assert identified(alike) == ["none", "none", "shape"]
    assert identified(evidence(links, carried=carried)) == ["none", "none", "shape"]


def test_dependence_of_a_slow_path_is_measured_in_effective_rows():
    rng = np.random.default_rng(0)
    steps = 0.05 * rng.normal(size=(2000, 2))
    z = np.abs((np.cumsum(steps, axis=0) + 1) % 4 - 2) - 1  # uniform, reflected at the walls
    apart = np.stack([rng.permutation(column) for column in z.T], 1)  # independent rows and columns
    slow, shuffled = unmix(z, linearize=False), unmix(apart, linearize=False)
    assert slow.n_identified_ == 0
    assert slow.components_[0].dependence_upper > MAX_DEPENDENCE
    assert shuffled.n_identified_ == 2
    assert max(component.dependence_upper for component in shuffled.components_) < MAX_DEPENDENCE


@pytest.mark.parametrize("rho", [0.8, 0.95])
def test_warped_normal_latents_of_one_rate_are_identified_where_shapes_are_trusted(rho):
    rng, mixing = np.random.default_rng(0), rotation(4)
    warps = (np.tanh, np.exp, lambda z: z + z**3 / 3, lambda z: np.sign(z) * np.sqrt(np.abs(z)))
    views = normal_pairs(20_000, 4, rho, rng)
    y, y_next = (np.stack([warp(z) for warp, z in zip(warps, view.T, strict=True)], 1) for view in views)
    mean, scale = y.mean(0), y.std(0)
    h, h_next = ((view - mean) / scale @ mixing.T for view in (y, y_next))
    refused = unmix(h, h_next, linearize=False)
    assert refused.n_identified_ == 0
    assert "tolerance=0 trusts such shapes" in refused.verdict_
    trusted = unmix(h, h_next, linearize=False, tolerance=0)
    assert trusted.n_identified_ == 4
    assert overlaps(trusted, mixing).max(1).min() > 0.995


def swirled(z: np.ndarray) -> np.ndarray:
    radius = np.linalg.norm(z, axis=1, keepdims=True)
    return np.cos(radius) * z + np.sin(radius) * np.stack((-z[:, 1], z[:, 0]), axis=1)


@pytest.mark.parametrize("draw", ["uniform", "normal", "laplace"])
def test_independent_components_are_rejected_as_rarely_as_the_level(draw):
    rejected = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y = getattr(rng, draw)(size=(1000, 3)) - 0.5 * (draw == "uniform")
        rejected += reject_independence(y)[0].any()
    assert rejected <= 3


def test_dependence_by_the_mean_alone_is_explained_and_by_the_spread_is_not():
    z = np.random.default_rng(0).uniform(-1, 1, (8000, 2))
    harmonic = z[:, 0] ** 2
    for second, unexplained in (
        (harmonic, False),
        (harmonic / harmonic.std() + z[:, 1] / z[:, 1].std(), False),
        (z[:, 1] * (1 + z[:, 0]), True),
    ):
        rejected, rest = reject_independence(np.column_stack((z[:, 0], second)))
        assert rejected[0, 1]
        assert rest[0, 1] == unexplained


def test_a_swirled_square_has_no_components_and_a_square_has():
    z = np.random.default_rng(0).uniform(-1, 1, (20_000, 2))
    swirl = unmix(swirled(z), linearize=False)
    assert swirl.n_identified_ == 0
    assert {component.cause for component in swirl.components_} == {Cause.DEPENDENT}
    assert unmix(z, linearize=False).n_identified_ == 2
