"""
An hour of mixed load: jobs, sweeps, plans, cancels, deletes, lists and event streams, all of which expire or are
deleted. At its end, the service holds no more memory, disk, threads and files than after the first quarter, and what it
answers is what a server answers that nothing happened to. Run by `make soak`.

From the environment: STEADY_MINUTES (60); SEED.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import contextlib
import os
import pathlib
import random
import statistics
import threading
import time

import pytest
import requests

from conftest import PATIENCE, launch
from faults import Reference, Work
from test_limits import MIB

MINUTES = float(os.environ.get("STEADY_MINUTES", "60"))
SEED = int(os.environ.get("SEED", "1"))
KEPT = 300  # jobs, sweeps and plans: the oldest is deleted
RATE = 60  # steps a second at most, so that what is kept for a time has the same size on an idle and a busy machine
SAMPLES = 240


class Steady(Work):
    """Mixed work at a steady rate, of which what is old is canceled and deleted."""

    due = 0
    keyed = 0.02  # keys are kept for a day, so the database grows with them

    def step(self, ask, generator):
        with self.lock:
            self.due = max(self.due, time.monotonic()) + 1 / RATE
            wait = self.due - time.monotonic()
        time.sleep(wait)
        super().step(ask, generator)
        with self.lock:
            item = self.items.pop(0) if len(self.items) > KEPT else None
        if not item:
            return
        item.deleting = item.canceling = True
        self.expect(ask("POST", item.link + "/cancel"), 200, 202, 409, 404)
        if not self.expect(ask("DELETE", item.link), 204, 404):  # it is not over yet
            with self.lock:
                self.items.append(item)

    refusals = {409, 503}  # a delete of what is still ending, and a full queue


def read(server, stopping, wrong):
    """Lists, metrics and events, one after the other."""
    generator = random.Random(SEED)
    with requests.Session() as session:
        while not stopping.is_set():
            try:
                for path in ("/v1/jobs?limit=100", "/v1/sweeps", "/v1/plans", "/metrics", "/v1/usage", "/"):
                    assert session.get(server.url + path, timeout=PATIENCE).status_code == 200, path
                with session.get(server.url + "/v1/events", stream=True, timeout=PATIENCE) as events:
                    with contextlib.suppress(StopIteration):
                        for _ in range(generator.randrange(1, 9)):
                            next(events.iter_content(64))
            except Exception as error:  # pylint: disable=broad-except
                wrong.append(repr(error))
                return
            time.sleep(0.05)


def held(server):
    """What the service and its cells hold: bytes of memory of both, bytes of the database, threads, open files."""
    memory, threads, files = [0, 0], 0, 0
    for pid in [server.process.pid, *server.cells()]:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
            fields = dict(line.split(":", 1) for line in lines)
            memory[pid != server.process.pid] += 1024 * int(fields["RssAnon"].split()[0])  # without the mapped database
            threads += int(fields["Threads"])
            files += len(os.listdir(f"/proc/{pid}/fd"))
    disk = sum(os.path.getsize(server.database + tail) for tail in ("", "-wal"))
    return *memory, disk, threads, files


def least_but_one(values):
    return sorted(values)[1]


# Allowed beyond 5%. What cells hold depends on what they compute at the moment; what they keep is the least of it.
HELD = (("memory", 8 * MIB, statistics.median), ("memory of cells", 8 * MIB, least_but_one),
        ("disk", 8 * MIB, statistics.median), ("threads", 4, statistics.median), ("files", 16, statistics.median))


@pytest.fixture
def reference(tmp_path):
    running = Reference(tmp_path / "reference")
    yield running
    running.server.stop()


@pytest.mark.timeout(120 * MINUTES + 600)
def test_an_hour_of_mixed_load(launch, reference):
    seconds = 60 * MINUTES
    server = launch("--keep", f"{max(60, round(seconds / 12))}s", "--memory-bytes", "8MiB")  # caches are full soon
    work, stopping, wrong, samples = Steady(reference, SEED), threading.Event(), [], []
    reader = threading.Thread(target=read, args=(server, stopping, wrong))
    work.start(server, 3)
    reader.start()
    for _ in range(SAMPLES):
        time.sleep(seconds / SAMPLES)
        samples.append(held(server))
        assert not wrong and not work.wrong, (wrong, work.wrong)
    stopping.set()
    reader.join()
    work.join()
    quarter = len(samples) // 4
    for (name, spare, typical), early, late in zip(HELD, zip(*samples[quarter:2 * quarter]), zip(*samples[-quarter:])):
        first, last = typical(early), typical(late)
        print(f"  {name}: {first:,.0f} in the second quarter, {last:,.0f} in the last")
        assert last <= 1.05 * first + spare, name
    print(f"  {work.done:,} steps, {work.refused:,} refused")
    assert work.done > RATE / 2 * seconds  # otherwise the machine set the pace
    work.check(server, 60)
    for name in ("jobs_crashed", "store_failures", "checksum_failures"):
        assert server.metric(f"epsilond_{name}_total") == 0, name
    server.stop()
