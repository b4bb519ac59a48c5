"""
Processes that compute (--isolate on): the same answers as without, how they are confined, and that a fault in one of
them, of any kind, fails or repeats its job alone.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import ctypes
import errno
import os
import pathlib
import random
import resource
import signal
import subprocess
import time

import pytest

from conftest import BINARY, DP_SGD, ENDLESS, GAUSSIAN, ONE_BY_ONE, INSTRUMENTED, X86, check_problem, draw_key, until

ON = ("--isolate", "on")
DEATHS = 'epsilond_cell_deaths_total{reason="%s"}'
REASONS = ("crashed", "killed", "forbidden", "overdue", "malformed")
POLL = "intake_take"  # called while a cell computes, every few milliseconds
COMPOSE = "eps__pld_compose"  # called by a job of the accountant pld, but not by GAUSSIAN

BANDED = {"n": 64, "matrix": {"family": "banded", "bands": 4, "toeplitz": True}, "sampling": {"scheme": "none"},
          "noise_multiplier": 2.0, "delta": 1e-6}
# One of each kind of answer, and of each way to be refused while it is computed.
JOBS = [
    GAUSSIAN,
    dict(DP_SGD, n=10),
    dict(DP_SGD, n=5, accountant="renyi"),
    BANDED,
    dict(BANDED, delta=1e-5),  # with the factorisation of the one before
    dict(BANDED, matrix={"family": "blt", "buffers": 2}),
    dict(BANDED, matrix={"family": "optimal"}),
    {"n": 20, "sampling": DP_SGD["sampling"], "noise_multiplier": 1.0, "curve": True},
    {"n": 100, "sampling": {"scheme": "none"}, "epsilon": 1.0, "delta": 1e-6},
    {"n": "max", "sampling": DP_SGD["sampling"], "noise_multiplier": 1.0, "epsilon": 0.1, "delta": 1e-6,
     "accountant": "renyi"},
    {"phases": [{"n": 50, "sampling": {"scheme": "none"}, "count": "max"}, {"n": 10, "sampling": {"scheme": "none"}}],
     "noise_multiplier": 20.0, "epsilon": 2.0, "delta": 1e-6},
    {"n": 20, "sampling": DP_SGD["sampling"], "noise_multiplier": 1.0, "delta": 1e-4,
     "accountant": {"method": "monte_carlo", "seed": 7}},
    {"n": 100, "sampling": {"scheme": "none"}, "epsilon": 1e-9, "delta": 1e-299},
]


def bare(value):
    """A document without what differs between two computations of the same."""
    if isinstance(value, dict):
        return {name: bare(member) for name, member in value.items()
                if name not in ("id", "links", "instance", "created_at", "started_at", "finished_at",
                                "elapsed_seconds", "compute_seconds", "progress")}
    return [bare(member) for member in value] if isinstance(value, list) else value


def figure(server, job_id, name):
    answer = server.get(f"/v1/jobs/{job_id}/{name}")
    assert answer.status_code in (200, 409, 422), answer.text
    return answer.status_code, bare(answer.json())


def ended(server, path, group):
    """The document of a sweep or plan that has ended."""
    answer = server.post(group, path)
    assert answer.status_code in (200, 202), answer.text
    self = f"{path}/{answer.json()['id']}"
    until(lambda: server.get(self).json()["status"] not in ("queued", "running"))
    return bare(server.get(self).json())


def final(server, job):
    return server.post(job, "/v1/jobs?wait=60").json()


def deaths(server):
    return {reason: server.metric(DEATHS % reason) for reason in REASONS}


def ticks(pid):
    """The processor time of a process, in hundredths of a second."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def nanoseconds(pid):
    """The processor time of a process."""
    return sum(int(path.read_text().split()[0]) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"))


def used_by(server, kind):
    return sum(nanoseconds(cell) for cell in server.cells(kind))


def busy(server):
    """The cell that has used the most processor time."""
    return max(server.cells(), key=ticks)


def computing(server, job):
    """Posts a job that takes long, and waits until a cell computes it; returns the id and the cell."""
    job_id = server.post(job).json()["id"]
    server.running(job_id)
    until(lambda: ticks(busy(server)) >= 20)
    return job_id, busy(server)


def well(server):
    """The service goes on, with the same answers, and another cell is ready."""
    assert server.solve(dict(GAUSSIAN, noise_multiplier=random.uniform(1, 3)))["attempts"] == 1
    assert server.get("/readyz").status_code == 200
    assert server.metric("epsilond_stuck_computations") == 0


@pytest.mark.sanitized
def test_the_same_answers(launch):
    here, there = launch("--isolate", "off"), launch(*ON)
    assert not here.cells() and there.cells()
    compared = 0
    for job in JOBS:
        answers = [final(server, job) for server in (here, there)]
        assert bare(answers[0]) == bare(answers[1])
        if answers[0]["status"] == "succeeded":
            compared += 1
            if job.get("accountant"):
                continue  # these take long
            for name in ("curve", "spend"):
                assert figure(here, answers[0]["id"], name) == figure(there, answers[1]["id"], name)
    assert compared == len(JOBS) - 1
    sweep = {"base": GAUSSIAN, "grid": {"/noise_multiplier": [1, 2]}}
    plan = {"n": 24, "batch_size": 10, "dataset_size": 60, "epsilon": 4.0, "delta": 1e-5,
            "families": ["identity", "banded"], "schemes": ["none"]}
    for path, group in (("/v1/sweeps", sweep), ("/v1/plans", plan)):
        answers = [ended(server, path, group) for server in (here, there)]
        assert answers[0] == answers[1]
    assert not any(deaths(there).values())


def test_the_option():
    done = subprocess.run([BINARY, "serve", "--isolate", "maybe"], capture_output=True, text=True)
    assert done.returncode == 2 and "--isolate must be off, on or strict, not \"maybe\"" in done.stderr
    for arguments in (["1", "1"], ["1", "1", "prompt"], ["1", "0", "usual"], ["1", "1", "other"]):
        done = subprocess.run([BINARY, "cell", *arguments], capture_output=True, text=True)
        assert done.returncode == 2 and "serve starts" in done.stderr


def test_a_cell_is_confined(launch):
    server = launch("--isolate", "on" if INSTRUMENTED else "strict", env=dict(os.environ, SECRET="x"))
    server.solve(DP_SGD)
    for pid in server.cells():
        process = pathlib.Path(f"/proc/{pid}")
        # A cell that has just been started may not have come to confine itself, which it does before it takes a job.
        until(lambda: sorted(os.listdir(process / "fd")) == ["0", "1", "2", "3"])
        assert os.readlink(process / "fd" / "3").startswith("socket:")
        assert b"SECRET" not in (process / "environ").read_bytes()
        until(lambda: (process / "oom_score_adj").read_text() == "500\n")
        until(lambda: resource.prlimit(pid, resource.RLIMIT_CORE) == (0, 0))
        if not INSTRUMENTED:
            until(lambda: "Seccomp:\t2\n" in (process / "status").read_text())
            assert resource.prlimit(pid, resource.RLIMIT_AS)[1] < 2**40
            assert "NoNewPrivs:\t1\n" in (process / "status").read_text()
    if INSTRUMENTED:
        assert "event=cells " in server.log_text()  # says that it is not, and why


def without_seccomp():
    """In a process to be: neither it nor its children can have a filter of system calls, as in some sandboxes."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    refused = 0x00050000 | errno.EPERM  # SCMP_ACT_ERRNO
    is_filter = (ctypes.c_uint64 * 4)(4 << 32, 22, 0, 0)  # struct scmp_arg_cmp: argument 0 SCMP_CMP_EQ PR_SET_SECCOMP
    filter_ = ctypes.c_void_p(library.seccomp_init(0x7fff0000))  # SCMP_ACT_ALLOW
    for call, conditions in ((b"seccomp", 0), (b"prctl", 1)):
        number = library.seccomp_syscall_resolve_name(call)
        assert library.seccomp_rule_add_array(filter_, refused, number, conditions, is_filter) == 0
    assert library.seccomp_load(filter_) == 0


@pytest.mark.skipif(INSTRUMENTED, reason="not confined")
def test_where_system_calls_cannot_be_confined(launch, tmp_path):
    server = launch(*ON, preexec_fn=without_seccomp)
    well(server)
    assert "Seccomp_filters:\t1\n" in pathlib.Path(f"/proc/{busy(server)}/status").read_text()  # that of this test
    assert 'level=warn event=cells ' in server.log_text() and "seccomp(2)" in server.log_text()
    database = ("--db", str(tmp_path / "none.db"))
    for mode, verdict in (("on", "warning"), ("strict", "FAILED")):
        done = subprocess.run([BINARY, "doctor", *database, "--isolate", mode], preexec_fn=without_seccomp,
                              capture_output=True, text=True)
        [line] = [line for line in done.stdout.splitlines() if " isolation " in line]
        assert line.startswith(verdict) and "seccomp(2)" in line
    done = subprocess.run([BINARY, "serve", *database, "--listen", "127.0.0.1:0", "--isolate", "strict"],
                          preexec_fn=without_seccomp, capture_output=True, text=True)
    assert done.returncode == 1 and "--isolate strict: processes that compute cannot be confined" in done.stderr


@pytest.mark.sanitized
def test_a_crash_fails_its_job(launch):
    """Two jobs at a time, each in its own cell: one has a fault, the other does not notice."""
    server = launch(*ON, "--workers", "2")
    job_id, cell = computing(server, ENDLESS)
    other = server.post(dict(DP_SGD, n=3000, accountant={"method": "pld", "tolerance": 1e-7})).json()["id"]
    server.running(other)
    server.overwrite(POLL, b"\x0f\x0b" if X86 else bytes(4), cell)
    document = server.until(job_id, "failed")
    assert document["error"]["type"] == "/problems/crashed" and document["attempts"] == 1
    assert "signal 4" in document["error"]["detail"] or INSTRUMENTED
    assert server.until(other, "succeeded")["attempts"] == 1
    assert deaths(server) == dict.fromkeys(REASONS, 0) | {"crashed": 1}
    assert server.metric("epsilond_jobs_crashed_total") == 1
    assert f"reason=crashed job={job_id} " in server.log_text()
    well(server)


def test_killed_from_outside(launch):
    """Once: another cell computes the job. Twice: the job fails, and says so."""
    server = launch(*ON, *ONE_BY_ONE)
    job_id, cell = computing(server, ENDLESS)
    os.kill(cell, signal.SIGKILL)
    until(lambda: "event=cell-died" in server.log_text())
    assert server.get(f"/v1/jobs/{job_id}").json()["status"] == "running"
    until(lambda: cell not in server.cells() and ticks(busy(server)) >= 20)
    os.kill(busy(server), signal.SIGKILL)
    document = server.until(job_id, "failed")
    assert document["error"]["type"] == "/problems/crashed" and "killed twice" in document["error"]["detail"]
    assert deaths(server)["killed"] == 2
    for cell in server.cells():  # and while they have nothing to do
        os.kill(cell, signal.SIGKILL)
    well(server)


def test_killed_at_random(launch):
    """Every job ends, with the answer that it has without isolation, and none but those whose cell was killed is
    computed again."""
    chance = random.Random(1)
    server, here = launch(*ON, "--workers", "2"), launch("--isolate", "off")
    jobs = [dict(DP_SGD, n=400 + i, accountant={"method": "pld", "tolerance": 1e-5}) for i in range(12)]
    ids = [server.post(job).json()["id"] for job in jobs]
    killed = []

    def died():
        return [line for line in server.log_text().splitlines() if "event=cell-died " in line]

    while any(server.get(f"/v1/jobs/{job_id}").json()["status"] in ("queued", "running") for job_id in ids):
        os.kill(chance.choice(sorted(server.cells())), signal.SIGKILL)
        deadline = time.monotonic() + (3 if INSTRUMENTED else 1)
        while len(died()) == len(killed) and time.monotonic() < deadline:
            time.sleep(0.01)  # unless it had nothing to do
        for line in died()[len(killed):]:  # not twice the same job
            killed.append(line.split(" job=")[1].split()[0])
            server.until(killed[-1], "succeeded", "failed")
    for job, job_id in zip(jobs, ids):
        answers = [bare(server.get(f"/v1/jobs/{job_id}").json()), bare(here.solve(job))]
        if job_id in killed:  # it may have found what it had left in the cache before
            for answer in answers:
                del answer["result"]["cache"]
        assert answers[0] == answers[1]
    log = server.log_text()
    assert killed and len(set(killed)) == len(killed) == log.count("starts again")
    assert log.count("event=job-start ") == len(jobs)
    well(server)


@pytest.mark.skipif(not X86, reason="instructions of x86-64")
@pytest.mark.skipif(INSTRUMENTED, reason="not confined")
def test_a_forbidden_system_call(launch):
    server = launch(*ON, *ONE_BY_ONE)
    job_id, cell = computing(server, ENDLESS)
    server.overwrite(POLL, b"\xb8\x29\x00\x00\x00\x0f\x05", cell)  # socket(2)
    assert "system call" in server.until(job_id, "failed")["error"]["detail"]
    assert deaths(server)["forbidden"] == 1
    well(server)


@pytest.mark.skipif(not X86, reason="instructions of x86-64")
def test_messages_that_make_no_sense(launch):
    server = launch(*ON, *ONE_BY_ONE)
    server.overwrite("packet_end", b"\xc3", next(iter(server.cells())))  # ret: the frames have no length
    document = final(server, dict(GAUSSIAN, noise_multiplier=2.5))
    assert document["error"]["type"] == "/problems/crashed" and "make no sense" in document["error"]["detail"]
    assert deaths(server)["malformed"] == 1
    well(server)


@pytest.mark.sanitized
def test_one_that_does_not_stop(launch):
    """It is ended, and the worker has no task any more; so the watchdog has nothing to do."""
    server = launch(*ON, *ONE_BY_ONE, "--max-seconds", "500ms", "--watchdog-seconds", "500ms")
    for cell in server.cells():
        server.overwrite(COMPOSE, b"\xeb\xfe" if X86 else b"\x00\x00\x00\x14", cell)
    document = final(server, dict(DP_SGD, accountant="pld"))
    assert document["error"]["type"] == "/problems/timeout" and "did not stop" in document["error"]["detail"]
    assert deaths(server)["overdue"] == 1
    well(server)


@pytest.mark.skipif(INSTRUMENTED, reason="not limited")
def test_too_little_memory(launch):
    """Allocations fail in the cell alone. The job fails, and says so."""
    server = launch(*ON, *ONE_BY_ONE)
    job_id, cell = computing(server, ENDLESS)
    resource.prlimit(cell, resource.RLIMIT_AS, (1 << 20, resource.prlimit(cell, resource.RLIMIT_AS)[1]))
    document = server.until(job_id, "failed", "succeeded")
    assert document["error"]["type"] in ("/problems/internal", "/problems/crashed"), document
    assert "nothing else was affected" in document["error"]["detail"]
    well(server)


def keyed(launch):
    """One worker, and a key, which the server's own methods use."""
    key, line = draw_key("--scope", "admin")
    server = launch(*ON, "--workers", "1", "--key-lines", line)
    server.session.headers["Authorization"] = f"Bearer {key}"
    return server


def test_prompt_and_patient_cells(launch):
    """A short job that is alone is computed at the usual priority; those that queue up have what is left."""
    settling = 2e6  # what a cell does when its answer has arrived, in nanoseconds; a job takes longer
    server = keyed(launch)

    def used(kind):
        return used_by(server, kind)

    until(lambda: server.cells() == server.cells("patient"))  # one may be about to start
    assert server.cells("patient")
    server.solve(dict(DP_SGD, noise_multiplier=2))  # from now on, one is ready for such jobs
    until(lambda: server.metric("epsilond_cells") == 3)
    before = used("patient")
    for i in range(5):
        server.solve(dict(DP_SGD, noise_multiplier=3 + i / 16))
    assert used("patient") < before + settling
    until(lambda: server.metric("epsilond_cells") == 4)  # one is in reserve
    before = used("prompt")
    ended(server, "/v1/sweeps", {"base": DP_SGD, "grid": {"/noise_multiplier": [4 + i / 16 for i in range(20)]}})
    assert used("prompt") < before + settling
    assert {os.sched_getscheduler(cell) for cell in server.cells("prompt")} == {os.SCHED_OTHER}
    assert {os.sched_getscheduler(cell) for cell in server.cells("patient")} == {os.SCHED_IDLE}


def test_cells_are_equal_without_keys(launch):
    """Nobody's jobs wait for those of another, so none give way to other programs either; nor where no job is short."""
    server = launch(*ON)
    server.solve(DP_SGD)
    until(lambda: server.cells() == server.cells("usual"))  # one may be about to start
    assert server.cells("usual")
    _, line = draw_key()
    server = launch(*ON, "--express", "0", "--key-lines", line)
    until(lambda: server.cells() == server.cells("usual"))
    assert server.cells("usual")


def test_the_allowance_of_prompt_cells(launch):
    """A second that was saved, two thirds of the time since then, and the job under way."""
    server = keyed(launch)
    job = dict(DP_SGD, n=50000, accountant={"method": "pld", "tolerance": 1e-6})
    server.solve(dict(job, noise_multiplier=2))
    until(lambda: server.metric("epsilond_cells") == 3)
    start, before, last = time.monotonic(), used_by(server, "prompt"), 0
    for i in range(130):
        last = max(last, server.solve(dict(job, noise_multiplier=3 + i / 128))["result"]["compute_seconds"])
    prompt = (used_by(server, "prompt") - before) * 1e-9
    assert last < prompt < 1.1 + 2 / 3 * (time.monotonic() - start) + last


@pytest.mark.sanitized
def test_no_cell_can_be_started(launch):
    """The service is not ready while none is left for a further job, and is again when one can be started."""
    server = launch(*ON, *ONE_BY_ONE)
    job_id, busy = computing(server, ENDLESS)
    assert server.get("/readyz").status_code == 200
    pid = server.process.pid
    until(lambda: len(server.cells()) == 2)
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1]))
    [idle] = server.cells() - {busy}
    os.kill(idle, signal.SIGKILL)
    until(lambda: "State:\tZ" in pathlib.Path(f"/proc/{idle}/status").read_text())
    os.kill(busy, signal.SIGKILL)
    until(lambda: server.get("/readyz").status_code == 503)
    assert "Too many open files" in check_problem(server.get("/readyz"), 503, "queue-full")["detail"]
    assert 3 <= server.metric("epsilond_cell_start_failures_total") < 6  # with rests in between
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    until(lambda: server.get("/readyz").status_code == 200)
    server.until(job_id, "running")


def test_canceled_and_stopped(launch):
    server = launch(*ON, *ONE_BY_ONE)
    job_id, cell = computing(server, ENDLESS)
    assert server.request("POST", f"/v1/jobs/{job_id}/cancel").status_code == 202
    server.until(job_id, "canceled")
    well(server)
    job_id, cell = computing(server, dict(ENDLESS, n=4001))
    cells = server.cells()
    assert server.stop() < 10
    assert not any(os.path.exists(f"/proc/{cell}") for cell in cells)
    server.start(*ON, *ONE_BY_ONE)
    server.running(job_id)
    cells = server.cells()
    server.kill()
    until(lambda: not any(os.path.exists(f"/proc/{cell}") for cell in cells))
