"""The command `look`, from what a person types to the page."""

import json

import numpy as np
import pytest

from tests.cli.test_commands import run

ENCODER = """
import torch
from torch import nn

def flat(x):
    return x.flatten(1)

def broken(x):
    return x.flatten(1) / 0

class Mapped(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))

    def maps(self, x):
        return x[:, :, ::2, ::2]

class Wrong(Mapped):
    def maps(self, x):
        return {}[0]
"""


@pytest.fixture
def places(tmp_path):
    (tmp_path / "enc.py").write_text(ENCODER)
    draw = np.random.default_rng(0)
    labels = np.arange(90) % 3
    images = draw.integers(0, 150, size=(90, 16, 16))
    images[labels == 1, :8] += 60
    images[labels == 2, 8:] += 60
    np.savez(tmp_path / "a.npz", images=images.astype(np.uint8), labels=labels)
    return tmp_path


def test_an_encoder_of_ones_own_is_looked_at(places, capsys):
    page = places / "sub" / "page.html"
    arguments = ("--data", places / "a.npz", "--out", page, "--json")
    code, printed, error = run(capsys, "look", f"{places / 'enc.py'}:flat", *arguments)
    assert code == 0, error
    found = json.loads(printed)
    assert found["pictures"] == 90
    assert found["bytes"] == page.stat().st_size
    assert found["same_class"] > found["same_class_by_chance"]
    assert (found["maps"], found["attention"], found["collapsed"]) == (None, None, False)
    code, printed, error = run(capsys, "look", f"{places / 'enc.py'}:Mapped", *arguments)
    assert code == 0, error
    assert json.loads(printed)["maps"] == [16, 16]  # of pictures twice as large
    code, printed, error = run(capsys, "look", f"{places / 'enc.py'}:Wrong", *arguments[:-1])
    assert code == 0, error
    assert "This model has no maps" in printed
    assert "KeyError: 0" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ENC:flat",), "data must be given"),
        (("ENC:broken", "--data", "A"), "features must be finite, got NaN or Inf"),
        (("ENC:flat", "--data", "A", "--normalize", "mine"), "normalize must be one of auto, data, imagenet"),
        (("ENC:flat", "--data", "A", "--weights", "w.pt"), "weights go with a backbone of timm"),
        (("ENC:flat", "--data", "A", "--clip", "nowhere.gif"), "nowhere.gif does not exist"),
        (("runs/none",), "runs/none does not exist"),
    ],
)
def test_what_cannot_be_is_one_line(places, capsys, arguments, message):
    given = [str(places / "a.npz") if one == "A" else one for one in arguments]
    given[0] = given[0].replace("ENC", str(places / "enc.py"))
    code, _, error = run(capsys, "look", *given, "--out", places / "x.html")
    assert code == 2
    assert message in error
    assert "Traceback" not in error
    assert not (places / "x.html").exists()
