"""certify takes files by name, and paths of unequal lengths."""

import warnings

import numpy as np
import pytest
import torch

import isojepa as ij
from isojepa.certificates import examine
from isojepa.data.array_files import DataWarning

H = np.random.default_rng(0).normal(size=(60, 3))


def test_python_takes_the_names_of_files(tmp_path):
    h, h_next = H, 0.9 * H + 0.1
    for name, value in {"h": h, "next": h_next, "z": H}.items():
        np.save(tmp_path / f"{name}.npy", value)
    np.savez(tmp_path / "all.npz", h=h, h_next=h_next, z=H)
    options = {"rho": 0.9, "checks": False}
    direct = ij.certify(h, next=h_next, latents=H, **options).to_dict()
    by_name = ij.certify(
        str(tmp_path / "h.npy"), next=tmp_path / "next.npy", latents=tmp_path / "z.npy", **options
    )
    assert by_name.to_dict() == direct
    assert ij.certify(tmp_path / "all.npz", **options).to_dict() == direct
    assert ij.certify(tmp_path / "all.npz", latents=tmp_path / "z.npy", **options).to_dict() == direct
    with pytest.raises(ValueError, match=r"none\.npy does not exist"):
        ij.certify(tmp_path / "none.npy")
    few = {"samples": 60, "slices": 4, "draws": 9}
    assert examine(tmp_path / "h.npy", **few).to_dict() == examine(H, **few).to_dict()


PATHS = [np.random.default_rng(i).normal(size=(n, 2)).cumsum(0) for i, n in enumerate((30, 50, 80, 44, 2, 1))]


def test_paths_of_unequal_length_are_pairs_within_each():
    first = np.concatenate([path[:-1] for path in PATHS])
    second = np.concatenate([path[1:] for path in PATHS])
    with pytest.warns(DataWarning, match="first 44 steps of 3 of the 6 paths, 132 of 207 steps"):
        found = ij.certify(PATHS, latents=[2 * path for path in PATHS], rho=0.9, checks=False).to_dict()
    truth = ij.certify(first, next=second, latents=2 * first, latents_next=2 * second, rho=0.9, checks=False)
    assert found == truth.to_dict()


def test_paths_of_equal_length_in_a_list_are_the_array_of_them():
    block = np.random.default_rng(0).normal(size=(40, 5, 2)).cumsum(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        listed = ij.certify([torch.from_numpy(block[:, i]) for i in range(5)], rho=0.9)
    assert listed.to_dict() == ij.certify(block, rho=0.9).to_dict()


def test_a_list_of_files_is_a_list_of_paths(tmp_path):
    names = []
    for index, path in enumerate(PATHS):
        names.append(tmp_path / f"{index}.npy")
        np.save(names[-1], path)
    with pytest.warns(DataWarning):
        by_name = ij.certify(names, rho=0.9, checks=False)
    with pytest.warns(DataWarning):
        assert by_name.to_dict() == ij.certify(PATHS, rho=0.9, checks=False).to_dict()


def test_paths_that_do_not_belong_together_are_told():
    with pytest.raises(ValueError, match="30 in path 0, got 29"):
        ij.certify(PATHS[:4], latents=[PATHS[0][:-1], *PATHS[1:4]])
    with pytest.raises(ValueError, match="one dim for all paths"):
        ij.certify([PATHS[0], PATHS[1][:, :1]])
    with pytest.raises(ValueError, match="leave next out"):
        ij.certify(PATHS, next=PATHS)
    with pytest.raises(ValueError, match="a path of 2 steps at least"):
        ij.certify([PATHS[5]])
