"""Scores with interval and chance: held out, calibrated, and honest about rows that depend on each other."""

import json

import numpy as np
import pytest
import torch

from isojepa.alignment import (
    AlignmentMap,
    LayerCKA,
    ScoreComparison,
    compare,
    layer_cka,
    measure,
    split_states,
    value_of,
)
from tests.reference import naive_comparisons as naive

NAMES = (
    *("CKA", "unbiased CKA", "mean CCA", "SVCCA", "PWCCA", "angular Procrustes", "orthogonal Procrustes"),
    *("DSC", "RSA", "NO@5", "NOS@5", "mutual k-NN@5", "cycle k-NN@10"),
)


def pair(n=240, noise=0.2, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 4))
    return z @ rng.normal(size=(4, 4)) + 3, z @ rng.normal(size=(4, 4)) + noise * rng.normal(size=(n, 4))


def test_everything_is_scored_on_states_that_the_map_was_not_fitted_on():
    x, y = pair()
    scores = compare(x, y, ks=(1, 5))
    split = split_states(len(x))
    fitted = AlignmentMap("ridge").fit(x[split.fit], y[split.fit])
    assert (scores.fitted, scores.scored, scores.effective) == (120, 120, 240)
    one = (x[split.score] - fitted.mean_in_) / fitted.scale_in_
    two = (y[split.score] - fitted.mean_out_) / fitted.scale_out_
    back = (fitted.inverse_transform(y[split.score]) - fitted.mean_in_) / fitted.scale_in_
    mse, r2 = naive.held_out(x, y, split.fit, split.score, fitted.ridge_)
    assert scores.aligned["R2"].value == pytest.approx(r2)
    assert scores.aligned["MSE"].value == pytest.approx(mse)
    for space, other in ((scores.raw, two), (scores.aligned, back)):
        for name, comparison in space.items():
            if name not in ("MSE", "R2"):
                assert comparison.value == pytest.approx(value_of(name, one, other)), name
    assert set(scores.raw) - set(scores.aligned) == {"mean CCA", "SVCCA", "PWCCA"}


def test_a_map_that_is_passed_in_is_scored_on_all_rows_and_held_fixed():
    x, y = pair()
    fitted = AlignmentMap("ols").fit(x[:100], y[:100])
    scores = compare(x[100:], y[100:], map=fitted, ks=(1, 5))
    assert (scores.fitted, scores.scored, scores.map) == (0, 140, fitted)
    assert scores.aligned["R2"].value == pytest.approx(fitted.score(x[100:], y[100:]))
    rng = np.random.default_rng(0)
    drawn = [fitted.score(x[100:], y[100:][rng.permutation(140)]) for _ in range(500)]
    error = 4 * np.std(drawn) / 99**0.5
    assert scores.aligned["R2"].chance == pytest.approx(np.mean(drawn), abs=error)


def test_the_map_undoes_a_mixing_that_raw_scores_notice():
    scores = compare(*pair(noise=0.01), ks=(5,))
    for name in ("CKA", "DSC", "NO@5"):
        assert scores.aligned[name].value > 0.95 > scores.raw[name].value
    assert scores.aligned["NOS@5"].value == pytest.approx(1 - scores.aligned["NO@5"].value)


def test_results_are_written_as_json_and_as_a_table():
    scores = compare(*pair(), ks=(1, 5))
    again = json.loads(json.dumps(scores.to_dict(), allow_nan=False))
    assert again["aligned"]["R2"]["value"] == scores.aligned["R2"].value
    assert len(scores.rows()) == len(scores.raw) + len(scores.aligned)
    lines = scores.table().splitlines()
    assert len(lines) == 1 + len(scores.rows())
    assert lines[0].split() == ["score", "space", "value", "interval", "chance", "p", "calibrated"]
    assert str(scores.raw["CKA"]).startswith("CKA 0.")


def test_scores_that_cannot_be_had_are_left_out_with_the_reason():
    rng = np.random.default_rng(0)
    scores = compare(rng.normal(size=(40, 30)), rng.normal(size=(40, 2)), ks=(1,), k=3)
    assert set(scores.left_out) == {"mean CCA", "PWCCA", "RSA"}
    assert "mean CCA left out: mean CCA must have at least 2 rows more" in scores.table()


