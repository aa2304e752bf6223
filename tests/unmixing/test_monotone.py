"""Warps undone in worlds whose latent is known; what is refused."""

import functools
import json

import numpy as np
import pytest
import scipy
import torch

from isojepa.data import Langevin
from isojepa.distributions import GeneralizedNormal, Normal, Uniform, bimodal, eigensystem
from isojepa.seeds import generator, numpy_generator
from isojepa.unmixing import MonotoneMap, invert_warp
from isojepa.unmixing.monotone import Scores, expected_increments, normal_scores

LAWS = {
    "uniform": Uniform(),
    "bimodal": bimodal(),
    "4": GeneralizedNormal(4.0),
    "3": GeneralizedNormal(3.0),
    "1.5": GeneralizedNormal(1.5),
    "normal": Normal(),
}
N = 100_000


@functools.cache
def pairs(law: str, rho: float, n: int = N, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    z, z_next = Langevin(dim=1, law=LAWS[law], rho=rho).sample(n, generator(seed, "data"))
    return z[:, 0].double().numpy(), z_next[:, 0].double().numpy()


@functools.cache
def slowest(law: str):
    found = eigensystem(LAWS[law], count=1)
    sign = np.sign(found(1, 1.0) - found(1, -1.0))
    return lambda z: sign * found(1, z)


def r2(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.corrcoef(first, second)[0, 1] ** 2)


def plain_lamperti(y: np.ndarray, y_next: np.ndarray) -> np.ndarray:
    """The textbook's integral of dy / sqrt(E[(y' - y)^2 | y]), with the bias of the lag."""
    both = np.concatenate((y, y_next))
    inner = np.quantile(both, np.arange(1, 128) / 128)
    cell, square = np.searchsorted(inner, both), np.tile((y_next - y) ** 2, 2)
    variance = np.bincount(cell, square) / np.bincount(cell)
    knots = np.concatenate(([both.min()], inner, [both.max()]))
    return np.interp(y, knots, np.concatenate(([0], np.cumsum(np.diff(knots) / np.sqrt(variance)))))


@pytest.mark.parametrize("rho", [0.98, 0.95, 0.9, 0.8])
@pytest.mark.parametrize("law", LAWS)
def test_increments_undo_any_increasing_warp_at_any_lag(law, rho):
    z, z_next = pairs(law, rho)
    to_latent = invert_warp(np.sinh(1.5 * z), np.sinh(1.5 * z_next))
    assert to_latent.method == "increments"
    assert r2(to_latent(np.sinh(1.5 * z)), z) >= 0.999


@pytest.mark.parametrize("law", LAWS)
def test_the_slowest_eigenfunction_is_undone_from_its_law_alone(law):
    z, _ = pairs(law, 0.9)
    y = slowest(law)(z)
    to_latent = invert_warp(y)
    assert to_latent.method == "eigenfunction"
    assert to_latent.agreement is None
    assert r2(to_latent(y), z) >= 0.999
    assert law == "normal" or r2(y, z) < 0.995  # otherwise there is nothing to undo


@pytest.mark.parametrize("law", ["uniform", "bimodal", "4"])
def test_removing_the_bias_of_the_lag_helps(law):
    z, z_next = pairs(law, 0.8)
    y, y_next = slowest(law)(z), slowest(law)(z_next)
    with_bias, without = r2(plain_lamperti(y, y_next), z), r2(invert_warp(y, y_next)(y), z)
    assert 1 - without < 0.2 * (1 - with_bias)


def test_ties_at_the_ends_leave_knots_in_order():
    values = np.clip(numpy_generator(0, "ties").normal(size=20_000), -2.8, 2.8)  # 0.3 % at each end
    found = Scores.of(values, np.zeros(len(values), int))
    assert (np.diff(found.knots) > 0).all()
    assert np.interp(found.u, found.knots, found.knots) == pytest.approx(found.at(found.knots), abs=1e-12)
    assert found.u == pytest.approx(normal_scores(values))
    ranks = scipy.stats.rankdata(values)
    assert found.u == pytest.approx(scipy.special.ndtri((ranks - 0.5) / len(values)))
    assert (found.cell == np.searchsorted(found.edges, found.u)).all()


def test_increments_depend_on_ranks_alone():
    z, z_next = pairs("3", 0.9, 20_000)
    plain, bent = invert_warp(z, z_next), invert_warp(z**3 + z, z_next**3 + z_next)
    assert bent.z == pytest.approx(plain.z, abs=1e-9)
    assert bent.low == pytest.approx(plain.low, abs=1e-9)


def test_agreement_tells_an_eigenfunction_from_another_to_latent():
    z, z_next = pairs("bimodal", 0.9)
    y, y_next = slowest("bimodal")(z), slowest("bimodal")(z_next)
    assert invert_warp(y, y_next).agreement >= 0.999
    assert invert_warp(y, y_next, method="eigenfunction").agreement >= 0.999
    assert invert_warp(np.sinh(1.5 * z), np.sinh(1.5 * z_next)).agreement < 0.98


def test_a_process_of_unequal_diffusion_is_not_recovered():
    # the assumption matters: sinh of a normal process is no coordinate of constant diffusion
    z, z_next = pairs("normal", 0.95)
    latent = np.sinh(z)
    to_latent = invert_warp(latent, np.sinh(z_next))
    assert r2(to_latent(latent), z) >= 0.999
    assert r2(to_latent(latent), latent) < 0.95
    assert "order of values" in to_latent.assumption


def test_the_diffusion_is_that_of_the_world_per_unit_of_time():
    z, z_next = pairs("normal", 0.9)
    # for a normal law of variance 1, rho = exp(-diffusion time)
    assert invert_warp(z, z_next).diffusion == pytest.approx(-np.log(0.9), rel=0.05)
    assert invert_warp(z).diffusion is None


def test_intervals_hold_the_latent_and_shrink_with_the_sample():
    world, inside, widths = Langevin(dim=1, law=Normal(), rho=0.9), [], []
    for seed in range(12):
        z, z_next = (part[:, 0].double().numpy() for part in world.sample(4000, generator(seed, "data")))
        to_latent = invert_warp(np.exp(z), np.exp(z_next))
        middle = (to_latent.y > np.exp(-1.5)) & (to_latent.y < np.exp(1.5))
        truth = np.log(to_latent.y[middle])
        inside.append(np.mean((to_latent.low[middle] <= truth) & (truth <= to_latent.high[middle])))
        widths.append((to_latent.high - to_latent.low)[middle].mean())
    assert np.mean(inside) >= 0.75  # 0.95 is asked for; knots of one sample err together
    z, z_next = pairs("normal", 0.9)
    large = invert_warp(np.exp(z), np.exp(z_next))
    middle = (large.y > np.exp(-1.5)) & (large.y < np.exp(1.5))
    assert (large.high - large.low)[middle].mean() < 0.5 * np.mean(widths)


def test_a_warp_is_inverted_and_goes_on_beyond_its_knots():
    z, z_next = pairs("4", 0.9, 20_000)
    to_latent = invert_warp(np.exp(z), np.exp(z_next))
    fitted = to_latent(np.concatenate((np.exp(z), np.exp(z_next))))
    assert fitted.mean() == pytest.approx(0, abs=0.02)
    assert fitted.std() == pytest.approx(1, abs=0.02)
    places = np.linspace(-3, 12, 300).reshape(3, 100)
    assert to_latent(places).shape == (3, 100)
    assert (np.diff(to_latent(places).reshape(-1)) > 0).all()
    assert to_latent.inverse(to_latent(places)) == pytest.approx(places, abs=1e-9)


def test_a_warp_survives_a_file():
    z, z_next = pairs("4", 0.9, 20_000)
    to_latent = invert_warp(z, z_next)
    again = MonotoneMap.from_dict(json.loads(json.dumps(to_latent.to_dict())))
    assert again.to_dict() == to_latent.to_dict()
    assert (again(z) == to_latent(z)).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"z": [0.0, 1.0]}, "finite, one for each"),
        ({"z": [0.0, 2.0, 1.0]}, "z must increase"),
        ({"low": [5.0, 5.0, 5.0]}, "must enclose z"),
        ({"method": "increment"}, "did you mean 'increments'"),
        ({"more": 1}, "a map must have"),
    ],
)
def test_a_hostile_dict_is_refused(change, message):
    good = {
        "y": [0.0, 1.0, 2.0],
        "z": [0.0, 1.0, 2.0],
        "low": [-1.0, 0.0, 1.0],
        "high": [1.0, 2.0, 3.0],
        "method": "increments",
        "assumption": "",
        "reason": "",
        "agreement": None,
        "diffusion": None,
    }
    MonotoneMap.from_dict(good)
    with pytest.raises(ValueError, match=message):
        MonotoneMap.from_dict({**good, **change})


