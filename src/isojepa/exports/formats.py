"""Files of exported models: ONNX, timm and safetensors.

An ONNX file: the model as a graph of any batch size, checked in onnxruntime.

The graph takes pixels in [0, 1] and normalizes them itself, which spares its user one mistake;
`normalize=False` leaves that out. It is written by torch's exporter with opset 18, for observations of one
shape; the first axis is free. The exporter notes in whose files each operator came from: that is taken out.

A file that `timm.create_model(NAME, checkpoint_path=TIMM_FILE, ...)` loads: weights under timm's names.

timm loads such a file strictly and converts nothing: the model must be made with the arguments that it was
trained with, position embeddings for the same size of pictures among them. The lines that load it have them.

A safetensors file that has the weights, how the model is made again, and what it must be fed.
"""

import json
import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from isojepa.encoders.backbones import creation
from isojepa.exports.subject import Answer, Subject, Written
from isojepa.importing import import_timm, install_hint
from isojepa.io import size_of, write_json, write_whole
from isojepa.training.checkpoints import save_tensors
from isojepa.training.rebuilding import load_model, save_model, to_trust
from isojepa.version import __version__

ONNX_FILE = "model.onnx"
OPSET = 18
_TOLERANCE = 1e-4
_LARGEST = 2_000_000_000  # bytes of weights: a file of this format has at most 2 GB


def write_onnx(subject: Subject, folder: Path, normalize: bool = True) -> Written:
    """Write the graph and see that onnxruntime computes what the model does.

    Args:
        subject: what is exported.
        folder: where to.
        normalize: take pixels in [0, 1], for pictures.

    Raises:
        ValueError: mean and std are not known, the model cannot be written, or the file gives something else.
        ImportError: onnx, onnxscript or onnxruntime is missing.
    """
    onnx, onnxruntime = _libraries()
    model_input, pixels = subject.input, normalize and subject.input.pictures
    if pixels and model_input.mean is None:
        raise ValueError(
            "mean and std of the pictures are not known, which the graph would normalize by: say where they "
            "are by data, or leave it out by --no-normalize"
        )
    weights = sum(value.numel() * value.element_size() for value in subject.model.state_dict().values())
    if weights > _LARGEST:
        raise ValueError(
            f"an ONNX file holds at most {size_of(_LARGEST)} of weights, got {size_of(weights)}: export it "
            "--to safetensors"
        )
    program = _program(subject, Answer(subject.model, subject.what, model_input if pixels else None).eval())
    notes = {
        "what": subject.what,
        "record": subject.record.id,
        "mean": model_input.mean,
        "std": model_input.std,
    }
    program.model.metadata_props["isojepa"] = json.dumps({**notes, "normalized_inside": pixels})
    path = folder / ONNX_FILE
    write_whole(path, lambda temporary: program.save(str(temporary), external_data=False))
    onnx.checker.check_model(str(path))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # silences notes on graph optimization
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    difference = subject.difference(lambda x: session.run(None, {"x": x.numpy()})[0], _TOLERANCE, pixels)
    shape = f"float32 (batch, {', '.join(map(str, model_input.shape))})"
    pixel_note = (", pixels in [0, 1]" if pixels else ", normalized as below") * model_input.pictures
    return Written(
        ONNX_FILE,
        difference,
        f"onnxruntime {onnxruntime.__version__}",
        "onnx",
        f'import onnxruntime\n\nsession = onnxruntime.InferenceSession("{ONNX_FILE}")\n'
        f'({subject.what},) = session.run(None, {{"x": x}})  # x: {shape}{pixel_note}',
        (f"Opset {OPSET}; any batch size; observations of this shape alone.",),
        pixels,
    )


def _program(subject: Subject, answer: Answer) -> Any:
    """The graph, of torch's exporter."""
    example, _ = subject.answers(2)
    exporter = logging.getLogger("torch.onnx")
    level = exporter.level
    exporter.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch to itself
            program = torch.onnx.export(
                answer,
                (example,),
                dynamo=True,
                opset_version=OPSET,
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                input_names=["x"],
                output_names=[subject.what],
                verbose=False,
            )
    except Exception as error:  # anything a custom module, or the exporter, raises
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise ValueError(
            f"torch cannot write this model as ONNX: {reason}; export it --to safetensors"
        ) from error
    finally:
        exporter.setLevel(level)
    onnx_program: Any = program
    for node in onnx_program.model.graph.all_nodes():
        node.metadata_props.clear()
    for value in (*onnx_program.model.graph.inputs, *onnx_program.model.graph.outputs):
        value.metadata_props.clear()
    return onnx_program


def _libraries() -> tuple[Any, Any]:
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401  torch's exporter writes by it
    except ImportError as error:
        raise ImportError(
            f"ONNX needs {error.name}, which cannot be imported ({error}): {install_hint('export')}"
        ) from error
    return onnx, onnxruntime


TIMM_FILE, CONFIG = "model.safetensors", "config.json"
_TIMM_FILE_TOLERANCE = 1e-5


