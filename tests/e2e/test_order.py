"""Scheduling: short jobs before long ones, jobs before curves, and no long job uses all workers."""
import select
import sqlite3
import threading
import time

import pytest

import wire
from conftest import DP_SGD, ENDLESS, ONE_BY_ONE, PATIENCE, until

# Several seconds by its estimate, and a fraction of one in reality.
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
    until(lambda: not server.metric("epsilond_workers_busy"))
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
    *before, after = (server.get(f"/v1/jobs/{job_id}").json()["started_at"] for job_id in shorter + [longer])
    assert max(before) <= after  # jobs of nearly the same length may start in any order


def test_the_order_survives_a_restart(launch):
    server = launch(*ONE_BY_ONE)
    running = server.post(ENDLESS).json()["id"]
    server.until(running, "running")
    longer = server.post(LONGER).json()["id"]
    shorter = server.post(DP_SGD).json()["id"]
    server.stop()
    server.start()  # oldest first, except for the estimate: the endless one is the longest now
    assert server.until(shorter, "succeeded")["started_at"] <= server.until(longer, "succeeded")["started_at"]
    cancel(server, running)


def test_jobs_that_wait_for_a_strategy_hold_nobody_up(launch):
    """Four jobs with the same optimal strategy, which one of them computes: the other worker is free for jobs that do
    not need it."""
    server = launch("--workers", "2", "--max-bytes", "4GiB")
    shared = {"n": 2048, "matrix": {"family": "optimal"}, "delta": 1e-6,
              "sampling": {"scheme": "none", "epochs": 4, "separation": 512}}
    waiting = [server.post(dict(shared, noise_multiplier=1 + i / 8)).json()["id"] for i in range(4)]
    for job_id in waiting:
        server.until(job_id, "running")
    endless = server.post(ENDLESS).json()["id"]
    server.until(endless, "running")
    assert server.solve(DP_SGD)["status"] == "succeeded"
    documents = [server.get(f"/v1/jobs/{job_id}").json() for job_id in [*waiting, endless]]
    assert [(document["status"], document["attempts"]) for document in documents] == [("running", 1)] * 5
    cancel(server, waiting[1])  # while it waits without a thread
    assert server.get(f"/v1/jobs/{waiting[1]}").json()["status"] == "canceled"
    cancel(server, waiting[0], endless)  # another takes over the strategy
    server.until(waiting[0], "canceled")
    assert server.get(f"/v1/jobs/{waiting[2]}").json()["status"] == "running"
    cancel(server, *waiting)


@pytest.mark.sanitized
def test_jobs_that_waited_for_a_strategy_have_it(launch):
    server = launch("--workers", "2")
    shared = {"n": 256, "matrix": {"family": "optimal"}, "delta": 1e-6,
              "sampling": {"scheme": "none", "epochs": 4, "separation": 64}}
    ids = [server.post(dict(shared, noise_multiplier=1 + i / 8)).json()["id"] for i in range(6)]
    documents = [server.until(job_id, "succeeded") for job_id in ids]
    assert len({document["result"]["factorization"]["id"] for document in documents}) == 1
    assert {document["attempts"] for document in documents} == {1}
    assert sorted(document["result"]["cache"]["factorization"] for document in documents) == ["hit"] * 5 + ["miss"]
    assert server.metric("epsilond_jobs_running") == 0


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
    """After this job, a curve that nobody had requested used to occupy both workers for a minute."""
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


# Its answer takes seconds; epsilon in the course of training takes minutes.
LONG_SPEND = {"phases": [{"n": 200000, "sampling": {"scheme": "poisson", "p": 0.001 * (1 + i / 10)}}
                         for i in range(128)],
              "noise_multiplier": 4.0, "delta": 1e-6}
# So does its curve, if it is computed point by point.
LONG_CURVE = {"phases": [{"n": 24, "sampling": {"scheme": "poisson", "p": 0.05}},
                         {"n": 12, "matrix": {"family": "square_root", "bands": 3},
                          "sampling": {"scheme": "balls_in_bins", "bins": 6}}],
              "noise_multiplier": 1.5, "delta": 1e-4}


