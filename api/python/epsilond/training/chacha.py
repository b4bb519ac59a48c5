"""
White noise that can be drawn again: standard normals in float32, each a function of a secret key, the row, the
parameter and the coordinate, so that they do not depend on how parameters are divided among devices or processes.

The bits are those of ChaCha20 (RFC 8439): block b of a parameter, its coordinates 32 b to 32 b + 31, has 16 words of
each of three parts, with b as the block counter and (parameter, row, part) as the nonce. ChaCha20 consists of
additions, rotations and exclusive ors of 32-bit words, which NumPy, PyTorch and JAX compute alike on every device, and
OpenSSL faster than all of them. (Philox and Threefry, which frameworks use, were never meant to withstand an attacker,
who here is assumed to know the noise of all other steps.)

Parts 0 and 1 give the radii and part 2 the angles of 16 pairs by Box and Muller: the cosines are coordinates 0 to 15,
the sines 16 to 31. A radius comes from two words, u = (high + (low + 1/2) / 2^32) / 2^32 rounded to float32, so that
the tail reaches to 9.5 standard deviations: 10^10 pairs, such as 2000 steps of 10^7 parameters, have one beyond it with
a probability of 3e-10. (With one word it would end at 6.7, and some would lie beyond it.) An angle comes from 24 bits.
Everything up to the logarithm, the sine and the cosine consists of exact operations and single roundings, and is the
same everywhere. Those three may differ in their last bits between libraries and devices.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import math
from typing import Any, Protocol

KEY_BYTES = 32
COORDINATES = 32  # of a block
PARTS = 3  # of a block: leading and trailing words of the radii, and words of the angles
DOUBLE_ROUNDS = 10
CONSTANTS = tuple(int.from_bytes(b"expand 32-byte k"[i:i + 4], "little") for i in range(0, 16, 4))
ANGLE = 2 * math.pi / 2**24
MOST_BLOCKS = 2**31  # of a parameter: its blocks are counted in an int32


class Arithmetic(Protocol):
    """What a backend does with arrays of 32-bit words: a sum wraps around, whether words are signed or not."""

    def rotate(self, words: Any, bits: int) -> Any:
        """Rotates words to the left."""

    def leading(self, words: Any) -> Any:
        """The 24 leading bits, as float32."""

    def trailing(self, words: Any) -> Any:
        """The 8 trailing bits, as float32."""

    def join(self, arrays: list[Any]) -> Any:
        """Concatenates arrays along their first axis."""

    def log(self, x: Any) -> Any: ...
    def sqrt(self, x: Any) -> Any: ...
    def cos(self, x: Any) -> Any: ...
    def sin(self, x: Any) -> Any: ...


def key_words(key: bytes) -> list[int]:
    """The words of a key of 32 bytes."""
    return [int.from_bytes(key[i:i + 4], "little") for i in range(0, KEY_BYTES, 4)]


def quarter_round(a: Any, b: Any, c: Any, d: Any, on: Arithmetic) -> tuple[Any, Any, Any, Any]:
    a = a + b
    d = on.rotate(d ^ a, 16)
    c = c + d
    b = on.rotate(b ^ c, 12)
    a = a + b
    d = on.rotate(d ^ a, 8)
    c = c + d
    b = on.rotate(b ^ c, 7)
    return a, b, c, d


def words(start: tuple[Any, Any, Any, Any], on: Arithmetic) -> Any:
    """
    16 words for each block, 16 x blocks of them. `start`: four arrays of 4 x blocks words: the constants, the key in
    two halves, and the block counter with the nonce. Four quarter rounds at a time: of the columns, then of the
    diagonals.
    """
    def turn(row: Any, places: int) -> Any:
        return on.join([row[places:], row[:places]])

    a, b, c, d = start
    for _ in range(DOUBLE_ROUNDS):
        a, b, c, d = quarter_round(a, b, c, d, on)
        a, b, c, d = quarter_round(a, turn(b, 1), turn(c, 2), turn(d, 3), on)
        b, c, d = turn(b, 3), turn(c, 2), turn(d, 1)
    return on.join([end + begin for end, begin in zip((a, b, c, d), start)])


def normals(high: Any, low: Any, angles: Any, on: Arithmetic) -> tuple[Any, Any]:
    """The normals of the words of the three parts, in their shape: the cosines and the sines."""
    below = on.leading(low) + (on.trailing(low) + 0.5) * 2.0**-8
    u = on.leading(high) * 2.0**-24 + (on.trailing(high) + below * 2.0**-24) * 2.0**-32
    radius, angle = on.sqrt(-2.0 * on.log(u)), (on.leading(angles) - 2.0**23) * ANGLE
    return radius * on.cos(angle), radius * on.sin(angle)
