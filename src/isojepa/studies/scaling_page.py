"""What the scaling runs say, in sentences and tables."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from isojepa.objectives import matched_sigma
from isojepa.studies.findings import COMPARISON, Column, Findings, Picture, Table, Value, compare
from isojepa.studies.measured import cpu_seconds, grouped, mean, measured, told, unscored, values
from isojepa.studies.published import Published, published_scaling
from isojepa.studies.scaling import CONTROL, FREE, LAYERS, RHO
from isojepa.studies.scaling_figure import recovery_figure
from isojepa.studies.settings import OURS, PUBLISHED
from isojepa.studies.study import Row
from isojepa.training.recipe import Recipe

BESIDE = {"SIGReg": "sigreg", "whitening": "vicreg", "InfoNCE": "infonce"}
_FIRST = 64  # dimension from which the cost must grow no faster than the encoder's operations
_MET = ("SIGReg", "whitening")
_DECIDES = 0.05  # spread of R^2 between regularizers from which they decide


def findings(rows: Sequence[Row]) -> Findings:
    """Tables, pictures and sentences of the rows."""
    chosen = best_of(rows)
    cells = grouped(chosen, "settings", "method", "dim")
    tables = [_side_by_side(chosen), _compared(cells), _details(cells), _cost(rows), _information(chosen)]
    picture = Picture(
        "recovery",
        "What a linear map does not read off the embedding, on fresh pairs; means over worlds. Dotted: "
        "published. Grey: what it does not read off the observations themselves.",
        recovery_figure(cells),
    )
    return Findings(
        _summary(rows, cells),
        [table for table in tables if table.rows],
        [picture] if cells else [],
        _notes(rows),
    )


def best_of(rows: Sequence[Row]) -> list[Row]:
    """Of several encoders of one world, the one of lowest training loss; worlds are never chosen between."""
    groups = grouped(rows, "settings", "method", "dim", "world")
    return [min(own, key=_standing) for own in groups.values()]


def _standing(row: Row) -> tuple[bool, float]:
    """What encoders of one world are ordered by: their loss, and those that diverged come last."""
    known = row.loss is not None and math.isfinite(row.loss)
    return row.status == "diverged", row.loss if known and row.loss is not None else math.inf


def beside(method: str, dim: int) -> Published | None:
    """What was published of a method's kind at a dimension."""
    kind = next((known for name, known in BESIDE.items() if method.startswith(name)), None)
    if kind is None or FREE in method:
        return None
    try:
        return published_scaling(kind, dim)
    except ValueError:
        return None


def _side_by_side(rows: Sequence[Row]) -> Table:
    """R^2 by dimension and method, as in the published Table 1."""
    ours = [row for row in rows if row.labels["settings"] == OURS]
    methods = list(dict.fromkeys(str(row.labels["method"]) for row in ours))
    lines: list[dict[str, Value]] = []
    for (dim,), own in sorted(grouped(ours, "dim").items()):
        line: dict[str, Value] = {"dim": dim, "observed": mean(own, "r2_x_to_z")}
        line |= {name: mean([row for row in own if row.labels["method"] == name], "r2") for name in methods}
        lines.append(line)
    columns = [Column("dim", "latents", "d"), Column("observed", "R² x → z", ".3f")]
    columns += [Column(name, name, ".6f") for name in methods]
    note = "Held-out R² of the latents from the embedding, means over worlds, our settings."
    return Table("methods", "Recovery by dimension and method", columns, lines, note)


def _compared(cells: Mapping[tuple[Any, ...], Sequence[Row]]) -> Table:
    lines = []
    for (settings, method, dim), own in _ordered(cells):
        found = values(own, "r2")
        known = beside(str(method), dim)
        if found and known is not None:
            entry = compare(found, known.r2_h_to_z, known.r2_h_to_z_std, known.runs, known.r2_rounding)
            lines.append({"method": method, "settings": settings, "dim": dim, **entry})
    columns = (Column("method", "method"), Column("settings", "settings"), Column("dim", "latents", "d"))
    note = (
        "R² of z from h: ours held out on fresh pairs, the published in-sample on 10,000 points. Whitening "
        "stands beside what was published as VICReg, which is a whitening penalty; every InfoNCE beside "
        "the published one. The mark says where our mean leaves the published spread of two "
        "standard deviations."
    )
    return Table("published", "Ours beside the published", (*columns, *COMPARISON), lines, note)


