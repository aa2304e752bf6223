"""MAE against a slow form; its masks."""

import itertools

import numpy as np
import pytest
import torch

from isojepa.registry import Context, find
from isojepa.seeds import generator
from isojepa_lab.baselines import MAE
from isojepa_lab.baselines.mae import single_patches
from tests.objectives.vits import DIM, GRID, PIXELS, pictures, vit


def test_single_patches_are_three_quarters_anywhere():
    mask = single_patches(2000, 64, 0.75, generator(0))
    assert bool((mask.sum(1) == 48).all())
    assert torch.allclose(mask.float().mean(0), torch.full((64,), 0.75), atol=0.05)


@pytest.mark.parametrize("normalise", [True, False])
def test_mae_is_the_squared_error_of_hidden_pixels(normalise):
    model, batch = vit(), pictures(3)
    objective = MAE(DIM, PIXELS, width=16, depth=1, heads=2, normalise=normalise)
    loss = objective({"encoder": model}, batch, generator(5))
    masks, errors = single_patches(3, 16, 0.75, generator(5)), []
    assert masks.sum(1).tolist() == [12, 12, 12]
    for x, hidden in zip(batch.views[0], masks, strict=True):
        seen = model.encode(x[None], ~hidden[None])
        told = objective.decoder(seen.features, GRID, seen.tokens, ~hidden[None])[0].detach().double()
        for row, column in itertools.product(range(4), range(4)):
            if hidden[4 * row + column]:
                pixels = x[:, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4].flatten().double()
                if normalise:
                    pixels = (pixels - pixels.mean()) / (pixels.var() + 1e-6).sqrt()
                errors.append((told[4 * row + column] - pixels).square().mean().item())
    assert loss.total.item() == pytest.approx(np.mean(errors), rel=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MAE(DIM, 48, ratio=1.0), r"ratio must lie in \(0, 1\), got 1"),
        (lambda: find("objective", "mae")().build(Context(feature_dim=4)), "mae needs views that are images"),
        (lambda: single_patches(1, 4, 1.0, generator(0)), r"ratio must lie in \[0, 1\), got 1"),
    ],
)
def test_settings_out_of_range_raise(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_patches_of_another_size_say_what_to_set():
    with pytest.raises(ValueError, match=r"patches of 768 numbers.*set patch to the side.*patches, 4"):
        MAE(DIM, 768, width=16, depth=0)({"encoder": vit()}, pictures(), generator(0))
