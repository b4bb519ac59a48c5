"""
What must not happen twice: the key of a run, and the journal of the steps that were drawn with it.

A row of white noise must not be added to two different sums, since their difference is free of noise. A journal
remembers in a file how many steps were drawn, so that a run that starts again from an older checkpoint finds out.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import hashlib
import os
import secrets
from typing import TYPE_CHECKING

from . import chacha

if TYPE_CHECKING:
    from .mechanism import Mechanism

KEY_BYTES = 16


class ReplayError(ValueError):
    """A step would be drawn again."""


def checked_key(key: bytes | None) -> bytes:
    """The key, or a new one from the operating system."""
    if key is None:
        return secrets.token_bytes(KEY_BYTES)
    if not isinstance(key, (bytes, bytearray)) or len(key) != KEY_BYTES:
        raise ValueError(f"the key must be {KEY_BYTES} bytes that nobody can guess, such as secrets.token_bytes(16)")
    return bytes(key)


def cipher_key(mechanism: Mechanism, key: bytes) -> bytes:
    """Of the white noise: another one for each mechanism, phase and run, so that these may share the key of a user."""
    return hashlib.blake2b(mechanism.identity, key=key, digest_size=chacha.KEY_BYTES, person=b"epsilond noise").digest()


def fingerprint(mechanism: Mechanism, key: bytes) -> bytes:
    """Tells runs apart without telling the key."""
    return hashlib.blake2b(mechanism.identity, key=key, digest_size=16, person=b"epsilond run").digest()


def sync_folder(path: str | os.PathLike[str]) -> None:
    """A file that was made survives a loss of power once its folder is synced."""
    descriptor = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Journal:
    """A file with the fingerprint of a run and the number of steps that were drawn. It is locked while it is open."""

    SIZE = 24

    def __init__(self, path: str | os.PathLike[str], mark: bytes) -> None:
        import fcntl  # which Windows lacks
        self.path = os.fspath(path)
        self.mark = mark
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(f"{self.path} is in use by another process, or by another object of this one: two that "
                             "draw the noise of one run would draw each step twice") from None
        found = os.pread(self.descriptor, self.SIZE + 1, 0)
        if found and (len(found) != self.SIZE or found[:16] != mark):
            raise ValueError(f"{self.path} is the journal of a run with another mechanism or key")
        self.released = int.from_bytes(found[16:], "little")
        sync_folder(path)

    def record(self, released: int) -> None:
        """Returns when it is on the disk that so many steps were drawn."""
        if released > self.released:
            os.pwrite(self.descriptor, self.mark + released.to_bytes(8, "little"), 0)
            os.fsync(self.descriptor)
            self.released = released

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):  # open() may have failed
            os.close(self.descriptor)
