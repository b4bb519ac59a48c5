"""
Keys share the workers: one that floods the queue delays no other.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import itertools
import statistics
import threading
import time

import pytest
import requests

from conftest import DP_SGD, ENDLESS, ONE_BY_ONE, draw_key, until

serial = itertools.count()
LONGER = dict(DP_SGD, n=20000, accountant={"method": "pld", "tolerance": 1e-6})


def fresh(job=DP_SGD):
    return dict(job, noise_multiplier=1 + next(serial) * 1e-5)


class Keys:
    """A server with keys of these names, all of one group."""

    def __init__(self, launch, path, options, *names):
        keys = {name: draw_key() for name in names}
        path.write_text("\n".join(line for _, line in keys.values()))
        path.chmod(0o600)
        self.server = launch("--keys", str(path), *options)
        self.headers = {name: {"Authorization": f"Bearer {key}"} for name, (key, _) in keys.items()}
        self.sessions = {name: requests.Session() for name in names}

    def ask(self, who, path, body=None):
        return self.sessions[who].request("GET" if body is None else "POST", self.server.url + path, json=body,
                                          headers=self.headers[who], timeout=100)

    def post(self, who, job):
        answer = self.ask(who, "/v1/jobs", job)
        assert answer.status_code == 202, answer.text
        return answer.json()["id"]

    def ended(self, who, ids):
        return [self.ask(who, f"/v1/jobs/{one}?wait=60").json() for one in ids]

    def hold(self, who):
        """Keeps the only worker busy, until the job is canceled."""
        held = self.post(who, ENDLESS)
        until(lambda: self.ask(who, f"/v1/jobs/{held}").json()["status"] == "running")
        return held


def in_order(*documents):
    """The jobs in the order in which they started."""
    return sorted(itertools.chain(*documents), key=lambda document: (document["started_at"], document["id"]))


@pytest.fixture
def keys(launch, tmp_path):
    return lambda options, *names: Keys(launch, tmp_path / "keys", options, *names)


def test_a_short_job_starts_after_one_of_the_flood(keys):
    """With one worker, and both keys waiting for it, though the flood came first and its jobs are as short."""
    keys = keys(ONE_BY_ONE, "holder", "flood", "other")
    held = keys.hold("holder")
    flood = [keys.post("flood", fresh()) for _ in range(40)]
    other = [keys.post("other", fresh()) for _ in range(5)]
    keys.ask("holder", f"/v1/jobs/{held}/cancel", {})
    names = [document["id"] for document in in_order(keys.ended("flood", flood), keys.ended("other", other))]
    places = sorted(names.index(one) for one in other)  # the jobs of one key may start in any order
    assert all(place <= 2 * i + 2 for i, place in enumerate(places)), places  # two may start in one millisecond


def test_a_sweep_is_a_flood_too(keys):
    keys = keys(ONE_BY_ONE, "holder", "flood", "other")
    held = keys.hold("holder")
    grid = {"/noise_multiplier": [fresh()["noise_multiplier"] for _ in range(60)]}
    sweeps = [keys.ask("flood", "/v1/sweeps", {"base": DP_SGD, "grid": {**grid, "/delta": [delta]}}).json()
              for delta in (1e-5, 1e-6, 1e-7)]
    other = [keys.post("other", fresh()) for _ in range(3)]
    keys.ask("holder", f"/v1/jobs/{held}/cancel", {})
    keys.ended("other", other)
    assert sum(keys.ask("flood", sweep["links"]["self"]).json()["done"] for sweep in sweeps) < 30
    for sweep in sweeps:
        keys.ask("flood", sweep["links"]["cancel"], {})


def test_a_job_that_both_wait_for_is_not_behind_the_flood(keys):
    keys = keys(ONE_BY_ONE, "holder", "flood", "other")
    held = keys.hold("holder")
    flood = [keys.post("flood", fresh()) for _ in range(39)]
    shared = fresh()
    flood.append(keys.post("flood", shared))
    other = keys.post("other", shared)
    keys.ask("holder", f"/v1/jobs/{held}/cancel", {})
    names = [document["id"] for document in in_order(keys.ended("flood", flood), keys.ended("other", [other]))]
    assert names.index(other) <= 3


def test_keys_of_queued_jobs_outlive_a_restart(keys):
    keys = keys(ONE_BY_ONE, "flood", "other")
    held = keys.hold("other")
    flood = [keys.post("flood", fresh(LONGER)) for _ in range(12)]
    other = [keys.post("other", fresh(LONGER)) for _ in range(2)]
    keys.server.stop()
    keys.server.start()
    keys.ask("other", f"/v1/jobs/{held}/cancel", {})
    keys.ended("other", other)
    statuses = [keys.ask("flood", f"/v1/jobs/{one}").json()["status"] for one in flood]
    assert statuses.count("succeeded") <= 6, statuses
    for one in flood:
        keys.ask("flood", f"/v1/jobs/{one}/cancel", {})


def test_the_latency_of_a_short_job_stays_within_twice(keys):
    """A small form of tests/bench/fairness.py: medians, as other load on the machine decides the slowest of a few. What
    is added to twice is for such load, too; without turns a job would wait for the whole queue of the flood, which is
    about a second."""
    keys = keys(("--workers", "1", "--queue", "400"), "flood", "other")
    over, full = threading.Event(), threading.Event()

    def seconds(count):
        times = []
        for _ in range(count):
            start = time.perf_counter()
            assert keys.ask("other", "/v1/jobs?wait=60", fresh()).json()["status"] == "succeeded"
            times.append(time.perf_counter() - start)
        return times

    def flood():
        while not over.is_set():
            if keys.ask("flood", "/v1/jobs", fresh()).status_code == 429:
                full.set()
                time.sleep(0.05)

    seconds(5)
    idle = seconds(40)
    thread = threading.Thread(target=flood)
    thread.start()
    try:
        assert full.wait(60)
        flooded = seconds(40)
    finally:
        over.set()
        thread.join()
    assert statistics.median(flooded) <= 2 * statistics.median(idle) + 0.1, (idle, flooded)