def _details(cells: Mapping[tuple[Any, ...], Sequence[Row]]) -> Table:
    lines = []
    for (settings, method, dim), own in _ordered(cells):
        known = beside(str(method), dim)
        lines.append(
            {
                "method": method,
                "settings": settings,
                "dim": dim,
                "worlds": len(own),
                "r2_z_to_h": mean(own, "r2_z_to_h"),
                "orthogonality": mean(own, "orthogonality_error"),
                "orthogonality_published": None if known is None else known.orthogonality_error,
                "alignment": mean(own, "alignment"),
                "alignment_published": None if known is None else known.alignment_loss,
                "sigreg": mean(own, "sigreg"),
                "whitening": mean(own, "whitening"),
                "holds": _holds(own),
                "pairs": fmean(pairs_of(row) for row in own) / 1e6,
                "seconds": cpu_seconds(own),
            }
        )
    columns = (
        Column("method", "method"),
        Column("settings", "settings"),
        Column("dim", "latents", "d"),
        Column("worlds", "worlds", "d"),
        Column("r2_z_to_h", "R² z → h", ".6f"),
        Column("orthogonality", "orthogonality error", ".4f"),
        Column("orthogonality_published", "published", ".3f"),
        Column("alignment", "alignment", ".4f"),
        Column("alignment_published", "published", ".4f"),
        Column("sigreg", "SIGReg", ".3f"),
        Column("whitening", "whitening", ".2e"),
        Column("holds", "bound holds"),
        Column("pairs", "million pairs", ".2f"),
        Column("seconds", "CPU seconds", ".0f"),
    )
    note = (
        "On fresh pairs: alignment is the mean squared distance to the centre of the views, "
        f"{(1 - RHO**2) / 2:.4f} for the latents themselves; SIGReg in batches of 256; whitening of 10,240 "
        "pairs, whose own noise is about the number of latents over the number of pairs. CPU "
        "seconds are the processor's own, of one thread."
    )
    return Table("details", "Every number", columns, lines, note)


def _cost(rows: Sequence[Row]) -> Table:
    """Measured time per pair against the encoder's operations, both relative to 64 latents."""
    own = [row for row in rows if row.labels["method"] == "SIGReg" and row.labels["settings"] == OURS]
    spent = {
        int(dim): 1e6 * seconds / fmean(pairs_of(row) for row in group)
        for (dim,), group in sorted(grouped(own, "dim").items())
        if (seconds := cpu_seconds(group)) is not None
    }
    lines: list[dict[str, Value]] = []
    for dim, time in spent.items():
        line: dict[str, Value] = {"dim": dim, "operations": operations(dim) / 1e6, "microseconds": time}
        if _FIRST in spent:
            predicted = spent[_FIRST] * operations(dim) / operations(_FIRST)
            line |= {"predicted": predicted, "ratio": time / predicted}
        lines.append(line)
    columns = (
        Column("dim", "latents", "d"),
        Column("operations", "million operations a pair", ".3f"),
        Column("microseconds", "µs a pair", ".1f"),
        Column("predicted", "µs predicted", ".1f"),
        Column("ratio", "measured / predicted", ".2f"),
    )
    note = (
        "SIGReg, our settings. Operations are the encoder's own, forward and backward, for both views; the "
        f"prediction scales the time at {_FIRST} latents by them. A ratio of at most 1 says that training "
        "grows no faster than the encoder."
    )
    return Table("cost", "Time against operations", columns, lines, note)


