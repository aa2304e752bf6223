"""Coloured noise: its spectrum and its variance."""

import numpy as np
import pytest
import torch

from isojepa.planning.planners.sampling import coloured, spectrum
from isojepa.seeds import generator


@pytest.mark.parametrize("beta", [0.0, 1.0, 2.0])
def test_the_periodogram_falls_as_the_frequency_to_the_power_of_minus_beta(beta):
    noise = coloured((4000, 64, 1), beta, generator(0, "noise"), torch.zeros(0))[..., 0].numpy()
    power = (np.abs(np.fft.rfft(noise, axis=1)) ** 2).mean(0)[1:-1]
    slope = np.polyfit(np.log(np.arange(1, 32)), np.log(power), 1)[0]
    assert slope == pytest.approx(-beta, abs=0.02)


@pytest.mark.parametrize("horizon", [1, 2, 5, 8])
def test_every_step_has_variance_one(horizon):
    noise = coloured((50_000, horizon, 1), 2.0, generator(0, "noise"), torch.zeros(0, dtype=torch.float64))
    np.testing.assert_allclose(noise.var(0)[:, 0].numpy(), 1.0, atol=0.03)
    if horizon > 2:
        assert float(spectrum(horizon, 2.0)[0]) > float(spectrum(horizon, 0.0)[0])
