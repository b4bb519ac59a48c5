"""
Connections and requests that occupy shared resources: idle ones, slow ones, disconnecting ones, and those that never
read.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import contextlib
import json
import os
import resource
import select
import signal
import socket
import struct
import threading
import time

import pytest
import requests

import conftest
import wire
from conftest import DP_SGD, ENDLESS, GAUSSIAN, ONE_BY_ONE, PATIENCE, check_problem, until
from test_limits import MIB, resident

GET_HEALTH = "GET /healthz HTTP/1.1"


def ask(server, line, *headers, source=None):
    """One request on its own connection."""
    with socket.create_connection(wire.address(server), 60, (source, 0) if source else None) as connection:
        connection.sendall(wire.head(server, line, *headers))
        with connection.makefile("rb") as stream:
            return wire.read_reply(stream)


def status(server, line):
    """The status of one request; None if the connection is closed instead."""
    with contextlib.suppress(ConnectionError):
        reply = ask(server, line)
        return reply and reply.status


def endless(server):
    job_id = server.post(ENDLESS).json()["id"]
    server.until(job_id, "running")
    return job_id


def poll_long(server, job_id, count, source=None):
    """Opens `count` connections that wait for the end of the job."""
    waiting = server.metric("epsilond_http_requests_waiting")
    sockets = []
    for _ in range(count):
        connection = socket.create_connection(wire.address(server), 60, (source, 0) if source else None)
        connection.sendall(wire.head(server, f"GET /v1/jobs/{job_id}?wait=300 HTTP/1.1"))
        sockets.append(connection)
    until(lambda: server.metric("epsilond_http_requests_waiting") == waiting + count)
    return sockets


def close_all(sockets):
    for one in sockets:
        one.close()


# ---------------------------------------------------------------- number

@pytest.mark.sanitized
def test_the_longest_idle_makes_room(launch):
    server = launch("--max-connections", "10", "--http-threads", "1")  # with two threads, one may notice late that a
                                                                       # connection is idle
    sockets = []
    for _ in range(40):
        sockets.append(wire.connect(server))
        sockets[-1].sendall(wire.head(server, GET_HEALTH))
        assert sockets[-1].recv(4096).startswith(b"HTTP/1.1 200")
    assert all(wire.hung_up(one) for one in sockets[:20])
    sockets[-1].sendall(wire.head(server, "GET /v1 HTTP/1.1"))
    assert sockets[-1].recv(4096).startswith(b"HTTP/1.1 200")
    assert server.metric("epsilond_http_connections") <= 10
    assert server.metric('epsilond_http_connections_closed_total{reason="evicted"}') >= 20
    close_all(sockets)


@pytest.mark.sanitized
def test_heads_that_never_end_make_room(launch):
    """Slowloris: the maximum number of connections, each sending a line from time to time."""
    server = launch("--max-connections", "10")
    sockets = [wire.connect(server) for _ in range(40)]
    for one in sockets:
        with contextlib.suppress(ConnectionError):
            one.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\n")
            one.sendall(b"X: y\r\n")
    for _ in range(20):
        assert ask(server, "GET /v1 HTTP/1.1").status == 200
    close_all(sockets)


@pytest.mark.sanitized
@pytest.mark.parametrize("limit", ["--max-connections", "--max-per-address"])
def test_a_place_is_kept_for_health(launch, limit):
    server = launch(limit, "6")
    job_id = endless(server)
    sockets = poll_long(server, job_id, 5)

    def fill():
        while status(server, "GET /v1 HTTP/1.1") != 503:  # the sixth; the idle one of our session is evicted
            sockets.append(wire.connect(server))
            sockets[-1].sendall(wire.head(server, f"GET /v1/jobs/{job_id}?wait=300 HTTP/1.1"))
            assert len(sockets) < 200
            time.sleep(0.01 * len(sockets))  # until its head has been read it counts as idle too, and may be evicted

    fill()
    for path in ("/healthz", "/readyz"):
        for method in ("GET", "HEAD"):
            assert ask(server, f"{method} {path} HTTP/1.1", "Connection: close").status == 200
    fill()
    reply = ask(server, "GET /v1 HTTP/1.1")
    assert reply.status == 503 and reply.headers["connection"] == "close" and int(reply.headers["retry-after"]) > 0
    assert "connections" in reply.json()["detail"]
    assert ask(server, f"POST /v1/jobs/{job_id}/cancel HTTP/1.1").status == 503
    # Nor can connections that take the reserved places and send nothing prevent it.
    idle = []
    for _ in range(60):
        idle.append(wire.connect(server))
        assert ask(server, GET_HEALTH).status == 200
    close_all(idle)
    close_all(sockets)
    until(lambda: status(server, f"POST /v1/jobs/{job_id}/cancel HTTP/1.1") in (200, 202))


@pytest.mark.sanitized
def test_one_address_leaves_room_for_others(launch):
    server = launch("--max-per-address", "5")
    job_id = endless(server)
    sockets = poll_long(server, job_id, 5, source="127.0.0.2")
    assert ask(server, "GET /v1 HTTP/1.1", source="127.0.0.2").status == 503
    assert ask(server, GET_HEALTH, source="127.0.0.2").status == 200
    for _ in range(10):
        assert ask(server, "GET /v1 HTTP/1.1", source="127.0.0.3").status == 200
    server.post(None, f"/v1/jobs/{job_id}/cancel")
    for one in sockets:
        assert one.recv(4096).startswith(b"HTTP/1.1 200")
    close_all(sockets)


@pytest.mark.sanitized
def test_newcomers_find_a_place(launch):
    """However many addresses a client has: 35 places for all, 3 for addresses with few, 2 for networks with few."""
    server = launch("--max-connections", "40", "--max-per-address", "20", "--http-threads", "1")
    job_id = endless(server)
    server.close()  # the connection of our session would be one more

    def take(source, most):
        """Opens as many connections that follow the job as are admitted."""
        sockets = []
        for _ in range(most):
            connection = socket.create_connection(wire.address(server), 60, (source, 0))
            connection.sendall(wire.head(server, f"GET /v1/jobs/{job_id}/events HTTP/1.1"))
            answer = connection.recv(12)
            if answer == b"HTTP/1.1 503":
                connection.close()
                break
            assert answer == b"HTTP/1.1 200"
            sockets.append(connection)
        return sockets

    held = [take(f"127.0.0.{host}", 30) for host in (2, 3)]
    assert [len(sockets) for sockets in held] == [20, 15]
    assert ask(server, "GET /v1 HTTP/1.1", source="127.0.0.3").status == 503
    # Another address of that network is a newcomer, and may have a few.
    assert ask(server, "GET /v1 HTTP/1.1", source="127.0.0.4").status == 200
    held.append(take("127.0.0.4", 30))
    assert len(held[-1]) == 3
    assert ask(server, "GET /v1 HTTP/1.1", source="127.0.0.5").status == 503
    # The rest is for other networks.
    for host in range(1, 6):
        assert ask(server, "GET /v1 HTTP/1.1", source=f"127.0.{host}.1").status == 200
    # Idle connections are evicted for a newcomer, and a client with many never evicts one of a client with few.
    with socket.create_connection(wire.address(server), 60, ("127.0.9.1", 0)) as connection:
        connection.sendall(wire.head(server, "GET /v1 HTTP/1.1"))
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        assert not take("127.0.0.3", 1) and not take("127.0.0.4", 1)
        connection.sendall(wire.head(server, "GET /v1 HTTP/1.1"))
        assert connection.recv(4096)
    for sockets in held:
        close_all(sockets)
    until(lambda: status(server, f"POST /v1/jobs/{job_id}/cancel HTTP/1.1") in (200, 202))


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


@pytest.mark.sanitized
def test_without_file_descriptors_the_log_says_so_once(launch):
    server = launch("--http-threads", "1")
    assert server.get("/healthz").status_code == 200
    server.solve(GAUSSIAN)
    before = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    limit = descriptors(server) + 8
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    # First with busy connections, of which none can be evicted.
    job_id = endless(server)
    sockets = []
    for _ in range(30):
        sockets.append(wire.connect(server))
        sockets[-1].sendall(wire.head(server, f"GET /v1/jobs/{job_id}?wait=300 HTTP/1.1"))
    until(lambda: " event=accept " in server.log_text())
    time.sleep(1)
    assert server.log_text().count(" event=accept ") == 1
    assert len(server.log_text()) < 20000
    close_all(sockets)
    until(lambda: status(server, GET_HEALTH) == 200)
    # Then with idle ones, which can be.
    sockets = [wire.connect(server) for _ in range(30)]
    for _ in range(10):
        assert ask(server, GET_HEALTH).status == 200
    close_all(sockets)
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, before)
    assert ask(server, GET_HEALTH).status == 200
    assert server.log_text().count(" event=accept ") <= 2
    ask(server, f"POST /v1/jobs/{job_id}/cancel HTTP/1.1")


@pytest.mark.sanitized
def test_fewer_descriptors_mean_fewer_connections(launch, tmp_path, monkeypatch):
    wrapper = tmp_path / "few"
    wrapper.write_text(f'#!/bin/sh\nulimit -n 200 && exec {conftest.BINARY} "$@"\n')
    wrapper.chmod(0o700)
    monkeypatch.setattr(conftest, "BINARY", str(wrapper))
    server = launch()
    sockets = [wire.connect(server) for _ in range(2000)]
    for _ in range(10):
        assert ask(server, GET_HEALTH).status == 200
    close_all(sockets)
    assert " event=descriptors " in server.log_text() and " event=accept " not in server.log_text()


# ---------------------------------------------------------------- duration

@pytest.mark.sanitized
@pytest.mark.parametrize("way", ["close", "reset", "shutdown"])
def test_who_hangs_up_waits_no_more(launch, way):
    server = launch()
    job_id = endless(server)
    sockets = poll_long(server, job_id, 3)
    started = time.monotonic()
    for one in sockets:
        if way == "reset":
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if way == "shutdown":
            one.shutdown(socket.SHUT_WR)
            wire.hung_up(one)
        one.close()
    until(lambda: server.metric("epsilond_http_requests_waiting") == 0)
    assert time.monotonic() - started < 100  # and not the 300 that they requested
    until(lambda: server.metric("epsilond_http_connections") <= 1)  # the one that requests the metrics
    # The same while a POST waits: the job remains.
    with wire.connect(server) as connection:
        body = json.dumps(dict(ENDLESS, label="kept")).encode()
        connection.sendall(wire.head(server, "POST /v1/jobs?wait=300 HTTP/1.1", "Content-Type: application/json",
                                     f"Content-Length: {len(body)}") + body)
        until(lambda: server.metric("epsilond_http_requests_waiting") == 1)
    until(lambda: server.metric("epsilond_http_requests_waiting") == 0)
    assert [item["label"] for item in server.get("/v1/jobs?label=kept").json()["items"]] == ["kept"]


@pytest.mark.sanitized
def test_who_hangs_up_in_the_middle_of_a_request_is_noticed(launch):
    """The last bytes and the end of the stream come at once, because the server stands still meanwhile."""
    server = launch("--request-seconds", "3600", "--idle-seconds", "3600")
    post = "POST /v1/jobs HTTP/1.1", "Content-Type: application/json"
    cut = [wire.head(server, *post, "Content-Length: 1000") + b" " * 500,
           wire.head(server, *post, "Transfer-Encoding: chunked") + b"1f4\r\n" + b" " * 100,
           b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nX: "]
    with contextlib.ExitStack() as stack:
        half, *others = [stack.enter_context(wire.connect(server)) for _ in range(1 + 20 * len(cut))]
        until(lambda: server.metric("epsilond_http_connections") >= 1 + len(others))
        server.process.send_signal(signal.SIGSTOP)
        half.sendall(wire.head(server, GET_HEALTH))  # complete, so it is served, although its client sends no more
        half.shutdown(socket.SHUT_WR)
        for connection, sent in zip(others, cut * 20):
            connection.sendall(sent)
            connection.close()
        server.process.send_signal(signal.SIGCONT)
        with half.makefile("rb") as stream:
            assert wire.read_reply(stream).status == 200
    until(lambda: server.metric("epsilond_http_connections") <= 1)  # the one that requests the metrics
    assert server.metric('epsilond_http_connections_closed_total{reason="expired"}') == 0


def drip(connection, data, seconds):
    """Sends a byte from time to time until the other side closes; returns the seconds until then."""
    started = time.monotonic()
    with contextlib.suppress(ConnectionError):
        for byte in data:
            connection.sendall(bytes([byte]))
            connection.settimeout(seconds)
            try:
                if connection.recv(4096) == b"":
                    break
            except TimeoutError:
                pass
            assert time.monotonic() - started < PATIENCE
    return time.monotonic() - started


@pytest.mark.sanitized
def test_slow_heads_and_bodies_have_deadlines(launch):
    """Each byte arrives in time after the previous one, but there is still a deadline."""
    server = launch("--idle-seconds", "1", "--request-seconds", "1")
    with wire.connect(server) as connection:
        assert 0.5 < drip(connection, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 1000, 0.2)
    with wire.connect(server) as connection:
        connection.sendall(wire.head(server, "POST /v1/jobs HTTP/1.1", "Content-Type: application/json",
                                     "Content-Length: 1000"))
        assert 0.5 < drip(connection, b" " * 999, 0.2)
    with wire.connect(server) as connection:
        connection.sendall(wire.head(server, "POST /v1/jobs HTTP/1.1", "Content-Type: application/json",
                                     "Transfer-Encoding: chunked"))
        assert 0.5 < drip(connection, b"1\r\n \r\n" * 999, 0.2)
    with wire.connect(server) as connection:  # idle
        started = time.monotonic()
        assert wire.hung_up(connection) and time.monotonic() - started > 0.5
    assert server.metric('epsilond_http_connections_closed_total{reason="expired"}') >= 3
    # Waiting does not count as slow.
    job_id = endless(server)
    answer = server.get(f"/v1/jobs/{job_id}?wait=3")
    assert answer.json()["status"] == "running"
    server.post(None, f"/v1/jobs/{job_id}/cancel")


def narrow(server, line, *headers):
    """A client with a small window that sends a request and does not read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(PATIENCE)
    connection.connect(wire.address(server))
    connection.sendall(wire.head(server, line, *headers))
    return connection


