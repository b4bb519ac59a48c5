"""
Tests of the real binary. Each server runs on a free port with its own database. A server that does not exit with status
0 on SIGTERM fails its test, so that sanitizer reports at exit are not lost.

From the environment: EPSILOND (the binary; default build/epsilond).

SPDX-License-Identifier: GPL-3.0-or-later
"""
import contextlib
import ctypes
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import time

import pytest
import requests

# The calling process may ignore hangups (nohup); the servers must not inherit that.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("EPSILOND", str(ROOT / "build" / "epsilond"))
if not os.path.isabs(BINARY):
    BINARY = str(ROOT / BINARY)

# The build has the address or the thread sanitizer, or counts what is covered: it is slow, and its cells not confined.
INSTRUMENTED = any(b"__%b_init" % name in pathlib.Path(BINARY).read_bytes() for name in (b"asan", b"tsan", b"gcov"))
X86 = os.uname().machine == "x86_64"

# Seconds to wait before a test fails; generous, because sanitizers and busy machines are slow.
PATIENCE = 600 if INSTRUMENTED else 120

DP_SGD = {"n": 200, "sampling": {"scheme": "poisson", "p": 0.01}, "noise_multiplier": 1.0, "delta": 1e-6}
GAUSSIAN = {"n": 100, "sampling": {"scheme": "none"}, "noise_multiplier": 2.0, "delta": 1e-6}
# Takes half a minute: a search for the noise multiplier at a tight tolerance, with 501 amplitudes in every step.
ENDLESS = {"n": 4000, "sampling": {"scheme": "poisson", "p": 0.005, "examples_per_user": 500}, "epsilon": 1.0,
           "delta": 1e-8, "accountant": {"method": "pld", "tolerance": 5e-9}}
# One job at a time, short or not: the second one waits.
ONE_BY_ONE = ("--workers", "1", "--express", "0")


