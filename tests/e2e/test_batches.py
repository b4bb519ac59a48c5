"""
Batches over HTTP: the examples of the contract, sampling that is decoded like that of a job with the same errors, users
of examples, large replies streamed in bounded memory, and their end with the client and with the service. Their
distributions are tested by tests/unit/sampling/test_batches.c.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import concurrent.futures
import json
import socket
import time

import pytest
import yaml

import wire
from conftest import DP_SGD, ROOT, check_problem, until
from test_limits import MIB

pytestmark = pytest.mark.sanitized
CONTRACT = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text())
EXAMPLES = CONTRACT["paths"]["/v1/batches"]["post"]["requestBody"]["content"]["application/json"]["examples"]
PATH = "/v1/batches"
POISSON = {"n": 50, "sampling": {"scheme": "poisson", "p": 0.1}, "dataset_size": 1000}
SHARED = {"n": 60, "sampling": {"scheme": "b_min_sep", "p": 0.2, "separation": 4, "examples_per_user": 2}}
# 10^7 examples, 10^5 per step: more than is ever read here.
ENDLESS = {"n": 1 << 24, "sampling": {"scheme": "poisson", "p": 0.01}, "dataset_size": 10 ** 7}


def lines_of(answer):
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert answer.headers["Cache-Control"] == "no-store"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    for step, line in enumerate(lines):
        assert list(line) == ["step", "indices", "truncated"] and line["step"] == step
        assert line["indices"] == sorted(set(line["indices"]))
    return lines


def post_lines(server, request, users):
    body = "\n".join(json.dumps(line) for line in [request, *({"users": list(who)} for who in users)])
    return server.request("POST", PATH, data=body.encode(), headers={"Content-Type": "application/x-ndjson"})


@pytest.mark.parametrize("name", [name for name in EXAMPLES if "job" not in EXAMPLES[name]["value"]])
def test_every_example_of_the_contract(server, name):
    request = EXAMPLES[name]["value"]
    lines = lines_of(server.post(request, PATH))
    assert len(lines) == request["n"]
    dataset = request.get("dataset_size") or request["sampling"]["dataset_size"]
    assert all(0 <= index < dataset for line in lines for index in line["indices"])


def test_a_seed_repeats_and_says_so(server):
    first, second = (server.post(dict(POISSON, seed=5), PATH) for _ in range(2))
    assert lines_of(first) == lines_of(second)
    assert first.headers["X-Guarantee"] == "none"
    other = server.post(dict(POISSON, seed=6), PATH)
    drawn, again = (server.post(POISSON, PATH) for _ in range(2))
    assert "X-Guarantee" not in drawn.headers
    texts = {answer.text for answer in (first, other, drawn, again)}
    assert len(texts) == 4
    array = server.post(dict(POISSON, seed=5), PATH, headers={"Accept": "application/json"})
    assert array.headers["Content-Type"] == "application/json"
    assert array.json() == lines_of(first)


def test_the_sampling_is_a_jobs(server):
    """The sampling can be posted as the service returned it, and gives the derived values."""
    job = {"n": 30, "matrix": {"family": "square_root", "bands": 6}, "delta": 1e-6, "noise_multiplier": 1,
           "sampling": {"scheme": "b_min_sep", "batch_size": 50, "dataset_size": 1000,
                        "truncation": {"max_batch_size": 60}}}
    accounted = server.solve(job)
    sampling = accounted["job"]["sampling"]
    assert sampling["separation"] == 6
    lines = lines_of(server.post({"n": 30, "sampling": sampling}, PATH))
    assert all(len(line["indices"]) <= 60 for line in lines)
    assert 35 < sum(len(line["indices"]) + line["truncated"] for line in lines) / 30 < 65
    last = {}
    for line in lines:
        for index in line["indices"]:
            assert line["step"] - last.get(index, -6) >= 6
            last[index] = line["step"]


def test_of_a_job_they_are_those_that_its_answer_accounts_for(server):
    job = server.solve({"n": 30, "matrix": {"family": "square_root", "bands": 6}, "delta": 1e-6, "noise_multiplier": 1,
                        "sampling": {"scheme": "b_min_sep", "batch_size": 50, "dataset_size": 1000}})
    asked = {"n": 30, "sampling": job["job"]["sampling"]}
    named = server.post({"job": job["id"], "seed": 3}, job["links"]["batches"])
    assert lines_of(named) == lines_of(server.post(dict(asked, seed=3), PATH))
    twice = server.post({"job": job["id"], "seed": 3, "dataset_size": 1000, "n": None, "sampling": None}, PATH)
    assert lines_of(twice) == lines_of(named)
    wrong = check_problem(server.post({"job": job["id"], "dataset_size": 999}, PATH), 422, "invalid-job",
                          "/dataset_size")
    assert "sampling.dataset_size" in wrong["detail"]


def test_of_a_job_without_a_data_set_it_is_asked_for(server):
    job = server.solve(DP_SGD)["id"]
    check_problem(server.post({"job": job}, PATH), 422, "invalid-job", "/dataset_size")
    assert len(lines_of(server.post({"job": job, "dataset_size": 50}, PATH))) == DP_SGD["n"]


def test_of_a_phase_and_of_the_largest_number(server):
    phases = {"phases": [{"n": 5, "sampling": {"scheme": "poisson", "p": 0.5}},
                         {"n": 6, "matrix": {"family": "square_root", "bands": 2}, "count": 2,
                          "sampling": {"scheme": "cyclic_poisson", "p": 0.5}}], "noise_multiplier": 2, "delta": 1e-5}
    job = server.solve(phases)["id"]
    check_problem(server.post({"job": job, "dataset_size": 9}, PATH), 422, "invalid-job", "?phase")
    for phase, steps in enumerate((5, 6)):
        assert len(lines_of(server.post({"job": job, "dataset_size": 9}, f"{PATH}?phase={phase}"))) == steps
    groups = lines_of(server.post({"job": job, "dataset_size": 9}, f"{PATH}?phase=1"))  # two, from the bands
    assert not {i for line in groups[::2] for i in line["indices"]} & {i for line in groups[1::2]
                                                                       for i in line["indices"]}
    check_problem(server.post(POISSON, PATH + "?phase=0"), 422, "invalid-job", "?phase")
    largest = server.solve({"n": "max", "sampling": {"scheme": "poisson", "p": 0.1}, "epsilon": 1, "delta": 1e-5,
                            "noise_multiplier": 2})
    assert len(lines_of(server.post({"job": largest["id"], "dataset_size": 9}, PATH))) == largest["result"]["n"]


def test_of_a_job_whose_users_are_told(server):
    job = server.solve(dict(SHARED, noise_multiplier=2, delta=1e-5))["id"]
    check_problem(server.post({"job": job, "dataset_size": 4}, PATH), 422, "invalid-job", "/users")
    answer = post_lines(server, {"job": job, "seed": 1}, [[1], [1], [2], [3]])
    assert lines_of(answer) == lines_of(post_lines(server, dict(SHARED, seed=1), [[1], [1], [2], [3]]))
    wrong = post_lines(server, {"job": job, "dataset_size": 5}, [[1], [1], [2], [3]])
    check_problem(wrong, 422, "invalid-job", "/dataset_size")


def test_a_job_that_is_not_there(server):
    check_problem(server.post({"job": "01234567-0000-7000-8000-000000000000"}, PATH), 404, "not-found")


def test_only_a_succeeded_job_has_batches(launch):
    server = launch()
    failed = server.post({"n": 9, "sampling": {"scheme": "none"}, "epsilon": 0, "delta": 1e-30},
                         "/v1/jobs?wait=60").json()["id"]
    problem = check_problem(server.post({"job": failed, "dataset_size": 9}, PATH), 409, "conflict")
    assert "this job is failed" in problem["detail"]


@pytest.mark.parametrize("change, pointers", [
    ({"sampling": {"scheme": "poisson", "p": 0}, "seed": -1}, {"/sampling/p", "/seed"}),
    ({"sampling": {"scheme": "b_min_sep", "p": 0.1, "separation": 4, "examples_per_user": 2}}, {"/users"}),
])
def test_what_is_wrong_is_named(server, change, pointers):
    problem = check_problem(server.post(dict(POISSON, **change), PATH), 422, "invalid-job")
    assert {error["pointer"] for error in problem["errors"]} == pointers


def test_bodies_that_are_none(server):
    check_problem(server.request("POST", PATH, data="[1", headers={"Content-Type": "application/json"}), 400,
                  "malformed-json")
    check_problem(server.post([1], PATH), 422, "invalid-job", "")
    refused = check_problem(server.request("POST", PATH, data="{}", headers={"Content-Type": "text/plain"}), 415,
                            "media-type")
    assert "application/x-ndjson" in refused["detail"]
    check_problem(server.request("POST", "/v1/jobs", data=json.dumps(DP_SGD),
                                 headers={"Content-Type": "application/x-ndjson"}),
                  415, "media-type")


def test_who_shares_a_user_keeps_a_distance(server):
    users = [(j // 3, f"pair {j // 2}") if j % 3 else (j // 3,) for j in range(300)]
    shared = dict(SHARED, sampling=dict(SHARED["sampling"], examples_per_user=3))
    last = {}
    lines = lines_of(post_lines(server, shared, users))
    for line in lines:
        for index in line["indices"]:
            for user in users[index]:
                assert line["step"] - last.get(user, line["step"]) in (0, *range(4, 60))
                last[user] = line["step"]
    assert sum(len(line["indices"]) for line in lines) > 100


def test_lists_of_users_are_checked(server):
    pairs = [(j // 2,) for j in range(10)]
    assert len(lines_of(post_lines(server, dict(SHARED, dataset_size=10), pairs))) == 60
    check_problem(post_lines(server, dict(SHARED, dataset_size=11), pairs), 422, "invalid-job", "/dataset_size")
    wrong = [("a",), (), (-1,), (2.5,), ("",), ("x" * 201,), (None,), list(range(70)), [*range(70), -1]]
    problem = check_problem(post_lines(server, SHARED, wrong), 422, "invalid-job")
    assert [error["pointer"] for error in problem["errors"]] == [f"/users/{j}" for j in (1, 2, 3, 4, 5, 6, 8)]
    assert problem["errors"][0]["detail"].startswith("line 3 must be")
    crowd = check_problem(post_lines(server, SHARED, [(1,), (2,), (1.0,), (1,)]), 422, "invalid-job", "/users")
    assert "example 3" in crowd["errors"][0]["detail"]  # 1.0 is 1, as in all requests
    assert post_lines(server, SHARED, [(1,), ("1",), ("1",), (1,)]).status_code == 200  # and "1" is a different user
    body = json.dumps(SHARED) + '\n{"users":[1]}\n{"users":[1}\n'
    malformed = server.request("POST", PATH, data=body, headers={"Content-Type": "application/x-ndjson"})
    assert check_problem(malformed, 400, "malformed-json")["detail"].startswith("line 3 of the body: line 1, column 12")
    alone = server.request("POST", PATH, data=json.dumps(POISSON), headers={"Content-Type": "application/x-ndjson"})
    assert len(lines_of(alone)) == 50


def memory_of(server):
    """MiB in use, now and at the maximum so far."""
    status = dict(line.split(":", 1) for line in open(f"/proc/{server.process.pid}/status"))
    return [int(status[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")]


def test_a_large_answer_takes_little_memory(launch):
    """Two million examples and a thousand steps: a hundred megabytes of lines, with some tens of megabytes of
    memory."""
    server = launch()
    request = {"n": 1000, "sampling": {"scheme": "b_min_sep", "p": 0.01, "separation": 20}, "dataset_size": 2 * 10 ** 6}
    read, steps, before = 0, 0, memory_of(server)[0]
    with server.request("POST", PATH, json=request, stream=True) as answer:
        for piece in answer.iter_content(1 << 20):
            read += len(piece)
            steps += piece.count(b"\n")
    assert steps == 1000 and read > 100 << 20
    instrumented = "asan" in str(server.process.args[0]) or "tsan" in str(server.process.args[0])
    assert instrumented or memory_of(server)[1] - before < 40
    assert server.metric("epsilond_drawn_bytes") == 0
    until(lambda: server.metric("epsilond_http_reply_bytes") == 0)


def ask(server, request):
    connection = wire.connect(server)
    body = json.dumps(request).encode()
    connection.sendall(wire.head(server, f"POST {PATH} HTTP/1.1", "Content-Type: application/json",
                                 f"Content-Length: {len(body)}") + body)
    return connection


def test_a_client_that_hangs_up_ends_it(launch):
    server = launch()
    connections = [ask(server, ENDLESS) for _ in range(4)]
    for connection in connections:
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
    assert server.metric("epsilond_drawn_bytes") > 0
    for connection in connections:
        connection.close()
    until(lambda: server.metric("epsilond_drawn_bytes") == 0 and server.metric("epsilond_http_requests_in_flight") == 1)


def test_others_are_answered_meanwhile(launch):
    """More endless replies than the side pool has threads, all of them being read."""
    server = launch()
    done = server.solve(DP_SGD)
    connections = [ask(server, ENDLESS) for _ in range(5)]
    stopped = False

    def read(connection):
        got = 0
        connection.settimeout(60)
        while not stopped:
            piece = connection.recv(1 << 20)
            got += len(piece)
            assert piece
        return got

    with concurrent.futures.ThreadPoolExecutor(5) as readers:
        reads = [readers.submit(read, connection) for connection in connections]
        try:
            for _ in range(20):
                assert server.get(done["links"]["matrix"]).status_code == 200
                assert server.get(done["links"]["curve"]).status_code == 200
            assert lines_of(server.post(POISSON, PATH))
        finally:
            stopped = True
        assert min(job.result() for job in reads) > 1 << 18
    for connection in connections:
        connection.close()


def test_a_stop_ends_it(launch):
    server = launch()
    lazy = ask(server, ENDLESS)
    assert lazy.recv(1000).startswith(b"HTTP/1.1 200")
    busy = ask(server, ENDLESS)
    assert busy.recv(1000).startswith(b"HTTP/1.1 200")
    server.stop()
    tail = b""
    busy.settimeout(30)
    try:
        while (piece := busy.recv(1 << 20)):
            tail = (tail + piece)[-5:]
    except ConnectionError:
        pass
    assert tail != b"0\r\n\r\n"  # it must not look complete
    for connection in (lazy, busy):
        connection.close()


def narrow(server, asked=None):
    """A client with a small receive window that has started to read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
    connection.settimeout(60)
    connection.connect(wire.address(server))
    body = json.dumps(asked or ENDLESS).encode()
    connection.sendall(wire.head(server, f"POST {PATH} HTTP/1.1", "Content-Type: application/json",
                                 f"Content-Length: {len(body)}") + body)
    assert connection.recv(100).startswith(b"HTTP/1.1 200")
    return connection


