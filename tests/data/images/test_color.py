"""Changes of colour against torchvision's functions with the same parameters."""

from dataclasses import replace

import pytest
import torch

from isojepa.data.images import augmentations as colour
from isojepa.data.images.augmentations import ColorDraws, recolor, recolor_tensors
from isojepa.seeds import generator

FACTORS = torch.tensor([0.0, 0.4, 0.9, 1.0, 1.3, 1.8])
SHIFTS = torch.tensor([-0.5, -0.1, 0.0, 0.05, 0.3, 0.5])
NONE = torch.zeros(6, dtype=torch.bool)


def nothing():
    """Colours that change nothing."""
    return ColorDraws(NONE, torch.ones(6, 4), torch.arange(4).expand(6, 4), NONE, torch.zeros(6), NONE)


def drawn(n, name="colors"):
    source = generator(0, name)
    chance = torch.rand(4, n, generator=source)
    factors = torch.rand(n, 4, generator=source) * torch.tensor([0.8, 0.8, 0.4, 0.2])
    return ColorDraws(
        chance[0] < 0.8,
        factors + torch.tensor([0.6, 0.6, 0.8, -0.1]),
        torch.rand(n, 4, generator=source).argsort(1),
        chance[1] < 0.3,
        torch.where(chance[2] < 0.5, 0.1 + 1.9 * torch.rand(n, generator=source), 0.0),
        chance[3] < 0.3,
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "parameters"),
    [
        ("brightness", "adjust_brightness", FACTORS),
        ("contrast", "adjust_contrast", FACTORS),
        ("saturation", "adjust_saturation", FACTORS),
        ("hue", "adjust_hue", SHIFTS),
    ],
)
def test_jitter_equals_torchvisions(functional, colorful, ours, theirs, parameters):
    colorful[0, :, :3] = 0.5  # grey pixels have no hue
    wanted = torch.stack(
        [getattr(functional, theirs)(x, f.item()) for x, f in zip(colorful, parameters, strict=True)]
    )
    torch.testing.assert_close(getattr(colour, ours)(colorful, parameters), wanted, rtol=0, atol=1e-5)
    which = ("brightness", "contrast", "saturation", "hue").index(ours)
    factors = torch.tensor([1.0, 1.0, 1.0, 0.0]).repeat(6, 1)
    factors[:, which] = parameters
    compiled = recolor(colorful.clone(), replace(nothing(), jitter=~NONE, factors=factors), 3)
    torch.testing.assert_close(compiled, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kernel", [1, 3, 9, 23])
def test_blur_equals_torchvisions(functional, colorful, kernel):
    sigma = torch.tensor([0.1, 0.3, 0.7, 1.0, 1.5, 2.0])
    wanted = torch.stack(
        [
            functional.gaussian_blur(x, [kernel] * 2, [s.item()] * 2)
            for x, s in zip(colorful, sigma, strict=True)
        ]
    )
    torch.testing.assert_close(colour.blur(colorful, sigma, kernel), wanted, rtol=0, atol=1e-5)
    compiled = recolor(colorful.clone(), replace(nothing(), sigma=sigma), kernel)
    torch.testing.assert_close(compiled, wanted, rtol=0, atol=1e-5)


def test_grey_and_solarize_equal_torchvisions(functional, colorful):
    grey = torch.stack([functional.rgb_to_grayscale(x, 3) for x in colorful])
    turned = torch.stack([functional.solarize(x, 128 / 255) for x in colorful])
    torch.testing.assert_close(colour.grey(colorful), grey, rtol=0, atol=1e-6)
    assert torch.equal(colour.solarize(colorful), turned)
    greyed = recolor(colorful.clone(), replace(nothing(), grey=~NONE), 3)
    torch.testing.assert_close(greyed, grey, rtol=0, atol=1e-6)
    solarized = recolor(colorful.clone(), replace(nothing(), solarize=~NONE), 3)
    torch.testing.assert_close(solarized, turned, rtol=0, atol=1e-6)


def test_jitter_comes_in_the_order_that_was_drawn(functional, colorful):
    changes = ["adjust_brightness", "adjust_contrast", "adjust_saturation", "adjust_hue"]
    factors = torch.tensor([1.4, 0.6, 1.2, 0.1]).expand(6, 4)
    order = torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1], [3, 0, 1, 2], [1, 0, 2, 3]])
    wanted = []
    for x, sequence in zip(colorful, order.tolist(), strict=True):
        for which in sequence:
            x = getattr(functional, changes[which])(x, factors[0, which].item())
        wanted.append(x)
    colors = replace(nothing(), jitter=~NONE, factors=factors, order=order)
    for form in (recolor, recolor_tensors):
        torch.testing.assert_close(form(colorful.clone(), colors, 3), torch.stack(wanted), rtol=0, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_compiled_colours_equal_those_of_tensors(channels):
    x = torch.rand(64, channels, 20, 20, generator=generator(0, "x"))
    x, colors = x.round(decimals=2), drawn(64)
    colors = replace(colors, solarize=torch.zeros(64).bool())  # a jump: a last bit decides which side
    torch.testing.assert_close(
        recolor(x.clone(), colors, 5), recolor_tensors(x.clone(), colors, 5), rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("form", [recolor, recolor_tensors])
def test_only_pictures_with_a_draw_are_touched(form, colorful):
    some = torch.arange(6) % 2 == 0
    for change in ({"jitter": some}, {"grey": some}, {"sigma": some * 1.0}, {"solarize": some}):
        factors = torch.tensor([1.3, 0.7, 0.5, 0.2]).expand(6, 4)
        found = form(colorful.clone(), replace(nothing(), factors=factors, **change), 5)
        assert torch.equal(found[~some], colorful[~some])
        assert all(not torch.equal(a, b) for a, b in zip(found[some], colorful[some], strict=True))


@pytest.mark.parametrize("kernel", [0, 2, 25])
def test_a_kernel_that_does_not_fit_is_an_error(kernel):
    with pytest.raises(
        ValueError, match=f"kernel must be odd and below twice the side of 12 .* got {kernel}"
    ):
        recolor(torch.zeros(6, 3, 12, 14), nothing(), kernel)
