"""
A full disk: accepted jobs are neither lost nor stuck, and clients get correct information. The file size limit of the
process simulates the disk; lifting it simulates freed space.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import resource
import subprocess
import time

import pytest

from conftest import BINARY, DP_SGD, ENDLESS, GAUSSIAN, ONE_BY_ONE, PATIENCE, check_problem, until

pytestmark = pytest.mark.sanitized
# Runs for several seconds.
SLOW = {"n": 400000, "sampling": {"scheme": "poisson", "p": 0.01}, "noise_multiplier": 1.0, "delta": 1e-8,
        "accountant": {"method": "pld", "tolerance": 1e-6}}


def disk(server, full):
    most = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (4096 if full else most, most))


def until_ready(server):
    until(lambda: server.get("/readyz").status_code == 200)
    assert server.get("/readyz").json() == {"status": "ready"}


def test_ready_means_that_it_can_write(launch):
    server = launch()
    assert server.get("/readyz").status_code == 200
    disk(server, True)
    problem = check_problem(server.get("/readyz"), 503, "queue-full")
    assert "written" in problem["detail"]
    assert server.get("/healthz").status_code == 200
    problem = check_problem(server.post(GAUSSIAN), 503, "queue-full")
    assert "nothing was accepted" in problem["detail"]
    disk(server, False)
    until_ready(server)
    assert server.get("/v1/jobs").json()["items"] == []
    assert server.solve(GAUSSIAN)


def test_an_end_that_cannot_be_written_is_written_later(launch):
    server = launch("--workers", "1")
    finished = server.solve(GAUSSIAN)["id"]
    job_id = server.post(SLOW).json()["id"]
    server.until(job_id, "running")
    joined = server.post(dict(SLOW, label="joined")).json()["id"]
    disk(server, True)
    until(lambda: server.metric("epsilond_store_held") >= 1)
    # The job has ended, but it is not final before the end is written.
    started = time.monotonic()
    answer = server.get(f"/v1/jobs/{job_id}?wait=2")
    assert time.monotonic() - started > 1.9  # a waiting request does wait
    assert answer.json()["status"] == "running" and answer.json()["progress"]["stage"] == "store"
    check_problem(server.post(None, f"/v1/jobs/{job_id}/cancel"), 503, "queue-full")
    check_problem(server.request("DELETE", f"/v1/jobs/{job_id}"), 409, "conflict")
    check_problem(server.request("DELETE", f"/v1/jobs/{finished}"), 503, "queue-full")
    check_problem(server.get("/readyz"), 503, "queue-full")
    listed = {item["id"]: item["status"] for item in server.get("/v1/jobs").json()["items"]}
    assert listed == {finished: "succeeded", job_id: "running", joined: "running"}
    disk(server, False)
    for one in (job_id, joined):
        document = server.get(f"/v1/jobs/{one}?wait=60").json()
        assert document["status"] == "succeeded" and document["attempts"] == 1
    until_ready(server)
    assert server.metric("epsilond_store_held") == 0
    server.kill()
    server.start()
    assert server.get(f"/v1/jobs/{job_id}").json()["status"] == "succeeded"


@pytest.mark.parametrize("state", ["running", "queued"])
def test_a_cancel_that_cannot_be_written_says_so_and_is_written_later(launch, state):
    server = launch(*ONE_BY_ONE)
    running = server.post(ENDLESS).json()["id"]
    server.until(running, "running")
    queued = server.post(DP_SGD).json()["id"]
    job_id = running if state == "running" else queued
    disk(server, True)
    started = time.monotonic()
    check_problem(server.post(None, f"/v1/jobs/{job_id}/cancel"), 503, "queue-full")
    assert time.monotonic() - started < 20
    assert server.get(f"/v1/jobs/{job_id}").json()["status"] == state
    disk(server, False)
    assert server.until(job_id, "canceled")["finished_at"]
    server.kill()
    server.start()
    assert server.get(f"/v1/jobs/{job_id}").json()["status"] == "canceled"


@pytest.mark.parametrize("held", [False, True], ids=["now", "before"])
def test_a_cancel_of_a_sweep_that_cannot_be_written_says_so(launch, held):
    """Whether it is the cancel that cannot be written, or the end of a job before it."""
    server = launch(*ONE_BY_ONE)
    sweep = {"base": SLOW, "grid": {"/n": [SLOW["n"]]}} if held else {"base": ENDLESS, "grid": {"/epsilon": [1.0, 2.0]}}
    link = server.post(sweep, "/v1/sweeps").json()["links"]["self"]
    until(lambda: server.metric("epsilond_jobs_running") == 1)
    disk(server, True)
    if held:
        until(lambda: server.metric("epsilond_store_held") == 1)
    started = time.monotonic()
    problem = check_problem(server.post(None, link + "/cancel"), 503, "queue-full")
    assert time.monotonic() - started < 20 and "keeps trying" in problem["detail"]
    disk(server, False)
    until(lambda: server.get(link).json()["status"] == "canceled")
    server.kill()
    server.start()
    assert server.get(link).json()["status"] == "canceled"


def test_a_stop_on_a_full_disk_loses_nothing(launch):
    server = launch("--workers", "1")
    job_id = server.post(SLOW).json()["id"]
    server.until(job_id, "running")
    disk(server, True)
    until(lambda: server.metric("epsilond_store_held") >= 1)
    assert server.stop() < 5
    server.start()
    document = server.get(f"/v1/jobs/{job_id}?wait=100").json()
    assert document["status"] == "succeeded" and document["attempts"] == 1


def check_refused(started, database):
    assert started.returncode == 1 and started.stdout == "", started
    last = started.stderr.splitlines()[-1]
    assert last.startswith(f"epsilond: the disk is full: there is no room to write {database} ("), started.stderr
    assert "free some space" in last and "I/O error" not in last


@pytest.mark.parametrize("room, there", [(4096, False), (32768, False), (102400, False), (4096, True)])
def test_a_start_on_a_full_disk_says_so(launch, tmp_path, room, there):
    """At any stage: the index of the log, or a migration; with a new database and an existing one."""
    database = tmp_path / "new.db"
    if there:
        server = launch()
        server.solve(GAUSSIAN)
        server.stop()
        database = server.database
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    started = subprocess.run([BINARY, "serve", "--listen", "127.0.0.1:0", "--db", database], text=True,
                             capture_output=True, timeout=PATIENCE,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, most)))
    check_refused(started, database)


def test_a_start_on_a_real_full_disk_says_so(tmp_path):
    """A file system of 64 KiB in memory, if this machine allows creating one."""
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    mount = f"mount -t tmpfs -o size=64k none {tmp_path}"
    if subprocess.run([*alone, "sh", "-c", mount], capture_output=True).returncode != 0:
        pytest.skip("no mounts in a namespace of one's own here")
    for left in (0, 8, 40):
        fill = f"dd if=/dev/zero of={tmp_path}/fill bs=1k count={64 - left}"
        serve = f"exec {BINARY} serve --listen 127.0.0.1:0 --db {tmp_path}/new.db"
        started = subprocess.run([*alone, "sh", "-c", f"{mount} && {fill} 2>/dev/null && {serve}"], text=True,
                                 capture_output=True, timeout=PATIENCE)
        check_refused(started, tmp_path / "new.db")
