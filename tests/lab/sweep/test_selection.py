"""Choosing among real records, and among records written by hand whose answer is known."""

import json
import math

import numpy as np
import pytest
from scipy.stats import spearmanr

import isojepa as ij
from isojepa.cli import main
from isojepa.config import Config
from isojepa.objectives.lejepa import LeJEPASpec
from isojepa.selection import Candidate, ExcludedRun, read, select, weight_of
from isojepa.training.recipe import Recipe
from isojepa.training.run_directory import RunDirectory


def config(weight=0.01, seed=0, *, world=None, batch=64, rate=1e-2, objective=None):
    return {
        "world": world or {"name": "by-hand"},
        "encoder": {"name": "mlp"},
        "objective": objective or {"name": "lejepa", "weight": weight},
        "training": {"steps": 100, "batch": batch, "accumulate": 1, "learning_rate": rate},
        "seed": seed,
    }


def write(folder, losses, status="done", finish=True, more=None, **settings):
    """A record as `fit` leaves it, with losses of one's own."""
    made = config(**settings)
    record = RunDirectory.start(folder / f"{len(list(folder.iterdir())):03d}", made)
    for place, loss in enumerate(losses):
        record.append({"step": 10 * (place + 1), "loss": loss, **(more or {})})
    if finish:
        record.finish({"status": status, "reason": "" if status == "done" else "it was bad", "seconds": 1.0})
    return record.path


def test_the_scaled_loss_decides_by_its_formula(tmp_path):
    paths = {w: write(tmp_path, [loss] * 5, weight=w) for w, loss in ((0.01, 0.10), (0.1, 0.20), (0.5, 0.90))}
    (choice,) = select([tmp_path]).choices
    scaled = {w: loss / w**0.4 for w, loss in ((0.01, 0.10), (0.1, 0.20), (0.5, 0.90))}
    assert choice.run.path == paths[min(scaled, key=scaled.get)] == paths[0.1]
    assert choice.values["scaled"] == pytest.approx(sorted(scaled.values()))
    assert select([tmp_path], by="loss").choices[0].run.path == paths[0.01]
    assert select([tmp_path], alpha=0.0).choices[0].run.path == paths[0.01]


def test_collapsed_diverged_unfinished_and_damaged_runs_are_left_out_with_their_reasons(tmp_path):
    good = write(tmp_path, [0.5] * 5)
    write(tmp_path, [1e-9] * 5, status="collapsed", weight=0.02)
    write(tmp_path, [1e-9] * 5, status="diverged", weight=0.03)
    write(tmp_path, [1e-9] * 3, finish=False, weight=0.04)
    damaged = write(tmp_path, [1e-9] * 5, weight=0.05)
    (damaged / "metrics.jsonl").write_text("{torn\n")
    write(tmp_path, [math.nan] * 5, weight=0.06)
    write(tmp_path, [], weight=0.07)
    (tmp_path / "notes").mkdir()
    found = select([tmp_path])
    assert [choice.run.path for choice in found.choices] == [good]
    told = [one.reason for one in found.left_out]
    for words in ("collapsed: it was bad", "diverged: it was bad", "not finished: 30", "cannot be read"):
        assert sum(reason.startswith(words) for reason in told) == 1, words
    assert sum("no finite loss" in reason for reason in told) == 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"world": {"name": "other"}}, "world.name 'by-hand' and 'other'"),
        ({"batch": 128}, "training.batch 64 and 128"),
        ({"objective": {"name": "whitening", "weight": 0.01}}, "objective.name 'lejepa' and 'whitening'"),
    ],
)
def test_what_cannot_be_compared_is_chosen_apart_and_told(tmp_path, settings, words, capsys):
    write(tmp_path, [0.5] * 5)
    write(tmp_path, [0.1] * 5, **settings)
    found = select([tmp_path])
    assert len(found.choices) == 2
    assert found.apart == (words,)
    assert main(["select", str(tmp_path)]) == 1
    assert words in capsys.readouterr().out


def test_repeated_seeds_say_how_sure_it_is(tmp_path):
    source = np.random.default_rng(0)
    for weight, loss in ((0.01, 1.0), (0.02, 3.0)):
        for seed in range(4):
            value = loss * math.exp(0.05 * source.normal())
            write(tmp_path, [value] * 5, weight=weight, seed=seed)
    (choice,) = select([tmp_path]).choices
    assert (choice.noise, choice.sure) == ("seeds", True)
    assert choice.run.weight == 0.01
    assert choice.run.loss == min(one.loss for one in choice.candidates if one.weight == 0.01)


def test_settings_within_the_spread_of_seeds_are_not_sure_and_the_mean_decides(tmp_path):
    for weight, losses in ((0.01, (1.0, 2.0)), (0.0101, (0.9, 3.0))):
        for seed, loss in enumerate(losses):
            write(tmp_path, [loss] * 5, weight=weight, seed=seed)
    (choice,) = select([tmp_path], by="loss").choices
    assert not choice.sure
    assert 0.3 < choice.probability < 0.9
    assert choice.run.weight == 0.01  # one lucky seed of the other does not win


