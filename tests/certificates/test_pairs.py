"""Rows of a certificate: arrays, files and paths, in pieces of every size; their second moments."""

import warnings

import h5py
import numpy as np
import pytest
import torch

import isojepa as ij
from isojepa.arrays import real_array
from isojepa.certificates import examine
from isojepa.certificates import pairs as module
from isojepa.certificates.pairs import PairRows, block_edges, read_moments
from isojepa.data.array_files import DataWarning, read_array

PATHS = [np.random.default_rng(i).normal(size=(n, 2)).cumsum(0) for i, n in enumerate((30, 50, 80, 44, 2, 1))]


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return {
        "h": rng.standard_normal((101, 3)),
        "h_next": rng.standard_normal((101, 3)),
        "z": np.eye(101)[:, :2],
    }


def joined(blocks, name="h"):
    return np.concatenate([getattr(block, name) for block in blocks])


def test_blocks_are_all_rows_in_order_and_end_at_the_cuts(arrays, monkeypatch):
    monkeypatch.setattr(module, "MAX_BLOCK_NUMBERS", 80)
    blocks = list(PairRows(**arrays).blocks((10, 50, 77)))
    for name, values in arrays.items():
        assert np.array_equal(joined(blocks, name), values)
    assert [block.start for block in blocks] == list(np.cumsum([0] + [len(block) for block in blocks])[:-1])
    assert {10, 50, 77} <= {block.start for block in blocks}
    assert max(len(block) for block in blocks) <= 32


def test_an_array_on_the_disk_is_read_in_pieces_and_gives_the_same(arrays, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_BLOCK_NUMBERS", 60)
    np.save(tmp_path / "h.npy", arrays["h"])
    with h5py.File(tmp_path / "h.h5", "w") as file:
        file["run/h"] = arrays["h"]
    on_disk = read_array(tmp_path / "h.npy"), read_array(tmp_path / "h.h5::run/h")
    assert isinstance(on_disk[0], np.memmap)
    for value in (*on_disk, torch.from_numpy(arrays["h"]), np.asfortranarray(arrays["h"])):
        pairs = PairRows(value)
        for _ in range(2):  # a second pass reads again
            assert np.array_equal(joined(pairs.blocks()), arrays["h"])
        assert np.array_equal(pairs.sample(7).h, arrays["h"][[0, 17, 33, 50, 67, 83, 100]])
        assert np.array_equal(pairs.rows(20, 41).h, arrays["h"][20:41])
        assert np.array_equal(pairs.whole(), arrays["h"])


def test_a_file_opened_to_be_changed_keeps_its_changes(tmp_path):
    np.save(tmp_path / "h.npy", np.ones((50, 2)))
    for mode in ("r+", "c"):
        array = np.load(tmp_path / "h.npy", mmap_mode=mode)
        array[3] = 7.0
        assert joined(PairRows(array).blocks())[3, 0] == 7.0
        assert array[3, 0] == 7.0


@pytest.mark.parametrize("kind", [np.int64, np.float16, np.uint8, np.float32])
def test_other_types_of_numbers_are_read_exactly(kind):
    values = np.arange(12).reshape(6, 2)
    assert np.array_equal(joined(PairRows(values.astype(kind)).blocks()), values)
    assert np.array_equal(joined(PairRows(torch.from_numpy(values).bfloat16()).blocks()), values)


def test_rows_with_nan_are_counted_and_refused_or_left_out_of_every_array(arrays):
    arrays["h"][3, 1] = np.nan
    arrays["h_next"][5] = np.inf
    arrays["z"][[5, 9]] = -np.inf
    with pytest.raises(ValueError, match=r"embeddings must be finite, got NaN or Inf in 1 of 101 sam.*drop"):
        list(PairRows(**arrays).blocks())
    for name, words in (("z", "latents"), ("z_next", "latents_next")):
        latents = {"z": np.ones((101, 2)), name: arrays["z"]}
        with pytest.raises(ValueError, match=f"{words} must be finite, got NaN or Inf in 2 of 101"):
            list(PairRows(np.ones((101, 2)), **latents).blocks())
    dropping = PairRows(**arrays, drop=True)
    good = np.delete(np.arange(101), [3, 5, 9])
    blocks = list(dropping.blocks((4, 60)))
    assert np.array_equal(joined(blocks), arrays["h"][good])
    assert np.array_equal(joined(blocks, "z"), arrays["z"][good])
    assert dropping.dropped == 3
    assert len(dropping.sample(1000)) == 98


def test_masked_numbers_are_missing(arrays):
    masked = np.ma.masked_array(arrays["h"], mask=np.zeros((101, 3), bool))
    masked[7, 1] = np.ma.masked
    with pytest.raises(ValueError, match="embeddings must be finite, got NaN or Inf in 1 of 101"):
        list(PairRows(masked).blocks())
    rows = joined(PairRows(masked, drop=True).blocks())
    np.testing.assert_array_equal(rows, np.delete(arrays["h"], 7, axis=0))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"h": torch.ones(9, 2) > 0}, "must hold real numbers, got torch.bool"),
        ({"h": torch.ones(9, 2).to_sparse()}, "must be a dense tensor"),
        ({"h": torch.ones(9, 2, device="meta")}, "got one without data"),
        ({"h": np.array([["a", "b"]] * 4)}, "embeddings must hold real numbers"),
        ({"h": np.ones((1, 2))}, "at least 2 samples and 1 dimension"),
        ({"h": np.ones((9, 2)), "h_next": np.ones((9, 1))}, r"one shape, got \(9, 2\) and \(9, 1\)"),
        ({"h": np.ones((9, 2)), "h_next": np.ones((8, 2))}, "must have equal lengths, got 9 and 8"),
        ({"h": np.ones((9, 2)), "z_next": np.ones((9, 2))}, "latents_next goes with latents"),
        ({"h": np.ones((9, 2)), "z": np.ones((9, 2)), "z_next": np.ones((9, 1))}, "latents of both views"),
    ],
    ids=["bool", "sparse", "meta", "text", "row", "views", "lengths", "z_next", "latents"],
)
def test_arrays_that_do_not_fit_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        PairRows(**values)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([["a"]]), "h must hold real numbers"),
        (np.zeros(3), r"h must be \(samples, dim\), got shape \(3,\)"),
        (np.zeros((0, 2)), "got shape"),
        (np.array([[1.0], [np.nan]]), "NaN or Inf in 1 of 2 samples"),
        (np.array([[1e60]]), "below 1e"),
    ],
    ids=["text", "axis", "empty", "nan", "huge"],
)
def test_bad_arrays_are_named(value, message):
    with pytest.raises(ValueError, match=message):
        real_array("h", value, "samples, dim")