MATRIX = dict(GAUSSIAN, n=1 << 20, matrix={"family": "toeplitz", "coefficients": [1, 0.5]})  # 8 MiB as npy
NPY = "Accept: application/x-npy"


@pytest.mark.sanitized
def test_who_does_not_read_is_left(launch):
    server = launch("--request-seconds", "1")
    job_id = server.solve(dict(MATRIX, n=1 << 19))["id"]
    with narrow(server, f"GET /v1/jobs/{job_id}/matrix HTTP/1.1", NPY) as connection:
        until(lambda: server.metric("epsilond_spool_bytes") > 0)
        started = time.monotonic()
        until(lambda: server.metric("epsilond_spool_bytes") == 0)
        assert time.monotonic() - started > 3  # one second, plus one for each MiB
        assert connection.recv(64).startswith(b"HTTP/1.1 200")


@pytest.mark.sanitized
def test_clients_without_a_network_are_noticed(server):
    """Probes are sent on silent connections: the kernel shows the timer."""
    address, port = wire.address(server)

    def probed():
        rows = [row.split() for row in open("/proc/net/tcp").read().splitlines()[1:]]
        return [row for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "01" and row[5].startswith("02:")]

    with wire.connect(server) as connection:
        connection.sendall(wire.head(server, GET_HEALTH))
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        until(probed)


