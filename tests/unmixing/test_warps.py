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
from isojepa.unmixing import Warp, dewarp
from isojepa.unmixing.lamperti import _expected
from isojepa.unmixing.scores import Scores, normal_scores

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
    warp = dewarp(np.sinh(1.5 * z), np.sinh(1.5 * z_next))
    assert warp.method == "increments"
    assert r2(warp(np.sinh(1.5 * z)), z) >= 0.999


@pytest.mark.parametrize("law", LAWS)
def test_the_slowest_eigenfunction_is_undone_from_its_law_alone(law):
    z, _ = pairs(law, 0.9)
    y = slowest(law)(z)
    warp = dewarp(y)
    assert warp.method == "eigenfunction"
    assert warp.agreement is None
    assert r2(warp(y), z) >= 0.999
    assert law == "normal" or r2(y, z) < 0.995  # otherwise there is nothing to undo


@pytest.mark.parametrize("law", ["uniform", "bimodal", "4"])
def test_removing_the_bias_of_the_lag_helps(law):
    z, z_next = pairs(law, 0.8)
    y, y_next = slowest(law)(z), slowest(law)(z_next)
    with_bias, without = r2(plain_lamperti(y, y_next), z), r2(dewarp(y, y_next)(y), z)
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


def test_a_law_that_is_given_is_the_law_of_the_result():
    z, _ = pairs("bimodal", 0.9)
    warp = dewarp(np.exp(z), law=bimodal())
    assert warp.method == "law"
    assert r2(warp(np.exp(z)), z) >= 0.999


def test_increments_depend_on_ranks_alone():
    z, z_next = pairs("3", 0.9, 20_000)
    plain, bent = dewarp(z, z_next), dewarp(z**3 + z, z_next**3 + z_next)
    assert bent.z == pytest.approx(plain.z, abs=1e-9)
    assert bent.low == pytest.approx(plain.low, abs=1e-9)


def test_agreement_tells_an_eigenfunction_from_another_warp():
    z, z_next = pairs("bimodal", 0.9)
    y, y_next = slowest("bimodal")(z), slowest("bimodal")(z_next)
    assert dewarp(y, y_next).agreement >= 0.999
    assert dewarp(y, y_next, method="eigenfunction").agreement >= 0.999
    assert dewarp(np.sinh(1.5 * z), np.sinh(1.5 * z_next)).agreement < 0.98


def test_a_process_of_unequal_diffusion_is_not_recovered():
    # the assumption matters: sinh of a normal process is no coordinate of constant diffusion
    z, z_next = pairs("normal", 0.95)
    latent = np.sinh(z)
    warp = dewarp(latent, np.sinh(z_next))
    assert r2(warp(latent), z) >= 0.999
    assert r2(warp(latent), latent) < 0.95
    assert "order of values" in warp.assumption


def test_the_diffusion_is_that_of_the_world_per_unit_of_time():
    z, z_next = pairs("normal", 0.9)
    # for a normal law of variance 1, rho = exp(-diffusion time)
    assert dewarp(z, z_next, lag=0.5).diffusion == pytest.approx(-np.log(0.9) / 0.5, rel=0.05)
    assert dewarp(z).diffusion is None


def test_paths_are_pairs_of_neighbours():
    world = Langevin(dim=1, law=Uniform(), rho=0.95)
    steps = world.trajectory(50, 400, generator(0, "data"))[:, :, 0].double().numpy()
    whole = dewarp(paths=np.exp(steps))
    listed = dewarp(paths=[np.exp(path) for path in steps.T])
    by_hand = dewarp(np.exp(steps[:-1].T.reshape(-1)), np.exp(steps[1:].T.reshape(-1)))
    assert r2(whole(np.exp(steps).reshape(-1)), steps.reshape(-1)) >= 0.995
    for other in (listed, by_hand):
        assert other.z == pytest.approx(whole.z, abs=1e-12)


def test_intervals_hold_the_latent_and_shrink_with_the_sample():
    world, inside, widths = Langevin(dim=1, law=Normal(), rho=0.9), [], []
    for seed in range(12):
        z, z_next = (part[:, 0].double().numpy() for part in world.sample(4000, generator(seed, "data")))
        warp = dewarp(np.exp(z), np.exp(z_next))
        middle = (warp.y > np.exp(-1.5)) & (warp.y < np.exp(1.5))
        truth = np.log(warp.y[middle])
        inside.append(np.mean((warp.low[middle] <= truth) & (truth <= warp.high[middle])))
        widths.append((warp.high - warp.low)[middle].mean())
    assert np.mean(inside) >= 0.75  # 0.95 is asked for; knots of one sample err together
    z, z_next = pairs("normal", 0.9)
    large = dewarp(np.exp(z), np.exp(z_next))
    middle = (large.y > np.exp(-1.5)) & (large.y < np.exp(1.5))
    assert (large.high - large.low)[middle].mean() < 0.5 * np.mean(widths)


