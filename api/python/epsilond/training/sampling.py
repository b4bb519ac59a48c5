"""
The sampling of a job as batches are formed from it: the member `sampling` of a job that the service returned, or of its
mechanism, which also has the figures that follow, checked by the service's rules for forming batches.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Mapping
from typing import Any

MOST_STEPS = 1 << 24
MOST_EXAMPLES = (1 << 32) - 1
MOST = 1 << 53  # largest integer of a job
LEAST_P = 1e-20
SCHEMAS = ("fixed_order", "min_separation", "shuffled")

# The members of each scheme beside the two sizes.
MEMBERS = {
    "none": ("epochs", "separation", "schema"),
    "poisson": ("p", "truncation", "examples_per_user", "last_iterate"),
    "cyclic_poisson": ("p", "groups", "truncation"),
    "balls_in_bins": ("bins", "redraw"),
    "b_min_sep": ("p", "separation", "warm_start", "truncation", "examples_per_user"),
}


@dataclasses.dataclass
class Sampling:
    """
    The members that batches depend on, with the service's defaults for what is absent. 0 stands for a count that the
    scheme does not have or that is unknown, and NaN for such a p. `examples` is the size of the data set,
    `dataset_size` the member of the sampling.
    """

    scheme: str
    n: int
    examples: int
    p: float = math.nan
    batch_size: int = 0
    dataset_size: int = 0
    epochs: int = 0
    separation: int = 0
    schema: str = "fixed_order"
    groups: int = 0
    bins: int = 0
    redraw: bool = False
    warm_start: bool = False
    last_iterate: bool = False
    max_batch_size: int = 0
    examples_per_user: int = 1

    def expected_batch_size(self) -> float:
        """In the steady state; NaN if it is unknown."""
        if self.scheme == "none":
            return float(self.batch_size) if self.batch_size else math.nan
        if self.scheme == "balls_in_bins":
            return self.examples / self.bins
        drawn = self.p * self.examples
        if self.scheme == "b_min_sep":
            return drawn / (1 + self.p * (self.separation - 1))
        return drawn / (self.groups or 1)

    def document(self) -> dict[str, Any]:
        """As JSON, for a checkpoint: two that are equal form the same batches of one key."""
        members = dataclasses.asdict(self)
        if math.isnan(self.p):
            members["p"] = None
        return members


class _Reader:
    """Reads the members, and collects what is wrong with them."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def fail(self, name: str, what: str) -> None:
        self.errors.append(f"{name} {what}")

    def count(self, name: str, value: Any, most: int = MOST) -> int:
        """An integer in [1, most]; 0, with an error, if it is none."""
        try:
            number = 0 if isinstance(value, bool) else operator.index(value)
        except TypeError:
            number = 0
        if 1 <= number <= most:
            return number
        self.fail(name, f"must be an integer of at least 1 (and at most {most})")
        return 0

    def counted(self, given: Mapping[str, Any], name: str) -> int:
        return 0 if given.get(name) is None else self.count(f"sampling.{name}", given[name])

    def probability(self, given: Mapping[str, Any]) -> float:
        if given.get("p") is None:
            return math.nan
        value = given["p"]
        number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
        if not LEAST_P <= number <= 1:
            self.fail("sampling.p", f"must lie in [{LEAST_P:g}, 1]")
        return number

    def switch(self, given: Mapping[str, Any], name: str, default: bool) -> bool:
        value = given.get(name)
        if value is not None and not isinstance(value, bool):
            self.fail(f"sampling.{name}", "must be true or false")
        return value if isinstance(value, bool) else default

    def truncation(self, given: Mapping[str, Any]) -> int:
        value = given.get("truncation")
        if value is None:
            return 0
        if not isinstance(value, Mapping) or set(value) != {"max_batch_size"}:
            self.fail("sampling.truncation", "must be an object with the member max_batch_size alone")
            return 0
        return self.count("sampling.truncation.max_batch_size", value["max_batch_size"])

    def read(self, given: Mapping[str, Any], n: Any, dataset_size: Any) -> Sampling:
        scheme = given["scheme"]
        allowed = ("scheme", "batch_size", "dataset_size", *MEMBERS[scheme])
        for name, value in given.items():
            if name not in allowed and name != "expected_batch_size" and value is not None:
                self.fail(f"sampling.{name}", f"is no member of {scheme}; its members are {', '.join(allowed)}")
        counts = {name: self.counted(given, name)
                  for name in ("batch_size", "dataset_size", "epochs", "separation", "groups", "bins")}
        users = given.get("examples_per_user")
        shared = 1 if users is None else self.count("sampling.examples_per_user", users)
        schema = given.get("schema")
        if schema is not None and schema not in SCHEMAS:
            self.fail("sampling.schema", f"must be one of {', '.join(SCHEMAS)}")
        read = Sampling(scheme=scheme, n=self.count("n", n, MOST_STEPS), examples=0, p=self.probability(given),
                        schema=schema or "fixed_order", redraw=self.switch(given, "redraw", False),
                        warm_start=self.switch(given, "warm_start", scheme == "b_min_sep" and shared <= 1),
                        last_iterate=self.switch(given, "last_iterate", False),
                        max_batch_size=self.truncation(given), examples_per_user=shared, **counts)
        self.sizes(read, dataset_size)
        return read

    def sizes(self, read: Sampling, dataset_size: Any) -> None:
        """The size of the data set, which the sampling may have as well."""
        if dataset_size is None:
            read.examples = read.dataset_size
            if not read.dataset_size:
                self.fail("dataset_size", "is required: the number of examples, which are numbered from 0")
        else:
            read.examples = self.count("dataset_size", dataset_size, MOST_EXAMPLES)
            if read.examples and read.dataset_size not in (0, read.examples):
                self.fail("dataset_size", f"must equal sampling.dataset_size, {read.dataset_size}: ask the service for "
                                          f"the noise of a data set of {read.examples}, or train on the accounted one")
        if read.examples > MOST_EXAMPLES:
            self.fail("sampling.dataset_size", f"must be at most {MOST_EXAMPLES}: example indices have 32 bits")
        if read.dataset_size == 0 and (read.batch_size or read.max_batch_size):
            read.dataset_size = read.examples


