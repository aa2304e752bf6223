"""Boxes and colors as they are drawn, against what the settings say and against torchvision's boxes."""

import math

import pytest
import torch

from isojepa.data.images.views import NUMBERS, Views, draw
from isojepa.seeds import generator


def boxes(views, height, width, n=4000):
    uniform = torch.rand(n, len(views.sizes), NUMBERS, generator=generator(0, "draws"))
    return draw(uniform, torch.tensor([[height, width]]).expand(n, 2), views)


def test_areas_and_ratios_have_the_law_of_the_settings():
    drawn = boxes(Views(), 1000, 1000).boxes.double()
    share = drawn[..., 2] * drawn[..., 3] / 1e6
    ratio = (drawn[..., 3] / drawn[..., 2]).log()
    for view, (low, high) in ((1, (0.3, 0.8)), (5, (0.05, 0.3))):
        # a crop of more than 3/4 may not fit at its ratio and is drawn again: up to there areas are uniform
        inside = share[:, view][(share[:, view] > low) & (share[:, view] < min(high, 0.75))]
        grid = (inside.sort().values - low) / (min(high, 0.75) - low)
        distance = (grid - torch.linspace(0, 1, len(grid))).abs().max()
        assert distance < 1.95 / math.sqrt(len(grid))  # Kolmogorov-Smirnov, one in a thousand
    spread = math.log(4 / 3)
    assert bool((ratio[:, 5].abs() < spread + 0.01).all())
    assert abs(float(ratio[:, 5].mean())) < 4 * spread / math.sqrt(3 * 4000)
    assert abs(float(ratio[:, 5].std()) - spread / math.sqrt(3)) < 0.01


def test_boxes_have_the_law_of_torchvisions(functional):
    from isojepa.importing import import_torchvision

    transform = import_torchvision("transforms").RandomResizedCrop
    views = Views(global_scale=(0.2, 1.0))
    ours = boxes(views, 60, 90, 3000).boxes[:, 0].double()
    picture = torch.zeros(1, 60, 90)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = [transform.get_params(picture, [0.2, 1.0], [3 / 4, 4 / 3]) for _ in range(3000)]
    wanted = torch.tensor(theirs).double()
    error = (ours.var(0) / 3000 + wanted.var(0) / 3000).sqrt()
    assert bool(((ours.mean(0) - wanted.mean(0)).abs() < 4 * error).all())
    assert bool(((ours.std(0) / wanted.std(0) - 1).abs() < 0.08).all())


@pytest.mark.parametrize(("height", "width"), [(1, 1), (2, 1), (3, 500), (500, 3), (28, 28)])
def test_boxes_lie_inside_pictures_of_any_size(height, width):
    top, left, tall, wide = boxes(Views(), height, width, 500).boxes.unbind(-1)
    assert bool(((tall >= 1) & (wide >= 1) & (top >= 0) & (left >= 0)).all())
    assert bool(((top + tall <= height) & (left + wide <= width)).all())


def test_a_long_picture_gives_the_box_in_its_centre_where_none_fits():
    drawn = boxes(Views(global_scale=(1.0, 1.0), local_views=0), 10, 100, 4).boxes
    assert drawn.unique(dim=0).tolist() == [[[0, 43, 10, 13], [0, 43, 10, 13]]]


def test_colours_come_with_their_probabilities_and_within_their_ranges():
    views = Views(blur=(1.0, 0.1, *(0.5,) * 6), solarize=(0.0, 0.2, *(0.0,) * 6))
    drawn = boxes(views, 50, 50)
    for name, wanted in (("flip", 0.5), ("jitter", 0.8), ("grey", 0.2)):
        assert abs(float(getattr(drawn, name).float().mean()) - wanted) < 0.015
    blurred = (drawn.sigma > 0).float().mean(0)
    torch.testing.assert_close(blurred, torch.tensor(views.chances("blur")), rtol=0, atol=0.035)
    assert bool(drawn.solarize[:, 0].any()) is False
    assert abs(float(drawn.solarize[:, 1].float().mean()) - 0.2) < 0.03
    low, high = drawn.factors.amin((0, 1)), drawn.factors.amax((0, 1))
    torch.testing.assert_close(low, torch.tensor([0.6, 0.6, 0.8, -0.1]), rtol=0, atol=2e-3)
    torch.testing.assert_close(high, torch.tensor([1.4, 1.4, 1.2, 0.1]), rtol=0, atol=2e-3)
    sigma = drawn.sigma[drawn.sigma > 0]
    assert 0.1 <= float(sigma.min()) < 0.11
    assert 1.99 < float(sigma.max()) <= 2.0
    orders = (drawn.order * torch.tensor([64, 16, 4, 1])).sum(-1).flatten().unique(return_counts=True)[1]
    assert len(orders) == 24
    assert float(orders.max() / orders.min()) < 1.25
