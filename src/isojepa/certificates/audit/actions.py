r"""Actions by themselves: do all of them vary, are they independent over time, what is their law?

Rank: 1 less the smallest eigenvalue of the correlations between actions. Where it is 1, a direction of
actions is never taken and what it does cannot be identified.

Independence over time: with f the functions cos(pi u), cos(2 pi u) of the ranks u of each action, centered
and scaled, the correlations of f_i(a_t) with f_j(a_{t + lag}) within episodes, and with cos(pi p), cos(2 pi
p) of the place p of a step in its episode, each have mean 0 and variance 1 / n where actions are
independent and of one law; the largest is judged with Bonferroni's correction. The effect is the largest
correlation.
"""

import numpy as np
import scipy

from isojepa.certificates.assumptions.line import (
    FAILS,
    HOLDS,
    UNCLEAR,
    Assumption,
    bounded,
    chance,
    judge,
    unmeasured,
)
from isojepa.certificates.assumptions.shape import bend, normal_bend
from isojepa.certificates.audit.lines import blocks_of, direction, jackknifed
from isojepa.certificates.audit.material import Material, draw_rows

RANK = "share of a direction's variance that the other actions determine: 1 - smallest eigenvalue"
SERIAL = "largest correlation of an action with a later one, or with the time in its episode"
LAW = "share of the steps at which an action is at its largest or smallest value"
_DEPENDENT, _NEARLY = 1 - 1e-6, 0.99  # shares of dependent actions, and of nearly dependent ones
_CORRELATED, _SATURATED = 0.1, 0.05  # effects that matter
_LAGS = (1, 2, 3, 4, 8, 16, 32)
_LEAST = 100  # actions below which nothing is tested
_LAWFUL = 20_000  # rows that a law is named from
_UNIFORM, _GAUSSIAN = 0.03, 0.005  # distance of distribution functions, and bend, of laws that are named
_BENT = 2000  # quantiles that a bend is measured on
_DISCRETE = 32  # different values at most


def constant(material: Material) -> np.ndarray:
    """Numbers of the actions that never vary."""
    low = np.min([part.min(0) for part in material.actions], 0)
    high = np.max([part.max(0) for part in material.actions], 0)
    return np.flatnonzero(high - low <= 1e-12 * np.maximum(1e-300, np.maximum(abs(low), abs(high))))


def varying(material: Material) -> np.ndarray:
    """Numbers of the actions that vary."""
    return np.setdiff1d(np.arange(material.dim), constant(material))


def check_rank(material: Material, confidence: float) -> Assumption:
    """Do the actions span all of their dimensions?"""
    name, still, kept = "full rank", constant(material), varying(material)
    if len(still):
        first = material.actions[0][0, still[0]]
        listed = ", ".join(str(one) for one in still[:8])
        sentence = (
            f"Action {listed} never varies (always {first:.4g})"
            if len(still) == 1
            else f"Actions {listed} never vary"
        )
        return Assumption(
            name,
            "actions",
            RANK,
            1.0,
            None,
            _NEARLY,
            None,
            FAILS,
            f"{sentence}: what {'it does' if len(still) == 1 else 'they do'} cannot be identified.",
            "Record episodes in which it is varied, or leave it out.",
        )
    rows = np.concatenate(material.actions)
    if len(rows) <= material.dim:
        reason = f"{len(rows)} actions of dimension {material.dim} are too few."
        return unmeasured(name, "actions", RANK, _NEARLY, reason, "Take more episodes.")
    numbers = np.repeat(np.arange(len(material.actions)), [len(part) for part in material.actions])
    values, vectors = np.linalg.eigh(_correlations(rows))
    left_out = [1 - float(np.linalg.eigvalsh(_correlations(rows[mask]))[0]) for mask in blocks_of(numbers)]
    value = 1 - float(values[0])
    verdict = FAILS if value > _DEPENDENT else UNCLEAR if value > _NEARLY else HOLDS
    sentence = f"All {len(kept)} actions vary, each by itself (smallest eigenvalue {values[0]:.3g})."
    if verdict != HOLDS:
        scaled = vectors[:, 0] / rows.std(0)
        told = direction(scaled / np.linalg.norm(scaled))
        sentence = (
            f"The combination {told} {'never' if verdict == FAILS else 'hardly'} varies: "
            f"what it does {'cannot' if verdict == FAILS else 'can hardly'} be identified."
        )
    return Assumption(
        name, "actions", RANK, value, jackknifed(left_out, value, confidence), _NEARLY, None, verdict,
        sentence,
        "" if verdict == HOLDS else "Vary the actions independently of each other.",
        bounded([(f"eigenvalue {k}", value) for k, value in enumerate(values)]),
    )  # fmt: skip


