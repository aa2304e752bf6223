"""certify on what users have: trajectories, files larger than memory, bad rows, shuffled pairs."""

import json

import h5py
import numpy as np
import pytest
import scipy

import isojepa as ij
from isojepa.certificates import pairs as module
from isojepa.io import to_jsonable


def paths(steps=40, count=300, dim=2, rho=0.9, seed=0):
    return ij.data.OrnsteinUhlenbeck(dim, rho).trajectory(count, steps, ij.generator(seed, "paths"))


def pairs(n=4000, dim=3, rho=0.9, seed=0):
    return (
        part.numpy() for part in ij.data.OrnsteinUhlenbeck(dim, rho).sample(n, ij.generator(seed, "pairs"))
    )


def test_trajectories_bring_their_own_pairs_and_spectrum():
    path = paths()
    certificate = ij.certify(path, rho=0.9)
    assert certificate.samples == 39 * 300
    assert certificate.bound.delta.low < 0 < certificate.bound.delta.high
    assert certificate.correlation.low < 0.9 < certificate.correlation.high
    assert certificate.lags.identifiable
    assert certificate.lags.linear.high >= 0.99
    assert "linear" in certificate.verdict
    labelled = ij.certify(path, latents=path)
    assert labelled.grade == "rotation"
    assert {line.of for line in labelled.assumptions if line.name != "dimension"} == {"latents"}


def test_one_path_is_a_trajectory_when_it_is_said_to_be():
    path = paths(steps=3000, count=1)[:, 0]
    certificate = ij.certify(path, trajectory=True, rho=0.9, checks=False)
    same = ij.certify(path[:-1], next=path[1:], rho=0.9, checks=False)
    assert certificate.bound == same.bound
    assert certificate.lags is None


def test_files_read_in_small_pieces_give_the_certificate_of_the_whole(tmp_path, monkeypatch):
    h, h_next = pairs()
    whole = ij.certify(h, next=h_next, latents=h, rho=0.9, checks=False)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, value in {"h": h, "h_next": h_next, "z": h}.items():
            file.create_dataset(name, data=value, chunks=(100, 3), compression="gzip")
    monkeypatch.setattr(module, "MAX_BLOCK_NUMBERS", 600)
    with h5py.File(tmp_path / "a.h5") as file:
        pieces = ij.certify(file["h"], next=file["h_next"], latents=file["z"], rho=0.9, checks=False)
    assert pieces.grade == whole.grade == "rotation"
    for name in ("delta", "epsilon_squared", "bound"):
        ours, theirs = (getattr(c.bound, name) for c in (pieces, whole))
        assert (ours.estimate, ours.low, ours.high) == pytest.approx(
            (theirs.estimate, theirs.low, theirs.high)
        )
    assert pieces.correlation.estimate == pytest.approx(whole.correlation.estimate, rel=1e-12)


def test_bad_rows_are_left_out_and_counted():
    h, h_next = pairs()
    clean = ij.certify(h[2:], next=h_next[2:], latents=h[2:], rho=0.9, checks=False)
    h = np.concatenate(([[np.nan, 0, 0], [0, 0, np.inf]], h[2:]))
    with pytest.raises(ValueError, match="NaN or Inf in 2 of 4000 samples"):
        ij.certify(h, next=h_next, latents=h_next, rho=0.9)
    z = h.copy()
    z[:2] = 0
    certificate = ij.certify(h, next=h_next, latents=z, rho=0.9, drop=True)
    assert certificate.dropped == 2
    assert certificate.samples == 3998
    assert certificate.correlation.estimate == pytest.approx(clean.correlation.estimate, rel=1e-9)
    # blocks end elsewhere, which moves the variance of the mean
    assert certificate.bound.delta.estimate == pytest.approx(clean.bound.delta.estimate, rel=1e-2)
    assert "2 rows with NaN or Inf were left out" in str(certificate)
    with pytest.raises(ValueError, match="at least 2 samples without NaN or Inf"):
        ij.certify(np.full((10, 2), np.nan), drop=True)
    half = h_next.copy()
    half[:2000] = np.nan
    with pytest.raises(ValueError, match="2 samples without NaN or Inf are needed in each half"):
        ij.certify(half, latents=h_next, drop=True)


def test_pairs_shuffled_against_each_other_are_noticed():
    h, h_next = pairs()
    shuffled = h_next[np.random.default_rng(0).permutation(len(h_next))]
    certificate = ij.certify(h, next=shuffled, rho=0.9)
    assert certificate.grade == "unpaired"
    assert "rows seem to belong to different pairs" in certificate.verdict
    labelled = ij.certify(h, next=shuffled, latents=h, rho=0.9, checks=False)
    assert labelled.grade == "rotation"
    assert "rows seem to belong to different pairs" in labelled.verdict
    distant, far = pairs(n=20_000, rho=0.05)
    assert ij.certify(distant, next=far, rho=0.05, checks=False).grade != "unpaired"


def test_a_rho_that_is_too_large_is_told_from_the_correlation_of_the_views():
    h, h_next = pairs(n=50_000)
    certificate = ij.certify(h, next=h_next, rho=0.99, checks=False)
    assert certificate.grade == "unproven"
    assert "correlate by 0.9 where a linear encoder of this world reaches rho = 0.99" in certificate.verdict


