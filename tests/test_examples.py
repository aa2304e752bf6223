"""Every example runs as it stands and shows what it says it shows."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_own_embeddings_are_certified_without_labels(capsys):
    names = runpy.run_path(str(EXAMPLES / "own_embeddings.py"))
    assert names["certificate"].grade == "bounded"
    assert "certified without labels" in capsys.readouterr().out


@pytest.mark.slow
def test_an_own_world_with_an_own_mixing_is_learned(capsys):
    names = runpy.run_path(str(EXAMPLES / "own_world.py"))
    assert names["run"].r2 > 0.97


def test_the_hidden_x_is_found_by_the_search_and_not_by_coordinates(capsys):
    names = runpy.run_path(str(EXAMPLES / "gaussianity.py"))
    assert abs(names["worst"].direction[:2]).min() > 0.65
    assert names["worst"].p < 1e-6


def test_a_plan_in_an_embedding_costs_less_than_its_bound(capsys):
    names = runpy.run_path(str(EXAMPLES / "plan.py"))
    assert names["bound"].verdict == "bound"
    assert 0 < names["regret"].estimate < names["bound"].value < names["bound"].nothing
    assert names["lines"].verdict in ("indistinguishable", "longer")
    assert "regret at most" in capsys.readouterr().out


@pytest.mark.slow
def test_two_processes_print_the_loss_and_gradient_of_one():
    done = subprocess.run(
        [sys.executable, EXAMPLES / "several_processes.py"], capture_output=True, text=True, check=True
    )
    told = {line.partition("loss")[2] for line in done.stdout.splitlines()}
    assert len(done.stdout.splitlines()) == 3
    assert len(told) == 1, done.stdout


@pytest.mark.slow
def test_own_trajectories_are_learned_better_when_their_pairs_are_weighed(capsys):
    names = runpy.run_path(str(EXAMPLES / "own_trajectories.py"))
    r2 = {name: found.recovery.r2_h_to_z.estimate for name, found in names["certificates"].items()}
    assert r2["isotropised"] > r2["as they are"] + 0.05


@pytest.mark.slow
def test_the_ten_lines_of_the_readme_recover_the_spiral(capsys):
    names = runpy.run_path(str(EXAMPLES / "spiral.py"))
    assert names["run"].r2 >= 0.99
    assert "World model" in capsys.readouterr().out


def test_the_readme_shows_the_example_as_it_is():
    readme = (EXAMPLES.parent / "README.md").read_text()
    code = (EXAMPLES / "spiral.py").read_text().partition('"""\n\n')[2]
    assert code.strip() in readme


def test_the_readmes_embeddings_are_certified(capsys):
    readme = (EXAMPLES.parent / "README.md").read_text()
    (code,) = [
        block for block in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if "ij.certify(h, " in block
    ]
    exec(code, {})
    assert "certified without labels" in capsys.readouterr().out
