"""Rows are matched by their ids, and no state stands on both sides of a split."""

import numpy as np
import pytest

from isojepa.alignment import folds, match, split_states


def test_matching_is_a_join_by_id() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.permutation(50), rng.permutation(50)
    a, b = match(first, second)
    assert (first[a] == second[b]).all()
    assert sorted(a) == list(range(50))


def test_only_common_states_are_left_where_asked() -> None:
    a, b = match(["x", "q", "y"], ["y", "z", "x"], partial=True)
    assert a.tolist() == [0, 2]
    assert b.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ([1, 1, 2], [1, 2], "first_ids must name each state once, got 1 more often"),
        ([1, 2], [1, 3], "first_ids must have partners, got 1 without one \\(2\\)"),
        ([1, 2], [1, 2, 3], "second_ids must have partners"),
        ([1, 2], ["1", "2"], "both text"),
        ([[1]], [1], "whole numbers or of text"),
        ([1.5], [1.5], "whole numbers or of text"),
    ],
)
def test_what_does_not_match_is_said(first, second, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        match(first, second)


def test_nothing_in_common_is_said() -> None:
    with pytest.raises(ValueError, match="states in common"):
        match([1, 2], [3, 4], partial=True)


@pytest.mark.parametrize("seed", range(5))
def test_no_state_is_on_both_sides(seed: int) -> None:
    ids = np.random.default_rng(seed).integers(0, 40, size=300)
    split = split_states(300, ids, share=0.6, seed=seed)
    assert not set(ids[split.fit]) & set(ids[split.score])
    assert sorted(np.concatenate((split.fit, split.score))) == list(range(300))
    for fold in folds(300, 5, ids, seed):
        assert not set(ids[fold.fit]) & set(ids[fold.score])
    assert sorted(np.concatenate([fold.score for fold in folds(300, 5, ids, seed)])) == list(range(300))


def test_a_split_needs_two_states_and_an_id_for_each_row() -> None:
    with pytest.raises(ValueError, match="two states"):
        split_states(5, [3] * 5)
    with pytest.raises(ValueError, match="as many as rows"):
        split_states(5, [1, 2])
    with pytest.raises(ValueError, match="folds"):
        folds(3, 5)
