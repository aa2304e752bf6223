"""What a run costs, by trying a few steps of it.

A batch that grows changes the price of a step, so steps are timed at two of its sizes, those at the shares
(1 -+ 1/sqrt(3)) / 2 of the run: the nodes of the Gauss-Legendre rule, whose mean is exact for cubic prices.
"""

import math
import time
import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any

from isojepa.config import SECTIONS, Config
from isojepa.data.source import Source, finite
from isojepa.registry import Context, price
from isojepa.runs import context_of
from isojepa.training.loop import fit
from isojepa_lab.studies.scores import score

_NODES = ((1 - 1 / math.sqrt(3)) / 2, (1 + 1 / math.sqrt(3)) / 2)
_SCORED = 64  # latents up to which scoring is tried; beyond, it is extrapolated


@dataclass(frozen=True)
class Cost:
    """Seconds of one thread.

    Attributes:
        step: of a training step, averaged over the run.
        evaluation: of one held-out evaluation.
        scoring: of the trained encoder.
    """

    step: float
    evaluation: float
    scoring: float

    def of(self, config: Config) -> float:
        """Seconds of a whole run."""
        recipe = config.training
        evaluations = math.ceil(recipe.steps / recipe.eval_every)
        return self.step * recipe.steps + self.evaluation * evaluations + self.scoring

    def to_dict(self) -> dict[str, float]:
        """Plain values for JSON."""
        return asdict(self)


def measure(config: Config, seconds: float = 2.0) -> Cost:
    """Time a few steps of a run, an evaluation and, in few dimensions, the scoring.

    Args:
        config: the run.
        seconds: to spend, about; large worlds take four steps at least.
    """
    recipe = config.training
    source = config.world.build(Context(seed=config.seed))  # once: it may take longer than all steps
    batches = sorted({recipe.batch_at(round(node * (recipe.steps - 1))) for node in _NODES})
    _seconds(config, source, 1, batches[0], 8)  # compiles and warms up
    spent = time.monotonic()
    prices = []
    for batch in batches:
        once = _seconds(config, source, 1, batch, 8)
        more = min(20, int(seconds / (2 * len(batches)) / max(once, 1e-4)))
        if more < 2:  # so slow that what surrounds the step does not count
            prices.append(once)
        else:
            prices.append(max((_seconds(config, source, 1 + more, batch, 8) - once) / more, 1e-6))
    looked = _seconds(config, source, 1, batches[0], recipe.eval_samples)
    evaluation = max(looked - prices[0], 0.0)
    remaining = seconds - (time.monotonic() - spent)
    return Cost(sum(prices) / len(prices), evaluation, _scoring(config, source, remaining))


def scoring_seconds(dim: int) -> float:
    """Rough seconds of scoring in `dim` dimensions: samples, then their covariances and factorisations."""
    return 0.4 + 0.008 * dim + 8e-5 * dim**2


def _seconds(config: Config, source: Source, steps: int, batch: int, samples: int) -> float:
    """CPU time of a few steps, with the one evaluation at their end."""
    context = context_of(config, source)
    encoder, objective = config.encoder.build(context), config.objective.build(context)
    recipe = replace(
        config.training, steps=steps, batch=batch, batch_start=None, eval_every=steps, eval_samples=samples
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.process_time()  # others may want the cores now, but the price is that of a free one
        fit(encoder, source, objective, recipe=recipe, seed=config.seed, progress=False)
        return time.process_time() - started


def _scoring(config: Config, world: Source, left: float) -> float:
    encoder = config.encoder.build(context_of(config, world))
    dim = world.facts.dim or 1
    if dim > _SCORED or left <= 0 or finite(world):  # a finite set has few states to score on
        return scoring_seconds(dim)
    try:
        score(encoder.eval(), world)  # compiles
        started = time.process_time()
        score(encoder, world)
        return time.process_time() - started
    except ValueError:  # an encoder that was not trained may have no scores
        return scoring_seconds(dim)


def cost_key(config: Config) -> dict[str, Any]:
    """What decides the price of a step: runs that agree in it cost the same, whatever their seeds."""
    config = config.resolved()
    sections = {name: price(getattr(config, name)) for name in SECTIONS}
    sizes = ("batch", "batch_start", "pairs", "eval_samples", "precision", "accumulate")
    return {**sections, "training": {name: getattr(config.training, name) for name in sizes}}
