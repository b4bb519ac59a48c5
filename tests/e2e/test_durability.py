"""Accepted work survives kill -9, power loss, repeated crashes, restarts, damage, and a graceful stop."""
import json
import signal
import sqlite3
import subprocess
import threading
import time

import pytest
import requests

from conftest import (BINARY, DP_SGD, ENDLESS, GAUSSIAN, INSTRUMENTED, ONE_BY_ONE, PATIENCE, check_problem,
                      signal_thread, until)

# Takes several seconds, and ends.
SLOW = {"n": 50000, "sampling": {"scheme": "poisson", "p": 0.01}, "noise_multiplier": 1.0, "delta": 1e-8,
        "accountant": {"method": "pld", "tolerance": 1e-6}, "label": "slow"}

# Its privacy loss distributions are cached, as they are not built faster than they are looked up.
USERS = dict(DP_SGD, noise_multiplier=20, sampling=dict(DP_SGD["sampling"], examples_per_user=20))


def edit(database, statement, *values):
    with sqlite3.connect(database) as connection:
        changed = connection.execute(statement, values).rowcount
    connection.close()
    return changed


def test_kill_9_while_running_and_restart(launch):
    server = launch(*ONE_BY_ONE)
    accepted = server.post(SLOW)
    assert accepted.status_code == 202
    job_id = accepted.json()["id"]
    waiting = server.post(dict(DP_SGD, n=321)).json()["id"]
    before = server.running(job_id)
    server.kill()
    assert before["status"] == "running" and before["attempts"] == 1

    server.start()
    after = server.get(f"/v1/jobs/{job_id}?wait=300").json()
    assert after["status"] == "succeeded"
    assert after["attempts"] == 1
    for name in ("id", "created_at", "job", "label"):
        assert after[name] == before[name]
    assert server.get(f"/v1/jobs/{waiting}?wait=300").json()["status"] == "succeeded"
    solved = subprocess.run([BINARY, "solve"], input=json.dumps(SLOW), capture_output=True, text=True, check=True)
    expected = json.loads(solved.stdout)
    assert expected["job"] == after["job"]
    for name, value in expected["result"].items():
        if name not in ("cache", "elapsed_seconds", "compute_seconds"):
            assert after["result"][name] == value


@pytest.mark.sanitized
def test_the_third_crash_fails_the_job(launch):
    server = launch(*ONE_BY_ONE)
    job_id = server.post(ENDLESS).json()["id"]
    innocent = server.post(DP_SGD).json()["id"]
    for attempt in (1, 2, 3):
        assert server.running(job_id)["attempts"] == attempt
        assert server.fault() != 0
        server.start()
    document = server.until(job_id, "failed")
    assert document["attempts"] == 3
    assert document["error"]["type"] == "/problems/crashed"
    assert server.until(innocent, "succeeded")["attempts"] == 1
    assert server.metric("epsilond_jobs_crashed_total") == 1


def test_who_is_killed_from_outside_is_never_blamed(launch):
    """Whatever the signal and however often it is sent, it is not attributed to the running job or to the thread that
    receives it."""
    server = launch(*ONE_BY_ONE)
    job_id = server.post(ENDLESS).json()["id"]
    to_thread = signal.SIGABRT if INSTRUMENTED else signal.SIGSEGV  # which a sanitizer takes for a fault
    for number, thread in ((signal.SIGKILL, False), (to_thread, True), (signal.SIGKILL, False), (signal.SIGABRT, False),
                           (signal.SIGKILL, False)):
        server.running(job_id)
        if thread:
            signal_thread(server, number)
        else:
            server.process.send_signal(number)
        assert server.process.wait(PATIENCE) == -number
        server.close()
        server.start()
    assert server.running(job_id)["attempts"] == 1
    assert "event=suspect" not in server.log_text()
    assert server.metric("epsilond_jobs_crashed_total") == 0
    server.kill()


