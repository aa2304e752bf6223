"""What the studies of the Reacher share: how its encoders are trained, and what is measured of them.

The published setting, Klindt, LeCun & Balestriero (2026), Appendix H: the CNN with BatchNorm, AdamW at 3e-3
with a weight decay of 1e-4, cosine annealing, gradients cut at 1, 39,000 batches of 256 pairs, SIGReg of 256
slices. Ours is made for two cores: the same encoder and loss, 1,000 batches of 128, a faster optimizer,
frames whose squares of 2 x 2 pixels are averaged, a quarter of the cost, and a weight in proportion to the
alignment that the true angles have. Some conditions have all pixels, or three times the steps.

Encoders of all conditions are measured on the same Gaussian states: one half, the validation states, is what
weights are chosen by; all reported scores are on the other half, the test states, but for lines,
whose library is both.

    r2_validation               of the angles from the embedding, on the validation states
    r2, r2_z_to_h, bound, ...   on the test states, by the names of `isojepa_lab.studies.scores`
    r2_sincos                   of sin and cos of both angles from the embedding
    ceiling                     what frames of the test states allow, 1 where nothing winds
    length, oracle, longer      length of straight lines over their chord when nearest neighbors decode them,
                                the same of the true angles, and the mean difference, with interval
    r2_own                      on held-out episodes, where the world is a recording
    rho, rho_each               correlation of the held-out pairs' angles, mean and by joint
    sigreg_each, sigreg_joint   of the differences of such a pair, each joint's and both together
    floor, floor_joint          what normal differences have
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isojepa import runs
from isojepa.certificates import certify
from isojepa.certificates.strides import stride_row
from isojepa.config import Config
from isojepa.data.source import Source, held_out
from isojepa.encoders.model import embed
from isojepa.linear import held_out_r2
from isojepa.planning import compare_lines, draw_pairs
from isojepa.registry import Spec, build_spec
from isojepa.training.recipe import Recipe
from isojepa.training.run_directory import RunDirectory, RunDirectoryLocked
from isojepa_lab.environments.reacher import Reacher
from isojepa_lab.environments.reacher_frames import JOINTS
from isojepa_lab.environments.wrapped_angles import sample_ceiling
from isojepa_lab.studies.cells import RECORDS
from isojepa_lab.studies.rows import Rows
from isojepa_lab.studies.scores import certified
from isojepa_lab.studies.settings import shortened

WEIGHTS = (1e-3, 5e-3, 1e-2, 5e-2)  # published
BALANCE, LEAST = 0.2, 5e-3  # of ours, over 1 - rho; and the least that is used, as less was slow in trials
POOL = 2  # side of the averaged squares
LONGER = 3  # times as many steps
PAIRS, PUBLISHED_PAIRS = 50_000, 100_000  # to train on
PUBLISHED = Recipe(
    steps=100 * PUBLISHED_PAIRS // 256,
    batch=256,
    batch_start=None,
    learning_rate=3e-3,
    schedule="warmup-cosine",
    warmup=0.0,
    weight_decay=1e-4,
    decay_all=True,
    beta2=0.999,
    clip=1.0,
    eval_every=2000,
    eval_samples=2000,
)
OURS = Recipe(
    steps=1000,
    batch=128,
    batch_start=None,
    learning_rate=8e-3,
    warmup=0.05,
    eval_every=200,
    eval_samples=2000,
)
_PIECE = 500  # frames that are float32 at once
_PAUSE = 5.0  # seconds between looks at an encoder that another process trains


def balanced(rho: float) -> float:
    """The weight at which SIGReg and the alignment of the true angles, 2 (1 - rho), keep one proportion.

    Not below `LEAST`.

    Example:
        >>> balanced(0.95)
        0.01
    """
    return max(round(BALANCE * (1 - rho), 4), LEAST)


def config(
    world: Spec, weight: float, seed: int, scale: str, batch_norm: bool = True, longer: bool = False
) -> Config:
    """A run: at paper scale in the published setting, else in ours, or in ours with three times the steps."""
    objective = build_spec("objective", "lejepa", weight=weight, slices=256)
    encoder = build_spec("encoder", "conv", batch_norm=batch_norm)
    ours = replace(OURS, steps=LONGER * OURS.steps, eval_every=LONGER * OURS.eval_every) if longer else OURS
    run_config = Config(world, encoder, objective, PUBLISHED if scale == "paper" else ours, seed=seed)
    return shortened(run_config, 2) if scale == "quick" else run_config


def trained(config: Config) -> nn.Module:
    """The encoder of a run, for studies that look at it again: that of its record, or trained there now.

    One process at a time trains it.
    """
    while True:
        record = RunDirectory(runs.record_path(config, RECORDS))
        if record.result is not None:  # then its world need not be built
            return runs.load(record)
        try:
            return runs.train(config, RECORDS, progress=False).encoder
        except RunDirectoryLocked:  # another worker of this sweep trains it
            time.sleep(_PAUSE)


def score(encoder: nn.Module, world: Source) -> dict[str, Any]:
    """Measure an encoder of frames; see the names above.

    Raises:
        ValueError: the world is not the Reacher.
    """
    test_source = held_out(world)
    if not isinstance(world, Reacher) or not isinstance(test_source, Reacher):
        raise ValueError(f"the Reacher is measured in its own world, got {type(world).__name__}")
    if test_source.facts.gaussian:
        return _on_gaussian(encoder, test_source)
    h, _, z = seen(encoder, test_source)
    shared = Reacher.shared(look=world.look, data=str(world.views[0].folder.parent))
    return _on_gaussian(encoder, shared) | {"r2_own": held_out_r2(h, z)} | _law(test_source)


def _law(own: Reacher) -> dict[str, Any]:
    """What the theorems ask of pairs, of recorded ones: how alike their ends are, how normal the steps."""
    assert own.stride is not None
    first, second = (view.z.astype(float) for view in own.views)
    row = stride_row(own.stride, first, second)
    return {
        "rho": float(np.mean(row.rho)),
        "rho_each": list(row.rho),
        "sigreg_each": list(row.sigreg),
        "sigreg_joint": row.joint,
        "floor": row.floor,
        "floor_joint": row.joint_floor,
    }


def _on_gaussian(encoder: nn.Module, states: Reacher) -> dict[str, Any]:
    h, h_next, z = seen(encoder, states)
    middle, rho = len(h) // 2, states.facts.correlation
    test = slice(middle, None)
    certificate = certify(
        h[test],
        next=h_next[test],
        latents=z[test],
        rho=rho if isinstance(rho, float) else None,
        rho_from="design",
        checks=False,
    )
    angles = states.look.angles(z[test])
    lines = compare_lines(h, z, draw_pairs(len(h)))
    return {
        "r2_validation": held_out_r2(h[:middle], z[:middle]),
        **certified(certificate),
        "r2_sincos": held_out_r2(h[test], np.concatenate((np.sin(angles), np.cos(angles)), 1)),
        "ceiling": 1.0 if states.look.squash else float(sample_ceiling(angles).mean()),
        "length": lines.encoder.length.estimate,
        "oracle": lines.oracle.length.estimate,
        "longer": lines.length.estimate,
        "longer_interval": [lines.length.low, lines.length.high],
    }


def seen(encoder: nn.Module, states: Reacher) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Embeddings of both views and latents of the first, each (n, dim) float64, some frames at a time."""
    frames: list[tuple[Tensor, ...]] = []
    for ids in torch.arange(states.facts.size or 0).split(_PIECE):
        batch = states.take(ids)
        frames.append((*(embed(encoder, view) for view in batch.views), batch.latents[0]))
    first, second, latents = (torch.cat(part).double().numpy() for part in zip(*frames, strict=True))
    return first, second, latents


