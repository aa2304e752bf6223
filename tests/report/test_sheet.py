"""The sheet of views: what is drawn is what an encoder gets."""

import numpy as np
import torch

from isojepa.data.images import Images, Stack, Views
from isojepa.data.source import Streams
from isojepa.report.sheet import draw_sheet


def sheet(channels=3):
    images = np.random.default_rng(0).integers(0, 256, (5, channels, 20, 30), dtype=np.uint8)
    settings = Views(local_views=1, global_size=16, local_size=8)
    source = Images(Stack(images, np.arange(5) % 2, ("cat", "dog")), settings)
    ids = torch.tensor([3, 1])
    drawn = source.defer(ids, Streams(0, torch.zeros(2), ids))
    return drawn, images, draw_sheet(drawn, "a title", ("cat", "dog"))


def test_a_sheet_shows_pictures_their_boxes_and_every_view():
    drawn, images, figure = sheet()
    axes = np.array(figure.axes).reshape(2, 4)
    assert [a.get_title() for a in axes[0]] == ["picture", "global 16", "global 16", "local 8"]
    assert [a.get_ylabel() for a in axes[:, 0]] == ["dog", "dog"]
    np.testing.assert_allclose(
        axes[0, 0].images[0].get_array(), images[3].transpose(1, 2, 0) / 255, atol=1e-6
    )
    top, left, height, width = drawn.draws.boxes[1, 2].tolist()
    box = axes[1, 0].patches[2]
    assert (box.get_x(), box.get_y(), box.get_width(), box.get_height()) == (
        left - 0.5,
        top - 0.5,
        width,
        height,
    )
    mean, std = (torch.tensor(part)[:, None, None] for part in (drawn.views.mean, drawn.views.std))
    wanted = (drawn.to("cpu").views[2][1] * std + mean).clamp(0, 1).movedim(0, -1)
    np.testing.assert_allclose(axes[1, 3].images[0].get_array(), wanted, atol=1e-6)


def test_grey_pictures_are_drawn_grey():
    _, _, figure = sheet(channels=1)
    shown = figure.axes[1].images[0].get_array()
    assert shown.shape == (16, 16, 3)
    assert (shown == shown[..., :1]).all()
