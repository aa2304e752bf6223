"""The linear probe against scikit-learn."""

import numpy as np
import pytest
import torch

import isojepa as ij
from isojepa.probes.linear import (
    PENALTIES,
    choose_logistic,
    examples,
    fit_logistic,
    held_out,
    linear_probe,
)

linear_model = pytest.importorskip("sklearn.linear_model", reason="the reference is scikit-learn's")


def rough_features(n=600, dim=20, classes=5, seed=0):
    """Features of very unequal scales and a large offset, with labels that overlap."""
    draw = np.random.default_rng(seed)
    y = draw.integers(0, classes, n)
    x = np.maximum((draw.normal(size=(n, dim)) + 0.5 * np.eye(classes, dim)[y]) @ mixing(dim), 0)
    return x * np.geomspace(1e-3, 1e3, dim) + 5, y


def mixing(dim):
    return np.random.default_rng(9).normal(size=(dim, dim)) / dim**0.5


def reference(x, y, penalty):
    """scikit-learn's optimum as weights of features as they are, and probabilities."""
    mean, scale = x.mean(0), x.std(0)
    model = linear_model.LogisticRegression(C=1 / (len(x) * penalty), tol=1e-10, max_iter=20_000)
    model.fit((x - mean) / scale, y)
    return model, model.predict_proba((x - mean) / scale)


@pytest.mark.parametrize("penalty", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_fit_is_the_optimum_of_scikit_learn(penalty, kind):
    x, y = rough_features()
    x = x.astype(kind)
    model, expected = reference(x.astype(np.float64), y, penalty)
    fitted = fit_logistic(x, y, 5, penalty)
    found = torch.from_numpy(fitted.logits(x.astype(np.float64))).softmax(1).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4)
    standard = fitted.weight * x.astype(np.float64).std(0)[:, None]
    np.testing.assert_allclose(standard, model.coef_.T, atol=1e-4 * max(1, np.abs(model.coef_).max()))


def test_with_fewer_rows_than_columns_the_fit_is_still_that_of_scikit_learn():
    x, y = rough_features(n=30, dim=80, classes=3)
    x, y = x[:, x.std(0) > 0], y
    _, expected = reference(x, y, 1e-2)
    found = torch.from_numpy(fit_logistic(x, y, 3, 1e-2).logits(x)).softmax(1).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_direction_of_little_variance_counts_however_many_rows_there_are(kind):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(20_000, 1)) + 0.01 * draw.normal(size=(20_000, 6))  # six columns that all but agree
    y = (x[:, 0] > x[:, 1]).astype(np.int64)
    assert linear_probe(x[:15_000].astype(kind), y[:15_000], x[15_000:], y[15_000:]).accuracy > 0.98


def test_a_column_that_never_changes_has_no_weight():
    x, y = rough_features()
    x[:, 3] = 1e6
    weight = fit_logistic(x.astype(np.float32), y, 5, 1e-3).weight
    assert (weight[3] == 0).all()
    assert (weight[4] != 0).all()


@pytest.mark.parametrize("noise", [0, 80])
def test_the_penalty_is_the_one_that_does_best_on_the_part_put_aside(noise):
    draw = np.random.default_rng(0)
    y = draw.integers(0, 3, 300)
    x = np.column_stack((np.eye(3)[y] + draw.normal(size=(300, 3)), draw.normal(size=(300, noise))))
    penalties = (10.0, 0.3, 1e-2, 1e-4)
    aside = held_out(y, 0.2, ij.generator(5, "v"))
    quality = {}
    for penalty in penalties:
        model, _ = reference(x[~aside], y[~aside], penalty)
        p = model.predict_proba((x[aside] - x[~aside].mean(0)) / x[~aside].std(0))
        quality[penalty] = (p.argmax(1) == y[aside]).mean(), np.log(p[np.arange(len(p)), y[aside]]).mean()
    found, _ = choose_logistic(examples(x, y, x, y), penalties, ij.generator(5, "v"))
    assert found == max(penalties, key=quality.__getitem__)


def test_with_one_example_of_each_class_the_penalty_is_that_of_scikit_learn_by_default():
    x, y = rough_features(n=400)
    first = np.array([np.flatnonzero(y == label)[0] for label in range(5)])
    score = linear_probe(x[first], y[first], x, y)
    assert score.chosen == {"penalty": 1 / 5}
    expected, _ = reference(x[first][:, x[first].std(0) > 0], y[first], 1 / 5)
    assert pytest.approx(1) == expected.C


def test_the_choice_depends_on_the_generator_alone():
    x, y = rough_features()
    before = torch.get_rng_state()
    scores = [linear_probe(x, y, x, y, generator=ij.generator(3, "v")) for _ in range(2)]
    assert scores[0] == scores[1]
    assert torch.equal(before, torch.get_rng_state())


def test_penalties_that_are_none_are_told():
    x, y = rough_features()
    with pytest.raises(ValueError, match="penalty must be positive and finite, got 0"):
        linear_probe(x, y, x, y, penalties=(1.0, 0))
    with pytest.raises(ValueError, match="penalties must be one at least"):
        linear_probe(x, y, x, y, penalties=())
    assert list(PENALTIES) == sorted(PENALTIES, reverse=True)
