"""
The noise of a run, step by step, on arrays of NumPy or PyTorch.

The coordinates of all parameters on a device are one flat row of whole blocks (chacha.py), which is drawn and summed in
tiles that fit into a cache. What a recurrence keeps has the same layout.

A row of z must not be added to two different sums, since their difference is free of noise. So a step is drawn once:
a state knows how many were, and a journal remembers it when the process is killed.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, Protocol

import numpy

from .chacha import COORDINATES, MOST_BLOCKS
from .journal import Journal, ReplayError, checked_key, cipher_key, fingerprint

if TYPE_CHECKING:
    from .mechanism import Mechanism

FORMAT = 2  # of a state; changes whenever a key would give other noise
MANY = 64  # rows kept or drawn for each step, from which on a user is warned


class Draws(Protocol):
    """Draws on a device, in arrays of its own kind."""

    tile: int  # the blocks that are drawn together

    def counters(self, numbers: Any) -> Any:
        """An array of 32-bit words."""

    def zeros(self, rows: int, width: int) -> Any: ...

    def empty(self, width: int) -> Any: ...

    def draw(self, key: bytes, blocks: Any, parameters: Any, row: int) -> Any:
        """The flat row of normals of these blocks."""

    def saved(self, rows: Any) -> Any:
        """Rows for a checkpoint."""

    def loaded(self, saved: Any) -> Any:
        """Rows of a checkpoint."""


class Backend(Protocol):
    """A kind of arrays."""

    def leaves(self, like: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
        """The arrays in `like`, and what puts others in their place."""

    def shape(self, array: Any) -> tuple[int, ...]: ...

    def device(self, array: Any) -> Any:
        """Arrays with equal devices are drawn together."""

    def draws(self, device: Any) -> Draws: ...

    def like(self, values: Any, array: Any) -> Any:
        """float32 values in the shape and type of an array."""


class Group:
    """The parameters on one device: where they are in the flat row, and what is kept for them."""

    def __init__(self, draws: Draws, leaves: Sequence[tuple[int, int, int, int]], kept: int) -> None:
        """leaves: for each its index in the list of all, its parameter, the first coordinate and their number."""
        self.slices: dict[int, slice] = {}
        blocks, parameters, at = [], [], 0
        for index, parameter, first, size in leaves:
            low, high = first // COORDINATES, -(-(first + size) // COORDINATES)
            if high > MOST_BLOCKS or parameter >= 2**31:
                raise ValueError("a parameter has more than 2^36 coordinates: divide it into several")
            start = at + first - low * COORDINATES
            self.slices[index] = slice(start, start + size)
            blocks.append(numpy.arange(low, high, dtype=numpy.int64))
            parameters.append(numpy.full(high - low, parameter, dtype=numpy.int64))
            at += (high - low) * COORDINATES
        self.draws, self.width = draws, at
        self.blocks, self.parameters = draws.counters(numpy.concatenate(blocks)), draws.counters(
            numpy.concatenate(parameters))
        self.rows = draws.zeros(kept, at)


def described(mechanism: Mechanism, mark: bytes, clip_norm: float, steps: int,
              arrays: list[list[Any]]) -> dict[str, Any]:
    """A state without its rows."""
    return {"format": FORMAT, "mechanism": mechanism.hash, "run": mark.hex(), "clip_norm": clip_norm, "steps": steps,
            "arrays": arrays}


def checked_steps(state: Mapping[str, Any], here: Mapping[str, Any], n: int) -> int:
    """The steps of a state that belongs `here`, which is described() likewise."""
    names = {"format": "version of this client", "mechanism": "mechanism", "run": "key", "clip_norm": "clip norm",
             "arrays": "shapes or places"}
    for name, what in names.items():
        if state[name] != here[name]:
            raise ValueError(f"the state is of another {what}: it was {state[name]}, and here it is {here[name]}")
    steps = int(state["steps"])
    if not 0 <= steps <= n:
        raise ValueError(f"the state is damaged: it says that {steps} of {n} steps were drawn")
    return steps


def warn_of_rows(rows: int) -> None:
    """Tells the caller of an adapter's function what its strategy costs where all rows that are needed are kept."""
    if rows > MANY:
        warnings.warn(f"this strategy keeps {rows} rows, as many numbers as parameters each; one with few bands, or a "
                      "blt, keeps fewer", stacklevel=4)


