"""Audits of recorded episodes: what made the actions, and which assumptions do the data break?"""

from typing import TYPE_CHECKING

from isojepa.lazy import lazy_names

if TYPE_CHECKING:
    from isojepa.certificates.audit.auditing import Audit, audit
    from isojepa.certificates.audit.strides import STRIDES, StrideRow, stride_rows
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["STRIDES", "Audit", "StrideRow", "audit", "stride_rows"]