def chosen(rows: Rows, label: str) -> Rows:
    """At each value of a label the runs of the weight that is best on the validation states."""
    best = Rows()
    for group in rows.by(label).values():
        weights = group.by("weight")
        best += weights[max(weights, key=lambda weight: weights[weight].mean("r2_validation") or 0.0)]
    return best


def several(rows: Rows, label: str) -> str:
    """The values of a label at which more than one weight was run."""
    places = [f"{place:g}" for (place,), group in rows.by(label).items() if len(group.by("weight")) > 1]
    return ", ".join(places) or "none"


def by_joint(score: str, named: str = "{joint}") -> Callable[[Rows], dict[str, float | None]]:
    """Of a score that is a list, its mean for each joint, by a text with the joint's name."""

    def means(own: Rows) -> dict[str, float | None]:
        each = [row.scores[score] for row in own if row.scores.get(score)]
        return {
            named.format(joint=joint): sum(one[place] for one in each) / len(each) if each else None
            for place, joint in enumerate(JOINTS)
        }

    return means


joints = by_joint("r2_each")


def detours(rows: Rows, label: str) -> list[dict[str, Any]]:
    """By run: how much longer decoded lines are than the oracle's, and the low end of its interval."""
    return [
        {label: row.labels[label], "longer": row.scores["longer"], "low": row.scores["longer_interval"][0]}
        for row in rows
        if row.scores.get("longer_interval")
    ]
