"""Tests that share simulated samples: the same statistics, and the same law under the null."""

import numpy as np
import pytest
import scipy
import torch

from isojepa.objectives.gaussianity import MULTIVARIATE, UNIVARIATE, EppsPulley, Sliced
from isojepa.objectives.gaussianity.sliced import SharedSample, simulate_together
from isojepa.objectives.gaussianity.statistic import NullDistribution
from isojepa.seeds import generator

SLICED = {name: Sliced(test(), 6, "orthogonal") for name, test in UNIVARIATE.items()}
SLICED["worst"] = Sliced(EppsPulley(), 6, "orthogonal", reduce="max")
SLICED["standardized"] = Sliced(EppsPulley(), 6, "orthogonal", standardize=True)
WHOLE = {name: test() for name, test in MULTIVARIATE.items()}
WHOLE["standardized"] = MULTIVARIATE["bhep"](standardize=True)
TESTS = {**{f"sliced {name}": test for name, test in SLICED.items()}, **WHOLE}


@pytest.mark.parametrize("name", TESTS)
def test_a_sample_has_the_statistic_of_the_test_itself(name):
    x = 1.2 * torch.randn(90, 4, generator=generator(0, "x")) + 0.1
    value = SharedSample(x).value(TESTS[name])
    simulated = SharedSample(x, simulated=True).value(TESTS[name])
    truth = TESTS[name].statistic(x)
    assert torch.allclose(value.double(), truth.double(), rtol=1e-4, atol=1e-6)
    assert torch.allclose(simulated.double(), truth.double(), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("dim", [3, 9], ids=["all of space", "more than the slices"])
def test_laws_are_those_of_simulations_of_their_own(dim):
    """Two samples of one law: the largest of the Kolmogorov-Smirnov distances is what chance allows."""
    draws, n = 400, 40
    tests = list(SLICED.values())
    for test, law in zip(tests, simulate_together(tests, n, dim, draws, seed=1), strict=True):
        alone = NullDistribution.simulated(test, n, dim, draws, seed=2)
        p = scipy.stats.ks_2samp(law.values, alone.values).pvalue
        assert p > 1e-4, test
    tests = list(WHOLE.values())
    for test, law in zip(tests, simulate_together(tests, n, dim, draws, seed=1), strict=True):
        p = scipy.stats.ks_2samp(
            law.values, NullDistribution.simulated(test, n, dim, draws, seed=2).values
        ).pvalue
        assert p > 1e-4, test


@pytest.mark.slow
def test_p_values_keep_their_level():
    """Of 200 Gaussian samples, each test rejects at 10 % about one in ten."""
    n, dim, draws, trials = 30, 2, 199, 200
    for tests in (list(SLICED.values()), list(WHOLE.values())):
        laws = simulate_together(tests, n, dim, draws)
        rejected = np.zeros(len(tests))
        for trial in range(trials):
            sample = SharedSample(torch.randn(n, dim, generator=generator(trial, "trial")))
            p = [
                law.pvalue(sample.value(test), test.two_sided) for test, law in zip(tests, laws, strict=True)
            ]
            rejected += np.array([float(one) <= 0.1 for one in p])
        # 4 standard deviations of a share of 200, and that of the level that 199 draws estimate
        reach = 4 * np.sqrt(0.09 / trials + 0.09 / draws)
        assert np.abs(rejected / trials - 0.1).max() <= reach


def test_more_tests_do_not_change_the_law_of_one():
    one = simulate_together([SLICED["watson"]], 50, 4, 30)[0].values
    among = simulate_together([SLICED["entropy"], SLICED["watson"]], 50, 4, 30)[1].values
    assert np.allclose(np.sort(one), np.sort(among), rtol=1e-4)
    with pytest.raises(ValueError, match="draws must be positive"):
        simulate_together([SLICED["watson"]], 50, 4, 0)
