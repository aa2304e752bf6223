"""An ONNX file: the model as a graph of any batch size, checked in onnxruntime.

The graph takes pixels in [0, 1] and normalises them itself, which is one mistake less for whoever uses it;
`normalize=False` leaves that out. It is written by torch's exporter with opset 18, for observations of one
shape; the first axis is free. The exporter notes in whose files each operator came from: that is taken out.
"""

import json
import logging
import warnings
from pathlib import Path
from typing import Any

import torch

from isojepa.exports.subject import Answer, Subject
from isojepa.exports.written import Written
from isojepa.files import write_whole
from isojepa.importing import install_hint
from isojepa.opening import size_of

FILE = "model.onnx"
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
    given, pixels = subject.input, normalize and subject.input.pictures
    if pixels and given.mean is None:
        raise ValueError(
            "mean and std of the pictures are not known, which the graph would normalise by: say where they "
            "are by data, or leave it out by --no-normalize"
        )
    weights = sum(value.numel() * value.element_size() for value in subject.model.state_dict().values())
    if weights > _LARGEST:
        raise ValueError(
            f"an ONNX file holds at most {size_of(_LARGEST)} of weights, got {size_of(weights)}: export it "
            "--to safetensors"
        )
    program = _program(subject, Answer(subject.model, subject.what, given if pixels else None).eval())
    notes = {"what": subject.what, "record": subject.record.id, "mean": given.mean, "std": given.std}
    program.model.metadata_props["isojepa"] = json.dumps({**notes, "normalised_inside": pixels})
    path = folder / FILE
    write_whole(path, lambda temporary: program.save(str(temporary), external_data=False))
    onnx.checker.check_model(str(path))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # what it does to make the graph faster is nobody's news
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    difference = subject.difference(lambda x: session.run(None, {"x": x.numpy()})[0], _TOLERANCE, pixels)
    shape = f"float32 (batch, {', '.join(map(str, given.shape))})"
    told = (", pixels in [0, 1]" if pixels else ", normalised as below") * given.pictures
    return Written(
        FILE,
        difference,
        f"onnxruntime {onnxruntime.__version__}",
        "onnx",
        f'import onnxruntime\n\nsession = onnxruntime.InferenceSession("{FILE}")\n'
        f'({subject.what},) = session.run(None, {{"x": x}})  # x: {shape}{told}',
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
    except Exception as error:  # whatever somebody's module, or the exporter, raises
        told = " ".join(str(error).split())[:300] or type(error).__name__
        raise ValueError(
            f"torch cannot write this model as ONNX: {told}; export it --to safetensors"
        ) from error
    finally:
        exporter.setLevel(level)
    found: Any = program
    for node in found.model.graph.all_nodes():
        node.metadata_props.clear()
    for value in (*found.model.graph.inputs, *found.model.graph.outputs):
        value.metadata_props.clear()
    return found


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
