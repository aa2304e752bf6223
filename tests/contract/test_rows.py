"""Committed rows keep their ids, and reports made from them keep their numbers."""

import csv
import json
import math

import pytest

from isojepa.cli.main import main
from isojepa.training.run_directory import record_id
from isojepa_lab.studies import two_dimensions
from isojepa_lab.studies.catalogue import STUDIES, find_study
from isojepa_lab.studies.evidence import read_evidence, read_kept
from tests.contract.stored import HERE, RESULTS


def row_ids() -> dict[str, list[str]]:
    """Study -> the record id of each committed row's config."""
    found = {}
    for path in sorted(RESULTS.glob("*.json")):
        stored = json.loads(path.read_text())
        if isinstance(stored, dict) and "defaults" in stored:
            found[path.stem] = [record_id(row.config) for row in read_evidence(path).rows]
    return found


def test_committed_rows_keep_their_ids():
    renamed = json.loads((HERE / "renamed_ids.json").read_text())  # old -> new
    ids = row_ids()
    for study, stored in json.loads((HERE / "row_ids.json").read_text()).items():
        missing = {renamed.get(one, one) for one in stored} - set(ids[study])
        assert not missing, f"{study}: {len(missing)} of {len(stored)} ids changed"


KEPT = [
    path.stem
    for path in sorted(RESULTS.glob("*.json"))
    if isinstance(data := json.loads(path.read_text()), dict) and data.get("defaults")
]


@pytest.mark.parametrize("name", KEPT)
def test_no_committed_row_is_lost(name):
    """Each is read, and is a run that its study asks for today; no more are missing than the file says."""
    rows = json.loads((RESULTS / f"{name}.json").read_text())["rows"]
    evidence = read_evidence(RESULTS / f"{name}.json")
    assert [row.record for row in evidence.rows] == [row["record"] for row in rows]
    asked = {record_id(cell.config.to_dict()) for cell in find_study(name).plan(evidence.scale)}
    there = {record_id(row.config) for row in evidence.rows}
    assert there <= asked
    assert len(asked - there) == evidence.missing
    assert not any(
        None in row.config[section].values() for row in evidence.rows for section in ("encoder", "objective")
    )


def test_all_committed_rows_with_configs_are_among_them():
    assert sum(len(json.loads((RESULTS / f"{name}.json").read_text())["rows"]) for name in KEPT) >= 1038
    rows = json.loads((RESULTS / "two_dimensions.json").read_text())
    assert len(rows) == 38
    asked = {record_id(config.to_dict()) for _, _, config in two_dimensions.configs()}
    assert {record_id(row["config"]) for row in rows} == asked


@pytest.mark.parametrize("name", [name for name in STUDIES if find_study(name).sources])
def test_studies_of_the_runs_of_others_find_all_their_rows(name):
    evidence = read_kept(find_study(name), RESULTS, "standard")
    assert len(evidence.rows) == evidence.runs > 300
    assert evidence.missing == 0


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))


def same(ours: str, theirs: str) -> bool:
    try:
        return math.isclose(float(ours), float(theirs), rel_tol=1e-6, abs_tol=1e-9)
    except ValueError:
        return ours == theirs


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_reports_from_committed_rows_have_the_same_numbers(tmp_path):
    assert main(["study", "report", "all", "--from", str(RESULTS), "--out", str(tmp_path)]) == 0
    committed = {path.name: path for path in RESULTS.glob("*.csv")}
    assert committed.keys() == {path.name for path in tmp_path.glob("*.csv")}
    for name, path in committed.items():
        ours, theirs = rows_of(path), rows_of(tmp_path / name)
        assert len(ours) == len(theirs), name
        for one, other in zip(ours, theirs, strict=True):
            assert len(one) == len(other), name
            assert all(map(same, one, other)), (name, one, other)
