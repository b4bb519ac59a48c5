"""
Noise in NumPy arrays.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

import numpy

from .chacha import CONSTANTS, PARTS, normals, words


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


class NumpyBackend:
    tile = 2048
    counters = staticmethod(lambda numbers, device: numbers.astype(numpy.uint32))

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

    def zeros(self, rows: int, width: int, device: Any) -> Any:
        return numpy.zeros((rows, width), dtype=numpy.float32)

    def empty(self, width: int, device: Any) -> Any:
        return numpy.empty(width, dtype=numpy.float32)

    def draw(self, key: list[int], blocks: Any, parameters: Any, row: int) -> Any:
        def spread(numbers: Any) -> Any:
            return numpy.repeat(numpy.array(numbers, dtype=numpy.uint32)[:, None], len(blocks), axis=1)

        def bits(part: int) -> Any:
            counters = numpy.stack([blocks, parameters, numpy.full_like(blocks, row), numpy.full_like(blocks, part)])
            return words((spread(CONSTANTS), spread(key), spread(key), counters), NumpyArithmetic)

        high, low, angles = map(bits, range(PARTS))
        return normals(high, low, angles, NumpyArithmetic).T.reshape(-1)

    def like(self, values: Any, array: Any) -> Any:
        return values.reshape(array.shape).astype(array.dtype)

    def rows_of(self, saved: Any, device: Any) -> Any:
        return numpy.array(saved, dtype=numpy.float32)
