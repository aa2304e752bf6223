"""isojepa: train joint-embedding world models and certify that they recovered the world."""

from isojepa import certificates, encoders, evaluations, isotropise, laws, objectives, training, worlds
from isojepa.certificates import Certificate, certify
from isojepa.config import Config
from isojepa.runs import load, train
from isojepa.seeds import generator
from isojepa.training import Recipe, Record, Run, fit
from isojepa.version import __version__

__all__ = [
    "Certificate",
    "Config",
    "Recipe",
    "Record",
    "Run",
    "__version__",
    "certificates",
    "certify",
    "encoders",
    "evaluations",
    "fit",
    "generator",
    "isotropise",
    "laws",
    "load",
    "objectives",
    "train",
    "training",
    "worlds",
]