def test_files_are_read_by_name(tmp_path):
    h = np.random.default_rng(0).normal(size=(60, 3))
    h_next = 0.9 * h + 0.1
    for name, value in {"h": h, "next": h_next, "z": h}.items():
        np.save(tmp_path / f"{name}.npy", value)
    np.savez(tmp_path / "all.npz", h=h, h_next=h_next, z=h)
    options = {"rho": 0.9, "checks": False}
    direct = ij.certify(h, next=h_next, latents=h, **options).to_dict()
    by_name = ij.certify(
        str(tmp_path / "h.npy"), next=tmp_path / "next.npy", latents=tmp_path / "z.npy", **options
    )
    assert by_name.to_dict() == direct
    assert ij.certify(tmp_path / "all.npz", latents=tmp_path / "z.npy", **options).to_dict() == direct
    with pytest.raises(ValueError, match=r"none\.npy does not exist"):
        ij.certify(tmp_path / "none.npy")
    few = {"samples": 60, "slices": 4, "draws": 9}
    assert examine(tmp_path / "h.npy", **few).to_dict() == examine(h, **few).to_dict()


def test_paths_of_unequal_length_are_pairs_within_each(tmp_path):
    first = np.concatenate([path[:-1] for path in PATHS])
    second = np.concatenate([path[1:] for path in PATHS])
    with pytest.warns(DataWarning, match="first 44 steps of 3 of the 6 paths, 132 of 207 steps"):
        listed = ij.certify(PATHS, latents=[2 * path for path in PATHS], rho=0.9, checks=False).to_dict()
    truth = ij.certify(first, next=second, latents=2 * first, latents_next=2 * second, rho=0.9, checks=False)
    assert listed == truth.to_dict()
    files = [tmp_path / f"{index}.npy" for index in range(len(PATHS))]
    for file, path in zip(files, PATHS, strict=True):
        np.save(file, path)
    with pytest.warns(DataWarning):
        assert np.array_equal(module.read_pairs(files).array("h_next"), second)