def until(condition, patience=PATIENCE):
    """Waits until the condition holds; fails the test if it does not."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"this did not come within {patience} s"
        time.sleep(0.01)


def preload(library):
    """The value of LD_PRELOAD for the binary: the library of a sanitizer must come before all others."""
    linked = subprocess.run(["ldd", BINARY], capture_output=True, text=True, check=True).stdout
    return ":".join([*re.findall(r"=> (\S*/lib[at]san\.so\S*)", linked), str(library)])


class Server:
    def __init__(self, folder, *options, **process):
        self.folder = folder
        self.database = str(folder / "test.db")
        self.options = options
        self.process_options = process
        self.process = None
        self.start()

    def start(self, *options):
        self.log = open(self.folder / "log", "ab")
        self.process = subprocess.Popen(
            [BINARY, "serve", "--listen", "127.0.0.1:0", "--db", self.database, *self.options, *options],
            stdout=subprocess.PIPE, stderr=self.log, text=True, **self.process_options)
        line = self.process.stdout.readline()
        assert line.startswith(("listening on http://", "listening on https://")), (line, self.log_text())
        self.url = line.removeprefix("listening on ").strip()
        self.session = requests.Session()
        return self

    def log_text(self):
        return (self.folder / "log").read_text(errors="replace")

    def last_words(self):
        """For the analysis of failures: the threads, and the end of the log without requests for the metrics."""
        lines = [line for line in self.log_text().splitlines() if "path=/metrics" not in line]
        return "\n".join([*self.threads(), *lines[-40:]])

    def stop(self, expect=0):
        """Sends SIGTERM; returns the seconds until the end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        started = time.monotonic()
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            last = self.last_words()
            self.kill()
            raise AssertionError(f"still there {PATIENCE} s after SIGTERM\n{last}")
        self.close()
        assert status == expect, self.log_text()[-4000:]
        return time.monotonic() - started

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)
        self.close()

    def fault(self, function="work_unwanted"):
        """Causes a real fault in the next caller of the function, by replacing its first instruction with an invalid
        one. Computations call the default function to find out whether to continue. Waits for the end; returns the
        exit status."""
        self.overwrite(function, b"\x0f\x0b" if X86 else bytes(4))
        status = self.process.wait(PATIENCE)
        self.close()
        return status

    def loop(self, function):
        """Makes the next caller of the function loop forever at its first instruction, which is replaced by a jump to
        itself, until the returned bytes are written back."""
        return self.overwrite(function, b"\xeb\xfe" if X86 else b"\x00\x00\x00\x14")

    def cells(self, kind=""):
        """The processes that compute for the server; kind: "usual", "prompt" or "patient" ones."""
        pid = self.process.pid
        cells = {int(child) for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children")
                 for child in task.read_text().split()}
        return {cell for cell in cells if not kind or
                pathlib.Path(f"/proc/{cell}/cmdline").read_bytes().rstrip(b"\0").endswith(kind.encode())}

    def overwrite(self, function, code, pid=None):
        """Overwrites the first instructions of the function, in the server or in that cell; returns the previous
        ones."""
        pid = pid or self.process.pid
        symbols = subprocess.run(["nm", BINARY], capture_output=True, text=True, check=True).stdout
        [offset] = [int(line.split()[0], 16) for line in symbols.splitlines() if line.split()[-1] == function]
        mapped = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
        base = min(int(line.split("-")[0], 16) for line in mapped if line.endswith(os.path.realpath(BINARY)))
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(base + offset)
            before = memory.read(len(code))
            memory.seek(base + offset)
            memory.write(code)
        return before

    def kill_for_memory(self):
        """Kills the server, and makes the next one believe that the kernel did so because of memory shortage, by
        lowering the recorded count. Returns False if this kernel has no such count."""
        self.kill()
        lock = pathlib.Path(self.database + "-lock")
        lines = lock.read_bytes()
        boot, count, *rest = lines[128:].decode().splitlines()[0].split() if lines[128:] else ["", 0]
        lock.write_bytes(lines[:128] + " ".join([boot, str(int(count) - 1), *rest, "\n"]).encode())
        return bool(boot)

    def close(self):
        self.session.close()
        self.process.stdout.close()
        self.log.close()

    def threads(self):
        """The state of each thread of the server: name, state (R running, S sleeping), clock ticks, where it sleeps."""
        lines = []
        for task in sorted(pathlib.Path(f"/proc/{self.process.pid}/task").glob("*")):
            try:
                name, fields = (task / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
                fields = fields.split()
                lines.append(f"{name}: {fields[0]}, {fields[11]} + {fields[12]} ticks, {(task / 'wchan').read_text()}")
            except OSError:  # it has ended meanwhile
                pass
        return lines

    def processor_seconds(self):
        """The processor time that the server has used so far."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def request(self, method, path, timeout=PATIENCE, **arguments):
        return self.session.request(method, self.url + path, timeout=timeout, **arguments)

    def get(self, path, **arguments):
        return self.request("GET", path, **arguments)

    def post(self, job, path="/v1/jobs", **arguments):
        return self.request("POST", path, json=job, **arguments)

    def solve(self, job, **arguments):
        """Posts a job, waits for the end, requires success, and returns the document."""
        answer = self.post(job, "/v1/jobs?wait=300", timeout=300 + PATIENCE, **arguments)
        assert answer.status_code == 200, answer.text
        assert answer.json()["status"] == "succeeded", answer.text
        return answer.json()

    def until(self, job_id, *statuses):
        """Polls the job until it is in one of the states."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            document = self.get(f"/v1/jobs/{job_id}").json()
            if document["status"] in statuses:
                return document
            time.sleep(0.01)
        raise AssertionError(f"{job_id} never became {statuses}: {document}")

    def running(self, job_id):
        """Waits until the job is running and this has been committed, which happens after it is shown; for tests that
        kill the server."""
        document = self.until(job_id, "running")
        until(lambda: self.stored("SELECT status FROM jobs WHERE id = ?", job_id) != [(0,)])
        return document

    def stored(self, query, *values):
        """Rows of the database, read by another program."""
        with contextlib.closing(sqlite3.connect(self.database, timeout=PATIENCE)) as connection:
            return connection.execute(query, values).fetchall()

    def metric(self, series):
        for line in self.get("/metrics").text.splitlines():
            if line.startswith(series + " "):
                return float(line.rsplit(" ", 1)[1])
        raise AssertionError(f"no series {series}")


def signal_thread(server, number):
    """Sends the signal to the thread of the server that has used the most processor time."""
    def used(task):
        fields = pathlib.Path(f"/proc/{server.process.pid}/task/{task}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])
    busiest = max(os.listdir(f"/proc/{server.process.pid}/task"), key=used)
    # pthread_kill() from another process: tgkill(2), which Python lacks.
    ctypes.CDLL(None).tgkill(server.process.pid, int(busiest), int(number))


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server for tests that do not affect each other."""
    running = Server(tmp_path_factory.mktemp("server"))
    yield running
    running.stop()


@pytest.fixture
def launch(tmp_path):
    """Starts separate servers, and stops those that are still running."""
    started = []

    def start(*options, **process):
        folder = tmp_path / str(len(started))
        folder.mkdir()
        started.append(Server(folder, *options, **process))
        return started[-1]

    yield start
    for running in started:
        if running.process.poll() is None:
            print(running.last_words())  # shown if the test failed
    wrong = []
    for running in started:  # all of them, even if one fails
        if running.process.poll() is None:
            try:
                running.stop()
            except AssertionError as failed:
                wrong.append(str(failed))
    assert not wrong, "\n".join(wrong)


def draw_key(*options):
    """A key by `epsilond key`, and its line."""
    lines = subprocess.run([BINARY, "key", *options, "new"], capture_output=True, text=True, timeout=60,
                           check=True).stdout.splitlines()
    return lines[0], lines[-1]


def check_problem(answer, status, name, pointer=None):
    """Checks that the answer is a problem document with this status and type; returns it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"] == f"/problems/{name}"
    assert problem["status"] == status
    assert problem["title"]
    if pointer is not None:
        assert pointer in [error["pointer"] for error in problem["errors"]], problem
    return problem
