"""Adversaries: maps and worlds that try to fool the certificate, with what it answered and what is true."""

import hashlib
import math
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from isojepa import certificates
from isojepa.certificates import DecaySpectrum, certify, measure_decay
from isojepa.certificates.certificate import Certificate
from isojepa_lab.papers.own import adversary_maps, adversary_worlds
from isojepa_lab.papers.own.adversary import ADVERSARIES, Case, find_adversary
from isojepa_lab.studies.cells import Cell, Computation
from isojepa_lab.studies.findings import Value
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.specs import TableSpec
from isojepa_lab.studies.statements import Judgement, Statement, at_most, judge_values, judged
from isojepa_lab.studies.study import Study

SEEDS, CERTIFIED = 3, 1  # seeds of the shares, and of the certificates, which take longer
PAIRS, DRAWS = 8000, 100
FEW = ("two latents as they are", "sum of 10 products", "cosine of 2z + 0.3", "swirl 0.5")  # the quick ones
SLACK = 0.004  # error of a truth that was drawn, and of the ends of an interval
MOSTLY = 0.1  # what the grade "linear" may leave, and what no grade may say less of than is true
SHARES = {"free": "linear share, rate unknown", "known": "linear share, rate known"}
CERTIFICATES = {
    "own": "certificate, ρ the views' own correlation",
    "paths": "certificate of the paths, the same",
    "given": "certificate, ρ right",
    "none": "certificate, no ρ",
}
RIGHT, WRONG, BEYOND, SILENT, UNJUDGED = "right", "wrong", "beyond its condition", "silent", "unjudged"
SETS = (adversary_maps, adversary_worlds)  # importing them fills the set


