"""The formats of records' configs, and how an older one becomes the newest.

Format 1 wrote None for every setting that was not asked for, whatever the default was, and listed the
settings of all components side by side. Format 2 writes every setting of the chosen components with its
value. What None meant in format 1 is kept here as it was then: it must not follow the defaults of today. Nor
must what components did before they had a setting for it.
"""

from collections.abc import Mapping
from typing import Any

FORMAT = 2
HEADER = ("format", "isojepa")  # what config.json says besides the config

_LAWS = {
    "normal": {},
    "generalized-normal": {"shape": 2.0},
    "laplace": {},
    "student-t": {"shape": 5.0},
    "uniform": {},
    "bimodal": {"shape": 4.0},
}
_PROCESSES: dict[str, dict[str, Any]] = {
    "ornstein-uhlenbeck": {"lag": 1.0},
    "langevin": {"lag": 1.0, "law": "normal"},
    "copula": {"lag": 1.0, "law": "normal"},
    "noisy-copies": {"law": "normal"},
}
_MIXINGS: dict[str, dict[str, Any]] = {
    "identity": {},
    "spiral": {"mixing_rate": 3.141592653589793},
    "sinusoid": {"mixing_frequency": 1.5},
    "parabola": {},
    "additive-coupling": {"mixing_layers": 4, "mixing_seed": 0},
    "affine-coupling": {"mixing_layers": 1, "mixing_hidden": 16, "mixing_seed": 0},
    "lift": {"mixing_layers": 2, "mixing_gain": 3.0, "mixing_hidden": 32, "mixing_seed": 0},
}
_ENCODERS: dict[str, dict[str, Any]] = {
    "mlp": {"width": 64, "layers": 6},
    "coupling": {"layers": 4},
    "free-coupling": {"layers": 4},
}
_OBJECTIVES: dict[str, dict[str, Any]] = {
    "lejepa": {
        "weight": 2e-3,
        "alignment": "centre",
        "knots": 17,
        "t_max": 5.0,
        "pooled": False,
        "unbiased": False,
        "test": "epps-pulley",
        "sampler": "gaussian",
        "resample": True,
    },
    "whitening": {"weight": 0.1, "alignment": "centre", "pooled": False},
    "vicreg": {"weight": 0.5, "covariance_weight": 0.08, "eps": 1e-4},
    "infonce": {"weight": 0.5, "sigma": 1.0},
    "aninfonce": {"weight": 0.5, "sigma": 1.0},
    "sliced-infonce": {"weight": 0.5, "sigma": 1.0, "k": 4, "slices": 16},
}
# settings that components of format 2 got later, with what they did before: by section and component
_LATER: dict[str, dict[str, dict[str, Any]]] = {
    "encoder": {"mlp": {"activation": "gelu"}, "free-coupling": {"hidden": 0}},
}
_TRAINING = {
    "precision": "float32",
    "accumulate": 1,
    "average": None,
    "sync_norms": False,
    "pairs": None,
}


def migrate(config: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A record's config in the newest format.

    Args:
        config: as the record holds it, without its header.
        number: the format it is in.
    """
    if not isinstance(config.get("training"), dict):
        return dict(config)  # made by hand
    found = dict(config) if number >= FORMAT else _from_first(config)
    for section, components in _LATER.items():
        own = found.get(section)
        if isinstance(own, dict):
            found[section] = {**components.get(str(own.get("name")), {}), **own}
    return found


def _from_first(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config of format 1 in format 2."""
    training = {
        **_TRAINING,
        "decay_all": config["training"].get("weight_decay", 0) != 0,
        **config["training"],
    }
    if not isinstance(config.get("world"), dict):
        return {**config, "training": training}  # made from Python objects
    world, encoder = dict(config["world"]), dict(config.get("encoder") or {})
    objective = dict(config.get("objective") or {})
    named = {
        "world": {"name": "synthetic", **_world(world)},
        "encoder": _filled(encoder, _ENCODERS, encoder.get("name", "mlp")),
        "objective": _filled(objective, _OBJECTIVES, objective.get("name", "lejepa")),
    }
    _derive(named["world"], named["encoder"], named["objective"])
    return {**config, **named, "training": training}


def format_of(config: Mapping[str, Any]) -> int:
    """The format of a config that stands without its header, as in a file of rows."""
    world = config.get("world")
    return FORMAT if not isinstance(world, dict) or "name" in world else 1


def _world(world: dict[str, Any]) -> dict[str, Any]:
    process = world.get("process", "ornstein-uhlenbeck")
    mixing = world.get("mixing", "spiral")
    given = {key: value for key, value in world.items() if value is not None}
    law = str(given.get("law", _PROCESSES.get(process, {}).get("law")))
    return {
        "process": process,
        "dim": 2,
        "rho": 0.95,
        **_PROCESSES.get(process, {}),
        **_LAWS.get(law, {}),
        "mixing": mixing,
        **_MIXINGS.get(mixing, {}),
        **given,
    }


def _filled(section: dict[str, Any], table: Mapping[str, dict[str, Any]], name: str) -> dict[str, Any]:
    given = {key: value for key, value in section.items() if value is not None}
    return {"name": name, **table.get(name, {}), **given}


def _derive(world: dict[str, Any], encoder: dict[str, Any], objective: dict[str, Any]) -> None:
    """Write out what followed from other settings."""
    dim = world["dim"]
    if world["mixing"] == "lift":
        world.setdefault("observed_dim", 2 * dim)
    encoder.setdefault("dim", dim if encoder["name"] == "mlp" else world.get("observed_dim", dim))
    if objective["name"] == "lejepa":
        objective.setdefault("slices", min(1024, max(16, 8 * encoder["dim"])))