def test_a_third_lack_of_memory_fails_the_job_that_was_alone(launch):
    server = launch(*ONE_BY_ONE)
    job_id = server.post(ENDLESS).json()["id"]
    innocent = server.post(DP_SGD).json()["id"]
    for attempt in (1, 2, 3):
        assert server.running(job_id)["attempts"] == attempt
        if not server.kill_for_memory():
            pytest.skip("this kernel does not count what it kills")
        server.start()
    assert server.until(job_id, "failed")["error"]["type"] == "/problems/crashed"
    assert server.until(innocent, "succeeded")["attempts"] == 1


@pytest.mark.sanitized
def test_graceful_stop_is_quick_and_is_no_crash(launch):
    server = launch(*ONE_BY_ONE)
    job_id = server.post(ENDLESS).json()["id"]
    before = server.until(job_id, "running")
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(
        requests.get(f"{server.url}/v1/jobs/{job_id}?wait=100", timeout=PATIENCE)))
    waiter.start()
    until(lambda: server.metric("epsilond_http_requests_waiting") >= 1)
    assert server.stop() < 5
    waiter.join(20)
    assert answers[0].status_code == 200 and answers[0].json()["status"] == "running"
    server.start()
    after = server.until(job_id, "running")
    assert after["attempts"] == 1
    assert after["created_at"] == before["created_at"]


@pytest.mark.sanitized
def test_idempotency(launch):
    server = launch()
    key = {"Idempotency-Key": "9b1c-1"}
    first = server.post(dict(GAUSSIAN, label="a"), "/v1/jobs?wait=100", headers=key)
    assert first.status_code == 200 and "Idempotent-Replayed" not in first.headers
    replay = server.post(dict(GAUSSIAN, label="a"), headers=key)
    assert replay.status_code == 200
    assert replay.headers["Idempotent-Replayed"] == "true"
    assert replay.text == first.text
    assert replay.headers["Location"] == first.headers["Location"]
    check_problem(server.post(dict(GAUSSIAN, label="b"), headers=key), 409, "conflict")
    check_problem(server.post(DP_SGD, headers=key), 409, "conflict")
    # An error is not recorded under its key.
    other = {"Idempotency-Key": "9b1c-2"}
    check_problem(server.post(dict(GAUSSIAN, n=0), headers=other), 422, "invalid-job")
    assert server.post(GAUSSIAN, headers=other).status_code == 200

    server.kill()
    server.start()
    replay = server.post(dict(GAUSSIAN, label="a"), headers=key)
    assert replay.status_code == 200 and replay.headers["Idempotent-Replayed"] == "true"
    assert replay.text == first.text
    # After a DELETE, the replay finds nothing and starts nothing.
    assert server.request("DELETE", first.headers["Location"]).status_code == 204
    count = len(server.get("/v1/jobs").json()["items"])
    check_problem(server.post(dict(GAUSSIAN, label="a"), headers=key), 404, "not-found")
    assert len(server.get("/v1/jobs").json()["items"]) == count


@pytest.mark.sanitized
def test_idempotency_of_simultaneous_requests(launch):
    server = launch()
    answers = []

    def ask():
        answers.append(requests.post(server.url + "/v1/jobs", json=dict(DP_SGD, n=555), timeout=PATIENCE,
                                     headers={"Idempotency-Key": "together"}))

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} <= {200, 202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sum("Idempotent-Replayed" not in answer.headers for answer in answers) == 1


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "\u00e9"])
def test_bad_idempotency_key(server, key):
    check_problem(server.post(GAUSSIAN, headers={"Idempotency-Key": key}), 422, "invalid-job")


def test_keys_expire_after_a_day(launch):
    server = launch()
    key = {"Idempotency-Key": "old"}
    first = server.post(GAUSSIAN, "/v1/jobs?wait=100", headers=key)
    server.stop()
    assert edit(server.database, "UPDATE idempotency SET created_at = created_at - 86400001") == 1
    server.start()
    again = server.post(GAUSSIAN, headers=key)
    assert again.status_code == 200 and "Idempotent-Replayed" not in again.headers
    assert again.json()["id"] != first.json()["id"]


