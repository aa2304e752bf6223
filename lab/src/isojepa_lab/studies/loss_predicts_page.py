r"""What the runs say of losses and recovery, in sentences, tables and figures.

Beside the losses stands the share of the embedding's variance that can be nonlinear at most, by Theorem 3:

    share = D / tr Cov(h) = delta / (2 rho (1 - rho) tr Cov(h)),      1 - R^2 of h from z <= share.

It needs the correlation of the pairs, but no latents.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from isojepa.config import config_from
from isojepa.statistics.intervals import Interval
from isojepa_lab.studies.bound_page import cell_of
from isojepa_lab.studies.bound_worlds import correlation
from isojepa_lab.studies.findings import Findings, Picture, Table
from isojepa_lab.studies.loss_predicts import SOURCES
from isojepa_lab.studies.loss_predicts_figure import by_correlation, scatters
from isojepa_lab.studies.measured import measured, told, unscored
from isojepa_lab.studies.rank_correlations import interval_text, rank_correlation, rank_table
from isojepa_lab.studies.statements import in_words, judge_lines
from isojepa_lab.studies.study import Row

LOSSES = {
    "total": "total loss",
    "alignment": "alignment",
    "sigreg": "SIGReg",
    "whitening": "whitening",
    "delta": "alignment gap δ",
    "share": "nonlinear share",
}
ZOOM = 0.9
_ALIVE, _ZOOMED, _SIGREG = "without collapsed runs", f"R² > {ZOOM:g}", "trained with SIGReg"
_HELD_OUT = ("alignment", "sigreg", "whitening")  # losses that every run has
_WHITENING = 0.1  # default weight of the objective "whitening"

Run = dict[str, Any]


def findings(rows: Sequence[Row]) -> Findings:
    """Tables, pictures and sentences of the rows."""
    runs = [run for row in rows if (run := _run(row)) is not None]
    lines = _lines(runs)
    pictures = []
    if runs:
        zoomed = [run for run in runs if run["r2"] > ZOOM]
        pictures = [
            Picture(
                "losses",
                "Held-out losses against R², one point per trained encoder"
                + (f", zoomed to R² > {ZOOM:g} as published." if zoomed else "."),
                scatters(zoomed or runs),
            ),
            Picture(
                "correlation",
                "All runs. Left: alignment orders encoders of one correlation (one color), but not across "
                "them. Right: the share of variance that can be nonlinear at most, by Theorem 3, which is "
                "alignment with the correlation and the scale taken out.",
                by_correlation(runs),
            ),
        ]
    return Findings(_summary(lines), [_table(lines)] if lines else [], pictures, _notes(rows))


def _run(row: Row) -> Run | None:
    """The numbers of a run; None without an R^2."""
    r2 = measured(row, "r2")
    if r2 is None:
        return None
    config = config_from(row.config)
    rho = correlation(config.world)
    run: Run = {
        "r2": r2,
        "study": str(row.labels.get("study", "")),
        "cell": cell_of(row),
        "rho": rho,
        "dim": config.context.dim,
        "objective": config.objective.name,
        "collapsed": row.status == "collapsed",
        **{name: measured(row, name) for name in ("alignment", "sigreg", "whitening", "delta")},
        "total": None,
        "share": None,
    }
    regularizer = {"lejepa": "sigreg", "whitening": "whitening"}.get(config.objective.name)
    if regularizer is not None and run[regularizer] is not None and run["alignment"] is not None:
        weight = float(row.config["objective"]["weight"])
        run["total"] = weight * run[regularizer] + (1 - weight) * run["alignment"]
    variance = measured(row, "mean_variance")
    if rho is not None and run["delta"] is not None and variance:
        run["share"] = run["delta"] / (2 * rho * (1 - rho) * variance * (config.context.embedding or 1))
    return run


def _lines(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Spearman's correlation of R^2 with every loss, over several sets of runs."""
    alive = [run for run in runs if not run["collapsed"]]
    zoomed = [run for run in runs if run["r2"] > ZOOM]
    sigreg = [run for run in runs if run["objective"] == "lejepa"]
    subsets: list[tuple[str, Sequence[Run], Callable[[Run], Any] | None]] = []
    for name, chosen in (("all", runs), (_ALIVE, alive), (_ZOOMED, zoomed), (_SIGREG, sigreg)):
        subsets += [(name, chosen, None), (f"{name}, within one study, ρ and dimension", chosen, _world)]
    subsets += [(f"{_SIGREG}, {_ZOOMED}", [run for run in sigreg if run["r2"] > ZOOM], None)]
    plane = [run for run in zoomed if run["study"] != "scaling"]
    subsets += [(f"{_ZOOMED}, without scaling", plane, None)]
    for name in dict.fromkeys(run["study"] for run in runs):
        subset = [run for run in runs if run["study"] == name]
        subsets += [(name, subset, None), (f"{name}, within one ρ and dimension", subset, _world)]
        subsets += [(f"{name}, {_ALIVE}", [run for run in subset if not run["collapsed"]], None)]
        subsets += [(f"{name}, {_ZOOMED}", [run for run in zoomed if run["study"] == name], None)]
        both = [run for run in sigreg if run["study"] == name and run["r2"] > ZOOM]
        subsets += [(f"{name}, {_SIGREG}, {_ZOOMED}", both, None)]
    lines = []
    for name, chosen, stratum in subsets:
        line: dict[str, Any] = {"subset": name, "runs": len(chosen)}
        for key in LOSSES:
            subset = [run for run in chosen if run[key] is not None]
            line[key] = rank_correlation(
                [run[key] for run in subset],
                [run["r2"] for run in subset],
                [run["cell"] for run in subset],
                None if stratum is None else [stratum(run) for run in subset],
            )
            line[f"{key}_runs"] = len(subset)
        lines.append(line)
    return [line for line in lines if any(line[key] is not None for key in LOSSES)]


