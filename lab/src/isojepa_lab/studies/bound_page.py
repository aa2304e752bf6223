"""What the runs say of Theorem 3, in sentences, tables and figures."""

import json
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from isojepa.config import config_from
from isojepa_lab.studies.bound_figure import decomposition, error_against_bound
from isojepa_lab.studies.bound_worlds import correlation, world_of
from isojepa_lab.studies.findings import Column, Findings, Picture, Table, Value
from isojepa_lab.studies.measured import measured, told
from isojepa_lab.studies.rank_correlations import rank_correlation, rank_table
from isojepa_lab.studies.statements import in_words, judge_lines
from isojepa_lab.studies.study import Row

ALL = "all"
_NEAR_ZERO = 1e-4  # error per latent that finite samples give and take
_NAMED = 12  # runs without a score that are named one by one
_SOURCES: dict[str, str] = {"epsilon": "ε", "delta": "δ", "d": "D = δ / 2ρ(1 − ρ)", "bound": "bound"}

Run = dict[str, Any]


def findings(rows: Sequence[Row]) -> Findings:
    """Tables, pictures and sentences of the rows."""
    runs = [run for row in rows if (run := _run(row)) is not None]
    tables, pictures = [], []
    if runs:
        counts, ranks = _counts(rows, runs), _ranks(runs)
        tables = [_count_table(counts), _rank_table(ranks)]
        pictures = _pictures(runs)
        summary = _summary(counts[-1], runs, ranks)
    else:
        summary = ["No run has both an error and a bound yet."]
    return Findings(summary, tables, pictures, _notes(rows, runs))


def _run(row: Row) -> Run | None:
    """The numbers of a run that has an error and a bound."""
    names = ("error", "bound", "sharper", "epsilon", "delta")
    numbers = {name: measured(row, name) for name in names}
    if any(value is None for value in numbers.values()):
        return None
    rho = correlation(world_of(row))
    if rho is None:
        return None
    ends = {f"{name}_ends": row.scores.get(f"{name}_interval") for name in names}
    delta = numbers["delta"]
    assert delta is not None
    return {
        **numbers,
        **ends,
        "d": delta / (2 * rho * (1 - rho)),
        "study": str(row.labels.get("study", "")),
        "rho": rho,
        "dim": config_from(row.config).context.dim,
        "cell": cell_of(row),
        "refuted": bool(row.scores.get("refuted")),
        "holds": row.scores.get("holds"),
        "status": row.status,
    }


def cell_of(row: Row) -> str:
    """What a run shares with those that differ in the seed alone, or in that of the mixing."""
    config = {key: value for key, value in row.config.items() if key != "seed"}
    world = {key: value for key, value in config["world"].items() if key != "mixing_seed"}
    return json.dumps({**config, "world": world}, sort_keys=True)


def _holds(run: Run, name: str) -> bool:
    """Whether the error lies within a bound, up to both intervals; a refuted bound says nothing."""
    if run["refuted"]:
        return False
    error, bound = run["error_ends"], run[f"{name}_ends"]
    low = run["error"] if error is None else error[0]
    high = run[name] if bound is None else bound[1]
    return bool(low <= high)


def _counts(rows: Sequence[Row], runs: Sequence[Run]) -> list[dict[str, Value]]:
    """One mapping per study, and one for all."""
    studies = list(dict.fromkeys(str(row.labels.get("study", "")) for row in rows))
    count_rows = []
    for name in [*studies, ALL]:
        total = [row for row in rows if name in (ALL, str(row.labels.get("study", "")))]
        subset = [run for run in runs if name in (ALL, run["study"])]
        count: dict[str, Value] = {
            "study": name,
            "runs": len(total),
            "bounded": len(subset),
            "holds": sum(_holds(run, "bound") for run in subset),
            "plain": sum(run["error"] <= run["bound"] and not run["refuted"] for run in subset),
            "sharper_holds": sum(_holds(run, "sharper") for run in subset),
            "refuted": sum(run["refuted"] for run in subset),
        }
        for key in ("bound", "sharper"):
            ratios = [run[key] / run["error"] for run in subset if run["error"] > 0]
            count[f"{key}_least"] = min(ratios, default=None)
            count[f"{key}_median"] = median(ratios) if ratios else None
        count_rows.append(count)
    return count_rows


