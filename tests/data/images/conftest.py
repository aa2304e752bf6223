"""What the tests of pictures share."""

import numpy as np
import pytest
import torch

from isojepa.seeds import generator


@pytest.fixture(scope="session")
def functional():
    """torchvision's functions of pictures, which ours are held against."""
    from isojepa.importing import import_torchvision

    try:
        return import_torchvision("transforms.v2.functional")
    except ImportError as error:
        pytest.skip(str(error))


@pytest.fixture
def colorful():
    """(6, 3, 40, 36) in [0, 1]."""
    return torch.rand(6, 3, 40, 36, generator=generator(0, "pictures"))


def noise(*shape: int) -> np.ndarray:
    """Pictures of random pixels."""
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


class Unequal:
    """Pictures of several sizes, one of them a single pixel."""

    channels, shape, skipped, classes = 3, None, 0, ("a", "b")
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)

    def __init__(self) -> None:
        sizes = [(40, 60), (1, 1), (100, 9), (31, 32), (50, 200), (5, 5)]
        self.images = [torch.from_numpy(noise(3, *size)) for size in sizes]
        self.labels = torch.arange(len(sizes)) % 2

    def __len__(self) -> int:
        return len(self.images)

    def read(self, ids):
        return [self.images[number] for number in ids.tolist()]
