"""What two axes share, against canonical correlations that are computed row by row."""

import numpy as np
import pytest
import torch

from isojepa.seeds import generator, numpy_generator
from isojepa.unmixing.shared import shared_functions

RIDGE = 0.03


def blocks(n: int) -> np.ndarray:
    return np.arange(n) * 20 // n


def functions(x: np.ndarray) -> np.ndarray:
    """(n, 4) Hermite polynomials of standardised values, made white as `shared` says, one row at a time."""
    x = np.clip((x - x.mean()) / x.std(ddof=1), -4, 4)
    table = np.stack([x, x**2 - 1, x**3 - 3 * x, x**4 - 6 * x**2 + 3], 1) / np.sqrt([1, 2, 6, 24])
    table -= table.mean(0)
    table /= np.maximum(table.std(0, ddof=1), 0.5)
    root = np.linalg.cholesky(table.T @ table / len(x) + RIDGE * np.eye(4))
    return np.linalg.solve(root, table.T).T


def reference(y: np.ndarray, block: np.ndarray, one: int, other: int) -> tuple[float, float]:
    """The correlation of the functions that share most, and of a function of one with the other itself."""
    first, second = functions(y[:, one]), functions(y[:, other])
    found, carried = [], []
    for which in (0, 1):
        on, off = block % 2 == which, block % 2 != which
        cross = first[on].T @ second[on] / on.sum()
        shown = first[off].T @ second[off] / off.sum()
        left, _, right = np.linalg.svd(cross)
        found.append(left[:, 0] @ shown @ right[0])
        carried.append(cross[:, 0] @ shown[:, 0] / np.linalg.norm(cross[:, 0]))
    return float(np.mean(found)), float(np.mean(carried))


def test_functions_that_axes_share_are_those_of_canonical_correlations():
    z = numpy_generator(0, "shared").normal(size=(4001, 3))
    y = np.stack([z[:, 0], 0.6 * (z[:, 0] ** 2 - 1) + 0.8 * z[:, 1], z[:, 1] ** 3, z[:, 2]], 1)
    links, sure, carried = shared_functions(torch.from_numpy(y), blocks(len(y)))
    for one, other in ((0, 1), (1, 2), (1, 0), (2, 1)):
        link, function = reference(y, blocks(len(y)), one, other)
        assert links[one, other] == pytest.approx(link, abs=1e-3)
        assert carried[one, other] == pytest.approx(function, abs=1e-4)
        assert sure[one, other]
    assert not sure[3].any()
    assert not np.diag(links).any()
    assert not np.diag(carried).any()
    assert links == pytest.approx(links.T)


def test_halves_need_not_be_equal_nor_in_turns():
    y = torch.from_numpy(numpy_generator(1, "shared").laplace(size=(3000, 3)))
    block = np.sort(numpy_generator(2, "shared").integers(0, 6, 3000))
    links, _, carried = shared_functions(y, block)
    link, function = reference(y.numpy(), block, 0, 2)
    assert carried[0, 2] == pytest.approx(function, abs=1e-4)
    assert abs(links).max() < 0.1
    assert abs(link) < 0.1


def test_one_axis_and_axes_that_stand_still_share_nothing():
    links, sure, _ = shared_functions(torch.randn(500, 1, generator=generator(0, "shared")), blocks(500))
    assert links.shape == (1, 1)
    assert not links.any()
    assert not sure.any()
    still = torch.zeros(500, 2)
    links, sure, carried = shared_functions(still, blocks(500))
    assert np.isfinite(links).all()
    assert np.isfinite(carried).all()
    assert not sure.any()
