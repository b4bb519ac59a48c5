"""
The batches of a training, formed where it runs, with the law that was accounted for. The schemes are those of the
service's /v1/batches. The random numbers are others: a batch is a function of the key, the sampling and its step, so
that a training is resumed at any step.

What a resumption costs depends on the scheme: nothing under `none`, `poisson`, `cyclic_poisson` and `balls_in_bins`;
the `separation` - 1 steps before under `b_min_sep` with users; all steps before under plain `b_min_sep`, where a draw
depends on the one before (1000 steps of ten million examples take two seconds).

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import fractions
import hashlib
import importlib
import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from .draws import CHUNK, Tails, Words
from .sampling import Sampling, resolve
from .users import Users

numpy: Any = importlib.import_module("numpy")

KEY = 16  # bytes
FORMAT = 1  # of a state; changes whenever a key would give other batches

# What words are drawn for: the purposes of streams.
DRAW, PARTS, ORDER, START, TRUNCATE = range(5)


class _Former(Protocol):
    """Forms the batches of a scheme before they are truncated."""

    def seek(self, step: int) -> None:
        """The next step to be formed."""

    def form(self, step: int) -> Any:
        """The examples of a step, ascending. Steps come in order, from the one that seek() named."""


# ---------------------------------------------------------------- parts of the data set

class _Parts:
    """A partition of the examples: `order[begin[i]:begin[i + 1]]` is part i, ascending."""

    def __init__(self, part_of: Any, count: int) -> None:
        self.order = numpy.argsort(part_of, kind="stable").astype(numpy.uint32)
        self.begin = numpy.concatenate([[0], numpy.cumsum(numpy.bincount(part_of, minlength=count))])

    def __getitem__(self, part: int) -> Any:
        return self.order[self.begin[part]:self.begin[part + 1]]


def _small(count: int) -> Any:
    """The least type of the numbers below count; numpy sorts those of 16 bits fastest."""
    return numpy.min_scalar_type(count - 1)


def _drawn(words: Words, examples: int, count: int) -> _Parts:
    """Each example draws its part."""
    part_of = numpy.empty(examples, dtype=_small(count))
    for at in range(0, examples, CHUNK):
        part_of[at:at + CHUNK] = words.below(count, min(CHUNK, examples - at))
    return _Parts(part_of, count)


def _dealt(words: Words, examples: int, count: int) -> _Parts:
    """All splits into parts whose sizes are the floor or the ceiling of an equal share are equally likely. Part i has
    the places from floor(i examples/count) on."""
    ends = numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(examples) // numpy.uint64(count)
    sizes = numpy.diff(ends.astype(numpy.int64), prepend=0)
    part_of = numpy.empty(examples, dtype=_small(count))
    part_of[words.permutation(examples)] = numpy.repeat(numpy.arange(count, dtype=part_of.dtype), sizes)
    return _Parts(part_of, count)


class _ByStep:
    """A scheme in which a step can be formed without those before it."""

    def __init__(self, sampling: Sampling, key: bytes) -> None:
        self.sampling = sampling
        self.key = key

    def seek(self, step: int) -> None:
        pass


# ---------------------------------------------------------------- the schemes

class _Round(_ByStep):
    """`none` with batch_size: one random order, taken cyclically."""

    def __init__(self, sampling: Sampling, key: bytes) -> None:
        super().__init__(sampling, key)
        self.order = Words(key, ORDER, 0).permutation(sampling.examples).astype(numpy.uint32)

    def form(self, step: int) -> Any:
        size, all_of_them = self.sampling.batch_size, self.sampling.examples
        first = step * size % all_of_them
        head = self.order[first:first + size]
        return numpy.sort(numpy.concatenate([head, self.order[:size - len(head)]]))


class _Epochs(_ByStep):
    """Each example is in one batch of an epoch; the batches of an epoch are those of the epoch before, or new ones."""

    parts: _Parts

    def __init__(self, sampling: Sampling, key: bytes) -> None:
        super().__init__(sampling, key)
        self.drawn: int | None = None  # the epoch that `parts` was drawn for
        if sampling.scheme == "none":
            self.partition, self.length, self.epochs = _dealt, min(sampling.separation, sampling.n), sampling.epochs
            self.anew = sampling.schema == "shuffled"
        else:
            self.partition, self.length, self.epochs = _drawn, sampling.bins, sampling.n // sampling.bins
            self.anew = sampling.redraw

    def form(self, step: int) -> Any:
        epoch, at = divmod(step, self.length)
        if epoch >= self.epochs:
            return numpy.empty(0, dtype=numpy.uint32)
        wanted = epoch if self.anew else 0
        if self.drawn != wanted:
            self.parts = self.partition(Words(self.key, PARTS, wanted), self.sampling.examples, self.length)
            self.drawn = wanted
        return self.parts[at]


class _Poisson(_ByStep):
    """Each example at each step; or, in turns, each of a part."""

    def __init__(self, sampling: Sampling, key: bytes) -> None:
        super().__init__(sampling, key)
        self.tails = Tails(sampling.p)
        self.parts: _Parts | None = None
        if sampling.scheme == "cyclic_poisson":
            # Whether a truncated batch is full depends on the size of its part, which is then fixed.
            partition = _dealt if sampling.max_batch_size else _drawn
            self.parts = partition(Words(key, PARTS, 0), sampling.examples, sampling.groups)

    def form(self, step: int) -> Any:
        words = Words(self.key, DRAW, step)
        if self.parts is None:
            return self.tails.heads(words, self.sampling.examples)
        part = self.parts[step % self.sampling.groups]
        return part[self.tails.heads(words, len(part))]


class _Spaced:
    """
    `b_min_sep`: for each example the step at which it is drawn next. An example drawn at step i waits again from step
    i + separation on, for a run of tails. From a warm start it waits from step 0 on with probability
    1/(1 + (separation-1) p), and else from one of the steps 1 .. separation-1, uniformly.

    The examples that are due are looked for once in SPAN steps; those that come back within these are kept by step.
    """

    SPAN = 64

    def __init__(self, sampling: Sampling, key: bytes) -> None:
        self.sampling = sampling
        self.key = key
        self.tails = Tails(sampling.p)

    def seek(self, step: int) -> None:
        self._start()
        for before in range(step):
            self.form(before)

    def _start(self) -> None:
        n, examples, others = self.sampling.n, self.sampling.examples, self.sampling.separation - 1
        words = Words(self.key, START, 0)
        waits = fractions.Fraction(1)
        if self.sampling.warm_start:
            waits /= 1 + others * fractions.Fraction(self.sampling.p)
        self.due = numpy.empty(examples, dtype=numpy.uint32)  # n: not before the end
        for at in range(0, examples, CHUNK):
            count = min(CHUNK, examples - at)
            start = numpy.zeros(count, dtype=numpy.int64)
            if waits < 1:
                late = numpy.flatnonzero(~words.coins(waits, count))
                start[late] = 1 + words.below(others, len(late)).astype(numpy.int64)
            self.due[at:at + count] = numpy.minimum(start + self.tails.runs(words, count, n), n)

    def _look(self, step: int) -> None:
        """Finds those that are due in the SPAN steps from this one on, by step."""
        soon = numpy.flatnonzero(self.due < min(step + self.SPAN, self.sampling.n)).astype(numpy.uint32)
        when = self.due[soon] - numpy.uint32(step)
        soon = soon[numpy.argsort(when, kind="stable")]
        ends = numpy.cumsum(numpy.bincount(when, minlength=self.SPAN))
        self.soon = [[part] for part in numpy.split(soon, ends[:-1])]

    def form(self, step: int) -> Any:
        at = step % self.SPAN
        if at == 0:
            self._look(step)
        batch = numpy.sort(numpy.concatenate(self.soon[at]))
        self.soon[at] = []
        n, again = self.sampling.n, step + self.sampling.separation
        if again >= n:
            self.due[batch] = n
            return batch
        due = numpy.minimum(again + self.tails.runs(Words(self.key, DRAW, step), len(batch), n - again), n)
        self.due[batch] = due
        back = numpy.flatnonzero(due < min(step - at + self.SPAN, n))
        for when in numpy.unique(due[back]):
            self.soon[int(when) - (step - at)].append(batch[back[due[back] == when]])
        return batch


class _Shared(_ByStep):
    """
    `b_min_sep` with users: at each step every example is drawn by a coin, empty ones too, and is left out if an example
    that shares a user with it was drawn in the separation - 1 steps before, left out or not. Empty examples are
    numbered after the data set, and never enter a batch.
    """

    def __init__(self, sampling: Sampling, key: bytes, users: Users) -> None:
        super().__init__(sampling, key)
        self.users = users
        self.tails = Tails(sampling.p)

    def seek(self, step: int) -> None:
        self.free = numpy.zeros(self.users.count, dtype=numpy.int64)  # by user: the first step that is not barred
        for before in range(max(0, step - self.sampling.separation + 1), step):
            self.form(before)

    def form(self, step: int) -> Any:
        examples = self.sampling.examples
        heads = self.tails.heads(Words(self.key, DRAW, step), examples + int(self.users.empty[-1]))
        drawn, empty = numpy.split(heads, [numpy.searchsorted(heads, examples)])
        users, begin = self.users.of(drawn)
        barred = self.free[users] > step
        batch = drawn[~numpy.logical_or.reduceat(barred, begin)] if len(drawn) else drawn
        self.free[users] = self.free[self.users.owners(empty - examples)] = step + self.sampling.separation
        return batch


def _former(sampling: Sampling, key: bytes, users: Users | None) -> _Former:
    if sampling.scheme == "none" and sampling.batch_size and sampling.schema != "shuffled":
        return _Round(sampling, key)
    if sampling.scheme in ("none", "balls_in_bins"):
        return _Epochs(sampling, key)
    if sampling.scheme != "b_min_sep":
        return _Poisson(sampling, key)
    return _Shared(sampling, key, users) if users else _Spaced(sampling, key)


# ---------------------------------------------------------------- batches

def _derive(key: bytes, purpose: bytes, place: bytes) -> bytes:
    """A key for a purpose and a place in the training."""
    return hashlib.blake2b(place, key=key, digest_size=KEY, person=purpose).digest()


class Batches(Iterator[Any]):
    """
    The index arrays of the steps (int64, ascending, from 0), as batches() describes. `step` is the step of the last
    batch (first_step - 1 before there is one), and `truncated` the number of examples that it left out. `key` is the
    secret key. len() is the number of steps that are left.
    """

    def __init__(self, sampling: Sampling, key: bytes, users: Users | None, first_step: int,
                 place: bytes) -> None:
        self.key = key
        self._place = place
        self.step = first_step - 1
        self.truncated = 0
        self._sampling = sampling
        self._users = users.digest() if users else None
        self._key = _derive(key, b"epsilond batches", place)  # not that of the noise, which may come from the same key
        self._former = _former(sampling, self._key, users if sampling.scheme == "b_min_sep" else None)
        self._sought = False

    def __iter__(self) -> Batches:
        return self

    def __len__(self) -> int:
        return self._sampling.n - 1 - self.step

    def __next__(self) -> Any:
        if len(self) == 0:
            raise StopIteration
        step = self.step + 1
        if not self._sought:
            self._former.seek(step)
            self._sought = True
        batch = self._former.form(step)
        drawn, most = len(batch), self._sampling.max_batch_size
        if most and drawn > most:
            batch = batch[numpy.sort(Words(self._key, TRUNCATE, step).permutation(drawn)[:most])]
        self.step, self.truncated = step, drawn - len(batch)
        return batch.astype(numpy.int64)

    def _identity(self) -> dict[str, Any]:
        """What decides about every batch. The key is told by a hash, which does not give it away."""
        return {"format": FORMAT, "sampling": self._sampling.document(), "users": self._users,
                "key": _derive(self.key, b"batches key id", self._place).hex()}

    def state_dict(self) -> dict[str, Any]:
        """
        For a checkpoint: the next step, and of which batches. Small, and JSON. The key is not part of it, because it is
        a secret that a checkpoint may not be: keep `key` where only the training can read it.
        """
        return {**self._identity(), "next_step": self.step + 1}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """
        Goes on at the step of the state, forwards or backwards, with the batches that an uninterrupted training gets.
        Raises ValueError if the state is of another sampling, data set, list of users or key.
        """
        mine = self._identity()
        differ = [name for name in mine if state.get(name) != mine[name]]
        if differ:
            raise ValueError(f"the state is of other batches: its {' and '.join(differ)} differ; make these with the "
                             f"sampling, dataset_size, users and key that the state was saved from")
        step = state.get("next_step")
        if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step <= self._sampling.n:
            raise ValueError(f"next_step of the state must be an integer in [0, {self._sampling.n}]")
        self.step, self.truncated, self._sought = step - 1, 0, False

    def sampler(self) -> BatchSampler:
        """These batches as the batch_sampler of a torch DataLoader."""
        return BatchSampler(self)


class BatchSampler:
    """
    Batches as lists of integers, for `torch.utils.data.DataLoader(dataset, batch_sampler=...)`, which takes any
    iterable. One pass over the loader is the whole training, and the loader's collate_fn must take an empty list,
    because a sampled batch may be empty.

    A loader with workers asks for batches ahead of the training. Its checkpoint then saves the training's own step, and
    resumes with `first_step`, or with that as the state's next_step.
    """

    def __init__(self, batches: Batches) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.batches:
            yield batch.tolist()


def batches(sampling: Mapping[str, Any], n: int, dataset_size: int | None = None, key: bytes | None = None,
            users: Iterable[Any] | None = None, first_step: int = 0, place: bytes = b"") -> Batches:
    """
    The batches of n steps, drawn as the answer of a job assumes. `sampling` is the `sampling` of the job as the service
    returned it, and dataset_size the number of examples, which may be left out if the sampling has it. Raises
    ValueError, with what to change, where the service refuses to form batches.

    key: 16 secret bytes; None draws them from the operating system. With the same key a training can be resumed, at
    first_step or by a state; who knows the key knows who took part in which step, which voids the guarantee. It may be
    the key of the noise.

    place: which of several parts of a training this is, such as a phase; a key gives each its own batches.

    users: with examples_per_user over 1, for each example its user or a list of its users, as integers or strings.

    A step whose batch is empty is a step, too: add its noise.
    """
    resolved = resolve(sampling, n, dataset_size)
    if key is None:
        key = secrets.token_bytes(KEY)
    if not isinstance(key, bytes) or len(key) != KEY:
        raise ValueError(f"key must be {KEY} bytes, drawn by secrets.token_bytes({KEY}); or None")
    if isinstance(first_step, bool) or not isinstance(first_step, int) or not 0 <= first_step <= resolved.n:
        raise ValueError(f"first_step must be an integer in [0, {resolved.n}]")
    if users is None and resolved.scheme == "b_min_sep" and resolved.examples_per_user > 1:
        raise ValueError("users is required with examples_per_user over 1: examples of the same user exclude each "
                         "other")
    if users is not None and resolved.examples_per_user < 2:
        raise ValueError("users requires examples_per_user over 1: give it in the sampling, as in the job")
    graph = None if users is None else Users(users, resolved.examples, resolved.examples_per_user)
    return Batches(resolved, key, graph, first_step, place)