@pytest.mark.sanitized
def test_a_damaged_result_is_computed_again(launch):
    server = launch()
    first = server.solve(GAUSSIAN)
    server.stop()
    assert edit(server.database, "UPDATE results SET core = replace(core, 'epsilon', 'epsilom')") == 1
    server.start()
    problem = check_problem(server.get(f"/v1/jobs/{first['id']}"), 500, "internal")
    assert "checksum" in problem["detail"]
    again = server.solve(GAUSSIAN)
    assert again["result"]["cache"]["result"] == "miss"
    assert again["result"]["epsilon"] == first["result"]["epsilon"]
    assert server.metric("epsilond_checksum_failures_total") >= 1
    assert "event=checksum" in server.log_text()
    assert server.get(f"/v1/jobs/{first['id']}").json()["result"]["epsilon"] == first["result"]["epsilon"]


@pytest.mark.sanitized
def test_a_damaged_blob_is_computed_again(launch):
    server = launch()
    assert server.solve(DP_SGD)["result"]["cache"]["pld"] == "unused"  # built faster than looked up
    first = server.solve(USERS)["result"]
    assert first["cache"]["pld"] == "miss"
    assert server.metric("epsilond_cache_bytes") > 0
    server.stop()
    edit(server.database, "DELETE FROM results")
    server.start()
    second = server.solve(USERS)["result"]
    assert second["cache"] == {"result": "miss", "factorization": "unused", "pld": "hit"}
    server.stop()
    edit(server.database, "DELETE FROM results")
    assert edit(server.database, "UPDATE blobs SET data = zeroblob(length(data))") > 0
    server.start()
    third = server.solve(USERS)["result"]
    assert third["cache"]["pld"] == "miss"
    assert server.metric("epsilond_checksum_failures_total") > 0
    assert first["epsilon"] == second["epsilon"] == third["epsilon"]


@pytest.mark.sanitized
def test_the_cache_keeps_its_bound(launch):
    bound = 64 << 10
    server = launch("--cache-bytes", str(bound))
    for n in range(100, 140):
        server.solve(dict(USERS, n=n, noise_multiplier=20 + n / 100))
    assert server.metric("epsilond_cache_evictions_total") > 0
    assert 0 < server.metric("epsilond_cache_bytes") <= bound
    server.stop()
    with sqlite3.connect(server.database) as connection:
        assert connection.execute("SELECT sum(length(data)) FROM blobs").fetchone()[0] <= bound
    connection.close()


def test_a_result_of_another_accounting_version_is_not_served(launch):
    server = launch()
    server.solve(GAUSSIAN)
    server.stop()
    assert edit(server.database, "UPDATE results SET version = version + 1000") == 1
    server.start()
    assert server.solve(GAUSSIAN)["result"]["cache"]["result"] == "miss"


@pytest.mark.sanitized
def test_finished_jobs_expire(launch):
    server = launch("--keep", "1s")
    job_id = server.solve(GAUSSIAN)["id"]
    assert server.get(f"/v1/jobs/{job_id}").status_code == 200
    time.sleep(1.1)
    server.stop()
    server.start()
    until(lambda: server.get(f"/v1/jobs/{job_id}").status_code == 404)
    check_problem(server.get(f"/v1/jobs/{job_id}"), 404, "not-found")


@pytest.mark.sanitized
def test_stop_under_load(launch):
    server = launch()
    statuses, ended = [], threading.Event()

    def ask(number):
        session = requests.Session()
        for i in range(10000):
            try:
                answer = session.post(server.url + "/v1/jobs?wait=20", timeout=PATIENCE,
                                      json=dict(GAUSSIAN, n=100 + number * 40 + i % 40))
                statuses.append(answer.status_code)
            except requests.ConnectionError:
                break
        ended.set()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    until(lambda: len(statuses) >= 50)
    assert server.stop() < 5
    for thread in threads:
        thread.join()
    assert set(statuses) <= {200, 202, 503}
    # Everything that was answered is in the database, and no write is incomplete.
    server.start()
    with sqlite3.connect(server.database) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        kept = connection.execute("SELECT count(*) FROM jobs").fetchone()[0]
    connection.close()
    assert kept >= sum(status in (200, 202) for status in statuses)
