"""Committed rows keep their ids, and reports made from them keep their numbers."""

import csv
import json
import math

import pytest

from isojepa.cli.main import main
from isojepa.training.identity import record_id
from isojepa_lab.studies.evidence import read_evidence
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
