"""isojepa certify on records, files of every kind, trajectories and encoders of the user's own."""

import h5py
import numpy as np
import pytest
from safetensors.numpy import save_file

import isojepa as ij
from tests.cli.test_commands import answer, refuse, run

ENCODER = """
import torch
import isojepa as ij

class Unwind(torch.nn.Module):
    def forward(self, x):
        return ij.data.Spiral().inverse(x)

def unwind(x):
    return ij.data.Spiral().inverse(x).numpy()

def double(x):
    return 2 * x

number = 3
"""


@pytest.fixture
def pairs():
    z, z_next = ij.data.OrnsteinUhlenbeck(2, 0.9).sample(3000, ij.generator(0, "cli"))
    return {"h": z.double().numpy(), "h_next": z_next.double().numpy(), "z": z.double().numpy()}


@pytest.fixture
def encoder(tmp_path):
    (tmp_path / "mine.py").write_text(ENCODER)
    return f"{tmp_path / 'mine.py'}:unwind"


def test_every_kind_of_file_gives_the_same_certificate(capsys, tmp_path, pairs):
    np.savez(tmp_path / "a.npz", **pairs)
    save_file(pairs, tmp_path / "a.safetensors")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, value in pairs.items():
            file[name] = value
    header = ",".join(f"{name}{i}" for name in pairs for i in range(2))
    np.savetxt(tmp_path / "a.csv", np.hstack(list(pairs.values())), delimiter=",", header=header, comments="")
    for name, value in pairs.items():
        np.save(tmp_path / f"{name}.npy", value)
    options = ("--rho", "0.9", "--no-checks")
    found = [
        answer(capsys, "certify", tmp_path / name, *options)
        for name in ("a.npz", "a.safetensors", "a.h5", "a.csv")
    ]
    found.append(
        answer(
            capsys,
            "certify",
            *(
                tmp_path / "h.npy",
                "--next",
                tmp_path / "h_next.npy",
                "--latents",
                tmp_path / "z.npy",
                *options,
            ),
        )
    )
    assert found[0]["grade"] == "rotation"
    assert all(one == found[0] for one in found[1:])


def test_an_encoder_of_ones_own_is_tried_in_a_world(capsys, encoder, tmp_path, monkeypatch):
    found = answer(capsys, "certify", encoder, "--samples", "3000", "--no-checks")
    assert found["grade"] == "rotation"
    sheared = answer(
        capsys, "certify", encoder, "--world.mixing", "sinusoid", "--samples", "3000", "--no-checks"
    )
    assert sheared["grade"] == "none"
    monkeypatch.chdir(tmp_path)
    module = answer(capsys, "certify", "mine.py:Unwind", "--samples", "3000", "--no-checks")
    assert module["grade"] == "rotation"


def test_encoders_that_cannot_be_had_are_told(capsys, encoder, tmp_path):
    file = encoder.partition(":")[0]
    (tmp_path / "broken.py").write_text("1 / 0")
    for source, message in {
        f"{file}:unwnd": "has no 'unwnd'; it has Unwind, unwind, double",
        f"{file}:number": "must be callable, got int",
        f"{tmp_path / 'none.py'}:f": "none.py does not exist",
        f"{tmp_path / 'broken.py'}:f": "cannot be imported: ZeroDivisionError: division by zero",
        "no_such_package.module:f": "an encoder is named file.py:function",
    }.items():
        assert message in refuse(capsys, "certify", source)
    assert "brings its own next, latents and rho" in refuse(capsys, "certify", encoder, "--rho", "0.9")
    np.save(tmp_path / "h.npy", np.ones((9, 2)))
    assert "go with an encoder" in refuse(capsys, "certify", tmp_path / "h.npy", "--world.mixing", "parabola")