# ---------------------------------------------------------------- memory

def stall(server, size):
    """A body without its last byte."""
    connection = wire.connect(server)
    connection.sendall(wire.head(server, "POST /v1/jobs HTTP/1.1", "Content-Type: application/json",
                                 f"Content-Length: {size}"))
    connection.sendall(b" " * (size - 1))
    return connection


def test_curves_that_wait_are_counted_as_they_are_held(launch):
    """Each holds the text of its job."""
    server = launch(*ONE_BY_ONE, "--queue-bytes", "2MiB")
    numbers = [1] + [1 / (2 + i) for i in range(20000)]
    links = [server.solve(dict(GAUSSIAN, n=len(numbers), noise_multiplier=1.0 + i,
                               matrix={"family": "toeplitz", "coefficients": numbers}))["links"]["curve"]
             for i in range(10)]
    job_id = endless(server)
    sockets = [wire.connect(server) for _ in links]
    for one, link in zip(sockets, links):
        one.sendall(wire.head(server, f"GET {link} HTTP/1.1"))
    refused = []
    until(lambda: refused.extend(select.select(sockets, [], [], 0)[0]) or len(set(refused)) >= 5)
    server.post(None, f"/v1/jobs/{job_id}/cancel")
    statuses = []
    for one in sockets:
        with one.makefile("rb") as stream:
            statuses.append(wire.read_reply(stream).status)
    assert set(statuses) == {200, 503} and 5 <= statuses.count(503) < 10
    close_all(sockets)


