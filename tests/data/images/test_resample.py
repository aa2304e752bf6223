"""Crops against torchvision's, and the compiled form against the products of matrices."""

import pytest
import torch

from isojepa.data.images.augmentations import normalized, product, resized_crops, whole
from isojepa.seeds import generator

SIZES = [(28, 28, 28), (28, 28, 16), (64, 48, 64), (300, 400, 224), (300, 400, 96), (1, 1, 28), (7, 200, 5)]


def boxed(height, width, n=6):
    """Pictures, boxes anywhere in them, and flips of half of them."""
    source = generator(height * width, "boxes")
    images = torch.randint(0, 256, (n, 3, height, width), generator=source).byte()
    tall, wide = (torch.randint(1, side + 1, (n,), generator=source) for side in (height, width))
    tall[0], wide[0] = height, width
    top, left = (
        (torch.rand(n, generator=source) * (side - part + 1)).long()
        for side, part in ((height, tall), (width, wide))
    )
    return images, torch.stack([top, left, tall, wide], dim=1), torch.arange(n) % 2 == 1


@pytest.mark.parametrize(("height", "width", "size"), SIZES)
@pytest.mark.parametrize("form", ["compiled", "matrices", "list"])
def test_crops_equal_torchvisions(functional, height, width, size, form):
    images, boxes, flip = boxed(height, width)
    wanted = [
        functional.resized_crop(image.float() / 255, *box.tolist(), [size, size], antialias=True)
        for image, box in zip(images, boxes, strict=True)
    ]
    wanted = [x.flip(-1) if turned else x for x, turned in zip(wanted, flip, strict=True)]
    if form == "matrices":
        found = product(images, boxes, size, flip)
    else:
        found = resized_crops(images if form == "compiled" else list(images), boxes, size, flip)
    torch.testing.assert_close(found, torch.stack(wanted), rtol=0, atol=1e-4)


def test_pictures_of_any_memory_order_and_of_floats_are_cut_alike():
    images, boxes, flip = boxed(30, 50)
    last = images.movedim(1, -1).contiguous().movedim(-1, 1)  # channels last, as decoders give them
    wanted = resized_crops(images, boxes, 24, flip)
    assert torch.equal(resized_crops(last, boxes, 24, flip), wanted)
    for floats in (images.float() / 255, images.double() / 255):
        torch.testing.assert_close(resized_crops(floats, boxes, 24, flip), wanted)


@pytest.mark.parametrize(("height", "width", "size"), SIZES)
def test_whole_pictures_equal_torchvisions_resize_and_centre_crop(functional, height, width, size):
    images, _, _ = boxed(height, width)
    resized = functional.resize(images.float() / 255, [size], antialias=True)
    wanted = functional.normalize(functional.center_crop(resized, [size, size]), [0.5] * 3, [0.25, 0.5, 1.0])
    mean, std = (0.5, 0.5, 0.5), (0.25, 0.5, 1.0)
    torch.testing.assert_close(whole(images, size, mean, std), wanted, rtol=0, atol=1e-4)
    torch.testing.assert_close(whole(list(images), size, mean, std), wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("box", [[0, 0, 9, 8], [0, 1, 8, 8], [-1, 0, 4, 4], [0, 0, 0, 4]])
@pytest.mark.parametrize("listed", [False, True])
def test_a_box_outside_its_picture_is_an_error(box, listed):
    images = torch.zeros(2, 1, 8, 8).byte()
    boxes = torch.tensor([[0, 0, 8, 8], box])
    with pytest.raises(ValueError, match=r"boxes must lie inside .* picture of 8 × 8"):
        resized_crops(list(images) if listed else images, boxes, 4)


def test_there_must_be_a_box_for_each_picture_and_a_size():
    with pytest.raises(ValueError, match=r"boxes must be \(2, 4\)"):
        resized_crops(torch.zeros(2, 1, 8, 8).byte(), torch.tensor([[0, 0, 8, 8]]), 4)
    with pytest.raises(ValueError, match="size must be a positive integer, got 0"):
        resized_crops(torch.zeros(1, 1, 8, 8).byte(), torch.tensor([[0, 0, 8, 8]]), 0)
    with pytest.raises(ValueError, match="for each of 3 channels"):
        normalized(torch.zeros(1, 3, 2, 2), (0.5, 0.5), (1.0, 1.0))