def test_trajectories_and_bad_rows_from_files(capsys, tmp_path):
    path = ij.data.OrnsteinUhlenbeck(2, 0.9).trajectory(500, 30, ij.generator(0, "cli")).numpy()
    np.save(tmp_path / "path.npy", path)
    found = answer(capsys, "certify", tmp_path / "path.npy", "--rho", "0.9")
    assert found["lags"]["identifiable"] is True
    assert found["samples"] == 29 * 500
    one = answer(capsys, "certify", tmp_path / "path.npy", "--rho", "0.9", "--no-checks")
    assert one["lags"] is None
    rows = path[:, 0].copy()
    rows[3, 0] = np.nan
    np.save(tmp_path / "rows.npy", rows)
    assert "NaN or Inf in 1 of 30 samples" in refuse(capsys, "certify", tmp_path / "rows.npy")
    dropped = answer(capsys, "certify", tmp_path / "rows.npy", "--drop-bad-rows", "--no-checks")
    assert dropped["dropped"] == 1
    code, out, _ = run(capsys, "certify", tmp_path / "path.npy", "--rho", "0.9")
    assert code == 0
    assert "Assumptions" in out
    assert "linear share, no labels" in out


BROKEN = """
import torch

def fails(x):
    raise KeyError("no such key")

def nothing(x):
    return None

def short(x):
    return x[:-1]

class Pair(torch.nn.Module):
    def forward(self, x):
        return x, x

class Sized(torch.nn.Module):
    def __init__(self, size):
        super().__init__()

class Noisy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = torch.nn.Dropout(0.9)

    def forward(self, x):
        return self.drop(x)
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fails", "cannot embed observations (50, 2) of torch.float32: KeyError: 'no such key'"),
        ("nothing", "must return a tensor or array (samples, dim), got NoneType"),
        ("short", "must return a row for each of 50 observations, got shape (49, 2)"),
        ("Pair", "must return a tensor or array (samples, dim), got tuple"),
        ("Sized", "cannot be made: TypeError"),
    ],
)
def test_an_encoder_that_breaks_is_told_in_one_line(capsys, tmp_path, name, message):
    (tmp_path / "broken.py").write_text(BROKEN)
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).standard_normal((50, 2)))
    source = f"{tmp_path / 'broken.py'}:{name}"
    assert message in refuse(capsys, "certify", source, "--data", tmp_path / "x.npz", "--no-checks")


def test_modules_embed_in_evaluation_mode(capsys, tmp_path):
    (tmp_path / "broken.py").write_text(BROKEN)
    x = np.random.default_rng(0).standard_normal((200, 2)).astype(">f8")
    np.savez(tmp_path / "x.npz", x=x, z=x)
    source = f"{tmp_path / 'broken.py'}:Noisy"
    found = answer(capsys, "certify", source, "--data", tmp_path / "x.npz", "--no-checks")
    assert found["grade"] == "rotation"


def test_a_grade_can_be_required(capsys, tmp_path, pairs):
    np.savez(tmp_path / "pairs.npz", h=pairs["h"], h_next=pairs["h_next"])
    np.savez(tmp_path / "all.npz", **pairs)
    for file, required, expected in (
        ("all.npz", "bounded", 0),
        ("all.npz", "rotation", 0),
        ("pairs.npz", "bounded", 1),
        ("pairs.npz", "conditional", 0),
    ):
        options = ("--rho", "0.9", "--no-checks", "--require", required)
        code, out, _ = run(capsys, "certify", tmp_path / file, *options)
        assert code == expected, (file, required)
        assert (f"and {required} is required" in out) == bool(expected)
    code, _, err = run(capsys, "certify", tmp_path / "all.npz", "--require", "certain")
    assert code == 2
    assert "require must be one of bounded, conditional, linear, partial, rotation, got 'certain'" in err


def test_where_rho_comes_from_is_told_and_kept(capsys, tmp_path, pairs):
    np.savez(tmp_path / "pairs.npz", h=pairs["h"], h_next=pairs["h_next"])
    found = answer(
        capsys, "certify", tmp_path / "pairs.npz", "--rho", "0.9", "--rho-from", "design", "--no-checks"
    )
    assert found["rho_from"] == "design"
    found = answer(
        capsys, "certify", tmp_path / "pairs.npz", "--rate", "0.105", "--rho-from", "rate", "--no-checks"
    )
    assert found["rho_from"] == "rate"
    assert found["bound"]["rho"] == pytest.approx(np.exp(-0.105))
    _, out, _ = run(capsys, "certify", tmp_path / "pairs.npz", "--rho", "0.9", "--no-checks")
    assert out.splitlines()[-1].startswith("Next: ")
