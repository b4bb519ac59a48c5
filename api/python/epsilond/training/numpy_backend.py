"""
Noise in NumPy arrays.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import importlib
import struct
from collections.abc import Mapping
from typing import Any, Callable

import numpy

from .chacha import CONSTANTS, PARTS, key_words, normals, words

try:
    ciphers: Any = importlib.import_module("cryptography.hazmat.primitives.ciphers")
except ImportError:
    ciphers = None


class NumpyArithmetic:
    """On arrays of uint32."""

    log, sqrt, cos, sin = numpy.log, numpy.sqrt, numpy.cos, numpy.sin
    join = staticmethod(numpy.concatenate)

    @staticmethod
    def rotate(x: Any, bits: int) -> Any:
        return (x << numpy.uint32(bits)) | (x >> numpy.uint32(32 - bits))

    @staticmethod
    def leading(x: Any) -> Any:
        return (x >> numpy.uint32(8)).astype(numpy.float32)

    @staticmethod
    def trailing(x: Any) -> Any:
        return (x & numpy.uint32(255)).astype(numpy.float32)


def flatten(like: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The arrays in lists, tuples and dictionaries, and what rebuilds these around others."""
    if isinstance(like, Mapping):
        keys = sorted(like)
        parts = [flatten(like[key]) for key in keys]
    elif isinstance(like, (list, tuple)):
        keys, parts = None, [flatten(item) for item in like]
    else:
        return [like], lambda leaves: leaves[0]

    def build(leaves: list[Any]) -> Any:
        built, at = [], 0
        for inner, make in parts:
            built.append(make(leaves[at:at + len(inner)]))
            at += len(inner)
        if keys is not None:
            made = dict(zip(keys, built))
            return {key: made[key] for key in like}
        if hasattr(like, "_fields"):  # a named tuple
            return type(like)(*built)
        return type(like)(built)

    return [leaf for inner, _ in parts for leaf in inner], build


class NumpyDraws:
    """In NumPy arrays, with the key stream of OpenSSL where the package `cryptography` is installed."""

    tile = 2048

    def counters(self, numbers: Any) -> Any:
        return numbers.astype(numpy.uint32)

    def zeros(self, rows: int, width: int) -> Any:
        return numpy.zeros((rows, width), dtype=numpy.float32)

    def empty(self, width: int) -> Any:
        return numpy.empty(width, dtype=numpy.float32)

    def draw(self, key: bytes, blocks: Any, parameters: Any, row: int) -> Any:
        stream = computed_stream if ciphers is None else openssl_stream
        high, low, angles = (stream(key, blocks, parameters, row, part) for part in range(PARTS))
        return numpy.concatenate(normals(high, low, angles, NumpyArithmetic), axis=1).reshape(-1)

    def saved(self, rows: Any) -> Any:
        return numpy.array(rows, dtype=numpy.float32)

    def loaded(self, saved: Any) -> Any:
        return numpy.array(saved, dtype=numpy.float32)


def computed_stream(key: bytes, blocks: Any, parameters: Any, row: int, part: int) -> Any:
    """The words of a part, blocks x 16 of them."""
    def spread(numbers: Any) -> Any:
        return numpy.repeat(numpy.array(numbers, dtype=numpy.uint32)[:, None], len(blocks), axis=1)

    counters = numpy.stack([blocks, parameters, numpy.full_like(blocks, row), numpy.full_like(blocks, part)])
    of_key = key_words(key)
    return words((spread(CONSTANTS), spread(of_key[:4]), spread(of_key[4:]), counters), NumpyArithmetic).T


def openssl_stream(key: bytes, blocks: Any, parameters: Any, row: int, part: int) -> Any:
    """The same: a key stream for each run of consecutive blocks of a parameter."""
    out = numpy.empty((len(blocks), 16), dtype="<u4")
    breaks = (numpy.diff(blocks) != 1) | (numpy.diff(parameters) != 0)
    cuts = [0, *(numpy.flatnonzero(breaks) + 1).tolist(), len(blocks)]
    for low, high in zip(cuts, cuts[1:]):
        start = struct.pack("<4I", blocks[low], parameters[low], row, part)
        cipher = ciphers.Cipher(ciphers.algorithms.ChaCha20(key, start), None).encryptor()
        cipher.update_into(bytes(64 * (high - low)), out[low:high].data.cast("B"))
    return out


class NumpyBackend:
    def leaves(self, like: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
        leaves, build = flatten(like)
        arrays = [numpy.asarray(leaf) for leaf in leaves]
        for array in arrays:
            if not array.dtype.name.startswith(("float", "bfloat")):  # also those of ml_dtypes
                raise TypeError(f"noise is added to floating-point arrays, not to {array.dtype}")
        return arrays, build

    def shape(self, array: Any) -> tuple[int, ...]:
        return tuple(array.shape)

    def device(self, array: Any) -> Any:
        return None

    def draws(self, device: Any) -> NumpyDraws:
        return NumpyDraws()

    def like(self, values: Any, array: Any) -> Any:
        return values.reshape(array.shape).astype(array.dtype)
