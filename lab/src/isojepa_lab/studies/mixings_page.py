"""What the mixings' runs say, in sentences and tables."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from isojepa_lab.studies.findings import Column, Findings, Picture, Table
from isojepa_lab.studies.measured import cpu_seconds, grouped, mean, measured, spread, told, unscored
from isojepa_lab.studies.mixings import RELEASED
from isojepa_lab.studies.mixings_figure import losses_of_recovery, planes
from isojepa_lab.studies.settings import OURS, PUBLISHED
from isojepa_lab.studies.study import Row

_ROTATION, _PARTIAL = 0.98, 0.9  # R^2 by a rotation from which a rotation is spoken of; R^2 of a failure


def findings(rows: Sequence[Row]) -> Findings:
    """Tables, pictures and sentences of the rows."""
    cells = _cells(rows)
    pictures = [
        Picture(
            "recovery",
            "What a linear map does not read off the embedding, one point per seed, on fresh pairs. Hollow: "
            "the published settings. The bar is what it does not read off the observations themselves.",
            losses_of_recovery(rows),
        )
    ]
    selected = planes([row for row in rows if row.labels.get("settings") == OURS])
    if selected is not None:
        pictures.append(
            Picture(
                "planes",
                "The same points as latents z, observations x and embeddings, turned onto the latents by the "
                "best rotation; colored by the latents' angle and radius. The seed of median R².",
                selected,
            )
        )
    return Findings(_summary(rows, cells), [_table(cells)] if cells else [], pictures, _notes(rows))


def _cells(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One mapping per settings, mixing and objective: means over seeds."""
    cells = []
    for (settings, mixing, objective), group in grouped(rows, "settings", "mixing", "objective").items():
        holds = [row.scores.get("holds") for row in group if row.scores.get("holds") is not None]
        cells.append(
            {
                "settings": settings,
                "mixing": mixing,
                "objective": objective,
                "runs": len(group),
                "r2": mean(group, "r2"),
                "r2_std": spread(group, "r2"),
                "r2_lowest": min(
                    (v for row in group if (v := measured(row, "r2")) is not None), default=None
                ),
                "one_latent": any(map(_has_one_latent, group)),
                "r2_orthogonal": mean(group, "r2_orthogonal"),
                "orthogonality": mean(group, "orthogonality_error"),
                "error": mean(group, "error"),
                "bound": mean(group, "bound"),
                "holds": f"{sum(map(bool, holds))} of {len(holds)}" if holds else None,
                "r2_observed": mean(group, "r2_x_to_z"),
                "r2_grid": mean(group, "r2_grid"),
                "seconds": cpu_seconds(group),
            }
        )
    return cells


def _has_one_latent(row: Row) -> bool:
    """Whether a run has one latent of two and nothing of the other."""
    each = row.scores.get("r2_each") or [1.0]
    one_alone: bool = max(each) > _PARTIAL and min(each) < 1 - _PARTIAL
    return one_alone


def _table(cells: Sequence[dict[str, Any]]) -> Table:
    columns = (
        Column("settings", "settings"),
        Column("mixing", "mixing"),
        Column("objective", "objective"),
        Column("runs", "runs", "d"),
        Column("r2", "R² h → z", ".5f"),
        Column("r2_std", "± std", ".1e"),
        Column("r2_lowest", "lowest", ".5f"),
        Column("r2_orthogonal", "R² by rotation", ".5f"),
        Column("orthogonality", "orthogonality error", ".4f"),
        Column("error", "Procrustes error", ".5f"),
        Column("bound", "bound", ".4f"),
        Column("holds", "bound holds"),
        Column("r2_observed", "R² x → z", ".4f"),
        Column("r2_grid", "R² on the grid of points", ".5f"),
        Column("seconds", "CPU seconds", ".0f"),
    )
    note = (
        "Means over seeds, held out on fresh pairs; R² on the grid of points is the published score, "
        "in-sample on a grid over [−3, 3]². R² x → z is what a linear map reads off the observations "
        "themselves."
    )
    return Table("recovery", "Recovery of the latents", columns, cells, note)


def _summary(rows: Sequence[Row], cells: Sequence[dict[str, Any]]) -> list[str]:
    texts = []
    ours = [cell for cell in cells if cell["settings"] == OURS and cell["r2"] is not None]
    if ours:
        texts += [_answer(ours), _best(ours), _failures(ours)]
    published = [cell for cell in cells if cell["settings"] == PUBLISHED and cell["r2"] is not None]
    texts.append(_beside(ours, published))
    lost = unscored(rows)
    if lost:
        texts.append(f"{len(lost)} runs could not be scored and are in no mean.")
    return [text for text in texts if text] or ["No run is there yet."]


