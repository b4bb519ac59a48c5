"""
The users of the examples, for sampling in which examples of the same user exclude each other.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterable
from typing import Any

numpy: Any = importlib.import_module("numpy")

LONGEST_NAME = 200  # bytes
LARGEST_NUMBER = 1 << 53
MOST_EMPTY = 1 << 39  # users times examples_per_user


def _names(users: Any, example: int) -> list[Any]:
    """The users of one example: integers or strings, one or a list of them."""
    given = [users] if isinstance(users, (str, int, numpy.integer)) else users
    names = list(given) if isinstance(given, Iterable) and not isinstance(given, (bytes, dict, set, frozenset)) else []
    for name in names:
        number = isinstance(name, (int, numpy.integer)) and not isinstance(name, bool)
        if not (0 <= name <= LARGEST_NUMBER if number
                else isinstance(name, str) and 0 < len(name.encode()) <= LONGEST_NAME):
            names = []
            break
    if not names:
        raise ValueError(f"users[{example}] must be the users of example {example}: at least one, each an integer of "
                         f"at least 0 (and at most 2^53) or a string of 1 to {LONGEST_NAME} bytes")
    return [name if isinstance(name, str) else int(name) for name in names]


class Users:
    """
    Examples and users as the edges of a graph, by example: `user[begin[j]:begin[j + 1]]` are the users of example j,
    each once, numbered from 0 in the order of their first appearance. A user with fewer than `limit` examples has empty
    ones, too: those numbered empty[u] .. empty[u + 1] - 1 are those of user u.
    """

    def __init__(self, users: Iterable[Any], examples: int, limit: int) -> None:
        if isinstance(users, numpy.ndarray) and users.ndim == 1 and users.dtype.kind in "iu":
            edges = self._one_each(users)
        else:
            edges = self._lists(users, examples)
        if len(self.begin) - 1 != examples:
            raise ValueError(f"users must have one entry for each of the {examples} examples, but has "
                             f"{len(self.begin) - 1}")
        self.user, self.count = edges
        times = numpy.bincount(self.user, minlength=self.count)
        if numpy.any(times > limit):
            crowded = int(numpy.argmax(times > limit))
            example = numpy.searchsorted(self.begin, numpy.flatnonzero(self.user == crowded)[limit], side="right") - 1
            raise ValueError(f"users: example {example} gives one of its users more than examples_per_user, {limit}: "
                             f"leave examples out, or raise examples_per_user in the job")
        if self.count * limit > MOST_EMPTY:
            raise ValueError("sampling.examples_per_user times the number of users must be at most 2^39")
        self.empty = numpy.concatenate([[0], numpy.cumsum(limit - times)])

    def _one_each(self, users: Any) -> tuple[Any, int]:
        wrong = numpy.flatnonzero((users < 0) | (users > LARGEST_NUMBER))
        if len(wrong):
            _names(users[wrong[0]], int(wrong[0]))
        self.begin = numpy.arange(len(users) + 1)
        names, first, user = numpy.unique(users, return_index=True, return_inverse=True)
        by_appearance = numpy.argsort(numpy.argsort(first))  # as in lists
        return by_appearance[user], len(names)

    def _lists(self, users: Iterable[Any], examples: int) -> tuple[Any, int]:
        numbers: dict[Any, int] = {}
        edges: list[int] = []
        begin = [0]
        for example, those in enumerate(users):
            if example == examples:
                raise ValueError(f"users must have one entry for each of the {examples} examples, but has more")
            for name in dict.fromkeys(_names(those, example)):
                edges.append(numbers.setdefault(name, len(numbers)))
            begin.append(len(edges))
        self.begin = numpy.array(begin)
        return numpy.array(edges, dtype=numpy.int64), len(numbers)

    def digest(self) -> str:
        """Tells one list of users from another; names do not matter."""
        state = hashlib.blake2b(digest_size=16)
        for part in (self.begin, self.user):
            state.update(part.astype("<u8").tobytes())
        return state.hexdigest()

    def of(self, examples: Any) -> tuple[Any, Any]:
        """The users of each of the examples, one after the other, and where those of each example begin."""
        lengths = self.begin[examples + 1] - self.begin[examples]
        starts = numpy.concatenate([[0], numpy.cumsum(lengths)[:-1]]) if len(examples) else numpy.empty(0, int)
        places = numpy.arange(int(lengths.sum())) + numpy.repeat(self.begin[examples] - starts, lengths)
        return self.user[places], starts

    def owners(self, numbers: Any) -> Any:
        """The users of empty examples."""
        return numpy.searchsorted(self.empty, numbers, side="right") - 1
