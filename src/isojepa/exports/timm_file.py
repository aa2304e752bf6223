"""A file that `timm.create_model(NAME, checkpoint_path=FILE, ...)` loads: weights under timm's names.

timm loads such a file strictly and converts nothing: the model must be made with the arguments that it was
trained with, position embeddings for the same size of pictures among them. The lines that load it have them.
"""

from pathlib import Path
from typing import Any

from torch import nn

from isojepa.encoders.timm_models import creation
from isojepa.exports.subject import Subject
from isojepa.exports.written import Written
from isojepa.files import write_json
from isojepa.training.tensors import save_tensors
from isojepa.vision import import_timm

FILE, CONFIG = "model.safetensors", "config.json"
_TOLERANCE = 1e-5


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
        told = type(subject.model).__name__ if name is None else repr(name)
        raise ValueError(f"a timm file needs a backbone of timm by its name, got {told}: {other}")
    if not isinstance(backbone.reduction, nn.Identity):
        raise ValueError(
            f"a timm file has no place for the linear map to {backbone.num_features} features that "
            f"encoder.features set: {other}"
        )
    arguments = creation(name, backbone.in_channels, backbone.image_size, backbone.options)
    timm = import_timm()
    path = folder / FILE
    save_tensors(path, backbone.body.state_dict(), {"format": "pt"})
    try:
        model = timm.create_model(name, num_classes=0, checkpoint_path=str(path), **arguments)
    except RuntimeError as error:
        raise ValueError(f"timm does not load the weights of {name!r}: {error}") from error
    difference = subject.difference(model.eval(), _TOLERANCE)
    shape = ", ".join(map(str, subject.input.shape))
    write_json(folder / CONFIG, _config(subject, name, arguments))
    told = "".join(f", {key}={value!r}" for key, value in arguments.items())
    return Written(
        FILE,
        difference,
        f"timm {timm.__version__}",
        "timm",
        f'import timm\n\nmodel = timm.create_model("{name}", num_classes=0{told}, checkpoint_path="{FILE}")\n'
        f"features = model.eval()(x)  # x: (batch, {shape}), normalised as below",
        ('The folder as it is: `timm.create_model("local-dir:FOLDER", pretrained=True)`.',),
    )


def _config(subject: Subject, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What timm reads of a folder, so that it knows the arguments and how pictures are prepared."""
    given = subject.input
    known = {"mean": given.mean, "std": given.std} if given.mean is not None else {}
    prepared = {"interpolation": "bilinear", "crop_pct": 1.0, "crop_mode": "center"}
    return {
        "architecture": name,
        "num_classes": 0,
        "num_features": subject.dim,
        "model_args": arguments,
        "pretrained_cfg": {"num_classes": 0, "input_size": given.shape, **known, **prepared},
    }
