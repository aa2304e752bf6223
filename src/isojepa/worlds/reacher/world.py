"""The Reacher as a world: pairs of frames of its arm, rendered once, with the joint angles as latents.

    Reacher.gaussian(rho)           z ~ N(0, I),  z' = rho z + sqrt(1 - rho^2) eta
    Reacher.recorded(angles, d)     pairs (theta_t, theta_{t+d}) of recorded episodes, rendered anew

The two conditions of Klindt, LeCun & Balestriero (2026), "When Does LeJEPA Learn a World Model?", Section 5.2
and Appendix D. Pairs are a finite set, gone through in epochs; what evaluations and certificates look at is
held out: N(0, I) states that are the same for all conditions, or other episodes. Frames are uint8 on the disk
and float32 only in a batch.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.arguments import check_count, checked
from isojepa.names import choose
from isojepa.seeds import generator
from isojepa.worlds.as_source import Arrays
from isojepa.worlds.batch import Batch
from isojepa.worlds.frames import release
from isojepa.worlds.processes import OrnsteinUhlenbeck
from isojepa.worlds.reacher.ceiling import r2_ceiling, sample_ceiling
from isojepa.worlds.reacher.episodes import content_of, some_pairs, trajectories_of
from isojepa.worlds.reacher.look import COLOURS, JOINTS, Look, wrapped_shares
from isojepa.worlds.reacher.states import States, keep_states
from isojepa.worlds.source import Facts, Source, Streams
from isojepa.worlds.trajectories import Recorded, Standardiser

EVALUATIONS = ("episodes", "gaussian")
_KEPT = 4096  # pairs after which pages of the frames are given back
_IDENTITY = Standardiser(np.zeros(len(JOINTS)), np.ones(len(JOINTS)))


class Reacher:
    """Pairs of rendered states: a finite set with known latents, observable at any others.

    Make one by `Reacher.gaussian` or `Reacher.recorded`.

    Args:
        first, second: the states of both views with their frames.
        look: how states become frames.
        correlation: of each latent across a pair.
        gaussian: whether the latents are N(0, I).
        standardiser: from states to latents.
        episodes: (pairs,) which episode each is of, for splits; the pair's number by default.
        stride: steps between the two ends of a pair, where they are recorded.
        held: makes the source of held-out states.
    """

    def __init__(
        self,
        first: States,
        second: States,
        look: Look,
        *,
        correlation: float | tuple[float, ...],
        gaussian: bool,
        standardiser: Standardiser = _IDENTITY,
        episodes: np.ndarray | None = None,
        stride: int | None = None,
        held: Callable[[], Source] | None = None,
    ) -> None:
        self.views, self.look, self.standardiser = (first, second), look, standardiser
        self.episodes, self.stride = episodes, stride
        self._pairs = Arrays(
            tuple(view.frames for view in self.views),
            latents=tuple(standardiser.apply(view.z).astype(np.float32) for view in self.views),
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
    @checked
    def gaussian(
        cls,
        rho: float = 0.95,
        pairs: int = 20_000,
        *,
        look: Look | None = None,
        held_out: int = 10_000,
        seed: int = 0,
        data: str = "",
        processes: int | None = None,
    ) -> "Reacher":
        """Pairs of the stationary Gaussian process, as the theorems ask; that frames tell all takes `squash`.

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
        look = look or Look()
        check_count("held_out", held_out, 2)

        def held() -> Source:
            return cls.shared(rho, held_out, look=look, data=data, processes=processes)

        views = _normal(rho, pairs, "train", seed, look, data, processes)
        return cls(*views, look, correlation=rho, gaussian=True, held=held)

    @classmethod
    @checked
    def shared(
        cls,
        rho: float = 0.95,
        pairs: int = 10_000,
        *,
        look: Look | None = None,
        data: str = "",
        processes: int | None = None,
    ) -> "Reacher":
        """The Gaussian pairs that nothing is trained on; their first states are the same for every rho.

        Args:
            rho, pairs, look, data, processes: as of `gaussian`.
        """
        look = look or Look()
        views = _normal(rho, pairs, "held-out", 0, look, data, processes)
        return cls(*views, look, correlation=rho, gaussian=True)

    @staticmethod
    def shared_latents(pairs: int = 10_000) -> np.ndarray:
        """The first latents (pairs, 2) of `shared`, float32, for those who need no frames."""
        return _first_states(check_count("pairs", pairs), "held-out", 0).numpy()

    @classmethod
    @checked
    def recorded(
        cls,
        angles: Any,
        stride: int,
        *,
        per_episode: int = 10,
        weigh: Callable[[Recorded], Recorded] | None = None,
        look: Look | None = None,
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
                `isojepa.isotropise`; what is held out has none.
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
        look = look or Look()
        choose("evaluation", evaluation, dict.fromkeys(EVALUATIONS))
        check_count("per_episode", per_episode)
        train = other = Recorded(trajectories_of(angles), stride=stride)
        if evaluation == "episodes":
            train, other = train.split(held_out, seed)
        if weigh is not None:
            train = weigh(train)

        def pairs_of(part: str, recorded: Recorded, held: Callable[[], Source] | None) -> "Reacher":
            source = generator(seed, "reacher", "pairs", part)
            path, ends = some_pairs(recorded, per_episode, source)
            first, second = (keep_states(end, content_of(end), look, data, processes) for end in ends)
            return cls(
                first,
                second,
                look,
                correlation=recorded.correlation,
                gaussian=False,
                standardiser=train.standardiser,
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
        if self._taken >= _KEPT:
            self._taken = 0
            for view in self.views:
                release(view.frames)
        return Batch(tuple(self.look.normalised(view) for view in batch.views), z=batch.z, ids=batch.ids)

    @torch.no_grad()
    def observe(self, z: Tensor) -> Tensor:
        """What is seen at latents (batch, 2), drawn now: (batch, 3, side, side)."""
        states = self.standardiser.restore(z.detach().cpu().numpy()).astype(np.float32)
        return self.look.normalised(self.look.frames(states)).to(z.dtype)

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
        mean, std = COLOURS[self.look.quality]
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
    rho: float, count: int, part: str, seed: int, look: Look, data: str, processes: int | None
) -> tuple[States, States]:
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