@pytest.mark.slow
def test_a_true_rho_is_hardly_ever_refuted():
    refuted = 0
    for seed in range(400):
        h, h_next = pairs(n=400, dim=2, seed=seed)
        refuted += ij.certify(h, next=h_next, rho=0.9, checks=False).bound.refuted
    assert refuted <= 2  # the level is 1 in 2000


def test_everything_a_certificate_holds_is_json():
    path = paths(steps=20, count=1000)
    certificate = ij.certify(path, latents=path, rho=0.9)
    assert certificate.lags is not None
    assert certificate.spectrum is not None
    assert certificate.assumptions
    text = json.dumps(to_jsonable(certificate.to_dict()), allow_nan=False)
    assert json.loads(text)["assumptions"][0]["name"] == "stationarity"


@pytest.mark.parametrize("n", [2, 3, 4, 8, 19])
def test_very_few_rows_give_a_certificate_or_say_what_is_needed(n):
    h, h_next = pairs(n=n)
    certificate = ij.certify(h, next=h_next, rho=0.9)
    assert certificate.samples == n
    assert (certificate.bound is None) == (n < 8)
    if n < 4:
        with pytest.raises(ValueError, match="at least 4 samples"):
            ij.certify(h, latents=h)
    else:
        assert ij.certify(h, latents=h).recovery.r2_h_to_z.estimate <= 1


def test_a_constant_dimension_is_a_collapse_and_breaks_nothing():
    h, h_next = (part.copy() for part in pairs())
    h[:, 1] = h_next[:, 1] = 3.0
    certificate = ij.certify(h, next=h_next, rho=0.9)
    assert certificate.grade == "collapsed"
    constant = ij.certify(np.ones((50, 2)), next=np.ones((50, 2)), latents=np.ones((50, 2)), rho=0.9)
    assert constant.grade == "collapsed"
    assert constant.correlation is None


def test_recorded_paths_are_held_out_whole_and_their_differences_widen_the_intervals():
    # every path has an offset of its own, which the embedding shows and the latents do not
    rng = np.random.default_rng(0)
    states = paths(steps=200, count=40, rho=0.5).numpy().astype(np.float64)
    offsets = rng.standard_normal((1, 40, 2))
    recorded = ij.data.Recorded(states, observations=states + offsets, standardize=False)
    world = recorded.world()
    certificate = ij.certify(lambda x: x, world, samples=8000, checks=False)
    pairs = world.sample(8000, ij.generator(1, "certify"))
    naive = ij.certify(pairs.views[0], latents=pairs.z[0], checks=False)
    ours, theirs = certificate.recovery.r2_h_to_z, naive.recovery.r2_h_to_z
    assert ours.high - ours.low > 2 * (theirs.high - theirs.low)
    drawn = recorded.in_order().draw(500, ij.generator(0, "draw"))
    assert (np.diff(drawn[0]) >= 0).all()
    assert ij.certify(lambda x: x, recorded.world(ij.data.Identity()), samples=2000, checks=False)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (None, {}, "must be an array .*, got None"),
        ([[1.0, 2.0], [3.0]], {}, "must be one array, .* or a list of arrays .* for each path"),
        (np.ones((50, 2)), {"confidence": "high"}, "confidence must be a number, got 'high'"),
        (np.ones((50, 2)), {"confidence": 0.99999}, "confidence must be at most 0.998 with checks"),
        (lambda x: x, {"world": "spiral"}, "world must be a source .* got str"),
    ],
    ids=["none", "ragged", "word", "memory", "world"],
)
def test_what_cannot_be_certified_is_refused_in_a_sentence(source, options, message):
    with pytest.raises(ValueError, match=message):
        ij.certify(source, **options)


def test_views_of_opposite_sign_and_steps_out_of_order_are_told_apart():
    h, h_next = pairs()
    assert "correlate negatively" in ij.certify(h, next=-h_next, checks=False).verdict
    shuffled = np.random.default_rng(0).permutation(paths(steps=500, count=1)[:, 0].numpy())
    assert "Steps next to each other" in ij.certify(shuffled, trajectory=True).verdict


def test_paths_that_never_move_warn_of_nothing(recwarn):
    h = np.broadcast_to(np.random.default_rng(0).standard_normal((1, 50, 2)), (60, 50, 2))
    certificate = ij.certify(h, rho=0.9)
    assert certificate.grade == "refuted"
    assert not certificate.lags.identifiable
    assert not [warning for warning in recwarn if issubclass(warning.category, RuntimeWarning)]


def ideal_path(seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal((5000, 8)) * np.sqrt(1 - 0.95**2)
    noise[0] /= np.sqrt(1 - 0.95**2)
    return np.asarray(scipy.signal.lfilter([1], [1, -0.95], noise, axis=0))


def certified_ideal(kind: str, seed: int):
    options = {"rho": 0.95, "rho_from": "design", "seed": seed}
    if kind == "path":
        return ij.certify(ideal_path(seed), trajectory=True, **options)
    z, other = np.random.default_rng(seed).standard_normal((2, 5000, 8))
    return ij.certify(z, next=0.95 * z + np.sqrt(1 - 0.95**2) * other, **options)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["path", "pairs"])
def test_ideal_embeddings_fail_a_check_in_at_most_16_of_200(kind):
    assert sum(bool(certified_ideal(kind, seed).failed) for seed in range(200)) <= 16