def stalled(server, connection):
    """Reads nothing for twice the time for which the reader of a stream may pause before others take precedence."""
    time.sleep(3)
    assert server.metric('epsilond_http_connections_closed_total{reason="expired"}') == 0


def test_who_pauses_keeps_its_place(launch):
    """For example to evaluate, compile or write a checkpoint: what was sent before is read, and then more."""
    server = launch("--request-seconds", "1")
    with narrow(server) as slow, narrow(server) as lazy:
        for connection in (slow, lazy):
            stalled(server, connection)
        read = 0
        while read < 20 << 20:  # more than the sockets can hold
            read += len(slow.recv(1 << 20))
        lazy.close()
    until(lambda: server.metric("epsilond_drawn_bytes") == 0)


def test_the_kernel_waits_as_well(launch):
    """A closed window does not mean that the client is gone, in spite of TCP_USER_TIMEOUT on other connections."""
    server = launch("--request-seconds", "1")
    with narrow(server) as slow:
        time.sleep(15)  # other connections are given up after 10 (listen.c)
        read = 0
        while read < 20 << 20:
            read += len(slow.recv(1 << 20))
    until(lambda: server.metric("epsilond_drawn_bytes") == 0)


def test_who_pauses_makes_room(launch):
    """If the memory for streams is in use, the stream that has stalled longest is closed, and no other."""
    server = launch("--request-seconds", "1", "--draw-bytes", "300MiB")
    bins = {"n": 10000, "sampling": {"scheme": "balls_in_bins", "bins": 10000}, "dataset_size": 10 ** 7}
    lazy, busy = narrow(server, bins), narrow(server, bins)
    held = server.metric("epsilond_drawn_bytes")
    more = dict(bins, dataset_size=int(10 ** 7 * (300 * MIB - held) / held * 2.4))
    check_problem(server.post(more, PATH, stream=True), 503, "queue-full")  # none has stalled yet
    for _ in range(30):
        assert busy.recv(1 << 16)
        time.sleep(0.1)
    check_problem(server.post(more, PATH, stream=True), 503, "queue-full")
    until(lambda: server.metric("epsilond_drawn_bytes") < held)
    assert server.metric('epsilond_http_connections_closed_total{reason="expired"}') == 1
    with server.post(more, PATH, stream=True) as answer:
        assert answer.status_code == 200
    for _ in range(20):
        assert busy.recv(1 << 20)
    lazy.close()
    busy.close()
    until(lambda: server.metric("epsilond_drawn_bytes") == 0)  # until then a thread may draw the bins of all examples