def test_rows_of_one_state_count_as_one():
    x, y = pair(60, noise=1.0)
    ids = np.repeat(np.arange(60), 4)
    once, often = compare(x, y, ks=(1,)), compare(x[ids], y[ids], ids=ids, ks=(1,))
    found = compare(x[ids], y[ids], ks=(1,))  # repeats are detected
    for name, comparison in once.aligned.items():
        for other in (often, found):
            assert other.aligned[name].value == pytest.approx(comparison.value)
            assert other.aligned[name].interval.low == pytest.approx(comparison.interval.low)
    assert "60 states of 240 rows" in often.raw["CKA"].note


def test_walks_have_a_chance_from_shifts_and_no_interval():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 400, 3)).cumsum(1)
    scores = compare(x, y, ks=(1, 5))
    assert scores.effective < 20
    assert scores.to_dict()["raw"]["CKA"]["interval"] == [None, None]
    assert min(one.p for one in (*scores.raw.values(), *scores.aligned.values())) > 0.02
    assert "effective rows" in str(scores)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    related = compare(x, x @ turn, ks=(1, 5))
    assert max(related.raw[name].p for name in ("CKA", "mean CCA", "DSC", "NO@5")) <= 0.05
    assert related.raw["CKA"].calibrated > 0.9


def rows_of(kind, rng, n=400, dim=4):
    noise = rng.normal(size=(n, dim))
    if kind == "walk":
        return noise.cumsum(0)
    rho = {"iid": 0.0, "AR(.9)": 0.9, "AR(.99)": 0.99}[kind]
    rows = np.empty_like(noise)
    rows[0] = noise[0]
    for t in range(1, n):
        rows[t] = rho * rows[t - 1] + (1 - rho**2) ** 0.5 * noise[t]
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["iid", "AR(.9)", "walk", "outlier"])
def test_p_of_unrelated_rows_keeps_its_level(kind):
    trials, rejected = 50, {}
    for trial in range(trials):
        rng = np.random.default_rng([trial, 5])
        x, y = (rows_of("iid" if kind == "outlier" else kind, rng, 240) for _ in range(2))
        if kind == "outlier":
            x[7], y[7] = 100 * x[7], 100 * y[7]
        scores = compare(x, y, ks=(5,), k=5, seed=trial)
        for space in ("raw", "aligned"):
            for name, comparison in getattr(scores, space).items():
                rejected[space, name] = rejected.get((space, name), 0) + (comparison.p <= 0.05)
    assert max(rejected.values()) <= 9, rejected  # 2.5 expected; 10 or more by chance once in 5,000


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["iid", "AR(.9)"])
def test_intervals_cover_the_score_at_this_number_of_rows(kind):
    names, trials = ("CKA", "mean CCA", "DSC", "NO@5", "angular Procrustes"), 40
    mixing = np.random.default_rng(0).normal(size=(4, 4))
    values, intervals = {name: [] for name in names}, {name: [] for name in names}
    for trial in range(trials):
        rng = np.random.default_rng([trial, 6])
        x = rows_of(kind, rng, 600)
        y = x @ mixing + rows_of(kind, rng, 600)
        for name in names:
            one = measure(name, x, y, null=False)
            values[name].append(one.value)
            intervals[name].append((one.interval.low, one.interval.high))
    for name in names:
        mean = np.mean(values[name])
        covered = np.mean([low <= mean <= high for low, high in intervals[name]])
        assert covered >= 0.8, (name, covered)  # 0.95 nominal


@pytest.mark.parametrize("name", NAMES)
def test_the_same_rows_score_the_best_possible_value_far_from_chance(name):
    x, _ = pair(100)
    one = measure(name, x, x.copy())
    assert isinstance(one, ScoreComparison)
    assert one.value == pytest.approx(one.best, abs=2e-7)
    assert one.calibrated == pytest.approx(1, abs=1e-6)
    assert one.p <= 0.05
    assert one.higher_is_better == (one.best == 1)
    assert one.interval.low <= one.value <= one.interval.high


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_torch_and_numpy_give_the_same(name, dtype):
    x, y = (torch.from_numpy(rows).to(dtype) for rows in pair(60))
    again = measure(name, x.double().numpy(), y.double().numpy(), draws=19)
    assert measure(name, x.requires_grad_(), y, draws=19) == again


@pytest.mark.parametrize("name", NAMES)
def test_without_a_null_value_and_interval_are_the_same(name):
    x, y = pair(60)
    one, plain = measure(name, x, y, draws=19), measure(name, x, y, null=False)
    assert (plain.value, plain.interval) == (one.value, one.interval)
    assert (plain.chance, plain.p, plain.calibrated) == (None, None, None)


