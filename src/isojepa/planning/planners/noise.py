r"""Noise that is coloured in time: its power spectrum falls as frequency^-beta.

    x_t = sum_k s_k (u_k cos 2 pi k t / H + v_k sin 2 pi k t / H),    s_k ~ max(k, 1)^(-beta / 2)

with standard normal u, v, scaled to variance 1 at every step. beta 0 is white noise; 2 moves slowly, as arms
do (Pinneri et al. 2020, "Sample-efficient cross-entropy method", after Timmer & Koenig 1995).
"""

import torch
from torch import Tensor

from isojepa.planning.planners.problems import normal


def spectrum(horizon: int, beta: float) -> Tensor:
    """(horizon // 2 + 1,) power at each frequency k / horizon, such that the variance of a step is 1."""
    frequency = torch.arange(horizon // 2 + 1, dtype=torch.float64).clamp_min(1.0)
    power = frequency**-beta
    # frequency 0, and the last of an even horizon, have a cosine alone; all others a sine besides
    share = torch.full_like(power, 2.0)
    share[0] = 1.0
    if horizon % 2 == 0:
        share[-1] = 1.0
    return power / (share * power).sum()


def coloured(shape: tuple[int, ...], beta: float, generator: torch.Generator, like: Tensor) -> Tensor:
    """Normal noise of variance 1 that is coloured along the axis before the last.

    Args:
        shape: (..., horizon, m).
        beta: how steeply the spectrum falls.
        generator: draws it.
        like: whose type and device it has.
    """
    *rows, horizon, width = shape
    # steps lie one after the other in memory: each is then read, by the model, in one piece
    white = normal((horizon, *rows, width), generator, like)
    if beta and horizon > 1:
        # white noise has the same power at all frequencies: its transform is weighted and taken back
        gain = torch.sqrt(spectrum(horizon, beta) * horizon).to(white)
        weighted = torch.fft.rfft(white, dim=0) * gain.view(-1, *[1] * (white.ndim - 1))
        white = torch.fft.irfft(weighted, n=horizon, dim=0)
    return white.movedim(0, -2)
