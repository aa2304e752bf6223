"""Certificates: what was learned. The function is `certify`."""

from isojepa.certificates.bound import Bound, measure_bound
from isojepa.certificates.certificate import Certificate, Line, certify, format_value
from isojepa.certificates.embeddings import Embeddings, read_array, read_named
from isojepa.certificates.gaussianity import Examination, examine
from isojepa.certificates.intervals import Interval
from isojepa.certificates.recovery import Recovery, measure_recovery

__all__ = [
    "Bound",
    "Certificate",
    "Embeddings",
    "Examination",
    "Interval",
    "Line",
    "Recovery",
    "certify",
    "examine",
    "format_value",
    "measure_bound",
    "measure_recovery",
    "read_array",
    "read_named",
]
