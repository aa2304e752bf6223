"""The verdict of a certificate in a sentence or two, and what to do next.

Where there are no latents no sentence speaks as if they were known: what is promised is said of the
embedding, under the conditions it rests on.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from isojepa.certificates import grades
from isojepa.certificates.bound import Bound
from isojepa.certificates.checks import FAILS, UNCLEAR, format_p
from isojepa.certificates.recovery import Recovery
from isojepa.certificates.rho import WORDS
from isojepa.statistics.intervals import Interval

if TYPE_CHECKING:
    from isojepa.certificates.certificate import Certificate

_TRACE = 0.001  # percent

_REFUTED = (
    "Refuted: the pairs lie closer together than any embedding of a Gaussian world with rho = {rho:g} can "
    "bring them, so rho is wrong or the world is another."
)
_ABOVE = (
    "Refuted: rho = {rho:g} and Gaussian latents cannot both be right. A function of the embedding "
    "correlates across views by {value:.3f}, {low:.3f} at least, and none can by more than rho in a Gaussian "
    "world: rho is larger, or the latents have another law, or some of them never change."
)
_UNPAIRED = (
    "The two views of a pair hardly correlate ({value:.2g}): their rows seem to belong to different pairs. "
    "Check that both files keep one order."
)
_UNORDERED = (
    "Steps next to each other hardly correlate ({value:.2g}): they lie too far apart in time, or not in its "
    "order."
)
_OPPOSED = (
    "The two views of a pair correlate negatively ({value:.2g}), which no rho in (0, 1) allows: one of them "
    "has its sign turned, or the world oscillates."
)


def verdict(c: "Certificate") -> str:
    """The certificate in a sentence or two."""
    if c.grade == "collapsed":
        return (
            f"Collapsed: the embedding does not fill its {c.dim} dimensions; its smallest variance is "
            f"{c.smallest_variance:.2g} where the mean is {c.mean_variance:.2g}."
        )
    text = _labelled(c, c.recovery) if c.recovery is not None else _unlabelled(c)
    if c.unpaired and c.correlation is not None and c.recovery is not None:
        text += " " + _unpaired(c, c.correlation)
    return text


def next_step(c: "Certificate") -> str:
    """What to do next, in a sentence."""
    return _labelled_step(c) if c.recovery is not None else _unlabelled_step(c)


def percent(share: float, precision: int = 2) -> str:
    """A share in percent, without a pretence of digits where next to nothing is left."""
    value = 100 * share
    return f"less than {_TRACE:g} %" if abs(value) < _TRACE else f"{value:.{precision}g} %"


def listed(names: Sequence[str]) -> str:
    """Names with commas and a last "and"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _unlabelled(c: "Certificate") -> str:
    if c.grade == "unpaired" and c.correlation is not None:
        return "Nothing can be certified. " + _unpaired(c, c.correlation)
    if c.refuted and c.bound is not None:
        return _refuted(c, c.bound)
    seen = _along_paths(c)
    if grades.promised(c) and c.bound is not None:
        return f"{_promise(c, c.bound)} {seen}".rstrip()
    if grades.decays_linearly(c):
        return _decay(c)
    if c.bound is None:
        if seen:
            return seen
        return f"Nothing can be certified: there are no latents, and no bound because {c.bound_missing}."
    return _too_wide(c, c.bound, seen)


def _promise(c: "Certificate", bound: Bound) -> str:
    """A small bound: certified, conditional, or void because an assumption fails."""
    share = percent(bound.per_dimension.high)
    if c.failed:
        return (
            f"Not certified: {_fail(c, c.failed)}. The bound, at most {share} of the variance at "
            f"rho = {bound.rho:g}, rests on what does not hold here."
        )
    rotation = f"the embedding is a rotation of them up to at most {share} of the variance"
    if c.grade == "bounded":
        return (
            f"World model, certified without labels: if the latents are {c.dim} Gaussians with "
            f"rho = {bound.rho:g} ({WORDS[c.rho_from or 'given']}), {rotation}."
        )
    if c.rho_from == "data" and c.maximal is not None:
        ends = "" if c.curve is None or c.curve.ends is None else f" up to rho = {c.curve.ends:.3g}"
        return (
            f"Conditional: if the latents are {c.dim} Gaussians with rho = {bound.rho:.4g} or less, "
            f"{rotation}. That rho is the upper end of what the embeddings themselves show, and no search "
            f"bounds rho from above; {percent(1 - grades.CLOSE)} at most is promised{ends}."
        )
    reasons = {
        "unchecked": "nothing was checked of what this rests on",
        "unstated": "nobody said where rho comes from, and with the embedding's own correlation in its place "
        "every bound is small",
    }
    why = "; and ".join(reasons[name] for name in grades.reservations(c))
    return (
        f"Conditional: if the latents are {c.dim} Gaussians with rho = {bound.rho:g}, {rotation}. But {why}."
    )


