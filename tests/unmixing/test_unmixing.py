"""Axes found again in worlds where they are known; what changes nothing; what is refused."""

import warnings

import h5py
import numpy as np
import pytest
import torch

from isojepa.certificates.embeddings import Embeddings
from isojepa.unmixing import Unmixing, unmix, unmixing, whitening
from isojepa.unmixing.unmixing import NotFitted
from tests.unmixing.worlds import functions, latents, normal_pairs, normal_paths, overlaps, partners, rotation


def unmixed(y: np.ndarray, y_next: np.ndarray | None = None, **asked) -> tuple[Unmixing, np.ndarray]:
    """Rotated and unmixed, and the mixing."""
    q = rotation(y.shape[1], y.shape[1])
    found = unmix(y @ q.T, None if y_next is None else y_next @ q.T, straighten=False, **asked)
    return found, q * y.std(0)


def test_a_law_near_to_normal_is_named_where_pairs_show_that_it_is_the_worlds():
    y, y_next = latents(["2.5"] * 2, 0.8, 100_000)
    found, mixing = unmixed(y, y_next)
    assert found.named_ == 2
    assert overlaps(found, mixing).max(1).min() > 0.99
    alone, _ = unmixed(y)
    assert alone.named_ == 0
    assert "may be the encoder's" in alone.verdict_
    assert unmixed(y, tolerance=0)[0].named_ == 2


def test_what_an_encoder_leaves_of_a_copula_world_names_nothing():
    z, z_next = normal_pairs(100_000, 2, 0.8, np.random.default_rng(0))
    # short of the normal scores of a law with ends, by as much as encoders are: 1.6 % of the variance
    seen, after = (np.tanh(view / 2) for view in (z, z_next))
    found, _ = unmixed(seen, after)
    assert all(0.01 < axis.departure < 0.025 for axis in found.axes_)
    assert found.named_ == 0
    assert "may be the encoder's" in found.verdict_


def test_what_an_encoder_left_does_not_turn_axes_away_from_those_of_their_rates():
    rng, rho = np.random.default_rng(0), np.array([0.92, 0.9, 0.88, 0.86])
    z = rng.standard_normal((50_000, 4))
    z_next = rho * z + np.sqrt(1 - rho**2) * rng.standard_normal(z.shape)
    other = rotation(4, 7)  # along whose axes 6 thousandths of the variance are cubic

    def left(z: np.ndarray) -> np.ndarray:
        turned = z @ other
        return z + 0.08 * (turned**3 - 3 * turned) @ other.T / np.sqrt(6)

    found, mixing = unmixed(left(z), left(z_next))
    assert found.named_ == 4
    assert {axis.cue for axis in found.axes_} == {"rate"}
    assert overlaps(found, mixing).max(1).min() > 0.98
    trusting, mixing = unmixed(left(z), left(z_next), tolerance=0)
    assert overlaps(trusting, mixing).max(1).min() < 0.95


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize(("law", "dim"), [("uniform", 2), ("bimodal", 5), ("4", 8), ("3", 3), ("1.5", 16)])
def test_all_axes_of_a_langevin_world_of_one_rate_are_named(law, dim, paired):
    y, y_next = latents([law] * dim)
    found, mixing = unmixed(y, y_next if paired else None)
    assert found.named_ == dim
    assert found.blocks_ == ()
    assert {axis.cue for axis in found.axes_} == {"shape"}
    assert sorted(partners(found, mixing)) == list(range(dim))
    assert overlaps(found, mixing).max(1).min() > 0.99
    assert "All" in found.verdict_


@pytest.mark.parametrize("paired", [False, True])
def test_two_normal_axes_of_one_rate_form_a_block_and_the_others_are_named(paired):
    y, y_next = latents(["normal", "uniform", "normal", "4", "1.5"])
    found, mixing = unmixed(y, y_next if paired else None)
    assert found.blocks_ == ((3, 4),)
    assert set(partners(found, mixing)[:3]) == {1, 3, 4}
    assert overlaps(found, mixing)[:3].max(1).min() > 0.99
    # the block is found as a whole
    assert np.allclose(np.linalg.norm(overlaps(found, mixing)[3:][:, [0, 2]], axis=1), 1, atol=0.01)
    assert found.verdict_ == (
        "3 of 5 axes are told apart, each up to its sign; "
        "2 stay a block of 2, any rotation of which is as good."
    )
    assert all(np.isinf(axis.error) and axis.reason for axis in found.axes_[3:])


