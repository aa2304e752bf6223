"""The command `look`, from what a person types to the page."""

import json

import numpy as np
import pytest

from isojepa.cli.main import main
from isojepa.training import Record
from isojepa.worlds.images.cache import pillow
from tests.vision import timm_or_skip

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


def told(capsys, *arguments):
    code = main(["look", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, " ".join(captured.err.split())


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


def test_a_pretrained_record_is_looked_at_on_its_own_pictures(places, capsys):
    record = places / "run"
    flags = ("--backbone", "convnet-8-16", "--encoder.projector", "linear-8", "--training.steps", "2")
    more = ("--training.batch", "16", "--no-probe", "--record", str(record))
    assert main(["pretrain", str(places / "a.npz"), *flags, *more]) == 0
    assert f"isojepa look {record}" in capsys.readouterr().out
    code, printed, error = told(capsys, record, "--pictures", "40", "--shown", "5")
    assert code == 0, error
    assert f"Wrote {record / 'look.html'}" in printed.replace("\n", "")
    assert "40 pictures" in printed
    assert "no [CLS] attention" in printed
    page = (record / "look.html").read_text()
    assert "convnet-8-16 looks at a.npz" in page
    assert "encoder.projector" in page
    Record.open(record)  # the page is no stranger in its folder
    assert main(["pretrain", str(places / "a.npz"), *flags, *more]) == 0


def test_an_encoder_of_ones_own_is_looked_at(places, capsys):
    page = places / "sub" / "page.html"
    arguments = ("--data", places / "a.npz", "--out", page, "--json")
    code, printed, error = told(capsys, f"{places / 'enc.py'}:flat", *arguments)
    assert code == 0, error
    found = json.loads(printed)
    assert found["pictures"] == 90
    assert found["bytes"] == page.stat().st_size
    assert found["same_class"] > found["same_class_by_chance"]
    assert (found["maps"], found["attention"], found["collapsed"]) == (None, None, False)
    code, printed, error = told(capsys, f"{places / 'enc.py'}:Mapped", *arguments)
    assert code == 0, error
    assert json.loads(printed)["maps"] == [16, 16]  # of pictures twice as large
    code, printed, error = told(capsys, f"{places / 'enc.py'}:Wrong", *arguments[:-1])
    assert code == 0, error
    assert "This model has no maps" in printed
    assert "KeyError: 0" in printed


@pytest.mark.slow
def test_a_backbone_of_timm_attends_over_a_clip(places, capsys):
    timm_or_skip()
    frames = [pillow().fromarray(np.full((16, 16, 3), 20 * k, dtype=np.uint8)) for k in range(6)]
    frames[0].save(places / "clip.gif", save_all=True, append_images=frames[1:])
    code, printed, error = told(
        capsys,
        "test_vit",
        *("--data", places / "a.npz", "--clip", places / "clip.gif", "--frames", "3", "--size", "32"),
        *("--pictures", "10", "--shown", "2", "--channels", "3", "--out", places / "p.html", "--json"),
    )
    assert code == 0, error
    assert len(json.loads(printed)["attention"]) > 1
    page = (places / "p.html").read_text()
    assert "frame 3" in page
    assert "frame 4" not in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ENC:flat",), "data must be given"),
        (("ENC:broken", "--data", "A"), "features must be finite, got NaN or Inf"),
        (("ENC:flat", "--data", "A", "--pictures", "0"), "pictures must be"),
        (("ENC:flat", "--data", "A", "--share", "1.5"), "share must lie in (0, 1]"),
        (("ENC:flat", "--data", "A", "--normalize", "mine"), "normalize must be one of auto, data, imagenet"),
        (("ENC:flat", "--data", "A", "--weights", "w.pt"), "weights go with a backbone of timm"),
        (("ENC:flat", "--data", "A", "--split", "val"), "split must be one"),
        (("ENC:flat", "--data", "A", "--clip", "nowhere.gif"), "nowhere.gif does not exist"),
        (("missing.pt", "--data", "A"), "does not exist"),
        (("runs/none",), "runs/none does not exist"),
    ],
)
def test_what_cannot_be_is_one_line(places, capsys, arguments, message):
    given = [str(places / "a.npz") if one == "A" else one for one in arguments]
    given[0] = given[0].replace("ENC", str(places / "enc.py"))
    code, _, error = told(capsys, *given, "--out", places / "x.html")
    assert code == 2
    assert message in error
    assert "Traceback" not in error
    assert not (places / "x.html").exists()
