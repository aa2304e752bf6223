"""Theorem 3 on all runs: which runs count, and that misses, refutations and losses are told."""

from dataclasses import replace

import pytest

from isojepa.config import Config
from isojepa.encoders.mlp import MLPSpec
from isojepa.registry import Context, Spec, build_spec
from isojepa.runs import record_path
from isojepa_lab.papers.world_model.grid import STUDY as GRID
from isojepa_lab.papers.world_model.scaling import STUDY as SCALING
from isojepa_lab.studies import catalogue
from isojepa_lab.studies.bound import STUDY
from isojepa_lab.studies.bound_page import cell_of
from isojepa_lab.studies.bound_worlds import correlation, speaks_of
from isojepa_lab.studies.mixings import STUDY as MIXINGS
from isojepa_lab.studies.study import Cell, ReportStudy
from tests.lab.studies.made_up_rows import lost_row, made_up_row

WORLDS = [
    build_spec("world", rho=0.9),
    build_spec("world", rho=0.9, lag=2.0),
    build_spec("world", rho=(0.9, 0.9)),
    build_spec("world", process="noisy-copies", rho=0.9),
    build_spec("world", process="noisy-copies", rho=0.9, law="normal"),
    build_spec("world", process="noisy-copies", rho=0.9, law="generalized-normal", shape=2.0),
    build_spec("world", process="noisy-copies", rho=0.9, law="generalized-normal", shape=1.0),
    build_spec("world", process="noisy-copies", rho=0.9, law="uniform"),
    build_spec("world", process="langevin", rho=0.5, law="generalized-normal", shape=2.0),
    build_spec("world", process="langevin", rho=0.5, law="uniform"),
]


@pytest.mark.parametrize("config", WORLDS, ids=[str(index) for index in range(len(WORLDS))])
def test_gaussian_worlds_and_their_correlation_are_those_of_the_processes(config: Spec) -> None:
    world = config.build(Context())
    assert config.facts().gaussian == world.gaussian
    if world.gaussian:
        wanted = world.correlation
        assert correlation(config) == pytest.approx(wanted[0] if isinstance(wanted, tuple) else wanted)
    else:
        assert correlation(config) is None


def test_the_theorem_speaks_of_one_rate_and_equal_dimensions() -> None:
    assert speaks_of(Config())
    assert not speaks_of(Config(world=build_spec("world", rho=(0.9, 0.8))))
    assert not speaks_of(Config(encoder=MLPSpec(dim=3)))
    assert speaks_of(Config(encoder=MLPSpec(dim=2)))


def small(monkeypatch: pytest.MonkeyPatch, cells: dict[str, list[Cell]]) -> None:
    """Let the sources be these lists of cells."""

    def find(name: str) -> ReportStudy:
        return replace(GRID, name=name, cells=lambda scale: cells.get(name, []))

    monkeypatch.setattr(catalogue, "find_study", find)


def test_every_run_counts_once_and_none_of_other_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = GRID.plan("quick")[0]
    other = Cell(Config(world=build_spec("world", process="noisy-copies", law="uniform")), {"seed": 0})
    small(monkeypatch, {"mixings": [shared, other], "grid": GRID.plan("quick")})
    cells = STUDY.plan("standard")
    assert len(cells) == len(GRID.plan("quick"))
    assert cells[0].labels["study"] == "mixings"
    assert {record_path(cell.config).name for cell in cells} == {
        record_path(cell.config).name for cell in GRID.plan("quick")
    }
    assert len(STUDY.plan("quick")) == 1  # the first of either study, and they share it


def cells_of(study: ReportStudy, count: int) -> list[Cell]:
    chosen = study.plan("standard")[:count]
    return [Cell(cell.config, {**cell.labels, "study": study.name}) for cell in chosen]


def test_misses_refutations_and_losses_are_counted() -> None:
    cells = cells_of(GRID, 5)
    rows = [
        made_up_row(cells[0]),
        made_up_row(cells[1], error=0.07, error_interval=[0.06, 0.08]),
        made_up_row(cells[2], error=0.5, error_interval=[0.4, 0.6], holds=False),
        made_up_row(cells[3], refuted=True, holds=None),
        lost_row(cells[4], "embeddings are not finite"),
    ]
    findings = STUDY.report(rows)
    own, total = findings.tables[0].rows
    assert {**own, "study": "all"} == dict(total)
    expected = {"runs": 5, "bounded": 4, "holds": 2, "plain": 1, "refuted": 1, "sharper_holds": 1}
    assert {key: total[key] for key in expected} == expected
    assert total["bound_least"] == pytest.approx(0.06 / 0.5)


