"""Numbers and rotations for tests; worlds and encoders are those of the study of dynamics."""

import numpy as np
import torch

from isojepa.seeds import generator
from isojepa_lab.papers.own.linear_worlds import Sines, sines
from isojepa_lab.papers.own.linear_worlds import regulated_world as world

__all__ = ["Sines", "normal", "rotation", "sines", "uniform", "world"]


def normal(*stream, size):
    return torch.randn(*size, generator=generator(0, "tests", *stream), dtype=torch.float64).numpy()


def uniform(*stream, low=0.0, high=1.0):
    drawn = torch.rand((), generator=generator(0, "tests", *stream), dtype=torch.float64)
    return low + (high - low) * float(drawn)


def rotation(size, *stream):
    return np.linalg.qr(normal("rotation", *stream, size=(size, size)))[0]
