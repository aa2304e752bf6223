"""Transitions under actions: fitted in closed form, and certified without latents."""

from isojepa.certificates.dynamics.agreement import Agreement, Perturbation
from isojepa.certificates.dynamics.certificate import DynamicsCertificate, Reason
from isojepa.certificates.dynamics.certifying import certify_dynamics
from isojepa.certificates.dynamics.eigenvalues import Eigenvalue
from isojepa.certificates.dynamics.excitation import Excitation, Unidentified
from isojepa.certificates.dynamics.invariants import Invariants
from isojepa.certificates.dynamics.linearity import Linearity
from isojepa.certificates.dynamics.prediction import Horizon, measure_horizon
from isojepa.certificates.dynamics.transition import Transition, fit_transition

__all__ = [
    "Agreement",
    "DynamicsCertificate",
    "Eigenvalue",
    "Excitation",
    "Horizon",
    "Invariants",
    "Linearity",
    "Perturbation",
    "Reason",
    "Transition",
    "Unidentified",
    "certify_dynamics",
    "fit_transition",
    "measure_horizon",
]
