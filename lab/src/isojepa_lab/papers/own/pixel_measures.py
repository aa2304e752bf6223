r"""What the study of axes in pixels measures of an encoder of the Reacher's frames, one cell at a time.

    pairs, paths    ways to find axes: on pairs of training episodes that are the stride apart, and along
                    some of those episodes, step by step; Gaussian pairs have no paths. Of each way:
                    gaussian, own   scores of `isojepa_lab.papers.own.recording_measures.score_found` on the
                                    Gaussian test states that all conditions share, and on states that were
                                    held out of the condition's own law
                    axes            of each axis: cue, reason, pair (its correlation across pairs), departure
                                    and world (of the axis and of its best function), dependence, and share:
                                    of each joint on the condition's own states, see `joint_share`
                    refused         why there are no axes, and nothing else
    as_recorded     R^2 of each angle by a linear map, turns counted, on both kinds of states
    circle          R^2 of sine and cosine of each joint by a linear map, their mean, on both
    wound           share of the condition's own states whose angle lies beyond half a turn, of each joint
    rho             correlation of each angle across pairs, turns counted
    rho_circle      the same of its direction: E cos(theta' - theta), the mean direction taken off

A frame shows an angle modulo a full turn. So axes are held against angles as they are seen, in (-pi, pi];
for a squashed look these are the latents themselves. Where a joint goes round, the cut at pi is arbitrary,
and no continuous function of frames is such an angle: its best are sine and cosine.

Axes are always found on the data as they are, also where an encoder was trained on weighed pairs.
"""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from torch import nn

from isojepa.config import config_from
from isojepa.data.source import held_out
from isojepa.data.trajectories import Recorded
from isojepa.encoders.model import embed
from isojepa.linear import held_out_r2
from isojepa.registry import Context, Spec
from isojepa.unmixing import Unmixing, unmix
from isojepa_lab.environments.reacher import Reacher, ReacherEpisodesSpec, content_of, trajectories_of
from isojepa_lab.environments.reacher_frames import JOINTS, keep_states
from isojepa_lab.papers.own.recording_measures import score_found
from isojepa_lab.papers.world_model import reacher
from isojepa_lab.studies.cells import Cell

STATES = ("gaussian", "own")
_BINS = 36  # of a turn, ten degrees each
_PIECE = 500  # frames that are float32 at once


def measure(cell: Cell) -> dict[str, Any]:
    """Take an encoder, trained now if it is not there, and score its axes on both kinds of states."""
    settings = cell.settings
    config = config_from(dict(settings["config"]))
    encoder = reacher.trained(config).eval()
    spec = as_recorded(config.world)
    world = spec.build(Context(seed=config.seed))
    assert isinstance(world, Reacher)
    h, h_next, _ = reacher.seen(encoder, world)
    ways: dict[str, tuple[Any, Any, Any]] = {"pairs": (h, h_next, None)}
    if isinstance(spec, ReacherEpisodesSpec):
        ways["paths"] = (None, None, _paths(encoder, spec, world, settings["paths"]))
    states = _states(encoder, world, settings["states"])
    scores: dict[str, Any] = {way: score_on(embeddings, states) for way, embeddings in ways.items()}
    first, second = (world.look.angles(view.z.astype(float)) for view in world.views)
    return {
        **scores,
        "as_recorded": {name: _r2_each(rows, z) for name, (rows, z, _) in states.items()},
        "circle": {name: _circle(rows, angles) for name, (rows, _, angles) in states.items()},
        "wound": (np.abs(states["own"][2]) > math.pi).mean(0).tolist(),
        "rho": [float(np.corrcoef(*both)[0, 1]) for both in zip(first.T, second.T, strict=True)],
        "rho_circle": [direction_rho(*both) for both in zip(first.T, second.T, strict=True)],
    }


def as_recorded(spec: Spec) -> Spec:
    """The world of a run without the weights of its pairs."""
    if not isinstance(spec, ReacherEpisodesSpec):
        return spec
    return ReacherEpisodesSpec(**{one.name: getattr(spec, one.name) for one in fields(ReacherEpisodesSpec)})


def as_seen(angles: np.ndarray) -> np.ndarray:
    """Angles (..., joints) modulo a full turn, in [-pi, pi).

    Example:
        >>> as_seen(np.array([0.5, 0.5 + 2 * np.pi, -4.0])).round(3).tolist()
        [0.5, 0.5, 2.283]
    """
    return np.asarray((angles + math.pi) % (2 * math.pi) - math.pi)