def _decay(c: "Certificate") -> str:
    """A decay along trajectories as only linear embeddings have it."""
    seen, broken = _along_paths(c), grades.failed_of_linear(c)
    if broken:
        return f"Not certified: {_fail(c, broken)}. {seen}"
    wide = "" if c.bound is None else " It may stretch them: the bound is too wide for a rotation."
    if c.grade == "linear":
        lead = "Linear, by its decay along the trajectories, if the latents are Gaussian of one rate."
        return f"{lead} {seen}{wide}"
    rate = "rate that was found in the embedding itself."
    if c.lags is not None and c.lags.rate_known:
        rate = (
            "rate that was given. But nobody said where it comes from, and with the embedding's own decay in "
            "its place everything is linear."
        )
    return (
        "Conditional: linear, by its decay along the trajectories, if the latents are Gaussian of the one "
        f"{rate} {seen}{wide}"
    )


def _too_wide(c: "Certificate", bound: Bound, seen: str) -> str:
    share = bound.per_dimension.high
    text = f"Not certified without labels: the bound allows {percent(share, 3)} of the variance to be wrong."
    if share >= 1:
        text = "Not certified without labels: the bound allows more than the whole variance."
    if c.rho_from == "data":
        text = text[:-1] + f" at rho = {bound.rho:.4g}, the upper end of what the embeddings show."
    if c.failed:
        text += f" Besides, {_fail(c, c.failed)}."
    if seen:
        return f"{text} {seen}"
    if c.rho_from != "data" and c.correlation is not None and c.correlation.high < bound.rho:
        return (
            f"{text} The views correlate by {c.correlation.estimate:.3g} where a linear encoder of this "
            f"world reaches rho = {bound.rho:g}: the encoder is nonlinear or not yet trained, or rho is "
            "smaller."
        )
    return f"{text} The encoder may still be good; the training may not have converged."


def _refuted(c: "Certificate", bound: Bound) -> str:
    if bound.refuted or c.maximal is None:
        return _REFUTED.format(rho=bound.rho)
    return _ABOVE.format(rho=bound.rho, value=c.maximal.value.estimate, low=c.maximal.sure)


def _unpaired(c: "Certificate", correlation: Interval) -> str:
    if correlation.high < 0 and correlation.estimate < -0.1:
        return _OPPOSED.format(value=correlation.estimate)
    return (_UNPAIRED if c.lags is None else _UNORDERED).format(value=correlation.estimate)


def _fail(c: "Certificate", names: Sequence[str]) -> str:
    """Which checks fail, each with its chance beside the number of checks."""
    tests = sum(line.p is not None for line in c.assumptions)
    chances = {line.name: line.p for line in c.assumptions}
    told = [
        name if (p := chances[name]) is None else f"{name} ({format_p(p)}, one of {tests} checks)"
        for name in names
    ]
    return f"{listed(told)} {'fails' if len(names) == 1 else 'fail'}"


def _along_paths(c: "Certificate") -> str:
    return "" if c.lags is None else c.lags.sentence


