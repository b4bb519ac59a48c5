"""
The service under a supervisor that speaks the protocols of systemd: the socket that it passes, what it is told, and the
heartbeats, which end when workers, writer or HTTP threads do not work.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import contextlib
import os
import pathlib
import queue
import re
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
import time

import pytest
import requests

from conftest import BINARY, DP_SGD, ENDLESS, GAUSSIAN, PATIENCE, ROOT, Server, until

UNITS = ROOT / "docker" / "systemd"
PERIOD = 1  # seconds within which heartbeats are expected
BEAT = PERIOD / 4


class Supervised(Server):
    """A server that gets its socket from the test, and reports to it."""

    def __init__(self, folder, *options, seconds=PERIOD, listener=None, sockets=1):
        self.seconds, self.sockets = seconds, sockets
        self.listener = listener or socket.create_server(("127.0.0.1", 0))
        self.reports = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.reports.bind(str(folder / "notify"))
        self.told = queue.SimpleQueue()  # a supervisor that does not read would stop the service
        threading.Thread(target=self.read, daemon=True).start()
        super().__init__(folder, *options)

    def read(self):
        while report := self.reports.recv(4096):
            self.told.put(report.decode())

    def spawn(self, *options):
        environment = dict(os.environ, NOTIFY_SOCKET=str(self.folder / "notify"), LISTEN_FDS=str(self.sockets))
        if self.seconds:
            environment["WATCHDOG_USEC"] = str(int(self.seconds * 1e6))
        listener = self.listener.fileno()

        def place():  # it must be descriptor 3
            for target in range(3, 3 + self.sockets):
                os.dup2(listener, target) if listener != target else os.set_inheritable(target, True)

        return subprocess.Popen(
            ["sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh", BINARY, "serve", "--db", self.database, *options],
            stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment, close_fds=False, preexec_fn=place)

    def start(self, *options):
        self.log = open(self.folder / "log", "ab")
        self.process = self.spawn(*self.options, *options)
        line = self.process.stdout.readline()
        assert line.startswith("listening on http://"), (line, self.log_text())
        self.url = line.removeprefix("listening on ").strip()
        self.session = requests.Session()
        return self

    def listen(self, seconds):
        """What is told within that time."""
        deadline, heard = time.monotonic() + seconds, []
        while (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                heard.append(self.told.get(timeout=left))
        return heard

    def hear(self, wanted):
        """Waits until something that contains it is told, and returns that."""
        while wanted not in (report := self.told.get(timeout=PATIENCE)):
            pass
        return report

    def beats(self, seconds):
        return sum(report == "WATCHDOG=1" for report in self.listen(seconds))

    def silent(self):
        """Waits for the report that something is wrong; from then on no heartbeat comes for a whole period."""
        until(lambda: "event=unwell" in self.log_text())
        self.listen(BEAT / 2)
        assert self.beats(PERIOD) == 0


@pytest.fixture
def supervise(tmp_path):
    started = []

    def start(*options, **how):
        folder = tmp_path / str(len(started))
        folder.mkdir()
        started.append(Supervised(folder, *options, **how))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.kill()
        server.reports.shutdown(socket.SHUT_RD)  # ends its reader
        server.listener.close()


def test_a_socket_is_adopted_and_states_are_told(supervise):
    server = supervise()
    assert server.url == "http://127.0.0.1:%d" % server.listener.getsockname()[1]
    server.hear("READY=1")
    assert server.hear("STATUS=") == f"STATUS=listening on {server.url}"
    server.hear("WATCHDOG=1")
    assert server.beats(PERIOD) >= 2
    assert "unwell" not in server.log_text()
    assert server.solve(GAUSSIAN)["status"] == "succeeded"
    assert server.get("/healthz", headers={"Host": "elsewhere.example"}).status_code == 403
    server.process.send_signal(signal.SIGHUP)
    report = server.hear("RELOADING=1")
    [told] = re.findall(r"MONOTONIC_USEC=(\d+)", report)
    assert abs(int(told) / 1e6 - time.clock_gettime(time.CLOCK_MONOTONIC)) < 60
    server.hear("READY=1")
    server.process.send_signal(signal.SIGTERM)
    server.hear("STOPPING=1")
    assert server.process.wait(PATIENCE) == 0


def test_clients_that_come_between_two_processes_are_served_by_the_next(supervise):
    server = supervise()
    job = server.solve(GAUSSIAN)
    server.stop()
    answers = []
    caller = threading.Thread(target=lambda: answers.append(requests.get(server.url + job["links"]["self"],
                                                                         timeout=PATIENCE)))
    caller.start()
    time.sleep(0.3)
    assert not answers
    server.start()
    caller.join(PATIENCE)
    assert answers[0].status_code == 200 and answers[0].json()["id"] == job["id"]


def test_nothing_is_told_that_was_not_asked(supervise):
    server = supervise(seconds=0)
    server.hear("READY=1")
    assert server.beats(1) == 0


def test_a_long_computation_is_healthy(supervise):
    server = supervise("--workers", "1", "--express", "0")
    job = server.post(ENDLESS).json()["id"]
    server.running(job)
    server.listen(0.1)
    assert server.beats(2 * PERIOD) >= 6
    assert server.get(f"/v1/jobs/{job}").json()["status"] == "running"


def test_a_worker_that_does_not_stop(supervise):
    """The library loops past the limit of the job."""
    server = supervise("--workers", "1", "--express", "0", "--isolate", "off", "--max-seconds", "500ms",
                       "--watchdog-seconds", "500ms")
    before = server.loop("eps__pld_compose")
    server.post(dict(DP_SGD, accountant="pld"))
    server.silent()
    assert "did not stop when told to" in server.log_text()
    server.overwrite("eps__pld_compose", before)  # it returns after all
    server.hear("WATCHDOG=1")
    until(lambda: "event=well" in server.log_text())


def test_a_writer_that_waits_for_the_database(supervise):
    server = supervise()
    server.hear("WATCHDOG=1")
    other = sqlite3.connect(server.database)
    other.execute("BEGIN IMMEDIATE")
    server.silent()
    assert re.search(r"event=unwell detail=\"the database (does not respond|cannot be written)", server.log_text())
    other.rollback()
    other.close()
    server.hear("WATCHDOG=1")


def test_a_full_disk_is_no_reason_to_restart(supervise):
    """A restart frees no space, and would lose what waits to be written. The limit on the size of files stands for the
    disk."""
    server = supervise()
    server.hear("WATCHDOG=1")
    limits = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (4096, limits[1]))
    assert "the disk is full" in server.hear("STATUS=the disk")
    assert server.beats(2 * PERIOD) >= 6
    assert server.get("/readyz").status_code == 503
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limits)
    server.hear("STATUS=listening on")
    assert server.get("/readyz").status_code == 200
    assert "event=unwell" not in server.log_text()


def test_threads_that_hang(supervise):
    """The writer, the watchdog of computations, the heart itself, and an HTTP thread, each in an endless loop. The stop
    does not hang with them."""
    servers = [supervise("--workers", "1") for _ in range(4)]
    for server, function in zip(servers, ("owner_beat", "looked_at", "pool_withdraw", "connections_expire")):
        server.hear("WATCHDOG=1")
        server.loop(function)
    reasons = ["the database does not respond", "the watchdog of computations does not run", None,
               "an HTTP thread does not respond"]
    for server, reason in zip(servers, reasons):
        until(lambda: not reason or f'event=unwell detail="{reason}"' in server.log_text())
    for server in servers:
        server.listen(0.01)
    time.sleep(PERIOD)
    assert not any(server.beats(0.01) for server in servers)
    assert "event=unwell" not in servers[2].log_text()  # it cannot tell
    for server in servers:
        server.process.send_signal(signal.SIGTERM)
    for server in servers:
        assert server.process.wait(PATIENCE) == 0


@pytest.mark.parametrize("options,sockets,listener,why", [
    (["--listen", "127.0.0.1:0"], 1, None, "remove the option"),
    ([], 2, None, "one ListenStream="),
    ([], 1, "datagram", "listening TCP socket"),
    ([], 1, "local", "listening TCP socket"),
    ([], 1, "idle", "listening TCP socket"),
])
def test_what_is_no_single_tcp_socket_is_refused(tmp_path, options, sockets, listener, why):
    given = {None: lambda: socket.create_server(("127.0.0.1", 0)),
             "idle": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
             "datagram": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
             "local": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)}[listener]()
    server = Supervised.__new__(Supervised)
    server.folder, server.database, server.log = tmp_path, str(tmp_path / "x.db"), subprocess.PIPE
    server.listener, server.sockets, server.seconds = given, sockets, 0
    process = server.spawn(*options)
    _, said = process.communicate(timeout=PATIENCE)
    given.close()
    assert process.returncode == 1 and why in said, said
    assert not pathlib.Path(server.database).exists()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze")
def test_the_units_are_correct_and_the_sandbox_is_tight(tmp_path):
    shutil.copy(UNITS / "epsilond.socket", tmp_path)
    bounds = {"epsilond.service": 2.0, "epsilond-worker.service": 3.0}  # a worker has a network
    for name, bound in bounds.items():
        unit = tmp_path / name
        unit.write_text((UNITS / name).read_text().replace("@BINDIR@/epsilond", BINARY))
        verified = subprocess.run(["systemd-analyze", "verify", unit, tmp_path / "epsilond.socket"],
                                  capture_output=True, text=True, timeout=PATIENCE)
        said = [line for line in verified.stderr.splitlines() if "epsilond" in line]
        assert verified.returncode == 0 and not said, verified.stderr
        judged = subprocess.run(["systemd-analyze", "security", "--offline=true", unit], capture_output=True,
                                text=True, timeout=PATIENCE)
        [exposure] = re.findall(rf"Overall exposure level for {name}: ([0-9.]+)", judged.stdout)
        assert float(exposure) < bound, judged.stdout
