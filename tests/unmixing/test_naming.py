"""No names where nothing can be named, in many small worlds; tolerances; what a block is."""

import functools

import numpy as np
import pytest
import scipy
import torch

from isojepa.certificates.embeddings import Embeddings
from isojepa.data import Copula
from isojepa.distributions import GeneralizedNormal, Uniform, eigensystem
from isojepa.seeds import generator
from isojepa.unmixing import unmix
from isojepa.unmixing.axes import Cause
from isojepa.unmixing.cues import cue_of
from isojepa.unmixing.departures import departures, world_departure
from isojepa.unmixing.naming import Naming, _beyond_chance, _dependence
from isojepa.unmixing.shared import shared_functions
from isojepa.unmixing.whitening import take_sample, whiten
from tests.unmixing.worlds import latents, normal_pairs, normal_paths, rotation


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
        unmix(**give(*trial(seed)), straighten=False, seed=seed, **asked).named_ > 0 for seed in range(trials)
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
    assert unmix(h, straighten=False).named_ == 0
    assert unmix(h, h_next, straighten=False).named_ == 0


def test_a_tolerance_of_0_names_what_an_encoder_left():
    z, _ = normal_pairs(100_000, 2, 0.9, np.random.default_rng(0))
    h = np.sqrt(1 - ENERGY) * z + np.sqrt(ENERGY) * LEFT["cubic"](z)
    assert unmix(h, straighten=False, tolerance=0.0).named_ == 2


def test_rates_that_differ_by_less_than_the_tolerance_are_one():
    y, y_next = latents(["normal", "normal"], [0.9, 0.8], n=20_000)
    assert unmix(y, y_next, straighten=False).named_ == 2
    assert unmix(y, y_next, straighten=False, tolerance=0.3).named_ == 0


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
        _beyond_chance(rng.standard_normal((20, 6)), sign).any() for sign in (1.0, -1.0) for _ in range(500)
    )
    assert wrong <= 5
    shifted = rng.standard_normal((20, 3)) + np.array([0, 3, 0])
    assert _beyond_chance(shifted, -1.0).tolist() == [
        [False, True, False],
        [True, False, True],
        [False, True, False],
    ]
    assert not _beyond_chance(-np.abs(rng.standard_normal((20, 2))), 1.0).any()  # a sum below 0 tells nothing


