"""Parquet files with a column of pictures, as the hubs write them.

    image    struct {bytes, path}, or binary: the content of a picture's file
    label    whole numbers, or text; names of the numbers from the hub's notes in the file, if there are any

The column of pictures is the first of that type, one called image or img before others; that of labels
the first of the names in `LABELS`. Files are read one group of rows after the other. A group that is
damaged is counted as lost and the next one is read; a picture that is only named by a path is lost too:
nothing outside of the files is opened.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from isojepa.importing import install_hint
from isojepa.opening import check_expanded, plain_file
from isojepa.worlds.images.decoding import BadPicture, decode
from isojepa.worlds.images.origins import Item, Origin, identity_of, lost

IMAGES = ("image", "img", "jpg", "png", "picture")
LABELS = ("label", "labels", "fine_label", "class", "cls", "target", "category")
_ROWS = 64  # that are in memory at once


def parquet_origin(paths: Sequence[Path], root: Path) -> Origin:
    """The pictures of Parquet files, in the order given.

    Args:
        paths: the files.
        root: a folder above all of them.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: a file is damaged, or has no column of pictures.
    """
    opened = [_opened(path) for path in paths]
    columns = [_columns(path, file.schema_arrow) for path, file in zip(paths, opened, strict=True)]
    strange = next((path for path, found in zip(paths, columns, strict=True) if found != columns[0]), None)
    if strange is not None:
        raise ValueError(f"{strange} must have the columns of {paths[0].name}, {columns[0]}, got others")
    image, label = columns[0]

    def items() -> Iterator[Item]:
        for path in paths:
            yield from _items(path, image, label)

    return Origin(
        data=str(root if len(paths) > 1 else paths[0]),
        identity=["parquet", image, label, *identity_of(paths, root)],
        items=items,
        total=sum(file.metadata.num_rows for file in opened),
        classes=None if label is None else _classes(opened[0].schema_arrow, label),
    )


def _opened(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"reading {path} needs pyarrow: {install_hint('data')}") from error
    try:
        file = pyarrow.parquet.ParquetFile(plain_file(path))
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} is no whole Parquet file: {error}") from error
    groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
    declared = sum(group.total_byte_size for group in groups)
    check_expanded(declared, path.stat().st_size, str(path), "write it without compression")
    return file


def _columns(path: Path, schema: Any) -> tuple[str, str | None]:
    """The names of the columns of pictures and of labels."""
    import pyarrow

    def holds_pictures(kind: Any) -> bool:
        if pyarrow.types.is_struct(kind):
            return any(kind.field(at).name == "bytes" for at in range(kind.num_fields))
        return bool(pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind))

    pictures = [field.name for field in schema if holds_pictures(field.type)]
    if not pictures:
        raise ValueError(
            f"{path} must have a column of pictures, binary or a struct with bytes, got columns "
            f"{', '.join(f'{field.name}: {field.type}' for field in schema) or 'none'}"
        )
    image = next((name for name in IMAGES if name in pictures), pictures[0])
    return image, next((name for name in LABELS if name in schema.names and name != image), None)


def _classes(schema: Any, label: str) -> tuple[str, ...] | None:
    """Names of the classes as Hugging Face's `datasets` notes them in the file."""
    try:
        notes = json.loads((schema.metadata or {})[b"huggingface"])
        names = notes["info"]["features"][label]["names"]
        return tuple(map(str, names)) if names else None
    except (KeyError, TypeError, ValueError):
        return None


def _items(path: Path, image: str, label: str | None) -> Iterator[Item]:
    import pyarrow

    file = _opened(path)
    row = 0
    for group in range(file.metadata.num_row_groups):
        end = row + file.metadata.row_group(group).num_rows
        try:
            columns = [image] if label is None else [image, label]
            for batch in file.iter_batches(_ROWS, row_groups=[group], columns=columns):
                contents = batch.column(image).to_pylist()
                labels = [None] * len(contents) if label is None else batch.column(label).to_pylist()
                for content, told in zip(contents, labels, strict=True):
                    yield Item(f"{path.name}:{row}", _Reader(content), _label(told))
                    row += 1
        except (pyarrow.ArrowException, OSError) as error:
            reason = f"its group of rows is damaged: {' '.join(str(error).split())}"
            yield from (lost(f"{path.name}:{number}", reason, 1) for number in range(row, end))
        row = end


class _Reader:
    """Decodes one cell."""

    def __init__(self, cell: Any) -> None:
        self._cell = cell

    def __call__(self, largest: int | None) -> Tensor:
        content = self._cell.get("bytes") if isinstance(self._cell, dict) else self._cell
        if not isinstance(content, bytes):
            raise BadPicture("it has no bytes in the file")
        return decode(content, largest)


def _label(value: Any) -> str | int | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return int(value) if isinstance(value, int) or float(value).is_integer() else str(value)
