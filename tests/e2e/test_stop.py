"""How the service ends: on request, within five seconds in any state, and otherwise."""
import contextlib
import json
import os
import pathlib
import pty
import signal
import socket
import sqlite3
import subprocess
import time

import pytest

import wire
from conftest import BINARY, DP_SGD, ENDLESS, GAUSSIAN, INSTRUMENTED, PATIENCE, until

STOP = 60.0 if INSTRUMENTED else 5.0  # the maximum duration of a stop in seconds
# One call of LAPACK that takes about 25 seconds on an idle core, and does not poll.
EIGEN = {"n": 4096, "matrix": {"family": "optimal"}, "sampling": {"scheme": "none", "epochs": 4, "separation": 1024},
         "epsilon": 8, "delta": 1e-6}


def stopped_with(number, server):
    server.process.send_signal(number)
    started = time.monotonic()
    assert server.process.wait(PATIENCE) == 0, server.log_text()[-2000:]
    server.close()
    return time.monotonic() - started


def connected(server, data):
    """A connection on which `data` was sent."""
    client = wire.connect(server)
    client.sendall(data)
    return client


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_stop_in_the_middle_of_an_eigendecomposition(launch, number):
    server = launch("--workers", "1", "--max-bytes", "4GiB")
    job_id = server.post(EIGEN).json()["id"]
    before = server.until(job_id, "running")
    time.sleep(1)  # building the matrix that it decomposes takes less
    assert stopped_with(number, server) < STOP
    server.start()
    after = server.until(job_id, "running")
    assert after["attempts"] == 1  # the interrupted start does not count
    assert after["created_at"] == before["created_at"]
    assert "event=suspect" not in server.log_text()
    server.kill()


def test_a_second_signal_ends_it_at_once(launch):
    server = launch("--workers", "1", "--max-bytes", "4GiB")
    server.until(server.post(EIGEN).json()["id"], "running")
    time.sleep(1)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    assert stopped_with(signal.SIGTERM, server) < (STOP if INSTRUMENTED else 1)


@pytest.mark.sanitized
def test_a_stop_does_not_wait_for_clients(launch):
    server = launch()
    clients = [connected(server, b"GET /healthz HT"),
               connected(server, wire.head(server, "POST /v1/jobs HTTP/1.1", "Content-Type: application/json",
                                           "Content-Length: 1000") + b"{"),
               connected(server, wire.head(server, "GET /openapi.yaml HTTP/1.1") * 200)]
    assert server.get("/healthz").status_code == 200
    assert stopped_with(signal.SIGTERM, server) < STOP
    for client in clients:
        client.close()


def test_a_stop_does_not_wait_for_a_matrix_that_is_being_drawn(launch):
    server = launch()
    document = server.solve({"n": 1 << 23, "matrix": {"family": "square_root", "bands": 64}, "noise_multiplier": 2.0,
                             "delta": 1e-6, "sampling": {"scheme": "none"}})
    link = document["links"]["error"]
    clients = [connected(server, wire.head(server, f"GET {link} HTTP/1.1")) for _ in range(8)]
    until(lambda: server.metric("epsilond_http_requests_waiting") >= 1)
    assert stopped_with(signal.SIGTERM, server) < STOP
    for client in clients:
        client.close()


def test_a_stop_while_another_program_holds_the_database(launch):
    server = launch()
    finished = server.solve(GAUSSIAN)["id"]
    running = server.post(ENDLESS).json()["id"]
    server.until(running, "running")
    other = sqlite3.connect(server.database)
    other.execute("BEGIN IMMEDIATE")
    client = connected(server, wire.head(server, f"DELETE /v1/jobs/{finished} HTTP/1.1"))
    until(lambda: server.metric("epsilond_http_requests_waiting") >= 1)
    assert stopped_with(signal.SIGTERM, server) < STOP
    other.rollback()
    other.close()
    client.close()
    server.start()
    assert server.until(running, "running")["attempts"] == 1
    server.kill()


