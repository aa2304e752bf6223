"""Arrays along paths, read the same way whatever they are made of."""

import numpy as np
import pytest
import torch

from isojepa.data.trajectories import Trajectories

RNG = np.random.default_rng(0)
BLOCK = RNG.normal(size=(7, 4, 3)) + 5
RAGGED = [RNG.normal(size=(length, 3)) for length in (5, 1, 9, 4)]


def mapped(tmp_path, arrays):
    for number, array in enumerate(arrays):
        np.save(tmp_path / f"{number}.npy", array)
    return [np.load(tmp_path / f"{number}.npy", mmap_mode="r") for number in range(len(arrays))]


def as_list(values):
    return [values[:, i] for i in range(values.shape[1])] if isinstance(values, np.ndarray) else values


@pytest.mark.parametrize("kind", ["block", "tensor", "list", "mapped block", "mapped list"])
def test_gather_moments_and_subsets_are_those_of_plain_indexing(kind, tmp_path):
    plain = as_list(BLOCK) if "block" in kind or kind == "tensor" else RAGGED
    values = {
        "block": lambda: BLOCK,
        "tensor": lambda: torch.from_numpy(BLOCK),
        "list": lambda: RAGGED,
        "mapped block": lambda: mapped(tmp_path, [BLOCK])[0],
        "mapped list": lambda: mapped(tmp_path, RAGGED),
    }[kind]()
    found = Trajectories("states", values)
    path = RNG.integers(0, 4, 50)
    step = np.array([RNG.integers(0, len(plain[p])) for p in path])
    expected = np.array([plain[p][s] for p, s in zip(path, step, strict=True)])
    np.testing.assert_array_equal(found.gather(path, step), expected)
    mean, std = found.moments()
    joined = np.concatenate(plain)
    np.testing.assert_allclose(mean, joined.mean(0), rtol=1e-12)
    np.testing.assert_allclose(std, joined.std(0), rtol=1e-12)
    part = found.subset(np.array([3, 0]))
    np.testing.assert_array_equal(part.gather(np.array([0, 1]), np.array([2, 1])), [plain[3][2], plain[0][1]])
    np.testing.assert_allclose(part.moments()[0], np.concatenate([plain[3], plain[0]]).mean(0))
    deeper = part.subset(np.array([1]))
    np.testing.assert_array_equal(deeper.gather(np.array([0]), np.array([3])), [plain[0][3]])


def test_moments_keep_their_digits_far_from_zero():
    far = RNG.normal(size=(1000, 1, 1)) * 1e-3 + 1e6
    _, std = Trajectories("states", far).moments()
    assert std[0] == pytest.approx(far.std(), rel=1e-6)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros(5), r"must be \(steps, paths, dim\)"),
        (np.zeros((0, 2, 3)), r"must be \(steps, paths, dim\)"),
        ([], "must be an array or a list"),
        ([np.zeros((3, 2)), np.zeros((3, 4))], "one dim for all paths"),
        ([np.zeros(3)], "one dim for all paths"),
        (np.array([["a", "b"]]), "must be numbers"),
        (np.zeros((3, 2), dtype=complex), "must be real"),
    ],
    ids=["flat", "empty", "no paths", "unequal", "scalars", "words", "complex"],
)
def test_what_is_no_trajectory_is_refused(values, message):
    with pytest.raises(ValueError, match=f"states .*{message}"):
        Trajectories("states", values)


def test_nan_and_other_lengths_are_named():
    bad = BLOCK.copy()
    bad[3, 1, 2] = np.nan
    with pytest.raises(ValueError, match="states must be finite"):
        Trajectories("states", bad).moments()
    with pytest.raises(ValueError, match="as many paths as states, 4, got 3"):
        Trajectories("x", BLOCK[:, :3]).check_lengths("x", Trajectories("states", BLOCK))
    short = [*RAGGED[:2], RAGGED[2][:-1], RAGGED[3]]
    with pytest.raises(ValueError, match="9 in path 2, got 8"):
        Trajectories("x", short).check_lengths("x", Trajectories("states", RAGGED))