def _labelled(c: "Certificate", r: Recovery) -> str:
    r2 = r.r2_h_to_z.estimate
    lost = 1 - r2
    if c.grade == "rotation" and r.r2_orthogonal:
        turned = percent(1 - r.r2_orthogonal.estimate)
        text = f"World model: the embedding is a rotation of the latents up to {turned} of their variance."
    elif c.grade == "linear":
        text = (
            f"Linear but not a rotation: a linear map reads the latents up to {percent(lost)} of their "
            "variance, but the embedding stretches or mixes them."
        )
    elif c.grade == "partial":
        text = (
            f"Mostly recovered: a linear map of the embedding misses {percent(lost)} of the latents' "
            "variance."
        )
    elif lost > 1:
        text = "Not a world model: a linear map of the embedding predicts the latents worse than their mean."
    else:
        text = (
            f"Not a world model: a linear map of the embedding misses {percent(lost, 3)} of the latents' "
            "variance."
        )
    if c.grade in ("partial", "none") and c.samples < 4 * c.dim:
        text += f" But {c.samples} samples are too few to fit a map from {c.dim} dimensions: use more."
    if c.holds is True and c.bound is not None:
        empty = ", but allows more than the latents' whole variance" * (c.bound.per_dimension.estimate >= 1)
        text += f" Theorem 3's bound holds{empty}."
    if c.holds is False:
        text += " The error exceeds Theorem 3's bound: the world breaks one of its assumptions."
    if c.refuted and c.bound is not None:
        text += " " + _refuted(c, c.bound)
    broken = [line.name for line in c.assumptions if line.verdict == FAILS and line.of == "latents"]
    if broken:
        text += f" Of the world, {_fail(c, broken)}: the theorems do not speak of this one, the labels do."
    return text


def _labelled_step(c: "Certificate") -> str:
    return {
        "rotation": "use the embedding as the latents, up to a rotation: distances and plans in it are those "
        "of the world.",
        "linear": "read the latents off with a linear probe; whiten the embedding for a rotation.",
        "partial": "train longer or with a smaller weight of the regularizer, and look at the worst latent.",
        "none": "look at the spectrum and the failed assumptions: train longer, or change the world's pairs.",
        "collapsed": _UNCOLLAPSE,
    }[c.grade]


_UNCOLLAPSE = "raise the weight of the regularizer, or lower the learning rate, and train again."


def _unlabelled_step(c: "Certificate") -> str:
    fixed = {
        "collapsed": _UNCOLLAPSE,
        "unpaired": "check that row i of both views, or of successive steps, belongs to one pair.",
        "refuted": "find out rho anew: from how the pairs were made, from states, or from a time step and a "
        "rate; leave it out to have it estimated.",
        "bounded": "use the embedding as the latents, up to a rotation; certify again where the data change.",
        "linear": "give pairs and rho for a bound, to learn whether it also is a rotation.",
    }
    if c.grade in fixed:
        return fixed[c.grade]
    if c.grade == "conditional":
        return _condition_step(c)
    for line in c.assumptions:
        if line.verdict == FAILS and line.advice:
            return f"{line.name} fails. {line.advice}"
    if c.bound is None:
        return _missing_step(c)
    advice = next((line.advice for line in c.assumptions if line.verdict == UNCLEAR and line.advice), "")
    if c.rho_from == "data":
        return f"give a rho from outside (--rho with --rho-from), or more pairs. {advice}".rstrip()
    return f"train longer, certify more pairs, or certify with latents of some samples. {advice}".rstrip()


def _condition_step(c: "Certificate") -> str:
    if not c.assumptions:
        return "certify with the checks on (leave out --no-checks)."
    if not grades.promised(c):
        if c.rho_from == "given":
            return "say where the rate comes from: --rho-from design, states or rate."
        return "pass the rate or rho if you know it, with --rho-from: then the decay shows what is linear."
    if c.rho_from == "data":
        return (
            "find out rho from outside: how the pairs were made, states of some of them, or a time step and "
            "a known rate (--rho with --rho-from design, states or rate)."
        )
    return "say where rho comes from: --rho-from design, states or rate."


def _missing_step(c: "Certificate") -> str:
    return {
        "rho": "give more pairs, or rho if you know it.",
        "pairs": "rows of one array are read as unordered: give the second views of the pairs (next=h_next; "
        "--next FILE), or say that rows follow each other in time (certify([h]); --trajectory)."
        if c.correlation is None
        else "give more pairs or longer paths.",
        "world": "certify with latents, or reweight the pairs (isotropize, docs/data.md).",
        "dimension": "give the embedding as many dimensions as there are latents.",
        None: "give second views or latents.",
    }[c.bound_lacks]
