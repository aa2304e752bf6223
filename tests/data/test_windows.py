"""Windows of recorded episodes: observations in the order of time, with the actions between them."""

import numpy as np
import pytest
import torch

from isojepa import testing
from isojepa.data import Windows
from isojepa.seeds import generator


def episodes(lengths=(12, 5, 9), columns=2):
    """Observations that say their path and step, and actions that say the same, the last of each NaN."""
    seen = [np.column_stack((np.full(n, 100.0 * path), np.arange(n))) for path, n in enumerate(lengths)]
    done = [np.repeat(path.sum(1, keepdims=True), columns, axis=1) for path in seen]
    for path in done:
        path[-1] = np.nan
    return seen, done


def test_windows_pass_the_public_check():
    seen, done = episodes()
    testing.check_source(Windows(seen, done, length=3, states=seen))


def test_views_follow_each_other_and_actions_leave_the_view_they_belong_to():
    source = Windows(*episodes(), length=3)
    batch = source.sample(200, generator(0, "data"))
    assert len(batch.views) == 4
    assert batch.actions.shape == (200, 3, 2)
    for step in range(3):
        assert torch.equal(batch.views[step + 1][:, 1], batch.views[step][:, 1] + 1)
        assert torch.equal(batch.actions[:, step, 0], batch.views[step].sum(1))
    assert torch.equal(batch.ids * 100, batch.views[0][:, 0].long())
    assert source.windows == 9 + 2 + 6
    assert len({(int(i), int(v)) for i, v in zip(batch.ids, batch.views[0][:, 1], strict=True)}) == 17
    assert source.facts.actions == 2


def test_latents_in_order_and_splits_by_episode():
    seen, done = episodes()
    source = Windows(seen, done, length=2, states=seen)
    assert torch.equal(
        source.sample(5, generator(0, "data")).z[2], source.sample(5, generator(0, "data")).views[2]
    )
    ids = source.in_order().sample(50, generator(0, "data")).ids
    assert torch.equal(ids, ids.sort().values)
    train, other = source.split(0.34)
    paths = [set(part.sample(99, generator(0, "data")).views[0][:, 0].tolist()) for part in (train, other)]
    assert not paths[0] & paths[1]
    assert len(paths[0] | paths[1]) == 3


SEEN, DONE = episodes()
HOLE = [path.copy() for path in DONE]
HOLE[1][2, 1] = np.nan


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Windows(SEEN, None), "actions must be recorded, got None"),
        (lambda: Windows(SEEN, [DONE[0], DONE[1][:2], DONE[2]]), "5 in path 1, got 2"),
        (lambda: Windows(SEEN, HOLE), "column 1 at path 1, step 2"),
        (lambda: Windows(SEEN, [np.ones_like(path) for path in DONE]), "the same action at every step"),
        (lambda: Windows(SEEN, DONE, length=12), "length must be less than the 12 steps"),
        (lambda: Windows(SEEN, DONE, states=SEEN[:2]), "states must have as many paths"),
    ],
)
def test_bad_recordings_are_told_with_place_and_value(call, words):
    with pytest.raises(ValueError, match=words):
        call()
