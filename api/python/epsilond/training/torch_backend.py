"""
Noise in tensors of PyTorch, on their devices.

On a GPU, words are int32, whose sums wrap around; a shift to the right copies the sign, which is masked off.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

from typing import Any, Callable

import torch

from .chacha import CONSTANTS, PARTS, key_words, normals, words
from .numpy_backend import NumpyDraws, flatten


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


class TorchDraws:
    """In tensors on a device."""

    tile = 1 << 19  # 2^24 coordinates keep a GPU busy

    def __init__(self, device: Any) -> None:
        self.device = device

    def counters(self, numbers: Any) -> Any:
        return torch.from_numpy(numbers).to(device=self.device, dtype=torch.int32)

    def zeros(self, rows: int, width: int) -> Any:
        return torch.zeros((rows, width), dtype=torch.float32, device=self.device)

    def empty(self, width: int) -> Any:
        return torch.empty(width, dtype=torch.float32, device=self.device)

    def draw(self, key: bytes, blocks: Any, parameters: Any, row: int) -> Any:
        def spread(numbers: Any) -> Any:
            column = torch.tensor([_signed(word) for word in numbers], dtype=torch.int32, device=blocks.device)
            return column[:, None].expand(4, len(blocks))

        def bits(part: int) -> Any:
            counters = torch.stack([blocks, parameters, torch.full_like(blocks, _signed(row)),
                                    torch.full_like(blocks, part)])
            return words((spread(CONSTANTS), spread(of_key[:4]), spread(of_key[4:]), counters), TorchArithmetic)

        of_key = key_words(key)
        with torch.no_grad():
            high, low, angles = map(bits, range(PARTS))
            return torch.cat(normals(high, low, angles, TorchArithmetic)).T.reshape(-1)

    def saved(self, rows: Any) -> Any:
        return rows.clone()

    def loaded(self, saved: Any) -> Any:
        return torch.as_tensor(saved, dtype=torch.float32).to(self.device)


class HostDraws(NumpyDraws):
    """On the processor it is NumPy that draws: the bits are those of NumPy, and OpenSSL helps."""

    def saved(self, rows: Any) -> Any:
        return torch.from_numpy(super().saved(rows))

    def loaded(self, saved: Any) -> Any:
        return super().loaded(torch.as_tensor(saved, dtype=torch.float32).cpu().numpy())


class TorchBackend:
    def leaves(self, like: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
        """Of a module, its parameters that need a gradient."""
        if isinstance(like, torch.nn.Module):
            like = [parameter for parameter in like.parameters() if parameter.requires_grad]
        leaves, build = flatten(like)
        for leaf in leaves:
            if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
                raise TypeError("noise is added to floating-point tensors, not to "
                                f"{leaf.dtype if isinstance(leaf, torch.Tensor) else type(leaf).__name__}")
        return leaves, build

    def shape(self, array: Any) -> tuple[int, ...]:
        return tuple(array.shape)

    def device(self, array: Any) -> Any:
        return array.device

    def draws(self, device: Any) -> TorchDraws | HostDraws:
        return HostDraws() if device.type == "cpu" else TorchDraws(device)

    def like(self, values: Any, array: Any) -> Any:
        return torch.as_tensor(values).reshape(array.shape).to(array.dtype)
