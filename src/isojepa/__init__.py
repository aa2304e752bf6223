"""isojepa: train joint-embedding world models and certify that they recovered the world."""

from isojepa import certificates, encoders, isotropise, laws, objectives, training, worlds
from isojepa.certificates import Certificate, certify
from isojepa.seeds import generator
from isojepa.training import Record, Run, fit
from isojepa.version import __version__

__all__ = [
    "Certificate",
    "Record",
    "Run",
    "__version__",
    "certificates",
    "certify",
    "encoders",
    "fit",
    "generator",
    "isotropise",
    "laws",
    "objectives",
    "training",
    "worlds",
]