def test_stalled_bodies_are_bounded(launch):
    # Some of those who hang up are noticed only when their time is over.
    server = launch("--max-body", "1MiB", "--http-bytes", "16MiB", "--memory-bytes", "1MiB",
                    "--request-seconds", "120" if conftest.INSTRUMENTED else "20")
    server.solve(GAUSSIAN)
    before = resident(server)
    sockets = [stall(server, MIB) for _ in range(120)]
    until(lambda: server.metric("epsilond_http_requests_in_flight") >= 121)
    assert server.metric("epsilond_http_body_bytes") <= 8 * MIB
    assert resident(server) - before < 40 * MIB or conftest.INSTRUMENTED
    # Those that did not fit are told so, and small jobs are still accepted.
    for one in sockets:
        one.sendall(b" ")
    statuses = []
    for one in sockets:
        with one.makefile("rb") as stream:
            statuses.append(wire.read_reply(stream).status)
    assert set(statuses) == {400, 503} and statuses.count(400) >= 5
    sockets = [stall(server, MIB) for _ in range(20)]
    until(lambda: server.metric("epsilond_http_requests_in_flight") >= 21)
    assert server.post(dict(DP_SGD, n=150)).status_code == 202
    big = b" " * (MIB - 500) + json.dumps(GAUSSIAN).encode()
    post_big = lambda: server.request("POST", "/v1/jobs", data=big, headers={"Content-Type": "application/json"})
    # A body that grows beyond what is left gives back all that it had, so that some may be left for another.
    answers = []

    def is_full():
        sockets.append(stall(server, MIB))
        answers.append(post_big())
        return answers[-1].status_code == 503
    until(is_full)
    answer = answers[-1]
    assert "bodies" in check_problem(answer, 503, "queue-full")["detail"]
    assert int(answer.headers["Retry-After"]) > 0
    close_all(sockets)
    until(lambda: server.metric("epsilond_http_body_bytes") == 0)
    assert post_big().status_code == 200


