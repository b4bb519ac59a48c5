"""
Who goes first: short jobs before long ones, jobs before curves, and no long job takes all there is.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import sqlite3
import threading
import time

import pytest

from conftest import DP_SGD, ENDLESS, ONE_BY_ONE, PATIENCE, until

# Some seconds, as estimated, and a fraction of one, as it takes.
LONGER = {"n": 50000, "sampling": {"scheme": "poisson", "p": 0.01}, "noise_multiplier": 1.0, "delta": 1e-8,
          "accountant": {"method": "pld", "tolerance": 1e-6}}


def stored_points(server):
    with sqlite3.connect(server.database) as connection:
        points = [row[0] for row in connection.execute("SELECT length(points) FROM results")]
    connection.close()
    return points


def cancel(server, *ids):
    for job_id in ids:
        server.post(None, f"/v1/jobs/{job_id}/cancel")


@pytest.mark.sanitized
def test_a_curve_is_computed_when_first_asked_for(launch):
    server = launch()
    document = server.solve(DP_SGD)
    assert server.metric("epsilond_workers_busy") == 0
    assert stored_points(server) == [None]
    points = server.get(document["links"]["curve"]).json()["points"]
    assert stored_points(server) == [201 * 5 * 8]
    server.stop()
    assert stored_points(server) == [201 * 5 * 8]
    server.start()
    assert server.get(document["links"]["curve"]).json()["points"] == points


@pytest.mark.sanitized
def test_a_curve_that_the_job_asked_for_is_there_at_once(launch):
    server = launch()
    server.solve({"n": 200, "sampling": DP_SGD["sampling"], "noise_multiplier": 1.0, "curve": True})
    assert stored_points(server) == [201 * 5 * 8]


@pytest.mark.sanitized
def test_short_jobs_overtake_long_ones(launch):
    server = launch(*ONE_BY_ONE)
    running = server.post(ENDLESS).json()["id"]
    server.until(running, "running")
    longer = server.post(LONGER).json()["id"]
    shorter = [server.post(dict(DP_SGD, n=n)).json()["id"] for n in (100, 101, 102)]
    cancel(server, running)
    for job_id in shorter + [longer]:
        server.until(job_id, "succeeded")
    times = [server.get(f"/v1/jobs/{job_id}").json()["started_at"] for job_id in shorter + [longer]]
    assert times == sorted(times)


def test_the_order_survives_a_restart(launch):
    server = launch(*ONE_BY_ONE)
    running = server.post(ENDLESS).json()["id"]
    server.until(running, "running")
    longer = server.post(LONGER).json()["id"]
    shorter = server.post(DP_SGD).json()["id"]
    server.stop()
    server.start()  # oldest first, but for the estimate: the endless one is the longest now
    assert server.until(shorter, "succeeded")["started_at"] <= server.until(longer, "succeeded")["started_at"]
    cancel(server, running)


@pytest.mark.sanitized
@pytest.mark.parametrize("workers", [1, 2])
def test_a_short_job_does_not_wait_for_long_ones(launch, workers):
    server = launch("--workers", str(workers))
    endless = [server.post(dict(ENDLESS, n=4000 + i)).json()["id"] for i in range(workers + 1)]
    for job_id in endless[:workers]:
        server.until(job_id, "running")
    for n in range(300, 310):
        assert server.solve(dict(DP_SGD, n=n))["status"] == "succeeded"
    assert server.get(f"/v1/jobs/{endless[workers]}").json()["status"] == "queued"
    cancel(server, *endless[::-1])


def test_an_unrequested_curve_keeps_no_one_waiting(launch):
    """The job after which a curve that no one wanted once kept both workers for a minute."""
    server = launch("--workers", "2")
    server.solve({"n": 512, "matrix": {"family": "tree"}, "sampling": {"scheme": "poisson", "p": 1 / 512},
                  "noise_multiplier": 20.0, "delta": 1e-6, "accountant": "mmcc"})
    started = time.monotonic()
    until(lambda: not server.metric("epsilond_workers_busy"))
    assert time.monotonic() - started < 1


@pytest.mark.sanitized
def test_curves_come_after_jobs(launch):
    server = launch(*ONE_BY_ONE)
    finished = server.solve(DP_SGD)
    running = server.post(ENDLESS).json()["id"]
    server.until(running, "running")
    answers = []
    asking = threading.Thread(target=lambda: answers.append((server.get(finished["links"]["curve"]), time.time())))
    asking.start()
    until(lambda: server.metric("epsilond_jobs_queued") >= 1)
    jobs = [server.post(dict(LONGER, n=n)).json()["id"] for n in (30000, 30001)]
    assert not answers
    cancel(server, running)
    for job_id in jobs:
        assert server.until(job_id, "succeeded")
    asking.join(PATIENCE)
    answer, answered = answers[0]
    assert answer.status_code == 200 and len(answer.json()["points"]) == 201
    started = [server.get(f"/v1/jobs/{job_id}").json()["started_at"] for job_id in jobs]
    assert all(time_of(moment) < answered for moment in started)


def time_of(text):
    import datetime
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
