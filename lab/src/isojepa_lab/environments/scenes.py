"""Environments whose images MuJoCo renders, once: toys on a turntable, and a rig of cameras in a street.

A shape is a list of MuJoCo's primitives; x is forward, y to the left, z up. Parameters that vary between
instances are drawn from a generator in a fixed order.

`ToysSpec` has the shape of smallNORB: animals, humans, planes, trucks and cars, ten instances of each, 9
elevations from 30° to 70°, 6 lightings, and azimuths in steps of 20°, of which each observer has one. The
toy turns and the lights stand still, as on a turntable. Images are grey, 96 × 96, by default; splits go
by toy.

`RigSpec` has the shape of nuScenes: cameras to the front, to both sides and to the rear, whose fields of
view of 60° share no direction, take their frames at the same moments. What they share is where the vehicle
is: the street turns from open land to trees, houses and towers and back, in colors of its own, under the
light of the drive. Other vehicles stand and drive along. Labels are the surroundings: open, trees, houses,
towers. Splits go by drive.
"""

import colorsys
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isojepa.data.images.image_sets import Stack
from isojepa.data.images.source import ImageEnvironment, Observer
from isojepa.registry import register
from isojepa.seeds import generator
from isojepa.validation import check_count, unknown
from isojepa_lab.environments.rendering import Renderer, import_mujoco, store_folder, stored_frames


@dataclass(frozen=True)
class RenderedEnvironment(ImageEnvironment):
    """An environment whose images are rendered by MuJoCo, once, and kept in the folder `data`."""

    processes: int = 1
    """Processes that render."""

    def scene(self) -> dict[str, Any]:
        """The settings that decide the pixels, as JSON can hold them."""
        raise NotImplementedError(f"{type(self).__name__} must define scene()")

    def blocks(self) -> int:
        """Number of blocks, each of which is rendered by itself."""
        raise NotImplementedError(f"{type(self).__name__} must define blocks()")

    def block_shape(self) -> tuple[int, ...]:
        """(frames, height, width) or (frames, height, width, 3) of every block."""
        raise NotImplementedError(f"{type(self).__name__} must define block_shape()")

    def render_block(self, block: int) -> np.ndarray:
        """The frames of one block, uint8; a function of the scene and the block's number alone."""
        raise NotImplementedError(f"{type(self).__name__} must define render_block(block)")

    def shape(self) -> tuple[int, ...]:
        """Shape of all frames."""
        count, *rest = self.block_shape()
        return (self.blocks() * count, *rest)

    def place(self) -> Path:
        """The folder of the frames."""
        return store_folder(self)

    def frames(self) -> np.ndarray:
        """All frames, memory-mapped; rendered if they are not there, see `stored_frames`."""
        return stored_frames(self)


def grey(picture: np.ndarray) -> np.ndarray:
    """An image (height, width, 3) in grey, as Pillow weighs colors."""
    weighted: np.ndarray = picture @ np.array([0.299, 0.587, 0.114])
    rounded: np.ndarray = np.rint(weighted).astype(np.uint8)
    return rounded


Point = tuple[float, float, float]
_Color = tuple[float, float, float]


@dataclass(frozen=True)
class _Geom:
    """One primitive.

    Attributes:
        kind: box, sphere, ellipsoid, capsule or cylinder.
        size: as MuJoCo takes it; of capsules and cylinders the radius alone, with `ends`.
        position: of its center, where it has no ends.
        ends: of a capsule's or cylinder's axis.
        turn: about x, y and z, in degrees.
        color: red, green and blue in [0, 1].
    """

    kind: str
    size: tuple[float, ...]
    position: Point = (0.0, 0.0, 0.0)
    ends: tuple[Point, Point] | None = None
    turn: Point = (0.0, 0.0, 0.0)
    color: _Color = (0.6, 0.6, 0.6)

    def xml(self) -> str:
        """As MuJoCo reads it."""
        place = f'pos="{_text(self.position)}" euler="{_text(self.turn)}"'
        if self.ends is not None:
            place = f'fromto="{_text(self.ends[0])} {_text(self.ends[1])}"'
        return (
            f'<geom type="{self.kind}" size="{_text(self.size)}" {place} rgba="{_text(self.color)} 1" '
            'contype="0" conaffinity="0"/>'
        )

    def moved(self, by: Point) -> "_Geom":
        """The same elsewhere."""
        ends = None if self.ends is None else (_add(self.ends[0], by), _add(self.ends[1], by))
        return replace(self, position=_add(self.position, by), ends=ends)