def test_memory_is_counted_before_it_is_had(launch):
    server = launch("--draw-bytes", "60MiB", "--max-operations", "1e15")
    bins = {"n": 10, "sampling": {"scheme": "balls_in_bins", "bins": 10}, "dataset_size": 5 * 10 ** 6}
    held = ask(server, bins)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    assert held.recv(1000).startswith(b"HTTP/1.1 200")
    refused = check_problem(server.post(bins, PATH), 503, "queue-full")
    assert "--draw-bytes" in refused["detail"]
    assert lines_of(server.post(POISSON, PATH))  # a small request is always possible
    held.close()
    until(lambda: server.metric("epsilond_drawn_bytes") == 0)
    check_problem(server.post(dict(bins, dataset_size=10 ** 8), PATH), 422, "too-costly")


def test_too_much_is_told_beforehand(launch):
    server = launch("--max-operations", "1e6")
    problem = check_problem(server.post(ENDLESS, PATH), 422, "too-costly")
    assert problem["operations"] > 1e6 and problem["bytes"] > 0


def test_keys_are_not_told(launch):
    """Neither the seed nor the batches are in the log or the database."""
    server = launch()
    server.post(dict(POISSON, seed=987654321), PATH)
    server.stop()
    assert "987654321" not in server.log_text()
    assert b"987654321" not in open(server.database, "rb").read()
