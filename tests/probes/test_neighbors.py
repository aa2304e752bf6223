"""Nearest neighbors against brute force."""

import numpy as np
import pytest

from isojepa.probes import linear as neighbors
from isojepa.probes.linear import neighbors_probe, radius_probe


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks so small that every case has several, the last of them not full."""
    monkeypatch.setattr(neighbors, "_QUERIES", 7)
    monkeypatch.setattr(neighbors, "_KEYS", 11)


def data(n, seed, dim=5, classes=4):
    draw = np.random.default_rng(seed)
    y = draw.integers(0, classes, n)
    return (draw.normal(size=(n, dim)) + 1.2 * np.eye(classes, dim)[y] + 0.3).astype(np.float32), y


def voted(x, y, queries, k, temperature):
    """The same from all pairs, one query after the other."""
    x, queries = (a.astype(np.float64) / np.linalg.norm(a, axis=1, keepdims=True) for a in (x, queries))
    answers = []
    for query in queries:
        cosines = x @ query
        nearest = np.argsort(-cosines)[:k]
        ballot = np.bincount(y[nearest], weights=np.exp(cosines[nearest] / temperature), minlength=4)
        answers.append(ballot.argmax())
    return np.array(answers)


@pytest.mark.parametrize("temperature", [0.07, 1.0, 0.005])
def test_k_nearest_neighbors_are_those_of_brute_force(temperature):
    (x, y), (queries, labels) = data(120, 0), data(45, 1)
    scores = neighbors_probe(x, y, queries, labels, k=(1, 20, 120), temperature=temperature)
    for k, score in zip((1, 20, 120), scores, strict=True):
        assert score.probe == f"{k}-nn"
        assert score.accuracy == (voted(x, y, queries, k, temperature) == labels).mean()


def test_lengths_of_features_do_not_matter_and_a_feature_of_length_0_is_no_error():
    (x, y), (queries, labels) = data(60, 0), data(20, 1)
    longer = x * np.random.default_rng(2).uniform(0.1, 10, size=(60, 1)).astype(np.float32)
    same = [neighbors_probe(one, y, queries, labels, k=(5,))[0].per_class for one in (x, longer)]
    assert same[0] == same[1]
    x[3], queries[4] = 0, 0
    assert 0 <= neighbors_probe(x, y, queries, labels, k=(5,))[0].accuracy <= 1


def test_radius_neighbors_are_those_of_brute_force():
    (x, y), (queries, labels) = data(120, 0), data(45, 1)
    distances = np.linalg.norm(x[None].astype(np.float64) - queries[:, None], axis=2)
    for radius in (0.9, 1.5, 100.0):
        near = distances <= radius
        ballots = np.array([np.bincount(y[row], minlength=4) for row in near])
        alone = ~near.any(1)
        answers = np.where(alone, np.bincount(y).argmax(), ballots.argmax(1))
        score = radius_probe(x, y, queries, labels, radius=radius)
        assert score.accuracy == (answers == labels).mean()
        assert score.chosen == {"radius": radius, "alone": alone.mean()}


def test_the_usual_radius_is_the_median_distance_to_the_twentieth_neighbor():
    x, y = data(120, 0)
    distances = np.sort(np.linalg.norm(x[None] - x[:, None], axis=2), axis=1)[:, 20]
    radius = radius_probe(x, y, x, y).chosen["radius"]
    assert np.sort(distances)[59] == pytest.approx(radius, rel=1e-4)


def test_radius_does_not_lose_distances_far_from_the_origin():
    (x, y), (queries, labels) = data(120, 0), data(45, 1)
    near = radius_probe(x, y, queries, labels, radius=1.5)
    far = radius_probe(x + 1000, y, queries + 1000, labels, radius=1.5)
    assert abs(near.accuracy - far.accuracy) <= 0.05


def test_more_neighbors_than_examples_are_told():
    x, y = data(30, 0)
    with pytest.raises(ValueError, match="k must be at most the 30 training examples"):
        neighbors_probe(x, y, x, y)
    with pytest.raises(ValueError, match="temperature must be positive"):
        neighbors_probe(x, y, x, y, k=(3,), temperature=0)
    with pytest.raises(ValueError, match="radius must be finite"):
        radius_probe(x, y, x, y, radius=-1)
