"""Pages of how encoders relate: whether two are the same, and how two or more align."""

from isojepa.report.aligning.alignment import Alignment, write_alignment
from isojepa.report.aligning.encoders import Layers
from isojepa.report.aligning.same import write_same
from isojepa.report.aligning.transfer import write_transfer

__all__ = ["Alignment", "Layers", "write_alignment", "write_same", "write_transfer"]
