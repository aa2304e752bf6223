"""Records and files of rows whose content somebody changed: config, metrics, result, scores."""

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import isojepa as ij
from isojepa import runs
from isojepa.cli import main
from isojepa.training.run_directory import RunDirectory
from isojepa_lab.studies.catalogue import find_study
from isojepa_lab.studies.evidence import read_evidence
from isojepa_lab.studies.formatting import how_made, settings_of
from isojepa_lab.sweep.record_state import pace, state_of
from tests.fuzz.commands import hostile_json
from tests.fuzz.configs import tiny
from tests.fuzz.values import Case, Rng

NAMES = ("config.json", "metrics.jsonl", "result.json", "scores.json")
ROWS = Path(__file__).parents[2] / "docs/results/mixings.json"
LINES = (
    "3",
    "[]",
    "null",
    '"x"',
    "{",
    "{}",
    '{"step": null}',
    '{"step": "x", "loss": []}',
    '{"step": 1e400}',
    "NaN",
    "\x00",
)


@cache
def some_rows() -> bytes:
    """The first rows of a study, as its report keeps them."""
    data = json.loads(ROWS.read_bytes())
    return json.dumps({**data, "rows": data["rows"][:3]}).encode()


@cache
def template(folder: Path) -> Path:
    """A finished record, made once."""
    path = folder / "template"
    runs.train(tiny(), record=path, progress=False)
    RunDirectory(path).save_scores({"r2": 0.9, "linear": [1.0, 2.0]})
    return path


def make_case(rng: Rng, folder: Path) -> Case:
    """A record of which one file was changed, read by what reads records."""
    if rng.random() < 0.15:
        return _rows(rng, folder)
    path = folder / "record"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(template(folder), path)
    name = rng.choice(NAMES)
    content = changed(rng, (path / name).read_bytes(), name)
    (path / name).write_bytes(content)
    told = f"{name} of {content!r:.3000}"
    draw = rng.random()
    if draw < 0.3:
        words = ["certify", str(path), "--samples", "60", "--no-checks", "--json"]
        return Case("records", f"certify a record with {told}", lambda: main(words), command=True)
    if draw < 0.32:
        return Case(
            "records",
            f"report a record with {told}",
            lambda: main(["report", str(path)]),
            command=True,
            seconds=120.0,
        )

    def run() -> Any:
        state_of(path), pace(path)
        record = RunDirectory.open(path)
        read = record.id, record.metrics, record.result, record.scores
        ij.load(path)
        return read

    return Case("records", f"read a record with {told}", run)


def _rows(rng: Rng, folder: Path) -> Case:
    path = folder / "rows.json"
    content = changed(rng, some_rows(), "rows.json")
    path.write_bytes(content)

    def run() -> Any:
        evidence = read_evidence(path)
        return how_made(find_study("mixings"), evidence), settings_of([row.config for row in evidence.rows])

    return Case("records", f"read rows of {content!r:.3000}", run)


def changed(rng: Rng, content: bytes, name: str) -> bytes:
    """Text of JSON, or of lines of it, that somebody cut, damaged or gave other values."""
    draw = rng.random()
    if draw < 0.2:
        return content[: rng.randrange(len(content))]
    if draw < 0.35:
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(damaged))] = rng.choice(b'\x00\xff{}[]",:19ex \n')
        return bytes(damaged)
    if draw < 0.4:
        return rng.choice([b"", b"\xff\xfe", b"null", b"3", b"[]", b"{}", b"[" * 5000, b'"x"', b"9" * 6000])
    if name == "metrics.jsonl":
        lines = content.decode().splitlines()
        lines[rng.randrange(len(lines))] = rng.choice([*LINES, json.dumps(hostile_json(rng))])
        return ("\n".join(lines) + "\n").encode()
    data = json.loads(content)
    part: Any = data
    while isinstance(part, dict | list) and part:
        key = rng.choice(list(part) if isinstance(part, dict) else range(len(part)))
        if not isinstance(part[key], dict | list) or not part[key] or rng.random() < 0.4:
            if rng.random() < 0.2:
                del part[key]
            else:
                part[key] = hostile_json(rng)
            break
        part = part[key]
    return json.dumps(data).encode("utf-8", "surrogatepass")
