"""Grades without labels: what may be called certified, what only under a condition, what not at all."""

import numpy as np
import pytest

import isojepa as ij
from isojepa.certificates import certifying
from isojepa.certificates.grades import GRADES, REQUIRED, satisfies
from isojepa.certificates.pairs import PairRows
from isojepa.seeds import generator


def pairs(n=20_000, rho=0.9, dim=2, seed=0):
    z, z_next = ij.data.OrnsteinUhlenbeck(dim, rho).sample(n, generator(seed, "grades"))
    return z.double().numpy(), z_next.double().numpy()


def swirl(z, turn):
    """Turn each point by an angle that grows with its radius: the law N(0, I) stays, the world does not."""
    angle = turn * np.linalg.norm(z, axis=1)
    cos, sin = np.cos(angle), np.sin(angle)
    return np.stack((cos * z[:, 0] - sin * z[:, 1], sin * z[:, 0] + cos * z[:, 1]), 1)


def correlation(h, h_next):
    return float(2 * (h * h_next).sum() / ((h**2).sum() + (h_next**2).sum()))


def once(measure):
    """What is measured of the same numbers with the same options, but once: grades are judged from it."""
    kept = {}

    def measured(*given, **options):
        arrays = [
            array
            for one in given
            for array in (map(one.array, ("h", "h_next")) if isinstance(one, PairRows) else (one,))
        ]
        numbers = [None if array is None else np.asarray(array).tobytes() for array in arrays]
        # sums over the rows come along with the rows
        key = (*numbers, *((name, value) for name, value in options.items() if name != "moments"))
        if key not in kept:
            kept[key] = measure(*given, **options)
        return kept[key]

    return measured


