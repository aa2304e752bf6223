"""A safetensors file that has the weights, how the model is made again, and what it must be fed."""

from pathlib import Path

from isojepa.exports.subject import Answer, Subject
from isojepa.exports.written import Written
from isojepa.training.model_files import load_model, save_model
from isojepa.training.rebuilding import to_trust
from isojepa.version import __version__

FILE = "model.safetensors"
_TOLERANCE = 1e-5


def write_safetensors(subject: Subject, folder: Path) -> Written:
    """Write the file and, where the model can be made again from it, see that it gives the same."""
    path, given = folder / FILE, subject.input
    config = subject.record.config
    notes = {
        "what": subject.what,
        "input": {"shape": given.shape, "mean": given.mean, "std": given.std, "pictures": given.pictures},
        "record": subject.record.id,
        "encoder": config.get("encoder"),
        "views": _views(config.get("world")),
        "version": __version__,
    }
    whole = save_model(path, subject.model, notes)
    shape = f"(batch, {', '.join(map(str, given.shape))})" + ", normalised as below" * given.pictures
    if not whole:
        return Written(
            FILE,
            0.0,
            "",
            "isojepa",
            "import isojepa as ij\n\n"
            f'model = ij.load("{FILE}", model=MyModel())  # your own module of these layers\n'
            f"h = model(x)  # x: {shape}",
            ("The module cannot be made again from the file: its class or arguments are not known.",),
        )
    trust = to_trust(subject.model)
    loaded, _ = load_model(path, trust=trust)
    difference = subject.difference(Answer(loaded, subject.what).eval(), _TOLERANCE)
    return Written(
        FILE,
        difference,
        f"isojepa {__version__}",
        "isojepa",
        f'import isojepa as ij\n\nmodel = ij.load("{FILE}"{f", trust={trust}" if trust else ""})\n'
        f"h = ij.encoders.as_model(model).{'features' if subject.what == 'features' else 'embed'}(x)"
        f"  # x: {shape}",
        ('Without isojepa: `safetensors.torch.load_file("model.safetensors")` gives the weights by name.',),
    )


def _views(world: object) -> dict[str, object] | None:
    """The settings of the views of a record of pictures, but for where they are."""
    if not isinstance(world, dict) or world.get("name") != "images":
        return None
    return {key: value for key, value in world.items() if key not in ("name", "data", "split")}