class _ShapeDraws:
    """Numbers from a generator, one after the other."""

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator

    def between(self, low: float, high: float) -> float:
        """A uniform number."""
        return low + (high - low) * float(torch.rand((), generator=self._generator, dtype=torch.float64))

    def chance(self, probability: float) -> bool:
        """Whether something happens."""
        return self.between(0, 1) < probability

    def normal(self) -> float:
        """A standard normal number."""
        return float(torch.randn((), generator=self._generator, dtype=torch.float64))


def hue(value: float, saturation: float, brightness: float) -> _Color:
    """A color by its place on the circle."""
    return colorsys.hsv_to_rgb(value % 1, min(1.0, max(0.0, saturation)), min(1.0, max(0.0, brightness)))


def vehicle(draws: _ShapeDraws, color: _Color, *, truck: bool = False) -> list[_Geom]:
    """A car or a truck on the ground, its middle at the origin; about as large as a real one in metres."""
    dark, glass = (0.08, 0.08, 0.08), _scaled(color, 0.4, 0.05)
    length, width = (
        (draws.between(5.5, 8), 2.2) if truck else (draws.between(3.4, 4.8), draws.between(1.6, 1.9))
    )
    wheel = draws.between(0.42, 0.55) if truck else draws.between(0.28, 0.38)
    parts: list[_Geom] = []
    if truck:
        cab, height = draws.between(1.4, 1.9), draws.between(1.6, 2.8)
        top = draws.between(1.5, 2.1)
        parts.append(_box((length / 2 - cab / 2, 0, wheel + top / 2), (cab, width, top), color))
        cargo = _scaled(color, 0.55, 0.4)
        middle = (-(cab + 0.15) / 2, 0, wheel + 0.2 + height / 2)
        if draws.chance(0.3):  # a tank in place of a box
            ends = (
                (-length / 2 + height / 2, 0.0, middle[2]),
                (length / 2 - cab - height / 2, 0.0, middle[2]),
            )
            parts.append(_Geom("capsule", (height / 2,), ends=ends, color=cargo))
        else:
            parts.append(_box(middle, (length - cab - 0.15, width, height), cargo))
        parts.append(_box((0, 0, wheel), (length, width * 0.8, 0.25), dark))
    else:
        height, cabin = draws.between(0.5, 0.75), draws.between(0.45, 0.6)
        back = draws.between(-0.2, 0.05) * length
        parts.append(_box((0, 0, wheel + height / 2), (length, width, height), color))
        place = (back, 0.0, wheel + height + cabin * 0.35)
        if draws.chance(0.5):
            size = (length * draws.between(0.24, 0.32), width * 0.46, cabin)
            parts.append(_Geom("ellipsoid", size, place, color=glass))
        else:
            parts.append(_box(place, (length * draws.between(0.4, 0.55), width * 0.88, cabin * 1.3), glass))
        if draws.chance(0.3):
            parts.append(_box((-length / 2, 0, wheel + height + 0.35), (0.3, width, 0.08), dark))
    axles = (-0.32, 0.32) if not truck or draws.chance(0.5) else (-0.36, -0.16, 0.34)
    for axle in axles:
        for side in (-1, 1):
            ends = ((axle * length, side * width * 0.4, wheel), (axle * length, side * width * 0.55, wheel))
            parts.append(_Geom("cylinder", (wheel,), ends=ends, color=dark))
    return parts