def test_a_body_is_not_held_while_its_job_is_waited_for(launch):
    server = launch(*ONE_BY_ONE)
    endless(server)
    body = b" " * (4 * MIB) + json.dumps(DP_SGD).encode()
    answers = []

    def wait():
        answers.append(requests.post(server.url + "/v1/jobs?wait=300", data=body, timeout=PATIENCE,
                                     headers={"Content-Type": "application/json"}))

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: server.metric("epsilond_http_requests_waiting") == 1 and server.metric("epsilond_jobs_queued") == 1)
    until(lambda: server.metric("epsilond_http_body_bytes") == 0)
    server.post(None, f"/v1/jobs/{server.get('/v1/jobs?status=running').json()['items'][0]['id']}/cancel")
    thread.join(PATIENCE)
    assert answers[0].json()["status"] == "succeeded"


def test_large_bodies_do_not_delay_small_ones(launch):
    server = launch(*ONE_BY_ONE)
    endless(server)
    rows = "[" + ",".join("[" + ",".join(["1"] * (i + 1)) + "]" for i in range(900)) + "]"
    threads = [threading.Thread(target=requests.post, args=(server.url + "/v1/jobs",), kwargs={
        "headers": {"Content-Type": "application/json"}, "timeout": PATIENCE,
        "data": '{"n":900,"matrix":{"family":"dense","rows":%s},"sampling":{"scheme":"none"},"noise_multiplier":%d,'
                '"delta":1e-6}' % (rows, 2 + i)}) for i in range(16)]
    for thread in threads:
        thread.start()
    until(lambda: server.metric("epsilond_http_requests_in_flight") >= 17 or
          server.metric("epsilond_jobs_accepted_total") > 3)
    before = server.metric("epsilond_jobs_accepted_total")
    assert server.post(dict(DP_SGD, n=1234)).status_code == 202
    assert server.metric("epsilond_jobs_accepted_total") - before < 8
    for thread in threads:
        thread.join(PATIENCE)


