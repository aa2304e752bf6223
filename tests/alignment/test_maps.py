"""Maps against scikit-learn, scipy and slow forms; what they refuse; files."""

import numpy as np
import pytest
import scipy
import torch

from isojepa.alignment import AlignmentMap
from isojepa.alignment.closed_forms import KINDS
from isojepa.alignment.maps import MapNotFitted


def paired(n: int = 400, p: int = 6, q: int = 6, noise: float = 0.3, seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p)) @ rng.normal(size=(p, p)) + rng.normal(size=p)
    y = x @ rng.normal(size=(p, q)) + noise * rng.normal(size=(n, q)) + 5
    return x, y


def standard(rows: np.ndarray) -> np.ndarray:
    return (rows - rows.mean(0)) / rows.std(0)


def test_ols_is_least_squares_with_an_intercept() -> None:
    x, y = paired(q=4)
    fitted = AlignmentMap("ols").fit(x, y)
    ones = np.column_stack((np.ones(len(x)), x))
    solution = np.linalg.lstsq(ones, y, rcond=None)[0]
    assert fitted.transform(x) == pytest.approx(ones @ solution, abs=1e-8)
    assert fitted.matrix_ == pytest.approx(
        np.linalg.lstsq(standard(x), standard(y), rcond=None)[0].T, abs=1e-9
    )


def test_ridge_equals_equation_4() -> None:
    x, y = paired()
    fitted = AlignmentMap("ridge", ridge=7.5).fit(x, y)
    columns, targets = standard(x).T, standard(y).T  # as the paper writes them: one column for each pair
    w = targets @ columns.T @ np.linalg.inv(columns @ columns.T + 7.5 * np.eye(6))
    assert fitted.matrix_ == pytest.approx(w, abs=1e-10)


@pytest.mark.parametrize("n", [12, 60, 400])
def test_the_penalty_is_the_one_of_least_left_out_error(n: int) -> None:
    x, y = paired(n, p=15, q=4, noise=6.0)
    fitted = AlignmentMap().fit(x, y)
    a, b = standard(x), standard(y)

    def left_out(penalty: float) -> float:
        total = 0.0
        for i in range(n):
            rest = np.arange(n) != i
            center, offset = a[rest].mean(0), b[rest].mean(0)
            u = a[rest] - center
            w = np.linalg.solve(u.T @ u + penalty * np.eye(15), u.T @ (b[rest] - offset))
            total += float(((b[i] - offset - (a[i] - center) @ w) ** 2).sum())
        return total

    best = left_out(fitted.ridge_)
    for factor in (0.3, 0.6, 1.7, 3.3):
        assert best <= left_out(fitted.ridge_ * factor) * (1 + 1e-9)


def test_the_closed_form_of_leaving_out_equals_refitting() -> None:
    from isojepa.alignment.closed_forms import PairMoments, leave_one_out

    x, y = paired(30, p=5, q=3)
    x, y = standard(x), standard(y)
    moments = PairMoments.empty(5, 3)
    moments.add(x, y)
    total = 0.0
    for i in range(30):
        rest = np.arange(30) != i
        u = x[rest] - x[rest].mean(0)
        w = np.linalg.solve(u.T @ u + 2.0 * np.eye(5), u.T @ (y[rest] - y[rest].mean(0)))
        total += float(((y[i] - y[rest].mean(0) - (x[i] - x[rest].mean(0)) @ w) ** 2).sum())
    assert leave_one_out(x, y, None, moments)(2.0) == pytest.approx(total, rel=1e-10)


def test_procrustes_is_scipys_rotation() -> None:
    x, y = paired()
    fitted = AlignmentMap("procrustes", standardize=False).fit(x, y)
    rotation, _ = scipy.linalg.orthogonal_procrustes(x - x.mean(0), y - y.mean(0))
    assert fitted.matrix_ == pytest.approx(rotation.T, abs=1e-9)
    assert fitted.orthogonality_ < 1e-12
    assert fitted.condition_ == pytest.approx(1)


def test_scaled_procrustes_finds_rotation_and_scale() -> None:
    rng = np.random.default_rng(1)
    rotation = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    x = rng.normal(size=(100, 5)) * [3, 2, 1, 1, 0.5]
    fitted = AlignmentMap("scaled_procrustes", standardize=False).fit(x, 2.5 * x @ rotation + 1)
    assert fitted.matrix_ == pytest.approx(2.5 * rotation.T, abs=1e-9)