def test_the_probability_is_that_of_two_normals(tmp_path):
    """One setting each and noise between windows: the share is Phi of the margin."""
    from scipy.stats import norm

    source = np.random.default_rng(1)
    for weight, loss in ((0.01, 1.0), (0.02, 1.02)):
        write(tmp_path, [loss * math.exp(0.02 * source.normal()) for _ in range(9)] + [loss], weight=weight)
    (choice,) = select([tmp_path], by="loss").choices
    assert choice.noise == "windows"
    assert not choice.sure  # windows do not know how runs differ by luck
    assert choice.probability == pytest.approx(norm.cdf(choice.margin), abs=0.015)


def test_the_noise_of_windows_is_found_beside_a_trend(tmp_path):
    source = np.random.default_rng(2)
    found = []
    for weight in np.linspace(0.01, 0.5, 40):
        losses = [math.exp(-0.3 * i + 0.02 * source.normal()) for i in range(10)]
        candidate = read(write(tmp_path, losses, weight=float(weight)))
        found.append(candidate.noise)
    assert np.sqrt(np.mean(np.square(found))) == pytest.approx(0.02, rel=0.15)


def test_a_weight_that_is_zero_or_unknown_leaves_it_to_the_plain_loss(tmp_path):
    write(tmp_path, [1.0] * 5, weight=0.01)
    write(tmp_path, [0.5] * 5, weight=0.0)
    (choice,) = select([tmp_path]).choices
    assert choice.by == "loss"
    assert choice.run.weight == 0.0
    assert any("plain loss decides" in note for note in choice.notes)


def test_a_choice_at_the_edge_of_the_weights_says_so(tmp_path):
    for weight, loss in ((0.01, 0.1), (0.1, 1.0), (0.5, 5.0)):
        write(tmp_path, [loss] * 5, weight=weight)
    (choice,) = select([tmp_path]).choices
    assert any("smallest" in note for note in choice.notes)


def test_rank_correlations_with_a_known_score_are_spearmans_and_choose_nothing(tmp_path):
    losses, scores = [0.1, 0.2, 0.3, 0.4, 0.5], [0.2, 0.9, 0.5, 0.1, 0.3]
    for place, (loss, score) in enumerate(zip(losses, scores, strict=True)):
        write(tmp_path, [loss] * 5, rate=0.01 * (place + 1), more={"r2": score})
    (choice,) = select([tmp_path]).choices
    assert choice.truth["loss"] == pytest.approx(spearmanr([-x for x in losses], scores).statistic)
    assert choice.run.loss == 0.1
    (blind,) = select([tmp_path], against="accuracy").choices
    assert (blind.truth, blind.against) == ({}, "")


def test_weights_are_read_from_configs_and_from_words():
    assert weight_of({"objective": "LeJEPA(\n  weight=0.002, alignment='centre'"}) == 0.002
    for odd in ({}, {"objective": {"weight": True}}, {"objective": "weight=--"}, {"objective": None}):
        assert weight_of(odd) is None


def test_runs_made_from_python_are_candidates_without_their_models(tmp_path, spiral):
    for weight in (0.01, 0.1):
        objective = ij.objectives.LeJEPA(weight, ij.objectives.SIGReg(slices=4))
        model = ij.encoders.MLP(2, 2, width=8, layers=2)
        short = {"steps": 20, "batch": 64, "batch_start": None, "eval_every": 4, "eval_samples": 64}
        ij.fit(model, spiral, objective, record=tmp_path / str(weight), **short)
    found = [read(tmp_path / str(weight)) for weight in (0.01, 0.1)]
    kept = [one for one in found if isinstance(one, Candidate)]
    assert all("collapsed" in one.reason for one in found if isinstance(one, ExcludedRun))
    assert {one.weight for one in kept} <= {0.01, 0.1}
    assert len({one.group for one in kept}) <= 1
    if kept:
        (choice,) = select([tmp_path]).choices
        assert "made from Python objects" in choice.notes[0]


def test_one_command_chooses_among_trained_runs_and_measures_them(tmp_path, capsys):
    for weight in (1e-2, 3e-1):
        recipe = Recipe(steps=60, batch=128, batch_start=None, eval_every=10, eval_samples=500)
        ij.train(Config(objective=LeJEPASpec(weight=weight), training=recipe), tmp_path, progress=False)
    assert main(["select", str(tmp_path), "--json"]) == 0
    (choice,) = json.loads(capsys.readouterr().out)["choices"]
    assert {run["weight"] for run in choice["runs"]} == {1e-2, 3e-1}
    for run in choice["runs"]:
        assert 1 <= run["rankme"] <= 2.001
        assert 1 <= run["lidar"] <= 2.001
        assert 0 < run["gaussianity_p"] <= 1
        assert run["scaled"] == pytest.approx(run["loss"] / run["weight"] ** 0.4)
    assert not choice["sure"]
    assert main(["select", str(tmp_path), "--no-models"]) == 0
    assert "RankMe" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [["missing"], ["."], [], [".", "--by", "luck"], [".", "--alpha", "nan"]], ids=str
)
def test_bad_input_is_one_line_and_exit_code_2(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(["select", *words])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert "Traceback" not in capsys.readouterr().err
