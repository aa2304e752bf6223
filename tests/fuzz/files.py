"""Files of embeddings of every kind: damaged, of other shapes and types, lying about themselves."""

import contextlib
import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from safetensors.numpy import save

from isojepa.cli import main
from tests.fuzz.values import Case, Rng

KINDS = ("npy", "npz", "csv", "safetensors", "h5", "pt")
DTYPES = ("f8", "f4", "f2", "i8", "i1", "u2", "?", "c16", "S3", "U2", "M8[s]", ">f8", "V4", "O")
NAMES = ("h", "embeddings", "h_next", "z", "x", "nope", "", "a/b", "\x1b[31m", "[/red]", "__metadata__")
CELLS = (
    "1",
    "nan",
    "",
    "x",
    "1e400",
    "-inf",
    "0x1",
    "1_0",
    "１",
    '"2"',
    "\x00",
    "1;2",
    "#",
    "1e-400",
    "9" * 500,
)


def make_case(rng: Rng, folder: Path) -> Case:
    """A file, certified or unmixed."""
    kind = rng.choice(KINDS)
    path = folder / f"fuzzed.{kind}"
    path.unlink(missing_ok=True)
    content = {"npy": _npy, "npz": _npz, "csv": _csv, "safetensors": _safetensors, "h5": _hdf5, "pt": _torch}[
        kind
    ](rng)
    if rng.random() < 0.3 and content:
        content = damage(rng, content)
    path.write_bytes(content)
    flags = ["--no-checks", "--json"]
    if rng.random() < 0.4:
        flags += ["--rho", rng.choice(("0.9", "0.5", "1e-300", "0.99999"))]
    if rng.random() < 0.2:
        flags.append("--trajectory")
    if rng.random() < 0.2:
        flags.append("--drop-bad-rows")
    command = "certify"
    if rng.random() < 0.2:
        command, flags = "unmix", ["--json", *(flag for flag in flags if flag == "--drop-bad-rows")]
    words = [command, str(path), *flags]
    told = f"{command} fuzzed.{kind} {' '.join(flags)} with {content!r:.4000}"
    return Case("files", told, lambda: main(words), numeric=True, command=True)


def damage(rng: Rng, content: bytes) -> bytes:
    """Bytes of which some were changed, or the last are missing."""
    damaged = bytearray(content)
    if rng.random() < 0.3:
        return bytes(damaged[: rng.randrange(len(damaged))])
    for _ in range(rng.randint(1, 8)):
        at = (
            min(int(rng.expovariate(1 / 60)), len(damaged) - 1)
            if rng.random() < 0.6
            else rng.randrange(len(damaged))
        )
        damaged[at] = rng.randrange(256)
    return bytes(damaged)


def _array(rng: Rng) -> np.ndarray:
    shape = rng.choice(
        [(60, 2), (60, 2), (60, 2), (30, 4, 2), (1, 2), (0, 2), (60, 0), (60,), (), (2, 2), (40, 50), (3, 1)]
    )
    source = np.random.default_rng(rng.randrange(100))
    values = rng.choice([1.0, 1.0, 1e-300, 1e40, 1e60, 1e300, 0.0]) * source.normal(size=shape)
    if rng.random() < 0.15 and values.size:
        values.flat[rng.randrange(values.size)] = rng.choice([np.nan, np.inf, -np.inf])
    if rng.random() < 0.1:
        values = np.round(values) * 0 + 3.0
    if rng.random() < 0.25:
        with np.errstate(all="ignore"), contextlib.suppress(TypeError, ValueError):
            values = values.astype(rng.choice(DTYPES))
    return np.asfortranarray(values) if rng.random() < 0.2 else values


def _npy(rng: Rng) -> bytes:
    if rng.random() < 0.2:  # a header that lies
        shape = rng.choice(
            ["(10**9, 2)", "(1000000000000, 64)", "(-1, 2)", "(2, 2", "()", "[2, 2]", "(2.0, 2)", "('a',)"]
        )
        descr = rng.choice(["'<f8'", "'|O'", "'<f9'", "[('a', '<f8')]", "None", "'<f8' * 10**9"])
        order = rng.choice(["False", "3", "None"])
        text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
        return (
            b"\x93NUMPY"
            + rng.choice([b"\x01\x00", b"\x02\x00", b"\x09\x00"])
            + struct.pack("<H", len(text))
            + text
            + bytes(64)
        )
    file = io.BytesIO()
    np.save(file, _array(rng), allow_pickle=True)
    return file.getvalue()