def _count_table(counts: Sequence[Mapping[str, Value]]) -> Table:
    columns = (
        Column("study", "study"),
        Column("runs", "runs", "d"),
        Column("bounded", "with a bound", "d"),
        Column("holds", "holds", "d"),
        Column("plain", "holds by the estimates alone", "d"),
        Column("sharper_holds", "sharper holds", "d"),
        Column("refuted", "refuted", "d"),
        Column("bound_least", "bound / error, least", ".3g"),
        Column("bound_median", "median", ".3g"),
        Column("sharper_least", "sharper / error, least", ".3g"),
        Column("sharper_median", "median", ".3g"),
    )
    note = (
        "Holds: the lower end of the error's 95 % interval is at most the upper end of the bound's. By the "
        "estimates alone: without intervals, where finite samples may push a near-zero bound below a "
        "near-zero error. Refuted: δ lies below 0 beyond chance, which cannot be in a Gaussian world; such a "
        "bound says nothing and counts nowhere else."
    )
    return Table("counts", "Does it hold, and how tightly?", columns, counts, note)


def _ranks(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Spearman's correlation of the error with each source, with and without collapsed runs, and by study."""
    alive = [run for run in runs if run["status"] != "collapsed"]
    subsets = [
        (study, name, [run for run in chosen if study in (ALL, run["study"])], within)
        for study in (ALL, *dict.fromkeys(run["study"] for run in runs))
        for name, chosen in ((study, runs), (f"{study}, without collapsed runs", alive))
        for within in ((False, True) if study == ALL else (False,))
    ]
    rank_rows = []
    for study, name, subset_rows, within in subsets:
        subset = f"{name}, within one study, ρ and dimension" if within else name
        line: dict[str, Any] = {"subset": subset, "study": study, "runs": len(subset_rows)}
        for key in _SOURCES:
            line[key] = rank_correlation(
                [run[key] for run in subset_rows],
                [run["error"] for run in subset_rows],
                [run["cell"] for run in subset_rows],
                [(run["study"], run["rho"], run["dim"]) for run in subset_rows] if within else None,
            )
        rank_rows.append(line)
    return rank_rows


def _rank_table(ranks: Sequence[Mapping[str, Any]]) -> Table:
    note = (
        "Spearman's rank correlation with the Procrustes error. Intervals leave out whole cells, so that "
        "seeds of one cell do not count as independent. A collapsed embedding has a δ near 0 and the whole "
        "error by construction."
    )
    return rank_table("sources", "What the error follows", ranks, _SOURCES, note)


def _pictures(runs: Sequence[Run]) -> list[Picture]:
    return [
        Picture(
            "error",
            "Every run with a bound: the measured Procrustes error against Theorem 3's bound, left, and "
            "against the sharper one, right, with 95 % intervals. Points below the line obey it. Errors "
            "below 1e-6 are drawn there; crosses are runs that ended as collapsed.",
            error_against_bound(runs),
        ),
        Picture(
            "sources",
            "The error against its two sources. Values of δ and D at or below 0, which finite samples give, "
            "are drawn at the left edge.",
            decomposition(runs),
        ),
    ]


def _summary(count: Mapping[str, Any], runs: Sequence[Run], ranks: Sequence[Mapping[str, Any]]) -> list[str]:
    outside = count["bounded"] - count["holds"] - count["refuted"]
    first = (
        f"The bound holds on {count['holds']} of {count['bounded']} runs that have one"
        + (", within the intervals" if outside == 0 else f"; {outside} lie outside the intervals")
        + f". By the estimates alone, without intervals, it holds on {count['plain']}. It is refuted on "
        f"{count['refuted']}."
    )
    if outside:
        first += f" {_misses(runs)}"
    texts = [first]
    if count["bound_median"] is not None:
        texts.append(
            f"It is {count['bound_median']:.3g} times the error in the median and {count['bound_least']:.3g} "
            f"times at the least. The sharper bound is {count['sharper_median']:.3g} times in the median and "
            f"{count['sharper_least']:.3g} at the least, and holds on {count['sharper_holds']}."
        )
    wheres = (
        "Over all runs",
        "Within one study, ρ and dimension",
        "Without collapsed runs",
        "Without collapsed runs and within one study, ρ and dimension",
    )
    texts += [text for where, line in zip(wheres, ranks, strict=False) if (text := _follows(where, line))]
    return [*texts, *_by_study(ranks)]


def _by_study(ranks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Whether the error follows δ more closely than ε in each study, without collapsed runs."""
    alive = {line["study"]: line for line in ranks if line["study"] != ALL}  # the last line of each
    lines = [
        {"study": study, "delta": line["delta"].estimate, "epsilon": line["epsilon"].estimate}
        for study, line in alive.items()
        if line["delta"] is not None and line["epsilon"] is not None
    ]
    if not lines:
        return []
    text = "{study} (δ {delta:.2f}, ε {epsilon:.2f})"
    judgement = judge_lines(lines, lambda line: line["delta"] > line["epsilon"], text)
    claim = "Without collapsed runs the error follows δ more closely than ε in each study"
    return [in_words(claim, judgement)]


def _misses(runs: Sequence[Run]) -> str:
    missed = [run for run in runs if not run["refuted"] and not _holds(run, "bound")]
    worst = max(missed, key=lambda run: run["error"] - run["bound"])
    text = (
        f"The worst has error {worst['error']:.2e} against a bound of {worst['bound']:.2e} "
        f"({worst['study']}, {worst['dim']} latents)."
    )
    if all(run["error"] < _NEAR_ZERO * run["dim"] for run in missed):
        text += (
            " All of them have next to no error, where both sides are noise: of intervals of 95 % some miss."
        )
    return text


def _follows(where: str, line: Mapping[str, Any]) -> str:
    correlations = {key: line[key].estimate for key in ("epsilon", "delta", "d") if line[key] is not None}
    if len(correlations) < 3:
        return ""
    best = max(correlations, key=lambda key: correlations[key])
    name = {"epsilon": "ε", "delta": "δ", "d": "D, which is δ made comparable between correlations"}[best]
    numbers = ", ".join(f"{_SOURCES[key].split(' ')[0]} {correlations[key]:.2f}" for key in correlations)
    return f"{where} the error follows {name} most closely: rank correlations {numbers}."


def _notes(rows: Sequence[Row], runs: Sequence[Run]) -> list[str]:
    notes = [
        told(rows),
        "Nothing is dropped but where it reads so. The published figure shows SIGReg runs only; here every "
        "objective counts, with failed and collapsed runs. Published δ is clamped at 0 and ε is that of the "
        "sample; here both are unbiased, with intervals.",
    ]
    missing = [row for row in rows if _run(row) is None]
    if missing:
        names = "; ".join(_name(row) for row in missing[:_NAMED])
        more = f"; and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        notes.append(f"{len(missing)} of {len(rows)} runs have no error or no bound: {names}{more}.")
    collapsed = sum(run["status"] == "collapsed" for run in runs)
    if collapsed:
        notes.append(f"{collapsed} of the runs with a bound ended as collapsed.")
    return notes


def _name(row: Row) -> str:
    labels = ", ".join(f"{key} {value}" for key, value in row.labels.items())
    reason = row.scores.get("unscored")
    return f"{labels} ({row.status}{f': {reason}' if reason else ''})"
