"""What the theorems assume, checked on latents or embeddings. The function is `check_assumptions`."""

from typing import TYPE_CHECKING

from isojepa.lazy import lazy_names

if TYPE_CHECKING:
    from isojepa.certificates.assumptions.check import check_assumptions
    from isojepa.certificates.assumptions.line import Assumption
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["Assumption", "check_assumptions"]
