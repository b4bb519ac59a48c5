"""
Faults of the machine under the service: it is killed, the power goes, calls fail, bits flip, the clock jumps. Whatever
happens, nothing that was acknowledged is lost, no answer differs from that of an undisturbed server, and the service
recovers once the fault ends.

Each test is a sample; `make soak-faults` runs the same for longer, by FAULTS_KILLS (3), FAULTS_POWER (3), FAULTS_CALLS
(1), FAULTS_FLIPS (25); SEED begins another sequence.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import contextlib
import errno
import os
import random
import sqlite3
import time

import pytest

from conftest import Server, until
from faults import Disk, Faults, Reference, Work

SEED = int(os.environ.get("SEED", "1"))
FOR = ("--workers", "2")


def size(name, default):
    return int(os.environ.get(f"FAULTS_{name}", default))


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    running = Reference(tmp_path_factory.mktemp("reference") / "server")
    yield running
    running.server.stop()


@contextlib.contextmanager
def shimmed(folder, *options, record=False):
    """A server with faults."""
    faults = Faults(folder, record)
    server = Server(folder, *FOR, *options, env=faults.environment())
    try:
        yield server, faults
    finally:
        if server.process.poll() is None:
            server.kill()


def test_kill_9_at_any_moment(launch, reference):
    server, work, generator = launch(*FOR), Work(reference, SEED), random.Random(SEED)
    for _ in range(size("KILLS", 3)):
        work.start(server)
        time.sleep(generator.uniform(0, 0.4))
        server.kill()
        work.join()
        server.start()
        work.check(server, 40)
    work.check(server)
    assert len(work.items) > size("KILLS", 3)
    assert server.metric("epsilond_jobs_crashed_total") == 0
    assert server.metric("epsilond_checksum_failures_total") == 0


def test_the_power_goes_at_any_moment(tmp_path, reference):
    """The process dies before some change of a file, and the disk keeps any part of what was not synchronised."""
    files, work, generator = {}, Work(reference, SEED), random.Random(SEED)
    for number in range(size("POWER", 3)):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
        with shimmed(folder, record=True) as (server, faults):
            work.check(server, 30)
            assert server.stored("PRAGMA integrity_check") == [("ok",)]
            faults.die_at(faults.changes() + generator.randrange(1, 400))
            work.start(server)
            assert server.process.wait(60) == -9
            server.close()
            work.join()
        disk = Disk(files)
        disk.play(faults.record.read_bytes())
        files = disk.kept(generator)
    assert len(work.items) > size("POWER", 3)