def _information(rows: Sequence[Row]) -> Table:
    """Why InfoNCE fails: the width that fits, the information of a pair, and what a batch can show of it."""
    own = [row for row in rows if str(row.labels["method"]).startswith("InfoNCE")]
    batch = max((row.config["training"]["batch"] for row in own), default=0)
    lines: list[dict[str, Value]] = []
    for (dim,), group in sorted(grouped(own, "dim").items()):
        line: dict[str, Value] = {
            "dim": dim,
            "information": -int(dim) / 2 * math.log(1 - RHO**4),
            "shown": math.log(batch),
            "observed": mean(group, "r2_x_to_z"),
        }
        ours = [row for row in group if row.labels["settings"] == OURS]
        line |= {str(name): mean(some, "r2") for (name,), some in grouped(ours, "method").items()}
        lines.append(line)
    names = list(dict.fromkeys(str(row.labels["method"]) for row in own))
    columns = [
        Column("dim", "latents", "d"),
        Column("information", "information of a pair, nats", ".1f"),
        Column("shown", "log of the batch", ".1f"),
        Column("observed", "R² x → z", ".3f"),
        *(Column(name, name, ".4f") for name in names),
    ]
    note = (
        f"The views correlate by {RHO**2:.4f}, and the width that fits is {matched_sigma(RHO**2):.3f} in any "
        "dimension. InfoNCE shows at most the logarithm of the batch; where a pair holds more, every "
        "negative is told apart before the latents are, and the gradient vanishes."
    )
    return Table("information", "Why InfoNCE fails", columns, lines, note)


def operations(dim: int) -> float:
    """Floating-point operations of the encoder for one pair: two views, forward and backward."""
    return 2 * 3 * 2 * LAYERS * (dim / 2) ** 2


def pairs_of(row: Row) -> int:
    """Pairs that a run was trained on."""
    recipe = Recipe(**row.config["training"])
    return sum(recipe.batch_at(step) for step in range(row.steps))


def _ordered(cells: Mapping[tuple[Any, ...], Sequence[Row]]) -> list[tuple[tuple[Any, ...], Sequence[Row]]]:
    methods = list(dict.fromkeys(method for _, method, _ in cells))
    return sorted(cells.items(), key=lambda item: (methods.index(item[0][1]), item[0][0], item[0][2]))


def _holds(rows: Sequence[Row]) -> str | None:
    known = [row.scores["holds"] for row in rows if row.scores.get("holds") is not None]
    return f"{sum(map(bool, known))} of {len(known)}" if known else None


def _summary(rows: Sequence[Row], cells: Mapping[tuple[Any, ...], Sequence[Row]]) -> list[str]:
    texts = [_met(cells, method) for method in _MET]
    texts += [_control(cells), _free(cells), _contrast(cells), _growth(rows)]
    lost = unscored(rows)
    if lost:
        texts.append(f"{len(lost)} runs could not be scored and are in no mean.")
    return [text for text in texts if text] or [told(rows)]


def _met(cells: Mapping[tuple[Any, ...], Sequence[Row]], method: str) -> str:
    found: dict[int, tuple[float, float]] = {}
    for (settings, name, dim), own in cells.items():
        r2, known = mean(own, "r2"), beside(str(name), dim)
        if settings == OURS and name == method and r2 is not None and known is not None:
            found[dim] = (r2, known.r2_h_to_z)
    if not found:
        return ""
    short = {dim: (r2, known) for dim, (r2, known) in found.items() if r2 < known - 5e-7}
    low, high = min(found, key=lambda dim: found[dim]), max(found, key=lambda dim: found[dim])
    text = (
        f"{method[:1].upper()}{method[1:]}: held-out R² between {found[high][0]:.6f} (at {high:,} latents) "
        f"and {found[low][0]:.6f} (at {low:,}), at or above the published in "
        f"{len(found) - len(short)} of {len(found)} dimensions"
    )
    if short:
        worst = ", ".join(
            f"{dim} ({r2:.6f} against {known:.6f})" for dim, (r2, known) in sorted(short.items())
        )
        text += f"; below at {worst}"
    return text + "."


