"""Predictions from training pairs against what held-out pairs then show."""

import numpy as np
import pytest

from isojepa.alignment import AlignmentMap
from isojepa_lab.stress import PairModel, StressPlan, StressSetting, measure, pair_budget
from tests.lab.stress.worlds import pairs

POOL, HELD = 1200, 300


def fitted_qualities(first, second, setting, repeats=12):
    rng = np.random.default_rng(11)
    like = AlignmentMap("ols").fit(first[:POOL], second[:POOL])
    found = []
    for _ in range(repeats):
        rows = rng.permutation(POOL)[: setting.pairs]
        x, y = first[rows], second[rows].copy()
        wrong = rng.permutation(setting.pairs)[: round(setting.mismatch * setting.pairs)]
        y[wrong] = y[np.roll(wrong, 1)]
        made = AlignmentMap(setting.kind, ridge=setting.ridge).fit(x, y)
        found.append(measure(made, first[POOL:], second[POOL:], (10,), like))
    return found


@pytest.mark.parametrize(
    ("decay", "noise", "setting"),
    [
        (0.0, 0.1, StressSetting(600)),
        (1.0, 0.1, StressSetting(600, mismatch=0.3)),
        (1.0, 0.1, StressSetting(90, "ols", mismatch=0.1)),
        (1.0, 0.01, StressSetting(120, mismatch=0.3)),
        (1.5, 0.1, StressSetting(20)),  # fewer pairs than dimensions
    ],
)
def test_predictions_from_training_pairs_meet_what_held_out_pairs_show(decay, noise, setting):
    first, second = pairs(POOL + HELD, 24, 24, decay, noise)
    found = fitted_qualities(first, second, setting)
    model = PairModel.fit(first[:POOL], second[:POOL])
    told = model.quality(setting, first[:HELD], second[:HELD])
    r2, dsc, mse = (np.median([getattr(q, name) for q in found]) for name in ("r2", "dsc", "mse"))
    assert told.r2 == pytest.approx(r2, abs=0.03)
    assert told.mse == pytest.approx(mse, rel=0.1)
    assert told.dsc == pytest.approx(dsc, abs=0.12)
    assert told.nos[10] == pytest.approx(np.median([q.nos[10] for q in found]), abs=0.06)
    condition = np.median([q.condition for q in found])
    if setting.pairs > 24:
        assert 0.6 < told.condition / condition < 1.6
    else:
        assert told.condition > 1e6  # W has no more directions than there were pairs
        assert condition > 1e6


@pytest.mark.parametrize("mismatch", [0.0, 0.3])
def test_drawn_maps_have_mean_and_spread_of_fitted_ones(mismatch):
    first, second = pairs(20_000, 12, 8, 1.0)
    rng = np.random.default_rng(2)
    setting = StressSetting(80, "ols", mismatch=mismatch)
    model = PairModel.fit(first, second)
    drawn = np.array([model.draw(setting, rng).matrix_ for _ in range(300)])
    fitted = []
    for _ in range(300):
        rows = rng.permutation(len(first))[:80]
        x = (first[rows] - model.like.mean_in_) / model.like.scale_in_
        y = (second[rows] - model.like.mean_out_) / model.like.scale_out_
        wrong = rng.permutation(80)[: round(mismatch * 80)]
        y[wrong] = y[np.roll(wrong, 1)]
        fitted.append(np.linalg.lstsq(x - x.mean(0), y - y.mean(0), rcond=None)[0].T)
    means = drawn.mean(0), np.mean(fitted, axis=0)
    assert np.linalg.norm(means[0] - means[1]) < 0.1 * np.linalg.norm(means[1])
    assert np.linalg.norm(means[0] - (1 - mismatch) * model.matrix) < 0.1 * np.linalg.norm(model.matrix)
    spreads = drawn.std(0), np.std(fitted, axis=0)
    assert float(np.linalg.norm(spreads[0]) / np.linalg.norm(spreads[1])) == pytest.approx(1, abs=0.1)


def test_the_noise_of_the_estimate_is_taken_off_what_it_explains():
    first, second = pairs(60, 24, 24, 0.0, noise=1.0)
    model = PairModel.fit(first, second)
    raw = float(((model.matrix @ model.vectors) ** 2 * model.values).sum())
    # half of 24 is explained in truth; least squares on 60 pairs explains much more
    assert raw > 15
    assert model.task.signal == pytest.approx(12, abs=3)
    assert model.task.noise == pytest.approx(12, abs=3)