def test_biased_cka_of_independent_rows_is_a_fifth_at_32_rows_and_is_calibrated():
    rng = np.random.default_rng(0)
    scores = [measure("CKA", rng.normal(size=(32, 8)), rng.normal(size=(32, 8)), draws=30) for _ in range(60)]
    assert np.mean([one.value for one in scores]) == pytest.approx(0.2, abs=0.02)
    assert np.mean([one.chance for one in scores]) == pytest.approx(0.2, abs=0.02)
    assert np.mean([one.calibrated for one in scores]) == pytest.approx(0, abs=0.03)
    wide = measure("CKA", rng.normal(size=(32, 256)), rng.normal(size=(32, 256)))
    assert wide.value > 0.85
    assert abs(wide.calibrated) < 0.2


RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 3)), RNG.normal(size=(40, 4))


def broken(rows, value, at=(3, 1)):
    rows = rows.copy()
    rows[at] = value
    return rows


BAD = {
    "rows": (X, Y[:39], "40 and 39 rows"),
    "nan": (broken(X, np.nan), Y, "first must be finite, got nan in row 3, column 1"),
    "inf": (X, broken(Y, -np.inf), "second must be finite, got -inf in row 3"),
    "constant": (broken(X, 2.0, (slice(None), 1)), Y, r"first must vary in every column.*drop_constant=True"),
    "flat": (X[:, 0], Y, r"first must be rows \(n, dim\), got shape \(40,\)"),
    "empty": (X[:, :0], Y, "got shape"),
    "none": (X[:0], Y[:0], "got shape"),
    "words": (X.astype(str), Y, "first must hold numbers"),
    "complex": (torch.zeros(40, 3, dtype=torch.complex64), Y, "first must hold numbers"),
    "few": (X[:3], Y[:3], "at least"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("function", [compare, lambda x, y: measure("CKA", x, y)])
def test_arrays_that_cannot_be_compared_are_refused(function, case):
    first, second, words = BAD[case]
    with pytest.raises(ValueError, match=words) as raised:
        function(first, second)
    assert "\n" not in str(raised.value)


def test_constant_columns_are_left_out_on_request():
    one = measure("CKA", np.c_[np.ones(40), X, np.zeros(40)], Y, drop_constant=True)
    assert one.value == measure("CKA", X, Y).value
    assert one.note == "constant columns of first left out: 0, 4"
    with pytest.raises(ValueError, match="first must have a column that varies"):
        measure("CKA", np.ones((40, 2)), Y, drop_constant=True)


@pytest.mark.parametrize(
    ("score", "words"),
    [
        ("NO@0", "k must be"),
        ("NO@40", "k must be less than the 40 rows"),
        ("NO@x", "k must be"),
        ("ckaa", "score must be one of"),
        ("NOO@3", "score must be one of"),
        ("mean CCA", "at least 2 rows more than dimensions, got 40 rows and 39"),
    ],
)
def test_scores_that_do_not_exist_are_refused(score, words):
    with pytest.raises(ValueError, match=words):
        measure(score, RNG.normal(size=(40, 60)), Y)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"confidence": 1.0}, "confidence must lie between 0 and 1, got 1.0"),
        ({"null": 3}, "null must be True or False"),
        ({"seed": 0.5}, "seed must be an integer"),
        ({"draws": 3}, "draws must be an integer of at least 9, got 3"),
        ({"ids": [1, 2, 3]}, "ids must be as many as rows, 40, got 3"),
        ({"ids": np.zeros(40, dtype=int)}, "at least 8 states are needed, got 1"),
    ],
)
def test_wrong_options_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        compare(X, Y, **options)


def test_rows_without_a_direction_are_refused_where_one_is_needed():
    x = broken(X, 0.0, (5, slice(None)))
    for name in ("mutual k-NN@3", "RSA"):
        with pytest.raises(ValueError, match="zeros in row 5"):
            measure(name, x, Y)
    with pytest.raises(ValueError, match="at least 3 columns"):
        measure("RSA", X[:, :2], Y)


def test_layers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="all layers must have the same rows"):
        layer_cka([X], [Y[:30]])
    with pytest.raises(ValueError, match="must be added"):
        LayerCKA().matrix()
    with pytest.raises(ValueError, match="at least 4 rows"):
        LayerCKA().add([X[:3]], [Y[:3]])
    with pytest.raises(ValueError, match="every batch must have the same layers"):
        LayerCKA().add([X], [Y]).add([X, X], [Y])