def _control(cells: Mapping[tuple[Any, ...], Sequence[Row]]) -> str:
    pairs, same = [], True
    for (settings, name, dim), own in sorted(cells.items(), key=lambda item: item[0][2]):
        alone, held = mean(own, "r2"), mean(cells.get((OURS, "SIGReg", dim), ()), "r2")
        if settings == OURS and name == CONTROL and alone is not None and held is not None:
            pairs.append(f"{dim}: {1 - alone:.1e} and {1 - held:.1e}")
            same &= 1 - alone < 3 * (1 - held) + 1e-6
    if not pairs:
        return ""
    start = (
        "These encoders preserve volume and cannot collapse, so this experiment, here as published, is no "
        "test of the regularizer."
        if same
        else "These encoders preserve volume and cannot collapse, yet the regularizer helps them."
    )
    return f"{start} 1 − R² without and with it, alignment alone and with SIGReg, at {'; '.join(pairs)}."


def _free(cells: Mapping[tuple[Any, ...], Sequence[Row]]) -> str:
    found = [
        (str(name).removesuffix(FREE).rstrip(", "), dim, r2)
        for (_, name, dim), own in sorted(cells.items(), key=lambda item: (item[0][1], item[0][2]))
        if FREE in str(name) and (r2 := mean(own, "r2")) is not None
    ]
    if not found:
        return ""
    numbers = [r2 for _, _, r2 in found]
    word = "decides" if max(numbers) - min(numbers) > _DECIDES else "decides little too"
    told_each = ", ".join(f"{name} at {dim} latents {r2:.4f}" for name, dim, r2 in found)
    return f"With a linear map at the end of the encoder the regularizer {word}: R² with {told_each}."


def _contrast(cells: Mapping[tuple[Any, ...], Sequence[Row]]) -> str:
    texts = []
    for method in ("InfoNCE, published width", "InfoNCE, matched width", "InfoNCE, sliced"):
        own = {
            dim: r2
            for (settings, name, dim), rows in cells.items()
            if settings == OURS and name == method and (r2 := mean(rows, "r2")) is not None
        }
        good = [dim for dim, r2 in own.items() if r2 > 0.99]
        if own:
            worst = min(own, key=lambda dim: own[dim])
            texts.append(
                f"{method}: above 0.99 at {_listed(good)} latents, lowest {own[worst]:.3f} at {worst}"
            )
    return "; ".join(texts) + "." if texts else ""


def _growth(rows: Sequence[Row]) -> str:
    lines = [
        line for line in _cost(rows).rows if line.get("ratio") is not None and _int(line["dim"]) >= _FIRST
    ]
    if len(lines) < 2:
        return ""
    ratios = ", ".join(f"{line['ratio']:.2f} at {line['dim']}" for line in lines)
    return f"Time per pair over what the encoder's operations predict from {_FIRST} latents: {ratios}."


def _int(value: Value) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _listed(dims: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(dims))) or "no number of"


def _notes(rows: Sequence[Row]) -> list[str]:
    best = sum(len(own) > 1 for own in grouped(rows, "settings", "method", "dim", "world").values())
    choice = (
        f"In {best} worlds several encoders were trained and the one of lowest training loss was taken."
        if best
        else "One encoder was trained per world."
    )
    pairs = {
        settings: fmean(pairs_of(row) for row in rows if row.labels["settings"] == settings)
        for settings in (OURS, PUBLISHED)
        if any(row.labels["settings"] == settings for row in rows)
    }
    seen = ", ".join(f"{name} {count / 1e6:.2f} million" for name, count in pairs.items())
    deviating = [row for row in rows if (r2 := measured(row, "r2")) is not None and r2 < 0]
    notes = [
        told(rows),
        choice,
        f"Pairs seen in training, on average: {seen}." if seen else "",
        "What is left of 1 − R² is the noise of the gradients around an inverse that the encoder can "
        "represent exactly: it grows in proportion to the number of latents over the number of pairs.",
        "Sliced InfoNCE scores subspaces of 4 dimensions that fill the space, at a weight of 0.2 in place of "
        "InfoNCE's 0.5; the rest is alignment, which in these volume-preserving encoders helps by itself.",
        "The published R² is in-sample; with 1,024 latents and 10,000 points that hides a tenth of what "
        "is left.",
    ]
    if deviating:
        notes.append(f"{len(deviating)} runs have a negative held-out R².")
    return [note for note in notes if note]