def test_too_few_pairs_to_tell_the_residual_are_refused():
    first, second = pairs(26, 24, 4)
    with pytest.raises(ValueError, match="at least 27 training pairs for 24 dimensions, got 26"):
        PairModel.fit(first, second)


def test_the_published_collapse_is_what_four_pairs_for_each_dimension_give():
    # Table 4 of Social-JEPA: share mismatched, R^2, kappa(W), at width 384
    published = ((0.0, 0.891, 1.68), (0.1, 0.814, 14.375), (0.3, 0.692, 138.42))
    size, rng = 384, np.random.default_rng(0)
    like = AlignmentMap("ols").fit(rng.normal(size=(9, 2)), rng.normal(size=(9, 2)))
    for name, value in (("mean_in_", 0.0), ("mean_out_", 0.0), ("scale_in_", 1.0), ("scale_out_", 1.0)):
        setattr(like, name, np.full(size, value))
    rotation = np.linalg.qr(rng.normal(size=(size, size)))[0]
    matrix, noise = np.sqrt(1 - 0.084) * rotation, 0.084 * np.eye(size)
    model = PairModel(10**9, np.ones(size), np.eye(size), matrix, noise, float(size), like)
    for share, r2, condition in published:
        setting = StressSetting(1600, "ols", mismatch=share)
        assert 1 - model.error(setting) / size == pytest.approx(r2, abs=0.04)
        drawn = np.median([model.draw(setting, rng).condition_ for _ in range(5)])
        assert 1 / 4 < drawn / condition < 4


@pytest.mark.slow
@pytest.mark.parametrize("decay", [0.0, 0.75, 1.5])
@pytest.mark.parametrize("mismatch", [0.0, 0.1, 0.3])
def test_predicted_budget_curves_keep_to_the_stated_errors(decay, mismatch):
    first, second = pairs(2400, 32, 32, decay, 0.1, seed=4)
    plan = StressPlan(repeats=9, rows=400)
    curve = pair_budget(first, second, budgets=(16, 32, 48, 96, 320, 1200), mismatch=mismatch, plan=plan)
    keep_to(curve, 32, plain=(0.02, 0.12, 0.06, 2.0), few=(0.08, 0.15, 0.07, 2.5))


@pytest.mark.slow
@pytest.mark.parametrize("mismatch", [0.0, 0.1, 0.3])
def test_predicted_budget_curves_of_pictures_keep_to_the_stated_errors(mismatch):
    data = pytest.importorskip("sklearn.datasets").load_digits().data / 16
    first, second = (random_network(data - data.mean(0), seed, 48) for seed in (1, 2))
    plan = StressPlan(repeats=9, rows=400)
    curve = pair_budget(first, second, budgets=(24, 60, 100, 200, 500, 898), mismatch=mismatch, plan=plan)
    keep_to(curve, 48, plain=(0.02, 0.12, 0.06, 3.0), few=(0.03, 0.12, 0.09, 4.0))


def random_network(rows, seed, width):
    rng = np.random.default_rng(seed)
    hidden = rows @ rng.normal(size=(rows.shape[1], 256)) / 8 + 0.3 * rng.normal(size=256)
    return np.tanh(np.maximum(hidden, 0) @ rng.normal(size=(256, width)) / 16)


def keep_to(curve, dim, plain, few):
    """Differences of R^2, DSC and NOS@10, factor of kappa: from 3 pairs per dimension on, and below.

    What is found is a mean of a few fits: two standard errors of it are allowed besides.
    """
    for metric, index in (("r2", 0), ("dsc", 1), ("nos@10", 2)):
        for point in curve.of(metric):
            allowed = (plain if point.pairs >= 3 * dim else few)[index]
            noise = 2 * point.spread / point.repeats**0.5
            assert abs(point.predicted - point.value) <= allowed + noise, (metric, point)
    for point in curve.of("condition"):
        if point.pairs > dim:
            allowed = (plain if point.pairs >= 3 * dim else few)[3]
            assert 1 / allowed <= point.predicted / point.value <= allowed, point
        else:
            assert min(point.predicted, point.value) > 1e6