def test_a_warp_is_inverted_and_goes_on_beyond_its_knots():
    z, z_next = pairs("4", 0.9, 20_000)
    warp = dewarp(np.exp(z), np.exp(z_next))
    fitted = warp(np.concatenate((np.exp(z), np.exp(z_next))))
    assert fitted.mean() == pytest.approx(0, abs=0.02)
    assert fitted.std() == pytest.approx(1, abs=0.02)
    places = np.linspace(-3, 12, 300).reshape(3, 100)
    assert warp(places).shape == (3, 100)
    assert (np.diff(warp(places).reshape(-1)) > 0).all()
    assert warp.inverse(warp(places)) == pytest.approx(places, abs=1e-9)


def test_a_warp_survives_a_file():
    z, z_next = pairs("4", 0.9, 20_000)
    warp = dewarp(z, z_next)
    again = Warp.from_dict(json.loads(json.dumps(warp.to_dict())))
    assert again.to_dict() == warp.to_dict()
    assert (again(z) == warp(z)).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [0.0, 1.0]}, "finite, one for each"),
        ({"z": [0.0, 2.0, 1.0]}, "z must increase"),
        ({"low": [5.0, 5.0, 5.0]}, "must enclose z"),
        ({"method": "increment"}, "did you mean 'increments'"),
        ({"more": 1}, "a warp must have"),
    ],
)
def test_a_hostile_dict_is_refused(change, message):
    good = {
        "y": [0.0, 1.0, 2.0],
        "z": [0.0, 1.0, 2.0],
        "low": [-1.0, 0.0, 1.0],
        "high": [1.0, 2.0, 3.0],
        "method": "law",
        "assumption": "",
        "reason": "",
        "agreement": None,
        "diffusion": None,
    }
    Warp.from_dict(good)
    with pytest.raises(ValueError, match=message):
        Warp.from_dict({**good, **change})


def test_pairs_that_are_far_apart_are_not_used_and_refused_where_asked_for():
    z, z_next = pairs("uniform", 0.3, 20_000)
    warp = dewarp(slowest("uniform")(z), slowest("uniform")(z_next))
    assert warp.method == "eigenfunction"
    assert "below 0.5: too far apart" in warp.reason
    with pytest.raises(ValueError, match=r"near each other for method 'increments'.*below 0.5"):
        dewarp(z, z_next, method="increments")


def test_tails_without_variance_are_refused_where_the_variance_is_used():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="y must have a variance to be an eigenfunction, got tails of index"):
        dewarp(rng.standard_cauchy(20_000))
    dewarp(rng.standard_t(5, 20_000))
    z, z_next = pairs("normal", 0.9, 20_000)
    heavy = dewarp(np.sinh(4 * z), np.sinh(4 * z_next))
    assert heavy.agreement is None
    assert r2(heavy(np.sinh(4 * z)), z) >= 0.995


def test_ties_are_borne_and_atoms_refused():
    z, z_next = pairs("normal", 0.9, 20_000)
    rounded = dewarp(np.round(z, 2), np.round(z_next, 2))
    assert r2(rounded(z), z) >= 0.995
    with pytest.raises(ValueError, match=r"must be continuous, got the value 1 in 15\.\d% of the rows"):
        dewarp(np.minimum(z, 1.0))


def noise(n: int = 2000) -> np.ndarray:
    return np.random.default_rng(0).normal(size=n)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dewarp(np.append(noise(), np.nan)), "y must be finite, got 1 NaN or Inf"),
        (lambda: dewarp(np.ones(2000)), "y must vary, got 2000 times 1"),
        (lambda: dewarp(noise(999)), "at least 1000 values .* got 999"),
        (lambda: dewarp(np.round(noise())), r"y has \d distinct values"),
        (lambda: dewarp(noise(), noise(1500)), "equally long, got 2000 and 1500"),
        (lambda: dewarp(noise(), confidence=1.0), r"confidence must lie in \(0, 1\)"),
        (lambda: dewarp(noise(), method="law"), "needs a law"),
        (lambda: dewarp(noise(), law=Normal(), method="increments"), "used by method 'law' alone"),
        (lambda: dewarp(noise(), noise()), "pairs must differ"),
        (lambda: dewarp(), "give y, or y and y_next, or paths, got none"),
        (lambda: dewarp(noise().reshape(2, -1)), r"one axis at a time, got shape \(2, 1000\)"),
        (lambda: dewarp(["a"] * 2000), "must be real numbers"),
        (lambda: dewarp(torch.empty(2000, device="meta")), "y must be a dense tensor"),
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
    expected, derivative = _expected(nodes, scores.mass, conductance)
    r = np.exp(-time)
    inner = np.abs(nodes) < 2.5
    assert expected[inner] == pytest.approx(((1 - r) ** 2 * nodes**2 + 1 - r**2)[inner], rel=0.01)
    for face in (3, 40, 90):
        step = np.zeros(len(conductance))
        step[face] = 1e-4 * conductance[face]
        above, _ = _expected(nodes, scores.mass, conductance + step)
        below, _ = _expected(nodes, scores.mass, conductance - step)
        assert derivative[:, face] == pytest.approx((above - below) / (2 * step[face]), rel=1e-3, abs=1e-7)
