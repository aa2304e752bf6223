"""Pages of how encoders relate: whether two are the same, and how two or more align."""

from isojepa.report.aligning.same import write_same

__all__ = ["write_same"]
