"""
Noise in tensors of PyTorch, on their devices.

Words are int32, whose sums wrap around; a shift to the right copies the sign, which is masked off.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

from typing import Any, Callable

import torch

from .chacha import CONSTANTS, PARTS, normals, words
from .numpy_backend import flatten

TILE = 2048  # blocks, which fit into the cache of a processor
DEVICE_TILE = 1 << 19  # a GPU is kept busy by 2^24 coordinates


def _signed(word: int) -> int:
    return word - 2**32 if word >= 2**31 else word


class TorchArithmetic:
    """On tensors of int32."""

    log, sqrt, cos, sin = torch.log, torch.sqrt, torch.cos, torch.sin
    join = staticmethod(torch.cat)

    @staticmethod
    def rotate(x: Any, bits: int) -> Any:
        return (x << bits) | ((x >> (32 - bits)) & ((1 << bits) - 1))

    @staticmethod
    def leading(x: Any) -> Any:
        return ((x >> 8) & 0xffffff).to(torch.float32)

    @staticmethod
    def trailing(x: Any) -> Any:
        return (x & 255).to(torch.float32)


class TorchBackend:
    def __init__(self) -> None:
        self.tile = TILE

    def leaves(self, like: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
        """Of a module, its parameters that need a gradient."""
        if isinstance(like, torch.nn.Module):
            like = [parameter for parameter in like.parameters() if parameter.requires_grad]
        leaves, build = flatten(like)
        for leaf in leaves:
            if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
                raise TypeError("noise is added to floating-point tensors, not to "
                                f"{leaf.dtype if isinstance(leaf, torch.Tensor) else type(leaf).__name__}")
        if any(leaf.device.type != "cpu" for leaf in leaves):
            self.tile = DEVICE_TILE
        return leaves, build

    def shape(self, array: Any) -> tuple[int, ...]:
        return tuple(array.shape)

    def device(self, array: Any) -> Any:
        return array.device

    def counters(self, numbers: Any, device: Any) -> Any:
        return torch.from_numpy(numbers).to(device=device, dtype=torch.int32)

    def zeros(self, rows: int, width: int, device: Any) -> Any:
        return torch.zeros((rows, width), dtype=torch.float32, device=device)

    def empty(self, width: int, device: Any) -> Any:
        return torch.empty(width, dtype=torch.float32, device=device)

    def draw(self, key: list[int], blocks: Any, parameters: Any, row: int) -> Any:
        def spread(numbers: Any) -> Any:
            column = torch.tensor([_signed(word) for word in numbers], dtype=torch.int32, device=blocks.device)
            return column[:, None].expand(4, len(blocks))

        def bits(part: int) -> Any:
            counters = torch.stack([blocks, parameters, torch.full_like(blocks, _signed(row)),
                                    torch.full_like(blocks, part)])
            return words((spread(CONSTANTS), spread(key), spread(key), counters), TorchArithmetic)

        with torch.no_grad():
            high, low, angles = map(bits, range(PARTS))
            return normals(high, low, angles, TorchArithmetic).T.reshape(-1)

    def like(self, values: Any, array: Any) -> Any:
        return values.reshape(array.shape).to(array.dtype)

    def rows_of(self, saved: Any, device: Any) -> Any:
        rows = torch.as_tensor(saved, dtype=torch.float32)
        return rows.clone() if device is None else rows.to(device)
