"""What tells each axis from all others, in a word, and if nothing does, why; and the order of axes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isojepa.unmixing.axes import Cause
from isojepa.unmixing.naming import FOUND, Naming, rates
from isojepa.unmixing.whitening import wanted_rows

BLIND = " In a Gaussian world of one rate, and in a copula world of one rate, nothing could."
_DEPENDENT = 0.155  # correlation of functions from which it is not: an encoder that is not done leaves less
_SLOWER = 1.2  # ratio of rates from which, of two axes that depend on each other, the slower keeps its name
_CARRIED = 0.5  # of their dependence, at least, that the faster itself is a function of the slower then


@dataclass(frozen=True)
class Cue:
    """What tells an axis from all others.

    Attributes:
        name: a key of `isojepa.unmixing.axes.CUES`, "none" if nothing does.
        cause: why nothing does; None if something does.
        reason: the same in a sentence; empty if something does.
    """

    name: str
    cause: Cause | None = None
    reason: str = ""


def order_of(naming: Naming, named: np.ndarray) -> np.ndarray:
    """Named axes first, the slowest or least normal of them before others; then blocks, the largest last."""
    size = naming.together.sum(1)
    within = -naming.departure if naming.correlation is None else -naming.correlation
    first = np.where(naming.together, within, np.inf).min(1)  # of each block
    return np.lexsort((within, first, size, ~named))


def cue_of(naming: Naming, axis: int, tolerance: float) -> Cue:
    """What tells an axis from all others, and if nothing does, why."""
    dim = len(naming.together)
    if dim == 1:
        return Cue("alone")
    others = np.arange(dim) != axis
    if naming.together[axis].sum() > 1:
        inside = naming.together[axis] & others
        if (naming.by_shape | naming.by_rate)[axis][inside].all():
            few = "two halves of the rows give other axes: too few rows for what tells them apart"
            return Cue("none", Cause.FEW_ROWS, few)
        rate = "rates that do not differ"
        if naming.correlation is None:
            rate = "no second views to tell rates"
            if naming.hinted[axis][inside].all():
                rate += ", nor whether shapes are the world's (tolerance=0 trusts them)"
        block = naming.together[axis]
        if (naming.doubted & (naming.departure >= max(tolerance, 1e-12)))[block].any():
            near = "whose departure from normal may be the encoder's, as the other's,"
        elif naming.departure[block].max() >= max(tolerance, 1e-12):
            near = "that is normal, as the other's, for all that these rows tell,"
        else:
            near = f"within {tolerance:g} of normal, as the other's,"
        return Cue("none", Cause.ALIKE, f"a law {near} and {rate}")
    if naming.stability[axis] < FOUND:
        few = "two halves of the rows give other directions: too few rows for what tells it apart"
        return Cue("none", Cause.FEW_ROWS, few)
    if naming.dependent[axis] and not _slowest(naming, axis):
        by = naming.dependence[axis]
        linked = f"it depends on another axis (a function of it by {by:.2f}), as no independent latent would"
        return Cue("none", Cause.DEPENDENT, linked)
    shape, rate_cue = naming.by_shape[axis][others].all(), naming.by_rate[axis][others].all()
    rejected = naming.rejected[axis]
    # a shape is that of a latent only if axes are independent; rates bear what an encoder leaves
    counted = rejected & (naming.links[axis] > _DEPENDENT) if rate_cue else rejected
    if counted.any() and not _explained(naming, axis):
        linked = "it is not independent of another axis: what their waves share is beyond chance (HSIC)"
        return Cue("none", Cause.DEPENDENT, linked)
    if shape and rate_cue:
        return Cue("shape or rate")
    return Cue("shape" if shape else "rate" if rate_cue else "shape and rate")


def _slowest(naming: Naming, axis: int) -> bool:
    """Whether all that an axis depends on much are faster, and functions of it, to some part at least.

    Two halves of a circle depend on each other too, but neither is a function of the other.
    """
    others = naming.links[axis] > _DEPENDENT
    if naming.correlation is None or not others.any():
        return not others.any()
    rate = rates(naming.correlation)
    faster = rate > _SLOWER * rate[axis]
    functions = naming.carried[axis] > _CARRIED * naming.links[axis]
    return bool((faster & functions)[others].all())


def _explained(naming: Naming, axis: int) -> bool:
    """Whether all axes that it is not independent of are its harmonics, with or without another latent."""
    rejected = naming.rejected[axis]
    if naming.correlation is None or naming.unexplained[axis][rejected].any():
        return False
    return bool((naming.links[axis] > _DEPENDENT)[rejected].all()) and _slowest(naming, axis)


def few_rows(rows: int, dim: int) -> str:
    """What is said of a search that found nothing, if rows were few for so many dimensions."""
    wanted = wanted_rows(dim)
    if rows >= wanted:
        return ""
    few = f"In {rows:,} rows a search can miss axes of {dim} dimensions that there are"
    return f" {few}: bring {wanted:,} or more."


def told_of(blocks: Sequence[tuple[int, ...]]) -> str:
    """What the axes without a name are."""
    sizes = [len(block) for block in blocks if len(block) > 1]
    coarse = len(blocks) - len(sizes)
    told = []
    if sizes:
        counted = "a block" if len(sizes) == 1 else f"{len(sizes)} blocks"
        told.append(
            f"{sum(sizes)} stay {counted} of {', '.join(map(str, sizes))}, any rotation of which is as good"
        )
    if coarse:
        told.append(f"{coarse} have no name of their own" if coarse > 1 else "one has no name of its own")
    return "; ".join(told)
