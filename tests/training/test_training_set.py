"""A finite training set: batches come from it, it resumes to the bit, and nothing changes without one."""

import pytest
import torch

import isojepa as ij
from isojepa.training.loop import fit

SHORT = {
    "steps": 40,
    "batch": 16,
    "batch_start": None,
    "eval_every": 20,
    "eval_samples": 64,
    "checkpoint_seconds": 0.0,
    "progress": False,
}


class Listening(torch.nn.Module):
    """A linear encoder that remembers every training batch it was given."""

    def __init__(self):
        super().__init__()
        self.map = torch.nn.Linear(2, 2)
        with torch.no_grad():
            self.map.weight.copy_(torch.eye(2))
            self.map.bias.zero_()
        self.batches = []

    def forward(self, x):
        if self.training:
            self.batches.append(x.detach().clone())
        return self.map(x)


def parts(seed=0):
    encoder = ij.encoders.MLP(2, 2, width=16, layers=3, seed=seed)
    return encoder, ij.objectives.LeJEPA(4e-3, regularizer=ij.objectives.SIGReg(slices=8))


def heard(world, **options):
    encoder = Listening()
    fit(encoder, world, ij.objectives.LeJEPA(), **{**SHORT, **options})
    return [batch.reshape(2, -1, 2) for batch in encoder.batches]


def pairs_of(batches):
    """Every pair of every batch, as a tuple of its four observed numbers."""
    return [[tuple(row) for row in torch.cat(tuple(batch), -1).tolist()] for batch in batches]


def test_every_batch_is_drawn_from_the_same_pairs_and_holds_none_twice(spiral):
    batches = pairs_of(heard(spiral, pairs=50))
    assert len(batches) == SHORT["steps"]
    assert all(len(batch) == len(set(batch)) == 16 for batch in batches)
    seen = {pair for batch in batches for pair in batch}
    # 40 batches of 16 out of 50: that one pair is never drawn has a chance of 50 * 0.68^40 = 1e-5
    assert len(seen) == 50
    assert batches[0] != batches[1]


def test_the_held_out_pairs_are_not_of_the_training_set(spiral):
    trained = {pair[:2] for batch in pairs_of(heard(spiral, pairs=64)) for pair in batch}
    held_out = spiral.sample(64, ij.generator(0, "eval")).views[0]
    assert len(trained) == 64
    assert not trained & {tuple(row) for row in held_out.tolist()}


@pytest.mark.parametrize("pairs", [2, 5, 15])
def test_a_set_smaller_than_the_batch_is_the_whole_batch(spiral, pairs):
    batches = pairs_of(heard(spiral, pairs=pairs))
    assert all(len(batch) == pairs for batch in batches)
    assert len({pair for batch in batches for pair in batch}) == pairs


def test_a_record_without_a_set_is_not_taken_for_one_with(spiral, tmp_path):
    encoder, objective = parts()
    fit(encoder, spiral, objective, record=tmp_path / "run", **SHORT)
    encoder, objective = parts()
    with pytest.raises(ValueError, match=r"made with another config .*pairs: .*100 requested"):
        fit(encoder, spiral, objective, record=tmp_path / "run", pairs=100, **SHORT)


@pytest.mark.parametrize("pairs", [1, 0, -5, 2.5])
def test_bad_sizes_are_refused(spiral, pairs):
    encoder, objective = parts()
    with pytest.raises(ValueError, match=f"pairs must be none or an integer of at least 2, got {pairs}"):
        fit(encoder, spiral, objective, pairs=pairs, **SHORT)