@pytest.fixture(scope="module", autouse=True)
def measured_once():
    """Many certificates here are of the same pairs and differ in what is said of rho."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("estimate_correlation", "check_assumptions"):
            patch.setattr(certifying, name, once(getattr(certifying, name)))
        yield


@pytest.fixture(scope="module")
def rotation():
    return pairs(40_000)


def test_a_rotation_is_certified_when_rho_comes_from_outside(rotation):
    h, h_next = rotation
    for origin in ("design", "states", "rate"):
        certificate = ij.certify(h, next=h_next, rho=0.9, rho_from=origin)
        assert (certificate.grade, certificate.rho_from) == ("bounded", origin)
        assert certificate.certified
        assert certificate.verdict.startswith("World model, certified without labels")
    certificate = ij.certify(h, next=h_next, rate=-np.log(0.9), rho_from="rate")
    assert (certificate.grade, certificate.rho_from) == ("bounded", "rate")
    assert ij.certify(h, next=h_next, rate=-np.log(0.9)).grade == "conditional"  # perhaps its own decay


def test_a_rho_of_unknown_origin_earns_a_condition(rotation):
    h, h_next = rotation
    certificate = ij.certify(h, next=h_next, rho=0.9)
    assert (certificate.grade, certificate.rho_from) == ("conditional", "given")
    assert not certificate.certified
    assert "nobody said where rho comes from" in certificate.verdict
    assert "--rho-from" in certificate.next_step


def test_without_rho_it_is_estimated_and_the_bound_is_conditional(rotation):
    h, h_next = rotation
    certificate = ij.certify(h, next=h_next)
    assert (certificate.grade, certificate.rho_from) == ("conditional", "data")
    assert certificate.bound.rho == certificate.maximal.value.high
    assert 0.89 < certificate.maximal.value.estimate < 0.91
    assert "from outside" in certificate.next_step


def test_the_states_of_both_views_tell_rho(rotation):
    h, h_next = rotation
    certificate = ij.certify(h, next=h_next, latents=h, latents_next=h_next)
    assert certificate.rho_from == "states"
    assert certificate.bound.rho == pytest.approx(0.9, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("turn", [0.3, 0.5, 1.0, 2.0])
def test_a_swirl_is_never_certified_by_its_own_correlation(turn):
    for seed in range(2):
        h, h_next = (swirl(view, turn) for view in pairs(seed=seed))
        own = correlation(h, h_next)
        assert not ij.certify(h, next=h_next, rho=own).certified
        assert not ij.certify(h, next=h_next).certified


def test_a_swirl_refutes_its_own_correlation_whoever_vouches_for_it():
    h, h_next = (swirl(view, 1.0) for view in pairs())
    certificate = ij.certify(h, next=h_next, rho=correlation(h, h_next), rho_from="design")
    assert certificate.grade == "refuted"
    assert certificate.bound.per_dimension.high < 0.1  # that is what it would have promised
    assert "cannot both be right" in certificate.verdict
    assert certificate.maximal.value.low > certificate.bound.rho


def test_two_rates_are_not_certified_with_one_rho():
    z, z_next = ij.data.OrnsteinUhlenbeck(2, (0.95, 0.70)).sample(40_000, generator(0, "rates"))
    for rho in (0.825, 0.95):
        certificate = ij.certify(z, next=z_next, rho=rho, rho_from="design")
        assert not certificate.certified
    assert "isotropy" in certificate.failed


def test_nothing_is_certified_without_checks(rotation):
    h, h_next = rotation
    certificate = ij.certify(h, next=h_next, rho=0.9, rho_from="design", checks=False)
    assert certificate.grade == "conditional"
    assert "nothing was checked" in certificate.verdict


def test_a_failed_assumption_changes_grade_and_headline():
    z, z_next = pairs()
    bent, bent_next = (view + 0.12 * (view**2 - 1) for view in (z, z_next))
    certificate = ij.certify(bent, next=bent_next, rho=0.9, rho_from="design")
    assert certificate.bound.per_dimension.high < 0.1
    assert certificate.grade == "unproven"
    assert "Gaussianity" in certificate.failed
    assert certificate.verdict.startswith("Not certified: ")
    assert certificate.to_dict()["failed"] == certificate.failed


def test_the_curve_of_the_bound_ends_where_the_promise_does(rotation):
    h, h_next = rotation
    certificate = ij.certify(h, next=h_next, rho=0.9, checks=False)
    curve = certificate.curve
    assert list(curve.high) == sorted(curve.high)
    assert curve.rho[0] == pytest.approx(certificate.correlation.estimate)
    inside, outside = (
        ij.certify(h, next=h_next, rho=curve.ends + step, checks=False).bound.per_dimension.high
        for step in (-1e-4, 1e-4)
    )
    assert inside < curve.promise < outside


def test_which_grades_are_enough():
    assert all(satisfies(name, name) for name in REQUIRED)
    assert [name for name in GRADES if satisfies(name, "bounded")] == ["rotation", "bounded"]
    assert not satisfies("refuted", "conditional")
    with pytest.raises(ValueError, match=r"require must be one of .* got 'certain'"):
        satisfies("rotation", "certain")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": 0.9, "rho_from": "hearsay"}, "rho_from must be one of design, rate, states, got 'hearsay'"),
        ({"rho_from": "design"}, "rho_from states where rho comes from"),
        ({"rho": 0.9, "rate": 0.1}, "rate stands in the place of rho"),
        ({"rate": -1.0}, "rate must be positive and finite, got -1.0"),
    ],
)
def test_an_origin_that_makes_no_sense_is_refused(options, message):
    z, z_next = pairs(100)
    with pytest.raises(ValueError, match=message):
        ij.certify(z, next=z_next, **options)


def products(count, seed, dims=2, steps=500, paths=60, rho=0.95):
    """Sums of products of latents along paths: nothing in them is linear, and they decay as if all were."""
    source = np.random.default_rng(seed)
    z = np.empty((steps, paths, 2 * count * dims))
    z[0] = source.normal(size=z.shape[1:])
    for step in range(1, steps):
        z[step] = rho * z[step - 1] + np.sqrt(1 - rho**2) * source.normal(size=z.shape[1:])
    left, right = np.split(z.reshape(steps, paths, dims, 2 * count), 2, axis=-1)
    return (left * right).sum(-1) / np.sqrt(count)


@pytest.mark.parametrize(("count", "given", "stretch"), [(5, "rho", (2.0, 0.7)), (20, "rate", (1.0, 1.0))])
def test_the_own_decay_of_paths_certifies_nothing(count, given, stretch):
    own = {"rho": 0.95**2} if given == "rho" else {"rate": -2 * np.log(0.95)}
    certificate = ij.certify(products(count, count) * np.array(stretch), **own)
    assert certificate.grade in ("conditional", "unproven")
    assert certificate.rho_from == "given"
    assert not certificate.certified


def test_a_stretched_map_along_paths_is_linear_only_with_a_rate_from_outside():
    world = ij.data.OrnsteinUhlenbeck(dim=2, rho=0.9)
    z = world.trajectory(60, 500, ij.generator(3, "data")).double().numpy() * np.array([2.0, 0.7])
    assert ij.certify(z, rho=0.9, rho_from="design").grade == "linear"
    certificate = ij.certify(z, rho=0.9)
    assert certificate.grade == "conditional"
    assert "nobody said where it comes from" in certificate.verdict
    assert "--rho-from" in certificate.next_step


def test_one_view_alone_lacks_pairs_and_not_rho():
    certificate = ij.certify(pairs(500)[0], checks=False)
    assert certificate.bound_lacks == "pairs"