def test_a_stop_while_it_starts(tmp_path):
    """A stop before it listens: it ends at once."""
    process = subprocess.Popen([BINARY, "serve", "--listen", "127.0.0.1:0", "--db", str(tmp_path / "x.db")],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.send_signal(signal.SIGTERM)
    assert process.wait(STOP) in (0, -signal.SIGTERM)  # by default, if the signal came before anything was set up
    process.stdout.close()


# ---------------------------------------------------------------- SIGHUP


@pytest.mark.sanitized
def test_without_a_terminal_a_hangup_is_logged_and_nothing_else(launch):
    server = launch(start_new_session=True)
    server.process.send_signal(signal.SIGHUP)
    until(lambda: "event=hangup" in server.log_text())
    assert server.solve(GAUSSIAN)["status"] == "succeeded"
    assert stopped_with(signal.SIGTERM, server) < STOP


@contextlib.contextmanager
def on_a_terminal(*command, **options):
    """Runs the command as the leader of a new session with a terminal; returns the process and the end of the
    terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(["setsid", "--ctty", *command], stdin=theirs, stdout=subprocess.PIPE, text=True,
                               **options)
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.communicate()


def test_a_hangup_of_its_terminal_stops_it(tmp_path):
    command = [BINARY, "serve", "--listen", "127.0.0.1:0", "--db", str(tmp_path / "x.db")]
    with open(tmp_path / "log", "w") as log, on_a_terminal(*command, stderr=log) as (process, terminal):
        assert process.stdout.readline().startswith("listening on ")
        os.close(terminal)
        assert process.wait(STOP) == 0
    assert "signal=SIGHUP" in (tmp_path / "log").read_text()


def test_nohup_means_what_it_says(tmp_path):
    command = ["nohup", BINARY, "serve", "--listen", "127.0.0.1:0", "--db", str(tmp_path / "x.db")]
    with open(tmp_path / "log", "w") as log, on_a_terminal(*command, stderr=log) as (process, terminal):
        assert process.stdout.readline().startswith("listening on ")
        os.close(terminal)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP) == 0


# ---------------------------------------------------------------- ownership of the database


def serve(database, *options):
    return subprocess.run([BINARY, "serve", "--listen", "127.0.0.1:0", "--db", str(database), *options],
                          capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.sanitized
def test_a_second_server_is_refused(launch, tmp_path):
    server = launch()
    job_id = server.solve(GAUSSIAN)["id"]
    (tmp_path / "other.db").symlink_to(server.database)
    for name in (server.database, tmp_path / "other.db"):
        refused = serve(name)
        assert refused.returncode == 1 and not refused.stdout
        assert f"another epsilond (process {server.process.pid}) uses it" in refused.stderr
    assert server.get(f"/v1/jobs/{job_id}").status_code == 200
    server.kill()  # the lock is released with its process
    server.start()
    assert server.get(f"/v1/jobs/{job_id}").status_code == 200


@pytest.mark.sanitized
def test_a_second_server_is_refused_under_another_name_of_the_file(launch, tmp_path):
    """Each name has its own log, and two logs damage the database."""
    server = launch()
    other = tmp_path / "other.db"
    os.link(server.database, other)
    for name in (server.database, other):
        solved = subprocess.run([BINARY, "solve", "--db", str(name)], input=json.dumps(GAUSSIAN), text=True,
                                capture_output=True, timeout=PATIENCE)
        assert solved.returncode != 0 and "2 names (hard links)" in solved.stderr
        copied = subprocess.run([BINARY, "backup", "--db", str(name), str(tmp_path / "copy.db")], text=True,
                                capture_output=True, timeout=PATIENCE)
        assert copied.returncode == 1 and "2 names (hard links)" in copied.stderr
    refused = serve(other)
    assert refused.returncode == 1 and not refused.stdout and "2 names (hard links)" in refused.stderr
    other.unlink()
    os.rename(server.database, other)
    refused = serve(other)
    assert refused.returncode == 1 and not refused.stdout and "under another name" in refused.stderr
    os.rename(other, server.database)
    server.solve(GAUSSIAN)
    server.stop()
    server.start()


@pytest.mark.sanitized
@pytest.mark.parametrize("options", [["--listen", "nowhere"], ["--listen", "203.0.113.1:1"], ["--workers", "0"],
                                     ["--keep", "never"], ["--http-threads", "9", "--max-connections", "8"],
                                     ["extra"]], ids=" ".join)
def test_bad_options_make_no_database(tmp_path, options):
    refused = serve(tmp_path / "x.db", *options)
    assert refused.returncode in (1, 2) and refused.stderr.startswith("epsilond: ")
    assert list(tmp_path.iterdir()) == []


def test_a_taken_address_makes_no_database(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = serve(tmp_path / "x.db", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert refused.returncode == 1 and "cannot listen" in refused.stderr
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- attribution of crashes


def two_running(launch):
    server = launch("--workers", "2", "--express", "0")
    ids = [server.post(dict(ENDLESS, n=n)).json()["id"] for n in (4000, 4001)]
    for job_id in ids:
        assert server.running(job_id)["attempts"] == 1
    return server, ids


def test_who_ran_together_is_run_alone_and_none_is_blamed(launch):
    server, ids = two_running(launch)
    for n in (4002, 4003):
        if not server.kill_for_memory():
            pytest.skip("this kernel does not count what it kills")
        server.start()
        alone = [job for job in (server.get(f"/v1/jobs/{one}").json() for one in ids) if job["status"] == "running"]
        assert len(alone) <= 1 and all(job["attempts"] == 1 for job in alone)
        small = server.post(dict(DP_SGD, n=n)).json()["id"]
        for one in ids:  # each is cleared; then the later jobs run too
            assert server.until(one, "running")["attempts"] == 1
        server.post(None, f"/v1/jobs/{ids[0]}/cancel")
        assert server.until(small, "succeeded")["attempts"] == 1
        ids = [ids[1], server.post(dict(ENDLESS, n=n)).json()["id"]]
        server.running(ids[1])


@pytest.mark.parametrize("years", [1, -1])
def test_for_how_long_it_runs_alone_if_the_clock_was_set(launch, years):
    """The time of day was set while the jobs ran; no job is alone for a year, or for less than it had run."""
    server, ids = two_running(launch)
    time.sleep(2)
    if not server.kill_for_memory():
        pytest.skip("this kernel does not count what it kills")
    lock = pathlib.Path(server.database + "-lock")
    boot, kills, alive, zero = lock.read_bytes()[128:].split()
    assert 1000 <= int(alive) < PATIENCE * 1000 and abs(int(zero)) < 1000
    jump = years * 365 * 86400 * 1000
    with open(lock, "r+b") as file:
        file.seek(128)
        file.write(b"%b %b %b %d\n" % (boot, kills, alive, jump))
    beat = lock.stat().st_mtime_ns + jump * 1_000_000
    os.utime(lock, ns=(beat, beat))
    server.start()
    until(lambda: server.log_text().count("event=suspect") == 2)
    for line in server.log_text().splitlines():
        if "event=suspect" in line:
            assert 3 < float(line.split("alone_seconds=")[1].split()[0]) <= int(alive) / 1000 + 4
    server.kill()


def test_who_ran_together_when_the_process_was_killed_goes_on_together(launch):
    server, ids = two_running(launch)
    server.kill()
    server.start()
    for one in ids:
        assert server.running(one)["attempts"] == 1
    until(lambda: [server.get(f"/v1/jobs/{one}").json()["status"] for one in ids] == ["running"] * 2)
    assert "event=suspect" not in server.log_text()
    server.kill()


def test_the_one_that_needs_too_much_memory_alone_is_blamed(launch):
    server, ids = two_running(launch)
    if not server.kill_for_memory():
        pytest.skip("this kernel does not count what it kills")
    server.start()
    running = []
    until(lambda: running.extend(one for one in ids if server.get(f"/v1/jobs/{one}").json()["status"] == "running")
          or running)
    alone = running[0]
    for attempts in (2, 3):  # the only crash so far that cannot be attributed to it
        server.running(alone)
        server.kill_for_memory()
        server.start()
        assert server.running(alone)["attempts"] == attempts
    server.kill_for_memory()
    server.start()
    assert server.until(alone, "failed")["error"]["type"] == "/problems/crashed"
    other = ids[1 - ids.index(alone)]
    assert server.until(other, "running")["attempts"] == 1


@pytest.mark.skipif(INSTRUMENTED, reason="the sanitizer handles the fault")
def test_a_fault_is_traced_to_the_job_in_which_it_happened(launch):
    """A fault in one of two computations: that job counts a start, the other does not, and need not run alone."""
    server, ids = two_running(launch)
    assert server.fault() != 0
    server.start()
    attempts = sorted(server.until(one, "running")["attempts"] for one in ids)
    assert attempts == [1, 2]
    assert server.log_text().count("event=suspect") == 1


def test_a_fatal_signal_outside_of_any_job_blames_none(launch):
    server, ids = two_running(launch)
    server.process.send_signal(signal.SIGABRT)  # to the process, and so to its main thread
    assert server.process.wait(PATIENCE) == -signal.SIGABRT
    server.close()
    server.start()
    assert [server.until(one, "running")["attempts"] for one in ids] == [1, 1]
    assert "event=suspect" not in server.log_text()