def test_dependence_is_seen_between_sizes_and_between_size_and_value():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((4000, 3))
    y = np.column_stack((z[:, 0], (z[:, 0] ** 2 - 1) / np.sqrt(2), z[:, 1], z[:, 2] * np.abs(z[:, 1])))
    block = np.arange(4000) * 20 // 4000
    found, partner, sure = _dependence(torch.tensor(y), block)
    assert partner.tolist() == [1, 0, 3, 2]
    assert sure.all()
    assert found[0, 1] == pytest.approx(np.abs(np.corrcoef(np.abs(y[:, 0]), y[:, 1])[0, 1]), abs=1e-3)
    _, _, sure = _dependence(torch.tensor(rng.standard_normal((200, 6))), np.arange(200) // 10)
    assert not sure.any()
    two = torch.tensor(rng.choice([-1.0, 1.0], (4000, 3)))
    found, _, sure = _dependence(two, block)
    assert np.isfinite(found).all()
    assert not sure.any()


def test_functions_of_one_latent_share_a_lot_and_latents_nothing():
    rng = np.random.default_rng(0)
    z, block = rng.standard_normal((20_000, 3)), np.arange(20_000) * 20 // 20_000
    # uncorrelated functions of one latent, of equal signs of size, and one that has nothing to do with them
    y = np.column_stack((np.sin(2 * z[:, 0]), np.cos(2 * z[:, 0]), z[:, 1]))
    found, sure, _ = shared_functions(torch.tensor(y), block)
    assert found[0, 1] == pytest.approx(found[1, 0], abs=0.02)
    assert found[0, 1] > 0.5
    assert sure.tolist() == [[False, True, False], [True, False, False], [False, False, False]]
    assert np.abs(found[2]).max() < 0.05
    for rows in (60, 400, 20_000):
        assert not shared_functions(torch.tensor(z[:rows]), np.arange(rows) * 20 // rows)[1].any()


def naming(together: list[list[int]], departure: list[float], **other) -> Naming:
    """What is told apart, by the blocks of the axes."""
    dim = len(departure)
    inside = np.eye(dim, dtype=bool)
    for block in together:
        inside[np.ix_(block, block)] = True
    plain = {
        "by_shape": ~inside,
        "by_rate": np.zeros((dim, dim), bool),
        "stability": np.ones(dim),
        "world": np.full(dim, np.nan),
        "correlation": None,
        "dependence": np.zeros(dim),
        "partner": np.zeros(dim, int),
        "dependent": np.zeros(dim, bool),
        "doubted": np.zeros(dim, bool),
        "hinted": np.zeros((dim, dim), bool),
        "links": np.zeros((dim, dim)),
        "carried": np.zeros((dim, dim)),
        "rejected": np.zeros((dim, dim), bool),
        "unexplained": np.zeros((dim, dim), bool),
        "excess": 1.0,
    }
    return Naming(together=inside, departure=np.array(departure), **(plain | other))


@pytest.mark.parametrize(("link", "named"), [(0.13, True), (0.17, False)])
def test_axes_of_an_encoder_that_is_not_done_keep_names_and_halves_of_a_circle_do_not(link, named):
    # what was seen of encoders that show all latents, at most, and of one that shows a joint that goes round
    links = np.array([[0.0, link], [link, 0.0]])
    known = {"links": links, "dependence": links.max(1), "dependent": links.max(1) > 0.1}
    found = naming([], [0.1, 0.1], correlation=np.array([0.9, 0.9]), **known)
    assert [cue_of(found, axis, 0.01).cause is None for axis in (0, 1)] == [named, named]


def test_a_harmonic_is_a_function_of_its_axis_and_no_half_of_a_circle_is_one_of_the_other():
    rng, rows = np.random.default_rng(0), 20_000
    block = np.arange(rows) * 20 // rows
    angle, other = rng.uniform(0, 2 * np.pi, rows), rng.standard_normal(rows)
    circle = np.column_stack((np.cos(angle), np.sin(angle)))
    found, _, carried = shared_functions(torch.tensor(circle), block)
    assert found[0, 1] > 0.9
    assert np.abs(carried).max() < 0.05
    z = rng.uniform(-1, 1, rows)
    harmonic = z**2 - 1 / 3
    for share in (1.0, 0.5):  # of the variance; the rest is another latent's
        mixed = np.sqrt(share) * harmonic / harmonic.std() + np.sqrt(1 - share) * other
        found, _, carried = shared_functions(torch.tensor(np.column_stack((z, mixed))), block)
        assert carried[0, 1] == pytest.approx(np.sqrt(share), abs=0.05)
        assert carried[0, 1] > 0.9 * found[0, 1]
        assert abs(carried[1, 0]) < 0.05


def test_the_slower_of_two_axes_has_no_name_if_the_faster_is_no_function_of_it():
    links = np.array([[0.0, 0.27], [0.27, 0.0]])
    known = {"links": links, "dependence": links.max(1), "dependent": links.max(1) > 0.1}
    rated = {"correlation": np.array([0.95, 0.8]), **known}
    for carried, named in ((0.02, False), (0.25, True)):
        found = naming([], [0.1, 0.1], **rated, carried=np.array([[0.0, carried], [0.0, 0.0]]))
        assert [cue_of(found, axis, 0.01).cause is None for axis in (0, 1)] == [named, False]


def test_of_axes_that_depend_on_each_other_only_the_slower_has_a_name():
    links = np.array([[0.0, 0.5, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])
    known = {"links": links, "carried": links, "dependence": links.max(1), "dependent": links.max(1) > 0.1}
    slower = naming([], [0.1, 0.1, 0.1], correlation=np.array([0.95, 0.8, 0.9]), **known)
    assert [cue_of(slower, axis, 0.01).name for axis in range(3)] == ["shape", "none", "shape"]
    assert "depends on another axis (a function of it by 0.50)" in cue_of(slower, 1, 0.01).reason
    assert cue_of(slower, 1, 0.01).cause is Cause.DEPENDENT
    alike = naming([], [0.1, 0.1, 0.1], correlation=np.array([0.9, 0.9, 0.9]), **known)
    assert [cue_of(alike, axis, 0.01).name for axis in range(3)] == ["none", "none", "shape"]
    unknown = naming([], [0.1, 0.1, 0.1], **known)
    assert [cue_of(unknown, axis, 0.01).name for axis in range(3)] == ["none", "none", "shape"]


@pytest.mark.parametrize("rho", [0.98, 0.995])
def test_paths_that_forget_nothing_name_nothing(rho):
    # all rows of a path are nearly one: blocks of a few rows would agree with each other
    wrong = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        wrong += unmix(paths=normal_paths(20, 4, 2 + seed % 4, rho, rng), straighten=False).named_ > 0
        wrong += unmix(normal_paths(150, 1, 2 + seed % 4, rho, rng)[:, 0], straighten=False).named_ > 0
    assert wrong <= 1


def test_blocks_are_as_many_as_rows_forget():
    rng = np.random.default_rng(0)

    def blocks(h: np.ndarray) -> int:
        embeddings = Embeddings(h)
        found = take_sample(embeddings, whiten(embeddings)).block
        assert (np.diff(found) >= 0).all()
        return len(np.unique(found))

    assert blocks(rng.standard_normal((300, 5))) == 20
    assert blocks(normal_paths(1000, 1, 3, 0.98, rng)[:, 0]) in (4, 6, 8, 10, 12)
    assert blocks(normal_paths(100, 1, 3, 0.98, rng)[:, 0]) == 2
    slow = normal_paths(4000, 1, 1, 0.999, rng)[:, 0]
    assert blocks(np.column_stack((slow, rng.standard_normal((4000, 5))))) <= 6  # by the slowest direction
