"""Rows of runs that were never made, for tests of reports."""

from collections.abc import Mapping
from typing import Any

from isojepa.runs import record_path
from isojepa_lab.studies.study import Cell, Row


def made_up_row(cell: Cell, status: str = "done", **scores: Any) -> Row:
    """A finished run of a cell with the given scores; those not given are of a nearly perfect encoder."""
    return Row(
        labels=dict(cell.labels),
        config=cell.config.to_dict(),
        scores={**perfect(), **scores},
        status=status,
        steps=cell.config.training.steps,
        seconds=2.0,
        loss=0.1,
        record=record_path(cell.config).name,
        cpu_seconds=1.5,
    )


def lost_row(cell: Cell, reason: str = "embeddings are not finite") -> Row:
    """A run that diverged and could not be scored."""
    row = made_up_row(cell, status="diverged")
    row.scores.clear()
    row.scores["unscored"] = reason
    return row


def perfect() -> Mapping[str, Any]:
    """Scores near those of the latents themselves, in the plane at correlation 0.95."""
    numbers = {
        "r2": 0.99,
        "r2_z_to_h": 0.99,
        "r2_orthogonal": 0.985,
        "orthogonality_error": 0.05,
        "error": 0.02,
        "bound": 0.06,
        "sharper": 0.04,
        "epsilon": 0.1,
        "delta": 0.001,
    }
    intervals = {f"{name}_interval": [0.9 * value, 1.1 * value] for name, value in numbers.items()}
    return {
        **numbers,
        **intervals,
        "samples": 40_000,
        "r2_x_to_z": 0.1,
        "r2_grid": 0.97,
        "orthogonality_grid": 0.06,
        "alignment": 0.025,
        "sigreg": 1.06,
        "whitening": 0.001,
        "holds": True,
        "refuted": False,
        "smallest_variance": 0.95,
        "mean_variance": 0.97,
    }
