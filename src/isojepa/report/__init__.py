"""Reports: one picture and one self-contained HTML page from what a run left."""

from typing import TYPE_CHECKING

from isojepa.lazy import lazy_names

if TYPE_CHECKING:
    from isojepa.report import looking
    from isojepa.report.colors import polar_colors
    from isojepa.report.page import write_page
    from isojepa.report.picture import write_picture
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["looking", "polar_colors", "write_page", "write_picture"]
