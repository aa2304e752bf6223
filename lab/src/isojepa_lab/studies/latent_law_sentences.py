"""What the sweep over the latents' law says, in words; every number comes from the rows."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean, median, stdev

from scipy.special import stdtrit

from isojepa_lab.studies.latent_law_curves import (
    GAUSSIAN,
    SCORES,
    Lines,
    alphas_of,
    curve_of,
    lost_latent,
    of_objective,
    peak,
)
from isojepa_lab.studies.latent_law_theory import Expected
from isojepa_lab.studies.measured import grouped, mean, measured, told, unscored, values
from isojepa_lab.studies.study import Row

_FEWEST = 3  # mixings from which a lead is called clear
_CLOSE = 0.005  # difference of R^2 that training leaves at the Gaussian, where theory says 1
_PREDICTION_TOLERANCE = 0.02  # mean distance of R^2 from its prediction up to which theory explains it
_HEAVY = 0.5  # R^2 below which heavy tails are lost

Theory = Mapping[tuple[str, float], Expected]  # (line, alpha) -> what theory says


def peak_sentences(lines: Lines) -> str:
    """How often recovery is best at the Gaussian, and what is lost on either side of it."""
    curves = [rows for group in lines.values() for rows in grouped(group, "mixing", "objective").values()]
    at = {score: [alpha for rows in curves if (alpha := peak(rows, score)) is not None] for score in SCORES}
    if not at["r2"]:
        return "There are not laws enough on both sides of the Gaussian to say where recovery peaks."
    count = {score: sum(alpha == GAUSSIAN for alpha in values_at) for score, values_at in at.items()}
    above = [
        max(curve.values()) - curve[GAUSSIAN]
        for rows in curves
        if peak(rows, "r2") is not None and (curve := curve_of(rows, "r2"))
    ]
    best, close = count["r2"] / len(above), sum(gap < _CLOSE for gap in above) / len(above)
    answer = (
        "Recovery is best where the latents are Gaussian"
        if best == 1
        else "Recovery is mostly best where the latents are Gaussian"
        if best >= 0.75
        else f"Recovery is mostly best, or within {_CLOSE:g} of the best, where the latents are Gaussian"
        if close >= 0.75
        else "On samples of the law recovery is not in general best at the Gaussian"
    )
    text = (
        f"**{answer}.** Of the curves over alpha, one per world, mixing and objective, {count['r2']} of "
        f"{len(at['r2'])} peak at alpha 2 on samples of the law"
    )
    higher = [gap for gap in above if gap > 0]
    if higher:
        text += (
            f" (the others have {median(higher):.3f} more elsewhere in the median, {max(higher):.3f} at most)"
        )
    if at["r2_grid"]:
        text += f", and {count['r2_grid']} of {len(at['r2_grid'])} on the published grid"
    flat, heavy = (
        " and ".join(
            f"by {change:+.3f} {words}"
            for score, words in SCORES.items()
            if (change := _change(curves, score, side)) is not None
        )
        for side in (1, -1)
    )
    return (
        f"{text}. From alpha 2 to flatter laws, which never visit most of the grid, R² changes {flat}; to "
        f"heavier tails {heavy}."
    )


def _change(curves: Sequence[Sequence[Row]], score: str, side: int) -> float | None:
    """Mean over curves of the mean score beyond the Gaussian, on one side, minus that at it."""
    changes = []
    for rows in curves:
        curve = curve_of(rows, score)
        beyond = [value for alpha, value in curve.items() if side * (alpha - GAUSSIAN) > 0]
        if beyond and GAUSSIAN in curve:
            changes.append(fmean(beyond) - curve[GAUSSIAN])
    return fmean(changes) if changes else None


def theory_sentences(lines: Lines, theory: Theory) -> str:
    """How near the runs come to what theory says, at the Gaussian and beyond."""
    sentences, beyond = [], []
    for name, group in lines.items():
        parts = []
        for (objective,), rows in grouped(group, "objective").items():
            gaps = [_gaps(name, rows, theory, flat) for flat in (False, True)]
            if any(gaps):
                parts.append(
                    f"{objective} {' and '.join(f'{fmean(gap):+.3f}' if gap else '–' for gap in gaps)}"
                )
            beyond += gaps[1]
        if parts:
            sentences.append(f"{name}: {', '.join(parts)}")
    if not sentences:
        return ""
    near = [abs(gap) for gap in beyond]
    start = "Theory explains the size of it. " if near and fmean(near) < _PREDICTION_TOLERANCE else ""
    text = (
        f"{start}The best white embedding shows the slowest function of each "
        "latent, which is the latent itself for the Gaussian alone; for flat laws it is nearly so, for "
        "tails heavier than the Gaussian's it soon lives in the tails. Measured minus predicted R² of "
        f"runs with both latents, at alpha 2 and above it: {'; '.join(sentences)}."
    )
    if any(gap > 0 for gap in beyond):
        text += (
            " Runs above the prediction are more linear than the best embedding. A reason that would fit, "
            "and that these runs do not test: it bends where few samples are and gains little alignment by "
            "it, and SIGReg pulls towards normal scores, which at flat laws bend the other way."
        )
    return text


def _gaps(name: str, rows: Sequence[Row], theory: Theory, flat: bool) -> list[float]:
    """Measured minus predicted R^2 of runs with both latents, at the Gaussian or at flatter laws."""
    gaps = []
    for row in rows:
        alpha, value = float(row.labels["alpha"]), measured(row, "r2")
        said = theory[name, alpha].white
        if value is None or said is None or lost_latent(row, theory[name, alpha].gaussian):
            continue
        if alpha > GAUSSIAN if flat else alpha == GAUSSIAN:
            gaps.append(value - said)
    return gaps


def plateau_sentences(lines: Lines) -> str:
    """Does SIGReg lead whitening for heavy tails, on samples and on the grid?"""
    sentences = []
    signs: dict[str, list[float]] = {score: [] for score in SCORES}
    most = 0
    for name, group in lines.items():
        both = [of_objective(group, objective) for objective in ("SIGReg", "whitening")]
        if not all(both):
            continue
        told_scores = []
        for score, words in SCORES.items():
            leads = _leads(both[0], both[1], score)
            if not leads:
                continue
            error = f" ± {_error(leads):.3f}" if len(leads) > 1 else ""
            told_scores.append(f"{fmean(leads):+.3f}{error} {words}")
            signs[score].append(_clear(leads))
            most = max(most, len(leads))
        if told_scores:
            sentences.append(f"{name} {' and '.join(told_scores)}")
    if not sentences:
        return ""
    positive = {score: sum(sign > 0 for sign in group) for score, group in signs.items()}
    count = len(signs["r2"])
    if most < _FEWEST:
        answer = "There are too few mixings to say which of SIGReg and whitening leads for heavy tails"
    elif positive["r2"] == positive["r2_grid"] == 0:
        answer = "For heavy tails SIGReg does not clearly lead whitening, neither on samples nor on the grid"
    elif positive["r2"] == 0:
        answer = "For heavy tails SIGReg clearly leads whitening on the grid alone, not on samples of the law"
    else:
        answer = (
            f"For heavy tails SIGReg clearly leads whitening on samples in "
            f"{positive['r2']} of {count} worlds, "
            f"on the grid in {positive['r2_grid']}"
        )
    return (
        f"{answer}. R² of SIGReg minus that of whitening below alpha 2, mean over laws and mixings ± "
        f"standard error between mixings: {'; '.join(sentences)}."
    )


def _leads(first: Sequence[Row], second: Sequence[Row], score: str) -> list[float]:
    """Differences of a score on the heavy side: of each mixing the mean over laws."""
    ours = {place: mean(rows, score) for place, rows in grouped(first, "alpha", "mixing").items()}
    theirs = {place: mean(rows, score) for place, rows in grouped(second, "alpha", "mixing").items()}
    leads: dict[str, list[float]] = {}
    for (alpha, mixing), mine in ours.items():
        other = theirs.get((alpha, mixing))
        if mine is not None and other is not None and float(alpha) < GAUSSIAN:
            leads.setdefault(str(mixing), []).append(mine - other)
    return [fmean(group) for group in leads.values()]


def _error(leads: Sequence[float]) -> float:
    """Standard error of the mean of at least two."""
    return stdev(leads) / math.sqrt(len(leads))


def _clear(leads: Sequence[float]) -> float:
    """The sign of a mean that Student's t separates from 0 at 95 %; 0 otherwise, and for few mixings."""
    if len(leads) < _FEWEST:
        return 0.0
    middle, reach = fmean(leads), float(stdtrit(len(leads) - 1, 0.975))
    return math.copysign(1.0, middle) if abs(middle) > reach * _error(leads) else 0.0


