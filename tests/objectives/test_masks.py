"""Masks: their ratios and shapes, drawn from the generator alone."""

import itertools

import pytest
import torch

from isojepa.objectives.decoders import patches_of
from isojepa.objectives.masks import scattered_blocks, single_patches, target_blocks, union_size
from isojepa.objectives.positions import sine_positions
from isojepa.seeds import generator
from tests.reference.naive_objectives import union


def covers(mask: torch.Tensor, grid: tuple[int, int], sides: tuple[int, int], blocks: int) -> bool:
    """Whether some blocks of these sides, at most so many, have exactly this union."""
    wanted = {int(place) for place in mask.nonzero()}
    corners = itertools.product(range(grid[0] - sides[0] + 1), range(grid[1] - sides[1] + 1))
    inside = [corner for corner in corners if union([corner], sides, grid) <= wanted]
    return any(
        union(list(chosen), sides, grid) == wanted
        for number in range(1, blocks + 1)
        for chosen in itertools.combinations(inside, number)
    )


@pytest.mark.parametrize(
    ("grid", "targets"), [((14, 14), 118), ((8, 8), 38), ((16, 16), 154), ((4, 4), 10), ((6, 10), 36)]
)
def test_targets_are_the_asked_share_of_every_picture(grid, targets):
    mask = target_blocks(50, grid, generator(0))
    assert mask.shape == (50, grid[0] * grid[1])
    assert mask.sum(1).tolist() == [targets] * 50 == [union_size(grid)] * 50
    assert abs(targets / (grid[0] * grid[1]) - 0.6) < 0.03
    assert len({tuple(row.tolist()) for row in mask}) > 10  # each row has blocks of its own


@pytest.mark.parametrize(("grid", "sides"), [((8, 8), (4, 4)), ((4, 6), (2, 3)), ((7, 7), (4, 4))])
def test_targets_are_unions_of_four_blocks_of_half_the_grid(grid, sides):
    for mask in target_blocks(12, grid, generator(1)):
        assert covers(mask, grid, sides, 4)


def test_published_blocks_cover_six_tenths_on_average_before_any_is_drawn_anew():
    """4 blocks of 7 x 7 anywhere in 14 x 14: why 0.6 and 4 blocks go together."""
    corners = torch.randint(8, (3000, 4, 2), generator=generator(0)).tolist()
    mean = sum(len(union(one, (7, 7), (14, 14))) for one in corners) / 3000 / 196
    assert mean == pytest.approx(0.58, abs=0.01)


def test_places_of_blocks_are_those_of_plain_rejection():
    """How often each patch is a target, against layouts drawn one by one and kept if they fit."""
    ours = target_blocks(4000, (4, 4), generator(2)).float().mean(0)
    corners = torch.randint(3, (20000, 4, 2), generator=generator(3)).tolist()
    kept = [found for one in corners if len(found := union(one, (2, 2), (4, 4))) == 10]
    truth = torch.tensor([sum(place in found for found in kept) / len(kept) for place in range(16)])
    assert torch.allclose(ours, truth, atol=4 * (0.25 / 4000 + 0.25 / len(kept)) ** 0.5)


def test_single_patches_are_three_quarters_anywhere():
    mask = single_patches(2000, 64, 0.75, generator(0))
    assert bool((mask.sum(1) == 48).all())
    assert torch.allclose(mask.float().mean(0), torch.full((64,), 0.75), atol=0.05)


def test_scattered_blocks_keep_to_their_share_and_half_of_the_pictures_have_none():
    mask = scattered_blocks(2000, (14, 14), generator(0))
    share = mask.float().mean(1)
    some = share > 0
    assert some.float().mean().item() == pytest.approx(0.5, abs=0.05)
    assert share.max() <= 0.5 + 0.5 / 196
    assert 0.2 < share[some].mean() < 0.35
    rows = mask[some].unflatten(1, (14, 14))
    together = (rows[:, :, 1:] & rows[:, :, :-1]).sum() / rows[:, :, 1:].sum()
    assert together > 0.7  # beside a hidden patch there is one: a third if they were anywhere


@pytest.mark.parametrize(
    "draw",
    [
        lambda source: target_blocks(9, (8, 8), source),
        lambda source: single_patches(9, 64, 0.75, source),
        lambda source: scattered_blocks(9, (8, 8), source),
    ],
)
def test_masks_come_from_the_generator_alone(draw):
    before = torch.get_rng_state()
    assert torch.equal(draw(generator(4)), draw(generator(4)))
    assert not torch.equal(draw(generator(4)), draw(generator(5)))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: target_blocks(1, (1, 1), generator(0)), "blocks must leave patches to see, got 4 of 1 x 1"),
        (lambda: target_blocks(1, (8, 8), generator(0), ratio=1.0), r"ratio must lie in \(0, 1\), got 1"),
        (lambda: target_blocks(1, (8, 8), generator(0), blocks=9), "blocks must be .*got 9"),
        (lambda: single_patches(1, 4, 1.0, generator(0)), r"ratio must lie in \[0, 1\), got 1"),
        (lambda: scattered_blocks(1, (4, 4), generator(0), least=0.6), "least must not exceed most"),
        (lambda: sine_positions(2, 2, 6), "multiple of 4, got 6"),
        (lambda: patches_of(torch.zeros(1, 1, 5, 4), (2, 2)), "pictures must be whole patches"),
    ],
)
def test_masks_without_meaning_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_positions_differ_from_patch_to_patch_and_patches_are_cut_in_reading_order():
    places = sine_positions(3, 5, 8)
    assert len({tuple(row.tolist()) for row in places}) == 15
    x = torch.arange(2 * 3 * 4 * 6.0).reshape(2, 3, 4, 6)
    cut = patches_of(x, (2, 3))
    for row, column in itertools.product(range(2), range(3)):
        square = x[:, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
        assert torch.equal(cut[:, 3 * row + column], square.flatten(1))
