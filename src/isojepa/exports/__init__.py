"""Exports: what people take away. A record's model as a file for timm, of safetensors or of ONNX."""

from isojepa.exports.exporting import FORMATS, Exported, export

__all__ = ["FORMATS", "Exported", "export"]