def test_normal_axes_of_unequal_rates_are_named_by_rate_the_slowest_first():
    found, mixing = unmixed(*latents(["normal"] * 3, [0.7, 0.9, 0.8]))
    assert [axis.cue for axis in found.axes_] == ["rate"] * 3
    assert partners(found, mixing) == [1, 2, 0]
    assert overlaps(found, mixing).max(1).min() > 0.99
    assert [axis.correlation for axis in found.axes_] == pytest.approx([0.9, 0.8, 0.7], abs=0.02)


def test_blocks_of_equal_rates_are_told_from_each_other():
    found, _ = unmixed(*latents(["normal"] * 4, [0.9, 0.9, 0.7, 0.7]))
    assert found.named_ == 0
    assert found.blocks_ == ((0, 1), (2, 3))


def test_shape_and_rate_together_tell_what_neither_tells_alone():
    y, y_next = latents(["normal", "normal", "uniform", "uniform"], [0.9, 0.7, 0.9, 0.7])
    found, mixing = unmixed(y, y_next)
    assert found.named_ == 4
    assert overlaps(found, mixing).max(1).min() > 0.99
    alone, _ = unmixed(y)
    assert alone.named_ == 2


def sources(kind: str, n: int, dim: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    third = np.sqrt(3)
    draws = {
        "exponential": lambda: rng.exponential(size=(n, dim)),
        "laplace": lambda: rng.laplace(size=(n, dim)),
        "uniform": lambda: rng.uniform(size=(n, dim)),
        "both tails": lambda: np.where(
            np.arange(dim) % 2, rng.laplace(size=(n, dim)), rng.uniform(-3, 3, (n, dim))
        ),
        "two values": lambda: rng.choice([-1.0, 1.0], (n, dim)),
        "three values": lambda: rng.choice([-1.0, 0.0, 1.0], (n, dim)),
        "rare": lambda: 1.0 * (rng.random((n, dim)) < 0.1),
        # kurtosis 3 as the normal law, by three values that are blurred
        "no kurtosis": lambda: (
            rng.choice([0, 0, 0, 0, third, -third], (n, dim)) + 0.3 * rng.standard_normal((n, dim))
        ),
    }
    return draws[kind]()


@pytest.mark.parametrize(
    "kind",
    ["exponential", "laplace", "both tails", "two values", "three values", "rare", "no kurtosis"],
)
def test_laws_of_any_kind_are_told_apart(kind):
    found, mixing = unmixed(sources(kind, 20_000, 6))
    assert found.named_ == 6
    assert overlaps(found, mixing).max(1).min() > 0.999
    assert not any(axis.dependent for axis in found.axes_)


def amari(product: np.ndarray) -> float:
    """0 for a permutation with scales (Amari, Cichocki & Yang 1996)."""
    p, dim = np.abs(product), len(product)
    rows, columns = p / p.max(1, keepdims=True), p / p.max(0)
    return float((rows.sum() + columns.sum() - 2 * dim) / (2 * dim * (dim - 1)))


@pytest.mark.parametrize("kind", ["laplace", "uniform", "both tails", "exponential"])
def test_axes_are_as_near_as_those_of_scikit_learn(kind):
    decomposition = pytest.importorskip("sklearn.decomposition")
    ours, theirs = [], []
    for seed in range(3):
        y = sources(kind, 5000, 6, seed)
        mixing = np.random.default_rng(seed).standard_normal((6, 6))
        ours.append(amari(unmix(y @ mixing.T, straighten=False).matrix_ @ (mixing * y.std(0))))
        theirs.append(
            amari(
                decomposition.FastICA(random_state=seed, max_iter=500, tol=1e-5).fit(y @ mixing.T).components_
                @ (mixing * y.std(0))
            )
        )
    assert np.mean(ours) < 1.05 * np.mean(theirs)


def test_errors_are_as_large_as_said():
    shares = []
    for seed in range(8):
        y = sources("laplace", 3000, 4, seed)
        found, mixing = unmixed(y)
        angles = 1 - overlaps(found, mixing / y.std(0)).max(1) ** 2
        shares.append(angles.mean() / np.mean([axis.error**2 for axis in found.axes_]))
    assert 0.5 < np.mean(shares) < 1.6


def same(one: Unmixing, other: Unmixing, h: np.ndarray, h_other: np.ndarray, least: float = 0.99999) -> None:
    """Both find the same axes of the same rows, in the same order, up to sign."""
    assert [axis.cue for axis in one.axes_] == [axis.cue for axis in other.axes_]
    first, second = one.transform(h), other.transform(h_other)
    cosines = [abs(np.corrcoef(first[:, at], second[:, at])[0, 1]) for at in range(first.shape[1])]
    assert min(cosines) > least


MIXED = ["uniform", "4", "1.5"]  # of unequal departures, so that their order is known


@pytest.mark.parametrize("paired", [False, True])
def test_rotating_scaling_shifting_and_permuting_columns_change_nothing(paired):
    y, y_next = latents(MIXED, [0.9, 0.8, 0.7]) if paired else (latents(MIXED)[0], None)
    plain = unmix(y, y_next, straighten=False)
    order = [2, 0, 1]
    changes = {
        "rotated": lambda h: h @ rotation(3).T,
        "scaled": lambda h: h * [1e-12, 1.0, 1e9],
        "shifted": lambda h: h + np.array([1e6, 0, -1e3]),
        "permuted": lambda h: h[:, order],
        "tiny": lambda h: h * 1e-30,
        "huge": lambda h: h * 1e30,
        "any": lambda h: h @ np.random.default_rng(1).standard_normal((3, 3)) + 5,
    }
    for change in changes.values():
        found = unmix(change(y), None if y_next is None else change(y_next), straighten=False)
        same(plain, found, y, change(y))


def test_rows_may_come_in_any_container(tmp_path):
    y, y_next = (view[:5000] @ rotation(2).T for view in latents(["uniform"] * 2))
    plain = unmix(y, y_next)
    for dtype in (np.float32, np.float16):
        same(plain, unmix(y.astype(dtype), y_next.astype(dtype)), y, y)
    same(plain, unmix(torch.tensor(y, requires_grad=True), torch.tensor(y_next)), y, y)
    same(plain, unmix(torch.tensor(y).bfloat16(), torch.tensor(y_next).bfloat16()), y, y)
    np.save(tmp_path / "h.npy", y)
    mapped = np.load(tmp_path / "h.npy", mmap_mode="r")
    assert np.array_equal(unmix(mapped, y_next).matrix_, plain.matrix_)
    with h5py.File(tmp_path / "h.h5", "w") as file:
        assert np.array_equal(unmix(file.create_dataset("h", data=y), y_next).matrix_, plain.matrix_)
    assert np.array_equal(unmix(y.tolist(), y_next.tolist()).matrix_, plain.matrix_)
    same(plain, unmix(np.round(1000 * y).astype(int)), y, 1000 * y)


def test_the_same_seed_gives_the_same_axes_and_other_seeds_the_same_answer():
    y, _ = latents(MIXED)
    first, again = unmix(y, straighten=False, seed=3), unmix(y, straighten=False, seed=3)
    assert np.array_equal(first.matrix_, again.matrix_)
    assert first.to_dict() == again.to_dict()
    same(first, unmix(y, straighten=False, seed=4), y, y)


def test_more_rows_than_are_searched_give_what_all_in_memory_give(monkeypatch):
    y, y_next = latents(["uniform", "4", "1.5"], [0.9, 0.8, 0.7])
    q = rotation(3)
    for scale in (1.0, 1e-45):  # below what float32 holds
        h, h_next = y @ q.T * scale, y_next @ q.T * scale
        whole = unmix(h, h_next, straighten=False)
        with monkeypatch.context() as patch:
            patch.setattr(whitening, "_MOST", 4000)
            patch.setattr("isojepa.certificates.embeddings._CHUNK", 6000)
            streamed = unmix(h, h_next, straighten=False)
        same(whole, streamed, h, h)
        assert streamed.rows_ == len(h)
        ratios = [a.error / b.error for a, b in zip(streamed.axes_, whole.axes_, strict=True)]
        assert 0.5 < min(ratios) <= max(ratios) < 2


def test_second_harmonics_are_said_to_depend_and_dim_leaves_them_out():
    y, y_next = latents(["uniform"] * 2)

    def with_harmonics(first: np.ndarray) -> np.ndarray:
        # cos(2 a) of cos(a): the second eigenfunction of the uniform law
        second = first**2 - 1
        return np.column_stack((first, 0.5 * second / second.std(0)))

    assert np.corrcoef(
        functions("uniform")(2, np.linspace(-1, 1, 99)), functions("uniform")(1, np.linspace(-1, 1, 99)) ** 2
    )[0, 1] ** 2 == pytest.approx(1)
    found = unmix(with_harmonics(y), with_harmonics(y_next), straighten=False)
    assert found.named_ == 2
    for axis in found.axes_:
        assert axis.dependent
        assert found.axes_[axis.partner].partner == axis.number
        assert axis.named is (axis.number < 2)
        assert ("harmonic of the other" if axis.named else "depends on another axis") in axis.sentence
    assert overlaps(found, np.eye(4))[:2, :2].max(1).min() > 0.99
    led = unmix(with_harmonics(y), with_harmonics(y_next), dim=2, straighten=False)
    assert led.named_ == 2
    assert led.matrix_.shape == (2, 4)
    assert not any(axis.dependent for axis in led.axes_)
    assert overlaps(led, np.eye(4))[:, :2].max(1).min() > 0.99


def test_dim_keeps_what_is_slow_however_small_it_is():
    y, y_next = latents(["uniform"] * 2)
    fast = np.random.default_rng(0).standard_normal((2, len(y), 2)) * 10
    h, h_next = (np.column_stack((first, noise)) for first, noise in zip((y, y_next), fast, strict=True))
    q = rotation(4)
    found = unmix(h @ q.T, h_next @ q.T, dim=2, straighten=False)
    assert found.named_ == 2
    assert overlaps(found, q)[:, :2].max(1).min() > 0.99
    back = found.inverse_transform(found.transform(h @ q.T)) @ q
    assert np.abs(np.corrcoef(back[:, 0], h[:, 0])[0, 1]) > 0.99


@pytest.mark.parametrize("paired", [False, True])
def test_axes_that_the_rows_in_memory_do_not_show_are_found_in_passes_over_all(monkeypatch, paired):
    dim, held = 32, 600
    q = rotation(dim)
    h, h_next = (view @ q.T for view in latents(["uniform"] * dim, 0.8, 9_000))
    h_next = h_next if paired else None
    monkeypatch.setattr(whitening, "_HELD", held * dim)
    few = unmix(h[:held], None if h_next is None else h_next[:held], straighten=False, tolerance=0)
    assert few.named_ < dim / 2
    told = []
    found = unmix(
        h, h_next, straighten=False, tolerance=0, progress=lambda done, total, name: told.append(name)
    )
    assert found.named_ == dim
    assert overlaps(found, q).max(1).min() > 0.995
    assert {"axes, pass 1", "axes, pass 2", "all rows, pass 1"} <= set(told)  # each may take minutes


def test_passes_over_halves_see_every_row_once_and_those_of_a_half_alone(monkeypatch):
    monkeypatch.setattr(whitening, "_READ", 100)
    monkeypatch.setattr(whitening, "_HELD", 2 * 200)
    monkeypatch.setattr(whitening, "_MOST", 200)
    rng = np.random.default_rng(0)
    number = rng.permutation(3_001)  # which row it is
    rows = np.column_stack((number, rng.standard_normal(3_001)))
    rows[17] = np.nan
    embeddings = Embeddings(rows, drop=True)
    made = whitening.whiten(embeddings)
    sample = whitening.take_sample(embeddings, made)
    pieces = []

    def look(turn, views, scores):
        pieces.extend(rows @ turn.T for (rows,) in views)

    def numbers(white):
        return (white.double().numpy() @ made.inverse.T + made.mean)[:, 0].round().astype(int).tolist()

    monkeypatch.setattr(whitening, "sum_shapes", look)
    seen = []
    for one_pass in whitening.passes_over_halves(embeddings, made, sample):
        pieces.clear()
        one_pass(np.eye(2), torch.zeros(4, 2))
        assert len(pieces) > 5
        seen.append(numbers(torch.cat(pieces)))
    assert sorted(seen[0] + seen[1]) == sorted(np.delete(number, 17).tolist())
    for which, own in enumerate(seen):
        held = numbers(sample.half(which).first)
        assert len(held) > 90
        assert set(held) <= set(own)


def test_transform_and_back_and_latents():
    y, y_next = latents(["uniform", "normal", "normal"])
    h = y @ rotation(3).T * 3 + 7
    found = unmix(h, y_next @ rotation(3).T * 3 + 7)
    axes = found.transform(h)
    assert np.allclose(axes.var(0), 1, atol=0.02)
    assert np.allclose(found.inverse_transform(axes), h)
    straight = found.latents(h)
    assert found.axes_[0].warp is not None
    assert np.corrcoef(straight[:, 0], np.arcsin(y[:, 0] / np.abs(y[:, 0]).max()))[0, 1] ** 2 > 0.995
    assert np.array_equal(straight[:, 1:], axes[:, 1:])  # a block stays as it is
    assert [axis.warp for axis in found.axes_[1:]] == [None, None]
    with pytest.raises(ValueError, match="h must have 3 columns as what was unmixed, got 2"):
        found.transform(h[:, :2])
    with pytest.raises(ValueError, match="y must have 3 columns"):
        found.inverse_transform(h[:, :2])


def test_paths_bring_pairs_and_lags():
    rng = np.random.default_rng(0)
    slow, fast = normal_paths(400, 20, 1, 0.9, rng), normal_paths(400, 20, 1, 0.6, rng)
    paths = np.concatenate((slow, fast), 2) @ rotation(2).T
    found = unmix(paths=paths, straighten=False)
    assert [axis.cue for axis in found.axes_] == ["rate", "rate"]
    assert overlaps(found, rotation(2)).max(1).min() > 0.99
    moved = list(np.moveaxis(paths, 1, 0))
    assert np.array_equal(unmix(paths=moved, straighten=False).matrix_, found.matrix_)
    same(
        found,
        unmix(paths=torch.tensor(paths, requires_grad=True).bfloat16(), straighten=False),
        moved[0],
        moved[0],
    )
    unequal = unmix(paths=[path[: 100 + 20 * at] for at, path in enumerate(moved)], straighten=False)
    assert unequal.named_ == 2
    holes = paths.copy()
    holes[5, 3, 1] = np.nan
    assert unmix(paths=holes, drop=True, straighten=False).named_ == 2


def test_rows_that_are_not_finite_are_refused_or_left_out():
    y = sources("uniform", 4000, 3)
    bad = y.copy()
    bad[17, 1] = np.inf
    with pytest.raises(ValueError, match="NaN or Inf in 1 of 4000 samples"):
        unmix(bad)
    for left_out in (slice(17, 18), slice(0, 1500), slice(0, None, 2)):
        bad = y.copy()
        bad[left_out] = np.nan
        found = unmix(bad, drop=True, straighten=False)
        assert found.named_ == 3
        assert found.rows_ == int(np.isfinite(bad).all(1).sum())
    for block in range(0, 20, 2):  # every other block, which would be a whole half
        bad[200 * block : 200 * (block + 1)] = np.nan
        bad[200 * (block + 1) : 200 * (block + 2)] = y[200 * (block + 1) : 200 * (block + 2)]
    assert unmix(bad, drop=True, straighten=False).named_ == 3


def test_a_first_piece_without_any_finite_row_is_left_out(monkeypatch):
    monkeypatch.setattr("isojepa.certificates.embeddings._CHUNK", 300)
    bad = sources("uniform", 3000, 3)
    bad[:500] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert unmix(bad, drop=True, straighten=False).named_ == 3


UNIFORM = sources("uniform", 300, 3)
STILL = UNIFORM * [1.0, 0.0, 1.0] + 4
TWICE = UNIFORM[:, [0, 1, 0]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "embeddings must be given, h or paths, got neither"),
        ({"h": UNIFORM[:25]}, "h must have at least 26 rows to unmix 3 dimensions, got 25"),
        ({"h": np.full((300, 3), np.nan), "drop": True}, "at least 26 rows without NaN or Inf .* got 0"),
        ({"h": STILL}, "h must vary in every column, got constant ones: 1; leave them out"),
        (
            {"h": UNIFORM, "h_next": UNIFORM + np.array([0.0, 2.0, 0.0])},
            r"one law, got means that differ .* in columns 1:",
        ),
        ({"h": TWICE}, "h must vary in every direction, got 2 of 3: ask for dim=2"),
        ({"h": UNIFORM, "h_next": UNIFORM[1:]}, "equal lengths, got 300 and 299"),
        ({"h": 0 * UNIFORM, "h_next": 0 * UNIFORM + 2}, "hardly vary in either .* between them: 0, 1, 2"),
        ({"h": UNIFORM > 0}, "must hold real numbers, got bool"),
        ({"h": [["a"] * 3] * 300}, "must hold real numbers"),
        ({"h": np.random.default_rng(0).standard_t(1.5, (5000, 3))}, "tails with a variance"),
        ({"h": UNIFORM, "paths": [UNIFORM]}, "paths bring their own pairs, got h too"),
        ({"paths": UNIFORM}, r"paths must be \(steps, paths, dim\) or a list"),
        ({"paths": [UNIFORM[:4], UNIFORM[4:7]]}, "at least 26 rows .* got 5"),
        ({"paths": [torch.ones(9, 2, device="meta")]}, "paths must be a dense tensor"),
        ({"h": UNIFORM, "dim": 4}, "dim must be at most the 3 dimensions that h has, got 4"),
        ({"h": UNIFORM, "tolerance": 1}, r"tolerance must lie in \[0, 1\), got 1"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(given, message):
    with pytest.raises(ValueError, match=message):
        unmix(**given)


def test_a_direction_that_varies_in_half_of_the_rows_alone_is_no_error():
    h = sources("uniform", 3000, 3)
    h[:, 2] = 0
    h[10:60, 2] = 1
    assert not any(axis.named and axis.stability < 0.9 for axis in unmix(h, straighten=False).axes_)


def test_rows_that_stand_still_in_places_give_numbers():
    steps = np.repeat([[5.0, 5.0], [1.0, 1.0]], 30, 0)  # one in each half of the blocks
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (60, 2))
    signs[30:] = 1e-9 * signs[:30]  # blocks of three rows, in some of which an axis is 0 throughout
    for first, second in ((steps, None), (steps, steps), (signs, -signs)):
        for axis in unmix(first, second, dim=1 if first is steps else 2, straighten=False).axes_:
            assert np.isfinite(axis.departure)
            assert axis.correlation is None or np.isfinite(axis.correlation)


def test_what_is_not_fitted_says_so():
    fresh = Unmixing()
    for name in ("axes_", "matrix_", "named_", "verdict_"):
        with pytest.raises(NotFitted, match="found first, by fit"):
            getattr(fresh, name)
    with pytest.raises(NotFitted):
        fresh.transform(UNIFORM)
    assert str(fresh) == repr(fresh)
    assert not hasattr(fresh, "nonsense")


def test_the_verbs_are_those_of_scikit_learn():
    base = pytest.importorskip("sklearn.base")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    asked = Unmixing(tolerance=0.02, straighten=False, seed=5)
    assert base.clone(asked).get_params() == asked.get_params()
    y, _ = latents(MIXED)
    whole = make_pipeline(StandardScaler(), base.clone(asked)).fit(y)
    assert whole.transform(y).shape == y.shape
    assert whole.set_params(unmixing__tolerance=0.5).fit_transform(y).shape == y.shape
    assert whole[-1].named_ == 0
    assert np.array_equal(base.clone(asked).fit_transform(y), base.clone(asked).fit(y).transform(y))
    with pytest.raises(ValueError, match="parameter"):
        asked.set_params(tollerance=0.1)
    with pytest.raises(ValueError, match="tolerance must lie"):
        asked.set_params(tolerance=7).fit(y)
    assert Unmixing().tolerance == unmixing.TOLERANCE


def test_pairs_that_say_nothing_of_rates_do_no_harm():
    y = sources("uniform", 5000, 3)
    noise = sources("uniform", 5000, 3, 1)
    for second in (y, -(y - 0.5) + 0.5, noise):
        found = unmix(y, second, straighten=False)
        assert found.named_ == 3
        assert overlaps(found, np.eye(3)).max(1).min() > 0.99