def _answer(ours: Sequence[dict[str, Any]]) -> str:
    turned = [
        cell for cell in ours if cell["r2_orthogonal"] is not None and cell["r2_orthogonal"] >= _ROTATION
    ]
    parts = []
    for objective in dict.fromkeys(cell["objective"] for cell in ours):
        subset = [cell["r2"] for cell in ours if cell["objective"] == objective]
        parts.append(f"{objective} {min(subset):.4f} to {max(subset):.4f}")
    count = len({cell["mixing"] for cell in ours})
    text = f"Held-out R² over {count} mixing{'s' * (count != 1)}, means over seeds: {'; '.join(parts)}."
    observed = [cell["r2_observed"] for cell in ours if cell["r2_observed"] is not None]
    if observed:
        text += f" The observations themselves give {min(observed):.3f} to {max(observed):.3f}."
    return (
        f"{text} In {len(turned)} of {len(ours)} pairs of mixing and objective the embedding is on average a "
        f"rotation of the latents to within {1 - _ROTATION:.0%} of their variance."
    )


def _best(ours: Sequence[dict[str, Any]]) -> str:
    """Which objective gets furthest on each mixing."""
    texts = []
    for mixing in dict.fromkeys(cell["mixing"] for cell in ours):
        ranked = sorted((cell for cell in ours if cell["mixing"] == mixing), key=lambda cell: -cell["r2"])
        texts.append(f"{mixing}: " + ", ".join(f"{cell['objective']} {cell['r2']:.4f}" for cell in ranked))
    return f"R² by mixing, best first. {'; '.join(texts)}."


def _failures(ours: Sequence[dict[str, Any]]) -> str:
    failed = [cell for cell in ours if cell["r2_lowest"] < _PARTIAL]
    if not failed:
        return f"No run of our settings falls below R² {_PARTIAL:g}."
    names = ", ".join(f"{cell['objective']} on {cell['mixing']} ({cell['r2_lowest']:.3f})" for cell in failed)
    text = f"Some runs fall below R² {_PARTIAL:g}: {names}; the lowest seed in brackets."
    if any(cell["one_latent"] for cell in failed):
        text += (
            " R² near 0.5 is one latent of the two; the other dimension then holds a function of the same "
            "one, such as its square, which is white as well but less aligned."
        )
    return text


def _beside(ours: Sequence[dict[str, Any]], published: Sequence[dict[str, Any]]) -> str:
    mine = {(cell["mixing"], cell["objective"]): cell for cell in ours}
    pairs = [(mine[key], cell) for cell in published if (key := (cell["mixing"], cell["objective"])) in mine]
    if not pairs:
        return ""
    better = sum(first["r2"] > other["r2"] for first, other in pairs)
    turned = sum((first["r2_orthogonal"] or 0) > (other["r2_orthogonal"] or 0) for first, other in pairs)
    text = (
        "Beside the published settings on the same mixings and objectives, ours have the higher R² in "
        f"{better} of {len(pairs)} cases and the higher R² by a rotation in {turned}"
    )
    timed = [
        (first["seconds"], other["seconds"])
        for first, other in pairs
        if first["seconds"] and other["seconds"]
    ]
    if len(timed) == len(pairs):
        faster = fmean(other for _, other in timed) / fmean(first for first, _ in timed)
        how = f"{faster:.1f} times less" if faster > 1 else f"{1 / faster:.1f} times the"
        text += f", and take {how} processor time"
    return text + "."


def _notes(rows: Sequence[Row]) -> list[str]:
    return [
        told(rows),
        "Ours: pairs of correlation 0.95, an MLP of width 64 and 6 layers, a batch that grows "
        "from 256 (to 2,048; to 512 for InfoNCE, whose cost grows with its square), learning rate 2e-2. "
        "Published: noisy copies of ρ 0.95, which correlate by 0.9025, width 256, 4 layers, 20,000 steps of "
        "256, learning rate 3e-3. The published coupling was unmixed by a matched coupling encoder; here the "
        "MLP does it.",
        "What is published as VICReg is a whitening penalty and stands beside our whitening. VICReg is the "
        "variance and covariance terms of its own authors, with weights that were chosen on the spiral; "
        f"{RELEASED!r} has those of its released code, 25 : 25 : 1.",
        "InfoNCE is published with the kernel exp(−d²/2), by its losses, which does not fit the pairs; ours "
        "is matched to them: exp(−d²/2σ²) with σ² = (1 − ρ²)/ρ.",
    ]
