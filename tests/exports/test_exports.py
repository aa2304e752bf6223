"""What was exported gives what was trained, in the libraries that others read it with."""

import json
import shutil
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import isojepa as ij
from isojepa.cli import main
from isojepa.training.rebuilding import recipe_of
from isojepa.training.run_directory import RunDirectory
from tests.exports.small import SIDE, pictures, record
from tests.vision import timm_or_skip

BATCHES = (1, 4, 7)  # others than the one that was exported


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("exports")
    pictures(path / "photos.npz")
    return path


@pytest.fixture(scope="module")
def made(folder):
    """Records by name, each trained once."""
    known = {}

    def of(network, **changes):
        key = (network, *changes.items())
        if key not in known:
            known[key] = record(folder / f"run-{len(known)}", folder / "photos.npz", network, **changes)
        return known[key]

    return of


def seen(n, *shape):
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(n))


def onnx_or_skip():
    pytest.importorskip("onnx", reason="needs onnx: pip install 'isojepa[export]'")
    pytest.importorskip("onnxscript", reason="needs onnxscript: pip install 'isojepa[export]'")
    return pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'isojepa[export]'")


@pytest.mark.parametrize("network", ["resnet", "vit", "convnext"])
def test_timm_loads_the_file_by_the_lines_of_the_card(made, tmp_path, monkeypatch, network):
    timm = timm_or_skip()
    path = made(network)
    done = ij.export(path, "timm", tmp_path / "out", measure=False)
    monkeypatch.chdir(done.folder)
    x = seen(5, 3, SIDE, SIDE)
    found = {"x": x}
    exec((tmp_path / "out/README.md").read_text().split("```")[1].removeprefix("python"), found)
    expected = ij.load(path).features(x)
    assert (found["features"] - expected).abs().max() <= 1e-6
    whole = timm.create_model(f"local-dir:{done.folder}", pretrained=True).eval()
    assert (whole(x) - expected).abs().max() <= 1e-6
    assert timm.data.resolve_model_data_config(whole)["mean"] == list(
        RunDirectory.open(path).result["source"]["mean"]
    )


@pytest.mark.parametrize(
    "network",
    [
        "convnet",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("gridnet", "vit", "resnet18-small", "resnet", "convnext")
        ),
    ],
)
def test_onnxruntime_gives_the_features_of_pixels(folder, made, tmp_path, network):
    onnxruntime = onnx_or_skip()
    if network not in ("convnet", "gridnet", "resnet18-small"):
        timm_or_skip()
    path = made(network)
    done = ij.export(path, "onnx", tmp_path / "out", measure=False)
    images = np.load(folder / "photos.npz")["images"] / 255
    mean, std = (
        torch.tensor(part((0, 1, 2)), dtype=torch.float32)[:, None, None]
        for part in (images.mean, images.std)
    )
    session = onnxruntime.InferenceSession(done.file)
    for n in BATCHES:
        x = seen(n, 3, SIDE, SIDE).sigmoid()
        with torch.no_grad():
            expected = ij.load(path).features((x - mean) / std)
        (features,) = session.run(["features"], {"x": x.numpy()})
        np.testing.assert_allclose(features, expected.numpy(), atol=1e-5, rtol=1e-4)
    assert done.difference <= 1e-4


def test_a_graph_without_normalization_gives_the_embedding_of_normalized_pictures(made, tmp_path):
    onnxruntime = onnx_or_skip()
    path = made("convnet")
    done = ij.export(path, "onnx", tmp_path / "out", what="embedding", normalize=False, measure=False)
    x = seen(4, 3, SIDE, SIDE)
    (h,) = onnxruntime.InferenceSession(done.file).run(["embedding"], {"x": x.numpy()})
    with torch.no_grad():
        np.testing.assert_allclose(h, ij.load(path).embed(x).numpy(), atol=1e-5)


def test_an_onnx_file_says_what_it_is_and_names_no_place(made, tmp_path):
    onnx_or_skip()
    import onnx

    done = ij.export(made("convnet"), "onnx", tmp_path / "out", measure=False)
    graph = onnx.load(done.file)
    assert [one.version for one in graph.opset_import if one.domain == ""] == [18]
    notes = json.loads(next(one.value for one in graph.metadata_props if one.key == "isojepa"))
    assert notes["normalized_inside"]
    assert len(notes["mean"]) == 3
    content = done.file.read_bytes()
    for place in (str(ij.__path__[0]), str(made("convnet")), "site-packages"):
        assert place.encode() not in content