def test_pairs_that_are_far_apart_are_not_used_and_refused_where_asked_for():
    z, z_next = pairs("uniform", 0.3, 20_000)
    to_latent = invert_warp(slowest("uniform")(z), slowest("uniform")(z_next))
    assert to_latent.method == "eigenfunction"
    assert "below 0.5: too far apart" in to_latent.reason
    with pytest.raises(ValueError, match=r"near each other for method 'increments'.*below 0.5"):
        invert_warp(z, z_next, method="increments")


def test_tails_without_variance_are_refused_where_the_variance_is_used():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="y must have a variance to be an eigenfunction, got tails of index"):
        invert_warp(rng.standard_cauchy(20_000))
    invert_warp(rng.standard_t(5, 20_000))
    z, z_next = pairs("normal", 0.9, 20_000)
    heavy = invert_warp(np.sinh(4 * z), np.sinh(4 * z_next))
    assert heavy.agreement is None
    assert r2(heavy(np.sinh(4 * z)), z) >= 0.995


def test_ties_are_borne_and_atoms_refused():
    z, z_next = pairs("normal", 0.9, 20_000)
    rounded = invert_warp(np.round(z, 2), np.round(z_next, 2))
    assert r2(rounded(z), z) >= 0.995
    with pytest.raises(ValueError, match=r"must be continuous, got the value 1 in 15\.\d% of the rows"):
        invert_warp(np.minimum(z, 1.0))


