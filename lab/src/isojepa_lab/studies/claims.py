"""The claims of the papers, each beside what the committed rows and the checks of the theory say of it.

Claims stand in `isojepa/papers/claims.yaml`; verdicts, sentences, seeds and lengths of training are read from
the rows. A row is small if a setting has fewer than three seeds or its training curve still rises.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import yaml

from isojepa_lab.studies.cells import Row
from isojepa_lab.studies.measured import pairs_of, trend
from isojepa_lab.studies.statements import FAILS, HOLDS, VERDICTS

if TYPE_CHECKING:  # sympy takes a moment to import
    from isojepa_lab.theory import Outcome

MIN_SEEDS = 3
RISING = 0.005  # of a curve in its last fifth
NOT_RUN, MEASURED = "not run", "measured"
_VERDICT = re.compile(rf"\*\*(.+?): ({'|'.join(VERDICTS)})\.\*\* ?(.*)", re.DOTALL)


@dataclass(frozen=True)
class Claim:
    """A claim of a paper and what was found.

    Attributes:
        paper, where, claim: what is published.
        asked: the statement of ours that the verdict is of, if a study has one.
        verdict: of a statement or of checks; "measured" where a page has numbers alone, or "not run".
        answer: what the rows say, in Markdown.
        seeds: the fewest of a setting; None where nothing is drawn by a seed.
        share: of the published training, in images or pairs; None if not comparable.
        small: why the evidence is small; empty if it is not.
        link: of the page.
    """

    paper: str
    where: str
    claim: str
    asked: str = ""
    verdict: str = NOT_RUN
    answer: str = ""
    seeds: int | None = None
    share: float | None = None
    small: str = ""
    link: str = ""


def judge_claims(results: Path) -> list[Claim]:
    """Every claim, judged by the rows in a folder of results and by the checks of the theory.

    Raises:
        ValueError: rows are damaged, or no paragraph of a report has the words that a claim asks for.
    """
    text = resources.files("isojepa_lab.papers").joinpath("claims.yaml").read_text("utf-8")
    return [
        Claim(paper, entry["where"], entry["claim"], **_judged(entry, results))
        for paper, entries in yaml.safe_load(text).items()
        for entry in entries
    ]


def markdown(claims: Sequence[Claim]) -> str:
    """The page: a table for each paper."""
    lines = [
        "# The papers' claims",
        "",
        "Made by `isojepa study claims` from the rows in `docs/results` and from `isojepa theory`.",
        f"Small: a setting with fewer than {MIN_SEEDS} seeds, or a training curve that still rises.",
        "Length: images or pairs seen in training, as a share of the published.",
    ]
    for paper in dict.fromkeys(claim.paper for claim in claims):
        lines += [
            "",
            f"## {paper}",
            "",
            "| where | claim | what we asked | verdict | what we found | seeds | length | small | page |",
        ]
        lines.append("|---|---|---|---|---|---|---|---|---|")
        for claim in (one for one in claims if one.paper == paper):
            share = "" if claim.share is None else f"{100 * claim.share:.2g} %"
            cells = (
                *(claim.where, claim.claim, claim.asked, claim.verdict, claim.answer),
                *(claim.seeds or "", share, claim.small),
            )
            lines.append(f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} | {claim.link} |")
    return "\n".join([*lines, ""])


def _judged(entry: Mapping[str, Any], results: Path) -> dict[str, Any]:
    if "theory" in entry:
        return _by_theory(entry["theory"], entry.get("refutes", False))
    if "page" in entry:
        return {"verdict": MEASURED, "link": f"[{Path(entry['page']).name}](results/{entry['page']}.md)"}
    return _by_rows(entry, results) if "study" in entry else {}


def _by_theory(names: Sequence[str], refutes: bool) -> dict[str, Any]:
    outcomes = [one for one in _outcomes() if one.theorem in names or one.name in names]
    passed = sum(outcome.passed for outcome in outcomes)
    return {
        "verdict": HOLDS if (passed == len(outcomes)) != refutes else FAILS,
        "answer": f"{passed} of {len(outcomes)} checks {'of the opposite ' if refutes else ''}pass: "
        f"`isojepa theory --only {' '.join(names)}`",
        "link": "[theory](theory.md)",
    }


@cache
def _outcomes() -> "list[Outcome]":
    from isojepa_lab.theory import run_checks

    return run_checks()


def _by_rows(entry: Mapping[str, Any], results: Path) -> dict[str, Any]:
    from isojepa_lab.studies.catalogue import find_study
    from isojepa_lab.studies.evidence import read_kept

    name = entry["study"]
    study = find_study(name)
    evidence = read_kept(study, results, "standard")
    if not evidence.rows:
        return {}
    paragraphs = study.report(evidence.rows).summary
    statement = entry.get("says", "")
    texts = [text for text in paragraphs if statement in text]
    if not texts:
        raise ValueError(f"the report of {name} must have a paragraph with {statement!r}")
    stated = _VERDICT.match(texts[0])
    seeds = _fewest_seeds(evidence.rows)
    rising = trend(evidence.rows, RISING) == "still rising"
    reasons = [f"{seeds} seed{'s' * (seeds != 1)}"] if seeds is not None and seeds < MIN_SEEDS else []
    reasons += ["still rising"] if rising else []
    reasons += [f"{evidence.missing} of {evidence.runs} runs missing"] if evidence.missing else []
    return {
        "asked": stated[1] if stated else "",
        "verdict": stated[2] if stated else MEASURED,
        "answer": " ".join((stated[3] if stated else texts[0]).replace("](", "](results/").split()),
        "seeds": seeds,
        "share": _share(evidence.rows, entry.get("samples")),
        "small": ", ".join(reasons),
        "link": f"[{name}](results/{name}.md)",
    }


def _fewest_seeds(rows: Sequence[Row]) -> int | None:
    settings: dict[tuple[Any, ...], set[Any]] = {}
    for row in rows:
        if "seed" in row.labels:
            place = tuple((key, value) for key, value in row.labels.items() if key != "seed")
            settings.setdefault(place, set()).add(row.labels["seed"])
    return min(map(len, settings.values()), default=None)


def _share(rows: Sequence[Row], published: int | None) -> float | None:
    if published is None:
        return None
    counts = [_samples(row) for row in rows]
    trained = [count for count in counts if count]
    return median(trained) / published if trained else None


def _samples(row: Row) -> int:
    """Images or pairs that a run was trained on; 0 if nothing was trained."""
    if "training" in row.config:
        return pairs_of(row)
    return int((row.config.get("steps") or 0) * (row.config.get("batch") or 0))