@pytest.mark.parametrize("what", ["features", "embedding"])
def test_safetensors_load_without_record_data_and_config(folder, tmp_path, what):
    shutil.copy(folder / "photos.npz", tmp_path / "photos.npz")
    path = record(tmp_path / "run", tmp_path / "photos.npz")
    x = seen(3, 3, SIDE, SIDE)
    model = ij.load(path)
    expected = model.features(x) if what == "features" else model.embed(x)
    trained = load_file(path / "encoder.safetensors")
    done = ij.export(path, "safetensors", tmp_path / "out", what=what, measure=False)
    shutil.rmtree(path)
    (tmp_path / "photos.npz").unlink()
    assert torch.equal(ij.load(done.file)(x), expected)
    prefix = "backbone." if what == "features" else ""
    plain = load_file(done.file)
    assert plain
    assert all(torch.equal(value, trained[prefix + name]) for name, value in plain.items())


def test_a_record_loads_where_its_pictures_are_gone(folder, tmp_path):
    shutil.copy(folder / "photos.npz", tmp_path / "photos.npz")
    path = record(tmp_path / "run", tmp_path / "photos.npz")
    x = seen(3, 3, SIDE, SIDE)
    before = ij.load(path).features(x)
    (tmp_path / "photos.npz").unlink()
    assert torch.equal(ij.load(path).features(x), before)
    done = ij.export(path, "safetensors", tmp_path / "out")
    assert "Not measured: the data of the run could not be opened." in (done.folder / "README.md").read_text()


@pytest.mark.parametrize("to", ["safetensors", "onnx"])
def test_encoders_of_vectors_are_exported(tmp_path, to):
    config = ij.Config(training=ij.Recipe(steps=2, batch=16, batch_start=None, eval_every=1, eval_samples=64))
    ij.train(config, record=tmp_path / "run", progress=False)
    x = seen(5, 2)
    with torch.no_grad():
        expected = ij.load(tmp_path / "run")(x)
    if to == "onnx":
        onnxruntime = onnx_or_skip()
        done = ij.export(tmp_path / "run", to)
        (h,) = onnxruntime.InferenceSession(done.file).run(None, {"x": x.numpy()})
        np.testing.assert_allclose(h, expected.numpy(), atol=1e-5)
    else:
        done = ij.export(tmp_path / "run", to)
        assert torch.equal(ij.load(done.file)(x), expected)
    assert done.folder == tmp_path / f"run/export-{to}"
    assert "Effective rank" in (done.folder / "README.md").read_text()


def test_a_model_that_nobody_can_make_again_is_exported_as_weights(tmp_path):
    class Mine(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, x):
            return self.layer(x)

    module = Mine()
    assert recipe_of(module) is None
    world = ij.data.World(ij.data.OrnsteinUhlenbeck(2, 0.9))
    objective = ij.objectives.LeJEPA(regularizer=ij.objectives.SIGReg(slices=4))
    ij.fit(
        module, world, objective, record=tmp_path / "run", steps=2, batch=16, eval_samples=64, progress=False
    )
    done = ij.export(tmp_path / "run", "safetensors", model=Mine())
    assert done.reader == ""
    with pytest.raises(ValueError, match="does not say how its module is made"):
        ij.load(done.file)
    x = seen(3, 2)
    assert torch.equal(ij.load(done.file, Mine())(x), module(x))


