"""Intervals of accuracies, and what probes refuse."""

import numpy as np
import pytest
import scipy.stats
import torch

import isojepa as ij
from isojepa.probes.few_shot import few_shot
from isojepa.probes.linear import (
    held_out,
    kernel_probe,
    linear_probe,
    neighbors_probe,
    radius_probe,
    score_of,
    share_interval,
)

PROBES = {
    "linear": linear_probe,
    "kernel": kernel_probe,
    "neighbors": lambda *data: neighbors_probe(*data, k=(3,))[0],
    "radius": radius_probe,
    "few_shot": lambda *data: few_shot(*data, shots=(1, None), draws=2)[1],
}


def blobs(n=60, dim=4, classes=3, seed=0):
    draw = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return (draw.normal(size=(n, dim)) + 6 * np.eye(classes, dim)[y]).astype(np.float32), y


@pytest.mark.parametrize("samples", [1, 7, 40, 300])
def test_the_interval_covers_every_share_as_often_as_it_says(samples):
    intervals = np.array([share_interval(right, samples, 0.9) for right in range(samples + 1)])
    for share in np.linspace(0, 1, 201):
        covers = (intervals[:, 0] <= share + 1e-12) & (share - 1e-12 <= intervals[:, 1])
        assert scipy.stats.binom.pmf(np.arange(samples + 1), samples, share)[covers].sum() >= 0.9 - 1e-9


def test_the_interval_is_that_of_scipy():
    exact = scipy.stats.binomtest(87, 100).proportion_ci(0.95, method="exact")
    assert share_interval(87, 100) == pytest.approx((exact.low, exact.high), abs=1e-12)
    assert share_interval(0, 5)[0] == 0 and share_interval(5, 5)[1] == 1  # noqa: PT018


def test_accuracy_by_class_counts_each_class_alone():
    score = score_of("p", np.array([0, 1, 1, 0]), np.array([0, 0, 1, 1]), 3)
    assert score.accuracy == 0.5
    assert score.per_class[:2] == (0.5, 0.5)
    assert np.isnan(score.per_class[2])
    assert score.to_dict()["samples"] == 4


def test_what_is_held_out_is_a_share_of_each_class():
    labels = np.repeat([0, 1, 2], [10, 4, 100])
    aside = held_out(labels, 0.2, ij.generator(0, "a"))
    assert np.bincount(labels[aside], minlength=3).tolist() == [2, 0, 20]
    assert (aside != held_out(labels, 0.2, ij.generator(1, "a"))).any()


@pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)
def test_well_separated_classes_are_told_apart(probe):
    (x, y), (test_x, test_y) = blobs(), blobs(seed=1)
    assert probe(x, y, test_x, test_y).accuracy >= 0.95
    tensors = map(torch.from_numpy, (x, y, test_x, test_y))
    assert probe(*tensors).accuracy >= 0.95


@pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)
def test_constant_features_are_no_better_than_the_most_common_label(probe):
    y = np.repeat([0, 1], [40, 20])
    score = probe(np.full((60, 5), 3.7, np.float32), y, np.full((60, 5), 3.7, np.float32), y)
    assert score.accuracy in (pytest.approx(2 / 3), pytest.approx(1 / 3))


@pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)
def test_what_is_no_features_is_told(probe):
    x, y = blobs()
    broken = x.copy()
    broken[7, 1] = np.nan
    with pytest.raises(ValueError, match=r"features must be finite, got NaN or Inf in 1 of 60 rows.*row 7"):
        probe(broken, y, x, y)
    with pytest.raises(ValueError, match="test features must be finite"):
        probe(x, y, broken, y)
    with pytest.raises(ValueError, match=r"two classes at least.*got only 4"):
        probe(x, np.full(60, 4), x, y)
    with pytest.raises(ValueError, match="test labels must be among"):
        probe(x, y, x, y + 1)
    with pytest.raises(ValueError, match="60 whole numbers"):
        probe(x, y[:59], x, y)
    with pytest.raises(ValueError, match=r"60 whole numbers.*float64"):
        probe(x, y.astype(float), x, y)
    with pytest.raises(ValueError, match="must have 4 columns"):
        probe(x, y, x[:, :3], y)
    with pytest.raises(ValueError, match=r"numbers \(samples, dim\)"):
        probe(x[:0], y[:0], x, y)
    with pytest.raises(ValueError, match="negative"):
        probe(x, y - 1, x, y)


@pytest.mark.parametrize("name", ["linear", "kernel"])
def test_fewer_rows_than_columns_and_classes_that_number_with_gaps(name):
    draw = np.random.default_rng(0)
    y = np.array([0, 5, 9, 0, 5, 9])
    x = draw.normal(size=(6, 50)) + 20 * np.eye(10, 50)[y]
    score = PROBES[name](x, y, x, y)
    assert score.accuracy == 1
    assert len(score.per_class) == 10


def test_features_are_left_as_they_were():
    x, y = blobs()
    for kind in (np.float32, np.float64):
        given = x.astype(kind)
        before = given.copy()
        for probe in PROBES.values():
            probe(given, y, given, y)
        assert (given == before).all()