def check_serial(material: Material, confidence: float) -> Assumption:
    """Are actions independent over time, and of one law at all times?"""
    name, kept = "independence over time", varying(material)
    if not len(kept) or material.rows < _LEAST:
        reason = f"It needs {_LEAST} actions that vary, got {material.rows if len(kept) else 0}."
        return unmeasured(name, "actions", SERIAL, _CORRELATED, reason, "Take more episodes.")
    waves = rank_waves(material, kept)
    found: list[tuple[float, float, str]] = []
    detail, tests = [], 0
    for lag in _LAGS:
        pairs = [(part[:-lag], part[lag:]) for part in waves if len(part) > lag]
        count = sum(len(first) for first, _ in pairs)
        if count < max(_LEAST, material.rows / 2):  # few pairs show large correlations by chance
            break
        table = sum(first.T @ second for first, second in pairs) / count
        tests += table.size
        i, j = np.unravel_index(np.abs(table).argmax(), table.shape)
        steps = "1 step" if lag == 1 else f"{lag} steps"
        words = f"{_word(kept, i)} with {_word(kept, j)} {steps} later"
        found.append((float(table[i, j]), count**-0.5, words))
        detail.append((f"largest correlation {steps} apart", float(table[i, j])))
    place = [(np.arange(len(part)) + 0.5) / len(part) for part in waves]
    phases = np.concatenate([np.stack((np.cos(np.pi * p), np.cos(2 * np.pi * p)), 1) for p in place]) * 2**0.5
    table = np.concatenate(waves).T @ phases / len(phases)
    tests += table.size
    i, j = np.unravel_index(np.abs(table).argmax(), table.shape)
    found.append((float(table[i, j]), len(phases) ** -0.5, f"{_word(kept, i)} with the time in its episode"))
    ps = [min(1.0, 2 * tests * float(scipy.special.ndtr(-abs(value) / error))) for value, error, _ in found]
    p = min(ps)
    seen = [at for at, one in enumerate(ps) if one <= 1 - confidence] or [ps.index(p)]
    worst = max(seen, key=lambda at: abs(found[at][0]))
    value, _, words = found[worst]
    reach = -float(scipy.special.ndtri((1 - confidence) / (2 * tests)))
    verdict = judge(p, 1 - confidence, abs(value), _CORRELATED, reach * min(error for _, error, _ in found))
    sentence = f"The largest correlation is {value:.3g}, of {words} ({chance(p)})"
    if verdict == HOLDS:
        sentence = f"No action tells of later ones: {sentence[0].lower()}{sentence[1:]}"
    advice = ""
    if verdict != HOLDS:
        advice = (
            "Neighbouring steps repeat each other: take rows farther apart, or draw each action anew."
            if p <= 1 - confidence
            else "Take more episodes."
        )
    return Assumption(
        name, "actions", SERIAL, abs(value), None, _CORRELATED, p, verdict, sentence + ".", advice,
        bounded(detail),
    )  # fmt: skip