class Importable(torch.nn.Module):
    """A class of the user's own that can be imported."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x)


def test_a_class_of_ones_own_is_exported_where_its_module_is_trusted(tmp_path, capsys):
    module, world = Importable(), ij.data.World(ij.data.OrnsteinUhlenbeck(2, 0.9))
    objective = ij.objectives.LeJEPA(regularizer=ij.objectives.SIGReg(slices=4))
    options = {"steps": 2, "batch": 16, "eval_samples": 64, "progress": False}
    ij.fit(module, world, objective, record=tmp_path / "run", **options)
    command = ["export", str(tmp_path / "run"), "--to", "safetensors"]
    assert main(command) == 2
    assert f"--trust {__name__}" in capsys.readouterr().err
    assert main([*command, "--trust", __name__]) == 0
    told = capsys.readouterr().out
    assert f"ij.load(\"model.safetensors\", trust=['{__name__}'])" in told
    model = ij.load(tmp_path / "run/export-safetensors/model.safetensors", trust=[__name__])
    assert torch.equal(model(seen(3, 2)), module(seen(3, 2)))


def test_a_graph_that_gives_something_else_is_not_left(made, tmp_path, monkeypatch):
    onnx_or_skip()
    honest = torch.onnx.export

    def other(module, *arguments, **options):
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(0.1)
        try:
            return honest(module, *arguments, **options)
        finally:
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.sub_(0.1)

    monkeypatch.setattr(torch.onnx, "export", other)
    with pytest.raises(ValueError, match=r"must give what the model gives within .* nothing was written"):
        ij.export(made("convnet"), "onnx", tmp_path / "out", measure=False)
    assert list(tmp_path.iterdir()) == []


def refused(capsys, *arguments):
    capsys.readouterr()  # what training said
    code = main(["export", *map(str, arguments)])
    told = capsys.readouterr().err
    assert code == 2
    assert told.startswith("error: ")
    assert len(told.strip().splitlines()) == 1
    return told


def test_what_a_timm_file_has_no_place_for_is_told(made, capsys, tmp_path):
    timm_or_skip()
    out = ("--to", "timm", "--out", tmp_path / "out", "--no-measure")
    assert (
        "a backbone of timm by its name, got 'convnet-4-8': export it --to safetensors or --to onnx"
        in refused(capsys, made("convnet"), *out)
    )
    assert "no place for the linear map to 6 features" in refused(capsys, made("resnet", features=6), *out)
    assert "no head, got embedding" in refused(capsys, made("resnet"), *out, "--what", "embedding")
    assert not (tmp_path / "out").exists()


def test_only_exports_are_replaced_and_only_when_asked(made, capsys, tmp_path):
    out = tmp_path / "out"
    flags = (made("convnet"), "--to", "safetensors", "--no-measure", "--out", out)
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    assert "holds 'thesis.txt'" in refused(capsys, *flags, "--again")
    (out / "thesis.txt").rename(tmp_path / "thesis.txt")
    assert main(["export", *map(str, flags)]) == 0
    capsys.readouterr()
    (out / "README.md").write_text("edited")
    assert "add --again" in refused(capsys, *flags)
    assert (out / "README.md").read_text() == "edited"
    assert main(["export", *map(str, flags), "--again"]) == 0
    assert (out / "README.md").read_text() != "edited"
    (tmp_path / "link").symlink_to(out)
    assert "symbolic link" in refused(capsys, *flags[:-1], tmp_path / "link", "--again")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "out", "thesis.txt"]


def test_missing_libraries_are_told_with_the_command_that_installs_them(made, capsys, tmp_path, monkeypatch):
    pytest.importorskip("onnx")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    told = refused(capsys, made("convnet"), "--to", "onnx", "--no-measure", "--out", tmp_path / "out")
    assert "pip install -c constraints.txt '.[export]'" in told


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--to", "onxn"), "did you mean 'onnx'?"),
        (("--to", "onnx", "--what", "tokens"), "what must be one of embedding, features, got 'tokens'"),
        (("--to", "safetensors", "--data", "none/"), "none does not exist"),
        (("--to", "safetensors", "--shape", "3", "0", "8"), "must be positive integers, got (3, 0, 8)"),
        (("--to", "safetensors", "--shape", "1", "32", "32"), "mean and std must be 1 numbers"),
        (("--to", "safetensors", "--model", "teacher"), "one model, 'encoder', got name 'teacher'"),
    ],
)
def test_what_is_wrong_is_one_line(made, capsys, tmp_path, flags, words):
    assert words in refused(capsys, made("convnet"), *flags, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"shapes": "big"}, "shapes of its source cannot be 'big'"),
        ({"shapes": [[3, -1, 4]]}, "shapes of its source"),
        ({"size": "many"}, "size of its source cannot be 'many'"),
        ({"mean": [0.1], "std": [0.0]}, "mean and std must be 3 numbers"),
        ({"mean": "grey"}, "mean of its source"),
    ],
)
def test_a_record_whose_result_is_not_to_be_believed_is_refused(made, capsys, tmp_path, source, words):
    shutil.copytree(made("convnet"), tmp_path / "run")
    path = RunDirectory.open(tmp_path / "run")
    result = dict(path.result)
    path.finish({**result, "source": {**result["source"], **source}})
    assert words in refused(capsys, tmp_path / "run", "--to", "safetensors", "--no-measure")


def test_damaged_files_are_told(made, capsys, tmp_path):
    assert "is not a record" in refused(capsys, tmp_path, "--to", "onnx")
    shutil.copytree(made("convnet"), tmp_path / "run")
    weights = tmp_path / "run/encoder.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])
    assert "truncated" in refused(capsys, tmp_path / "run", "--to", "safetensors")
    weights.write_bytes(content)
    with pytest.raises(ValueError, match="must be a model that isojepa exported"):
        ij.load(weights)
