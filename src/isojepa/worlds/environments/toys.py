"""Toys rendered by MuJoCo: objects of five categories under azimuth, elevation and lighting.

The shape of smallNORB: animals, humans, planes, trucks and cars, ten instances of each, 9 elevations from 30°
to 70°, 6 lightings, and azimuths in steps of 20°, of which each observer has one. The toy turns and the
lights stand still, as on a turntable. Pictures are grey, 96 × 96, by default; splits go by toy.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from isojepa.arguments import check_count
from isojepa.registry import register
from isojepa.seeds import generator
from isojepa.worlds.environments.rendered import RenderedEnvironment, grey
from isojepa.worlds.environments.shapes import TOYS, Draws, hue
from isojepa.worlds.images.observers import Observer
from isojepa.worlds.images.pictures import Stack
from isojepa.worlds.rendering import Renderer, import_mujoco

ELEVATIONS = tuple(range(30, 71, 5))
AZIMUTHS = tuple(range(0, 360, 20))
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
_DISTANCE = 1.4  # of the camera, in extents of the toy


@register("environment", "toys")
@dataclass(frozen=True)
class ToysSpec(RenderedEnvironment):
    """Toys under azimuth, elevation and lighting, rendered by MuJoCo in the shape of smallNORB."""

    azimuths: tuple[int, ...] = (0, 160)
    """Azimuths of the observers in degrees, from 0 to 340 in steps of 20."""
    instances: int = 10
    """Instances of each category."""
    size: int = 96
    """Side of the pictures in pixels."""
    colour: bool = False
    """Pictures in colour; else in grey."""
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
        """The pictures of one toy."""
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
                camera.distance = _DISTANCE * 2 * _reach(model, data)
                for elevation in ELEVATIONS:
                    camera.elevation = -elevation
                    for lighting in LIGHTINGS:
                        model.light_diffuse[:] = np.array(lighting)[:, None]
                        picture = renderer.render(data, camera)
                        frames[place] = picture if self.colour else grey(picture)
                        place += 1
        return frames

    def observed(self) -> tuple[Observer, ...]:
        """The pictures of each azimuth, labelled by category; a state is one toy."""
        check_count("instances", self.instances)
        check_count("size", self.size, 8, 2048)
        wrong = [angle for angle in self.azimuths if angle not in AZIMUTHS]
        if wrong or len(set(self.azimuths)) < len(self.azimuths):
            raise ValueError(
                f"azimuths must be different ones of 0, 20, ... 340, got {', '.join(map(str, self.azimuths))}"
            )
        frames, shape = self.frames(), (self.blocks(), len(self.azimuths), len(ELEVATIONS), len(LIGHTINGS))
        numbers = np.arange(int(np.prod(shape))).reshape(shape)
        found = []
        for place, azimuth in enumerate(self.azimuths):
            rows = numbers[:, place].ravel()
            toy, elevation, lighting = (axis.ravel() for axis in np.indices((shape[0], *shape[2:])))
            keys = tuple(zip(toy.tolist(), elevation.tolist(), lighting.tolist(), strict=True))
            pictures = Stack(frames[rows], toy // self.instances, tuple(TOYS))
            found.append(Observer(f"{azimuth}°", pictures, keys, torch.from_numpy(toy)))
        return tuple(found)


def toy_xml(category: str, instance: int, seed: int, size: int) -> str:
    """The model of one toy on nothing, with the lights."""
    draws = Draws(generator(seed, "toy", category, instance))
    paint = hue(draws.between(0, 1), draws.between(0.1, 0.6), draws.between(0.55, 0.95))
    parts = "".join(part.xml() for part in TOYS[category](draws, paint))
    lights = "".join(
        f'<light directional="true" castshadow="false" dir="{-x} {-y} {-z}" diffuse="0 0 0" '
        'specular="0 0 0"/>'
        for x, y, z in _FROM
    )
    return (
        '<mujoco><compiler angle="degree"/><visual>'
        f'<global offwidth="{size}" offheight="{size}" fovy="40"/>'
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
    return float((away + 0.8 * model.geom_rbound).max())
