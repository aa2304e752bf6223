"""The Reacher as a world: pairs of frames of its arm, rendered once, with the joint angles as latents.

    Reacher.gaussian(rho)           z ~ N(0, I),  z' = rho z + sqrt(1 - rho^2) eta
    Reacher.recorded(angles, d)     pairs (theta_t, theta_{t+d}) of recorded episodes, rendered anew

The two conditions of Klindt, LeCun & Balestriero (2026), "When Does LeJEPA Learn a World Model?", Section
5.2 and Appendix D. Pairs are a finite set, visited in epochs. Evaluations and certificates use held-out
pairs: N(0, I) states that are the same for all conditions, or other episodes. Frames are uint8 on the disk
and float32 only in a batch.

Angles come from a file or from episodes of a policy, simulated once. Registered worlds: `reacher`,
`reacher-episodes`, and `reacher-isotropised`, whose pairs are reweighted (`isojepa.data.reweighting`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from isojepa.data.as_source import Arrays
from isojepa.data.batch import Batch
from isojepa.data.files import read_episodes
from isojepa.data.images.cache import bar, digest
from isojepa.data.processes import OrnsteinUhlenbeck
from isojepa.data.reweighting import WEIGHERS, isotropize
from isojepa.data.source import Facts, Source, Streams
from isojepa.data.trajectories import Recorded, Standardizer, Trajectories
from isojepa.io import plain_file, write_whole
from isojepa.registry import Context, Spec, register
from isojepa.seeds import generator
from isojepa.validation import check_count, check_number, choose, validate_types
from isojepa_lab.environments.control import STEPS, reacher_episodes
from isojepa_lab.environments.reacher_frames import (
    COLORS,
    JOINTS,
    ArmLook,
    RenderedStates,
    keep_states,
    wrapped_shares,
)
from isojepa_lab.environments.rendering import release, stores
from isojepa_lab.environments.wrapped_angles import r2_ceiling, sample_ceiling

EVALUATIONS = ("episodes", "gaussian")
_RELEASE_PAIRS = 4096  # pairs after which mapped pages of the frames are released
_IDENTITY = Standardizer(np.zeros(len(JOINTS)), np.ones(len(JOINTS)))


class Reacher:
    """Pairs of rendered states: a finite set with known latents, observable at any others.

    Make one by `Reacher.gaussian` or `Reacher.recorded`.

    Args:
        first, second: the states of both views with their frames.
        look: how states become frames.
        correlation: of each latent across a pair.
        gaussian: whether the latents are N(0, I).
        standardizer: from states to latents.
        episodes: (pairs,) which episode each is of, for splits; the pair's number by default.
        stride: steps between the two ends of a pair, where they are recorded.
        held: makes the source of held-out states.
    """

    def __init__(
        self,
        first: RenderedStates,
        second: RenderedStates,
        look: ArmLook,
        *,
        correlation: float | tuple[float, ...],
        gaussian: bool,
        standardizer: Standardizer = _IDENTITY,
        episodes: np.ndarray | None = None,
        stride: int | None = None,
        held: Callable[[], Source] | None = None,
    ) -> None:
        self.views, self.look, self.standardizer = (first, second), look, standardizer
        self.episodes, self.stride = episodes, stride
        self._pairs = Arrays(
            tuple(view.frames for view in self.views),
            latents=tuple(standardizer.apply(view.z).astype(np.float32) for view in self.views),
            ids=None if episodes is None else torch.from_numpy(episodes),
        )
        self._held, self._taken = held, 0
        self.facts = Facts(
            dim=len(JOINTS),
            correlation=correlation,
            gaussian=gaussian,
            shapes=(look.observed, look.observed),
            size=len(first.z),
            observable=True,
            described=True,
            holding=held is not None,
        )

    @classmethod
    @validate_types
    def gaussian(
        cls,
        rho: float = 0.95,
        pairs: int = 20_000,
        *,
        look: ArmLook | None = None,
        held_out: int = 10_000,
        seed: int = 0,
        data: str = "",
        processes: int | None = None,
    ) -> "Reacher":
        """Pairs of the stationary Gaussian process; with `squash`, frames determine the angles.

        Args:
            rho: correlation of a pair, in (0, 1).
            pairs: to train on.
            look: how states become frames.
            held_out: pairs that are held out; their first states are the same for every rho and seed.
            seed: draws the states to train on; worlds of other rho share their first views.
            data: the folder of stores; empty for one in the user's cache.
            processes: that render; as many as there are cores by default.

        Raises:
            ValueError: a setting is out of range, or a store holds something else.
            NoRendering: frames are missing, and nothing here draws.
            ImportError: frames are missing, and dm_control or MuJoCo is not installed.
        """
        look = look or ArmLook()
        check_count("held_out", held_out, 2)

        def held() -> Source:
            return cls.shared(rho, held_out, look=look, data=data, processes=processes)

        views = _normal(rho, pairs, "train", seed, look, data, processes)
        return cls(*views, look, correlation=rho, gaussian=True, held=held)

    @classmethod
    @validate_types
    def shared(
        cls,
        rho: float = 0.95,
        pairs: int = 10_000,
        *,
        look: ArmLook | None = None,
        data: str = "",
        processes: int | None = None,
    ) -> "Reacher":
        """The Gaussian pairs that nothing is trained on; their first states are the same for every rho.

        Args:
            rho, pairs, look, data, processes: as of `gaussian`.
        """
        look = look or ArmLook()
        views = _normal(rho, pairs, "held-out", 0, look, data, processes)
        return cls(*views, look, correlation=rho, gaussian=True)

    @staticmethod
    def shared_latents(pairs: int = 10_000) -> np.ndarray:
        """The first latents (pairs, 2) of `shared`, float32, for those who need no frames."""
        return _first_states(check_count("pairs", pairs), "held-out", 0).numpy()

    @classmethod
    @validate_types
    def recorded(
        cls,
        angles: Any,
        stride: int,
        *,
        per_episode: int = 10,
        weigh: Callable[[Recorded], Recorded] | None = None,
        look: ArmLook | None = None,
        evaluation: str = "episodes",
        held_out: float = 0.2,
        gaussian_states: int = 10_000,
        seed: int = 0,
        data: str = "",
        processes: int | None = None,
    ) -> "Reacher":
        """Pairs of recorded joint angles, rendered anew with the target where it always is.

        Args:
            angles: (episodes, steps, 2) in radians, or a list of (steps_i, 2), or `Trajectories`.
            stride: steps between the two ends of a pair.
            weigh: from the episodes that are trained on to the same with weights of their pairs, e.g. by
                `isojepa.data.reweighting`; what is held out has none.
            per_episode: pairs of each episode, drawn without replacement; all of one that has fewer.
            look: how states become frames; `squash` bends the recorded angles too.
            evaluation: what is held out: "episodes" of the recording, or the "gaussian" states that all
                conditions share, as in the paper.
            held_out: share of the episodes that are not trained on, where these are held out; else none.
            gaussian_states: number of the Gaussian states.
            seed: draws the pairs and the episodes that are held out.
            data: the folder of stores; empty for one in the user's cache.
            processes: that render; as many as there are cores by default.

        Raises:
            ValueError: angles are not finite, or no episode is longer than the stride; and as `gaussian`.
        """
        look = look or ArmLook()
        choose("evaluation", evaluation, dict.fromkeys(EVALUATIONS))
        check_count("per_episode", per_episode)
        train = other = Recorded(trajectories_of(angles), stride=stride)
        if evaluation == "episodes":
            train, other = train.split(held_out, seed)
        if weigh is not None:
            train = weigh(train)

        def pairs_of(part: str, recorded: Recorded, held: Callable[[], Source] | None) -> "Reacher":
            source = generator(seed, "reacher", "pairs", part)
            path, ends = _some_pairs(recorded, per_episode, source)
            first, second = (keep_states(end, content_of(end), look, data, processes) for end in ends)
            return cls(
                first,
                second,
                look,
                correlation=recorded.correlation,
                gaussian=False,
                standardizer=train.standardizer,
                episodes=path,
                stride=recorded.stride,
                held=held,
            )

        def held() -> Source:
            if evaluation == "episodes":
                return pairs_of("held-out", other, None)
            return cls.shared(pairs=gaussian_states, look=look, data=data, processes=processes)

        return pairs_of("train", train, held)

    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """Draw n pairs, with replacement."""
        size = len(self.views[0].z)
        return self.take(torch.randint(size, (check_count("the number of samples", n),), generator=generator))

    @torch.no_grad()
    def take(self, ids: Tensor, streams: Streams | None = None) -> Batch:
        """The pairs of given numbers; nothing is random in their views."""
        batch = self._pairs.take(ids)
        self._taken += len(ids)
        if self._taken >= _RELEASE_PAIRS:
            self._taken = 0
            for view in self.views:
                release(view.frames)
        return Batch(tuple(self.look.normalized(view) for view in batch.views), z=batch.z, ids=batch.ids)

    @torch.no_grad()
    def observe(self, z: Tensor) -> Tensor:
        """What is seen at latents (batch, 2), drawn now: (batch, 3, side, side)."""
        states = self.standardizer.restore(z.detach().cpu().numpy()).astype(np.float32)
        return self.look.normalized(self.look.frames(states)).to(z.dtype)

    def held_out(self) -> Source:
        """Pairs of states that training never sees.

        Raises:
            ValueError: these are they.
        """
        if self._held is None:
            raise ValueError("these states are held out themselves: they hold out no others")
        return self._held_source

    @cached_property
    def _held_source(self) -> Source:
        assert self._held is not None
        return self._held()

    def describe(self) -> dict[str, Any]:
        """How it looks, which share of the angles a frame shows as others, and what R^2 that allows."""
        mean, std = COLORS[self.look.quality]
        angles = self.look.angles(np.concatenate([view.z for view in self.views]))
        told: dict[str, Any] = {"kind": "pictures", "mean": mean, "std": std, "world": "reacher"}
        told |= {"quality": self.look.quality, "squash": self.look.squash, "pool": self.look.pool}
        told |= wrapped_shares(angles)
        if self.facts.gaussian:
            squashed = self.look.squash
            told["r2_ceiling"] = 1.0 if squashed else r2_ceiling()
            told["r2_ceiling_of_these"] = 1.0 if squashed else float(sample_ceiling(angles).mean())
        return told | {"stores": [view.folder.name for view in self.views]}

    def __repr__(self) -> str:
        law = f"rho={self.facts.correlation}" if self.facts.gaussian else "recorded"
        return f"Reacher({law}, pairs={self.facts.size}, {self.look})"


def _normal(
    rho: float, count: int, part: str, seed: int, look: ArmLook, data: str, processes: int | None
) -> tuple[RenderedStates, RenderedStates]:
    """Gaussian pairs with their frames; first states, and the noise of second ones, are those of any rho."""
    check_count("pairs", count, 2)
    z = _first_states(count, part, seed)
    z_next = OrnsteinUhlenbeck(len(JOINTS), rho).step(z, generator(seed, "reacher", part, "second"))
    chosen: dict[str, Any] = {"law": "normal", "part": part, "seed": seed}
    return (
        keep_states(z.numpy(), chosen | {"view": 0}, look, data, processes),
        keep_states(z_next.numpy(), chosen | {"view": 1, "rho": rho}, look, data, processes),
    )


def _first_states(count: int, part: str, seed: int) -> Tensor:
    """The first states (count, 2) of Gaussian pairs, the same for every rho."""
    return torch.randn(count, len(JOINTS), generator=generator(seed, "reacher", part))


def trajectories_of(angles: Any) -> Trajectories:
    """Angles by episode, (episodes, steps, 2) or a list of (steps_i, 2), as trajectories.

    Raises:
        ValueError: the shape is wrong, or a value is not finite; the message has the position.
    """
    if isinstance(angles, Trajectories):
        trajectories = angles
    else:
        several = not isinstance(angles, list | tuple)
        arrays = list(np.asarray(angles)) if several else [np.asarray(episode) for episode in angles]
        if not arrays or any(episode.ndim != 2 or episode.shape[1] != len(JOINTS) for episode in arrays):
            shapes = sorted({episode.shape for episode in arrays})[:3]
            raise ValueError(
                "angles must be (episodes, steps, 2) or a list of (steps, 2), shoulder and wrist, got "
                f"{len(arrays)} episodes of shapes {', '.join(map(str, shapes)) or 'none'}"
            )
        for number, episode in enumerate(arrays):
            if not np.isfinite(episode).all():
                step = int(np.flatnonzero(~np.isfinite(episode).all(1))[0])
                raise ValueError(
                    f"angles must be finite, got {episode[step]} in episode {number}, step {step}"
                )
        trajectories = Trajectories("angles", arrays)
    if trajectories.shape != (len(JOINTS),):
        raise ValueError(
            f"angles must be two at each step, shoulder and wrist, got shape {trajectories.shape}"
        )
    return trajectories


def _read_angles(path: Path) -> Any:
    """Joint angles of a file: NumPy's, (episodes, steps, 2), or of episodes, their column qpos.

    Raises:
        ValueError: it is neither.
        OSError: it cannot be read.
    """
    if path.suffix != ".npy":
        return read_episodes(path).vectors("qpos")
    return np.load(plain_file(path), mmap_mode="r", allow_pickle=False)


def _policy_angles(policy: str, episodes: int, seed: int, data: str = "") -> np.ndarray:
    """Joint angles (episodes, steps, 2) of a policy's episodes, simulated once and kept beside the frames.

    They are kept because a simulation may round otherwise on another machine, and frames belong to angles.

    Args:
        policy: sac, random or ou; see `isojepa_lab.environments.control`.
        episodes, seed: as of `reacher_episodes`.
        data: the folder of stores; empty for one in the user's cache.
    """
    path = stores(data) / f"reacher-{policy}-{episodes}-{seed}.npy"
    if not path.exists():
        with bar(f"episodes of {policy}", episodes * (STEPS - 1)) as progress:
            recording = reacher_episodes(policy, episodes, STEPS, seed, progress)
        angles = np.stack(recording.vectors("qpos")).astype(np.float32)

        def write(temporary: Path) -> None:
            with open(temporary, "wb") as file:
                np.save(file, angles, allow_pickle=False)

        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, write)
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def _some_pairs(
    recorded: Recorded, count: int, source: torch.Generator
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Some pairs of each episode, without replacement, in the order of time; or as many by their weights.

    Args:
        recorded: the episodes, with a stride. Where its pairs have weights they are drawn by these, with
            replacement, from all episodes, and reversed with probability `swap`.
        count: pairs of each episode, all of one that has fewer; with weights, of the mean episode.
        source: draws them.

    Returns:
        The episode of each pair, (pairs,), and the angles of both its ends, each (pairs, 2).
    """
    if recorded.weights is not None:
        path, *ends = recorded.in_order().draw(count * recorded.paths, source)
        first, second = (recorded.states.gather(path, at) for at in ends)
        return path, (first, second)
    chosen, start = [], 0
    for length in recorded.states.lengths:
        pairs = max(0, int(length) - recorded.stride)
        chosen.append(start + torch.randperm(pairs, generator=source)[:count].sort().values)
        start += pairs
    path, step = recorded.locate(torch.cat(chosen).numpy())
    first, second = (recorded.states.gather(path, at) for at in (step, step + recorded.stride))
    return path, (first, second)


