"""A rig of cameras on a vehicle that drives through a street, rendered by MuJoCo.

The shape of nuScenes: cameras to the front, to both sides and to the rear, whose fields of view of 60° share
no direction, take their frames at the same moments. What they share is where the vehicle is: the street turns
from open land to trees, houses and towers and back, in colours of its own, under the light of the drive.
Other vehicles stand and drive along. Labels are the surroundings: open, trees, houses, towers. Splits go by
drive.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from isojepa.arguments import check_count
from isojepa.names import unknown
from isojepa.registry import register
from isojepa.seeds import generator
from isojepa.worlds.environments.rendered import RenderedEnvironment, grey
from isojepa.worlds.environments.shapes import Draws, Geom, hue, vehicle
from isojepa.worlds.images.observers import Observer
from isojepa.worlds.images.pictures import Stack
from isojepa.worlds.rendering import Renderer, import_mujoco

YAWS = {"front": 0.0, "left": 90.0, "right": -90.0, "rear": 180.0}
SURROUNDINGS = ("open", "trees", "houses", "towers")
_FIELD = 60.0  # degrees that a camera sees, across and up
_LENGTH = 160.0  # metres of street that a drive may cover
_BEYOND = 60.0  # metres of street before and after
_SLOT = 5.0  # metres between things beside the street
_OTHERS = 3  # vehicles that drive along
_LANE = 2.0  # metres from the middle of the street to that of a lane


@register("environment", "rig")
@dataclass(frozen=True)
class RigSpec(RenderedEnvironment):
    """Front, side and rear cameras of a vehicle in a street, rendered by MuJoCo in the shape of nuScenes."""

    cameras: tuple[str, ...] = ("front", "rear")
    """Which cameras: front, left, right, rear."""
    drives: int = 40
    """Number of drives, each through a street of its own."""
    steps: int = 60
    """Moments of a drive at which all cameras take a frame."""
    size: int = 64
    """Side of the frames in pixels."""
    colour: bool = True
    """Frames in colour; else in grey."""
    streets: int = 0
    """Seed that streets and drives are drawn from."""

    def scene(self) -> dict[str, Any]:
        """What decides the pixels."""
        names = ("cameras", "drives", "steps", "size", "colour", "streets")
        return {name: getattr(self, name) for name in names}

    def blocks(self) -> int:
        """One for each drive."""
        return self.drives

    def block_shape(self) -> tuple[int, ...]:
        """All frames of a drive: (steps, cameras) in one row."""
        return (self.steps * len(self.cameras), self.size, self.size, *([3] if self.colour else []))

    def render_block(self, block: int) -> np.ndarray:
        """The frames of one drive."""
        mujoco = import_mujoco()
        drive = Drive.drawn(block, self.steps, self.streets)
        model = mujoco.MjModel.from_xml_string(drive.xml(self.size))
        data = mujoco.MjData(model)
        frames = np.empty(self.block_shape(), dtype=np.uint8)
        place = 0
        with Renderer(model, self.size, self.size) as renderer:
            for step in range(self.steps):
                half = drive.heading[step] / 2
                data.mocap_pos[0] = (drive.along[step], drive.across[step], 1.6)
                data.mocap_quat[0] = (math.cos(half), 0, 0, math.sin(half))
                for number in range(_OTHERS):
                    data.mocap_pos[1 + number, :2] = drive.others[step, number]
                mujoco.mj_forward(model, data)
                for camera in self.cameras:
                    picture = renderer.render(data, camera)
                    frames[place] = picture if self.colour else grey(picture)
                    place += 1
        return frames

    def observed(self) -> tuple[Observer, ...]:
        """The frames of each camera, labelled by the surroundings."""
        for name in ("drives", "steps"):
            check_count(name, getattr(self, name))
        check_count("size", self.size, 8, 2048)
        for camera in self.cameras:
            if camera not in YAWS or self.cameras.count(camera) > 1:
                raise ValueError(unknown("cameras, each once,", camera, YAWS))
        frames = self.frames()
        drawn = [Drive.drawn(drive, self.steps, self.streets) for drive in range(self.drives)]
        labels = np.concatenate([drive.surroundings() for drive in drawn])
        keys = tuple((drive, step) for drive in range(self.drives) for step in range(self.steps))
        states = torch.tensor([drive for drive, _ in keys])
        return tuple(
            Observer(camera, Stack(frames[number :: len(self.cameras)], labels, SURROUNDINGS), keys, states)
            for number, camera in enumerate(self.cameras)
        )


@dataclass(frozen=True)
class Drive:
    """One drive through one street.

    Attributes:
        number, seed: which it is.
        along, across, heading: (steps,) of the vehicle: metres along the street and to the left of its
            middle, and radians to the left.
        others: (steps, vehicles, 2) where the others are.
        density: (slots,) from 0, open land, to 1, towers.
        tint: (slots,) hue of what stands there.
        daylight: from 0.5, dusk, to 1.
    """

    number: int
    seed: int
    along: np.ndarray
    across: np.ndarray
    heading: np.ndarray
    others: np.ndarray
    density: np.ndarray
    tint: np.ndarray
    daylight: float

    @classmethod
    def drawn(cls, number: int, steps: int, seed: int) -> "Drive":
        """A drive, drawn from its own streams of the seed."""
        draws = Draws(generator(seed, "drive", number))
        slots = int((_LENGTH + 2 * _BEYOND) / _SLOT)
        density = _smooth(draws, slots, 14)
        density = np.array([0.5 * (1 + math.erf(1.3 * value / math.sqrt(2))) for value in density])
        tint = draws.between(0, 1) + 0.12 * _smooth(draws, slots, 16)
        pace = (_LENGTH / steps) * (0.75 + 0.2 * np.tanh(_smooth(draws, steps, 12)))
        along = np.cumsum(pace)
        across = -_LANE + 0.5 * _smooth(draws, steps, 12)
        heading = np.gradient(across, along) if steps > 1 else np.zeros(steps)
        heading = heading + 0.05 * _smooth(draws, steps, 8)
        others = np.empty((steps, _OTHERS, 2))
        for other in range(_OTHERS):
            start, speed = draws.between(-30, 40), draws.between(-0.5, 0.5)
            lane = -1.0 if other < 2 else 1.0  # two in our lane, one comes towards us
            gap = start + speed * np.arange(steps)
            if lane < 0:
                gap = np.where(gap >= 0, gap + 8, gap - 8)  # nobody drives into anybody
                others[:, other, 0] = along + gap
            else:
                others[:, other, 0] = _LENGTH - along + start
            others[:, other, 1] = lane * _LANE
        return cls(number, seed, along, across, heading, others, density, tint, draws.between(0.5, 1.0))

    def surroundings(self) -> np.ndarray:
        """(steps,) number of the surroundings at each moment."""
        slots = ((self.along + _BEYOND) / _SLOT).astype(int).clip(0, len(self.density) - 1)
        kinds: np.ndarray = (self.density[slots] * len(SURROUNDINGS)).astype(np.int64)
        return kinds.clip(0, len(SURROUNDINGS) - 1)

    def xml(self, size: int) -> str:
        """The model of the street, with the cameras and the other vehicles as bodies that are moved."""
        draws = Draws(generator(self.seed, "street", self.number))
        parts = _ground(self.daylight, draws)
        for slot in range(len(self.density)):
            for side in (-1, 1):
                parts += _beside(draws, self.density[slot], self.tint[slot], slot * _SLOT - _BEYOND, side)
        others = ""
        for _ in range(_OTHERS):
            paint = hue(draws.between(0, 1), 0.7, 0.8)
            shape = "".join(part.xml() for part in vehicle(draws, paint, truck=draws.chance(0.25)))
            others += f'<body mocap="true">{shape}</body>'
        cameras = "".join(
            f'<camera name="{name}" fovy="{_FIELD}" xyaxes="{_axes(yaw)}"/>' for name, yaw in YAWS.items()
        )
        light, sky = 0.9 * self.daylight, self.daylight
        low = f"{0.85 * sky:.3f} {0.8 * sky:.3f} {0.75 * sky:.3f}"
        lean = draws.between(-1, 1)
        return (
            '<mujoco><compiler angle="degree"/><visual>'
            f'<global offwidth="{size}" offheight="{size}"/><map znear="0.02" zfar="40"/>'
            f'<headlight ambient="{0.35 * sky:.3f} {0.35 * sky:.3f} {0.4 * sky:.3f}" diffuse="0 0 0" '
            'specular="0 0 0"/></visual><statistic extent="10" center="0 0 0"/>'
            f'<asset><texture type="skybox" builtin="gradient" rgb1="{0.35 * sky:.3f} {0.5 * sky:.3f} '
            f'{0.85 * sky:.3f}" rgb2="{low}" width="64" height="64"/></asset><worldbody>'
            f'<light directional="true" castshadow="false" dir="{lean:.3f} 0.5 -1" '
            f'diffuse="{light:.3f} {0.95 * light:.3f} {0.85 * light:.3f}" specular="0 0 0"/>'
            f'{"".join(part.xml() for part in parts)}<body mocap="true">{cameras}</body>{others}'
            "</worldbody></mujoco>"
        )


def _ground(daylight: float, draws: Draws) -> list[Geom]:
    middle, half = _LENGTH / 2, _LENGTH / 2 + 2 * _BEYOND
    grass = hue(draws.between(0.18, 0.33), 0.45, 0.5)
    parts = [Geom("box", (half, 200.0, 0.05), (middle, 0, -0.1), colour=grass)]
    parts.append(Geom("box", (half, 4.2, 0.05), (middle, 0, -0.05), colour=(0.28, 0.28, 0.3)))
    for side in (-1, 1):
        parts.append(Geom("box", (half, 1.0, 0.05), (middle, side * 5.3, 0.0), colour=(0.6, 0.6, 0.58)))
    marks = int((_LENGTH + 2 * _BEYOND) / 8)
    for mark in range(marks):
        place = (mark * 8.0 - _BEYOND, 0.0, 0.01)
        parts.append(Geom("box", (1.5, 0.1, 0.01), place, colour=(0.9, 0.9, 0.85)))
    return parts


def _beside(draws: Draws, density: float, tint: float, along: float, side: int) -> list[Geom]:
    """What stands at one place beside the street: nothing, a tree, a house or a tower; a parked vehicle."""
    parts: list[Geom] = []
    kind = min(3, max(0, int(4 * density + draws.between(-0.5, 0.5))))
    x, away, big = along + draws.between(-1, 1), draws.between(0, 3), draws.between(0.7, 1.3)
    shade = draws.between(0.45, 0.85)
    wall = hue(tint + draws.between(-0.04, 0.04), 0.45, draws.between(0.5, 0.9))
    if kind == 1 or (kind == 0 and draws.chance(0.15)):
        y, tall = side * (8 + away), 2.2 * big
        trunk = ((x, y, 0.0), (x, y, tall))
        parts.append(Geom("cylinder", (0.2,), ends=trunk, colour=(0.35, 0.25, 0.15)))
        crown = hue(0.3 + 0.3 * (tint % 1 - 0.5), 0.6, 0.65 * shade)
        parts.append(
            Geom("ellipsoid", (1.6 * big, 1.6 * big, 1.9 * big), (x, y, tall + 1.2 * big), colour=crown)
        )
    elif kind >= 2:
        high = (3.0 if kind == 2 else 11.0) * big
        deep = 3.0
        y = side * (8 + away * 0.5 + deep)
        parts.append(Geom("box", (2.3, deep, high / 2), (x, y, high / 2), colour=wall))
        if kind == 2:  # a roof
            roof = hue(tint + 0.5, 0.5, 0.45)
            parts.append(Geom("box", (2.3, 2.2, 2.2), (x, y, high), turn=(45, 0, 0), colour=roof))
        else:  # windows: dark bands
            for floor in range(1, 4):
                band = (x, y - side * (deep - 0.03), floor * high / 4)
                parts.append(Geom("box", (2.0, 0.08, high / 14), band, colour=(0.15, 0.18, 0.25)))
    if draws.chance(0.18):
        paint = hue(draws.between(0, 1), 0.6, 0.75)
        place = (x, side * 5.2, 0.0)
        parts += [part.moved(place) for part in vehicle(draws, paint, truck=draws.chance(0.15))]
    return parts


def _smooth(draws: Draws, count: int, scale: int) -> np.ndarray:
    """A stationary smooth path of variance 1 whose values `scale` steps apart are independent."""
    window = np.hanning(scale + 2)[1:-1]
    noise = np.array([draws.normal() for _ in range(count + scale - 1)])
    return np.convolve(noise, window / np.linalg.norm(window), mode="valid")


def _axes(yaw: float) -> str:
    """Right and up of a camera that looks along the ground, some degrees to the left of the front."""
    angle = math.radians(yaw)
    return f"{math.sin(angle):.6f} {-math.cos(angle):.6f} 0 0 0 1"