def heavy_sentences(lines: Lines, theory: Theory) -> str:
    """What heavy tails do in each world."""
    parts, every = [], []
    for name, group in lines.items():
        heavy = [row for row in group if float(row.labels["alpha"]) < 1]
        r2_values = values(heavy, "r2")
        if not r2_values:
            continue
        every += r2_values
        lowest = min(alphas_of(heavy))
        said = theory[name, lowest]
        parts.append(
            f"in the {name} world R² below alpha 1 is "
            f"{min(r2_values):.2f} to {max(r2_values):.2f} (an exactly "
            f"Gaussian embedding would give {said.gaussian:.2f} at alpha {lowest:g}, and pairs have a rank "
            f"correlation of {said.rank:.2f} there)"
        )
    if not parts:
        return ""
    start = "Heavy tails are lost, for different reasons. " if max(every) < _HEAVY else ""
    return (
        f"{start}For heavy tails a linear map must follow the few far samples that hold the variance, and "
        f"the embedding that theory asks for bends exactly there: {'; '.join(parts)}."
    )


def notes(rows: Sequence[Row]) -> list[str]:
    """What was run, what differs from the published, and why."""
    lost = unscored(rows)
    sentences = [
        told(rows),
        "Every world can be drawn from at every alpha, so no cell is left out. But in the Langevin world, "
        "and for noisy copies, no function of the latents is the slowest when alpha is at most 1: the "
        "spectrum of the diffusion is continuous, from 1/2 on at alpha 1 and from 0 on below, and a far "
        "noisy copy is far because its center is. There is no prediction there; what is learned depends "
        "on how far out the samples reach. In the copula world every law has the discrete spectrum of the "
        "Gaussian process.",
        "With heavy tails a correlation of 0.95 of z can go with nearly independent typical pairs: below "
        "alpha 1 a Langevin latent stays correlated by its rare excursions, while near the peak of the "
        "law it loses. The rank correlation shows it. In the copula world it is the same for every law.",
        "Noisy copies, which were published, are exchangeable: both views have one law and their order "
        "does not matter. But that law is not the one of alpha, it is the law of the center plus noise, "
        "nearer to the Gaussian; and 0.95 is the correlation of each copy with the center, 0.9025 that of "
        "the pair. Theory speaks of them too: the best white embedding is the first singular function of "
        "a copy given its center.",
        "R² on samples weighs latents as the world does. The published grid over [-3, 3]² is in-sample "
        "and weighs all places alike: for flat laws most of it lies beyond the samples, for heavy tails "
        "most of it is empty.",
        "Why whitening loses the spiral before SIGReg does: in trials at alpha 1 its embeddings of noisy "
        "copies and of the Langevin world, and InfoNCE's of noisy copies, were functions of the radius "
        "almost entirely. Far out the radius is slow, and the spiral leaves it in sight. SIGReg forbids "
        "it: two functions of one number are not jointly Gaussian.",
        "Steps, batch and the weight of whitening were chosen at alpha 2 on the spiral, where they must "
        "reach an R² of 0.99, and kept for all laws.",
        "The published curves exist as pictures alone, so there is no column of published numbers. Their "
        '"VICReg" is what is called whitening here.',
    ]
    stuck = [row for row in rows if lost_latent(row, 1.0) and float(row.labels["alpha"]) >= GAUSSIAN]
    if stuck:
        names = Counter(f"{row.labels['objective']} on {row.labels['mixing']}" for row in stuck)
        listed = ", ".join(f"{name} ({count})" for name, count in names.items())
        sentences.append(
            f"{len(stuck)} of the runs from alpha 2 up lost a latent: {listed}. Theory does not ask for "
            "that; it is where training stopped, and another seed may not. In trials such an embedding of "
            "the sinusoid held z1 with a sign that turns where z2 crosses 0: linear on either side, "
            "uncorrelated with z1 in all. These runs are in all tables, but left out where runs are "
            "compared with theory."
        )
    if lost:
        sentences.append(f"{len(lost)} runs could not be scored: their embeddings were not finite.")
    return sentences
