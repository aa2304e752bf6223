"""Cosines of many angles, as random features have them, in vectors of the processor.

NumPy has vectors for cosines in double precision only where the processor has those of 512 bits; elsewhere it
takes them one by one, four times as long as torch, and they are most of the work of a fit to random features.
"""

import numpy as np
import torch


def cosines(angles: np.ndarray) -> np.ndarray:
    """The cosine of each angle, in place: (...) of doubles that nobody else needs.

    Example:
        >>> cosines(np.array([0.0, np.pi]))
        array([ 1., -1.])
    """
    torch.from_numpy(angles).cos_()
    return angles
