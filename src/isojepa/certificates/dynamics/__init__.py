"""Transitions under actions, fitted in closed form, and certificates of transitions and world models."""

from typing import TYPE_CHECKING

from isojepa.lazy import lazy_names

if TYPE_CHECKING:
    from isojepa.certificates.dynamics.agreement import Agreement, Perturbation
    from isojepa.certificates.dynamics.certificate import DynamicsCertificate, Reason
    from isojepa.certificates.dynamics.certifying import certify_dynamics
    from isojepa.certificates.dynamics.eigenvalues import Eigenvalue
    from isojepa.certificates.dynamics.excitation import Excitation, Unidentified
    from isojepa.certificates.dynamics.invariants import Invariants
    from isojepa.certificates.dynamics.linearity import Linearity
    from isojepa.certificates.dynamics.transition import Transition, fit_transition
    from isojepa.certificates.dynamics.world_model import (
        StateScore,
        WorldModelCertificate,
        certify_world_model,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "Agreement",
    "DynamicsCertificate",
    "Eigenvalue",
    "Excitation",
    "Invariants",
    "Linearity",
    "Perturbation",
    "Reason",
    "StateScore",
    "Transition",
    "Unidentified",
    "WorldModelCertificate",
    "certify_dynamics",
    "certify_world_model",
    "fit_transition",
]