def send(server, link, *headers):
    """Sends a request and does not read."""
    connection = wire.connect(server)
    connection.sendall(wire.head(server, f"GET {link} HTTP/1.1", *headers))
    return connection


def read(connection):
    with connection, connection.makefile("rb") as stream:
        return wire.read_reply(stream)


def answered(*connections):
    return bool(select.select(connections, [], [], 0)[0])


def test_what_was_spent_holds_up_no_stream(launch):
    """Two threads used to serve both: four such requests delayed ten numbers of another client until they ended."""
    server = launch("--workers", "2")
    documents = [server.solve(dict(LONG_SPEND, noise_multiplier=4.0 + i)) for i in range(4)]
    small = server.solve(DP_SGD)
    asking = [send(server, document["links"]["spend"]) for document in documents]
    until(lambda: server.metric("epsilond_workers_busy") >= 1)
    assert server.post({"job": small["id"], "dimensions": 10}, "/v1/noise", timeout=60).status_code == 200
    assert server.get(small["links"]["error"], timeout=60).status_code == 200
    assert not answered(*asking)
    # Nor is anything computed for clients that have disconnected.
    for connection in asking:
        connection.close()
    until(lambda: not server.metric("epsilond_workers_busy") and not server.metric("epsilond_jobs_queued"))


@pytest.mark.parametrize("job, link", [(LONG_SPEND, "spend"), (LONG_CURVE, "curve")])
def test_long_figures_take_turns(launch, job, link):
    """With one worker, other clients get their curves and results meanwhile."""
    server = launch(*ONE_BY_ONE)
    long, small = server.solve(job), server.solve(DP_SGD)
    with send(server, long["links"][link]) as asking:
        until(lambda: server.metric("epsilond_workers_busy") == 1)
        assert len(server.get(small["links"]["curve"], timeout=60).json()["points"]) == 201
        for n in range(300, 305):
            assert server.solve(dict(DP_SGD, n=n))["status"] == "succeeded"
        assert server.get(small["links"]["spend"], timeout=60).status_code == 200
        assert link == "curve" or not answered(asking)
    until(lambda: not server.metric("epsilond_workers_busy"))


@pytest.mark.sanitized
def test_a_figure_is_computed_once_and_kept(launch):
    server = launch(*ONE_BY_ONE)
    finished = server.solve(DP_SGD)
    running = server.post(ENDLESS).json()["id"]
    server.until(running, "running")
    spend = finished["links"]["spend"]
    asking = [send(server, spend), send(server, spend, "Accept: text/csv")]
    until(lambda: server.metric("epsilond_http_requests_waiting") == 2)
    assert server.metric("epsilond_jobs_queued") == 1 and not answered(*asking)
    cancel(server, running)
    whole, table = (read(connection) for connection in asking)
    points = whole.json()["points"]
    assert whole.status == table.status == 200
    assert [line.split(",")[0] for line in table.body.decode().splitlines()] == [
        "step", *(str(point["step"]) for point in points)]
    # From then on it occupies no worker, also after a restart.
    for _ in range(2):
        running = server.post(ENDLESS).json()["id"]
        server.until(running, "running")
        assert server.get(spend, timeout=60).json()["points"] == points
        cancel(server, running)
        server.stop()
        server.start()


@pytest.mark.sanitized
@pytest.mark.parametrize("link", ["curve", "spend"])
def test_who_hangs_up_leaves_the_queue(launch, link):
    server = launch(*ONE_BY_ONE)
    finished = server.solve(DP_SGD)
    running = server.post(ENDLESS).json()["id"]
    server.until(running, "running")
    first, second = (send(server, finished["links"][link]) for _ in range(2))
    until(lambda: server.metric("epsilond_http_requests_waiting") == 2)
    first.close()
    until(lambda: server.metric("epsilond_http_requests_waiting") == 1)
    assert server.metric("epsilond_jobs_queued") == 1
    second.close()
    until(lambda: server.metric("epsilond_jobs_queued") == 0)
    assert server.get(f"/v1/jobs/{running}").json()["status"] == "running"
    cancel(server, running)
    assert server.get(finished["links"][link]).status_code == 200


def time_of(text):
    import datetime
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
