"""The linear probe from few labels."""

import numpy as np
import pytest

from isojepa.probes.few_shot import few_shot
from isojepa.probes.linear import linear_probe


def clouds(n, seed, classes=3, dim=6, apart=2.0):
    draw = np.random.default_rng(seed)
    y = draw.integers(0, classes, n)
    return draw.normal(size=(n, dim)) + apart * np.eye(classes, dim)[y], y


def test_more_labels_give_more_accuracy_and_narrower_intervals():
    (x, y), (test_x, test_y) = clouds(3000, 0), clouds(4000, 1)
    rows = few_shot(x, y, test_x, test_y, shots=(1, 10, 500, None), draws=8)
    means = [row.accuracy for row in rows]
    assert means[0] + 0.1 < means[1] < means[2]
    assert means[3] > means[1]
    widths = [row.interval[1] - row.interval[0] for row in rows]
    assert widths[0] > widths[1] > widths[2]
    assert len(rows[0].accuracies) == 8
    assert rows[0].accuracy == pytest.approx(np.mean(rows[0].accuracies))
    assert len(set(rows[0].accuracies)) > 1


def test_all_examples_are_the_linear_probe():
    (x, y), (test_x, test_y) = clouds(300, 0), clouds(300, 1)
    whole = few_shot(x, y, test_x, test_y, shots=(None,))[0]
    score = linear_probe(x, y, test_x, test_y, penalties=(1e-2,))
    fixed = few_shot(x, y, test_x, test_y, shots=(None,), penalties=(1e-2,))[0]
    assert (fixed.accuracy, fixed.interval) == (score.accuracy, score.interval)
    assert whole.to_dict()["shots"] == "all"


def test_a_class_with_too_few_examples_is_the_reason():
    x, y = clouds(300, 0)
    y[y == 1] = 0
    y[:4] = 1
    rows = few_shot(x, y, x, y, shots=(2, 5), draws=2)
    assert not rows[0].reason
    assert rows[1].reason == "class 1 has 4 examples, 5 are needed"
    assert np.isnan(rows[1].accuracy)


@pytest.mark.slow
def test_the_interval_covers_the_accuracy_that_many_draws_and_a_large_test_set_would_find():
    covered, truth = 0, None
    pool_x, pool_y = clouds(30_000, 0)
    many = few_shot(pool_x, pool_y, *clouds(30_000, 1), shots=(2,), draws=200)[0]
    truth = many.accuracy
    for seed in range(60):
        row = few_shot(pool_x, pool_y, *clouds(300, 100 + seed), shots=(2,), draws=4, seed=seed)[0]
        covered += row.interval[0] <= truth <= row.interval[1]
    assert covered >= 51  # of 60 at 95 %: fewer by chance once in ten thousand


def test_draws_depend_on_the_seed_alone_and_one_is_too_few():
    (x, y), (test_x, test_y) = clouds(300, 0), clouds(300, 1)
    first, again, other = (
        few_shot(x, y, test_x, test_y, shots=(1,), draws=3, seed=seed) for seed in (0, 0, 1)
    )
    assert first == again != other
    with pytest.raises(ValueError, match="draws must be an integer of at least 2"):
        few_shot(x, y, test_x, test_y, draws=1)
    with pytest.raises(ValueError, match="shots must be a positive integer"):
        few_shot(x, y, test_x, test_y, shots=(0,))
