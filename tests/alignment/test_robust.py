"""Mismatched pairs are found and dropped; clean ones are left alone."""

import numpy as np
import pytest

from isojepa.alignment import AlignmentMap, fit_robust


def paired(n: int, dim: int, r2: float, law: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    draw = {"normal": rng.standard_normal, "heavy": lambda size: rng.standard_t(4, size) / 2**0.5}[law]
    x = draw((n, dim)) @ rng.normal(size=(dim, dim))
    y = x @ rng.normal(size=(dim, dim))
    return x, np.sqrt(r2) * y / y.std(0) + np.sqrt(1 - r2) * draw((n, dim))


@pytest.mark.parametrize("law", ["normal", "heavy"])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
@pytest.mark.parametrize(("n", "dim"), [(500, 16), (1500, 100)])
def test_mismatched_pairs_cost_next_to_nothing(law: str, share: float, n: int, dim: int) -> None:
    rng = np.random.default_rng(0)
    x, y = paired(n + 1000, dim, 0.89, law, rng)
    mixed, wrong = y[:n].copy(), rng.permutation(n)[: int(share * n)]
    mixed[wrong] = mixed[np.roll(wrong, 1)]
    found = fit_robust(x[:n], mixed)
    clean = AlignmentMap().fit(x[:n], y[:n]).score(x[n:], y[n:])
    plain = AlignmentMap().fit(x[:n], mixed).score(x[n:], y[n:])
    assert found.map.score(x[n:], y[n:]) > 0.95 * clean
    assert found.map.score(x[n:], y[n:]) > plain
    assert found.mismatched == pytest.approx(share, abs=0.03)
    assert np.isin(wrong, found.dropped).mean() > 0.95
    assert np.isin(found.dropped, wrong).mean() > 0.9


def test_clean_pairs_are_left_alone() -> None:
    rng = np.random.default_rng(0)
    x, y = paired(800, 12, 0.9, "normal", rng)
    found = fit_robust(x, y)
    assert found.mismatched == 0
    assert found.weights.tolist() == [1.0] * 800
    assert found.map.matrix_ == pytest.approx(AlignmentMap().fit(x, y).matrix_)


def test_unrelated_pairs_are_not_sorted_into_related_ones() -> None:
    rng = np.random.default_rng(0)
    x, y, fresh = rng.normal(size=(400, 8)), rng.normal(size=(400, 8)), rng.normal(size=(400, 8))
    assert fit_robust(x, y).map.score(fresh, rng.normal(size=(400, 8))) < 0.05


def test_the_kind_of_map_is_kept_and_the_given_one_untouched() -> None:
    rng = np.random.default_rng(0)
    x, y = paired(300, 4, 0.95, "normal", rng)
    given = AlignmentMap("procrustes", threshold=5.0)
    found = fit_robust(x, y, given)
    assert found.map.get_params() == given.get_params()
    assert not hasattr(given, "matrix_")


def test_more_dimensions_than_pairs_are_taken() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(150, 6))
    x, y = z @ rng.normal(size=(6, 200)), z @ rng.normal(size=(6, 300))
    mixed = y.copy()
    mixed[:45] = y[np.roll(np.arange(45), 1)]
    found = fit_robust(x, mixed)
    assert set(found.dropped) == set(range(45))
