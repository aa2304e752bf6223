"""isojepa: train joint-embedding world models and certify that they recovered the world.

Importing the package loads nothing but this file: a name is imported when it is first asked for, so that
`isojepa --help` needs no torch and a program pays only for the rooms it uses.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from isojepa.version import __version__

if TYPE_CHECKING:
    from isojepa import (
        align,
        certificates,
        encoders,
        evaluations,
        exports,
        isotropise,
        laws,
        objectives,
        planning,
        registry,
        report,
        testing,
        training,
        watching,
        worlds,
    )
    from isojepa.certificates import Certificate, DynamicsCertificate, certify, certify_dynamics
    from isojepa.certificates.audit import audit
    from isojepa.config import Config
    from isojepa.encoders import WorldModel
    from isojepa.exports import export
    from isojepa.planning.evaluation import evaluate
    from isojepa.planning.policy import plan
    from isojepa.runs import load, train
    from isojepa.seeds import generator
    from isojepa.training import Recipe, Record, Run, fit
    from isojepa.unmix import Unmixing, dewarp, unmix
    from isojepa.watching import watch
    from isojepa.worlds.collecting import collect

_ROOMS = (
    "align",
    "certificates",
    "encoders",
    "evaluations",
    "exports",
    "isotropise",
    "laws",
    "objectives",
    "planning",
    "registry",
    "report",
    "testing",
    "training",
    "unmix",  # which is also its function
    "watching",
    "worlds",
)
_HOMES = {  # of each other public name, the module that has it
    "Certificate": "isojepa.certificates",
    "Config": "isojepa.config",
    "DynamicsCertificate": "isojepa.certificates",
    "Recipe": "isojepa.training",
    "Record": "isojepa.training",
    "Run": "isojepa.training",
    "Unmixing": "isojepa.unmix",
    "WorldModel": "isojepa.encoders",
    "audit": "isojepa.certificates.audit",
    "certify": "isojepa.certificates",
    "certify_dynamics": "isojepa.certificates",
    "collect": "isojepa.worlds.collecting",
    "dewarp": "isojepa.unmix",
    "evaluate": "isojepa.planning.evaluation",
    "export": "isojepa.exports",
    "fit": "isojepa.training",
    "generator": "isojepa.seeds",
    "load": "isojepa.runs",
    "plan": "isojepa.planning.policy",
    "train": "isojepa.runs",
    "watch": "isojepa.watching",
}

__all__ = [
    "Certificate",
    "Config",
    "DynamicsCertificate",
    "Recipe",
    "Record",
    "Run",
    "Unmixing",
    "WorldModel",
    "__version__",
    "align",
    "audit",
    "certificates",
    "certify",
    "certify_dynamics",
    "collect",
    "dewarp",
    "encoders",
    "evaluate",
    "evaluations",
    "export",
    "exports",
    "fit",
    "generator",
    "isotropise",
    "laws",
    "load",
    "objectives",
    "plan",
    "planning",
    "registry",
    "report",
    "testing",
    "train",
    "training",
    "unmix",
    "watch",
    "watching",
    "worlds",
]


if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first asked for (PEP 562)."""
        if name in _ROOMS:
            return import_module(f"isojepa.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'isojepa' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