def animal(draws: _ShapeDraws, color: _Color) -> list[_Geom]:
    """Four legs, a neck, a head, a tail; ears or horns."""
    length, girth, legs = draws.between(0.9, 1.7), draws.between(0.22, 0.42), draws.between(0.35, 1.0)
    body = legs + girth * 0.7
    parts = [_Geom("ellipsoid", (length / 2, girth, girth), (0, 0, body), color=color)]
    thick = draws.between(0.05, 0.11)
    stride = draws.between(-0.2, 0.2)
    for front in (-1, 1):
        for side in (-1, 1):
            x, y = front * length * 0.33, side * girth * 0.6
            foot = x + stride * front * side
            parts.append(_Geom("capsule", (thick,), ends=((x, y, body), (foot, y, thick)), color=color))
    reach, rise = draws.between(0.1, 0.4), draws.between(0.1, 0.9)
    neck = (length * 0.42, 0.0, body + girth * 0.4)
    head = (neck[0] + reach, 0.0, neck[2] + rise)
    parts.append(_Geom("capsule", (draws.between(0.08, 0.15),), ends=(neck, head), color=color))
    skull = draws.between(0.14, 0.26)
    parts.append(_Geom("ellipsoid", (skull * draws.between(1.2, 1.9), skull, skull), head, color=color))
    long = draws.between(0.08, 0.4)
    for side in (-1, 1):
        start = (head[0] - skull * 0.4, side * skull * 0.6, head[2] + skull * 0.5)
        end = (start[0] - 0.1, start[1] + side * long * 0.4, start[2] + long)
        parts.append(_Geom("capsule", (0.035,), ends=(start, end), color=color))
    tail = (-length / 2, 0.0, body + girth * 0.3)
    end = (-length / 2 - draws.between(0.1, 0.5), 0.0, tail[2] + draws.between(-0.5, 0.4))
    return [*parts, _Geom("capsule", (draws.between(0.03, 0.07),), ends=(tail, end), color=color)]


def human(draws: _ShapeDraws, color: _Color) -> list[_Geom]:
    """Legs, trunk, arms in a pose of their own, a head; a hat, a shield or a staff."""
    legs, trunk, wide = draws.between(0.7, 1.0), draws.between(0.5, 0.75), draws.between(0.18, 0.32)
    thick = draws.between(0.07, 0.13)
    parts = [_Geom("ellipsoid", (thick * 1.6, wide, trunk * 0.62), (0, 0, legs + trunk / 2), color=color)]
    shoulder = legs + trunk * 0.92
    for side in (-1, 1):
        step = draws.between(-0.35, 0.35)
        hip, foot = (0.0, side * wide * 0.5, legs), (step, side * wide * draws.between(0.5, 1.3), thick)
        parts.append(_Geom("capsule", (thick,), ends=(hip, foot), color=color))
        elbow = (draws.between(-0.15, 0.35), side * (wide + draws.between(0.08, 0.4)), shoulder - 0.28)
        hand = (elbow[0] + draws.between(0, 0.35), elbow[1], elbow[2] + draws.between(-0.35, 0.45))
        start = (0.0, side * wide * 0.9, shoulder)
        parts.append(_Geom("capsule", (thick * 0.75,), ends=(start, elbow), color=color))
        parts.append(_Geom("capsule", (thick * 0.65,), ends=(elbow, hand), color=color))
        if side > 0 and draws.chance(0.4):
            low, high = draws.between(0.3, 0.7), draws.between(0.4, 0.9)
            ends = ((hand[0], hand[1], hand[2] - low), (hand[0], hand[1], hand[2] + high))
            parts.append(_Geom("capsule", (0.03,), ends=ends, color=color))
    head = draws.between(0.13, 0.2)
    parts.append(_Geom("sphere", (head,), (0, 0, shoulder + 0.1 + head), color=color))
    if draws.chance(0.5):
        top = shoulder + 0.1 + 1.6 * head
        ends = ((0.0, 0.0, top), (0.0, 0.0, top + draws.between(0.04, 0.25)))
        parts.append(_Geom("cylinder", (head * draws.between(0.8, 1.5),), ends=ends, color=color))
    return parts


