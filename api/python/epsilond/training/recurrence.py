"""
How x = C^-1 z is computed row by row: the kinds of recurrence that GET /v1/jobs/{id}/mechanism describes
(api/DRAWING.md). A recurrence keeps a few rows of its own; z is not kept, because each of its rows can be drawn again.

One class a kind. `row` computes a row of a block for any number of coordinates, on arrays of NumPy or PyTorch, which it
only adds and multiplies by numbers; jax_noise.py has the same as pure functions. Sums go term by term, not through
matrix products, whose bits depend on their sizes.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

import numpy

Draw = Callable[[int], Any]  # the row of z with this number within the block


class Recurrence:
    """`block`: the steps after which everything starts anew; `block_rows`: the rows of z for them; `kept`: the rows
    that are kept from step to step."""

    kept = 0

    def __init__(self, noise: Mapping[str, Any]) -> None:
        self.block = int(noise["block"])
        self.block_rows = int(noise["block_rows"])

    def row(self, t: int, draw: Draw, rows: Any) -> Any:
        """x of step t of a block. Steps are computed in order; `rows`: what is kept, zero before step 0."""
        raise NotImplementedError

    def draws(self) -> int:
        """The rows of z that one step draws, at most."""
        return 1

    def norms(self) -> Any:
        """|row_t of C^-1| for the steps of a block, in float64."""
        impulse = self.impulse()
        return numpy.sqrt(numpy.cumsum(impulse * impulse))

    def impulse(self) -> Any:
        """The first column of C^-1, for kinds whose blocks are Toeplitz."""
        rows = numpy.zeros((self.kept, 1))
        return numpy.concatenate([self.row(t, lambda j: numpy.array([float(j == 0)]), rows)
                                  for t in range(self.block)])


class Identity(Recurrence):
    def __init__(self, noise: Mapping[str, Any]) -> None:
        super().__init__(noise)
        self.divisor = float(noise["divisor"])

    def row(self, t: int, draw: Draw, rows: Any) -> Any:
        return draw(t) / self.divisor

    def norms(self) -> Any:
        return numpy.full(self.block, 1 / abs(self.divisor))


class Bands(Recurrence):
    """Forward substitution in C, whose last rows of x are kept in a ring."""

    def weights(self, t: int) -> Any:
        """C[t, t - d] for d = 0, 1... up to what exists."""
        raise NotImplementedError

    def row(self, t: int, draw: Draw, rows: Any) -> Any:
        weights = self.weights(t)
        x = draw(t)
        for d in range(1, len(weights)):
            x -= float(weights[d]) * rows[(t - d) % self.kept]
        x /= float(weights[0])
        if self.kept:
            rows[t % self.kept] = x
        return x


class Toeplitz(Bands):
    def __init__(self, noise: Mapping[str, Any]) -> None:
        super().__init__(noise)
        self.coefficients = numpy.array(noise["coefficients"], dtype=float)
        self.kept = len(self.coefficients) - 1

    def weights(self, t: int) -> Any:
        return self.coefficients[:t + 1]

    def impulse(self) -> Any:
        tail, out = self.coefficients[1:], numpy.zeros(self.block)
        out[0] = 1 / self.coefficients[0]
        for t in range(1, self.block):
            reach = min(t, self.kept)
            out[t] = -(tail[:reach] @ out[t - reach:t][::-1]) / self.coefficients[0]
        return out


class Columns(Bands):
    def __init__(self, noise: Mapping[str, Any]) -> None:
        super().__init__(noise)
        self.width = int(noise["width"])
        self.columns = numpy.array(noise["columns"], dtype=float).reshape(-1, self.width)
        self.kept = self.width - 1

    def weights(self, t: int) -> Any:
        reach = numpy.arange(min(t + 1, self.width))
        return self.columns[numpy.maximum(0, t - reach + len(self.columns) - self.block), reach]

    def norms(self) -> Any:
        """From the covariance of the rows that are kept, which follows from step to step."""
        covariance = numpy.zeros((self.kept, self.kept))
        norms = numpy.empty(self.block)
        for t in range(self.block):
            weights = self.weights(t)
            slots = (t - numpy.arange(1, len(weights))) % max(1, self.kept)
            shared = covariance[:, slots] @ weights[1:]
            square = (1 + weights[1:] @ shared[slots]) / weights[0]**2
            norms[t] = numpy.sqrt(square)
            if self.kept:
                slot = t % self.kept
                covariance[slot] = covariance[:, slot] = -shared / weights[0]
                covariance[slot, slot] = square
        return norms


class Blt(Recurrence):
    def __init__(self, noise: Mapping[str, Any]) -> None:
        super().__init__(noise)
        self.divisor = float(noise["divisor"])
        self.decay, self.scale = ([float(number) for number in noise[name]] for name in ("decay", "scale"))
        self.kept = len(self.decay)

    def row(self, t: int, draw: Draw, rows: Any) -> Any:
        y = draw(t)
        for i, scale in enumerate(self.scale):
            y -= scale * rows[i]
        for i, decay in enumerate(self.decay):
            rows[i] += (decay - 1) * rows[i] + y  # a decay near 1 has too few digits in float32
        return y / self.divisor


class Inverse(Recurrence):
    """The filter C^-1, over rows of z that are drawn again."""

    def __init__(self, noise: Mapping[str, Any]) -> None:
        super().__init__(noise)
        self.coefficients = numpy.array(noise["coefficients"], dtype=float)

    def row(self, t: int, draw: Draw, rows: Any) -> Any:
        x = float(self.coefficients[0]) * draw(t)
        for d in range(1, min(t + 1, len(self.coefficients))):
            x += float(self.coefficients[d]) * draw(t - d)
        return x

    def draws(self) -> int:
        return len(self.coefficients)

    def impulse(self) -> Any:
        return numpy.concatenate([self.coefficients, numpy.zeros(self.block - len(self.coefficients))])


class Rows(Recurrence):
    """Rows of C^-1, over rows of z that are drawn again."""

    def __init__(self, noise: Mapping[str, Any], rows: Any) -> None:
        super().__init__(noise)
        self.rows = numpy.asarray(rows, dtype=float)[:self.block, :self.block_rows]

    def row(self, t: int, draw: Draw, rows: Any) -> Any:
        used = numpy.flatnonzero(self.rows[t])
        x = float(self.rows[t, used[0]]) * draw(int(used[0]))
        for j in used[1:]:
            x += float(self.rows[t, j]) * draw(int(j))
        return x

    def draws(self) -> int:
        return int((self.rows != 0).sum(axis=1).max())

    def norms(self) -> Any:
        return numpy.linalg.norm(self.rows, axis=1)


KINDS: dict[str, Callable[[Mapping[str, Any]], Recurrence]] = {
    "identity": Identity, "toeplitz": Toeplitz, "columns": Columns, "blt": Blt, "inverse": Inverse}


def recurrence_of(noise: Mapping[str, Any], rows: Any) -> Recurrence:
    """The recurrence of a document; `rows`: C^-1, for kind rows."""
    if noise["kind"] == "rows":
        return Rows(noise, rows)
    if noise["kind"] not in KINDS:
        raise ValueError(f"this client is too old for a recurrence of kind {noise['kind']!r}: install a newer one")
    return KINDS[noise["kind"]](noise)
