"""smallNORB's binary files, written here in their own format."""

import gzip
import itertools
import struct

import numpy as np
import pytest
import torch

from isojepa.data import environment
from isojepa_lab.environments.datasets import CATEGORIES, read_matrix

BYTES, INTEGERS = 0x1E3D4C55, 0x1E3D4C54


def matrix(array, magic):
    """As the makers of the set describe it: three sizes at least, least significant byte first."""
    sizes = [*array.shape, *[1] * (3 - array.ndim)]
    return struct.pack(f"<Ii{len(sizes)}i", magic, array.ndim, *sizes) + array.tobytes()


def write(folder, part, instances, azimuths=(0, 2, 16), side=4, ending=""):
    factors = np.array(list(itertools.product(range(5), instances, range(2), azimuths, range(3))))
    np.random.default_rng(0).shuffle(factors)
    category, info = factors[:, 0].astype("<i4"), factors[:, 1:].astype("<i4")
    # a picture's brightness tells what it shows, but for the azimuth; the second camera's is one more
    value = category * 40 + info[:, 0] * 8 + info[:, 1] * 4 + info[:, 3]
    images = np.stack([value, value + 1], 1).astype(np.uint8)[:, :, None, None] * np.ones(
        (1, 1, side, side), "u1"
    )
    pack = gzip.compress if ending else bytes
    for kind, array, magic in (("dat", images, BYTES), ("cat", category, INTEGERS), ("info", info, INTEGERS)):
        (folder / f"smallnorb-5x1-{part}-{kind}.mat{ending}").write_bytes(pack(matrix(array, magic)))


@pytest.fixture(params=["", ".gz"])
def folder(tmp_path, request):
    write(tmp_path, "training", (1, 3), ending=request.param)
    write(tmp_path, "testing", (0, 2), ending=request.param)
    return tmp_path


def values(pictures):
    return pictures.read(torch.arange(len(pictures)))[:, 0, 0, 0].tolist()


def test_azimuths_are_matched_by_all_other_factors(folder):
    found = environment("smallnorb", folder)
    assert found.names == ("0°", "160°")
    for split, instances in (("train", {1, 3}), ("test", {0, 2})):
        pairs = found.pairs(0, 1, split)
        assert len(pairs) == 5 * 2 * 2 * 3
        assert values(pairs.first) == values(pairs.second)
        assert {state % 1000 for state in pairs.ids.tolist()} == instances
        assert torch.equal(pairs.labels, pairs.ids // 1000)
    assert pairs.first.classes == CATEGORIES


def test_two_cameras_are_matched_by_azimuth_too(folder):
    found = environment("smallnorb", folder, observers="cameras")
    pairs = found.pairs("left", "right", None)
    assert len(pairs) == 2 * 5 * 2 * 2 * 3 * 3
    assert [value + 1 for value in values(pairs.first)] == values(pairs.second)


def test_one_set_alone_is_split_by_instance(tmp_path):
    write(tmp_path, "training", (0, 1, 2))
    found = environment("smallnorb", tmp_path, held_out=0.4)
    train, test = (set(found.pairs(0, 1, split).ids.tolist()) for split in ("train", "test"))
    assert not train & test
    assert len(test) == 6
    assert len(train) == 9


def test_a_matrix_is_read_as_it_was_written(tmp_path):
    rng = np.random.default_rng(0)
    for array, magic in (
        (rng.integers(0, 256, (2, 3, 4, 5), dtype=np.uint8), BYTES),
        (rng.integers(-9, 9, (7,)).astype("<i4"), INTEGERS),
    ):
        (tmp_path / "a.mat").write_bytes(matrix(array, magic))
        assert np.array_equal(read_matrix(tmp_path / "a.mat"), array)


HEAD = struct.pack("<Ii3i", BYTES, 3, 2, 2, 2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it ends after 0 of 8 bytes"),
        (struct.pack("<Ii3i", 0x12345678, 1, 1, 1, 1), "one of smallNORB's numbers, got 0x12345678"),
        (struct.pack("<Ii", BYTES, 2_000_000_000), "1 to 8 dimensions, got 2000000000"),
        (struct.pack("<Ii3i", BYTES, 3, 2, -2, 2), r"sizes must be positive, got \(2, -2, 2\)"),
        (struct.pack("<Ii3i", BYTES, 3, 2**30, 2**30, 2**30), "in place of"),
        (HEAD + bytes(7), "but has 7 bytes in place of 8"),
    ],
)
def test_damaged_and_hostile_files_are_refused_before_they_are_read(tmp_path, content, message):
    (tmp_path / "a.mat").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_matrix(tmp_path / "a.mat")
    (tmp_path / "a.mat.gz").write_bytes(gzip.compress(content))
    with pytest.raises(ValueError, match="no whole file of smallNORB"):
        read_matrix(tmp_path / "a.mat.gz")


def test_a_small_file_that_stands_for_gigabytes_is_refused(tmp_path):
    content = struct.pack("<Ii3i", BYTES, 3, 2**14, 2**14, 2**6) + bytes(1000)
    (tmp_path / "a.mat.gz").write_bytes(gzip.compress(content))
    with pytest.raises(ValueError, match=r"must expand to at most 1 GB .* got 16 GB"):
        read_matrix(tmp_path / "a.mat.gz")


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    with pytest.raises(ValueError, match="must have smallNORB's files"):
        environment("smallnorb", tmp_path)
    write(tmp_path, "training", (0, 1))
    with pytest.raises(ValueError, match="azimuth must be one of 0, 160, 20, got '40'"):
        environment("smallnorb", tmp_path, azimuths=(0, 40))
    with pytest.raises(ValueError, match="camera must be 0 or 1, got 2"):
        environment("smallnorb", tmp_path, camera=2)
    (cat,) = tmp_path.glob("*cat.mat")
    cat.write_bytes(matrix(np.full(36 * 5, 7, "<i4"), INTEGERS))
    with pytest.raises(ValueError, match=r"categories .* from 0 to 4, got 7"):
        environment("smallnorb", tmp_path)
    cat.write_bytes(matrix(np.zeros(3, "<i4"), INTEGERS))
    with pytest.raises(ValueError, match=r"must be \(pictures, 2, height, width\), \(pictures,\)"):
        environment("smallnorb", tmp_path)
    cat.unlink()
    with pytest.raises(ValueError, match="of training, got no cat"):
        environment("smallnorb", tmp_path)
