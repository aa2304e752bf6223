"""What the theorems assume, checked on latents or embeddings. The function is `check_assumptions`."""

from isojepa.certificates.assumptions.check import check_assumptions
from isojepa.certificates.assumptions.line import Assumption

__all__ = ["Assumption", "check_assumptions"]
