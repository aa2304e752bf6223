"""Exports: what people take away. A record's model as a file for timm, of safetensors or of ONNX."""

from typing import TYPE_CHECKING

from isojepa.lazy import lazy_names

if TYPE_CHECKING:
    from isojepa.exports.exporting import FORMATS, Exported, export
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["FORMATS", "Exported", "export"]
