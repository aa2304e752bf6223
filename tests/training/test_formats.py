"""Records and rows that older versions wrote are what they were: read, found, gone on with, none lost."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import isojepa as ij
from isojepa.cli import main
from isojepa.config import Config, config_from, read_config
from isojepa.encoders.coupling import CouplingSpec
from isojepa.encoders.mlp import MLPSpec
from isojepa.laws.densities import GeneralizedNormalSpec, NormalSpec
from isojepa.objectives.infonce import InfoNCESpec, SlicedInfoNCESpec
from isojepa.objectives.lejepa import LeJEPASpec
from isojepa.objectives.vicreg import VICRegSpec
from isojepa.registry import find
from isojepa.runs import build_all, record_path, train
from isojepa.training import Recipe, Record, record_id
from isojepa.training.formats import _LATER, FORMAT, HEADER, format_of, migrate
from isojepa.worlds.processes import LangevinSpec, NoisyCopiesSpec, OrnsteinUhlenbeckSpec
from isojepa.worlds.world import WorldSpec
from isojepa_lab.studies import two_dimensions
from isojepa_lab.studies.catalogue import STUDIES, find_study
from isojepa_lab.studies.evidence import read_evidence, read_kept
from tests.training.crash import crash_at

HERE = Path(__file__).parent / "format_1"
RESULTS = Path(__file__).parents[2] / "docs/results"
OLD = json.loads((HERE / "configs.json").read_text())
NAME = "a4068ee4fb32"  # what format 1 called the record

RECIPE = Recipe(
    steps=2000,
    batch=2048,
    batch_start=256,
    pairs=None,
    learning_rate=2e-2,
    schedule="warmup-cosine",
    warmup=0.025,
    weight_decay=0.0,
    decay_all=False,
    beta2=0.95,
    clip=None,
    average=None,
    precision="float32",
    accumulate=1,
    sync_norms=False,
    eval_every=200,
    eval_samples=10_000,
)
LEJEPA = LeJEPASpec(
    weight=2e-3,
    alignment="centre",
    slices=16,
    knots=17,
    t_max=5.0,
    pooled=False,
    unbiased=False,
    test="epps-pulley",
    sampler="gaussian",
    resample=True,
)


def mixing(name, **settings):
    return find("mixing", name)(**settings)


MEANT = {
    "default": Config(
        WorldSpec(OrnsteinUhlenbeckSpec(2, 0.95, 1.0), mixing("spiral", mixing_rate=math.pi)),
        MLPSpec(2, 64, 6),
        LEJEPA,
        RECIPE,
        0,
    ),
    "langevin": Config(
        WorldSpec(LangevinSpec(2, 0.9, 1.0, GeneralizedNormalSpec(1.5)), mixing("identity")),
        MLPSpec(2, 48, 6),
        LEJEPA,
        RECIPE,
        2,
    ),
    "lift": Config(
        WorldSpec(
            NoisyCopiesSpec(3, 0.95, NormalSpec()),
            mixing("lift", observed_dim=6, mixing_layers=2, mixing_gain=3.0, mixing_hidden=32, mixing_seed=5),
        ),
        MLPSpec(3, 64, 6),
        VICRegSpec(0.8, 2 / 25, 1e-4),
        RECIPE,
        0,
    ),
    "sliced": Config(
        WorldSpec(
            OrnsteinUhlenbeckSpec(8, (0.9,) * 8, 1.0),
            mixing("additive-coupling", mixing_layers=4, mixing_seed=0),
        ),
        CouplingSpec(8, 4),
        SlicedInfoNCESpec(weight=0.5, sigma="matched", k=4, slices=8),
        replace(RECIPE, steps=50, batch_start=None, pairs=100),
        0,
    ),
}
LEARNED = Config(
    WorldSpec(OrnsteinUhlenbeckSpec(2, 0.95, 1.0), mixing("spiral", mixing_rate=math.pi)),
    MLPSpec(2, 4, 2),
    InfoNCESpec(0.5, "learned"),
    replace(
        RECIPE, steps=40, batch=32, batch_start=None, eval_every=16, eval_samples=64, checkpoint_seconds=0.0
    ),
    0,
)


@pytest.fixture
def old(tmp_path):
    """A function that copies a folder of records as format 1 left it."""

    def copied(name):
        shutil.copytree(HERE / name, tmp_path / name)
        return tmp_path / name

    return copied


def nulls(value):
    """The keys of nested settings that are None."""
    return {key for key, entry in value.items() if entry is None}


@pytest.mark.parametrize("name", OLD)
def test_an_old_config_means_what_it_meant(name):
    config = config_from(migrate(OLD[name]["config"], 1))
    assert config == MEANT[name]
    assert config.to_dict() == MEANT[name].to_dict()
    assert record_id(migrate(OLD[name]["config"], 1)) == record_id(MEANT[name].to_dict())


@pytest.mark.parametrize("name", OLD)
def test_a_migrated_config_leaves_nothing_to_the_defaults_of_the_day(name):
    migrated = migrate(OLD[name]["config"], 1)
    assert not any(nulls(migrated[section]) for section in ("world", "encoder", "objective"))
    resolved = MEANT[name].to_dict()
    for section in ("world", "encoder", "objective"):
        assert migrated[section].keys() == resolved[section].keys()
    assert migrate(migrated, format_of(migrated)) == migrated


def test_all_old_configs_are_checked():
    assert MEANT.keys() == OLD.keys()


def test_an_old_record_is_found_by_its_old_name(old):
    folder = old("stopped")
    assert record_path(LEARNED, folder) == folder / NAME
    assert Record(folder / NAME).id == record_id(LEARNED.to_dict()) != NAME
    assert record_path(replace(LEARNED, seed=1), folder).name == record_id(replace(LEARNED, seed=1).to_dict())
    assert not record_path(replace(LEARNED, seed=1), folder).exists()


def test_a_finished_old_record_is_returned_without_training(old, monkeypatch):
    folder = old("finished")
    before = {path.name: path.read_bytes() for path in (folder / NAME).iterdir()}

    def fail(*arguments, **options):
        raise AssertionError("it trains")

    monkeypatch.setattr(torch.optim.AdamW, "step", fail)
    run = train(LEARNED, folder, progress=False)
    after = {path.name: path.read_bytes() for path in (folder / NAME).iterdir() if path.name != ".lock"}
    assert after == before
    assert run.metrics[-1] == json.loads(before["result.json"])["metrics"]
    assert [path.name for path in folder.iterdir()] == [NAME]
    kept = ij.load(folder / NAME)
    assert torch.equal(kept.body[0].weight, run.encoder.body[0].weight)


def test_a_stopped_old_record_goes_on_to_what_a_fresh_run_gives(old, tmp_path):
    folder = old("stopped")
    rows = Record(folder / NAME).metrics
    assert 0 < len(rows) < 3
    run = train(LEARNED, folder, progress=False)
    fresh = train(LEARNED, tmp_path / "fresh", progress=False)
    assert run.record.path == folder / NAME
    assert run.metrics[: len(rows)] == rows
    finished = json.loads((HERE / "finished" / NAME / "result.json").read_text())["metrics"]
    for expected in (fresh.metrics[-1], finished):
        shared = expected.keys() & run.metrics[-1].keys()
        assert {"loss", "r2", "sigma", "mean_variance"} <= shared
        for key in shared:  # the checkpoint is of another machine: equal to rounding, forty steps later
            assert run.metrics[-1][key] == pytest.approx(expected[key], rel=1e-5, abs=1e-5)
    assert Record(folder / NAME).result["status"] == "done"


def test_commands_read_old_records(old, capsys):
    folder = old("finished") / NAME
    assert main(["certify", str(folder), "--samples", "2000", "--json"]) == 0
    assert "verdict" in json.loads(capsys.readouterr().out)
    assert main(["report", str(folder)]) == 0
    assert (folder / "report.html").exists()
    assert read_config(folder / "config.json") == LEARNED


def test_the_command_line_goes_on_with_an_old_record(old, capsys):
    folder = old("stopped")
    config = str(folder / NAME / "config.json")
    assert main(["train", "--config", config, "--out", str(folder), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert Path(answer["record"]) == folder / NAME
    assert answer["status"] == "done"


def test_another_default_does_not_make_an_old_record_a_run_of_it(old, monkeypatch):
    """Half of an old config was None, which meant the defaults of its day."""
    folder = old("finished")
    asked = Config(
        encoder=MLPSpec(width=4, layers=2), objective=InfoNCESpec(sigma="learned"), training=LEARNED.training
    )
    assert record_path(asked, folder) == folder / NAME
    weight, sigma = InfoNCESpec.__init__.__defaults__
    monkeypatch.setattr(InfoNCESpec.__init__, "__defaults__", (weight + 0.2, sigma))
    now = replace(asked, objective=InfoNCESpec(sigma="learned"))
    assert now.objective.weight == pytest.approx(0.7)
    assert not record_path(now, folder).exists()
    assert record_path(asked, folder) == folder / NAME
    assert Record(folder / NAME).config["objective"]["weight"] == 0.5
    assert build_all(config_from(Record(folder / NAME).config))[2].weight == 0.5


FOURTEEN = (
    *(
        "steps",
        "batch",
        "batch_start",
        "pairs",
        "learning_rate",
        "schedule",
        "warmup",
        "weight_decay",
        "beta2",
    ),
    *("clip", "eval_every", "eval_samples", "checkpoint_seconds", "accelerator"),
)


@pytest.mark.parametrize("stop", [None, 5])
def test_an_old_run_from_python_is_gone_on_with(spiral, tmp_path, stop):
    """Format 1 had fourteen settings, and did not say how to make a model again."""
    options = {"steps": 8, "batch": 16, "batch_start": None, "eval_every": 4, "eval_samples": 32}

    def parts():
        return ij.encoders.MLP(2, 2, width=4, layers=2), spiral, ij.objectives.AnInfoNCE(2)

    def run(*parts):
        return ij.fit(*parts, record=tmp_path / "run", checkpoint_seconds=0.0, progress=False, **options)

    encoder, world, objective = parts()
    if stop is None:
        run(encoder, world, objective)
    else:
        with pytest.raises(RuntimeError, match="crash"):
            run(encoder, world, crash_at(objective, stop))
    path = tmp_path / "run/config.json"
    config = json.loads(path.read_text())
    training = {key: config["training"][key] for key in FOURTEEN}
    config = {key: value for key, value in config.items() if key != "models"}
    path.write_text(json.dumps({**config, "format": 1, "training": training}))
    begun = Record(tmp_path / "run").metrics
    again = run(*parts())
    assert again.status == "done"
    assert again.metrics[: len(begun)] == begun
    options["steps"] = 9
    with pytest.raises(ValueError, match=r"another config \(training.steps: 8 there, 9 asked for\)"):
        run(*parts())


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_weight_decay_of_old_runs_was_that_of_all_weights(weight_decay):
    config = OLD["default"]["config"]
    config = {**config, "training": {**config["training"], "weight_decay": weight_decay}}
    assert migrate(config, 1)["training"]["decay_all"] is (weight_decay > 0)


def test_a_config_of_today_is_not_changed():
    config = Config().to_dict()
    assert format_of(config) == FORMAT
    assert migrate(config, FORMAT) == config
    assert migrate({"made_from": "python", "world": "World(...)"}, 1) == {
        "made_from": "python",
        "world": "World(...)",
    }


KEPT = [
    path.stem
    for path in sorted(RESULTS.glob("*.json"))
    if isinstance(data := json.loads(path.read_text()), dict) and data.get("defaults")
]


@pytest.mark.parametrize("name", KEPT)
def test_no_committed_row_is_lost(name):
    """Each is read, and is the run that its study asks for today; none that it asks for is missing."""
    rows = json.loads((RESULTS / f"{name}.json").read_text())["rows"]
    evidence = read_evidence(RESULTS / f"{name}.json")
    assert [row.record for row in evidence.rows] == [row["record"] for row in rows]
    asked = {record_id(cell.config.to_dict()) for cell in find_study(name).plan(evidence.scale)}
    there = {record_id(row.config) for row in evidence.rows}
    assert there == asked
    assert not evidence.missing
    assert not any(
        nulls(row.config[section]) for row in evidence.rows for section in ("encoder", "objective")
    )


def test_all_committed_rows_with_configs_are_among_them():
    assert sum(len(json.loads((RESULTS / f"{name}.json").read_text())["rows"]) for name in KEPT) >= 1038
    rows = json.loads((RESULTS / "two_dimensions.json").read_text())
    configs = [config_from(migrate(row["config"], format_of(row["config"]))) for row in rows]
    assert len(configs) == 38
    asked = {record_id(config.to_dict()) for _, _, config in two_dimensions.configs()}
    assert {record_id(config.to_dict()) for config in configs} == asked


@pytest.mark.parametrize("name", [name for name in STUDIES if find_study(name).sources])
def test_studies_of_the_runs_of_others_find_all_their_rows(name):
    evidence = read_kept(find_study(name), RESULTS, "standard")
    assert len(evidence.rows) == evidence.runs > 300
    assert evidence.missing == 0


@pytest.mark.parametrize("name", ["mlp", "free-coupling"])
def test_a_record_from_before_a_setting_came_is_the_run_that_it_was(tmp_path, name):
    world = WorldSpec(OrnsteinUhlenbeckSpec(2, 0.95, 1.0), mixing("identity"))
    recipe = Recipe(steps=2, batch=16, eval_every=2, eval_samples=64)
    config = Config(world, find("encoder", name)(), LEJEPA, recipe, 0)
    run = train(config, tmp_path)
    later = _LATER["encoder"][name]
    path = run.record.path / "config.json"
    told = json.loads(path.read_text())
    assert later.items() <= told["encoder"].items()
    for setting in later:
        del told["encoder"][setting]
    path.write_text(json.dumps(told))
    older = {key: value for key, value in told.items() if key not in HEADER}
    run.record.path.rename(tmp_path / record_id(older))
    assert record_id(older) != record_id(config.to_dict())
    again = train(config, tmp_path)
    assert again.record.path.name == record_id(older)
    assert again.metrics == run.metrics
    assert len([entry for entry in tmp_path.iterdir() if entry.is_dir()]) == 1