def check_law(material: Material, confidence: float) -> tuple[Assumption, tuple[str, ...]]:
    """The law of each action in words, and whether actions sit at their bounds."""
    everywhere = np.arange(len(material.actions))
    rows, numbers = draw_rows(material.actions, everywhere, _LAWFUL, material.stream("law"))
    values = np.concatenate(material.actions)[rows]
    laws = tuple(_law(column) for column in values.T)
    low, high = values.min(0), values.max(0)
    span = np.maximum(high - low, 1e-300)
    bound = (values <= low + 1e-6 * span) | (values >= high - 1e-6 * span)
    counted = [at for at in varying(material) if not laws[at].startswith("one of")]
    shares = [float(bound[:, at].mean()) for at in counted]
    still = len(counted) == 0
    worst = 0 if still else counted[int(np.argmax(shares))]
    value = 0.0 if still else max(shares)
    left_out = [float(bound[mask, worst].mean()) for mask in blocks_of(numbers)]
    interval = jackknifed(left_out, value, confidence)
    verdict = FAILS if interval.low > _SATURATED else HOLDS if value <= _SATURATED else UNCLEAR
    if material.rows < _LEAST:  # the largest of few is always one of them
        verdict = UNCLEAR
    told = "; ".join(f"action {at} is {law}" for at, law in enumerate(laws[:4]))
    if len(set(laws)) == 1 and len(laws) > 1:
        told = f"every action is {laws[0]}"
    sentence = f"{told[0].upper()}{told[1:]}{' ...' if len(laws) > 4 and len(set(laws)) > 1 else ''}"
    if not still:
        sentence += f"; at its bounds action {worst} is in {100 * value:.2g} % of the steps"
    advice = "" if verdict == HOLDS else (
        "At a bound an action cannot be told from a larger one, and effects look smaller than they are: take "
        "smaller actions."
    )  # fmt: skip
    line = Assumption(
        "within bounds", "actions", LAW, value, interval, _SATURATED, None, verdict, sentence + ".", advice,
        bounded([(f"share of action {at}", share) for at, share in zip(counted, shares, strict=True)]),
    )  # fmt: skip
    return line, laws


def _law(values: np.ndarray) -> str:
    """The law of one action in words."""
    low, high, n = float(values.min()), float(values.max()), len(values)
    if high - low <= 1e-12 * max(abs(low), abs(high), 1e-300):
        return f"always {low:.4g}"
    if len(different := np.unique(values)) <= min(_DISCRETE, n / 4):
        return f"one of {len(different)} values"
    ordered = np.sort(values)
    uniform = (ordered - low) / (high - low)
    steps = np.arange(n) / n
    distance = float(max(np.abs(uniform - steps).max(), np.abs(uniform - steps - 1 / n).max()))
    if distance < max(_UNIFORM, 1.63 / n**0.5):  # 1 % of uniform samples are farther
        return f"uniform on [{low:.2g}, {high:.2g}]"
    fewer = ordered[:: -(-n // _BENT)]  # the quantiles of many are enough of them
    if float(bend(fewer[:, None])[0]) - normal_bend(len(fewer)) < max(_GAUSSIAN, 4 / n):
        return f"Gaussian with mean {values.mean():.3g} and deviation {values.std():.3g}"
    return f"neither uniform nor Gaussian in [{low:.2g}, {high:.2g}]"


def rank_waves(material: Material, kept: np.ndarray) -> list[np.ndarray]:
    """Centered and scaled functions of the ranks of each action: (steps, 2 actions) for each episode."""
    rows = np.concatenate(material.actions)[:, kept]
    columns = []
    for column in rows.T:
        ordered = np.sort(column)
        rank = (np.searchsorted(ordered, column) + np.searchsorted(ordered, column, side="right")) / (
            2 * len(column)
        )
        for degree in (1, 2):
            wave = np.cos(degree * np.pi * rank)
            wave = wave - wave.mean()
            columns.append(wave / wave.std() if wave.std() > 1e-9 else np.zeros_like(wave))
    whole = np.stack(columns, 1)
    return np.split(whole, np.cumsum([len(part) for part in material.actions])[:-1])


def _word(kept: np.ndarray, wave: int | np.intp) -> str:
    return f"{'the size of ' if wave % 2 else ''}action {kept[int(wave) // 2]}"


def _correlations(rows: np.ndarray) -> np.ndarray:
    centered = rows - rows.mean(0)
    scaled = centered / np.maximum(np.sqrt((centered**2).mean(0)), 1e-300)
    return np.asarray(scaled.T @ scaled / len(rows))