def test_lists_do_not_delay_others(launch):
    """Lists are written one after the other, by a thread other than the HTTP threads: of several requests that arrive
    together, the last one, which is not for a list, is answered first."""
    server = launch("--http-threads", "1")
    server.solve(GAUSSIAN)
    for _ in range(120):
        assert server.post(dict(GAUSSIAN, label="x" * 200)).status_code == 200
    sockets = [wire.connect(server) for _ in range(81)]
    for one in sockets:  # accepted and waiting for a request
        one.sendall(wire.head(server, GET_HEALTH))
        assert one.recv(4096).startswith(b"HTTP/1.1 200")
    server.process.send_signal(signal.SIGSTOP)
    for one in sockets[:-1]:
        one.sendall(wire.head(server, "GET /v1/jobs?limit=500 HTTP/1.1"))
    sockets[-1].sendall(wire.head(server, "GET /v1 HTTP/1.1"))
    server.process.send_signal(signal.SIGCONT)
    for one in sockets:
        with one.makefile("rb") as stream:
            reply = wire.read_reply(stream)
        assert reply.status == 200 and len(reply.json().get("items", [])) == (0 if one is sockets[-1] else 121)
    close_all(sockets)
    log = server.log_text()
    assert log[:log.index(" path=/v1 ")].count(" method=GET path=/v1/jobs ") < 40


def test_unread_replies_are_bounded(launch):
    server = launch("--http-bytes", "32MiB", "--max-body", "4MiB")
    numbers = [1] + [1 / (2 + i) for i in range(150000)]
    job = dict(GAUSSIAN, n=len(numbers), matrix={"family": "toeplitz", "coefficients": numbers})
    document = server.solve(job)
    size = len(server.get(document["links"]["self"]).content)
    assert 2.5 * MIB < size < 4 * MIB
    sockets = []
    while server.metric("epsilond_http_reply_bytes") + size <= 16 * MIB:
        sockets.append(narrow(server, f"GET {document['links']['self']} HTTP/1.1"))
        until(lambda: server.metric("epsilond_http_reply_bytes") == size * len(sockets))
        assert len(sockets) < 10
    answer = server.get(document["links"]["self"])
    assert "replies" in check_problem(answer, 503, "queue-full")["detail"]
    assert server.get("/v1/jobs").status_code == 200
    close_all(sockets)
    until(lambda: server.metric("epsilond_http_reply_bytes") == 0)
    assert server.get(document["links"]["self"]).json()["id"] == document["id"]


