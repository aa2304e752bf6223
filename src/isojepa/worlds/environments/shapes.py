"""Shapes made of MuJoCo's primitives: what scenes are built from, and the toys of five categories.

x is forward, y to the left, z up. A shape is a list of geoms; numbers that vary from instance to instance are
drawn from a generator in a fixed order.
"""

import colorsys
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

Point = tuple[float, float, float]
Colour = tuple[float, float, float]


@dataclass(frozen=True)
class Geom:
    """One primitive.

    Attributes:
        kind: box, sphere, ellipsoid, capsule or cylinder.
        size: as MuJoCo takes it; of capsules and cylinders the radius alone, with `ends`.
        position: of its centre, where it has no ends.
        ends: of a capsule's or cylinder's axis.
        turn: about x, y and z, in degrees.
        colour: red, green and blue in [0, 1].
    """

    kind: str
    size: tuple[float, ...]
    position: Point = (0.0, 0.0, 0.0)
    ends: tuple[Point, Point] | None = None
    turn: Point = (0.0, 0.0, 0.0)
    colour: Colour = (0.6, 0.6, 0.6)

    def xml(self) -> str:
        """As MuJoCo reads it."""
        place = f'pos="{_text(self.position)}" euler="{_text(self.turn)}"'
        if self.ends is not None:
            place = f'fromto="{_text(self.ends[0])} {_text(self.ends[1])}"'
        return (
            f'<geom type="{self.kind}" size="{_text(self.size)}" {place} rgba="{_text(self.colour)} 1" '
            'contype="0" conaffinity="0"/>'
        )

    def moved(self, by: Point) -> "Geom":
        """The same elsewhere."""
        ends = None if self.ends is None else (_add(self.ends[0], by), _add(self.ends[1], by))
        return replace(self, position=_add(self.position, by), ends=ends)


class Draws:
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


def hue(value: float, saturation: float, brightness: float) -> Colour:
    """A colour by its place on the circle."""
    return colorsys.hsv_to_rgb(value % 1, min(1.0, max(0.0, saturation)), min(1.0, max(0.0, brightness)))


def vehicle(draws: Draws, colour: Colour, *, truck: bool = False) -> list[Geom]:
    """A car or a truck on the ground, its middle at the origin; about as large as a real one in metres."""
    dark, glass = (0.08, 0.08, 0.08), _scaled(colour, 0.4, 0.05)
    length, width = (
        (draws.between(5.5, 8), 2.2) if truck else (draws.between(3.4, 4.8), draws.between(1.6, 1.9))
    )
    wheel = draws.between(0.42, 0.55) if truck else draws.between(0.28, 0.38)
    parts: list[Geom] = []
    if truck:
        cab, height = draws.between(1.4, 1.9), draws.between(1.6, 2.8)
        top = draws.between(1.5, 2.1)
        parts.append(_box((length / 2 - cab / 2, 0, wheel + top / 2), (cab, width, top), colour))
        cargo = _scaled(colour, 0.55, 0.4)
        middle = (-(cab + 0.15) / 2, 0, wheel + 0.2 + height / 2)
        if draws.chance(0.3):  # a tank in place of a box
            ends = (
                (-length / 2 + height / 2, 0.0, middle[2]),
                (length / 2 - cab - height / 2, 0.0, middle[2]),
            )
            parts.append(Geom("capsule", (height / 2,), ends=ends, colour=cargo))
        else:
            parts.append(_box(middle, (length - cab - 0.15, width, height), cargo))
        parts.append(_box((0, 0, wheel), (length, width * 0.8, 0.25), dark))
    else:
        height, cabin = draws.between(0.5, 0.75), draws.between(0.45, 0.6)
        back = draws.between(-0.2, 0.05) * length
        parts.append(_box((0, 0, wheel + height / 2), (length, width, height), colour))
        place = (back, 0.0, wheel + height + cabin * 0.35)
        if draws.chance(0.5):
            size = (length * draws.between(0.24, 0.32), width * 0.46, cabin)
            parts.append(Geom("ellipsoid", size, place, colour=glass))
        else:
            parts.append(_box(place, (length * draws.between(0.4, 0.55), width * 0.88, cabin * 1.3), glass))
        if draws.chance(0.3):
            parts.append(_box((-length / 2, 0, wheel + height + 0.35), (0.3, width, 0.08), dark))
    axles = (-0.32, 0.32) if not truck or draws.chance(0.5) else (-0.36, -0.16, 0.34)
    for axle in axles:
        for side in (-1, 1):
            ends = ((axle * length, side * width * 0.4, wheel), (axle * length, side * width * 0.55, wheel))
            parts.append(Geom("cylinder", (wheel,), ends=ends, colour=dark))
    return parts