def _npz(rng: Rng) -> bytes:
    file = io.BytesIO()
    names = rng.sample(NAMES[:6], rng.randint(0, 3))
    if rng.random() < 0.7:
        names = ["h", *names]
    with zipfile.ZipFile(file, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        for name in dict.fromkeys(names):
            content = _npy(rng) if rng.random() < 0.9 else rng.choice([b"", b"hello", bytes(1000)])
            archive.writestr(f"{name}.npy" if rng.random() < 0.95 else name, content)
    return file.getvalue()


def _csv(rng: Rng) -> bytes:
    mark = rng.choice((",", ";", "\t", " "))
    width = rng.randint(1, 4)
    rows = [
        [rng.choice(CELLS) if rng.random() < 0.03 else f"{rng.gauss(0, 1):.4g}" for _ in range(width)]
        for _ in range(rng.randint(0, 40))
    ]
    if rng.random() < 0.5:
        rows.insert(
            0,
            [
                rng.choice(("h0", "h1", "z0", "z", "x", "", "h_next0", "\x1b[31m", '"h"'))
                for _ in range(width)
            ],
        )
    if rng.random() < 0.1 and rows:
        rows[-1] = rows[-1][:-1]
    end = rng.choice(("\n", "\r\n", "\r", "\n\n"))
    return (
        rng.choice([b"", b"\xef\xbb\xbf", b"\xff\xfe"] if rng.random() < 0.1 else [b""])
        + end.join(map(mark.join, rows)).encode()
    )


def _safetensors(rng: Rng) -> bytes:
    arrays = {}
    for name in rng.sample(NAMES[:6], rng.randint(0, 3)):
        array = np.ascontiguousarray(_array(rng))
        arrays[name] = array if array.dtype.kind in "fiu" and array.dtype.isnative else np.ones((9, 2))
    if rng.random() < 0.7:
        arrays["h"] = np.random.default_rng(0).normal(size=(60, 2))
    content = save(arrays)
    if rng.random() < 0.2:  # a header that lies
        header = {
            "h": {
                "dtype": rng.choice(["F64", "F4", 3, None]),
                "shape": rng.choice([[10**12, 2], [2, 2], [-1], "x"]),
                "data_offsets": rng.choice([[0, 32], [0, 10**12], [5, 2], None]),
            }
        }
        text = json.dumps(header).encode()
        content = struct.pack("<Q", rng.choice([len(text), 10**15, 0])) + text + bytes(32)
    return content


def _torch(rng: Rng) -> bytes:
    file = io.BytesIO()
    h = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    torch.save(
        rng.choice(
            [
                h,
                {"h": h, "z": h},
                {"h": h, "epoch": 3},
                {"h": h > 0},
                {"h": h.to_sparse()},
                {},
                [],
                [h],
                3,
                None,
                "x",
                {"h": None},
                {3: h},
                {"h": [h]},
                h[:0],
                h.to(torch.complex64),
                h.bfloat16(),
                h.half(),
                h[0, 0],
                {"x": h},
            ]
        ),
        file,
    )
    return file.getvalue()


def _hdf5(rng: Rng) -> bytes:
    file = io.BytesIO()
    with h5py.File(file, "w") as store:
        for name in dict.fromkeys(rng.sample(("h", "z", "h_next", "a/b", "nope"), rng.randint(0, 3))):
            _add(rng, store, name)
        if rng.random() < 0.5 and "h" not in store:
            store["h"] = np.random.default_rng(0).normal(size=(60, 2))
    return file.getvalue()


def _add(rng: Rng, store: Any, name: str) -> None:
    draw = rng.random()
    if draw < 0.1:
        store.create_dataset(name, (10**12, 2), "f8", chunks=(1000, 2))
    elif draw < 0.15:
        store.create_dataset(name, data=h5py.Empty("f8"))
    elif draw < 0.2:
        store[name] = ["a", "b"]
    elif draw < 0.25:
        store[name] = h5py.SoftLink("/none")
    else:
        array = _array(rng)
        store[name] = array if array.dtype.kind in "fiub" else np.ones((9, 2))