def _derived(read: Sampling, reader: _Reader, instead: str) -> bool:
    """Whether p or bins (`instead`) follows from the sizes, and these are right."""
    if read.batch_size == 0:
        if not getattr(read, instead) > 0:
            reader.fail(f"sampling.{instead}",
                        "is required, or batch_size with dataset_size, from which it is derived")
    elif read.batch_size > read.dataset_size:
        reader.fail("sampling.batch_size", f"must be at most dataset_size, {read.dataset_size}")
    else:
        return True
    return False


def _follow(read: Sampling, reader: _Reader, name: str, value: float) -> None:
    """Sets what follows from the sizes."""
    if getattr(read, name) > 0 and getattr(read, name) != value:
        reader.fail(f"sampling.{name}", f"must be {value!r}, which follows from the sizes: leave it out, or leave out "
                                        f"the sizes")
    setattr(read, name, value)


def _poisson(read: Sampling, reader: _Reader) -> None:
    if _derived(read, reader, "p"):
        _follow(read, reader, "p", read.batch_size / read.dataset_size)


def _cyclic_poisson(read: Sampling, reader: _Reader) -> None:
    if read.groups == 0:
        reader.fail("sampling.groups", "is required: take the sampling of the job that the service returned, which has "
                                       "the groups that were accounted for")
    elif read.dataset_size and read.groups > read.dataset_size:
        reader.fail("sampling.groups", f"must be at most dataset_size, {read.dataset_size}")
    elif read.groups > MOST_EXAMPLES:
        reader.fail("sampling.groups", f"must be at most {MOST_EXAMPLES}")
    elif _derived(read, reader, "p"):
        if read.batch_size > read.dataset_size // read.groups:
            reader.fail("sampling.batch_size",
                        f"makes p = groups * batch_size/dataset_size exceed 1: use at most "
                        f"{read.dataset_size // read.groups} with {read.groups} groups")
        _follow(read, reader, "p", float(read.groups) * read.batch_size / read.dataset_size)


