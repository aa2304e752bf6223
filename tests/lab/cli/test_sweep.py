"""`isojepa sweep`, as a person and as a program would use it."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from isojepa.cli.main import main
from isojepa.registry import build_spec
from isojepa.runs import record_path, train
from isojepa.training.run_directory import RunDirectory
from isojepa_lab.studies.cells import Row
from isojepa_lab.studies.evidence import Evidence, write_evidence
from tests.lab.sweep.cells import tiny, write_study

BAD = replace(tiny(7), world=build_spec("world", dim=2, mixing="lift", observed_dim=1))


def run(capsys, *arguments):
    code = main(["sweep", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def done(config, records):
    """A finished record, at no cost."""
    record = RunDirectory.start(record_path(config, records), config.to_dict())
    record.finish({"status": "done", "reason": "", "steps": 30, "metrics": {}, "seconds": 6.0})
    record.save_scores({"r2": 0.9})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "name at least one study"),
        (("nonsense",), "study must be one of"),
        (("grd",), "did you mean 'grid'?"),
        (("grid", "--scale", "big"), "scale must be one of paper, quick, standard, got 'big'"),
        (("grid", "--executor", "cloud"), "executor must be one of local, slurm, got 'cloud'"),
        (("grid", "--workers", "0"), "workers must be at least 1, got 0"),
        (("grid", "--time", "0"), "time must be at least 1, got 0"),
        (("grid", "--memory", "nan"), "memory must be a positive number of gigabytes, got nan"),
        (("grid", "--slurm", "qos"), "--slurm takes key=value, got 'qos'"),
        (("none.py",), "none.py does not exist"),
    ],
    ids=["nothing", "study", "near", "scale", "executor", "workers", "time", "memory", "slurm", "file"],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, tmp_path, monkeypatch, arguments, told):
    from isojepa_lab.sweep import local

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(local.Pool, "_new", lambda self: pytest.fail("a worker was started"))
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert told in err
    assert len(err.strip().splitlines()) == 1


def test_records_that_are_a_file_are_told(capsys, tmp_path):
    study = write_study(tmp_path / "study.py", {"0": tiny()})
    code, _, err = run(capsys, study, "--records", study)
    assert code == 2
    assert f"records must be a folder, got the file {study}" in " ".join(err.split())


def test_slurm_without_sbatch_or_submitit_says_what_is_missing(capsys, tmp_path, monkeypatch):
    from isojepa_lab.cli import sweep

    study = write_study(tmp_path / "study.py", {"0": tiny()})
    monkeypatch.setattr(sweep.shutil, "which", lambda name: None)
    code, _, err = run(capsys, study, "--executor", "slurm")
    assert code == 2
    assert "--executor slurm needs sbatch on the PATH, which was not found;" in " ".join(err.split())
    monkeypatch.setattr(sweep.shutil, "which", lambda name: "/usr/bin/sbatch")
    monkeypatch.setattr(sweep.importlib.util, "find_spec", lambda name: None)
    code, _, err = run(capsys, study, "--executor", "slurm")
    assert code == 2
    assert "pip install -c constraints.txt './lab[slurm]'" in err


def test_what_is_done_is_skipped_without_starting_a_worker(capsys, tmp_path, monkeypatch):
    from isojepa_lab.sweep import local

    monkeypatch.setattr(local.Pool, "_new", lambda self: pytest.fail("a worker was started"))
    study = write_study(tmp_path / "study.py", {"0": tiny(0), "1": tiny(1)})
    for seed in range(2):
        done(tiny(seed), tmp_path / "records")
    done(tiny(5), tmp_path / "records")  # of another study
    code, out, _ = run(capsys, study, "--records", tmp_path / "records")
    assert code == 0
    assert re.search(r"tiny\s+2\s+2\s+0 s\s+0 s", out)
    assert "0 runs done, 2 done before." in out


def test_what_a_report_has_kept_is_not_made_again(capsys, tmp_path, monkeypatch):
    from isojepa_lab.sweep import local

    monkeypatch.setattr(local.Pool, "_new", lambda self: pytest.fail("a worker was started"))
    study = write_study(tmp_path / "study.py", {"0": tiny(0), "1": tiny(1)})
    rows = [
        Row({"seed": seed}, tiny(seed).to_dict(), {"r2": 0.9}, "done", 1, 1.0, 0.1, "record")
        for seed in range(2)
    ]
    (tmp_path / "kept").mkdir()
    write_evidence(tmp_path / "kept" / "tiny.json", Evidence("tiny", "standard", rows, 2, 0, []))
    flags = ("--records", tmp_path / "records", "--kept", tmp_path / "kept")
    code, _, err = run(capsys, study, *flags)
    assert code == 0, err
    assert not record_path(tiny(0), tmp_path / "records").exists()
    (tmp_path / "kept" / "tiny.json").write_text("{}")
    code, _, err = run(capsys, study, *flags)
    assert code == 2
    assert "does not hold the rows of a study" in err


def test_the_estimate_of_known_runs_needs_no_worker(capsys, tmp_path, monkeypatch):
    from isojepa_lab.sweep import local

    monkeypatch.setattr(local.Pool, "_new", lambda self: pytest.fail("a worker was started"))
    study = write_study(tmp_path / "study.py", {"0": tiny(0), "1": tiny(1), "2": tiny(2)})
    done(tiny(0), tmp_path / "records")
    flags = ("--records", tmp_path / "records", "--estimate", "--json", "--workers", "2")
    code, out, _ = run(capsys, study, *flags)
    (row,) = json.loads(out)
    assert code == 0
    assert (row["study"], row["runs"], row["done"]) == ("tiny", 3, 1)
    assert row["cpu_seconds"] == pytest.approx(2 * row["wall_seconds"])
    assert 12 < row["cpu_seconds"] < 15
    assert not (record_path(tiny(1), tmp_path / "records")).exists()


def test_a_sweep_makes_the_runs_and_tells_the_failed_one_last(capsys, tmp_path):
    records = tmp_path / "records"
    study = write_study(tmp_path / "study.py", {"good": tiny(0), "bad": BAD, "other": tiny(1)})
    train(tiny(1), records, progress=False)  # trained, not scored
    code, out, err = run(capsys, study, "--records", records, "--workers", "1", "--json")
    told = json.loads(out)
    assert code == 1
    assert (told["total"], told["done"], told["stopped"]) == (3, 2, False)
    (failed,) = told["failures"]
    assert failed["labels"] == {"run": "bad"}
    assert failed["error"].startswith("out_dim must be above dim")
    assert Path(failed["log"]).exists()
    assert sum(line.startswith("[") for line in err.splitlines()) == 3
    assert RunDirectory(record_path(tiny(1), records)).scores["r2"] > 0
    code, out, _ = run(capsys, study, "--records", records, "--workers", "1", "--only", "run=good")
    assert code == 0


def test_no_more_workers_are_asked_for_than_there_are_runs(capsys, tmp_path, monkeypatch):
    from isojepa_lab.sweep import local

    pools = []
    monkeypatch.setattr(local.Pool, "close", lambda self: pools.append(self.count))
    study = write_study(tmp_path / "study.py", {"0": tiny(0), "1": tiny(1)})
    for seed in range(2):
        done(tiny(seed), tmp_path / "records")
    assert run(capsys, study, "--records", tmp_path / "records", "--workers", "1000")[0] == 0
    assert set(pools) == {2}


def test_a_stopped_sweep_tells_programs_what_goes_on(capsys, tmp_path, monkeypatch):
    from isojepa_lab.sweep import local

    def stop(self, seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(local.Local, "poll", stop)
    monkeypatch.setattr(local.Local, "advice", lambda self: "3 jobs go on")
    study = write_study(tmp_path / "study.py", {"0": tiny(0)})
    code, out, _ = run(capsys, study, "--records", tmp_path / "records", "--json")
    assert code == 130
    told = json.loads(out)
    assert (told["stopped"], told["advice"]) == (True, "3 jobs go on")
