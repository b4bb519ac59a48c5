"""
Arrays in the NumPy file format (.npy, versions 1 to 3), as the service sends them. They are returned as NumPy arrays if
NumPy is installed, and otherwise as lists of numbers.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import array
import ast
import importlib
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

try:
    numpy: Any = importlib.import_module("numpy")
except ImportError:  # use lists
    numpy = None

MAGIC = b"\x93NUMPY"
CODES = {"<f8": "d", "<f4": "f"}


def _exactly(stream: BinaryIO, size: int) -> bytes:
    parts = []
    while size > 0:
        part = stream.read(size)
        if not part:
            raise EOFError("the array ends before its last number")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def read_header(stream: BinaryIO) -> tuple[str, tuple[int, ...]]:
    """Reads the type of the numbers and the shape; the stream is then at the first number."""
    start = _exactly(stream, 8)
    if start[:6] != MAGIC:
        raise ValueError("not a .npy file")
    length = int.from_bytes(_exactly(stream, 2 if start[6] == 1 else 4), "little")
    header = ast.literal_eval(_exactly(stream, length).decode("utf-8"))
    if header["descr"] not in CODES or header["fortran_order"]:
        raise ValueError(f"unsupported kind of array: {header}")
    return header["descr"], tuple(header["shape"])


def _vector(data: bytes, descr: str) -> Any:
    if numpy is not None:
        return numpy.frombuffer(data, descr)
    numbers = array.array(CODES[descr], data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()


def read_rows(stream: BinaryIO) -> Iterator[Any]:
    """The rows of a matrix, or a vector as one row, as they arrive."""
    descr, shape = read_header(stream)
    rows, columns = (1, shape[0]) if len(shape) == 1 else shape
    size = array.array(CODES[descr]).itemsize
    for _ in range(rows):
        yield _vector(_exactly(stream, columns * size), descr)


def read_array(stream: BinaryIO) -> Any:
    """The whole array, which has one or two dimensions."""
    descr, shape = read_header(stream)
    size = array.array(CODES[descr]).itemsize
    for extent in shape:
        size *= extent
    flat = _vector(_exactly(stream, size), descr)
    if numpy is not None:
        return flat.reshape(shape)
    if len(shape) == 1:
        return flat
    return [flat[i * shape[1]:(i + 1) * shape[1]] for i in range(shape[0])]