def plane(draws: _ShapeDraws, color: _Color) -> list[_Geom]:
    """A fuselage, wings with a sweep, a tail; engines under the wings."""
    length, girth = draws.between(1.8, 2.6), draws.between(0.12, 0.24)
    parts = [_Geom("ellipsoid", (length / 2, girth, girth * draws.between(0.9, 1.3)), color=color)]
    span, chord, sweep = draws.between(0.8, 1.4), draws.between(0.25, 0.5), draws.between(-5, 40)
    high, root = draws.between(-0.8, 0.9) * girth, draws.between(-0.1, 0.25) * length
    engines = draws.chance(0.6)
    along = float(torch.tensor(sweep).deg2rad().tan())
    for side in (-1, 1):
        middle = (root - along * span / 2, side * span / 2, high)
        parts.append(
            _Geom("box", (chord / 2, span / 2, 0.03), middle, turn=(0, 0, side * sweep), color=color)
        )
        back = (-length * 0.44, side * span * 0.2, girth * 0.3)
        parts.append(_Geom("box", (chord * 0.3, span * 0.2, 0.025), back, color=color))
        if engines:
            x, y = root - along * span * 0.4, side * span * 0.4
            ends = ((x, y, high - 0.14), (x + 0.35, y, high - 0.14))
            parts.append(_Geom("cylinder", (0.09,), ends=ends, color=color))
    fin = draws.between(0.2, 0.45)
    parts.append(
        _Geom("box", (chord * 0.35, 0.025, fin / 2), (-length * 0.44, 0, girth + fin / 2), color=color)
    )
    if not engines:
        parts.append(
            _Geom("box", (0.02, 0.04, girth * 1.8), (length / 2, 0, 0), turn=(35, 0, 0), color=color)
        )
    return [part.moved((0, 0, 0.6)) for part in parts]


TOYS: dict[str, Callable[[_ShapeDraws, _Color], list[_Geom]]] = {
    "animal": animal,
    "human": human,
    "plane": plane,
    "truck": lambda draws, color: vehicle(draws, color, truck=True),
    "car": vehicle,
}


def _box(position: Point, sides: Point, color: _Color) -> _Geom:
    return _Geom("box", (sides[0] / 2, sides[1] / 2, sides[2] / 2), position, color=color)


def _scaled(color: _Color, by: float, plus: float) -> _Color:
    return (by * color[0] + plus, by * color[1] + plus, by * color[2] + plus)


def _add(a: Point, b: Point) -> Point:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def _text(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:.5f}" for value in values)


ELEVATIONS = tuple(range(30, 71, 5))
_AZIMUTHS = tuple(range(0, 360, 20))
# how bright each of four lights is, in each lighting: from the left, the right, the camera, and above
LIGHTINGS = (
    (0.7, 0.0, 0.0, 0.2),
    (0.0, 0.7, 0.0, 0.2),
    (0.0, 0.0, 0.7, 0.1),
    (0.35, 0.35, 0.0, 0.3),
    (0.0, 0.0, 0.2, 0.65),
    (0.25, 0.0, 0.25, 0.1),
)
_FROM = ((1.0, 2.0, 1.2), (1.0, -2.0, 1.2), (2.0, 0.0, 1.0), (0.3, 0.0, 2.0))
_TOY_FIELD = 40.0  # degrees that the camera sees
_MARGIN = 1.05  # around the ball that holds a toy, so that none is cut off


