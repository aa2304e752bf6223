"""Every example runs as it stands and shows what it says it shows."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_own_embeddings_are_certified_without_labels(capsys):
    names = runpy.run_path(str(EXAMPLES / "own_embeddings.py"))
    assert names["certificate"].grade == "bounded"
    assert "certified without labels" in capsys.readouterr().out


def test_an_own_world_with_an_own_mixing_is_learned(capsys):
    names = runpy.run_path(str(EXAMPLES / "own_world.py"))
    assert names["run"].r2 > 0.97


@pytest.mark.slow
def test_the_ten_lines_of_the_readme_recover_the_spiral(capsys):
    names = runpy.run_path(str(EXAMPLES / "spiral.py"))
    assert names["run"].r2 >= 0.986
    assert "World model" in capsys.readouterr().out


def test_the_readme_shows_the_example_as_it_is():
    readme = (EXAMPLES.parent / "README.md").read_text()
    code = (EXAMPLES / "spiral.py").read_text().partition('"""\n\n')[2]
    assert code.strip() in readme
