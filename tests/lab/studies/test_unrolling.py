"""The study of unrolling: the X is what it should be, is seen where it should be, and can be unrolled."""

import math

import pytest
import torch
from scipy import stats

from isojepa.objectives.gaussianity import UNIVARIATE
from isojepa.seeds import generator
from isojepa_lab.studies import unrolling
from isojepa_lab.studies.unrolling import STATISTICS, Study


def test_the_x_has_gaussian_marginals_and_covariance_one_and_is_not_gaussian():
    x = unrolling.cross(20_000, 4, 0)
    for column in x.T.numpy():
        assert stats.kstest(column, "norm").pvalue > 1e-3
    torch.testing.assert_close(torch.cov(x.T), torch.eye(4), atol=0.03, rtol=0)
    assert torch.equal(x[:, 0].abs(), x[:, 1].abs())
    diagonal = (x[:, 0] + x[:, 1]) / math.sqrt(2)
    assert (diagonal == 0).float().mean().item() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("name", STATISTICS)
def test_every_statistic_but_mean_variance_has_its_peak_at_a_diagonal(name):
    row = Study(circle=400).half_circle(name)
    ratio = dict(zip(row["angles"], row["ratio"], strict=True))
    sees = min(ratio[45.0], ratio[135.0]) > 10 * max(ratio[0.0], ratio[90.0])
    assert sees == (name != "mean-variance")


def test_a_blurred_x_has_the_fourth_power_of_the_correlation():
    start = unrolling.cross(1000, 20, 0)
    rho = 0.8
    noise = torch.randn(start.shape, generator=generator(0, "test"))
    judged = unrolling.judge(start, rho * start + math.sqrt(1 - rho**2) * noise, 9)
    assert judged["blur"] == pytest.approx(rho**4, abs=0.02)
    assert judged["squares"] == pytest.approx(rho**4, abs=0.1)


def test_in_few_dimensions_epps_pulley_unrolls_below_the_blur_and_mean_variance_does_not():
    start = unrolling.cross(100, 3, 0)
    judged = {
        name: unrolling.judge(start, unrolling.descend(start, UNIVARIATE[name](), 16, [0.02] * 400, 0), 99)
        for name in ("epps-pulley", "mean-variance")
    }
    seen, blind = judged["epps-pulley"], judged["mean-variance"]
    assert seen["squares"] < 0.35 < 0.8 < blind["squares"]
    assert seen["squares"] < seen["blur"] - 0.1
    assert seen["p"] > 0.05


def test_what_diverged_is_said_to_have():
    start = unrolling.cross(10, 4, 0)
    assert unrolling.judge(start, 1e5 * start, 9)["status"] == "diverged"
    assert unrolling.judge(start, start * math.nan, 9)["status"] == "diverged"
    flat = torch.zeros(10, 4)  # Shapiro-Francia divides by the spread
    end = unrolling.descend(flat, UNIVARIATE["shapiro-francia"](), 3, [0.1], 0)
    assert torch.isnan(end).all()