@register("environment", "toys")
@dataclass(frozen=True)
class ToysSpec(RenderedEnvironment):
    """Toys under azimuth, elevation and lighting, rendered by MuJoCo in the shape of smallNORB."""

    azimuths: tuple[int, ...] = (0, 160)
    """Azimuths of the observers in degrees, from 0 to 340 in steps of 20."""
    instances: int = 10
    """Instances of each category."""
    size: int = 96
    """Side of the images in pixels."""
    colour: bool = False
    """Pictures in color; else in grey."""
    shapes: int = 0
    """Seed that instances are drawn from."""

    def scene(self) -> dict[str, Any]:
        """What decides the pixels."""
        names = ("azimuths", "instances", "size", "colour", "shapes")
        return {name: getattr(self, name) for name in names}

    def blocks(self) -> int:
        """One for each toy."""
        return len(TOYS) * self.instances

    def block_shape(self) -> tuple[int, ...]:
        """All conditions of one toy: (azimuths, elevations, lightings) in one row."""
        count = len(self.azimuths) * len(ELEVATIONS) * len(LIGHTINGS)
        return (count, self.size, self.size, *([3] if self.colour else []))

    def render_block(self, block: int) -> np.ndarray:
        """The images of one toy."""
        mujoco = import_mujoco()
        category, instance = list(TOYS)[block // self.instances], block % self.instances
        model = mujoco.MjModel.from_xml_string(toy_xml(category, instance, self.shapes, self.size))
        data = mujoco.MjData(model)
        camera = mujoco.MjvCamera()
        camera.azimuth = 180.0
        frames = np.empty(self.block_shape(), dtype=np.uint8)
        place = 0
        with Renderer(model, self.size, self.size) as renderer:
            for azimuth in self.azimuths:
                half = np.deg2rad(azimuth) / 2
                model.body_quat[1] = (np.cos(half), 0, 0, np.sin(half))
                mujoco.mj_forward(model, data)
                camera.lookat = _middle(data)
                camera.distance = _MARGIN * _reach(model, data) / np.sin(np.deg2rad(_TOY_FIELD / 2))
                for elevation in ELEVATIONS:
                    camera.elevation = -elevation
                    for lighting in LIGHTINGS:
                        model.light_diffuse[:] = np.array(lighting)[:, None]
                        picture = renderer.render(data, camera)
                        frames[place] = picture if self.colour else grey(picture)
                        place += 1
        return frames

    def observed(self) -> tuple[Observer, ...]:
        """The images of each azimuth, labelled by category; a state is one toy."""
        check_count("instances", self.instances)
        check_count("size", self.size, 8, 2048)
        wrong = [angle for angle in self.azimuths if angle not in _AZIMUTHS]
        if wrong or len(set(self.azimuths)) < len(self.azimuths):
            raise ValueError(
                f"azimuths must be different ones of 0, 20, ... 340, got {', '.join(map(str, self.azimuths))}"
            )
        frames, shape = self.frames(), (self.blocks(), len(self.azimuths), len(ELEVATIONS), len(LIGHTINGS))
        numbers = np.arange(int(np.prod(shape))).reshape(shape)
        observers = []
        for place, azimuth in enumerate(self.azimuths):
            rows = numbers[:, place].ravel()
            toy, elevation, lighting = (axis.ravel() for axis in np.indices((shape[0], *shape[2:])))
            keys = tuple(zip(toy.tolist(), elevation.tolist(), lighting.tolist(), strict=True))
            pictures = Stack(frames[rows], toy // self.instances, tuple(TOYS))
            observers.append(Observer(f"{azimuth}°", pictures, keys, torch.from_numpy(toy)))
        return tuple(observers)


def toy_xml(category: str, instance: int, seed: int, size: int) -> str:
    """The model of one toy on nothing, with the lights."""
    draws = _ShapeDraws(generator(seed, "toy", category, instance))
    paint = hue(draws.between(0, 1), draws.between(0.1, 0.6), draws.between(0.55, 0.95))
    parts = "".join(part.xml() for part in TOYS[category](draws, paint))
    lights = "".join(
        f'<light directional="true" castshadow="false" dir="{-x} {-y} {-z}" diffuse="0 0 0" '
        'specular="0 0 0"/>'
        for x, y, z in _FROM
    )
    return (
        '<mujoco><compiler angle="degree"/><visual>'
        f'<global offwidth="{size}" offheight="{size}" fovy="{_TOY_FIELD}"/>'
        '<headlight ambient="0.3 0.3 0.3" diffuse="0 0 0" specular="0 0 0"/></visual>'
        '<asset><texture type="skybox" builtin="flat" rgb1="0.75 0.75 0.75" rgb2="0.75 0.75 0.75" width="32" '
        f'height="32"/></asset><worldbody>{lights}<body>{parts}</body></worldbody></mujoco>'
    )


def _middle(data: Any) -> np.ndarray:
    """The middle of the toy's parts, on the axis that it turns about."""
    height = (data.geom_xpos[:, 2].min() + data.geom_xpos[:, 2].max()) / 2
    return np.array([0.0, 0.0, height])


def _reach(model: Any, data: Any) -> float:
    """How far the toy reaches from its middle."""
    away = np.linalg.norm(data.geom_xpos - _middle(data), axis=1)
    return float((away + model.geom_rbound).max())


YAWS = {"front": 0.0, "left": 90.0, "right": -90.0, "rear": 180.0}
SURROUNDINGS = ("open", "trees", "houses", "towers")
_RIG_FIELD = 60.0  # degrees that a camera sees, across and up
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
    """Frames in color; else in grey."""
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
        drives = [Drive.drawn(drive, self.steps, self.streets) for drive in range(self.drives)]
        labels = np.concatenate([drive.surroundings() for drive in drives])
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
        draws = _ShapeDraws(generator(seed, "drive", number))
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
                gap = np.where(gap >= 0, gap + 8, gap - 8)  # vehicles keep their distance
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
        draws = _ShapeDraws(generator(self.seed, "street", self.number))
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
            f'<camera name="{name}" fovy="{_RIG_FIELD}" xyaxes="{_axes(yaw)}"/>' for name, yaw in YAWS.items()
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


def _ground(daylight: float, draws: _ShapeDraws) -> list[_Geom]:
    middle, half = _LENGTH / 2, _LENGTH / 2 + 2 * _BEYOND
    grass = hue(draws.between(0.18, 0.33), 0.45, 0.5)
    parts = [_Geom("box", (half, 200.0, 0.05), (middle, 0, -0.1), color=grass)]
    parts.append(_Geom("box", (half, 4.2, 0.05), (middle, 0, -0.05), color=(0.28, 0.28, 0.3)))
    for side in (-1, 1):
        parts.append(_Geom("box", (half, 1.0, 0.05), (middle, side * 5.3, 0.0), color=(0.6, 0.6, 0.58)))
    marks = int((_LENGTH + 2 * _BEYOND) / 8)
    for mark in range(marks):
        place = (mark * 8.0 - _BEYOND, 0.0, 0.01)
        parts.append(_Geom("box", (1.5, 0.1, 0.01), place, color=(0.9, 0.9, 0.85)))
    return parts


def _beside(draws: _ShapeDraws, density: float, tint: float, along: float, side: int) -> list[_Geom]:
    """What stands at one place beside the street: nothing, a tree, a house or a tower; a parked vehicle."""
    parts: list[_Geom] = []
    kind = min(3, max(0, int(4 * density + draws.between(-0.5, 0.5))))
    x, away, big = along + draws.between(-1, 1), draws.between(0, 3), draws.between(0.7, 1.3)
    shade = draws.between(0.45, 0.85)
    wall = hue(tint + draws.between(-0.04, 0.04), 0.45, draws.between(0.5, 0.9))
    if kind == 1 or (kind == 0 and draws.chance(0.15)):
        y, tall = side * (8 + away), 2.2 * big
        trunk = ((x, y, 0.0), (x, y, tall))
        parts.append(_Geom("cylinder", (0.2,), ends=trunk, color=(0.35, 0.25, 0.15)))
        crown = hue(0.3 + 0.3 * (tint % 1 - 0.5), 0.6, 0.65 * shade)
        parts.append(
            _Geom("ellipsoid", (1.6 * big, 1.6 * big, 1.9 * big), (x, y, tall + 1.2 * big), color=crown)
        )
    elif kind >= 2:
        high = (3.0 if kind == 2 else 11.0) * big
        deep = 3.0
        y = side * (8 + away * 0.5 + deep)
        parts.append(_Geom("box", (2.3, deep, high / 2), (x, y, high / 2), color=wall))
        if kind == 2:  # a roof
            roof = hue(tint + 0.5, 0.5, 0.45)
            parts.append(_Geom("box", (2.3, 2.2, 2.2), (x, y, high), turn=(45, 0, 0), color=roof))
        else:  # windows: dark bands
            for floor in range(1, 4):
                band = (x, y - side * (deep - 0.03), floor * high / 4)
                parts.append(_Geom("box", (2.0, 0.08, high / 14), band, color=(0.15, 0.18, 0.25)))
    if draws.chance(0.18):
        paint = hue(draws.between(0, 1), 0.6, 0.75)
        place = (x, side * 5.2, 0.0)
        parts += [part.moved(place) for part in vehicle(draws, paint, truck=draws.chance(0.15))]
    return parts


def _smooth(draws: _ShapeDraws, count: int, scale: int) -> np.ndarray:
    """A stationary smooth path of variance 1 whose values `scale` steps apart are independent."""
    window = np.hanning(scale + 2)[1:-1]
    noise = np.array([draws.normal() for _ in range(count + scale - 1)])
    return np.convolve(noise, window / np.linalg.norm(window), mode="valid")


def _axes(yaw: float) -> str:
    """Right and up of a camera that looks along the ground, some degrees to the left of the front."""
    angle = math.radians(yaw)
    return f"{math.sin(angle):.6f} {-math.cos(angle):.6f} 0 0 0 1"