def test_collapsed_runs_do_not_decide_what_the_error_follows() -> None:
    """Collapsed runs have no δ and the whole error: pooled they hide what the error of the others follows."""
    cells = cells_of(GRID, 60)
    rows = [
        made_up_row(cell, error=0.01 * (i + 1), delta=0.002 * (i + 1), epsilon=0.1 + 0.01 * ((7 * i) % 11))
        if i < 30
        else made_up_row(cell, status="collapsed", error=2.0 + 0.01 * i, delta=-1e-4 * i, epsilon=1.4)
        for i, cell in enumerate(cells)
    ]
    findings = STUDY.report(rows)
    lines = {row["subset"]: row for row in findings.tables[1].rows}
    assert float(lines["all"]["delta"] or 0) < float(lines["all"]["epsilon"] or 0)
    for name in ("all, without collapsed runs", "grid, without collapsed runs"):
        assert lines[name]["runs"] == 30
        assert lines[name]["delta"] == pytest.approx(1.0)


def test_seeds_of_one_cell_belong_together() -> None:
    rows = [made_up_row(cell) for cell in cells_of(GRID, 4)]
    assert cell_of(rows[0]) == cell_of(rows[1]) != cell_of(rows[2])
    worlds = [
        made_up_row(cell)
        for cell in SCALING.plan("standard")
        if (cell.labels["method"], cell.labels["dim"], cell.labels["settings"]) == ("SIGReg", 8, "ours")
    ]
    assert len(worlds) == 3
    assert len(set(map(cell_of, worlds))) == 1


def test_no_run_that_the_theorem_speaks_of_is_left_out() -> None:
    planned = {record_path(cell.config).name for cell in STUDY.plan("standard")}
    computed = {
        "slices",
        "fashion",
        "adversaries",
        "apart",
        "others",
        "ceiling",
        "reacher_ou",
        "reacher_trajectory",
        "planning",
        "dynamics",
        "dependent_rows",
        "axes",
        "objectives",
        "refusals",
        "recordings",
        "pixel_axes",
        "peers",
        "directions",
        "selection",
        "architectures",
        "cross_view",
        "training_dynamics",
        "superposition",
        "published_infonce",  # their rows are not all there yet: then they belong to the sources
        "generic_encoder",
    }  # worlds without known latents, nothing trained, or scores of their own with the bound among them
    for name in set(catalogue.STUDIES) - {"bound", "loss_predicts"} - computed:
        for cell in catalogue.find_study(name).plan("standard"):
            assert not speaks_of(cell.config) or record_path(cell.config).name in planned, cell.labels


def test_rows_kept_by_the_sources_are_those_of_the_records(tmp_path) -> None:
    from isojepa_lab.studies.evidence import gather, read_kept, write_evidence
    from isojepa_lab.studies.writing import write_report
    from tests.lab.studies.small import leave_records

    records, kept = tmp_path / "records", tmp_path / "kept"
    leave_records(STUDY.plan("quick"), records)
    for study in (GRID, MIXINGS):
        write_evidence(kept / f"{study.name}.json", gather(study, "quick", records))
    found, made = read_kept(STUDY, kept, "quick"), gather(STUDY, "quick", records)
    known = {row.record for study in (GRID, MIXINGS) for row in gather(study, "quick", records).rows}
    wanted = [row.to_dict() for row in made.rows if row.record in known]
    assert str([row.to_dict() for row in found.rows]) == str(wanted)  # as text, for some scores are NaN
    assert 0 < len(found.rows) == found.runs - found.missing
    assert found.versions == made.versions
    write_report(STUDY, made, tmp_path / "out")
    assert not (tmp_path / "out/bound.json").exists()
    assert "[grid.json](grid.json)" in (tmp_path / "out/bound.md").read_text()
    assert not read_kept(STUDY, tmp_path, "quick").rows
    write_evidence(kept / "grid.json", replace(gather(GRID, "quick", records), scale="paper"))
    with pytest.raises(ValueError, match="different scales: mixings is quick, grid is paper"):
        read_kept(STUDY, kept, "quick")