class Noise:
    """
    The noise of one run. `step()` returns the noise of the next step, to be added to the sum of its clipped gradients;
    `steps` is the number of the next step, and `released` that of the steps that were drawn at any time. The state is
    as secret as the noise, and the key more so. Not for several threads at once.
    """

    def __init__(self, mechanism: Mechanism, backend: Backend, like: Any, key: bytes | None, clip_norm: float,
                 places: Sequence[tuple[int, int]] | None, journal: str | os.PathLike[str] | None) -> None:
        self.mechanism = mechanism
        self.key = checked_key(key)
        self.clip_norm = float(clip_norm)
        self.steps = 0
        self._backend = backend
        self._recurrence = mechanism.recurrence
        self._cipher = cipher_key(mechanism, self.key)
        self._leaves, self._build = backend.leaves(like)
        self._places = self._checked_places(places)
        self.released = 0
        self._replays = False
        self._mark = fingerprint(mechanism, self.key)
        self._journal = None if journal is None else Journal(journal, self._mark)
        if self._journal:
            self.released = self._journal.released
        self._groups = self._grouped()
        self._warn()

    def _sizes(self) -> list[int]:
        return [int(numpy.prod(self._backend.shape(leaf), dtype=numpy.int64)) for leaf in self._leaves]

    def _checked_places(self, places: Sequence[tuple[int, int]] | None) -> list[tuple[int, int]]:
        if not self._leaves:
            raise ValueError("there is no array to draw noise for")
        if places is None:
            return [(index, 0) for index in range(len(self._leaves))]
        checked = [(int(parameter), int(first)) for parameter, first in places]
        if len(checked) != len(self._leaves) or any(number < 0 for place in checked for number in place):
            raise ValueError(f"places must have a (parameter, first coordinate) for each of the {len(self._leaves)} "
                             "arrays, counted from 0")
        ends: dict[int, int] = {}
        for (parameter, first), size in sorted(zip(checked, self._sizes())):
            if size and first < ends.get(parameter, 0):
                raise ValueError(f"places overlap in parameter {parameter}: two arrays would get the same noise")
            ends[parameter] = max(ends.get(parameter, 0), first + size)
        return checked

    def _grouped(self) -> list[Group]:
        by_device: dict[Any, list[tuple[int, int, int, int]]] = {}
        for index, (leaf, place, size) in enumerate(zip(self._leaves, self._places, self._sizes())):
            by_device.setdefault(self._backend.device(leaf), []).append((index, *place, size))
        return [Group(self._backend.draws(device), leaves, self._recurrence.kept)
                for device, leaves in by_device.items()]

    def _warn(self) -> None:
        cost = self.mechanism.cost(sum(self._sizes()))
        if self._recurrence.kept > MANY or cost["draws"] > MANY:
            warnings.warn(f"this strategy keeps {cost['bytes'] / 2**30:.2g} GiB and draws up to {cost['draws']} rows "
                          "of white noise for each step; one with few bands, or a blt, costs less", stacklevel=4)

    # ------------------------------------------------------------ steps

    def step(self) -> Any:
        """
        The noise of the next step, clip_norm * noise_multiplier * (C^-1 z)_t, shaped like the parameters. Add it once
        to the sum of the clipped gradients, and divide by the expected batch size.
        """
        self._advance_check()
        scale = self.clip_norm * self.mechanism.noise_multiplier
        flats = [self._flat(group, scale) for group in self._groups]
        self.steps += 1
        self._drawn()
        out: list[Any] = [None] * len(self._leaves)
        for group, flat in zip(self._groups, flats):
            for index, part in group.slices.items():
                out[index] = self._backend.like(flat[part], self._leaves[index])
        return self._build(out)

    def advance(self, steps: int) -> None:
        """
        Goes on to the state after so many steps, without returning their noise. A run that lost the results of its last
        steps may so continue after them, from an older checkpoint of its parameters and with the batches of the later
        steps: it then does without those results, which costs no privacy, though the noise that they were to cancel
        stays.
        """
        if not self.steps <= steps <= self.mechanism.n:
            raise ValueError(f"steps must lie in [{self.steps}, {self.mechanism.n}]")
        if self._recurrence.kept == 0:
            self.steps = steps
        while self.steps < steps:
            for group in self._groups:
                self._flat(group, 1.0)
            self.steps += 1
        self._drawn()

    def stddev(self, step: int) -> float:
        """The standard deviation of a coordinate of the noise of a step; see Mechanism.stddev()."""
        return self.mechanism.stddev(step, self.clip_norm)

    def _advance_check(self) -> None:
        if self.steps >= self.mechanism.n:
            raise ValueError(f"all {self.mechanism.n} steps were drawn: the guarantee covers no more")
        if self.steps < self.released and not self._replays:
            raise ReplayError(
                f"step {self.steps} was drawn before ({self.released} steps were): added to another sum, its noise "
                "would reveal the difference; advance() to there, or see load_state_dict()")

    def _drawn(self) -> None:
        self.released = max(self.released, self.steps)
        if self._journal:
            self._journal.record(self.steps)

    def _flat(self, group: Group, scale: float) -> Any:
        """The row of a group, and what is kept goes on to the next step."""
        draws, block = group.draws, self._recurrence.block
        t, above = self.steps % block, self.steps // block * self._recurrence.block_rows
        out = draws.empty(group.width)
        if t == 0 and self._recurrence.kept:
            group.rows[:] = 0
        blocks = group.width // COORDINATES
        for low in range(0, blocks, draws.tile):
            high = min(blocks, low + draws.tile)
            numbers, parameters = group.blocks[low:high], group.parameters[low:high]
            part = slice(low * COORDINATES, high * COORDINATES)

            def draw(row: int) -> Any:
                return draws.draw(self._cipher, numbers, parameters, above + row)

            out[part] = self._recurrence.row(t, draw, group.rows[:, part])
            out[part] *= scale
        return out

    # ------------------------------------------------------------ checkpoints

    def state_dict(self) -> dict[str, Any]:
        """What load_state_dict() needs to go on bit for bit. It does not contain the key, but noise of the last steps:
        keep it as secret as the data."""
        rows: list[Any] = [None] * len(self._leaves)
        for group in self._groups:
            for index, part in group.slices.items():
                rows[index] = group.draws.saved(group.rows[:, part])
        return {**self._described(), "rows": rows}

    def _described(self) -> dict[str, Any]:
        arrays = [[parameter, first, list(self._backend.shape(leaf))]
                  for leaf, (parameter, first) in zip(self._leaves, self._places)]
        return described(self.mechanism, self._mark, self.clip_norm, self.steps, arrays)

    def load_state_dict(self, state: Mapping[str, Any], *, allow_replay: bool = False) -> None:
        """
        Returns to a state of state_dict(), of the same mechanism, key, clip norm and shapes. Raises ReplayError if
        later steps were drawn, by this object or, as the journal says, by an earlier process.

        allow_replay: draw them again. Of the two sums of a step that were noised alike, the difference is known without
        noise to anyone who sees both results, and with correlated noise so is every later difference. Allow it only if
        nothing that was computed from the steps since the checkpoint left the machine, was kept, or influenced a
        decision; or if the steps are repeated with exactly the same sums, bit for bit. Otherwise there is no guarantee
        any more. There is no risk if advance(noise.released) follows at once.
        """
        steps = checked_steps(state, self._described(), self.mechanism.n)
        if steps < self.released and not allow_replay:
            raise ReplayError(
                f"the state is that after {steps} steps, but {self.released} were drawn: to repeat them with other "
                "sums would reveal the differences; allow_replay says what that costs, and how to avoid it")
        for group in self._groups:
            for index, part in group.slices.items():
                rows = group.draws.loaded(state["rows"][index])
                group.rows[:, part] = rows.reshape(group.rows[:, part].shape)
        self.steps = steps
        self._replays = self._replays or steps < self.released
        self.released = max(self.released, steps)
