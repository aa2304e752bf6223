"""Axes found again in worlds where they are known; what changes nothing; what is refused."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from isojepa.training.checkpoints import load_tensors, save_tensors
from isojepa.unmixing import Unmixing, rotations, unmix, unmixing
from isojepa.unmixing.unmixing import NotFitted
from tests.unmixing.worlds import functions, latents, normal_pairs, normal_paths, overlaps, partners, rotation


def unmixed(y: np.ndarray, y_next: np.ndarray | None = None, **asked) -> tuple[Unmixing, np.ndarray]:
    """Rotated and unmixed, and the mixing."""
    q = rotation(y.shape[1], y.shape[1])
    found = unmix(y @ q.T, None if y_next is None else y_next @ q.T, linearize=False, **asked)
    return found, q * y.std(0)


def test_a_law_near_to_normal_is_named_where_pairs_show_that_it_is_the_worlds():
    y, y_next = latents(["2.5"] * 2, 0.8, 100_000)
    found, mixing = unmixed(y, y_next)
    assert found.n_identified_ == 2
    assert overlaps(found, mixing).max(1).min() > 0.99
    alone, _ = unmixed(y)
    assert alone.n_identified_ == 0
    assert "may be the encoder's" in alone.verdict_
    assert unmixed(y, tolerance=0)[0].n_identified_ == 2


def test_what_an_encoder_leaves_of_a_copula_world_names_nothing():
    z, z_next = normal_pairs(100_000, 2, 0.8, np.random.default_rng(0))
    # short of the normal scores of a law with ends, by as much as encoders are: 1.6 % of the variance
    seen, after = (np.tanh(view / 2) for view in (z, z_next))
    found, _ = unmixed(seen, after)
    assert all(0.01 < axis.departure < 0.025 for axis in found.components_)
    assert found.n_identified_ == 0
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
    assert found.n_identified_ == 4
    assert {axis.identified_by for axis in found.components_} == {"rate"}
    assert overlaps(found, mixing).max(1).min() > 0.98
    trusting, mixing = unmixed(left(z), left(z_next), tolerance=0)
    assert overlaps(trusting, mixing).max(1).min() < 0.95


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize(("law", "dim"), [("uniform", 2), ("bimodal", 5), ("4", 8), ("3", 3), ("1.5", 16)])
def test_all_axes_of_a_langevin_world_of_one_rate_are_named(law, dim, paired):
    y, y_next = latents([law] * dim)
    found, mixing = unmixed(y, y_next if paired else None)
    assert found.n_identified_ == dim
    assert found.blocks_ == ()
    assert {axis.identified_by for axis in found.components_} == {"shape"}
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
        "3 of 5 components are identified, each up to its sign; "
        "2 stay a block of 2, any rotation of which is as good."
    )
    assert all(np.isinf(axis.error) and axis.reason for axis in found.components_[3:])


def test_normal_axes_of_unequal_rates_are_named_by_rate_the_slowest_first():
    found, mixing = unmixed(*latents(["normal"] * 3, [0.7, 0.9, 0.8]))
    assert [axis.identified_by for axis in found.components_] == ["rate"] * 3
    assert partners(found, mixing) == [1, 2, 0]
    assert overlaps(found, mixing).max(1).min() > 0.99
    assert [axis.correlation for axis in found.components_] == pytest.approx([0.9, 0.8, 0.7], abs=0.02)


def test_shape_and_rate_together_tell_what_neither_tells_alone():
    y, y_next = latents(["normal", "normal", "uniform", "uniform"], [0.9, 0.7, 0.9, 0.7])
    found, mixing = unmixed(y, y_next)
    assert found.n_identified_ == 4
    assert overlaps(found, mixing).max(1).min() > 0.99
    alone, _ = unmixed(y)
    assert alone.n_identified_ == 2


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
    assert found.n_identified_ == 6
    assert overlaps(found, mixing).max(1).min() > 0.999
    assert not any(axis.dependent for axis in found.components_)


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
        ours.append(amari(unmix(y @ mixing.T, linearize=False).matrix_ @ (mixing * y.std(0))))
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
        shares.append(angles.mean() / np.mean([axis.error**2 for axis in found.components_]))
    assert 0.5 < np.mean(shares) < 1.6


def same(one: Unmixing, other: Unmixing, h: np.ndarray, h_other: np.ndarray, least: float = 0.99999) -> None:
    """Both find the same axes of the same rows, in the same order, up to sign."""
    assert [axis.identified_by for axis in one.components_] == [
        axis.identified_by for axis in other.components_
    ]
    first, second = one.transform(h), other.transform(h_other)
    cosines = [abs(np.corrcoef(first[:, at], second[:, at])[0, 1]) for at in range(first.shape[1])]
    assert min(cosines) > least


MIXED = ["uniform", "4", "1.5"]  # of unequal departures, so that their order is known


@pytest.mark.parametrize("paired", [False, True])
def test_rotating_scaling_shifting_and_permuting_columns_change_nothing(paired):
    y, y_next = latents(MIXED, [0.9, 0.8, 0.7]) if paired else (latents(MIXED)[0], None)
    plain = unmix(y, y_next, linearize=False)
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
        found = unmix(change(y), None if y_next is None else change(y_next), linearize=False)
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
    first, again = unmix(y, linearize=False, seed=3), unmix(y, linearize=False, seed=3)
    assert np.array_equal(first.matrix_, again.matrix_)
    assert first.to_dict() == again.to_dict()
    same(first, unmix(y, linearize=False, seed=4), y, y)


def test_second_harmonics_are_said_to_depend_and_dim_leaves_them_out():
    y, y_next = latents(["uniform"] * 2)

    def with_harmonics(first: np.ndarray) -> np.ndarray:
        # cos(2 a) of cos(a): the second eigenfunction of the uniform law
        second = first**2 - 1
        return np.column_stack((first, 0.5 * second / second.std(0)))

    assert np.corrcoef(
        functions("uniform")(2, np.linspace(-1, 1, 99)), functions("uniform")(1, np.linspace(-1, 1, 99)) ** 2
    )[0, 1] ** 2 == pytest.approx(1)
    found = unmix(with_harmonics(y), with_harmonics(y_next), linearize=False)
    assert found.n_identified_ == 2
    for axis in found.components_:
        assert axis.dependent
        assert found.components_[axis.partner].partner == axis.number
        assert axis.identified is (axis.number < 2)
        assert (
            "harmonic of the other" if axis.identified else "depends on another component"
        ) in axis.sentence
    assert overlaps(found, np.eye(4))[:2, :2].max(1).min() > 0.99
    led = unmix(with_harmonics(y), with_harmonics(y_next), dim=2, linearize=False)
    assert led.n_identified_ == 2
    assert led.matrix_.shape == (2, 4)
    assert not any(axis.dependent for axis in led.components_)
    assert overlaps(led, np.eye(4))[:, :2].max(1).min() > 0.99


def test_dim_keeps_what_is_slow_however_small_it_is():
    y, y_next = latents(["uniform"] * 2)
    fast = np.random.default_rng(0).standard_normal((2, len(y), 2)) * 10
    h, h_next = (np.column_stack((first, noise)) for first, noise in zip((y, y_next), fast, strict=True))
    q = rotation(4)
    found = unmix(h @ q.T, h_next @ q.T, dim=2, linearize=False)
    assert found.n_identified_ == 2
    assert overlaps(found, q)[:, :2].max(1).min() > 0.99
    back = found.inverse_transform(found.transform(h @ q.T)) @ q
    assert np.abs(np.corrcoef(back[:, 0], h[:, 0])[0, 1]) > 0.99


def test_transform_and_back_and_latents():
    y, y_next = latents(["uniform", "normal", "normal"])
    h = y @ rotation(3).T * 3 + 7
    found = unmix(h, y_next @ rotation(3).T * 3 + 7)
    axes = found.transform(h)
    assert np.allclose(axes.var(0), 1, atol=0.02)
    assert np.allclose(found.inverse_transform(axes), h)
    straight = found.latents(h)
    assert found.components_[0].to_latent is not None
    assert np.corrcoef(straight[:, 0], np.arcsin(y[:, 0] / np.abs(y[:, 0]).max()))[0, 1] ** 2 > 0.995
    assert np.array_equal(straight[:, 1:], axes[:, 1:])  # a block stays as it is
    assert [axis.to_latent for axis in found.components_[1:]] == [None, None]
    with pytest.raises(ValueError, match="h must have 3 columns as the fitted rows, got 2"):
        found.transform(h[:, :2])
    with pytest.raises(ValueError, match="y must have 3 columns"):
        found.inverse_transform(h[:, :2])


def test_paths_bring_pairs_and_lags():
    rng = np.random.default_rng(0)
    slow, fast = normal_paths(400, 20, 1, 0.9, rng), normal_paths(400, 20, 1, 0.6, rng)
    paths = np.concatenate((slow, fast), 2) @ rotation(2).T
    found = unmix(paths=paths, linearize=False)
    assert [axis.identified_by for axis in found.components_] == ["rate", "rate"]
    assert overlaps(found, rotation(2)).max(1).min() > 0.99
    moved = list(np.moveaxis(paths, 1, 0))
    assert np.array_equal(unmix(paths=moved, linearize=False).matrix_, found.matrix_)
    same(
        found,
        unmix(paths=torch.tensor(paths, requires_grad=True).bfloat16(), linearize=False),
        moved[0],
        moved[0],
    )
    unequal = unmix(paths=[path[: 100 + 20 * at] for at, path in enumerate(moved)], linearize=False)
    assert unequal.n_identified_ == 2
    holes = paths.copy()
    holes[5, 3, 1] = np.nan
    assert unmix(paths=holes, drop=True, linearize=False).n_identified_ == 2


def test_rows_that_are_not_finite_are_refused_or_left_out():
    y = sources("uniform", 4000, 3)
    bad = y.copy()
    bad[17, 1] = np.inf
    with pytest.raises(ValueError, match="NaN or Inf in 1 of 4000 samples"):
        unmix(bad)
    for left_out in (slice(17, 18), slice(0, 1500), slice(0, None, 2)):
        bad = y.copy()
        bad[left_out] = np.nan
        found = unmix(bad, drop=True, linearize=False)
        assert found.n_identified_ == 3
        assert found.rows_ == int(np.isfinite(bad).all(1).sum())
    for block in range(0, 20, 2):  # every other block, which would be a whole half
        bad[200 * block : 200 * (block + 1)] = np.nan
        bad[200 * (block + 1) : 200 * (block + 2)] = y[200 * (block + 1) : 200 * (block + 2)]
    assert unmix(bad, drop=True, linearize=False).n_identified_ == 3


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
            r"one distribution, got means that differ .* in columns 1:",
        ),
        ({"h": TWICE}, "h must vary in every direction, got 2 of 3: ask for dim=2"),
        ({"h": UNIFORM, "h_next": UNIFORM[1:]}, "equal lengths, got 300 and 299"),
        ({"h": 0 * UNIFORM, "h_next": 0 * UNIFORM + 2}, "hardly vary in one view or both: 0, 1, 2"),
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


def test_what_is_not_fitted_says_so():
    fresh = Unmixing()
    for name in ("components_", "matrix_", "n_identified_", "verdict_"):
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

    asked = Unmixing(tolerance=0.02, linearize=False, seed=5)
    assert base.clone(asked).get_params() == asked.get_params()
    y, _ = latents(MIXED)
    whole = make_pipeline(StandardScaler(), base.clone(asked)).fit(y)
    assert whole.transform(y).shape == y.shape
    assert whole.set_params(unmixing__tolerance=0.5).fit_transform(y).shape == y.shape
    assert whole[-1].n_identified_ == 0
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
        found = unmix(y, second, linearize=False)
        assert found.n_identified_ == 3
        assert overlaps(found, np.eye(3)).max(1).min() > 0.99


def test_rows_beyond_the_sample_enter_the_covariance_and_the_result_states_the_sample(monkeypatch):
    y, y_next = latents(MIXED, [0.9, 0.8, 0.7])
    whole = unmix(y, y_next, linearize=False)
    assert (whole.rows_, whole.sample_rows_) == (20_000, 20_000)
    monkeypatch.setattr(rotations, "MAX_SAMPLE_ROWS", 4000)
    monkeypatch.setattr("isojepa.certificates.pairs.MAX_BLOCK_NUMBERS", 6000)
    sampled = unmix(y, y_next, linearize=False)
    assert (sampled.rows_, sampled.sample_rows_) == (20_000, 4000)
    assert np.allclose(sampled.mean_, (y.mean(0) + y_next.mean(0)) / 2)
    same(whole, sampled, y, y, 0.998)
    ratios = [a.error / b.error for a, b in zip(sampled.components_, whole.components_, strict=True)]
    assert 1 < min(ratios) <= max(ratios) < 5  # about sqrt(5)


NOTE = "isojepa-unmixing"


@pytest.fixture(scope="module")
def fitted() -> Unmixing:
    y, y_next = latents(["uniform", "normal", "normal", "4"], n=5000)
    return unmix(y @ rotation(4).T, y_next @ rotation(4).T, seed=2, tolerance=0.005)


@pytest.fixture
def saved(fitted, tmp_path) -> Path:
    fitted.save(tmp_path / "axes.safetensors")
    return tmp_path / "axes.safetensors"


def test_what_is_read_is_what_was_written(fitted, saved):
    found = Unmixing.load(saved)
    assert found.get_params() == fitted.get_params()
    assert found.to_dict() == fitted.to_dict()
    assert str(found) == str(fitted)
    h = np.random.default_rng(0).standard_normal((50, 4))
    assert np.array_equal(found.transform(h), fitted.transform(h))
    assert np.array_equal(found.inverse_transform(h), fitted.inverse_transform(h))
    assert np.array_equal(found.latents(h), fitted.latents(h))
    assert found.blocks_ == ((2, 3),)
    assert np.isinf(found.components_[3].error)
    found.save(saved)
    assert Unmixing.load(saved).to_dict() == fitted.to_dict()


def test_what_is_not_fitted_is_not_written(tmp_path):
    with pytest.raises(NotFitted):
        Unmixing().save(tmp_path / "axes")
    assert not (tmp_path / "axes").exists()


def test_files_that_are_missing_cut_short_or_something_else_are_refused(saved, tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        Unmixing.load(tmp_path / "nothing")
    whole = saved.read_bytes()
    for length in (0, 7, 100, len(whole) - 1):
        saved.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="truncated or not a safetensors file"):
            Unmixing.load(saved)
    save_tensors(saved, {"weight": torch.ones(3)})
    with pytest.raises(ValueError, match="got another safetensors file"):
        Unmixing.load(saved)


def changed(path: Path, edit) -> None:
    """Write the file again with other tensors or notes."""
    tensors, header = load_tensors(path)
    notes = json.loads(header[NOTE])
    edit(tensors, notes)
    save_tensors(path, tensors, header | {NOTE: json.dumps(notes)})


def put(*place, value):
    """An edit of one note."""

    def edit(tensors, notes) -> None:
        inside = notes
        for name in place[:-1]:
            inside = inside[name]
        inside[place[-1]] = value

    return edit


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors: {"matrix": tensors["matrix"] * float("nan")},
        lambda tensors: {"matrix": tensors["matrix"][:, :2].clone()},
        lambda tensors: {"inverse": tensors["inverse"] + 0.01},
        lambda tensors: {"mean": torch.cat((tensors["mean"], tensors["mean"]))},
    ],
)
def test_matrices_that_do_not_fit_are_refused(saved, change):
    changed(saved, lambda tensors, notes: tensors.update(change(tensors)))
    with pytest.raises(ValueError, match="is damaged: its matrices"):
        Unmixing.load(saved)


NOTES = {
    "no axes": put("axes", value=[]),
    "fewer axes": lambda tensors, notes: notes["axes"].pop(),
    "a block out of range": put("axes", 2, "block", value=[2, 9]),
    "a block that the other does not know": put("axes", 3, "block", value=[3]),
    "a name in a block": put("axes", 2, "cue", value="shape"),
    "no name and an error": put("axes", 0, "cue", value="none"),
    "an unknown cue": put("axes", 0, "cue", value="guess"),
    "an error of NaN": put("axes", 0, "error", value=float("nan")),
    "a stability as text": put("axes", 0, "stability", value="1"),
    "dependent perhaps": put("axes", 0, "dependent", value="perhaps"),
    "a cause that is none": put("axes", 2, "cause", value="laziness"),
    "a warp that is none": put("axes", 0, "warp", value={"y": [1, 2]}),
    "an unknown parameter": put("parameters", "colour", value=1),
}


@pytest.mark.parametrize("edit", NOTES.values(), ids=NOTES)
def test_notes_that_lie_are_refused(saved, edit):
    changed(saved, edit)
    with pytest.raises(ValueError, match=r"is damaged|notes that cannot be read"):
        Unmixing.load(saved)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[" * 100_000, "null", "{}", '{"axes": [], "axes": []}', "9" * 5000, " " * (33 << 20)],
    ids=["empty", "cut", "deep", "null", "bare", "twice", "digits", "huge"],
)
def test_notes_that_are_no_notes_are_refused(saved, text):
    tensors, header = load_tensors(saved)
    save_tensors(saved, tensors, header | {NOTE: text})
    with pytest.raises(ValueError, match=r"notes that cannot be read|notes of at most 32 MB"):
        Unmixing.load(saved)