def content_of(states: np.ndarray) -> dict[str, Any]:
    """Content key of recorded states: a hash of their bytes."""
    return {"law": "recorded", "digest": digest(np.ascontiguousarray(states, dtype=np.float32).tobytes())}


@dataclass(frozen=True)
class ReacherLook(Spec):
    """What both have: how states become frames, and where these are kept."""

    costless: ClassVar = (  # frames are kept: a step costs the same whatever states they are of
        *("squash", "states", "rho", "pairs", "held_out"),
        *("episodes", "stride", "per_episode", "strength"),
    )

    quality: str = "fast"
    """Of the frames: fast, or dmc for dm_control's own pixels."""
    squash: bool = False
    """Squash angles into the wrist's range, so that no two states look alike."""
    size: int = 64
    """Side of the frames in pixels."""
    pool: int = 1
    """Side of the squares of pixels whose mean is one of an observation."""
    states: int = 0
    """Seed that the states to train on are drawn from."""
    data: str = ""
    """Folder of the frames; empty for one in the user's cache."""

    @property
    def look(self) -> ArmLook:
        """How states become frames."""
        return ArmLook(self.quality, self.squash, self.size, pool=self.pool)

    def around(self, seed: int) -> Context:
        """Known without rendering anything, but for the correlation."""
        shape = self.look.observed
        return Context(len(JOINTS), (shape, shape), seed=seed)