def test_no_scale_and_rotation_do_better_than_the_one_that_is_found() -> None:
    x, y = paired(p=4, q=4)
    x, y = x - x.mean(0), y - y.mean(0)
    w = AlignmentMap("scaled_procrustes", standardize=False).fit(x, y).matrix_
    best = float(((y - x @ w.T) ** 2).sum())
    rng = np.random.default_rng(0)
    for step in (1e-3, 1e-2, 0.1):
        for _ in range(20):
            a = rng.normal(size=(4, 4)) * step
            turned = w @ scipy.linalg.expm(a - a.T) * (1 + step * rng.normal())
            assert float(((y - x @ turned.T) ** 2).sum()) >= best - 1e-9


def test_cca_matches_canonical_variates() -> None:
    x, y = paired(2000, p=4, q=6, noise=2.0)
    fitted = AlignmentMap("cca").fit(x, y)
    predicted = fitted.transform(x)
    # all of x's directions are told, each with the spread of its partner: its correlations are canonical ones
    q_x, q_y = (np.linalg.qr(rows - rows.mean(0))[0] for rows in (x, y))
    correlations = np.linalg.svd(q_x.T @ q_y, compute_uv=False)
    q_p = np.linalg.svd(predicted - predicted.mean(0), full_matrices=False)[0][:, :4]
    assert np.linalg.svd(q_p.T @ q_y, compute_uv=False) == pytest.approx(correlations, abs=1e-8)
    assert np.trace(np.cov(predicted.T)) <= np.trace(np.cov(y.T))


def test_low_rank_finds_the_rank_and_equals_the_truncated_fit() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(800, 10))
    y = x @ rng.normal(size=(10, 3)) @ rng.normal(size=(3, 12)) + 0.5 * rng.normal(size=(800, 12))
    chosen = AlignmentMap("low_rank", standardize=False).fit(x, y)
    assert chosen.rank_ == 3
    assert np.linalg.matrix_rank(chosen.matrix_, tol=1e-8) == 3
    a, b = x - x.mean(0), y - y.mean(0)
    ols = np.linalg.lstsq(a, b, rcond=None)[0]
    directions = np.linalg.svd(a @ ols, full_matrices=False)[2][:3]
    assert chosen.matrix_ == pytest.approx((ols @ directions.T @ directions).T, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_give_the_map_of_all_rows(kind: str) -> None:
    x, y = paired(1000, q=5)
    penalty = {"ridge": 3.0} if kind == "ridge" else {}
    whole = AlignmentMap(kind, **penalty).fit(x + 1e4, y)  # far from zero, where sums of squares lose digits
    pieces = AlignmentMap(kind, **penalty)
    for start in range(0, 1000, 130):
        pieces.partial_fit(x[start : start + 130] + 1e4, y[start : start + 130])
    assert pieces.pairs_ == 1000
    assert pieces.matrix_ == pytest.approx(whole.matrix_, abs=1e-7)
    assert pieces.mean_in_ == pytest.approx(whole.mean_in_, rel=1e-12)


def test_a_streamed_penalty_is_near_the_one_of_all_rows() -> None:
    x, y = paired(1000, p=20, noise=5.0)
    streamed = AlignmentMap().partial_fit(x, y)
    assert streamed.score(x, y) == pytest.approx(AlignmentMap().fit(x, y).score(x, y), abs=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_weight_of_two_is_a_pair_twice(kind: str) -> None:
    x, y = paired(100, p=4, q=4)
    options = {"ridge": 1.0} if kind == "ridge" else {"rank": 2} if kind == "low_rank" else {}
    weights = np.where(np.arange(100) < 30, 2.0, 1.0)
    twice = np.concatenate((np.arange(100), np.arange(30)))
    weighted = AlignmentMap(kind, **options).fit(x, y, weights)
    assert weighted.matrix_ == pytest.approx(
        AlignmentMap(kind, **options).fit(x[twice], y[twice]).matrix_, abs=1e-9
    )


def test_a_pair_of_no_weight_is_not_there() -> None:
    x, y = paired(100)
    wild = y.copy()
    wild[:20] = 1e6
    weights = (np.arange(100) >= 20).astype(float)
    assert AlignmentMap().fit(x, wild, weights).transform(x) == pytest.approx(
        AlignmentMap().fit(x[20:], y[20:]).transform(x), rel=1e-9
    )


def test_the_inverse_undoes_a_good_map_and_is_cut_for_a_bad_one() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 3))
    good = AlignmentMap("ols", standardize=False).fit(x, x * [1, 2, 4])
    assert not good.pseudo_
    assert good.inverse_ == pytest.approx(np.diag([1, 0.5, 0.25]), abs=1e-9)
    bad = AlignmentMap("ols", standardize=False, threshold=100).fit(x, x * [1, 2, 1e-4])
    assert bad.condition_ == pytest.approx(2e4)
    assert bad.pseudo_
    assert bad.inverse_ == pytest.approx(np.diag([1, 0.5, 0]), abs=1e-6)
    assert bad.inverse(pseudo=False) == pytest.approx(np.diag([1, 0.5, 1e4]), rel=1e-5, abs=1e-4)


