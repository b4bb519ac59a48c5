"""
Random draws with the laws that the accounting assumes: the words of a keyed generator, and what is made of them. A
stream of words is named by a purpose and an index, such as a step, so any of them can be drawn again without those
before it.

The words are the output of SHAKE128 (FIPS 202), which is made to withstand attackers, under a key of 128 bits. Real
numbers decide nothing by themselves: where rounding could matter, the same words decide in exact arithmetic. So a key
gives the same draws on every machine and with every version of NumPy, and a law is missed by less than 2^-107 for each
draw times what it may count, as in the service.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import decimal
import fractions
import hashlib
import importlib
import math
from typing import Any

numpy: Any = importlib.import_module("numpy")

CHUNK = 1 << 20  # draws at a time, which bounds the memory of many


class Words:
    """A stream of 64-bit words: that of `purpose` and `index` (each below 2^64) under a key of 16 bytes."""

    def __init__(self, key: bytes, purpose: int, index: int) -> None:
        self._name = key + purpose.to_bytes(8, "little") + index.to_bytes(8, "little")
        self._calls = 0

    def raw(self, count: int) -> Any:
        """The next words. Each call has an output of its own: the beginning of a longer one is a shorter one."""
        output = hashlib.shake_128(self._name + self._calls.to_bytes(8, "little")).digest(8 * count)
        self._calls += 1
        return numpy.frombuffer(output, dtype="<u8").astype(numpy.uint64)

    def below(self, limit: int, count: int) -> Any:
        """Integers in [0, limit), all equally likely: words beyond the largest multiple of `limit` are drawn again."""
        words = self.raw(count)
        fair = (1 << 64) - (1 << 64) % limit
        if fair < 1 << 64:
            again = numpy.flatnonzero(words >= numpy.uint64(fair))
            while len(again):
                words[again] = self.raw(len(again))
                again = again[words[again] >= numpy.uint64(fair)]
        return words % numpy.uint64(limit)

    def permutation(self, count: int) -> Any:
        """The numbers 0 .. count-1 in an order that is uniform among all: that of words of which no two are equal."""
        while True:
            words = self.raw(count)
            order = numpy.argsort(words)
            ordered = words[order]
            if not numpy.any(ordered[1:] == ordered[:-1]):
                return order

    def coins(self, probability: fractions.Fraction, count: int) -> Any:
        """Tosses that fall heads (True) with the probability, rounded down to 128 bits."""
        if probability == 1:
            return numpy.ones(count, dtype=bool)
        high, low = divmod(math.floor(probability * (1 << 128)), 1 << 64)
        first, second = self.raw(count), self.raw(count)
        return (first < numpy.uint64(high)) | ((first == numpy.uint64(high)) & (second < numpy.uint64(low)))


class Tails:
    """
    Runs of tails of a coin that falls heads with probability p in (0, 1]: k tails come before the first heads with
    probability p (1-p)^k, which is floor(ln u / ln(1-p)) for a uniform u.
    """

    def __init__(self, p: float) -> None:
        self.p = p
        self._inverse = 1 / math.log1p(-p) if p < 1 else 0.0

    def _exactly(self, high: int, low: int, most: int) -> int:
        """The run of u = (high 2^64 + low + 1/2)/2^128, in 160 digits, of which 1 - p has at most 120."""
        with decimal.localcontext(decimal.Context(prec=160)):
            uniform = (decimal.Decimal((high << 64) + low) + decimal.Decimal("0.5")) / (1 << 128)
            return min(int(uniform.ln() / (1 - decimal.Decimal(self.p)).ln()), most)

    def runs(self, words: Words, count: int, most: int) -> Any:
        """The lengths of `count` runs, each cut at `most` < 2^40."""
        if self.p == 1:
            return numpy.zeros(count, dtype=numpy.int64)
        high, low = words.raw(count), words.raw(count)
        uniform = high.astype(numpy.float64) + 0.5
        length = numpy.log(uniform * 2.0 ** -64) * self._inverse
        # u is known to half of 2^-64 and the rounding of a double; log, inverse and product are off by a few ulps.
        slack = (2.0 ** -51 + 1 / uniform) * -self._inverse + length * 2.0 ** -49
        lowest = numpy.clip(numpy.floor(length - slack), 0, most)
        highest = numpy.clip(numpy.floor(length + slack), 0, most)
        runs = lowest.astype(numpy.int64)
        for i in numpy.flatnonzero((lowest != highest) | (high < 1 << 11)):
            runs[i] = self._exactly(int(high[i]), int(low[i]), most)
        return runs

    def heads(self, words: Words, length: int) -> Any:
        """The places of the heads among `length` tosses, ascending, in time proportional to their number."""
        if self.p == 1:
            return numpy.arange(length, dtype=numpy.int64)
        pieces, last = [], -1
        while last < length - 1:
            left = length - 1 - last
            likely = left * self.p
            count = min(int(likely + 6 * math.sqrt(likely)) + 8, CHUNK)
            places = last + numpy.cumsum(self.runs(words, count, left) + 1)
            pieces.append(places[:numpy.searchsorted(places, length)])
            last = int(places[-1])
        return numpy.concatenate(pieces) if pieces else numpy.empty(0, dtype=numpy.int64)
