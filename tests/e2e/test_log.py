"""The log: one line per request and one line per end of a job, with the request, the client and the accountant."""
import os
import re
import shlex
import signal
import stat
import subprocess
import threading

import pytest
import requests

from conftest import BINARY, DP_SGD, ENDLESS, GAUSSIAN, ONE_BY_ONE, PATIENCE, until

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


def starts(server, job_id):
    """The requests, computations and attempts in the log lines for the starts of the job."""
    return re.findall(rf" event=job-start job={job_id} request=(\S+) hash=([0-9a-f]{{16}}) attempt=(\d+)$",
                      server.log_text(), re.M)


def test_a_job_is_followed_from_its_request_to_its_end(launch):
    server = launch(*ONE_BY_ONE)
    first = post(server, ENDLESS, "first")
    server.until(first, "running")
    waits, joined = post(server, DP_SGD, "waits"), post(server, dict(DP_SGD, label="joined"), "joined")
    assert not starts(server, waits)
    late = post(server, dict(ENDLESS, label="late"), "late")  # joins a computation in progress
    until(lambda: starts(server, late))
    assert starts(server, late)[0][:2] == ("late", starts(server, first)[0][1])
    server.post(None, f"/v1/jobs/{late}/cancel")
    server.post(None, f"/v1/jobs/{first}/cancel")
    for job_id in (waits, joined):
        server.until(job_id, "succeeded")
    cached = post(server, DP_SGD, "cached")
    [(name, hash_of_first, attempt)] = starts(server, first)
    assert (name, attempt) == ("first", "1")
    [(name, hash_of_waits, _)], [(other, hash_of_joined, _)] = starts(server, waits), starts(server, joined)
    assert (name, other) == ("waits", "joined") and hash_of_waits == hash_of_joined != hash_of_first
    assert not starts(server, cached)  # nothing was computed
    until(lambda: re.search(r" event=request request=cached .* job=" + cached, server.log_text()))
    for job_id, name in ((waits, "waits"), (joined, "joined")):
        words = re.findall(rf" event=(\S+) (?=.*\bjob={job_id}\b)(?=.*\brequest={name}\b)", server.log_text())
        assert words == ["request", "job-start", "job-end"]
    again = post(server, ENDLESS, "again")
    server.running(again)
    server.fault()
    server.start()
    server.running(again)
    assert [(name, attempt) for name, _, attempt in starts(server, again)] == [("again", "1"), ("again", "2")]
    assert re.search(rf" event=suspect job={again} .* request=again$", server.log_text(), re.M)


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
    until(lambda: server.stored("SELECT 1 FROM jobs WHERE parent = ?", later))
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


def count(paths):
    return sum(path.read_text().count(" event=request ") for path in paths)


def test_a_renamed_file_is_left_without_losing_a_line(launch, tmp_path):
    file = tmp_path / "service.log"
    file.write_text("of an earlier process\n")
    server = launch("--log-file", str(file))
    over, asked = threading.Event(), []

    def ask():
        with requests.Session() as session:
            while not over.is_set():
                asked.append(session.get(server.url + "/healthz", timeout=PATIENCE).status_code)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    old = [tmp_path / f"service.log.{i}" for i in range(5)]
    for name in old:
        before = len(asked)
        until(lambda: len(asked) > before + 20)
        file.rename(name)
        server.process.send_signal(signal.SIGHUP)
        until(file.exists)
    over.set()
    for thread in threads:
        thread.join()
    server.stop()
    assert count([*old, file]) == len(asked) and set(asked) == {200}
    assert all(count([name]) > 0 for name in old)
    assert old[0].read_text().startswith("of an earlier process\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert server.log_text() == ""  # standard error


def test_a_file_that_cannot_be_opened_again_leaves_the_former_one(launch, tmp_path):
    file = tmp_path / "service.log"
    server = launch("--log-file", str(file))
    for make in (os.mkdir, os.mkfifo):
        file.rename(tmp_path / "old")
        make(file)
        server.process.send_signal(signal.SIGHUP)
        until(lambda: "event=log detail=" in (tmp_path / "old").read_text())
        assert server.get("/healthz").status_code == 200
        until(lambda: count([tmp_path / "old"]) >= 1)
        (os.rmdir if make is os.mkdir else os.remove)(file)
        (tmp_path / "old").write_text("")  # it is opened to append
        (tmp_path / "old").rename(file)


def test_what_is_no_file_is_refused_at_the_start(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    os.mkfifo(tmp_path / "read")
    reader = os.open(tmp_path / "read", os.O_RDONLY | os.O_NONBLOCK)
    for path in (tmp_path, tmp_path / "fifo", tmp_path / "read", "/dev/null", tmp_path / "none" / "log"):
        command = [BINARY, "serve", "--listen", "127.0.0.1:0", "--db", tmp_path / "x.db", "--log-file", path]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert ended.returncode == 1 and f"cannot write the log to {path}" in ended.stderr
    os.close(reader)
    assert not (tmp_path / "x.db").exists()


def test_lines_for_the_journal_have_priorities(tmp_path):
    def log(stream):
        with open(tmp_path / "err", "w") as stderr:
            device, inode = os.fstat(stderr.fileno()).st_dev, os.fstat(stderr.fileno()).st_ino
            process = subprocess.Popen(
                [BINARY, "serve", "--listen", "127.0.0.1:0", "--db", tmp_path / "x.db"], stdout=subprocess.PIPE,
                stderr=stderr, env=dict(os.environ, JOURNAL_STREAM=stream.format(device, inode)))
            process.stdout.readline()
            process.send_signal(signal.SIGHUP)
            until(lambda: "event=hangup" in (tmp_path / "err").read_text())
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
            process.stdout.close()
        return (tmp_path / "err").read_text().splitlines()

    lines = log("{0}:{1}")
    assert all(line.startswith("<4>time=" if "level=warn" in line else "<6>time=") for line in lines)
    assert any("level=warn" in line for line in lines) and any("level=info" in line for line in lines)
    for other in ("{1}:{0}", "", "journal"):
        assert all(line.startswith("time=") for line in log(other))