def joint_share(axis: np.ndarray, angle: np.ndarray) -> float:
    """Which share of the variance of an axis (n,) is a function of an angle (n,) alone, modulo a full turn.

    The correlation ratio over bins of ten degrees: 1 for any function of the angle that is nearly constant
    in each, and about bins / n where the two are independent.
    """
    bins = np.minimum(((as_seen(angle) + math.pi) / (2 * math.pi) * _BINS).astype(int), _BINS - 1)
    count = np.bincount(bins, minlength=_BINS)
    means = np.bincount(bins, axis - axis.mean(), _BINS) / np.maximum(count, 1)
    return float((count * means**2).sum() / len(axis) / axis.var())


def direction_rho(angle: np.ndarray, later: np.ndarray) -> float:
    """Correlation of the direction (cos, sin) of angles (n,) across pairs, as of a complex number."""
    one, two = (np.exp(1j * np.asarray(part)) for part in (angle, later))
    one, two = one - one.mean(), two - two.mean()
    return float((one.conj() * two).mean().real / math.sqrt((abs(one) ** 2).mean() * (abs(two) ** 2).mean()))


def _states(
    encoder: nn.Module, world: Reacher, count: int
) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """By kind of states: embeddings, latents with turns counted, and angles as drawn, each (n, dim)."""
    data = str(world.views[0].folder.parent)
    shared = Reacher.shared(pairs=count, look=world.look, data=data)
    test_source = held_out(world)
    assert isinstance(test_source, Reacher)
    rows = {}
    for name, source in zip(
        STATES, (shared, shared if test_source.facts.gaussian else test_source), strict=True
    ):
        h, _, z = reacher.seen(encoder, source)
        # the second half is the test states: by the first others have chosen weights
        test = slice(len(h) // 2, None) if source is shared else slice(None)
        angles = world.look.angles(source.standardizer.restore(z[test]))
        rows[name] = (h[test], z[test] if world.look.squash else angles, angles)
    return rows


def _paths(encoder: nn.Module, spec: ReacherEpisodesSpec, world: Reacher, count: int) -> list[np.ndarray]:
    """Embeddings (steps, dim) along some of the episodes that are trained on."""
    recorded = Recorded(trajectories_of(spec.recording()), stride=spec.stride)
    train, _ = recorded.split(spec.held_out, spec.states)
    steps = train.states.longest
    path, step = np.indices((min(count, train.paths), steps)).reshape(2, -1)
    z = train.states.gather(path, step)
    frames = keep_states(z, content_of(z), world.look, spec.data).frames
    h = [
        embed(encoder, world.look.normalized(np.array(frames[at : at + _PIECE]))).double().numpy()
        for at in range(0, len(frames), _PIECE)
    ]
    return list(np.concatenate(h).reshape(-1, steps, h[0].shape[1]))


def score_on(
    given: tuple[Any, Any, Any], states: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
) -> dict[str, Any]:
    """Find axes on what is given and score them on both kinds of states; or say why there are none.

    Args:
        given: as `isojepa.unmixing.unmix` takes them.
        states: by kind: embeddings, latents with turns counted, and angles as drawn, each (n, dim).
    """
    try:
        unmixing = unmix(*given)
    except ValueError as error:  # an embedding that collapsed
        return {"refused": str(error)}
    scores = {name: score_found(unmixing, h, as_seen(z)) for name, (h, z, _) in states.items()}
    h, _, angles = states["own"]
    return {**scores, "axes": _axes(unmixing, h, angles)}


def _axes(found: Unmixing, h: np.ndarray, angles: np.ndarray) -> list[dict[str, Any]]:
    return [
        {
            "cue": axis.identified_by,
            "reason": axis.reason,
            "pair": axis.correlation,
            "departure": axis.departure,
            "world": axis.world_departure,
            "dependence": axis.dependence,
            "share": [joint_share(values, angle) for angle in angles.T],
        }
        for axis, values in zip(found.components_, found.transform(h).T, strict=True)
    ]


def _r2_each(h: np.ndarray, z: np.ndarray) -> list[float]:
    return [held_out_r2(h, z[:, [joint]]) for joint in range(len(JOINTS))]


def _circle(h: np.ndarray, angles: np.ndarray) -> list[float]:
    return [held_out_r2(h, np.stack((np.sin(one), np.cos(one)), 1)) for one in angles.T]
