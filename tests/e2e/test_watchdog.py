"""
Computations that do not end: one function of the library never returns, because of a jump to itself that is written
into the running server.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import sqlite3
import time

import pytest

from conftest import DP_SGD, GAUSSIAN, ONE_BY_ONE, PATIENCE, check_problem, until

COMPOSE = "eps__pld_compose"  # called by a job of the accountant pld, but not by GAUSSIAN
QUICK = (*ONE_BY_ONE, "--isolate", "off", "--max-seconds", "500ms", "--watchdog-seconds", "500ms")
STUCK = "epsilond_stuck_computations"
GIVEN_UP = "epsilond_computations_given_up_total"


def pld_job(n):
    return dict(DP_SGD, n=n, accountant="pld")


@pytest.mark.sanitized
def test_past_its_deadline(launch):
    server = launch(*QUICK)
    assert server.metric(STUCK) == 0 and server.metric(GIVEN_UP) == 0
    before = server.loop(COMPOSE)
    # Waiting requests are answered.
    answer = server.post(pld_job(200), "/v1/jobs?wait=60", headers={"X-Request-Id": "the-loop"}).json()
    assert answer["status"] == "failed" and answer["error"]["type"] == "/problems/timeout"
    assert "did not stop" in answer["error"]["detail"]
    assert server.solve(GAUSSIAN)["status"] == "succeeded"  # by the thread that has its place
    problem = check_problem(server.get("/readyz"), 503, "queue-full")
    assert "did not stop" in problem["detail"]
    assert server.get("/healthz").status_code == 200
    assert server.metric(STUCK) == 1 and server.metric(GIVEN_UP) == 1
    [line] = [line for line in server.log_text().splitlines() if "event=stuck " in line]
    assert "level=error" in line and f"job={answer['id']} request=the-loop " in line

    server.overwrite(COMPOSE, before)  # it returns
    until(lambda: server.metric(STUCK) == 0)
    assert server.get("/readyz").status_code == 200
    assert f"event=unstuck job={answer['id']} request=the-loop " in server.log_text()
    assert server.get(f"/v1/jobs/{answer['id']}").json() == answer
    assert server.solve(pld_job(200))["status"] == "succeeded"
    assert server.metric(GIVEN_UP) == 1


def test_after_a_cancel(launch):
    server = launch(*ONE_BY_ONE, "--isolate", "off", "--watchdog-seconds", "500ms")
    server.loop(COMPOSE)
    job_id = server.post(pld_job(200)).json()["id"]
    server.running(job_id)
    time.sleep(1)
    assert server.metric(STUCK) == 0  # it may continue
    assert server.request("POST", f"/v1/jobs/{job_id}/cancel").status_code == 202
    assert server.solve(GAUSSIAN)["status"] == "succeeded"
    assert server.metric(STUCK) == 1
    assert server.get(f"/v1/jobs/{job_id}").json()["status"] == "canceled"
    assert f"event=stuck job={job_id}" in server.log_text()
    server.stop()  # the lost thread does not delay the stop


def test_one_too_many_ends_the_process(launch):
    """The supervisor restarts it; nothing is run twice, and nothing is lost."""
    server = launch(*QUICK)
    server.loop(COMPOSE)
    ids = [server.post(pld_job(n)).json()["id"] for n in (200, 201, 202)]
    assert server.process.wait(PATIENCE) == 1
    server.close()
    log = server.log_text()
    assert log.count("event=stuck ") == 2 and "event=too-many-stuck" in log and "level=error" in log
    server.start("--max-seconds", "1h")
    for job_id in ids[:2]:
        assert server.until(job_id, "failed")["error"]["type"] == "/problems/timeout"
    assert server.until(ids[2], "succeeded")["attempts"] == 1
    assert "event=suspect" not in server.log_text()


def test_it_is_blamed_where_its_end_could_not_be_written(launch):
    server = launch(*QUICK, "--watchdog-seconds", "1s")  # from which the database can be taken away
    server.loop(COMPOSE)
    first = server.post(pld_job(200)).json()["id"]
    server.until(first, "failed")
    last = server.post(pld_job(201)).json()["id"]
    server.running(last)
    other = sqlite3.connect(server.database)
    other.execute("BEGIN IMMEDIATE")
    assert server.process.wait(PATIENCE) == 1
    server.close()
    other.rollback()
    other.close()
    server.start("--max-seconds", "1h")
    assert server.until(last, "succeeded")["attempts"] == 2
    assert f"event=suspect job={last} traced=true attempts=1" in server.log_text()

