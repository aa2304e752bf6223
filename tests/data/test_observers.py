"""What all environments of several observers share: who is meant, and splits by state."""

import pytest
import torch

from isojepa.data.observers import check_split, held_out_rows, observer_number


def test_rows_of_one_state_are_held_out_together_and_the_same_way_again():
    states = torch.randint(40, (500,), generator=torch.Generator().manual_seed(0)) * 7 - 100
    for seed in range(5):
        aside = held_out_rows(states, 0.25, seed)
        assert not set(states[aside].tolist()) & set(states[~aside].tolist())
        assert len(set(states[aside].tolist())) == 10
        assert torch.equal(aside, held_out_rows(states, 0.25, seed))
    assert not torch.equal(held_out_rows(states, 0.25, 0), held_out_rows(states, 0.25, 1))


@pytest.mark.parametrize(
    ("states", "share", "message"),
    [
        ([1, 2], 1.0, r"held_out must lie in \(0, 1\), got 1.0"),
        ([3, 3], 0.5, "the number of states must be an integer of at least 2, got 1"),
        ([], 0.5, "got 0"),
    ],
)
def test_states_that_cannot_be_split_are_refused(states, share, message):
    with pytest.raises(ValueError, match=message):
        held_out_rows(torch.tensor(states, dtype=torch.long), share, 0)


def test_an_observer_is_named_or_numbered():
    assert observer_number("rear", ("front", "rear")) == observer_number(1, ("front", "rear")) == 1
    for wrong in ("reer", 2, -1, True, None):
        with pytest.raises(ValueError, match="must be one of front, rear"):
            observer_number(wrong, ("front", "rear"))
    with pytest.raises(ValueError, match=r"split .* must be one of test, train, got 'val'"):
        check_split("val")
