"""Files of pictures as Pillow writes them, for the tests of this folder."""

import io

import numpy as np
import pytest

PIL = pytest.importorskip("PIL.Image", reason="Pillow is not installed: pip install 'isojepa[vision]'")


def noise(height, width, channels=3, seed=0):
    """Random pixels (height, width[, channels]), uint8."""
    shape = (height, width) if channels == 1 else (height, width, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def encoded(image, kind="PNG", **options):
    """The content of a file of a picture or of an array."""
    image = PIL.fromarray(image) if isinstance(image, np.ndarray) else image
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def write(path, image, kind="PNG", **options):
    """Write a picture, or bytes as they are, to a file; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(image if isinstance(image, bytes) else encoded(image, kind, **options))
    return path


def classes(root, counts, size=8):
    """A folder for each class with so many pictures; all different."""
    seed = 0
    for name, count in counts.items():
        for number in range(count):
            write(root / name / f"{number}.png", noise(size, size, seed=seed))
            seed += 1
    return root
