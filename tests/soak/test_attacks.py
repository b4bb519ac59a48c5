"""
Attacks that are longer and larger than `make test` has time for: each measures the memory that the service holds
meanwhile and how long another client waits for an answer. Run by `make soak`.

From the environment: ATTACK_SECONDS (30), the duration of attacks without an end of their own; SEED.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import contextlib
import multiprocessing
import os
import random
import resource
import socket
import struct
import threading
import time

import pytest
import requests

import conftest
import wire
from conftest import DP_SGD, GAUSSIAN, PATIENCE, launch, until
from test_http_limits import MATRIX, NPY, ask, close_all, descriptors, endless, narrow, poll_long, stall
from test_limits import MIB, resident
from test_monte_carlo import ENDLESS as DRAWS

SECONDS = float(os.environ.get("ATTACK_SECONDS", "30"))
SEED = int(os.environ.get("SEED", "1"))
SANITIZED = "asan" in conftest.BINARY or "tsan" in conftest.BINARY  # they hold what was freed


class Watch:
    """The memory that the service holds, and how long another client waits."""

    def __init__(self, server, most):
        self.server, self.most, self.started, self.longest = server, most, resident(server), 0.0

    def look(self):
        started = time.monotonic()
        reply = ask(self.server, "GET /v1 HTTP/1.1")
        assert reply.status == 200
        self.longest = max(self.longest, time.monotonic() - started)
        held = resident(self.server) - self.started
        print(f"  {held / MIB:.0f} MiB, {self.longest * 1e3:.0f} ms")
        assert SANITIZED or (held < self.most and self.longest < 10)


def send(connection, data):
    """Sends everything, or as much as possible; returns the number of bytes."""
    sent = 0
    with contextlib.suppress(OSError):
        while sent < len(data):
            sent += connection.send(data[sent:])
    return sent


def test_thousands_of_idle_connections_and_half_heads(launch):
    server = launch("--max-per-address", "100000")
    watch = Watch(server, 400 * MIB)  # 32 KiB for each head
    sockets = [wire.connect(server) for _ in range(6000)]
    watch.look()
    for text in (b"GET /v1 HTTP/1.1\r\nHost: x\r\nX: ", b"x" * 30000, b"y" * 10000):
        for one in sockets:
            send(one, text)
        watch.look()
    close_all(sockets)
    watch.look()


def test_thousands_of_long_polls_come_and_go(launch):
    server = launch("--max-per-address", "100000")
    watch = Watch(server, 500 * MIB)  # with what the job takes that they wait for
    for way in ("cancel", "vanish"):
        job_id = endless(server)
        sockets = poll_long(server, job_id, 3500)
        watch.look()
        started = time.monotonic()
        if way == "cancel":
            server.post(None, f"/v1/jobs/{job_id}/cancel")
            for one in sockets:
                assert one.recv(20).startswith(b"HTTP/1.1 200")
        close_all(sockets)
        until(lambda: server.metric("epsilond_http_requests_waiting") == 0)
        assert time.monotonic() - started < 60
        watch.look()
        server.post(None, f"/v1/jobs/{job_id}/cancel")


def test_stalled_bodies_of_the_largest_size(launch):
    server = launch()
    watch = Watch(server, 200 * MIB)
    sockets = [stall(server, 8 * MIB) for _ in range(150)]
    until(lambda: server.metric("epsilond_http_requests_in_flight") >= 151)
    watch.look()
    close_all(sockets)
    watch.look()


def test_streams_without_an_end(launch):
    server = launch()
    watch = Watch(server, 64 * MIB)
    post = wire.head(server, "POST /v1/jobs HTTP/1.1", "Content-Type: application/json", "Transfer-Encoding: chunked")
    for piece, most in ((b"100000\r\n" + b" " * MIB + b"\r\n", 300 * MIB), (b"1\r\n \r\n" * 10000, 1000 * MIB)):
        with wire.connect(server, 20) as connection:
            connection.sendall(post)
            sent = 0
            while (more := send(connection, piece)) == len(piece) and sent < most:
                sent += more
            assert sent < most
        watch.look()
    with wire.connect(server, 20) as connection:  # trailers
        assert send(connection, post + b"0\r\n" + (b"X: " + b"y" * 1000 + b"\r\n") * 100000) < 100000 * 1000
        watch.look()
    with wire.connect(server, 5) as connection:  # requests, and none of the replies is read
        one = wire.head(server, "GET /v1 HTTP/1.1")
        assert send(connection, one * 500000) < 500000 * len(one)
        watch.look()


def harass(url, count, ready, stop):
    """A process of its own with so many connections: a third are idle, a third send a byte of a head from time to time,
    and a third vanish in the middle of a request and come back."""
    class Target:
        pass

    Target.url = url
    sockets = [wire.connect(Target) for _ in range(count)]
    half = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
    ready.set()
    at = 0
    while not stop.is_set():
        for at in range(at, at + 100):
            one = sockets[at % count]
            if at % 3 == 1:
                send(one, b"G")
            elif at % 3 == 2:
                send(one, half)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, no end
                one.close()
                sockets[at % count] = wire.connect(Target)
        time.sleep(0.05)


def percentile(server, share, requests_):
    """How long that share of requests for /healthz waits, in seconds."""
    waits = []
    with wire.connect(server) as connection, connection.makefile("rb") as stream:
        for _ in range(requests_):
            started = time.monotonic()
            connection.sendall(wire.head(server, "GET /healthz HTTP/1.1"))
            assert wire.read_reply(stream).status == 200
            waits.append(time.monotonic() - started)
            time.sleep(0.002)
    return sorted(waits)[int(share * len(waits))]


def test_ten_thousand_connections_hold_up_nobody(launch):
    """/healthz within 10 ms for 99 of 100, beside as many connections as the limit of descriptors allows, up to ten
    thousand, that are idle, drip or vanish."""
    count = min(10000, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 1000)
    server = launch("--max-connections", str(count + 100), "--max-per-address", str(count + 100))
    watch = Watch(server, 500 * MIB)
    ready, stop = multiprocessing.Event(), multiprocessing.Event()
    process = multiprocessing.Process(target=harass, args=(server.url, count, ready, stop))
    process.start()
    assert ready.wait(PATIENCE)
    watch.look()
    waits = [percentile(server, 0.99, 2000) for _ in range(3)]
    print(f"  {count} connections, /healthz within {', '.join(f'{1e3 * wait:.1f}' for wait in waits)} ms at p99")
    assert server.metric("epsilond_http_connections") > 0.9 * count
    assert SANITIZED or min(waits) < 0.01
    watch.look()
    stop.set()
    process.join(PATIENCE)
    until(lambda: server.metric("epsilond_http_connections") <= 2)


def hostile_texts():
    size = 8 * MIB
    yield (b"[" + b"{}," * (size // 3))[:size - 2] + b"1]"
    yield b"[" * size
    yield b"[" + b"1," * (size // 2 - 2) + b"1]"
    yield b'{"label":"' + b"\\u0000" * (size // 6 - 3) + b'"}'
    yield b'{"n":' + b"1" * (size - 8) + b"}"
    yield b'{"n":0.' + b"1" * (size - 10) + b"}"
    yield b"{" + b",".join(b'"%x":1' % i for i in range(60000)) + b"}"
    yield b'{"matrix":{"family":"dense","rows":[' + b",".join([b"[" + b"1," * 63 + b"1]"] * 60000) + b"]}}"
    yield b'{"label":"' + b"\xff" * (size - 20) + b'"}'


def test_hostile_json_from_many_sides(launch):
    server = launch()
    watch = Watch(server, 450 * MIB)
    for text in hostile_texts():
        def post():
            answer = requests.post(server.url + "/v1/jobs", data=text, timeout=PATIENCE,
                                   headers={"Content-Type": "application/json"})
            assert answer.status_code in (400, 422, 503)

        threads = [threading.Thread(target=post) for _ in range(12)]
        for thread in threads:
            thread.start()
        watch.look()
        for thread in threads:
            thread.join(PATIENCE)
        watch.look()


def test_lists_that_no_one_reads(launch):
    server = launch("--max-per-address", "100000")
    server.solve(GAUSSIAN)
    for i in range(500):
        server.post(dict(GAUSSIAN, label="\u0001" * 200))
    watch = Watch(server, 200 * MIB)
    sockets = [narrow(server, "GET /v1/jobs?limit=500 HTTP/1.1") for _ in range(500)]
    for _ in range(10):
        watch.look()
        time.sleep(1)
    close_all(sockets)
    watch.look()


def test_matrices_that_no_one_reads(launch):
    server = launch("--spool-bytes", "100MiB")
    job_id = server.solve(dict(MATRIX, matrix={"family": "square_root"}))["id"]
    watch = Watch(server, 300 * MIB)
    sockets = [narrow(server, f"GET /v1/jobs/{job_id}/matrix HTTP/1.1", NPY) for _ in range(200)]
    for _ in range(10):
        watch.look()
        assert server.metric("epsilond_spool_bytes") <= 100 * MIB
        time.sleep(1)
    close_all(sockets)
    until(lambda: server.metric("epsilond_spool_bytes") == 0)


def test_ten_thousand_labels(launch):
    server = launch()
    server.solve(GAUSSIAN)
    watch = Watch(server, 250 * MIB)

    def post(first):
        session = requests.Session()
        for i in range(first, 10000, 8):
            assert session.post(server.url + "/v1/jobs", json=dict(GAUSSIAN, label=f"label {i}")).status_code == 200

    threads = [threading.Thread(target=post, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for query in ("label=label%205", "label=nothing", "status=succeeded&label=nothing",
                  "status=failed&label=label%205"):
        started = time.monotonic()
        items = server.get("/v1/jobs?" + query).json()["items"]
        assert len(items) == (query == "label=label%205")
        assert time.monotonic() - started < 2
    watch.look()


def test_jobs_that_are_canceled_at_once(launch):
    server = launch(*conftest.ONE_BY_ONE)
    server.until(server.post(DRAWS).json()["id"], "running")  # holds little memory itself
    watch = Watch(server, 400 * MIB)
    ended = time.monotonic() + SECONDS
    number = 0
    while time.monotonic() < ended:
        job_id = server.post(dict(DP_SGD, n=1 + number % 100000)).json()["id"]
        assert server.post(None, f"/v1/jobs/{job_id}/cancel").status_code == 202
        number += 1
    assert server.metric("epsilond_jobs_queued") == 0
    watch.look()


def test_a_flood_of_cached_jobs_fills_no_disk(launch):
    server = launch("--max-db", "32MiB")
    coefficients = [1] + [1 / (2 + i) for i in range(4999)]
    job = dict(GAUSSIAN, n=5000, matrix={"family": "toeplitz", "coefficients": coefficients})
    server.solve(job)
    watch = Watch(server, 300 * MIB)
    statuses = set()

    def post():
        session = requests.Session()
        while 503 not in statuses:
            statuses.add(session.post(server.url + "/v1/jobs", json=job).status_code)

    threads = [threading.Thread(target=post) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == {200, 503}
    assert server.metric("epsilond_database_bytes") < 48 * MIB
    assert sum(file.stat().st_size for file in server.folder.iterdir() if "test.db" in file.name) < 160 * MIB
    watch.look()


REQUESTS = [
    b"GET /v1/jobs?limit=5 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /v1/jobs?wait=1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 83\r\n\r\n"
    b'{"n": 100, "sampling": {"scheme": "none"}, "noise_multiplier": 2.0, "delta": 1e-06}',
    b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'53\r\n{"n": 100, "sampling": {"scheme": "none"}, "noise_multiplier": 2.0, "delta": 1e-06}\r\n0\r\n\r\n',
    b"DELETE /v1/jobs/01234567-0000-7000-8000-000000000000 HTTP/1.1\r\nHost: localhost\r\nOrigin: http://x\r\n\r\n",
    b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: \"a\", W/\"b\", *\r\nCookie: a=b; c=\"d\"\r\n\r\n",
    b"OPTIONS * HTTP/1.0\r\nHost: localhost\r\nAccept: text/html;q=0.5, */*;q=0\r\nExpect: 100-continue\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200)),
]


def mutate(generator, data):
    """A few bytes changed, cut out, doubled, or put elsewhere."""
    data = bytearray(data)
    for _ in range(generator.randrange(4)):
        at, len_ = generator.randrange(len(data) + 1), generator.choice([1, 1, 2, 5, 40])
        way = generator.randrange(5)
        if way == 0:
            data[at:at + len_] = generator.randbytes(len_)
        elif way == 1:
            del data[at:at + len_]
        elif way == 2:
            data[at:at] = data[at:at + len_] * generator.choice([1, 2, 1000])
        elif way == 3:
            data[at:at] = generator.choice([b"\r\n", b"\n", b"\r", b"\0", b":", b" ", b"%00", b"\r\nHost: a",
                                            b"\r\nContent-Length: 3", b"\r\nTransfer-Encoding: chunked", b"\xff"])
        else:
            data += generator.choice(REQUESTS)
        if not data:
            break
    return bytes(data)


def test_noise(launch):
    """Requests with errors, in pieces, from several connections; those that stay incomplete are closed in time."""
    server = launch("--idle-seconds", "2", "--request-seconds", "2")
    watch = Watch(server, 200 * MIB)
    ended = time.monotonic() + SECONDS

    def noise(seed):
        generator = random.Random(seed)
        while time.monotonic() < ended:
            with contextlib.suppress(OSError), wire.connect(server, 0.2) as connection:
                for _ in range(generator.randrange(1, 4)):
                    data = mutate(generator, generator.choice(REQUESTS))
                    cut = generator.randrange(len(data) + 1)
                    connection.sendall(data[:cut])
                    connection.sendall(data[cut:])
                if generator.randrange(3) == 0:
                    connection.shutdown(socket.SHUT_WR)
                if generator.randrange(2) == 0:
                    connection.recv(65536)

    threads = [threading.Thread(target=noise, args=(SEED * 100 + i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    while time.monotonic() < ended:
        watch.look()
        time.sleep(1)
    for thread in threads:
        thread.join()
    assert server.metric("epsilond_bugs_total") == 0
    until(lambda: server.metric("epsilond_http_connections") <= 2)
    until(lambda: server.metric("epsilond_http_requests_in_flight") == 1)
    assert server.stop() < 30


def test_many_small_bodies_at_once(launch):
    """Each is decoded before it waits for its turn."""
    server = launch("--max-per-address", "100000")
    rows = "[" + ",".join("[" + ",".join(["1"] * (i + 1)) + "]" for i in range(175)) + "]"
    text = ('{"n":175,"matrix":{"family":"dense","rows":%s},"sampling":{"scheme":"none"},"noise_multiplier":%%d,'
            '"delta":1e-6}' % rows)
    watch = Watch(server, 900 * MIB)  # with --queue-bytes and --memory-bytes
    sockets = [wire.connect(server) for _ in range(350 if SANITIZED else 3500)]
    for i, one in enumerate(sockets):
        body = (text % (i + 1)).encode()
        one.sendall(wire.head(server, "POST /v1/jobs HTTP/1.1", "Content-Type: application/json",
                              f"Content-Length: {len(body)}") + body)
        if i % 500 == 499:
            watch.look()
    statuses = set()
    for one in sockets:
        with one.makefile("rb") as stream:
            statuses.add(wire.read_reply(stream).status)
    assert statuses <= {200, 202, 503}
    watch.look()
    close_all(sockets)


def test_runs_that_are_canceled(launch):
    """Each works on a matrix for a while until it polls."""
    server = launch("--workers", "2")
    watch = Watch(server, 500 * MIB)
    ended = time.monotonic() + SECONDS
    number = 0
    while time.monotonic() < ended:
        number += 1
        job = {"n": 1500, "matrix": {"family": "optimal", "gap": 1e-4 / number}, "noise_multiplier": 1, "delta": 1e-6,
               "sampling": {"scheme": "none"}}
        job_id = server.post(job).json()["id"]
        if number % 2:
            server.until(job_id, "running", "queued")
            time.sleep(0.1)
        assert server.post(None, f"/v1/jobs/{job_id}/cancel").status_code in (200, 202)
        if number % 20 == 0:
            watch.look()
    until(lambda: server.metric("epsilond_workers_busy") == 0)
    watch.look()


@pytest.mark.timeout(1800)
def test_questions_that_are_asked_and_left(launch):
    """Requests for curves, matrices, errors and waits by clients that hang up at once."""
    server = launch("--workers", "2")
    links = [server.solve(dict(DP_SGD, n=100 + i))["links"] for i in range(8)]
    links += [server.solve(dict(MATRIX, n=(1 << 18) + i))["links"] for i in range(10)]
    paths = [one[name] for one in links for name in ("curve", "matrix", "error")]
    paths += [one["self"] + "?wait=300" for one in links]
    paths += ["/v1/jobs?limit=500", "/openapi.yaml", "/metrics"]
    watch = Watch(server, 300 * MIB)
    ended = time.monotonic() + SECONDS
    generator = random.Random(SEED)
    sockets = []
    number = 0
    while time.monotonic() < ended:
        number += 1
        sockets.append(narrow(server, f"GET {generator.choice(paths)} HTTP/1.1"))
        if len(sockets) > 60:
            sockets.pop(generator.randrange(len(sockets))).close()
        if number % 200 == 0:
            watch.look()
    close_all(sockets)
    until(lambda: server.metric("epsilond_http_requests_in_flight") == 1)
    until(lambda: server.metric("epsilond_spool_bytes") == 0)
    until(lambda: server.metric("epsilond_jobs_queued") == 0, 5 * PATIENCE)  # what was asked for is computed
    assert server.metric("epsilond_http_reply_bytes") == 0
    watch.look()


def test_descriptors_that_run_out_amid_it_all(launch):
    """Whichever open fails: temporary files, the database, connections."""
    server = launch("--http-threads", "1")
    links = [server.solve(dict(MATRIX, n=(1 << 15) + i))["links"] for i in range(4)]
    before = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    watch = Watch(server, 200 * MIB)
    statuses = set()
    for spare in range(0, 12):
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (descriptors(server) + spare, before[1]))
        sockets = []
        for i in range(12):
            with contextlib.suppress(OSError):
                sockets.append(wire.connect(server, 2))
                name = ("matrix", "error", "curve")[i % 3]
                sockets[-1].sendall(wire.head(server, f"GET {links[i % 4][name]} HTTP/1.1"))
        for one in sockets:
            with contextlib.suppress(OSError), one.makefile("rb") as stream:
                reply = wire.read_reply(stream)
                statuses.add(reply and reply.status)
        close_all(sockets)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, before)
        until(lambda: server.metric("epsilond_http_requests_in_flight") == 1)
        assert server.solve(dict(GAUSSIAN, n=1000 + spare))["status"] == "succeeded"
        watch.look()
    print(statuses)
    assert 200 in statuses and statuses <= {None, 200, 500, 503}
    assert server.metric("epsilond_bugs_total") == 0
    assert len(server.log_text()) < 200000
