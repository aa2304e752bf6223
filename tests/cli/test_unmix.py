"""`isojepa unmix` as a person and as a program would use it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import isojepa as ij
from tests import processes
from tests.cli.test_commands import refuse, run
from tests.unmixing.rows import bent, paths

GUIDE = Path(__file__).resolve().parents[2] / "docs/unmix.md"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "bent.npz"
    np.savez(path, **bent())
    return path


def test_json_is_what_python_gives_with_how_right_it_is(capsys, file):
    code, out, err = run(capsys, "unmix", file, "--json")
    assert code == 0, err
    told = json.loads(out)
    match = told.pop("match")
    rows = bent()
    found = ij.unmix(rows["h"], rows["h_next"])
    assert told == json.loads(json.dumps(found.to_dict()))
    assert told["named"] == 2
    assert match["linear"]["estimate"] > 0.999 > match["linear_before"]["estimate"]
    assert match["r2"] > 0.999 > match["r2_before"]


def test_latents_are_written_row_by_row_and_axes_can_be_read_again(capsys, file, tmp_path):
    out, save = tmp_path / "new" / "z.npy", tmp_path / "axes.safetensors"
    code, told, err = run(capsys, "unmix", file, "--out", out, "--save", save)
    assert code == 0, err
    assert f"Wrote {out}, {save}" in told
    latents, found = np.load(out), ij.Unmixing.load(save)
    assert latents.dtype == np.float64
    np.testing.assert_allclose(latents, found.latents(bent()["h"]), atol=1e-12)
    assert abs(np.corrcoef(latents.T, bent()["z"].T)[:2, 2:]).max(0).min() > 0.999
    assert [path.name for path in out.parent.iterdir()] == ["z.npy"]


def test_bad_rows_are_refused_or_stay_in_their_place_as_nan(capsys, tmp_path):
    h = bent()["h"].astype(np.float32)
    h[[3, 50]] = np.nan
    np.save(tmp_path / "h.npy", h)
    assert "--drop-bad-rows" in refuse(capsys, "unmix", tmp_path / "h.npy")
    flags = ("--drop-bad-rows", "--out", tmp_path / "z.npy", "--latents", tmp_path / "true.npy")
    np.save(tmp_path / "true.npy", bent()["z"])
    code, _, err = run(capsys, "unmix", tmp_path / "h.npy", *flags)
    assert code == 0, err
    latents = np.load(tmp_path / "z.npy")
    assert latents.dtype == np.float32
    assert np.flatnonzero(np.isnan(latents).any(1)).tolist() == [3, 50]
    assert np.isnan(latents[[3, 50]]).all()


def test_paths_show_rates_and_keep_their_shape(capsys, tmp_path):
    h, z = paths()
    np.savez(tmp_path / "paths.npz", h=h, z=z)
    np.save(tmp_path / "path.npy", h[:, 0])
    code, out, err = run(capsys, "unmix", tmp_path / "paths.npz", "--json", "--out", tmp_path / "z.npy")
    assert code == 0, err
    told = json.loads(out)
    assert [axis["cue"] for axis in told["axes"]] == ["rate", "rate"]
    assert told["rows"] == 299 * 20
    assert told["match"]["rank"]["estimate"] > 0.99
    assert np.load(tmp_path / "z.npy").shape == h.shape
    code, out, _ = run(capsys, "unmix", tmp_path / "path.npy", "--paths", "--json")
    assert code == 0
    assert json.loads(out)["rows"] == 299


@pytest.mark.slow
def test_a_memory_map_is_written_in_pieces(tmp_path):
    rows = bent()
    ij.unmix(rows["h"], rows["h_next"]).save(tmp_path / "axes.safetensors")
    h = np.lib.format.open_memmap(tmp_path / "h.npy", mode="w+", dtype=np.float32, shape=(3_000_000, 2))
    h[:] = np.resize(rows["h"], h.shape)
    h.flush()
    code = (
        "import numpy as np, isojepa as ij\nfrom pathlib import Path\nfrom tests.memory import peak\n"
        "from isojepa.cli.unmix import write_latents\n"
        "found = ij.Unmixing.load('axes.safetensors')\nh = np.load('h.npy', mmap_mode='r')\n"
        "write_latents(Path('warm.npy'), found, h[:10_000])\nbefore = peak()\n"
        "write_latents(Path('z.npy'), found, h)\nprint(peak() - before)"
    )
    root = Path(__file__).resolve().parents[2]
    done = processes.run(code, cwd=tmp_path, path=[root])
    done.check_returncode()
    assert (tmp_path / "z.npy").stat().st_size > 24_000_000
    assert int(done.stdout) < 130  # megabytes; all of it at once takes 260
    tail = np.load(tmp_path / "z.npy", mmap_mode="r")[-5:]
    np.testing.assert_allclose(
        tail, ij.Unmixing.load(tmp_path / "axes.safetensors").latents(h[-5:]), atol=1e-5
    )


def test_what_cannot_be_is_one_line(capsys, tmp_path, file):
    rows = bent()
    np.save(tmp_path / "flat.npy", np.column_stack((rows["h"], np.ones(len(rows["h"])))))
    np.save(tmp_path / "thin.npy", np.column_stack((rows["h"], rows["h"][:, 0])))
    np.save(tmp_path / "few.npy", rows["h"][:10])
    np.savez(tmp_path / "seen.npz", x=rows["h"])
    assert "constant ones: 2" in refuse(capsys, "unmix", tmp_path / "flat.npy")
    assert "dim=2" in refuse(capsys, "unmix", tmp_path / "thin.npy")
    assert "at least 24" in refuse(capsys, "unmix", tmp_path / "few.npy")
    assert "must hold embeddings 'h'" in refuse(capsys, "unmix", tmp_path / "seen.npz")
    assert "none.npy" in refuse(capsys, "unmix", tmp_path / "none.npy")
    assert "equal lengths" in refuse(capsys, "unmix", file, "--latents", tmp_path / "few.npy")
    assert "tolerance" in refuse(capsys, "unmix", file, "--tolerance", "2")
    assert run(capsys, "unmix", tmp_path / "thin.npy", "--dim", "2", "--json")[0] == 0


def test_a_file_that_cannot_be_written_does_not_take_the_numbers_along(capsys, tmp_path, file):
    code, out, err = run(capsys, "unmix", file, "--json", "--out", tmp_path)
    assert code == 2
    assert json.loads(out)["named"] == 2
    assert len(err.strip().splitlines()) == 1


def test_the_python_of_the_guide_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL):
        exec(block, names)
    assert names["unmixing"].n_identified_ == 2
    assert names["certificate"].named.match.linear.low > 0.999
    assert "All 2 components are identified" in capsys.readouterr().out