def test_paths_of_equal_length_in_a_list_are_the_array_of_them():
    block = np.random.default_rng(0).normal(size=(40, 5, 2)).cumsum(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        listed = module.read_pairs(
            [torch.from_numpy(block[:, i]) for i in range(5)], z=list(block[:, :, :1].swapaxes(0, 1))
        )
    array = module.read_pairs(block, z=block[:, :, :1])
    assert np.array_equal(listed.paths, array.paths)
    for name in ("h", "h_next", "z", "z_next"):
        assert np.array_equal(listed.array(name), array.array(name))
    assert np.array_equal(array.array("h_next")[:39], block[1:, 0])


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (PATHS[:4], {"latents": [PATHS[0][:-1], *PATHS[1:4]]}, "30 in path 0, got 29"),
        (PATHS[:4], {"latents": PATHS[:3]}, "44 in path 3, got no path"),
        ([PATHS[0], PATHS[1][:, :1]], {}, "one dim for all paths"),
        (PATHS, {"next": PATHS}, "leave next out"),
        ([PATHS[5]], {}, "a path of 2 steps at least"),
        (np.ones((1, 4, 2)), {}, "at least 2 steps"),
        (np.ones((5, 3, 0)), {}, r"at least 2 steps, 1 path and 1 dimension, got shape \(5, 3, 0\)"),
        (np.ones((5, 4, 2)), {"latents": np.ones((4, 4, 2))}, "as many steps .*, 5 in path 0, got 4"),
        (np.ones(5), {"trajectory": True}, r"a trajectory must be \(steps, dim\) or"),
    ],
)
def test_paths_that_do_not_belong_together_are_refused(source, options, message):
    with pytest.raises(ValueError, match=message):
        ij.certify(source, **options)


def two_views(seed=0, n=503, dim=4, shift=0.0):
    rng = np.random.default_rng(seed)
    h = rng.standard_normal((n, dim)) @ rng.standard_normal((dim, dim)) + shift
    return h, 0.8 * h + rng.standard_normal((n, dim)) - shift


@pytest.mark.parametrize("shift", [0.0, 1e6])
@pytest.mark.parametrize("numbers", [50, 10**6])
def test_covariance_and_correlation_equal_numpys(numbers, shift, monkeypatch):
    monkeypatch.setattr(module, "MAX_BLOCK_NUMBERS", numbers)
    h, h_next = two_views(shift=shift)
    moments = read_moments(PairRows(h, h_next))
    expected = (np.cov(h, rowvar=False) + np.cov(h_next, rowvar=False)) / 2
    assert moments.n == 503
    assert moments.covariance() == pytest.approx(expected, rel=1e-7, abs=1e-8)
    a, b = h - h.mean(0), h_next - h_next.mean(0)
    plain = 2 * (a * b).sum() / ((a**2).sum() + (b**2).sum())
    correlation = moments.correlation(0.95)
    assert correlation.estimate == pytest.approx(plain, rel=1e-8)
    assert correlation.low < correlation.estimate < correlation.high
    assert moments.spreads().sum() == pytest.approx((a**2).sum() + (b**2).sum(), rel=1e-7)
    single = read_moments(PairRows(h))
    assert single.covariance() == pytest.approx(np.cov(h, rowvar=False), rel=1e-7, abs=1e-8)
    assert single.correlation(0.95) is None


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7, 39, 40, 41, 1000])
def test_blocks_cover_all_rows_and_meet_at_the_half(n):
    edges = block_edges(n, 3)
    assert edges[-1] == n
    assert n // 2 in edges
    assert list(edges) == sorted(set(edges))
    assert len(edges) <= 40
    h = np.random.default_rng(n).standard_normal((n, 2))
    assert sum(block.n for block in read_moments(PairRows(h, h)).blocks) == n


def test_the_correlations_interval_covers_the_truth_for_rows_that_depend_on_each_other():
    # rows along 20 paths of 100 steps: an interval that took rows as independent would be far too narrow
    covered, naive = 0, 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        path = np.empty((101, 20, 1))
        path[0] = rng.standard_normal((20, 1))
        for t in range(100):
            path[t + 1] = 0.9 * path[t] + np.sqrt(1 - 0.81) * rng.standard_normal((20, 1))
        h, h_next = (part.swapaxes(0, 1).reshape(-1, 1) for part in (path[:-1], path[1:]))
        interval = read_moments(PairRows(h, h_next)).correlation(0.9)
        covered += interval.low < 0.9 < interval.high
        shuffled = rng.permutation(len(h))
        interval = read_moments(PairRows(h[shuffled], h_next[shuffled])).correlation(0.9)
        naive += interval.low < 0.9 < interval.high
    assert covered / 150 >= 0.8
    assert covered > naive