def noise(n: int = 2000) -> np.ndarray:
    return np.random.default_rng(0).normal(size=n)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: invert_warp(np.append(noise(), np.nan)), "y must be finite, got 1 NaN or Inf"),
        (lambda: invert_warp(np.ones(2000)), "y must vary, got 2000 times 1"),
        (lambda: invert_warp(noise(999)), "at least 1000 values .* got 999"),
        (lambda: invert_warp(np.round(noise())), r"y has \d distinct values"),
        (lambda: invert_warp(noise(), noise(1500)), "equally long, got 2000 and 1500"),
        (lambda: invert_warp(noise(), confidence=1.0), r"confidence must lie in \(0, 1\)"),
        (lambda: invert_warp(noise(), method="increments"), "needs pairs"),
        (lambda: invert_warp(noise(), noise()), "pairs must differ"),
        (lambda: invert_warp(noise().reshape(2, -1)), r"one component at a time, got shape \(2, 1000\)"),
        (lambda: invert_warp(["a"] * 2000), "must be real numbers"),
        (lambda: invert_warp(torch.empty(2000, device="meta")), "y must be a dense tensor"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_expected_variances_of_the_normal_law_are_those_of_the_textbook():
    # E[(z' - z)^2 | z] = (1 - r)^2 z^2 + 1 - r^2 for the normal process, whose z here is the score u
    z, _ = pairs("normal", 0.9)
    scores = Scores.of(z, np.zeros(len(z), dtype=int))
    nodes, time = scores.knots[1:-1], 0.3
    density = np.exp(-(scores.edges**2) / 2) / np.sqrt(2 * np.pi)
    conductance = density / np.diff(nodes) * time
    expected, derivative = expected_increments(nodes, scores.mass, conductance)
    r = np.exp(-time)
    inner = np.abs(nodes) < 2.5
    assert expected[inner] == pytest.approx(((1 - r) ** 2 * nodes**2 + 1 - r**2)[inner], rel=0.01)
    for face in (3, 40, 90):
        step = np.zeros(len(conductance))
        step[face] = 1e-4 * conductance[face]
        above, _ = expected_increments(nodes, scores.mass, conductance + step)
        below, _ = expected_increments(nodes, scores.mass, conductance - step)
        assert derivative[:, face] == pytest.approx((above - below) / (2 * step[face]), rel=1e-3, abs=1e-7)