def test_a_wide_map_is_undone_by_a_pseudo_inverse() -> None:
    x, y = paired(p=4, q=9, noise=0.0)
    fitted = AlignmentMap("ols", threshold=1e6).fit(x, y)
    assert fitted.matrix_.shape == (9, 4)
    assert fitted.pseudo_
    assert fitted.inverse_transform(y) == pytest.approx(x, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_constant_columns_can_be_ignored(kind: str) -> None:
    x, y = paired(p=4, q=4)
    wide, flat = np.insert(x, 2, 7.0, axis=1), np.insert(y, 0, -1.0, axis=1)
    options = {"ridge": 1.0} if kind == "ridge" else {"rank": 2} if kind == "low_rank" else {}
    fitted = AlignmentMap(kind, constant="ignore", **options).fit(wide, flat)
    plain = AlignmentMap(kind, **options).fit(x, y)
    assert fitted.transform(wide)[:, 1:] == pytest.approx(plain.transform(x), abs=1e-6)
    assert fitted.transform(wide)[:, 0] == pytest.approx(-1.0, abs=1e-6)


def test_the_numbers_of_the_spectrum() -> None:
    x = np.random.default_rng(0).normal(size=(300, 3))
    fitted = AlignmentMap("ols", standardize=False).fit(x, x * [3, 1, 2])
    assert fitted.singular_values_ == pytest.approx([3, 2, 1])
    w = fitted.matrix_
    assert fitted.orthogonality_ == pytest.approx(np.linalg.norm(w.T @ w - np.eye(3)) / np.sqrt(3))


def test_a_map_that_loses_a_direction_has_no_condition() -> None:
    x, _ = paired(p=3)
    fitted = AlignmentMap("ols", standardize=False).fit(x, np.column_stack((x[:, 0], x[:, 1], x[:, 0])))
    assert fitted.condition_ > 1e12
    with pytest.raises(ValueError, match="pseudo-inverse"):
        AlignmentMap("low_rank", rank=1).fit(x, x).inverse(pseudo=False)


def test_scikit_learn_takes_the_map() -> None:
    sklearn = pytest.importorskip("sklearn")
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = paired()
    cloned = sklearn.base.clone(AlignmentMap("procrustes", threshold=7.0))
    assert cloned.get_params() == AlignmentMap("procrustes", threshold=7.0).get_params()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), AlignmentMap()),
        {"alignmentmap__kind": ["procrustes", "ridge"], "alignmentmap__ridge": [0.1, 1e4]},
    ).fit(x, y)
    assert search.best_params_ == {"alignmentmap__kind": "ridge", "alignmentmap__ridge": 0.1}
    assert search.predict(x).shape == y.shape
    ours = AlignmentMap(ridge=2.0, standardize=False).fit(x, y)
    assert ours.transform(x) == pytest.approx(Ridge(alpha=2.0).fit(x, y).predict(x), abs=1e-8)


