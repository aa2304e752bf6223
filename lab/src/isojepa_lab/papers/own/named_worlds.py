"""Worlds whose latents may be named: laws, mixings of the plane and of more latents."""

from typing import Any

from isojepa.distributions import Density
from isojepa.registry import Context, Spec, build_spec

LANGEVIN, GAUSSIAN, COPULA = "langevin", "ornstein-uhlenbeck", "copula"
DISCRETE: dict[
    str, dict[str, Any]
] = {  # laws whose diffusion has a discrete spectrum, but for the normal one
    "uniform": {"law": "uniform"},
    "bimodal": {"law": "bimodal"},
    "generalised normal 1.5": {"law": "generalized-normal", "shape": 1.5},
    "generalised normal 2.5": {"law": "generalized-normal", "shape": 2.5},
    "generalised normal 4": {"law": "generalized-normal", "shape": 4.0},
}
HEAVY: dict[str, dict[str, Any]] = {  # laws whose slowest functions are attained by no embedding
    "Laplace": {"law": "laplace"},
    "Student t 5": {"law": "student-t", "shape": 5.0},
}
NORMAL = "normal"
LAWS = DISCRETE | HEAVY | {NORMAL: {}}
PLANE: dict[str, dict[str, Any]] = {
    name: {"mixing": name} for name in ("spiral", "sinusoid", "parabola", "affine-coupling")
}
WIDE: dict[str, dict[str, Any]] = {
    "lift": {"mixing": "lift"},
    "steeper lift": {"mixing": "lift", "mixing_gain": 6.0, "mixing_seed": 1},
    "affine-coupling": {"mixing": "affine-coupling", "mixing_layers": 2},
    "additive-coupling": {"mixing": "additive-coupling", "mixing_layers": 2},
}


def world(process: str, law: str, mixing: str, dim: int, rho: float) -> Spec:
    """Latents of a process and a law, seen through a mixing of as many as there are."""
    mixed = (PLANE if dim == 2 else WIDE)[mixing]
    law_settings = {} if process == GAUSSIAN else LAWS[law]
    spec: Spec = build_spec("world", process=process, dim=dim, rho=rho, **law_settings, **mixed)
    return spec


def law_of(name: str) -> Density:
    """A law by its name."""
    settings = dict(LAWS[name])
    law: Density = build_spec("law", settings.pop("law", NORMAL), **settings).build(Context())
    return law