def test_files_of_unread_matrices_are_bounded(launch):
    server = launch("--spool-bytes", "20MiB")
    job_id = server.solve(MATRIX)["id"]
    path = f"/v1/jobs/{job_id}/matrix"
    sockets = [narrow(server, f"GET {path} HTTP/1.1", NPY) for _ in range(2)]
    until(lambda: server.metric("epsilond_spool_bytes") > 16 * MIB)
    answer = server.get(path, headers={"Accept": "application/x-npy"})
    assert "--spool-bytes" in check_problem(answer, 503, "queue-full")["detail"]
    assert server.metric("epsilond_spool_bytes") <= 20 * MIB
    close_all(sockets)
    until(lambda: server.metric("epsilond_spool_bytes") == 0)
    assert len(server.get(path, headers={"Accept": "application/x-npy"}).content) == 128 + 8 * MATRIX["n"]
    # A file that exceeds the total limit does not use it up either.
    wide = server.solve(dict(MATRIX, n=1 << 22))["id"]
    check_problem(server.get(f"/v1/jobs/{wide}/matrix", headers={"Accept": "application/x-npy"}), 503, "queue-full")
    until(lambda: server.metric("epsilond_spool_bytes") == 0)


def test_a_matrix_is_not_drawn_for_who_has_gone(launch):
    server = launch()
    job_id = server.solve(dict(MATRIX, n=1 << 22, matrix={"family": "square_root"}))["id"]
    for _ in range(6):
        with wire.connect(server) as connection:
            connection.sendall(wire.head(server, f"GET /v1/jobs/{job_id}/matrix HTTP/1.1"))
            until(lambda: server.metric("epsilond_http_requests_waiting") >= 1)
    until(lambda: server.metric("epsilond_http_requests_waiting") == 0)
    assert server.metric("epsilond_spool_bytes") == 0


@pytest.mark.sanitized
def test_who_hangs_up_has_no_place_in_line(launch):
    """With two slow matrices in front, more clients than connections are allowed can come and go."""
    server = launch("--max-per-address", "30", "--workers", "1")
    job_id = server.solve(dict(MATRIX, n=1 << 23, matrix={"family": "square_root", "bands": 64}))["id"]
    line = wire.head(server, f"GET /v1/jobs/{job_id}/error HTTP/1.1")
    first = [wire.connect(server) for _ in range(2)]
    for one in first:
        one.sendall(line)
    until(lambda: server.metric("epsilond_http_requests_waiting") == 2 and server.metric("epsilond_jobs_queued") == 0)
    for _ in range(4):
        sockets = [wire.connect(server) for _ in range(20)]
        for one in sockets:
            one.sendall(line)
        until(lambda: server.metric("epsilond_http_requests_waiting") == 22)
        until(lambda: server.metric("epsilond_jobs_queued") == 20)
        close_all(sockets)
        until(lambda: server.metric("epsilond_http_requests_waiting") == 2, 20)
        until(lambda: server.metric("epsilond_jobs_queued") == 0 and server.metric("epsilond_http_connections") <= 4)
    close_all(first)
    until(lambda: server.metric("epsilond_http_requests_waiting") == 0)


@pytest.mark.sanitized
def test_who_hangs_up_while_lists_are_written_is_taken_from_the_line(launch):
    """Lists, tables, usage and the documents of sweeps are made by one thread; it does nothing for those who have gone
    by their turn."""
    server = launch()
    sweep = server.post({"base": GAUSSIAN, "grid": {"/noise_multiplier": [1, 2]}}, "/v1/sweeps").json()["links"]
    until(lambda: server.get(sweep["self"]).json()["status"] == "succeeded")
    paths = ["/v1/jobs", "/v1/usage", sweep["self"], sweep["points"]]
    waiting = lambda count: until(lambda: server.metric("epsilond_http_requests_waiting") == count)
    before = server.loop("store_list_jobs")
    with wire.connect(server) as first:
        first.sendall(wire.head(server, "GET /v1/jobs?limit=1 HTTP/1.1"))
        waiting(1)
        clients = []
        for path in paths:
            clients.append(wire.connect(server))
            clients[-1].sendall(wire.head(server, f"GET {path} HTTP/1.1"))
        waiting(1 + len(paths))
        close_all(clients)
        waiting(1)
        server.overwrite("store_list_jobs", before)
        with first.makefile("rb") as stream:
            assert wire.read_reply(stream).status == 200
    for path in paths:
        assert server.get(path).status_code == 200
