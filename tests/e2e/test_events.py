"""Event streams: their content, their end, and their cost."""
import itertools
import time

import pytest
import requests

import wire
from conftest import DP_SGD, ENDLESS, GAUSSIAN, ONE_BY_ONE, PATIENCE, check_problem, until
from follow import Stream, follow

pytestmark = pytest.mark.sanitized


def test_progress_and_then_the_whole_job(server):
    document = server.post(dict(DP_SGD, n=90001)).json()
    events = follow(server, document["links"]["events"])
    *progress, last = events
    assert {event.name for event in progress} <= {"progress"}
    fractions = [event.data["fraction"] for event in progress]
    assert fractions == sorted(fractions)
    assert all(set(event.data) == {"fraction", "stage", "remaining_seconds"} for event in progress)
    assert (last.name, last.id) == ("job", "final")
    assert last.data == server.get(document["links"]["self"]).json()
    assert last.data["status"] == "succeeded"


def test_a_job_that_waits_is_followed_through_its_run(launch):
    server = launch(*ONE_BY_ONE)
    first = server.post(ENDLESS).json()
    server.until(first["id"], "running")
    second = server.post(GAUSSIAN).json()
    stream = Stream(server, second["links"]["events"])
    events = iter(stream)
    waiting = next(events)
    assert waiting.data == {"fraction": 0, "stage": None, "remaining_seconds": None}
    server.post(None, first["links"]["cancel"])
    rest = list(events)
    assert rest[-1].name == "job" and rest[-1].data["status"] == "succeeded"


def test_a_final_job_is_told_once(server):
    document = server.solve(GAUSSIAN)
    path = document["links"]["events"]
    (only,) = follow(server, path)
    assert (only.name, only.data) == ("job", document)
    # A client that reconnects after the end has received everything, and is told not to reconnect.
    assert server.get(path, headers={"Last-Event-ID": only.id}).status_code == 204
    assert len(follow(server, path, last="3")) == 1
    check_problem(server.get(path, headers={"Last-Event-ID": "x"}), 422, "invalid-job")
    check_problem(server.get(path.replace(document["id"], document["id"][:-12] + 12 * "0")), 404, "not-found")
    check_problem(server.get("/v1/jobs/x/events"), 404, "not-found")
    check_problem(server.get(path, headers={"Accept": "application/json"}), 406, "not-acceptable")
    head = server.request("HEAD", path)
    assert head.status_code == 200 and head.headers["Content-Type"] == "text/event-stream"


def test_who_comes_back_is_not_told_the_same_again(launch):
    server = launch(*ONE_BY_ONE)
    server.until(server.post(ENDLESS).json()["id"], "running")
    waiting = server.post(GAUSSIAN).json()
    path = waiting["links"]["events"]
    stream = Stream(server, path)
    seen = next(iter(stream)).id
    stream.close()
    again = Stream(server, path, last=seen)
    server.post(None, waiting["links"]["cancel"])
    assert [event.name for event in again if event.id == seen] == []


def test_cancel_of_one_ends_its_stream_alone(launch):
    """Two jobs of one run: each has a stream, and the run continues."""
    server = launch(*ONE_BY_ONE)
    one, other = server.post(ENDLESS).json(), server.post(ENDLESS).json()
    server.until(other["id"], "running")
    streams = [Stream(server, job["links"]["events"]) for job in (one, other)]
    readers = [iter(stream) for stream in streams]
    for reader in readers:
        assert next(reader).name == "progress"
    server.post(None, one["links"]["cancel"])
    assert list(readers[0])[-1].data["status"] == "canceled"
    assert server.get(other["links"]["self"]).json()["status"] == "running"
    server.post(None, other["links"]["cancel"])
    assert list(readers[1])[-1].data["status"] == "canceled"


def test_a_stop_ends_streams(launch):
    server = launch(*ONE_BY_ONE)
    job = server.post(ENDLESS).json()
    stream = Stream(server, job["links"]["events"])
    events = iter(stream)
    next(events)
    server.stop()
    assert all(event.name == "progress" for event in events)
    server.start()
    assert next(iter(Stream(server, job["links"]["events"]))).name == "progress"
    server.post(None, job["links"]["cancel"])


def test_a_client_that_hangs_up_leaves_nothing(launch):
    server = launch(*ONE_BY_ONE)
    server.until(server.post(ENDLESS).json()["id"], "running")
    waiting = server.post(GAUSSIAN).json()
    before = server.metric("epsilond_http_connections")
    streams = [Stream(server, waiting["links"]["events"]) for _ in range(20)]
    readers = [iter(stream) for stream in streams]  # a stream that is garbage-collected is closed
    for reader in readers:
        next(reader)
    until(lambda: server.metric("epsilond_http_requests_waiting") == 20)
    for stream in streams:
        stream.close()
    until(lambda: server.metric("epsilond_http_requests_waiting") == 0)
    until(lambda: server.metric("epsilond_http_connections") == before)


def ticks(server):
    """Of all threads except the one that computes, which has the most."""
    return sum(sorted(int(line.split(", ")[1].split()[0]) + int(line.split(" + ")[1].split()[0])
                      for line in server.threads())[:-1])


def test_streams_with_nothing_to_say_cost_nothing(launch):
    """500 idle streams: they use no thread and no processor time. Then all receive the end."""
    server = launch(*ONE_BY_ONE)
    server.until(server.post(ENDLESS).json()["id"], "running")
    waiting = server.post(GAUSSIAN).json()
    threads = len(server.threads())
    sockets = [wire.connect(server, PATIENCE) for _ in range(500)]
    for one in sockets:
        one.sendall(wire.head(server, f"GET {waiting['links']['events']} HTTP/1.1"))
    until(lambda: server.metric("epsilond_http_requests_waiting") == 500)
    assert len(server.threads()) <= threads + 2  # readers of the database and helpers, independent of the number of
                                                 # streams
    before = ticks(server)
    time.sleep(3)
    assert ticks(server) - before <= 10, server.threads()
    server.post(None, waiting["links"]["cancel"])
    for one in sockets:
        with one, one.makefile("rb") as stream:
            assert wire.read_reply(stream).status == 200
            told = b"".join(itertools.takewhile(lambda line: line != b"0\r\n", stream))
            assert b"event: job\ndata: {" in told and b'"status":"canceled"' in told
    until(lambda: server.metric("epsilond_http_requests_waiting") == 0)


def test_a_client_that_does_not_read_is_sent_away(launch):
    """The document is counted in the memory of replies, and the connection has a deadline."""
    server = launch("--request-seconds", "1")
    coefficients = [1.0] + [0.123456789012345 / (i + 1) for i in range(200000)]
    document = server.solve({"n": 200001, "matrix": {"family": "toeplitz", "coefficients": coefficients},
                             "sampling": {"scheme": "none"}, "noise_multiplier": 3, "delta": 1e-6})
    connections = []
    for _ in range(3):
        connection = wire.connect(server)
        connection.sendall(wire.head(server, f"GET {document['links']['events']} HTTP/1.1"))
        connections.append(connection)
    until(lambda: server.metric('epsilond_http_connections_closed_total{reason="expired"}') >= 3)
    until(lambda: server.metric("epsilond_http_reply_bytes") == 0)
    for connection in connections:
        connection.close()
    assert requests.get(server.url + document["links"]["events"]).text.startswith("retry: ")