@register("world", "reacher")
@dataclass(frozen=True)
class ReacherSpec(ReacherLook):
    """Frames of dm_control's Reacher at Gaussian joint angles, rendered once and kept."""

    rho: float = 0.95
    """Correlation of a pair, in (0, 1)."""
    pairs: int = 20_000
    """Pairs to train on."""
    held_out: int = 10_000
    """Pairs that are held out; their first states are the same in all conditions."""

    def build(self, context: Context) -> Reacher:
        return Reacher.gaussian(
            self.rho,
            self.pairs,
            look=self.look,
            held_out=self.held_out,
            seed=self.states,
            data=self.data,
        )


@register("world", "reacher-episodes")
@dataclass(frozen=True)
class ReacherEpisodesSpec(ReacherLook):
    """Frames of dm_control's Reacher at recorded joint angles, rendered once and kept."""

    angles: str = ""
    """File of joint angles: NumPy's, (episodes, steps, 2), or episodes with a column qpos; or a policy's."""
    policy: str = "sac"
    """Whose episodes are recorded where no file is named, once, and kept: sac, random or ou."""
    episodes: int = 10_000
    """How many of them."""
    stride: int = 8
    """Steps between the two ends of a pair."""
    per_episode: int = 10
    """Pairs of each episode."""
    evaluation: str = "episodes"
    """What is held out: episodes, or the gaussian states that all conditions share."""
    held_out: float = 0.2
    """Share of the episodes that are held out, where episodes are."""

    def build(self, context: Context) -> Reacher:
        return self.drawn(None)

    def drawn(self, weigh: Callable[[Recorded], Recorded] | None) -> Reacher:
        """The world, its pairs to train on drawn by weights; see `Reacher.recorded`."""
        return Reacher.recorded(
            self.recording(),
            self.stride,
            per_episode=self.per_episode,
            weigh=weigh,
            look=self.look,
            evaluation=self.evaluation,
            held_out=self.held_out,
            seed=self.states,
            data=self.data,
        )

    def recording(self) -> Any:
        """Joint angles by episode: the file's, or those of a policy, recorded now if they never were."""
        if self.angles:
            return _read_angles(Path(self.angles).expanduser())
        return _policy_angles(self.policy, self.episodes, self.states, self.data)


@register("world", "reacher-isotropised")
@dataclass(frozen=True)
class ReacherIsotropisedSpec(ReacherEpisodesSpec):
    """Frames of dm_control's Reacher at recorded joint angles, pairs weighed towards the theorems' law."""

    strength: float = 1.0
    """How far, from 0, the recording's own law, to 1; see `isojepa.data.reweighting`."""
    method: str = "moments"
    """How pairs are weighed: rates, moments, marginals or reweight."""

    def build(self, context: Context) -> Reacher:
        choose("method", self.method, WEIGHERS)  # before episodes are recorded
        check_number("strength", self.strength, "lie in [0, 1]", lambda value: 0 <= value <= 1)
        return self.drawn(lambda pairs: isotropize(pairs, self.strength, self.method).recorded)
