"""The study of gradients against adversarial samples and numbers worked out by hand."""

import math

import pytest
import torch

from isojepa.objectives.gaussianity import EppsPulley, EppsPulleyExact, Moments
from isojepa.seeds import generator
from isojepa_lab.studies.gradients import bounds, curvature, gradient


def adversaries(n, slices=400):
    """Samples of all kinds: heavy tails, clusters, lattices, huge and tiny scales."""
    source = generator(0, "test", "adversaries", n)
    z = torch.randn(n, slices, generator=source, dtype=torch.float64)
    scale = 10 ** torch.empty(slices, dtype=torch.float64).uniform_(-2, 4, generator=source)
    return torch.cat((z * scale, (z.sign() + 1) * scale, z.round() * 1.5, z.abs() ** 5, z * 0 + scale), 1)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("n", [2, 5, 64])
def test_no_samples_break_the_bounds(sigma, n):
    x, limits = adversaries(n), bounds(sigma)
    exact = EppsPulleyExact(sigma)
    assert limits.supremum < limits.sharper < limits.plain
    assert gradient(exact, x).abs().max() <= limits.supremum
    assert gradient(EppsPulley(129, 12 * max(1, sigma), sigma), x).abs().max() <= limits.sharper
    assert curvature(exact, x).abs().max() <= limits.curvature_supremum * (1 + 1e-4)


def test_the_supremum_is_approached_where_the_formula_says():
    n = 2000  # the first sample at sqrt(2), all others one to the right
    x = torch.full((n, 1), math.sqrt(2) + 1, dtype=torch.float64)
    x[0] = math.sqrt(2)
    found = gradient(EppsPulleyExact(), x)[0].item()
    assert bounds().supremum == pytest.approx(3 * math.sqrt(2 * math.pi / math.e))
    assert found == pytest.approx(bounds().supremum, rel=1e-3)
    assert bounds().plain == 8


def test_the_curvature_is_that_of_an_expansion_by_hand():
    # two samples: T = k(x - y) - 2 c(x) - 2 c(y) + constant,
    # with k(d) = sqrt(2 pi) e^{-d^2/2} and c(x) = sqrt(pi) e^{-x^2/4}
    x, y = 0.3, -0.8
    root = math.sqrt(2 * math.pi)
    pair = root * ((x - y) ** 2 - 1) * math.exp(-((x - y) ** 2) / 2)
    cross = math.sqrt(math.pi) * (x**2 / 4 - 0.5) * math.exp(-(x**2) / 4)
    samples = torch.tensor([[x], [y]], dtype=torch.float64)
    assert curvature(EppsPulleyExact(), samples).item() == pytest.approx(pair - 2 * cross, rel=1e-6)


@pytest.mark.parametrize("order", [2, 4])
def test_gradients_of_moments_grow_with_the_power_2k_minus_1(order):
    x = torch.zeros(10, 2, dtype=torch.float64)
    x[0] = torch.tensor([1e3, 1e4])
    first, second = gradient(Moments(order), x)[0].tolist()
    assert math.log10(second / first) == pytest.approx(2 * order - 1, abs=0.01)
