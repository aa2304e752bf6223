"""Pages of how encoders relate: whether two are the same, and how two or more align."""

from typing import TYPE_CHECKING

from isojepa.lazy import lazy_names

if TYPE_CHECKING:
    from isojepa.report.aligning.alignment import Alignment, write_alignment
    from isojepa.report.aligning.encoders import Layers
    from isojepa.report.aligning.same import write_same
    from isojepa.report.aligning.transfer import write_transfer
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["Alignment", "Layers", "write_alignment", "write_same", "write_transfer"]
