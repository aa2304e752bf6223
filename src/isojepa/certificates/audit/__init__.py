"""Audits of recorded episodes: what made the actions, and which assumptions do the data break?"""

from isojepa.certificates.audit.auditing import Audit, audit
from isojepa.certificates.audit.strides import STRIDES, StrideRow, stride_rows

__all__ = ["STRIDES", "Audit", "StrideRow", "audit", "stride_rows"]
