"""The log: one line per request and one line per end of a job, with the request, the client and the accountant."""
import re
import shlex

import pytest

from conftest import DP_SGD, ENDLESS, GAUSSIAN, ONE_BY_ONE

pytestmark = pytest.mark.sanitized
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def ends(server, job_id):
    """The content of the log lines for the end of the job."""
    lines = [shlex.split(line) for line in server.log_text().splitlines() if " event=job-end " in line]
    return [found for found in (dict(word.split("=", 1) for word in line) for line in lines) if found["job"] == job_id]


def end(server, job_id):
    (found,) = ends(server, job_id)
    assert float(found["seconds"]) >= 0 and float(found["waited"]) >= 0
    assert set(found) - {"detail"} == {"time", "level", "event", "job", "request", "client", "status", "accountant",
                                       "seconds", "waited", "cached", "attempts"}
    return found


def post(server, job, name, path="/v1/jobs"):
    answer = server.post(job, path, headers={"X-Request-Id": name})
    assert answer.headers["X-Request-Id"] == name
    return answer.json()["id"]


def test_requests_have_names(launch):
    server = launch()
    given = "req-1_a.b:c/d+e@f"
    assert server.get("/healthz", headers={"X-Request-Id": given}).headers["X-Request-Id"] == given
    assert server.get("/nowhere", headers={"X-Request-Id": given}).headers["X-Request-Id"] == given
    assert server.get("/v1/jobs", headers={"X-Request-Id": "y" * 64}).headers["X-Request-Id"] == "y" * 64
    made = []
    for odd in (None, "", "two words", "a=b", 'a"b', "y" * 65):
        made.append(server.get("/healthz", headers={"X-Request-Id": odd}).headers["X-Request-Id"])
        assert re.fullmatch(UUID, made[-1])
    assert len(set(made)) == len(made)
    server.stop()
    lines = [line for line in server.log_text().splitlines() if " event=request " in line]
    names = [re.search(r" request=(\S+) client=127\.0\.0\.1 method=GET ", line)[1] for line in lines]
    assert names == [given, given, "y" * 64, *made]


def test_every_way_to_end(launch):
    server = launch("--workers", "1", "--max-seconds", "3s")
    quick = dict(DP_SGD, n=10, accountant={"method": "pld", "tolerance": 0.1})
    computed = post(server, quick, "computed", "/v1/jobs?wait=100")
    found = end(server, computed)
    assert (found["status"], found["request"], found["client"]) == ("succeeded", "computed", "127.0.0.1")
    assert (found["accountant"], found["cached"], found["attempts"]) == ("pld", "false", "1")
    document = server.get(f"/v1/jobs/{computed}").json()
    assert document["finished_at"] >= document["started_at"]

    cached = post(server, dict(quick, label='a"b\n status=failed'), "cached")
    found = end(server, cached)
    assert (found["status"], found["request"], found["accountant"]) == ("succeeded", "cached", "pld")
    assert (found["cached"], found["seconds"]) == ("true", "0.000")

    chosen = post(server, GAUSSIAN, "chosen", "/v1/jobs?wait=100")
    assert end(server, chosen)["accountant"] == server.get(f"/v1/jobs/{chosen}").json()["result"]["accountant"]

    failed = post(server, ENDLESS, "failed")
    joined = post(server, dict(ENDLESS, label="joined"), "joined")
    canceled = post(server, dict(ENDLESS, label="canceled"), "canceled")
    assert server.post(None, f"/v1/jobs/{canceled}/cancel").status_code == 202
    found = end(server, canceled)
    assert (found["status"], found["request"], found["accountant"]) == ("canceled", "canceled", "pld")
    for job_id, name in ((failed, "failed"), (joined, "joined")):
        server.until(job_id, "failed")
        found = end(server, job_id)
        assert (found["status"], found["request"], found["accountant"]) == ("failed", name, "pld")
        assert 2.9 < float(found["seconds"]) and "limit" in found["detail"]
    server.stop()
    for job_id in (computed, cached, chosen, failed, joined, canceled):
        assert len(ends(server, job_id)) == 1


def test_points_and_candidates_are_ended_in_the_name_of_who_posted_them(launch):
    server = launch(*ONE_BY_ONE)
    points = {"base": dict(DP_SGD, noise_multiplier=None), "grid": {"/noise_multiplier": [1, 2, 1]}}
    sweep = post(server, points, "swept", "/v1/sweeps")
    server.get(f"/v1/sweeps/{sweep}?wait=100")
    candidates = {"n": 8, "batch_size": 10, "dataset_size": 40, "epsilon": 4, "delta": 1e-5, "families": ["identity"]}
    plan = post(server, candidates, "planned", "/v1/plans")
    server.get(f"/v1/plans/{plan}?wait=100")
    # Some of its jobs are left for the next process.
    endless = {"base": dict(ENDLESS, epsilon=None), "grid": {"/epsilon": [1, 2, 3, 4, 5, 6]}}
    later = post(server, endless, "later", "/v1/sweeps")
    server.stop()
    server.start()
    assert server.post(None, f"/v1/sweeps/{later}/cancel").status_code == 202
    for parent, name, client in ((sweep, "swept", "127.0.0.1"), (plan, "planned", "127.0.0.1"),
                                 (later, "later", "unknown")):
        jobs = [row[0] for row in server.stored("SELECT id FROM jobs WHERE parent = ? ORDER BY id", parent)]
        assert jobs
        for job in jobs:
            found = end(server, job)
            assert (found["request"], found["client"]) == (name, client)
        line = [line for line in server.log_text().splitlines() if f" event=group-end group={parent} " in line]
        assert len(line) == 1 and f" request={name} " in line[0]
    # Jobs that a group creates after a restart carry its request id, too.
    more = {"base": dict(DP_SGD, noise_multiplier=None, n=20000),
            "grid": {"/noise_multiplier": [1 + i / 8 for i in range(30)]}}
    more = post(server, more, "more", "/v1/sweeps")
    server.kill()
    server.start()
    server.get(f"/v1/sweeps/{more}?wait=100")
    assert server.stored("SELECT DISTINCT request FROM jobs WHERE parent = ?", more) == [("more",)]
    assert server.stored("SELECT count(*) FROM jobs WHERE parent = ?", more) == [(30,)]


def test_a_job_that_waits_for_the_next_process_keeps_its_name(launch):
    server = launch(*ONE_BY_ONE)
    running = post(server, ENDLESS, "endless")
    server.until(running, "running")
    waiting = post(server, DP_SGD, "waiting")
    server.stop()
    assert not ends(server, running) and not ends(server, waiting)
    server.start()
    server.until(waiting, "succeeded")
    found = end(server, waiting)
    assert (found["request"], found["client"]) == ("waiting", "unknown")  # addresses are not stored
    for attempt in (1, 2, 3):
        assert server.running(running)["attempts"] == attempt
        server.fault()
        server.start()
    server.until(running, "failed")
    found = end(server, running)
    assert (found["status"], found["request"], found["attempts"]) == ("failed", "endless", "3")
    assert "three times" in found["detail"]