def _balls_in_bins(read: Sampling, reader: _Reader) -> None:
    if _derived(read, reader, "bins"):
        _follow(read, reader, "bins", read.dataset_size // read.batch_size)
    if read.n and read.bins and read.n % read.bins:
        nearest = max(1, round(read.n / read.bins)) * read.bins
        reader.fail("sampling.bins", f"are {read.bins}, which do not divide n = {read.n}; the nearest n that works is "
                                     f"{nearest}")


def _b_min_sep(read: Sampling, reader: _Reader) -> None:
    if read.separation == 0:
        reader.fail("sampling.separation", "is required: take the sampling of the job that the service returned, which "
                                           "has the separation that was accounted for")
        return
    if read.separation > MOST_STEPS:
        reader.fail("sampling.separation", f"must lie in [1, {MOST_STEPS}]")
    if read.examples_per_user > 1 and read.warm_start:
        reader.fail("sampling.warm_start", "must be false if examples_per_user is over 1: only the cold start is "
                                           "analysed")
    if _derived(read, reader, "p"):
        most = read.dataset_size // read.separation
        if read.batch_size > most:
            reader.fail("sampling.batch_size",
                        f"must be at most {most} with separation {read.separation}: with p0 = "
                        f"batch_size/dataset_size, p = p0/(1 - p0 (separation-1)) must lie in (0, 1]")
        else:
            waiting = read.dataset_size - float(read.batch_size) * (read.separation - 1)
            _follow(read, reader, "p", read.batch_size / waiting)


def _none(read: Sampling, reader: _Reader) -> None:
    """Epochs and separation, which follow from the sizes where there are sizes."""
    if read.batch_size and not read.dataset_size or read.dataset_size and not read.batch_size:
        missing = "dataset_size" if read.batch_size else "batch_size"
        reader.fail(f"sampling.{missing}", "is required with the other size: epochs and separation follow from the two")
    elif read.batch_size > read.dataset_size:
        reader.fail("sampling.batch_size", f"must be at most dataset_size, {read.dataset_size}")
    elif read.n and read.batch_size:
        _turns(read, reader)
    elif read.n:
        read.epochs = read.epochs or 1
        read.separation = read.separation or read.n // read.epochs
    if not reader.errors:
        _fit(read, reader)


def _turns(read: Sampling, reader: _Reader) -> None:
    times = -(-read.n * read.batch_size // read.dataset_size)
    apart, left = divmod(read.dataset_size, read.batch_size)
    _follow(read, reader, "epochs", times)
    _follow(read, reader, "separation", apart)
    if read.schema == "shuffled" and left:
        reader.fail("sampling.schema", f"shuffled requires dataset_size to be a multiple of batch_size: drop the last "
                                       f"{left} examples of every epoch, in the job as well")
    elif read.schema == "shuffled" and read.n % apart:
        reader.fail("n", f"must be a multiple of dataset_size/batch_size = {apart} if epochs are shuffled; the nearest "
                         f"is {max(1, round(read.n / apart)) * apart}")
    elif read.schema == "fixed_order" and left and times > 1:
        reader.fail("sampling.schema", f"must be min_separation: dataset_size is not a multiple of batch_size, so "
                                       f"participations are {apart} or {apart + 1} steps apart")


def _fit(read: Sampling, reader: _Reader) -> None:
    """The epochs must fit into the n steps."""
    times, apart, n = read.epochs, read.separation, read.n
    if times > n:
        reader.fail("sampling.epochs", f"must lie in [1, {n}]: an example takes part at most once per step")
    elif read.schema == "shuffled" and apart > n // times:
        reader.fail("sampling.separation", f"{times} epochs do not fit: epochs * separation <= n = {n} allows at most "
                                           f"{n // times} steps per epoch")
    elif read.schema != "shuffled" and times > 1 and apart > (n - 1) // (times - 1):
        reader.fail("sampling.separation", f"{times} epochs do not fit: (epochs-1) * separation + 1 <= n = {n} allows "
                                           f"at most {(n - 1) // (times - 1)}")


RULES = {"none": _none, "poisson": _poisson, "cyclic_poisson": _cyclic_poisson, "balls_in_bins": _balls_in_bins,
         "b_min_sep": _b_min_sep}


def resolve(sampling: Mapping[str, Any], n: int, dataset_size: int | None) -> Sampling:
    """Raises ValueError, with all that is wrong, where the service refuses to form batches."""
    if not isinstance(sampling, Mapping) or sampling.get("scheme") not in MEMBERS:
        raise ValueError(f"sampling must be an object with a scheme, one of {', '.join(MEMBERS)}: give the sampling of "
                         f"the job that the service returned")
    reader = _Reader()
    read = reader.read(sampling, n, dataset_size)
    if not reader.errors:
        RULES[read.scheme](read, reader)
    if read.max_batch_size and (read.examples_per_user > 1 or read.last_iterate):
        other = "last_iterate" if read.last_iterate else "examples_per_user"
        reader.fail("sampling.truncation", f"cannot be combined with sampling.{other}, because no dominating pair is "
                                           f"known for both; leave out one of them")
    if read.examples_per_user * read.n > 1 << 52:
        reader.fail("sampling.examples_per_user", "times n must be at most 2^52")
    size = sampling.get("expected_batch_size")
    if not reader.errors and size is not None:
        follows = read.expected_batch_size()
        if not isinstance(size, (int, float)) or not abs(size - follows) <= 1e-9 * follows:
            reader.fail("sampling.expected_batch_size", f"is {size!r}, but {follows!r} follows from the other members "
                                                        f"and the data set: leave it out")
    if reader.errors:
        raise ValueError("; ".join(reader.errors))
    return read
