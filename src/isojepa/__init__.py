"""isojepa: train joint-embedding world models and certify that they recovered the world.

Importing the package loads nothing but this file: a name is imported when it is first used, so that
`isojepa --help` needs no torch and a program pays only for the packages it uses.
"""

from typing import TYPE_CHECKING

from isojepa.lazy import lazy_names
from isojepa.version import __version__

if TYPE_CHECKING:
    from isojepa import (
        alignment,
        certificates,
        data,
        distributions,
        encoders,
        exports,
        objectives,
        planning,
        probes,
        registry,
        report,
        testing,
        training,
        unmixing,
    )
    from isojepa.certificates import Certificate, DynamicsCertificate, certify, certify_dynamics
    from isojepa.certificates.audit import audit
    from isojepa.config import Config
    from isojepa.data.environments import collect
    from isojepa.encoders import WorldModel
    from isojepa.exports import export
    from isojepa.planning.evaluation import evaluate
    from isojepa.planning.policy import plan
    from isojepa.runs import load, train
    from isojepa.seeds import generator
    from isojepa.training import Recipe, Run, RunDirectory, fit
    from isojepa.training.watch import watch
    from isojepa.unmixing import Unmixing, invert_warp, unmix
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "Certificate",
    "Config",
    "DynamicsCertificate",
    "Recipe",
    "Run",
    "RunDirectory",
    "Unmixing",
    "WorldModel",
    "__version__",
    "alignment",
    "audit",
    "certificates",
    "certify",
    "certify_dynamics",
    "collect",
    "data",
    "distributions",
    "encoders",
    "evaluate",
    "export",
    "exports",
    "fit",
    "generator",
    "invert_warp",
    "load",
    "objectives",
    "plan",
    "planning",
    "probes",
    "registry",
    "report",
    "testing",
    "train",
    "training",
    "unmix",
    "unmixing",
    "watch",
]
