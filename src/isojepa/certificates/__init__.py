"""Certificates: what was learned. The function is `certify`."""

from typing import TYPE_CHECKING

from isojepa.lazy import lazy_names

if TYPE_CHECKING:
    from isojepa.arrays import NotFinite
    from isojepa.certificates.assumptions import check_assumptions
    from isojepa.certificates.bound import Bound, NoBound, measure_bound
    from isojepa.certificates.certificate import Certificate
    from isojepa.certificates.certifying import certify
    from isojepa.certificates.checks import CheckResult
    from isojepa.certificates.decay import DecaySpectrum, measure_decay
    from isojepa.certificates.eigenfunctions import (
        Mode,
        Prediction,
        breaking_ratio,
        predict_embedding,
        predict_process,
        predict_r2,
    )
    from isojepa.certificates.gaussianity import Examination, examine
    from isojepa.certificates.named import IdentifiedLatents
    from isojepa.certificates.pairs import PairRows
    from isojepa.certificates.recovery import Recovery, measure_recovery
    from isojepa.certificates.rho import MaximalCorrelation, estimate_correlation
    from isojepa.certificates.sentences import Line, format_value
    from isojepa.certificates.spectrum import Spectrum, measure_spectrum
    from isojepa.certificates.transition import (
        DynamicsCertificate,
        Transition,
        certify_dynamics,
        fit_transition,
    )
    from isojepa.certificates.world_model import WorldModelCertificate, certify_world_model
    from isojepa.statistics.intervals import Interval
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "Bound",
    "Certificate",
    "CheckResult",
    "DecaySpectrum",
    "DynamicsCertificate",
    "Examination",
    "IdentifiedLatents",
    "Interval",
    "Line",
    "MaximalCorrelation",
    "Mode",
    "NoBound",
    "NotFinite",
    "PairRows",
    "Prediction",
    "Recovery",
    "Spectrum",
    "Transition",
    "WorldModelCertificate",
    "breaking_ratio",
    "certify",
    "certify_dynamics",
    "certify_world_model",
    "check_assumptions",
    "estimate_correlation",
    "examine",
    "fit_transition",
    "format_value",
    "measure_bound",
    "measure_decay",
    "measure_recovery",
    "measure_spectrum",
    "predict_embedding",
    "predict_process",
    "predict_r2",
]
