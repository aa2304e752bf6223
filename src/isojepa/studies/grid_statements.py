"""The published statements about the grid, each asked of a set of runs.

Klindt, LeCun & Balestriero (2026), Appendix H, "Grid Search" and its caption. A statement holds of the means
over seeds at the places it names; at places without runs it is not asked.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from isojepa.studies.measured import mean
from isojepa.studies.study import Row

Place = tuple[float, float]  # weight, rho
Runs = Mapping[Place, Sequence[Row]]
Verdict = tuple[str, str]  # what was found; "holds", "in part" or "does not hold"

_RISE = 0.005  # a smaller fall of R^2 is put down to the seeds


def ask(runs: Runs) -> list[dict[str, str | int]]:
    """Every statement with what the runs say of it; those about places without runs are left out."""
    answers: list[dict[str, str | int]] = []
    for statement, weights, rhos, judge in STATEMENTS:
        asked = {place: own for place, own in runs.items() if weights(place[0]) and rhos(place[1])}
        asked = {place: own for place, own in asked.items() if mean(own, "r2") is not None}
        verdict = judge(asked) if asked else None
        if verdict is not None:
            found, word = verdict
            answers.append({"statement": statement, "places": len(asked), "found": found, "verdict": word})
    return answers


def means(runs: Runs, name: str) -> dict[Place, float]:
    """Mean of a score at every place that has it."""
    found = {place: mean(own, name) for place, own in runs.items()}
    return {place: value for place, value in found.items() if value is not None}


def _best(runs: Runs) -> Verdict:
    r2, grid = means(runs, "r2").values(), means(runs, "r2_grid").values()
    found = f"R² {_range(r2)}; in-sample on the published grid of points {_range(grid)}"
    return found, _word(value > 0.97 for value in r2)


def _orthogonality(runs: Runs) -> Verdict:
    errors = means(runs, "orthogonality_error").values()
    return f"orthogonality error {_range(errors)}", _word(0.1 <= value <= 0.2 for value in errors)


def _both(runs: Runs) -> Verdict:
    r2, errors = means(runs, "r2"), means(runs, "orthogonality_error")
    good = [value > 0.96 and errors.get(place, 1.0) < 0.2 for place, value in r2.items()]
    high = sum(value > 0.96 for value in r2.values())
    return f"both at {sum(good)} of {len(good)} places, R² alone at {high}", _word(good)


def _nothing(runs: Runs) -> Verdict:
    r2 = means(runs, "r2")
    top = max(r2, key=lambda place: r2[place])
    return f"R² {_range(r2.values())}, highest at ρ {top[1]:g}", _word(value < 0.1 for value in r2.values())


def _insufficient(runs: Runs) -> Verdict:
    r2, turned = means(runs, "r2").values(), means(runs, "r2_orthogonal").values()
    found = f"R² {_range(r2)}; by a rotation at most {max(turned, default=float('nan')):.3f}"
    return found, _word(value < 0.9 for value in r2)


def _monotone(runs: Runs) -> Verdict | None:
    steps = [
        (b - a, weight, low, high)
        for weight, line in _lines(runs).items()
        for (low, a), (high, b) in pairwise(sorted(line.items()))
    ]
    if not steps:
        return None
    fall, weight, low, high = min(steps)
    falls = [step for step in steps if step[0] < -_RISE]
    found = f"R² falls at {len(falls)} of {len(steps)} steps of ρ"
    if falls:
        found += f", most by {-fall:.3f} (weight {weight:g}, ρ {low:g} to {high:g})"
    return found, _word(step[0] >= -_RISE for step in steps)


def _degrades(runs: Runs) -> Verdict | None:
    texts, good = [], []
    for weight, line in sorted(_lines(runs).items()):
        if len(line) < 3 or 0.99 not in line:
            continue
        peak = max(line, key=lambda rho: line[rho])
        texts.append(f"weight {weight:g}: peak {line[peak]:.3f} at ρ {peak:g}, {line[0.99]:.3f} at 0.99")
        good.append(line[peak] - line[0.99] > 0.01)
    return ("; ".join(texts), _word(good)) if good else None


def _lines(runs: Runs) -> dict[float, dict[float, float]]:
    """weight -> rho -> mean R^2."""
    lines: dict[float, dict[float, float]] = {}
    for (weight, rho), value in means(runs, "r2").items():
        lines.setdefault(weight, {})[rho] = value
    return lines


def _word(truths: Iterable[bool]) -> str:
    found = list(truths)
    return "holds" if all(found) else "in part" if any(found) else "does not hold"


def _range(numbers: Iterable[float]) -> str:
    found = list(numbers)
    if not found:
        return "not measured"
    low, high = f"{min(found):.3f}", f"{max(found):.3f}"
    return low if low == high else f"{low} to {high}"


Choice = Callable[[float], bool]
STATEMENTS: tuple[tuple[str, Choice, Choice, Callable[[Runs], Verdict | None]], ...] = (
    (
        "R² > 0.97 at weights 1e-3 and 5e-3 with ρ 0.9 and 0.95",
        (1e-3, 5e-3).__contains__,
        (0.9, 0.95).__contains__,
        _best,
    ),
    (
        "orthogonality error about 0.15 there",
        (1e-3, 5e-3).__contains__,
        (0.9, 0.95).__contains__,
        _orthogonality,
    ),
    (
        "R² > 0.96 and orthogonality error < 0.2 at weights 1e-3 to 1e-2 with ρ 0.8 to 0.95",
        lambda weight: 1e-3 <= weight <= 1e-2,
        lambda rho: 0.8 <= rho <= 0.95,
        _both,
    ),
    ("R² about 0 at weight 0.5, whatever ρ", lambda weight: weight == 0.5, lambda rho: True, _nothing),
    ("at weights up to 1e-2 R² grows with ρ", lambda weight: weight <= 1e-2, lambda rho: True, _monotone),
    (
        "at weights 5e-2 and 1e-1 R² peaks at a moderate ρ and is lower at 0.99",
        (5e-2, 1e-1).__contains__,
        lambda rho: True,
        _degrades,
    ),
    (
        "weights below 1e-4 are not enough, whatever ρ",
        lambda weight: weight < 1e-4,
        lambda rho: True,
        _insufficient,
    ),
)
