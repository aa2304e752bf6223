"""The page of controllers: what it says follows the rows, and what others named stays text."""

import numpy as np
import pytest

from isojepa.plan.closed_loop import FAIR, Evaluation, Outcome, Tasks
from isojepa.plan.closed_loop.controllers import Spent
from isojepa.report.controlling import write_control

GIF = b"GIF89a"


def made_up(successes):
    outcomes = {}
    for name, right in successes.items():
        errors = np.full((len(right), FAIR.budget + 1), 1.0)
        errors[right] = np.linspace(1, 0, FAIR.budget + 1)
        qpos = np.zeros((len(right), FAIR.budget + 1, 2))
        outcomes[name] = [Outcome(0, 0, right, qpos, errors, Spent(20, 0.1, 20 * len(right)), 1.0)]
    zeros = np.zeros((len(right), 2))
    return Evaluation(FAIR, {0: Tasks(zeros, zeros, zeros, removed=3)}, outcomes)


@pytest.fixture
def page(tmp_path):
    right = np.arange(40) % 4 != 0
    found = made_up({"<b>mine</b>, mpc": right, "no action": np.full(40, False)})
    size = write_control(tmp_path / "page.html", found, {"<b>mine</b>, mpc": GIF}, seconds=0.02)
    text = (tmp_path / "page.html").read_text()
    assert size == len(text.encode())
    return text


def test_the_headline_and_the_table_are_those_of_the_rows(page):
    assert "reaches its goal in 75\N{NO-BREAK SPACE}% of 40 runs" in page
    assert "during all of the last 10 of 100 steps" in page
    assert "3 left out" in page
    assert "no action" in page


def test_names_are_text_and_the_film_is_inside(page):
    assert "<b>mine</b>" not in page
    assert "&lt;b&gt;mine&lt;/b&gt;, mpc" in page
    assert "data:image/gif;base64,R0lGODlh" in page
