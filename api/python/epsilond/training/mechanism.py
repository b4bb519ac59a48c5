"""
The mechanism of a finished job: what a training needs to add the noise that was accounted for, without the service.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy

from .journal import KEY_BYTES, sync_folder
from .recurrence import Recurrence, recurrence_of

FORMAT = "epsilond mechanism 2"


class Mechanism:
    """
    Made by Client.mechanism(job), or by Mechanism.load(path) from what save(path) wrote. `document` is what the service
    sent; `statement` the privacy statement for a model card; `guarantee` what it claims, of all phases together;
    `spend` the points of epsilon in the course of training, which may be missing.
    """

    def __init__(self, text: str, *, rows: Any = None, spend: Sequence[Mapping[str, Any]] | None = None,
                 statement: str | None = None, guarantee: Mapping[str, Any] | None = None,
                 run: int | None = None) -> None:
        """text: the document, as the service sent it; its hash is checked. rows: C^-1, for kind rows. run: see run()
        below."""
        self.text = text
        self.document: dict[str, Any] = json.loads(text)
        content = text[text.index('"n":'):text.rindex(',"links"')]
        if hashlib.blake2b(content.encode(), digest_size=32).hexdigest() != self.document["hash"]:
            raise ValueError("the mechanism does not have the hash that it names: it was changed or damaged")
        self.statement = statement
        self.guarantee = dict(guarantee or {})
        self.spend = None if spend is None else [dict(point) for point in spend]
        self.recurrence: Recurrence = recurrence_of(self.document["noise"], rows)
        self._rows = rows
        self._run = run
        self._norms: Any = None

    job = property(lambda self: str(self.document["job"]), doc="The id of the job.")
    phase = property(lambda self: self.document["phase"], doc="The phase of the job; None without phases.")
    hash = property(lambda self: str(self.document["hash"]), doc="The content hash, the same for equal mechanisms.")
    n = property(lambda self: int(self.document["n"]), doc="The number of steps.")
    noise_multiplier = property(lambda self: float(self.document["noise_multiplier"]),
                                doc="The standard deviation of z at clip norm 1.")
    epsilon = property(lambda self: self.guarantee.get("epsilon"), doc="That of the job; None if it has a curve only.")
    delta = property(lambda self: self.guarantee.get("delta"), doc="That of the job; None if it has a curve only.")
    sampling = property(lambda self: dict(self.document["sampling"]), doc="How examples take part.")

    @property
    def identity(self) -> bytes:
        """What the noise is derived from beside the key: the mechanism, and its place in the training."""
        return str(self.hash).encode() + self._place()

    def _place(self) -> bytes:
        """Which phase and which run of it this is; empty without phases."""
        if self.document["count"] > 1 and self._run is None:
            raise ValueError(f"this phase has {self.document['count']} runs, each with batches and noise of its own: "
                             f"take run(0) to run({self.document['count'] - 1})")
        return b"" if self.phase is None else f" {self.phase} {self._run or 0}".encode()

    def run(self, index: int) -> Mechanism:
        """The mechanism of one run of a phase that has several (`count`); of others it is run(0)."""
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < self.document["count"]:
            raise ValueError(f"the run must be an integer in [0, {self.document['count'] - 1}]")
        return Mechanism(self.text, rows=self._rows, spend=self.spend, statement=self.statement,
                         guarantee=self.guarantee, run=index)

    # ------------------------------------------------------------ kept in a file

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the mechanism to a file, which contains no secret."""
        whole: dict[str, Any] = {"format": FORMAT, "document": self.text, "spend": self.spend,
                                 "statement": self.statement, "guarantee": self.guarantee, "run": self._run}
        if self._rows is not None:
            rows = numpy.ascontiguousarray(self._rows, dtype="<f8")
            whole["rows"] = {"shape": rows.shape, "float64": base64.b64encode(rows.tobytes()).decode()}
        Path(path).write_text(json.dumps(whole), encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Mechanism:
        """Reads what save() wrote."""
        whole = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(whole, dict) or whole.get("format") != FORMAT:
            raise ValueError(f"{os.fspath(path)} is not a mechanism that Mechanism.save() of this version wrote")
        rows = whole.get("rows")
        if rows is not None:
            rows = numpy.frombuffer(base64.b64decode(rows["float64"]), dtype="<f8").reshape(rows["shape"])
        return cls(whole["document"], rows=rows, spend=whole["spend"], statement=whole["statement"],
                   guarantee=whole["guarantee"], run=whole["run"])

    # ------------------------------------------------------------ for a training

    def noise(self, like: Any, key: bytes | None = None, *, clip_norm: float, backend: str | None = None,
              places: Sequence[tuple[int, int]] | None = None, journal: str | os.PathLike[str] | None = None) -> Any:
        """
        The noise for parameters shaped like `like`: a Noise, whose step() returns clip_norm * noise_multiplier *
        (C^-1 z)_t in that shape; for JAX a JaxNoise, a pure function of a state.

        like: an array, or lists, tuples and dictionaries of arrays; a torch module (its parameters that need a
        gradient, in their order, as a list), or tensors; a pytree of JAX arrays. Parameters are numbered in this order,
        those of a dictionary by its sorted keys.

        key: 16 secret bytes; by default new ones from the operating system. A run that is resumed needs them again: see
        load_key(). Whoever knows the key can remove the noise. Use a key for one training; its phases, and their runs,
        may share it.

        backend: "numpy", "torch" or "jax"; by default that of `like`.

        places: where parameters are divided among processes, for each array the number of the parameter that it is a
        part of, and the index of its first coordinate in the whole parameter, flattened. An array is then a contiguous
        part of that. The values are the same however parameters are divided. Not for JAX, where arrays may be sharded.

        journal: a file that remembers how many steps were drawn with this key, even if the machine loses its power. A
        run that starts again from a checkpoint older than that finds out. step() writes it before it returns, which
        takes what the disk needs to sync; in JAX the loop calls record(). One process at a time may use it, so
        processes that share the parameters of a run have a file each.
        """
        like = list(like) if isinstance(like, Iterator) else like
        backend = backend or _backend_of(like)
        if not clip_norm > 0:
            raise ValueError("clip_norm must be positive: the largest norm of an example's contribution")
        if backend == "jax":
            from .jax_noise import JaxNoise
            if places is not None:
                raise ValueError("places are not for JAX: shard the arrays")
            return JaxNoise(self, like, key, clip_norm, journal)
        from .noise import Noise
        if backend == "numpy":
            from .numpy_backend import NumpyBackend
            return Noise(self, NumpyBackend(), like, key, clip_norm, places, journal)
        if backend == "torch":
            from .torch_backend import TorchBackend
            return Noise(self, TorchBackend(), like, key, clip_norm, places, journal)
        raise ValueError(f"backend must be numpy, torch or jax, not {backend!r}")

    def batches(self, dataset_size: int, key: bytes | None = None, **options: Any) -> Any:
        """The batches of the steps, from the law that was accounted; see epsilond.training.batches."""
        from .batches import batches
        return batches(self.sampling, self.n, dataset_size, key, place=self._place(), **options)

    def stddev(self, step: int, clip_norm: float = 1.0) -> float:
        """The standard deviation of each coordinate of the noise of a step, which an optimizer like Adam may subtract,
        squared, from its second moment."""
        if not 0 <= step < self.n:
            raise ValueError(f"step must lie in [0, {self.n - 1}]")
        if self._norms is None:
            self._norms = self.recurrence.norms()
        return clip_norm * float(self.noise_multiplier) * float(self._norms[step % self.recurrence.block])

    def spent(self, steps: int) -> float:
        """
        Epsilon, at the delta of the job, after so many steps of the whole training: that of the next point of the
        spend, which is a bound, and after the last step at most that of the job. (Before it, it may be more: where only
        the last iterate is released, an earlier one reveals more.) For a job of phases, `steps` counts those of all.
        """
        if steps <= 0:
            return 0.0
        if self.spend is None:
            raise ValueError("the job has no spend: GET /v1/jobs/{id}/spend says why")
        for point in self.spend:
            if point["step"] >= steps:
                epsilon = float(point["epsilon"])
                return epsilon if point is not self.spend[-1] or self.epsilon is None else min(epsilon, self.epsilon)
        raise ValueError(f"the training has only {self.spend[-1]['step']} steps")

    def cost(self, coordinates: int) -> dict[str, int]:
        """What a step costs for so many parameters: `bytes` that are kept, and `draws`, the rows of z that are drawn,
        at most."""
        return {"bytes": 4 * self.recurrence.kept * coordinates, "draws": self.recurrence.draws()}


def _backend_of(like: Any) -> str:
    """The backend of the first array in `like`."""
    seen = [like]
    while seen:
        item = seen.pop()
        for name in ("torch", "jax"):
            if name in sys.modules and any(kind.__module__.split(".")[0] in (name, name + "lib")
                                           for kind in type(item).__mro__):
                return name
        if isinstance(item, Mapping):
            seen.extend(item.values())
        elif isinstance(item, (list, tuple)):
            seen.extend(item)
    return "numpy"


def load_key(path: str | os.PathLike[str]) -> bytes:
    """
    The key in a file that only its owner may read; a new one from the operating system if there is no such file. For a
    run that may have to be resumed. Delete the file after the run: nobody needs the key again.
    """
    if not os.path.exists(path):
        part = f"{os.fspath(path)}.{secrets.token_hex(8)}"
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(part, path)  # whole or not at all, and not over the key of another process
            except FileExistsError:
                pass
        finally:
            os.unlink(part)
        sync_folder(path)
    key = Path(path).read_bytes()
    if len(key) != KEY_BYTES:
        raise ValueError(f"{os.fspath(path)} is not a key of {KEY_BYTES} bytes")
    return key
