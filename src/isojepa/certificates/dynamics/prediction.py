r"""How far ahead a transition predicts: errors after 1, 2, ... steps on episodes it was not fitted on.

Episodes are dealt into folds; the transition of all others is rolled out from every state of an episode
through the actions that were recorded, and

    error_k = E |h_{t+k} - predicted|^2 / tr Cov(h),

so 1 is what the mean of all embeddings reaches. Intervals compare episodes (a delete-a-group jackknife).
`still` is the error of predicting that nothing moves: what a transition must beat.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from isojepa.arguments import check_count, check_number, checked
from isojepa.certificates.dynamics.steps import Steps, read_steps
from isojepa.certificates.dynamics.transition import Transition, fit_steps
from isojepa.certificates.intervals import Interval, from_blocks
from isojepa.seeds import generator


@dataclass(frozen=True)
class Horizon:
    """Held-out errors of predictions 1, 2, ... steps ahead.

    Attributes:
        errors: of the transition, as shares of the embedding's variance.
        still: of the last embedding.
        episodes: how many were scored.
    """

    errors: tuple[Interval, ...]
    still: tuple[Interval, ...]
    episodes: int


@checked
def measure_horizon(
    h: Any,
    a: Any,
    horizon: int = 10,
    *,
    history: int = 1,
    ridge: float = 0.0,
    folds: int = 5,
    confidence: float = 0.95,
    seed: int = 0,
) -> Horizon:
    """Fit transitions and roll them out on episodes that they have not seen.

    Args:
        h: (steps, paths, dim) or a list of (steps_i, dim).
        a: the actions in the same form; action t leaves step t.
        horizon: steps ahead at most.
        history, ridge: see `fit_transition`.
        folds: into which the episodes are dealt.
        confidence: of the intervals.
        seed: deals them.

    Raises:
        ValueError: fewer than two episodes are long enough, or a transition cannot be fitted.
    """
    horizon, folds = check_count("horizon", horizon), check_count("folds", folds, 2)
    check_number("confidence", confidence, "lie in (0, 1)", lambda value: 0 < value < 1)
    steps = read_steps(h, a, history=history)
    ids = np.unique(steps.episode)
    if len(ids) < 2:
        raise ValueError(
            f"h must have at least 2 episodes, to fit on some and score on others, got {len(ids)}"
        )
    order = torch.randperm(len(ids), generator=generator(seed, "folds")).numpy()
    fold_of = np.empty(len(ids), dtype=np.int64)
    fold_of[order] = np.arange(len(ids)) % min(folds, len(ids))
    fold = fold_of[np.searchsorted(ids, steps.episode)]
    spread = float(steps.next.var(0).sum())
    sums = np.zeros((2, len(ids), horizon))
    counts = np.zeros((len(ids), horizon))
    for number in range(fold.max() + 1):
        transition = fit_steps(steps.rows(fold != number), ridge)
        for place in np.flatnonzero(fold_of == number):
            episode = steps.rows(steps.episode == ids[place])
            sums[:, place], counts[place] = _errors(transition, episode, horizon)
    if (counts > 0).sum(0).min() < 2:
        raise ValueError(
            f"horizon must leave two episodes that are longer, got {horizon} with "
            f"{int((counts[:, -1] > 0).sum())}: give longer episodes or a shorter horizon"
        )
    errors, still = (
        tuple(_ratio(part[:, k], counts[:, k], spread, confidence) for k in range(horizon)) for part in sums
    )
    return Horizon(errors, still, len(ids))


def _errors(transition: Transition, episode: Steps, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """Summed squared errors (2, horizon), of the transition and of standing still, and their counts."""
    sums, counts = np.zeros((2, horizon)), np.zeros(horizon)
    n, dim = len(episode), episode.dim
    state = episode.state
    for k in range(min(horizon, n)):
        state = transition.advance(state[: n - k], episode.action[k:])
        truth = episode.next[k:]
        sums[0, k] = ((truth - state[:, :dim]) ** 2).sum()
        sums[1, k] = ((truth - episode.state[: n - k, :dim]) ** 2).sum()
        counts[k] = n - k
    return sums, counts


def _ratio(sums: np.ndarray, counts: np.ndarray, spread: float, confidence: float) -> Interval:
    scored = counts > 0
    sums, counts = sums[scored] / spread, counts[scored]
    without = (sums.sum() - sums) / (counts.sum() - counts)
    return from_blocks(sums.sum() / counts.sum(), without, confidence)