def _world(run: Run) -> tuple[Any, ...]:
    return run["study"], run["rho"], run["dim"]


def _table(lines: Sequence[Mapping[str, Any]]) -> Table:
    note = (
        "Spearman's rank correlation with R² of z from h; −1 is a perfect predictor. Intervals leave out "
        "whole cells, so that seeds of one cell do not count as independent. Total loss: weight × SIGReg (or "
        "whitening) + (1 − weight) × alignment, for runs trained with that. Nonlinear share: δ / (2ρ(1 − ρ) "
        "tr Cov(h))."
    )
    return rank_table("predictors", "How well each loss orders the runs", lines, LOSSES, note)


def _summary(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    named = {line["subset"]: line for line in lines}
    whole, zoom = named.get("all"), named.get(_ZOOMED)
    if whole is None:
        return ["Too few runs are there yet to correlate anything."]
    texts = [
        _by_experiment(named),
        _strongest(whole, "Over all runs"),
        _strongest(named.get(_ALIVE), "Without collapsed runs"),
        _strongest(zoom, f"Among runs of R² > {ZOOM:g}, the published zoom,"),
        _strongest(named.get(f"{_ZOOMED}, without scaling"), f"Among runs of R² > {ZOOM:g} without scaling"),
        _strongest(named.get(_SIGREG), "Over the runs trained with SIGReg"),
    ]
    within = named.get("all, within one study, ρ and dimension")
    if within is not None and whole["alignment"] is not None and within["alignment"] is not None:
        texts.append(
            "Alignment depends on the correlation of the pairs whatever was learned, and it falls when the "
            "embedding shrinks: across all runs its rank correlation with R² is "
            f"{_told(whole['alignment'])}, among runs of one study, ρ and dimension "
            f"{_told(within['alignment'])}. " + _strongest(within, "There")
        )
    if whole["share"] is not None and whole["alignment"] is not None:
        share = whole["share"]
        others = [whole[key].estimate for key in LOSSES if key != "share" and whole[key] is not None]
        best = share.estimate < min(others) and share.high < 0
        texts.append(
            "The nonlinear share of Theorem 3, alignment with correlation and scale taken out, has "
            f"{_told(share)} across all runs"
            + (": it is the one to compare encoders of different worlds by." if best else ".")
        )
    return [text for text in texts if text]


def _by_experiment(named: Mapping[str, Mapping[str, Any]]) -> str:
    """Whether alignment orders the converged runs of each experiment best, as published of all of them."""
    lines = [
        {"study": study} | {key: line[key].estimate for key in _HELD_OUT}
        for study in SOURCES
        if (line := named.get(f"{study}, {_ZOOMED}")) and all(line[key] is not None for key in _HELD_OUT)
    ]
    if not lines:
        return ""
    text = "{study} (alignment {alignment:+.2f}, SIGReg {sigreg:+.2f}, whitening {whitening:+.2f})"
    judgement = judge_lines(lines, lambda line: line["alignment"] == min(map(line.get, _HELD_OUT)), text)
    claim = f"In each experiment alignment is the loss that orders the runs of R² > {ZOOM:g} best"
    return in_words(claim, judgement)


def _strongest(line: Mapping[str, Any] | None, where: str) -> str:
    """Which of the losses orders the runs best; Theorem 3's quantities are kept separate."""
    if line is None:
        return ""
    correlations = {
        key: line[key] for key in ("total", "alignment", "sigreg", "whitening") if line[key] is not None
    }
    most = max((line[f"{key}_runs"] for key in correlations), default=0)
    # a loss that only some of the runs have is listed, but not compared with those that all have
    order = sorted(
        (key for key in correlations if line[f"{key}_runs"] == most),
        key=lambda key: correlations[key].estimate,
    )
    if not order:
        return ""
    rest = [f"{LOSSES[key]} {correlations[key].estimate:+.2f}" for key in order[1:]]
    rest += [
        f"{LOSSES[key]} {correlations[key].estimate:+.2f} over the {line[f'{key}_runs']} runs that have one"
        for key in correlations
        if key not in order
    ]
    text = f"{where} {LOSSES[order[0]]} is the loss that orders R² best, with {_told(correlations[order[0]])}"
    return f"{text}; {', '.join(rest)}." if rest else f"{text}."


def _told(interval: Interval) -> str:
    ends = interval_text(interval)
    return f"{interval.estimate:+.2f}" + (f" [{ends}]" if ends else "")


def _notes(rows: Sequence[Row]) -> list[str]:
    notes = [
        told(rows),
        "Losses are held out: alignment (mean squared distance to the center of the views), SIGReg in "
        "batches of 256, and whitening are measured alike of every encoder, whatever it was trained with. "
        "The published scatter pools runs at several correlations, and its total is alignment + weight × "
        "SIGReg.",
        "VICReg and InfoNCE leave the mean of the embedding free. SIGReg and whitening count it, R² does "
        "not, so these two losses say little of such encoders.",
        "Total losses of runs with different weights are different functions: their order across the grid is "
        "partly that of the weights.",
    ]
    lost = unscored(rows)
    if lost:
        notes.append(f"{len(lost)} runs could not be scored and are left out.")
    return notes
