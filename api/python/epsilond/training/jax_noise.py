"""
Noise in pytrees of JAX arrays: a pure function of a state, for jit and scan.

The recurrences are those of recurrence.py, as functions. The step is traced, so the weights of the rows in a ring are
computed from it; those of rows from before the block are 0.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy

from .chacha import CONSTANTS, COORDINATES, DOUBLE_ROUNDS, MOST_BLOCKS, PARTS, key_words, normals, quarter_round
from .journal import Journal, ReplayError, checked_key, cipher_key, fingerprint
from .noise import checked_steps, described
from .recurrence import Bands, Blt, Columns, Identity, Inverse, Recurrence, Rows, Toeplitz

if TYPE_CHECKING:
    from .mechanism import Mechanism

TILE = 2048  # blocks


class JaxArithmetic:
    """On arrays of uint32."""

    log, sqrt, cos, sin, join = jnp.log, jnp.sqrt, jnp.cos, jnp.sin, jnp.concatenate

    @staticmethod
    def rotate(x: Any, bits: int) -> Any:
        return (x << jnp.uint32(bits)) | (x >> jnp.uint32(32 - bits))

    @staticmethod
    def leading(x: Any) -> Any:
        return (x >> jnp.uint32(8)).astype(jnp.float32)

    @staticmethod
    def trailing(x: Any) -> Any:
        return (x & jnp.uint32(255)).astype(jnp.float32)


COLUMNS = [(i, 4 + i, 8 + i, 12 + i) for i in range(4)]
DIAGONALS = [(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4) for i in range(4)]


def words(start: list[Any]) -> Any:
    """chacha.words() with an array for each word, which XLA computes faster, in a loop, which is compiled once."""
    def double_round(_: Any, state: list[Any]) -> list[Any]:
        for places in COLUMNS + DIAGONALS:
            a, b, c, d = (state[place] for place in places)
            for place, word in zip(places, quarter_round(a, b, c, d, JaxArithmetic)):
                state[place] = word
        return state

    return jnp.stack([end + begin for end, begin in
                      zip(jax.lax.fori_loop(0, DOUBLE_ROUNDS, double_round, list(start)), start)])


def draw_blocks(key: Any, blocks: Any, parameter: int, row: Any) -> tuple[Any, Any]:
    """The normals of blocks, 16 x blocks cosines and as many sines."""
    def bits(part: int) -> Any:
        return words([jnp.broadcast_to(jnp.asarray(word, dtype=jnp.uint32), blocks.shape)
                      for word in (*CONSTANTS, *key, blocks, parameter, row, part)])

    high, low, angles = map(bits, range(PARTS))
    return normals(high, low, angles, JaxArithmetic)


def draw(key: Any, parameter: int, row: Any, shape: tuple[int, ...]) -> Any:
    """A row of normals for a parameter."""
    size = int(numpy.prod(shape, dtype=numpy.int64))
    count = -(-size // COORDINATES)
    if count > MOST_BLOCKS:
        raise ValueError("a parameter has more than 2^36 coordinates: divide it into several")

    def whole() -> tuple[Any, Any]:
        cosines, sines = draw_blocks(key, jnp.arange(count, dtype=jnp.uint32), parameter, row)
        return cosines[None], sines[None]

    def tiled() -> Any:
        """In tiles that fit into the cache of a processor, one after the other."""
        blocks = jnp.arange(TILE, dtype=jnp.uint32)
        first = jnp.arange(-(-count // TILE), dtype=jnp.uint32) * TILE
        return jax.lax.map(lambda at: draw_blocks(key, at + blocks, parameter, row), first)

    def ordered(parts: tuple[Any, Any]) -> Any:
        """The coordinates, of tiles x 16 x blocks cosines and sines. Without the barrier, XLA computes them here,
        number by number."""
        pairs = jnp.stack(jax.lax.optimization_barrier(parts), axis=1)
        return pairs.transpose(0, 3, 1, 2).reshape(-1)[:size].reshape(shape)

    drawn = (ordered(whole()) if count <= TILE else
             jax.lax.platform_dependent(cpu=lambda: ordered(tiled()), default=lambda: ordered(whole())))
    return jax.lax.optimization_barrier(drawn)  # otherwise it is drawn again for every use


def weighted(start: Any, weights: Any, rows: Any) -> Any:
    """start less the rows times their weights. Not unrolled, or XLA copies all rows before one of them is replaced."""
    return jax.lax.fori_loop(0, len(rows), lambda i, x: x - weights[i] * rows[i], start)


# ---------------------------------------------------------------- the recurrences


def bands_row(r: Bands, t: Any, z: Any, rows: Any) -> tuple[Any, Any]:
    kept = r.kept
    distance = (t - 1 - jnp.arange(kept)) % max(1, kept) + 1  # of each slot of the ring
    if isinstance(r, Columns):
        columns = jnp.asarray(r.columns, dtype=jnp.float32)
        first = len(r.columns) - r.block
        weights = columns[jnp.maximum(0, t - distance + first), distance]
        divisor = columns[jnp.maximum(0, t + first), 0]
    else:
        coefficients = jnp.asarray(r.coefficients, dtype=jnp.float32)  # type: ignore[attr-defined]
        weights, divisor = coefficients[distance], coefficients[0]
    x = jax.lax.optimization_barrier(weighted(z(t), jnp.where(distance <= t, weights, 0), rows) / divisor)
    return x, (jax.lax.dynamic_update_index_in_dim(rows, x, t % kept, 0) if kept else rows)


def blt_row(r: Blt, t: Any, z: Any, rows: Any) -> tuple[Any, Any]:
    rows = jnp.where(t == 0, 0, rows)
    y = weighted(z(t), jnp.asarray(r.scale, dtype=jnp.float32), rows)
    less = jnp.asarray([decay - 1 for decay in r.decay], dtype=jnp.float32).reshape(-1, *[1] * y.ndim)
    return y / jnp.float32(r.divisor), rows + (less * rows + y)


def inverse_row(r: Inverse, t: Any, z: Any, rows: Any) -> tuple[Any, Any]:
    coefficients = jnp.asarray(r.coefficients, dtype=jnp.float32)
    reach = jnp.minimum(t + 1, len(r.coefficients))
    return jax.lax.fori_loop(1, reach, lambda d, x: x + coefficients[d] * z(t - d), coefficients[0] * z(t)), rows


def rows_row(r: Rows, t: Any, z: Any, rows: Any) -> tuple[Any, Any]:
    used = r.rows != 0
    first, last = used.argmax(axis=1), used.shape[1] - used[:, ::-1].argmax(axis=1)
    matrix, first, last = jnp.asarray(r.rows, dtype=jnp.float32), jnp.asarray(first), jnp.asarray(last)
    start = matrix[t, first[t]] * z(first[t])
    return jax.lax.fori_loop(first[t] + 1, last[t], lambda j, x: x + matrix[t, j] * z(j), start), rows


def identity_row(r: Identity, t: Any, z: Any, rows: Any) -> tuple[Any, Any]:
    return z(t) / jnp.float32(r.divisor), rows


FUNCTIONS: dict[type[Recurrence], Any] = {Identity: identity_row, Toeplitz: bands_row, Columns: bands_row, Blt: blt_row,
                                          Inverse: inverse_row, Rows: rows_row}


# ---------------------------------------------------------------- the noise


class JaxNoise:
    """
    The noise of one run as a pure function: state, x = noise(state), from state = noise.init() on. Nothing is changed
    in place, so it may be jitted, scanned, and a part of a training step. x is NaN from step n on.

    The state holds the key and noise of the last steps, and is as secret as they are. Nothing but the caller can see
    that a state is used twice: a step whose result was seen must not be repeated from an older state with other
    gradients; see Noise.load_state_dict() on what it costs. With a journal, the loop calls record(state) after each
    step (or each scan), before anything that came of it is kept or seen.
    """

    def __init__(self, mechanism: Mechanism, like: Any, key: bytes | None, clip_norm: float,
                 journal: str | os.PathLike[str] | None = None) -> None:
        self.mechanism = mechanism
        self.key = checked_key(key)
        self.clip_norm = float(clip_norm)
        leaves, self._tree = jax.tree_util.tree_flatten(like)
        if not leaves:
            raise ValueError("there is no array to draw noise for")
        for leaf in leaves:
            if not jnp.issubdtype(leaf.dtype, jnp.floating):
                raise TypeError(f"noise is added to floating-point arrays, not to {leaf.dtype}")
        self._shapes = [(tuple(leaf.shape), leaf.dtype) for leaf in leaves]
        self._mark = fingerprint(mechanism, self.key)
        self._cipher = cipher_key(mechanism, self.key)
        self._journal = None if journal is None else Journal(journal, self._mark)

    @property
    def released(self) -> int:
        """The number of steps that were drawn at any time, as the journal knows."""
        return self._journal.released if self._journal else 0

    def record(self, state: Mapping[str, Any]) -> None:
        """Writes into the journal that the steps before this state were drawn. Waits for the state."""
        if self._journal is None:
            raise ValueError("there is no journal: give one to mechanism.noise()")
        self._journal.record(int(state["step"]))

    def init(self, *, allow_replay: bool = False) -> dict[str, Any]:
        """The state before step 0. A ReplayError if the journal knows of later ones, unless allow_replay is given; see
        load_state_dict()."""
        self._check_replay(0, self.released, allow_replay)
        return self._start()

    def advance(self, state: Mapping[str, Any], steps: int) -> dict[str, Any]:
        """The state after so many steps, whose noise is not returned; see Noise.advance()."""
        now = int(state["step"])
        if not now <= steps <= self.mechanism.n:
            raise ValueError(f"steps must lie in [{now}, {self.mechanism.n}]")
        if self.mechanism.recurrence.kept:
            after: dict[str, Any] = jax.lax.fori_loop(now, steps, lambda _, state: self(state)[0], dict(state))
        else:
            after = {**state, "step": jnp.asarray(steps, dtype=jnp.int32)}
        if self._journal:
            self._journal.record(steps)
        return after

    def _check_replay(self, steps: int, released: int, allow_replay: bool) -> None:
        if steps < released and not allow_replay:
            raise ReplayError(f"the state is that after {steps} steps, but {released} were drawn: to repeat them with "
                              "other sums would reveal the differences; advance() past them with allow_replay, or see "
                              "Noise.load_state_dict() on what it costs")

    def _start(self) -> dict[str, Any]:
        kept = self.mechanism.recurrence.kept
        return {"key": jnp.asarray(key_words(self._cipher), dtype=jnp.uint32), "step": jnp.zeros((), dtype=jnp.int32),
                "rows": [jnp.zeros((kept, *shape), dtype=jnp.float32) for shape, _ in self._shapes]}

    def __call__(self, state: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
        """The next state, and the noise of this step, clip_norm * noise_multiplier * (C^-1 z)_t, shaped like the
        parameters. Add it once to the sum of the clipped gradients, and divide by the expected batch size."""
        r, step, key = self.mechanism.recurrence, state["step"], state["key"]
        t, above = step % r.block, step // r.block * r.block_rows
        scale = jnp.where(step < self.mechanism.n, jnp.float32(self.clip_norm * self.mechanism.noise_multiplier),
                          jnp.float32(numpy.nan))
        rows, out = [], []
        for parameter, ((shape, dtype), kept) in enumerate(zip(self._shapes, state["rows"])):
            def z(row: Any, parameter: int = parameter, shape: tuple[int, ...] = shape) -> Any:
                return draw(key, parameter, above + row, shape)

            x, after = FUNCTIONS[type(r)](r, t, z, kept)
            rows.append(after)
            out.append((scale * x).astype(dtype))
        return {"key": key, "step": step + 1, "rows": rows}, jax.tree_util.tree_unflatten(self._tree, out)

    def stddev(self, step: int) -> float:
        """The standard deviation of a coordinate of the noise of a step; see Mechanism.stddev()."""
        return self.mechanism.stddev(step, self.clip_norm)

    def state_dict(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """A checkpoint of a state, without the key, as NumPy arrays."""
        return {**self._described(int(state["step"])), "rows": [numpy.asarray(rows) for rows in state["rows"]]}

    def _described(self, steps: int) -> dict[str, Any]:
        arrays = [[index, 0, list(shape)] for index, (shape, _) in enumerate(self._shapes)]
        return described(self.mechanism, self._mark, self.clip_norm, steps, arrays)

    def load_state_dict(self, saved: Mapping[str, Any], *, released: int = 0,
                        allow_replay: bool = False) -> dict[str, Any]:
        """
        The state of a checkpoint, of the same mechanism, key, clip norm and shapes. A ReplayError if later steps were
        drawn, as the journal says, or `released` for a loop without a journal, unless allow_replay is given.
        Noise.load_state_dict() says what that costs; advance(state, noise.released) at once costs nothing.
        """
        steps = checked_steps(saved, self._described(0), self.mechanism.n)
        self._check_replay(steps, max(released, self.released), allow_replay)
        rows = [jnp.asarray(rows, dtype=jnp.float32).reshape(self.mechanism.recurrence.kept, *shape)
                for rows, (shape, _) in zip(saved["rows"], self._shapes)]
        return {**self._start(), "step": jnp.asarray(steps, dtype=jnp.int32), "rows": rows}