def write_timm(subject: Subject, folder: Path) -> Written:
    """Write the file and see that timm loads it and gives the same features.

    Raises:
        ValueError: the backbone is none of timm's, or features are more than it gives.
        ImportError: timm is not installed.
    """
    backbone = subject.backbone
    other = "export it --to safetensors or --to onnx"
    if subject.what != "features":
        raise ValueError(
            f"a timm file has the features of a backbone and no head, got {subject.what}: {other}"
        )
    name = None if backbone is None else vars(backbone).get("backbone")
    if backbone is None or name is None or not type(backbone.body).__module__.startswith("timm."):
        extra_arguments = type(subject.model).__name__ if name is None else repr(name)
        raise ValueError(f"a timm file needs a backbone of timm by its name, got {extra_arguments}: {other}")
    if not isinstance(backbone.reduction, nn.Identity):
        raise ValueError(
            f"a timm file has no place for the linear map to {backbone.num_features} features that "
            f"encoder.features set: {other}"
        )
    arguments = creation(name, backbone.in_channels, backbone.image_size, backbone.options)
    timm = import_timm()
    path = folder / TIMM_FILE
    save_tensors(path, backbone.body.state_dict(), {"format": "pt"})
    try:
        model = timm.create_model(name, num_classes=0, checkpoint_path=str(path), **arguments)
    except RuntimeError as error:
        raise ValueError(f"timm does not load the weights of {name!r}: {error}") from error
    difference = subject.difference(model.eval(), _TIMM_FILE_TOLERANCE)
    shape = ", ".join(map(str, subject.input.shape))
    write_json(folder / CONFIG, _config(subject, name, arguments))
    extra_arguments = "".join(f", {key}={value!r}" for key, value in arguments.items())
    return Written(
        TIMM_FILE,
        difference,
        f"timm {timm.__version__}",
        "timm",
        f'import timm\n\nmodel = timm.create_model("{name}", num_classes=0{extra_arguments}, '
        f'checkpoint_path="{TIMM_FILE}")\n'
        f"features = model.eval()(x)  # x: (batch, {shape}), normalized as below",
        ('The folder as it is: `timm.create_model("local-dir:FOLDER", pretrained=True)`.',),
    )


def _config(subject: Subject, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What timm reads of a folder, so that it knows the arguments and how pictures are prepared."""
    model_input = subject.input
    normalization = {"mean": model_input.mean, "std": model_input.std} if model_input.mean is not None else {}
    prepared = {"interpolation": "bilinear", "crop_pct": 1.0, "crop_mode": "center"}
    return {
        "architecture": name,
        "num_classes": 0,
        "num_features": subject.dim,
        "model_args": arguments,
        "pretrained_cfg": {"num_classes": 0, "input_size": model_input.shape, **normalization, **prepared},
    }


SAFETENSORS_FILE = "model.safetensors"
_SAFETENSORS_FILE_TOLERANCE = 1e-5


def write_safetensors(subject: Subject, folder: Path) -> Written:
    """Write the file and, where the model can be made again from it, see that it gives the same."""
    path, model_input = folder / SAFETENSORS_FILE, subject.input
    config = subject.record.config
    notes = {
        "what": subject.what,
        "input": {
            "shape": model_input.shape,
            "mean": model_input.mean,
            "std": model_input.std,
            "pictures": model_input.pictures,
        },
        "record": subject.record.id,
        "encoder": config.get("encoder"),
        "views": _views(config.get("world")),
        "version": __version__,
    }
    whole = save_model(path, subject.model, notes)
    shape = (
        f"(batch, {', '.join(map(str, model_input.shape))})" + ", normalized as below" * model_input.pictures
    )
    if not whole:
        return Written(
            SAFETENSORS_FILE,
            0.0,
            "",
            "isojepa",
            "import isojepa as ij\n\n"
            f'model = ij.load("{SAFETENSORS_FILE}", model=MyModel())  # your own module of these layers\n'
            f"h = model(x)  # x: {shape}",
            ("The module cannot be made again from the file: its class or arguments are not known.",),
        )
    trust = to_trust(subject.model)
    loaded, _ = load_model(path, trust=trust)
    difference = subject.difference(Answer(loaded, subject.what).eval(), _SAFETENSORS_FILE_TOLERANCE)
    return Written(
        SAFETENSORS_FILE,
        difference,
        f"isojepa {__version__}",
        "isojepa",
        f"import isojepa as ij\n\n"
        f'model = ij.load("{SAFETENSORS_FILE}"{f", trust={trust}" if trust else ""})\n'
        f"h = ij.encoders.as_model(model).{'features' if subject.what == 'features' else 'embed'}(x)"
        f"  # x: {shape}",
        ('Without isojepa: `safetensors.torch.load_file("model.safetensors")` gives the weights by name.',),
    )


def _views(world: object) -> dict[str, object] | None:
    """The settings of the views of a record of pictures, but for where they are."""
    if not isinstance(world, dict) or world.get("name") != "images":
        return None
    return {key: value for key, value in world.items() if key not in ("name", "data", "split")}
