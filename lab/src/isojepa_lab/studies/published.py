"""Published numbers that studies stand beside, as data: one CSV each in the folder `published`.

Numbers are as they were printed, with their standard deviation over seeds where one was. An empty cell is a
number that was not printed.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from isojepa.validation import choose

Value = str | int | float | None

_KLINDT = "Klindt, LeCun & Balestriero (2026), When Does LeJEPA Learn a World Model?"
_LEJEPA = "Balestriero & LeCun (2025), LeJEPA"
_SOCIAL = "Zhang et al., Social-JEPA"
SOURCES = {
    "identifiability_scaling": f"{_KLINDT}, Appendix H, the three tables of scaling; 5 seeds",
    "identifiability_reacher_ou": f"{_KLINDT}, table of the Reacher, OU latents; best of 4 weights, 3 seeds",
    "identifiability_reacher_trajectory": f"{_KLINDT}, table of the Reacher, trajectories; as above",
    "lejepa_epps_pulley_ablation": f"{_LEJEPA}, Table 1a: ViT-L/14, ImageNet-1k, 100 epochs, top-1 in %",
    "lejepa_views_batch_ablation": f"{_LEJEPA}, Table 1b and 1c: views and batch, as Table 1a",
    "lejepa_lambda_views_inet100_resnet50": f"{_LEJEPA}, Table 7: ResNet-50, ImageNet-100, top-1 in %",
    "lejepa_sigreg_timing_v100": f"{_LEJEPA}, Table 6: one SIGReg on a V100, 10 runs",
    "social_cross_view": f"{_SOCIAL}, Table 1",
    "social_baselines": f"{_SOCIAL}, Table 2",
    "social_stress": f"{_SOCIAL}, Tables 4 to 6",
    "social_nos_at_k": f"{_SOCIAL}, Table 8",
    "social_downstream": f"{_SOCIAL}, Table 9",
}


@dataclass(frozen=True)
class Published:
    """What was published of one objective at one dimension: mean and deviation over 5 seeds.

    Up to 32 latents each seed is the best of three encoders by its loss.

    Attributes:
        method: "sigreg", "vicreg" (a whitening penalty) or "infonce".
        dim: number of latents.
        r2_x_to_z: R^2 of the latents from the observations themselves; the same world for all methods.
        r2_h_to_z: R^2 of the latents from the embedding, in-sample on 10,000 points.
        orthogonality_error: |Q^T Q - I|_F / sqrt(dim) of the linear map from z to h.
        alignment_loss, regularizer_loss: at the end of training.
        runs: seeds.
    """

    method: str
    dim: int
    r2_x_to_z: float
    r2_x_to_z_std: float
    r2_h_to_z: float
    r2_h_to_z_std: float
    orthogonality_error: float
    alignment_loss: float
    regularizer_loss: float
    runs: int = 5

    r2_rounding = 5e-7
    """Half a unit of the last printed digit of r2_h_to_z: more than its deviation in few dimensions."""


def published_scaling(method: str, dim: int) -> Published:
    """The published figures of the scaling experiment.

    Args:
        method: "sigreg", "vicreg" or "infonce".
        dim: number of latents, a power of two from 2 to 1,024.

    Raises:
        ValueError: an unknown method, or a dimension that was not published.

    Example:
        >>> published_scaling("sigreg", 1024).r2_h_to_z
        0.999561
    """
    by_method: dict[str, dict[int, Published]] = {}
    for row in read_published("identifiability_scaling"):
        entry = Published(**row)  # type: ignore[arg-type]
        by_method.setdefault(entry.method, {})[entry.dim] = entry
    by_dim = choose("method", method, by_method)
    if dim not in by_dim:
        raise ValueError(f"dim must be one of {', '.join(map(str, by_dim))}, got {dim}")
    return by_dim[dim]


def read_published(name: str) -> list[dict[str, Value]]:
    """The rows of a published table; a column holds integers, numbers or text, None where a cell is empty.

    Args:
        name: one of `SOURCES`.

    Raises:
        ValueError: there is no such table; the message lists those there are.
    """
    choose("published table", name, SOURCES)
    return [dict(row) for row in _table(name)]


@cache
def _table(name: str) -> tuple[dict[str, Value], ...]:
    text = files("isojepa_lab.studies").joinpath("published", f"{name}.csv").read_text(encoding="utf-8")
    header, *lines = csv.reader(text.splitlines())
    columns = [_typed(column) for column in zip(*lines, strict=True)]
    return tuple(dict(zip(header, row, strict=True)) for row in zip(*columns, strict=True))


def _typed(cells: tuple[str, ...]) -> list[Value]:
    """The cells of a column as integers, else as floats, else as they are."""
    for kind in (int, float, str):
        try:
            return [kind(cell) if cell else None for cell in cells]
        except ValueError:
            continue
    raise AssertionError("text is always text")