@pytest.mark.parametrize("single", [False, True])
def test_a_saved_map_is_the_same_map(tmp_path, single: bool) -> None:
    x, y = paired(q=8)
    fitted = AlignmentMap(threshold=12.0).fit(x, y)
    fitted.save(tmp_path / "map.safetensors", single)
    loaded = AlignmentMap.load(tmp_path / "map.safetensors")
    assert repr(loaded) == repr(fitted)
    assert loaded.ridge_ == fitted.ridge_
    assert loaded.pairs_ == 400
    error = np.abs(loaded.transform(x) - fitted.transform(x)).max()
    assert (0 < error < 1e-4) if single else error == 0
    scalars = 8 * 6 + 2 * 8 + 2 * 6
    assert (tmp_path / "map.safetensors").stat().st_size < scalars * (4 if single else 8) + 1200


def test_a_damaged_file_is_refused(tmp_path) -> None:
    x, y = paired()
    path = tmp_path / "map.safetensors"
    AlignmentMap().fit(x, y).save(path)
    content = path.read_bytes()
    path.write_bytes(content[:-9] + b"\xff" * 9)
    with pytest.raises(ValueError, match="damaged"):
        AlignmentMap.load(path)
    path.write_bytes(content[:100])
    with pytest.raises(ValueError, match="truncated"):
        AlignmentMap.load(path)
    from safetensors.torch import save_file

    save_file({"weight": torch.zeros(2, 2)}, path)
    with pytest.raises(ValueError, match="must be a map"):
        AlignmentMap.load(path)
    with pytest.raises(ValueError, match="does not exist"):
        AlignmentMap.load(tmp_path / "none")


def test_tensors_of_any_float_type_are_taken() -> None:
    x, y = paired()
    a, b = torch.from_numpy(x).float(), torch.from_numpy(y).bfloat16()
    fitted = AlignmentMap().fit(a.requires_grad_(), b)
    assert fitted.score(x, y) > 0.9
    assert fitted.layer()(a).detach().numpy() == pytest.approx(fitted.transform(x), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, y: AlignmentMap().fit(x[:10], y), "10 and 400 rows"),
        (lambda x, y: AlignmentMap("ols").fit(x[:6], y[:6]), "use kind='ridge'"),
        (lambda x, y: AlignmentMap("procrustes").fit(x[:6], y[:6]), "use kind='ridge'"),
        (lambda x, y: AlignmentMap().fit(x * np.nan, y), "first must be finite, got nan in row 0, column 0"),
        (lambda x, y: AlignmentMap().fit(x, y[:, 0]), "second must be rows"),
        (lambda x, y: AlignmentMap().fit(np.column_stack((x, 0 * x)), y), r"6 constant ones \(6, 7"),
        (lambda x, y: AlignmentMap("rigde"), "did you mean 'ridge'"),
        (lambda x, y: AlignmentMap(ridge=-1), "ridge must be at least 0"),
        (lambda x, y: AlignmentMap(threshold=0.5), "threshold must be at least 1"),
        (lambda x, y: AlignmentMap("cca", rank=9).fit(x, y), "rank must be at most 6"),
        (lambda x, y: AlignmentMap().fit(x, y).transform(y[:, :4]), "must have 6 columns"),
        (lambda x, y: AlignmentMap().fit(x, y).inverse_transform(x[:, :2]), "must have 6 columns"),
        (lambda x, y: AlignmentMap().fit(x, y, np.ones(3)), "sample_weight must be 400"),
        (lambda x, y: AlignmentMap().fit(x, y, -np.ones(400)), "none negative"),
        (lambda x, y: AlignmentMap().partial_fit(x, y).partial_fit(x[:, :3], y), "must have 6 and 6 columns"),
        (lambda x, y: AlignmentMap().set_params(rigde=1), "did you mean 'ridge'"),
        (lambda x, y: AlignmentMap().fit([["a"]], [["b"]]), "must hold numbers"),
    ],
)
def test_what_is_wrong_is_said(call, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call(*paired())


def test_a_map_without_pairs_says_so() -> None:
    x, _ = paired()
    with pytest.raises(MapNotFitted, match="fitted first"):
        AlignmentMap().transform(x)
    assert not hasattr(AlignmentMap(), "matrix_")


def test_fewer_pairs_than_dimensions_are_enough_for_ridge() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 5)) @ rng.normal(size=(5, 100))
    fitted = AlignmentMap().fit(x, x[:, :20])
    fresh = rng.normal(size=(50, 5)) @ np.linalg.lstsq(x[:5, :5], x[:5], rcond=None)[0]
    assert fitted.score(fresh, fresh[:, :20]) > 0.5
