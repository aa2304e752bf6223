"""What commands that move the arm have in common: encoders by name, episodes to learn from, how to plan."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from isojepa import runs
from isojepa.align.maps import AlignmentMap
from isojepa.arguments import check_count
from isojepa.cli.callables import is_callable_name, load_callable
from isojepa.cli.models import trained_on
from isojepa.encoders.convnets import ConvNet
from isojepa.names import choose, unknown
from isojepa.plan.closed_loop import (
    PLANNERS,
    SETTINGS,
    Angles,
    Encoder,
    Frames,
    LatentController,
    Learned,
    ReacherPlant,
    Setting,
    record,
    rotated,
    translated,
    warped,
)
from isojepa.seeds import generator
from isojepa.training.records import Record
from isojepa.worlds.episodes import Episodes, read_episodes
from isojepa.worlds.reacher import Look

_HELD_OUT = 0.3  # of the episodes
_MAPPED = 2000  # rows that a map between encoders is fitted on
_KNOWN: dict[str, Callable[[], Encoder]] = {
    "angles": Angles,
    "seen": lambda: Angles(wrapped=True),
    "rotated": lambda: rotated(Angles(), 2),
    "warped": lambda: warped(Angles()),
    "random": lambda: Frames(ConvNet(3, (16, 32, 64))),
}

_OF_ANGLES = ("angles", "seen", "rotated", "warped")


@dataclass(kw_only=True)
class Controlled:
    """Flags of the commands that move the arm."""

    setting: str = ""
    """How plans are made: receding, a plan after each 5 steps with a cost along the way, or published, all 25
    steps of a plan at once; receding by default, published for the published protocol."""
    horizon: int | None = None
    """Steps of the model in a plan; 5 in both settings."""
    block: int | None = None
    """Steps of the arm, 0.02 s each, in one of the model; 5 in both settings."""
    lag: int | None = None
    """Steps between the two frames that tell the velocity; by default 5, 1 for the true angles."""
    transition: str = "network"
    """The model of the latent: linear, or network, a small one for the rest."""
    episodes: Path | None = None
    """File of episodes to learn the transition from, with qpos, qvel and action; by default random ones are
    recorded."""
    recorded: int = 100
    """Episodes of 100 steps that are recorded, or read at most."""
    head: Path | None = None
    """Another encoder, in whose latent plans are made: the first one's frames go there through a map."""
    map: Path | None = None
    """The map from the encoder to --head, as `isojepa align --map` writes it; by default it is fitted on the
    recorded frames."""
    size: int = 64
    """Side in pixels of the frames that encoders of your own see; records know theirs."""
    seed: int = 0
    """Draws episodes, weights, tasks and the planners' noise."""
    json: bool = False
    """Print every number as JSON."""
    report: Path | None = None
    """Write everything as one self-contained HTML page, with the arm moving."""
    gif: Path | None = None
    """Write the arm moving, its goal as a ghost, as an animated GIF."""

    def chosen(self, default: str) -> Setting:
        """The setting, with what flags say besides."""
        setting = choose("setting", self.setting or default, SETTINGS)
        values = vars(setting) | {
            name: check_count(name, value)
            for name, value in (("horizon", self.horizon), ("block", self.block))
            if value is not None
        }
        values["execute"] = min(values["execute"], values["horizon"])
        return Setting(**values)

    def learn_from(self, plant: ReacherPlant, start: str = "gaussian") -> tuple[Episodes, Episodes]:
        """Episodes to fit on, and others that are held out; recorded ones start by a law of poses."""
        check_count("recorded", self.recorded, 4)
        if self.episodes is None:
            found = record(plant, self.recorded, 100, generator(self.seed, "episodes"), start=start)
        else:
            found = read_episodes(self.episodes)
            found = found.subset(range(min(self.recorded, len(found))))
        return found.split(_HELD_OUT, self.seed)

    def learned(
        self, plant: ReacherPlant, source: Path, parts: tuple[Episodes, Episodes]
    ) -> Callable[[str, Setting], LatentController]:
        """What makes controllers of an encoder, by the name of the planner."""
        encoder = open_encoder(source, self.size)
        if self.head is None:
            if self.map is not None:
                raise ValueError("map leads to the latent of another encoder: say which, --head")
            return self._learned(plant, source, encoder, parts).controller
        inner = self._learned(plant, source, open_encoder(self.head, self.size), parts)
        eyes = translated(encoder, self._map(plant, encoder, inner.encoder, parts[0]))
        return lambda planner, setting: inner.controller(planner, setting, eyes)

    def _learned(
        self, plant: ReacherPlant, eyes: Path, encoder: Encoder, parts: tuple[Episodes, Episodes]
    ) -> Learned:
        lag = (1 if str(eyes) in _OF_ANGLES else 5) if self.lag is None else check_count("lag", self.lag)
        return Learned(plant, encoder, *parts, kind=self.transition, lag=lag, seed=self.seed)

    def _map(self, plant: ReacherPlant, first: Encoder, second: Encoder, episodes: Episodes) -> AlignmentMap:
        if self.map is not None:
            return AlignmentMap.load(self.map)
        poses = np.concatenate(episodes.vectors("qpos"))
        poses = poses[:: max(1, len(poses) // _MAPPED)]
        h1, h2 = (one(plant, poses).double().numpy() for one in (first, second))
        return AlignmentMap(constant="ignore").fit(h1, h2)


def open_encoder(source: Path, size: int = 64) -> Encoder:
    """The encoder that a person named: a record of one of frames, file.py:function, or one of `_KNOWN`.

    Raises:
        ValueError: there is none, or it was trained on something else than square frames of three colours.
    """
    text = str(source)
    if is_callable_name(text):
        return Frames(load_callable(text), Look(size=size))
    if not source.is_dir():
        if source.exists() or "/" in text:
            raise ValueError(f"{text} is no record; an encoder of your own is file.py:function")
        return choose("encoder, where it is no record or file.py:function,", text, _KNOWN)()
    given = trained_on(source)
    if given is None or len(given.shape) != 3 or given.shape[0] != 3 or given.shape[1] != given.shape[2]:
        shape = "something else" if given is None else f"views of shape {given.shape}"
        raise ValueError(
            f"record {source} must be of an encoder of square frames, (3, size, size), got {shape}"
        )
    model: nn.Module = runs.load(source)
    told = (Record.open(source).result or {}).get("source") or {}
    own = told if told.get("world") == "reacher" else {}
    pool = int(own.get("pool", 1))
    look = Look(str(own.get("quality", "fast")), size=pool * given.shape[-1], pool=pool)
    colours = None if given.mean is None or given.std is None else (given.mean, given.std)
    return Frames(model, look, colours)


def check_planners(names: tuple[str, ...]) -> None:
    """Say which planner does not exist.

    Raises:
        ValueError: one does not.
    """
    for name in names:
        if name not in PLANNERS:
            raise ValueError(unknown("planner", name, PLANNERS))


def pair_of(name: str, text: str) -> Any:
    """Two angles as a person writes them, "0.5,-1.2", as a row (1, 2).

    Raises:
        ValueError: they are not two numbers.
    """
    try:
        values = [float(part) for part in text.replace(",", " ").split()]
    except ValueError:
        values = []
    if len(values) != 2:
        raise ValueError(
            f"{name} must be two angles in rad, shoulder and wrist, such as 0.5,-1.2, got {text!r}"
        )
    return np.array([values])