def animal(draws: Draws, colour: Colour) -> list[Geom]:
    """Four legs, a neck, a head, a tail; ears or horns."""
    length, girth, legs = draws.between(0.9, 1.7), draws.between(0.22, 0.42), draws.between(0.35, 1.0)
    body = legs + girth * 0.7
    parts = [Geom("ellipsoid", (length / 2, girth, girth), (0, 0, body), colour=colour)]
    thick = draws.between(0.05, 0.11)
    stride = draws.between(-0.2, 0.2)
    for front in (-1, 1):
        for side in (-1, 1):
            x, y = front * length * 0.33, side * girth * 0.6
            foot = x + stride * front * side
            parts.append(Geom("capsule", (thick,), ends=((x, y, body), (foot, y, thick)), colour=colour))
    reach, rise = draws.between(0.1, 0.4), draws.between(0.1, 0.9)
    neck = (length * 0.42, 0.0, body + girth * 0.4)
    head = (neck[0] + reach, 0.0, neck[2] + rise)
    parts.append(Geom("capsule", (draws.between(0.08, 0.15),), ends=(neck, head), colour=colour))
    skull = draws.between(0.14, 0.26)
    parts.append(Geom("ellipsoid", (skull * draws.between(1.2, 1.9), skull, skull), head, colour=colour))
    long = draws.between(0.08, 0.4)
    for side in (-1, 1):
        start = (head[0] - skull * 0.4, side * skull * 0.6, head[2] + skull * 0.5)
        end = (start[0] - 0.1, start[1] + side * long * 0.4, start[2] + long)
        parts.append(Geom("capsule", (0.035,), ends=(start, end), colour=colour))
    tail = (-length / 2, 0.0, body + girth * 0.3)
    end = (-length / 2 - draws.between(0.1, 0.5), 0.0, tail[2] + draws.between(-0.5, 0.4))
    return [*parts, Geom("capsule", (draws.between(0.03, 0.07),), ends=(tail, end), colour=colour)]


def human(draws: Draws, colour: Colour) -> list[Geom]:
    """Legs, trunk, arms in a pose of their own, a head; a hat, a shield or a staff."""
    legs, trunk, wide = draws.between(0.7, 1.0), draws.between(0.5, 0.75), draws.between(0.18, 0.32)
    thick = draws.between(0.07, 0.13)
    parts = [Geom("ellipsoid", (thick * 1.6, wide, trunk * 0.62), (0, 0, legs + trunk / 2), colour=colour)]
    shoulder = legs + trunk * 0.92
    for side in (-1, 1):
        step = draws.between(-0.35, 0.35)
        hip, foot = (0.0, side * wide * 0.5, legs), (step, side * wide * draws.between(0.5, 1.3), thick)
        parts.append(Geom("capsule", (thick,), ends=(hip, foot), colour=colour))
        elbow = (draws.between(-0.15, 0.35), side * (wide + draws.between(0.08, 0.4)), shoulder - 0.28)
        hand = (elbow[0] + draws.between(0, 0.35), elbow[1], elbow[2] + draws.between(-0.35, 0.45))
        start = (0.0, side * wide * 0.9, shoulder)
        parts.append(Geom("capsule", (thick * 0.75,), ends=(start, elbow), colour=colour))
        parts.append(Geom("capsule", (thick * 0.65,), ends=(elbow, hand), colour=colour))
        if side > 0 and draws.chance(0.4):
            low, high = draws.between(0.3, 0.7), draws.between(0.4, 0.9)
            ends = ((hand[0], hand[1], hand[2] - low), (hand[0], hand[1], hand[2] + high))
            parts.append(Geom("capsule", (0.03,), ends=ends, colour=colour))
    head = draws.between(0.13, 0.2)
    parts.append(Geom("sphere", (head,), (0, 0, shoulder + 0.1 + head), colour=colour))
    if draws.chance(0.5):
        top = shoulder + 0.1 + 1.6 * head
        ends = ((0.0, 0.0, top), (0.0, 0.0, top + draws.between(0.04, 0.25)))
        parts.append(Geom("cylinder", (head * draws.between(0.8, 1.5),), ends=ends, colour=colour))
    return parts


def plane(draws: Draws, colour: Colour) -> list[Geom]:
    """A fuselage, wings with a sweep, a tail; engines under the wings."""
    length, girth = draws.between(1.8, 2.6), draws.between(0.12, 0.24)
    parts = [Geom("ellipsoid", (length / 2, girth, girth * draws.between(0.9, 1.3)), colour=colour)]
    span, chord, sweep = draws.between(0.8, 1.4), draws.between(0.25, 0.5), draws.between(-5, 40)
    high, root = draws.between(-0.8, 0.9) * girth, draws.between(-0.1, 0.25) * length
    engines = draws.chance(0.6)
    along = float(torch.tensor(sweep).deg2rad().tan())
    for side in (-1, 1):
        middle = (root - along * span / 2, side * span / 2, high)
        parts.append(
            Geom("box", (chord / 2, span / 2, 0.03), middle, turn=(0, 0, side * sweep), colour=colour)
        )
        back = (-length * 0.44, side * span * 0.2, girth * 0.3)
        parts.append(Geom("box", (chord * 0.3, span * 0.2, 0.025), back, colour=colour))
        if engines:
            x, y = root - along * span * 0.4, side * span * 0.4
            ends = ((x, y, high - 0.14), (x + 0.35, y, high - 0.14))
            parts.append(Geom("cylinder", (0.09,), ends=ends, colour=colour))
    fin = draws.between(0.2, 0.45)
    parts.append(
        Geom("box", (chord * 0.35, 0.025, fin / 2), (-length * 0.44, 0, girth + fin / 2), colour=colour)
    )
    if not engines:
        parts.append(
            Geom("box", (0.02, 0.04, girth * 1.8), (length / 2, 0, 0), turn=(35, 0, 0), colour=colour)
        )
    return [part.moved((0, 0, 0.6)) for part in parts]


TOYS: dict[str, Callable[[Draws, Colour], list[Geom]]] = {
    "animal": animal,
    "human": human,
    "plane": plane,
    "truck": lambda draws, colour: vehicle(draws, colour, truck=True),
    "car": vehicle,
}


def _box(position: Point, sides: Point, colour: Colour) -> Geom:
    return Geom("box", (sides[0] / 2, sides[1] / 2, sides[2] / 2), position, colour=colour)


def _scaled(colour: Colour, by: float, plus: float) -> Colour:
    return (by * colour[0] + plus, by * colour[1] + plus, by * colour[2] + plus)


def _add(a: Point, b: Point) -> Point:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def _text(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:.5f}" for value in values)