@cache
def code() -> str:
    """A hash of the certificates' source and of the set: what is measured belongs to it."""
    files = sorted(Path(certificates.__file__).parent.rglob("*.py"))
    files += sorted(Path(__file__).parent.glob("adversar*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def cells(scale: str) -> list[Cell]:
    """Each adversary with each seed, measured by this code."""
    names, seeds = (FEW, 1) if scale == "quick" else (tuple(ADVERSARIES), SEEDS)
    return [
        Cell(
            Computation({"adversary": name, "seed": seed, "code": code()}),
            {"adversary": name, "since": find_adversary(name).since, "seed": seed},
        )
        for name in names
        for seed in range(seeds)
    ]


def measure(cell: Cell) -> dict[str, Any]:
    """What is answered about one adversary, and whether it is true."""
    seed = int(cell.settings["seed"])
    case = find_adversary(cell.settings["adversary"]).case(seed)
    scores = {"linear": case.linear, "error": case.error, "rho": case.rho, **measure_shares(case, seed)}
    return scores | measure_certificates(case, seed) if seed < CERTIFIED else scores


def measure_shares(case: Case, seed: int) -> dict[str, Any]:
    """The linear share from the paths, with the rate unknown and known."""
    scores = _share("free", case, measure_decay(case.h, draws=DRAWS, seed=seed))
    if case.rho is not None:
        rate = -math.log(case.rho)
        scores |= _share("known", case, measure_decay(case.h, rate=rate, draws=DRAWS, seed=seed))
    return scores


def measure_certificates(case: Case, seed: int) -> dict[str, Any]:
    """Certificates with the own correlation, of pairs and of paths, with the right rho, and with none."""
    first, second = pairs_of(case.h)
    correlation = float((first * second).sum() / ((first**2).sum() + (second**2).sum()) * 2)
    # a newcomer has the views' own correlation and no word on where it comes from
    rhos = {"own": (correlation if 0 < correlation < 1 else None, None), "given": (case.rho, "design")}
    scores = _certificate("none", case, certify(first, next=second, seed=seed))
    if 0 < correlation < 1:
        # paths may be a linear map that stretches, which only their decay shows
        stretched = case.h * np.linspace(1, 2, case.h.shape[2])
        scores |= _certificate("paths", case, certify(stretched, rho=correlation, seed=seed))
    for name, (rho, origin) in rhos.items():
        if rho is not None:
            scores |= _certificate(
                name, case, certify(first, next=second, rho=rho, rho_from=origin, seed=seed)
            )
    return scores


def pairs_of(h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Neighboring steps (pairs, dim) of paths (steps, paths, dim), as far apart as their number allows."""
    stride = max(2, len(h) * h.shape[1] // PAIRS)
    parts = (h[:-1:stride], h[1::stride][: len(h[:-1:stride])])
    first, second = (np.ascontiguousarray(part).reshape(-1, h.shape[2]) for part in parts)
    mean = h.mean((0, 1))
    return first - mean, second - mean


def _share(name: str, case: Case, found: DecaySpectrum) -> dict[str, Any]:
    return {
        f"{name}_verdict": judge_share(case, found),
        f"{name}_low": found.linear.low,
        f"{name}_high": found.linear.high,
        f"{name}_why": found.reasons[0] if found.reasons else "",
        f"{name}_condition": found.condition,
    }


def judge_share(case: Case, found: DecaySpectrum) -> str:
    """Whether an interval holds the truth."""
    if not found.identifiable:
        return SILENT
    if math.isnan(case.linear):
        return UNJUDGED
    if found.linear.low - SLACK <= case.linear <= found.linear.high + SLACK:
        return RIGHT
    ruled_out = math.inf if math.isnan(found.ruled_out) else found.ruled_out / 2
    return BEYOND if case.products > ruled_out else WRONG


def _certificate(name: str, case: Case, found: Certificate) -> dict[str, Any]:
    bound = None if found.bound is None else found.bound.per_dimension.high
    verdict = judge_certificate(found.grade, case, bound)
    return {f"{name}_verdict": verdict, f"{name}_grade": found.grade, f"{name}_bound": bound}


def judge_certificate(grade: str, case: Case, bound: float | None) -> str:
    """Whether a grade that promises something keeps it; all others are silent."""
    by_decay = grade == "conditional" and bound is not None and bound > MOSTLY
    if grade == "linear" or by_decay:
        holds = None if math.isnan(case.linear) else case.linear >= 1 - MOSTLY - SLACK
    elif grade in ("bounded", "conditional", "rotation"):
        promised = MOSTLY if bound is None else bound
        holds = None if math.isnan(case.error) else case.error <= promised + SLACK
    else:
        return SILENT
    if holds is None:
        return UNJUDGED
    return RIGHT if holds else BEYOND if grade == "conditional" else WRONG


def tally(rows: Rows, rule: str) -> dict[str, int]:
    """How often a rule was asked, answered, and answered wrongly."""
    counts = Counter(str(row.scores[f"{rule}_verdict"]) for row in rows if f"{rule}_verdict" in row.scores)
    answered = counts[RIGHT] + counts[WRONG] + counts[BEYOND]
    return {
        "asked": counts.total(),
        "answered": answered,
        "wrong": counts[WRONG],
        "beyond": counts[BEYOND],
        "unjudged": counts[UNJUDGED],
    }


def summary(rows: Rows) -> Lines:
    """A line for each rule."""
    lines = Lines({"rule": title, **tally(rows, rule)} for rule, title in (SHARES | CERTIFICATES).items())
    return Lines(
        line | {"share": line["wrong"] / line["answered"] if line["answered"] else None}
        for line in lines
        if line["asked"]
    )


def _shares(rows: Rows) -> Lines:
    def answers(own: Rows) -> dict[str, Any]:
        line: dict[str, Any] = {"truth": own.mean("linear")}
        for rule in SHARES:
            counts = tally(own, rule)
            line[rule] = _counted(counts)
            line[f"{rule}_interval"] = _interval(own, rule)
        reasons = [str(row.scores["free_why"]) for row in own if row.scores["free_why"]]
        line["why"] = reasons[0].partition(":")[0].partition(" (")[0] if reasons else None
        return line

    return rows.lines(["adversary", "since"], answers)


def _interval(rows: Rows, rule: str) -> str | None:
    """Mean ends of the intervals that were answered."""
    said = Rows(row for row in rows if row.scores.get(f"{rule}_verdict", SILENT) != SILENT)
    low, high = said.mean(f"{rule}_low"), said.mean(f"{rule}_high")
    return None if low is None or high is None else f"{low:.2f} to {high:.2f}"


def _counted(counts: dict[str, int]) -> str | None:
    if not counts["asked"]:
        return None
    said = counts["answered"] + counts["unjudged"]
    text = f"{said} of {counts['asked']}"
    parts = {"wrong": counts["wrong"], BEYOND: counts["beyond"], UNJUDGED: counts["unjudged"]}
    return text + "".join(f", {count} {name}" for name, count in parts.items() if count)


def _grades(rows: Rows) -> Lines:
    def answers(own: Rows) -> dict[str, Any]:
        line: dict[str, Any] = {"truth": own.mean("error")}
        for rule in CERTIFICATES:
            grades = Counter(str(row.scores[f"{rule}_grade"]) for row in own if f"{rule}_grade" in row.scores)
            line[rule] = ", ".join(f"{count} {grade}" for grade, count in grades.items()) or None
            line[f"{rule}_bound"] = own.mean(f"{rule}_bound")
            counts = tally(own, rule)
            line[f"{rule}_wrong"] = counts["wrong"] + counts["beyond"] or None
        return line

    return rows.lines(["adversary"], answers)


def _few_wrong(rows: Rows) -> Judgement:
    return judge_values([one["share"] for one in summary(rows).known("share")], at_most(0.05))


def _none_graded(rows: Rows) -> Judgement:
    """Whether every grade that promises without a condition kept its promise."""
    said = [
        (str(row.labels["adversary"]), row.scores[f"{rule}_verdict"])
        for row in rows
        for rule in CERTIFICATES
        if row.scores.get(f"{rule}_verdict", SILENT) in (RIGHT, WRONG)
    ]
    names = "; ".join(dict.fromkeys(name for name, verdict in said if verdict == WRONG))
    return judged((verdict == RIGHT for _, verdict in said), names=names)


def _intervals(rows: Rows) -> Judgement:
    """Whether the intervals of linear shares hold the truth in 95 % of the answers, rule by rule."""
    lines = [one for one in summary(rows).known("share") if one["rule"] in SHARES.values()]
    return judge_values([one["share"] for one in lines], at_most(0.05))


def _numbers(rows: Rows) -> dict[str, Value]:
    kinds = len(rows.by("adversary"))
    return {
        "kinds": kinds,
        "seeds": len(rows) // max(1, kinds),
        "pairs": PAIRS,
        "certified": tally(rows, "none")["asked"],
    }


STUDY = Study.of_file(
    __file__,
    title="Adversaries",
    source="nothing published: maps and worlds of our own that try to fool the certificate",
    cells=cells,
    measure=measure,
    tables=TableSpec.named(rules=summary, shares=_shares, grades=_grades),
    statements=Statement.named(intervals=_intervals, few=_few_wrong, grades_kept=_none_graded),
    numbers=_numbers,
)
