"""
The Python client of api/python with a real server, and its behaviour without responses, with a server that is told to
fail.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

import numpy
import pytest
import yaml

from conftest import DP_SGD, ENDLESS, GAUSSIAN, ONE_BY_ONE, PATIENCE, ROOT, until
from test_monte_carlo import ENDLESS as DRAWS

PACKAGE = ROOT / "api" / "python"
sys.path.insert(0, str(PACKAGE))

import epsilond  # noqa: E402
from epsilond import arrays, transport  # noqa: E402

TOEPLITZ = {"n": 64, "matrix": {"family": "square_root", "bands": 4}, "sampling": {"scheme": "none"},
            "noise_multiplier": 2.0,
            "delta": 1e-6}
DENSE = {"n": 3, "matrix": {"family": "dense", "rows": [[1], [0.5, 1], [0.25, 0.5, 1]], "normalization": "none"},
         "sampling": {"scheme": "none"}, "noise_multiplier": 2.0, "delta": 1e-6}

PHASES = {"phases": [{"n": 20, "sampling": {"scheme": "poisson", "p": 0.1}},
                     {"n": 10, "sampling": {"scheme": "cyclic_poisson", "p": 0.1},
                      "matrix": {"family": "square_root", "bands": 2}, "count": 3}],
          "noise_multiplier": 1.0, "delta": 1e-6}


@pytest.fixture
def client(server):
    with epsilond.Client(server.url, retry_seconds=PATIENCE) as made:
        yield made


# ---------------------------------------------------------------- jobs

def test_a_job_is_solved(server, client):
    job = client.solve(DP_SGD)
    assert job["status"] == "succeeded"
    assert job["result"] == server.get(job["links"]["self"]).json()["result"]
    link = job["links"]["self"]
    assert client.get(job) == client.get(job["id"]) == client.get(link) == client.wait(job) == server.get(link).json()


def test_a_job_is_submitted_waited_for_canceled_and_deleted(launch):
    client = epsilond.Client(launch().url)
    job = client.submit(ENDLESS)
    assert job["status"] in ("queued", "running")
    with pytest.raises(TimeoutError, match=job["id"]):
        client.wait(job, timeout=0.2)
    with pytest.raises(epsilond.Conflict):
        client.delete(job)
    client.cancel(job)
    assert client.wait(job)["status"] == "canceled"
    assert client.cancel(job)["status"] == "canceled"
    client.delete(job)
    with pytest.raises(epsilond.NotFound):
        client.get(job)
    with pytest.raises(epsilond.NotFound):
        client.delete(job)


def test_waiting_lasts_as_long_as_it_is_told_or_takes(launch):
    client = epsilond.Client(launch().url)
    job = client.submit(ENDLESS)
    threading.Timer(1.0, client.cancel, [job]).start()
    assert client.wait(job)["status"] == "canceled"
    with pytest.raises(TimeoutError):
        client.solve(ENDLESS, timeout=0.2)


def test_a_job_without_an_answer_is_an_exception_where_one_is_wanted(launch):
    client = epsilond.Client(launch().url)
    with pytest.raises(epsilond.JobFailed) as failed:
        client.solve({"n": 9, "sampling": {"scheme": "none"}, "epsilon": 0, "delta": 1e-30})
    assert failed.value.type == "unattainable" and failed.value.job["status"] == "failed"
    assert client.wait(failed.value.job)["status"] == "failed"  # there is nothing to wait for when only the end is left

    def cancel():
        until(lambda: list(client.jobs(status="running")))
        client.cancel(next(client.jobs(status="running")))

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(epsilond.JobFailed) as canceled:
        client.solve(ENDLESS)
    thread.join()
    assert canceled.value.job["status"] == canceled.value.type == "canceled"
    assert str(canceled.value) == f"canceled: job {canceled.value.job['id']} is canceled"


def test_lists_go_over_pages(launch, monkeypatch):
    client = epsilond.Client(launch().url)
    monkeypatch.setattr("epsilond.client.PAGE", 3)
    made = [client.solve(dict(GAUSSIAN, n=n, label="even" if n % 2 == 0 else "odd"))["id"] for n in range(1, 9)]
    assert [job["id"] for job in client.jobs()] == made[::-1]
    assert [job["id"] for job in client.jobs(label="even")] == made[1::2][::-1]
    assert list(client.jobs(status="failed")) == []
    assert [job["label"] for job in client.jobs(status="succeeded", label="odd")] == ["odd"] * 4
    with pytest.raises(epsilond.Invalid) as wrong:
        list(client.jobs(status="done"))
    assert wrong.value.pointers == ["?status"]


def test_a_key_is_one_job(client):
    first = client.submit(dict(GAUSSIAN, n=4001), key="sweep-17")
    assert client.submit(dict(GAUSSIAN, n=4001), key="sweep-17")["id"] == first["id"]
    with pytest.raises(epsilond.Conflict):
        client.submit(dict(GAUSSIAN, n=4002), key="sweep-17")
    assert client.submit(dict(GAUSSIAN, n=4001))["id"] != first["id"]  # each call uses a new key


def test_events_are_followed_to_the_end(launch):
    client = epsilond.Client(launch().url)
    job = client.submit(ENDLESS)
    stream = client.events(job)
    first = next(stream)
    assert first.kind == "progress" and 0 <= first.data["fraction"] < 1 and first.id
    client.cancel(job)
    *_, last = stream
    assert (last.kind, last.data) == ("job", client.get(job))
    assert [event.kind for event in client.events(job["id"])][-1] == "job"
    assert list(client.events(job, last_event_id=last.id)) == []
    with pytest.raises(epsilond.NotFound):
        next(client.events("nobody"))


def test_events_outlast_a_restart(launch):
    server = launch()
    client = epsilond.Client(server.url, retry_seconds=PATIENCE)
    job = client.submit(DRAWS)  # whose progress is told often
    stream = client.events(job)
    next(stream)
    server.kill()
    server.start("--listen", "127.0.0.1:" + server.url.rsplit(":", 1)[1])
    assert next(stream).kind == "progress"
    client.cancel(job)
    assert [event.kind for event in stream][-1] == "job"


def test_a_sweep_is_submitted_followed_and_read(launch, monkeypatch):
    monkeypatch.setattr("epsilond.client.PAGE", 4)
    client = epsilond.Client(launch().url)
    grid = {"/noise_multiplier": [1.0, 2.0], "/n": numpy.array([10, 20, 30])}
    sweep = client.sweep(GAUSSIAN, grid, label="six", key="six")
    assert client.sweep(GAUSSIAN, grid, label="six", key="six")["id"] == sweep["id"]
    *_, last = client.events(sweep)
    assert last.kind == "sweep" and last.data == client.get(sweep)
    done = client.wait(sweep)
    assert (done["status"], done["total"], done["done"], done["failed"]) == ("succeeded", 6, 6, 0)
    rows = list(client.points(sweep))
    assert [(row["/noise_multiplier"], row["/n"]) for row in rows] == [(s, n) for s in (1, 2) for n in (10, 20, 30)]
    assert [row["epsilon"] for row in rows] == [client.get(row["job"])["result"]["epsilon"] for row in rows]
    assert [one["id"] for one in client.sweeps(label="six")] == [sweep["id"]]
    client.delete(sweep)
    assert list(client.sweeps()) == []
    with pytest.raises(epsilond.Invalid) as wrong:
        client.sweep(GAUSSIAN, {"/no/where": [1]})
    assert any("no" in pointer for pointer in wrong.value.pointers)


def test_a_sweep_is_canceled_as_a_whole(launch):
    client = epsilond.Client(launch().url)
    sweep = client.sweep(ENDLESS, {"/n": [4000, 4001, 4002]})
    client.cancel(sweep)
    assert client.wait(sweep)["status"] == "canceled"
    assert {row["status"] for row in client.points(sweep)} == {"canceled"}


def test_a_plan_ends_in_a_job_that_can_be_posted(launch):
    client = epsilond.Client(launch().url)
    plan = client.plan({"n": 40, "batch_size": 10, "dataset_size": 100, "epsilon": 4, "delta": 1e-5, "max_bands": 4,
                        "families": ["identity", "square_root"], "schemes": ["none", "poisson"], "label": "which"})
    *_, last = client.events(plan)
    assert last.kind == "plan" and last.data["id"] == plan["id"]
    done = client.wait(plan)
    assert done["status"] == "succeeded"
    best = done["candidates"][0]
    assert best["rank"] == 1 and {one["scheme"] for one in done["candidates"]} == {"none", "poisson"}
    job = client.solve(best["job"])
    assert job["result"]["noise_multiplier"] == best["noise_multiplier"]
    assert [one["id"] for one in client.plans(label="which")] == [plan["id"]]
    client.delete(plan)
    with pytest.raises(epsilond.NotFound):
        client.get(plan)
    with pytest.raises(epsilond.Invalid) as wrong:
        client.plan({"n": 40})
    assert "/batch_size" in wrong.value.pointers


# ---------------------------------------------------------------- results of a job

def test_phases_and_what_is_spent_in_them(server, client):
    job = client.solve(PHASES)
    spent = client.spend(job)
    assert spent == server.get(job["links"]["spend"]).json()["points"]
    assert [point["step"] for point in spent if point["step"] in (20, 50)] == [20, 50]  # the ends of the phases
    assert spent[-1]["step"] == 50 and spent[-1]["epsilon"] == pytest.approx(job["result"]["epsilon"], rel=0.02)
    epsilons = [point["epsilon"] for point in spent]
    assert epsilons == sorted(epsilons)
    for phase, steps in enumerate((20, 10)):
        assert client.error(job, phase=phase) == server.get(f"{job['links']['error']}?phase={phase}").json()["variance"]
        assert client.matrix(job, "noise", phase=phase).shape == (steps,)
    with pytest.raises(epsilond.Invalid) as wrong:
        client.error(job)
    assert wrong.value.pointers == ["?phase"]
    with pytest.raises(epsilond.Conflict):
        client.spend(client.solve({"n": 10, "sampling": {"scheme": "none"}, "noise_multiplier": 1, "curve": True}))


def test_curve_error_and_statement(server, client):
    job = client.solve(TOEPLITZ)
    assert client.curve(job) == server.get(job["links"]["curve"]).json()["points"]
    variance = client.error(job)
    assert len(variance) == 64 and variance[-1] == pytest.approx(job["result"]["error"]["last_squared"])
    assert client.statement(job).startswith("# Privacy statement\n")
    assert client.statement_facts(job)["guarantee"]["epsilon"] == job["result"]["epsilon"]
    with pytest.raises(epsilond.Conflict):
        client.curve(client.solve({"n": 64, "matrix": {"family": "square_root", "bands": 4}, "noise_multiplier": 0.7,
                                   "sampling": {"scheme": "b_min_sep", "p": 0.02}, "delta": 1e-3,
                                   "accountant": "monte_carlo"}))


def test_matrices_are_numpy_arrays(server, client):
    job = client.solve(TOEPLITZ)
    told = server.get(job["links"]["matrix"]).json()
    column = client.matrix(job)
    assert isinstance(column, numpy.ndarray) and column.shape == (64,) and column.tolist() == told["coefficients"]
    noise = client.matrix(job, "noise")
    assert numpy.allclose(numpy.convolve(column, noise)[:64], numpy.eye(64)[0])
    bands = client.matrix(job, form="bands")
    assert bands.shape == (64, 4) and bands[10].tolist() == told["coefficients"][:4]
    dense = client.solve(DENSE)
    assert client.matrix(dense).tolist() == [[1, 0, 0], [0.5, 1, 0], [0.25, 0.5, 1]]
    assert numpy.allclose(client.matrix(dense) @ client.matrix(dense, "noise"), numpy.eye(3))
    with pytest.raises(epsilond.Invalid) as wrong:
        client.matrix(job, "half")
    assert wrong.value.pointers == ["?part"]


def test_numpy_arrays_stand_in_jobs(client):
    rows = numpy.array([[1, 0, 0], [0.5, 1, 0], [0.25, 0.5, 1]])
    job = dict(DENSE, n=numpy.int64(3), matrix={"family": "dense", "rows": rows, "normalization": "none"})
    assert client.solve(job)["result"]["factorization"] == client.solve(DENSE)["result"]["factorization"]
    with pytest.raises(TypeError, match="object"):
        client.submit({"n": object()})
    with pytest.raises(ValueError, match="JSON"):
        client.submit(dict(DP_SGD, noise_multiplier=float("nan")))


def test_without_numpy_matrices_are_lists(server, client):
    jobs = [client.solve(TOEPLITZ)["id"], client.solve(DENSE)["id"]]
    program = """if True:
        import json, sys
        sys.modules["numpy"] = None  # as if it were not installed
        import epsilond
        client = epsilond.Client(sys.argv[1])
        print(json.dumps([client.matrix(job, part) for job in sys.argv[2:] for part in ("encoder", "noise")]))
        """
    done = subprocess.run([sys.executable, "-c", program, server.url, *jobs], capture_output=True, text=True,
                          check=True,
                          timeout=PATIENCE, env={**os.environ, "PYTHONPATH": str(PACKAGE)})
    assert json.loads(done.stdout) == [client.matrix(job, part).tolist() for job in jobs
                                       for part in ("encoder", "noise")]


def test_arrays_of_every_version_and_broken_ones(tmp_path):
    for version in ((1, 0), (2, 0), (3, 0)):
        for value in (numpy.arange(6.0), numpy.arange(6, dtype="f4").reshape(2, 3), numpy.zeros((3, 0))):
            with open(tmp_path / "a.npy", "wb") as file:
                numpy.lib.format.write_array(file, value, version)
            with open(tmp_path / "a.npy", "rb") as file:
                read = arrays.read_array(file)
            assert read.dtype == value.dtype and numpy.array_equal(read, value)
            with open(tmp_path / "a.npy", "rb") as file:
                assert [row.tolist() for row in arrays.read_rows(file)] == numpy.atleast_2d(value).tolist()
    whole = (tmp_path / "a.npy").read_bytes()
    numpy.save(tmp_path / "b.npy", numpy.arange(4.0))
    short = (tmp_path / "b.npy").read_bytes()[:-1]
    numpy.save(tmp_path / "c.npy", numpy.arange(4))
    for data, error in ((b"PK" + whole[2:], ValueError), (short, EOFError), (short[:20], EOFError), (b"", EOFError),
                        ((tmp_path / "c.npy").read_bytes(), ValueError)):
        (tmp_path / "d.npy").write_bytes(data)
        with open(tmp_path / "d.npy", "rb") as file, pytest.raises(error):
            arrays.read_array(file)


# ---------------------------------------------------------------- batches and noise

def test_batches_are_formed_as_they_are_accounted(client):
    job = client.solve({"n": 200, "matrix": {"family": "square_root", "bands": 4}, "noise_multiplier": 2, "delta": 1e-6,
                        "sampling": {"scheme": "b_min_sep", "batch_size": 20, "dataset_size": 400}})
    batches = list(client.batches(job=job))
    assert [batch["step"] for batch in batches] == list(range(200))
    last = {}
    for batch in batches:
        assert all(batch["step"] - last.get(i, -4) >= 4 for i in batch["indices"])
        last.update(dict.fromkeys(batch["indices"], batch["step"]))
    assert sum(len(batch["indices"]) for batch in batches) == pytest.approx(4000, abs=400)  # six standard deviations
    with pytest.raises(epsilond.Invalid) as wrong:
        next(client.batches({"n": 0, "sampling": {"scheme": "poisson", "p": 0.1}}))
    assert "/n" in wrong.value.pointers


def test_batches_of_shared_examples(client):
    users = [[i // 2] for i in range(60)]
    request = {"n": 30, "dataset_size": 60, "sampling": {"scheme": "b_min_sep", "p": 0.2, "separation": 5,
                                                         "examples_per_user": 2}}
    last = {}
    for batch in client.batches(request, users):
        assert all(batch["step"] - last.get(users[i][0], -5) >= 5 for i in batch["indices"])  # their order within a
                                                                                              # step does not matter
        last.update({users[i][0]: batch["step"] for i in batch["indices"]})
    assert last


def test_noise_is_of_the_matrix_that_was_accounted(client):
    job = client.solve(TOEPLITZ)
    for source in ({"source": job}, {"source": job["id"]},
                   {"factorization": job["result"]["factorization"]["id"], "noise_multiplier": 2.0}):
        rows = numpy.array(list(client.noise(**source, dimensions=4000)))
        assert rows.shape == (64, 4000) and rows.dtype == numpy.float32
        column = client.matrix(job)
        white = sum(column[d] * numpy.pad(rows[:64 - d], ((d, 0), (0, 0))) for d in range(64) if column[d]) / 2.0
        assert white.std() == pytest.approx(1, abs=0.01)  # seven standard deviations
        assert abs((white[1:] * white[:-1]).mean()) < 0.02 and abs(white.mean()) < 0.02
    wide = next(client.noise(job, dimensions=3, part="decoder", dtype="float64"))
    assert wide.shape == (3,) and wide.dtype == numpy.float64
    with pytest.raises(epsilond.Invalid) as wrong:
        next(client.noise(job, dimensions=0))
    assert wrong.value.pointers == ["/dimensions"]
    with pytest.raises(epsilond.NotFound):
        next(client.noise("00000000-0000-7000-8000-000000000000", dimensions=3))
    phases = client.solve({"phases": [{"n": n, "sampling": {"scheme": "none"}} for n in (5, 7)], "noise_multiplier": 2,
                           "delta": 1e-6})
    assert [len(list(client.noise(phases, dimensions=1, phase=phase))) for phase in (0, 1)] == [5, 7]


# ---------------------------------------------------------------- problems

def test_every_violation_has_its_place(client):
    with pytest.raises(epsilond.Invalid) as wrong:
        client.submit({"n": 0, "sampling": {"scheme": "poisson", "p": 1.5}, "noise": 1, "delta": 1e-6})
    assert wrong.value.pointers == ["/n", "/noise", "/sampling/p", ""]
    assert wrong.value.status == 422 and wrong.value.type == "invalid-job"
    assert "/sampling/p: must lie in [1e-20, 1]" in str(wrong.value) and "request: give exactly two" in str(wrong.value)
    with pytest.raises(epsilond.Unsupported) as unsupported:
        client.submit({"n": 1000, "matrix": {"family": "square_root", "bands": 4},
                       "sampling": {"scheme": "poisson", "p": 0.01},
                       "noise_multiplier": 1, "delta": 1e-6, "accountant": "pld"})
    assert "mmcc" in unsupported.value.accountants and "mmcc" in str(unsupported.value)


def test_what_is_too_costly_says_so(launch):
    with pytest.raises(epsilond.TooCostly) as refused:
        epsilond.Client(launch("--max-operations", "10").url).submit(DP_SGD)
    assert refused.value.document["operations"] > 10


def test_every_type_of_problem_is_an_exception(server, client):
    contract = (ROOT / "api" / "openapi.yaml").read_text()
    names = re.search(r"ProblemName:\n\s+enum: \[([^\]]*)\]", contract).group(1).replace("\n", " ").split(",")
    for name in (name.strip() for name in names):
        page = server.get(f"/problems/{name}").json()
        made = epsilond.problems.problem_of(page["status"], json.dumps(page).encode())
        assert isinstance(made, epsilond.Problem) and made.type == name and made.status == page["status"]
    assert set(epsilond.problems.TYPES) <= {name.strip() for name in names}


# ---------------------------------------------------------------- the service

def test_index_health_and_readiness(server, client):
    assert client.index() == server.get("/v1").json()
    assert client.healthy() and client.ready()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = epsilond.Client("http://127.0.0.1:%d" % unused.getsockname()[1])
        assert not nobody.healthy() and not nobody.ready()
    for url in ("localhost:8080", "ftp://localhost", "http://"):
        with pytest.raises(ValueError, match="not an address"):
            epsilond.Client(url)


def test_threads_share_a_client(client):
    answers = [None] * 8

    def ask(i):
        answers[i] = [client.solve(dict(GAUSSIAN, n=100 + i, noise_multiplier=1.0 + i))["job"] for _ in range(5)]

    threads = [threading.Thread(target=ask, args=[i]) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [[job["n"] for job in jobs] for jobs in answers] == [[100 + i] * 5 for i in range(8)]


def test_a_full_queue_is_waited_for_or_reported(launch):
    server = launch("--queue", "1", *ONE_BY_ONE)
    client = epsilond.Client(server.url)
    running, waiting = client.submit(ENDLESS), None
    server.until(running["id"], "running")
    waiting = client.submit(dict(ENDLESS, delta=1e-9))
    with pytest.raises(epsilond.Busy):
        epsilond.Client(server.url, retry_seconds=0).submit(dict(ENDLESS, delta=1e-10))
    threading.Timer(1.0, client.cancel, [waiting]).start()
    assert client.submit(dict(ENDLESS, delta=1e-10))["status"] == "queued"  # after Retry-After


def test_waiting_outlasts_a_restart(launch):
    server = launch()
    port = server.url.rsplit(":", 1)[1]
    client = epsilond.Client(server.url, retry_seconds=PATIENCE)
    job = client.submit(ENDLESS)
    ended = []
    thread = threading.Thread(target=lambda: ended.append(client.wait(job)))
    thread.start()
    time.sleep(0.3)
    server.kill()
    server.start("--listen", f"127.0.0.1:{port}")
    epsilond.Client(server.url).cancel(job)
    thread.join(PATIENCE)
    assert [document["status"] for document in ended] == ["canceled"]


# ---------------------------------------------------------------- no response

class Moody(http.server.ThreadingHTTPServer):
    """Handles each request as its script says: "drop" it, drop it after it is "answered", or send (status, headers,
    body)."""

    def __init__(self, *script):
        self.script, self.seen = list(script), []
        super().__init__(("127.0.0.1", 0), Moods)
        threading.Thread(target=self.serve_forever, args=[0.01], daemon=True).start()

    @property
    def url(self):
        return "http://127.0.0.1:%d" % self.server_address[1]


class Moods(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, self.headers, body))
        mood = self.server.script.pop(0)
        if mood == "drop":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        status, headers, data = mood
        self.send_response(status)
        for name, value in {"Content-Length": len(data), **headers}.items():
            if value is not None:
                self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = "Content-Length" in headers

    do_GET = do_POST = do_DELETE = handle_any

    def log_message(self, *_):
        pass


@pytest.fixture
def moody():
    started = []

    def start(*script):
        started.append(Moody(*script))
        return started[-1]

    yield start
    for one in started:
        one.shutdown()
        one.server_close()


DONE = (200, {}, b'{"id": "1", "status": "succeeded"}')


def test_what_got_no_answer_is_asked_again_under_the_same_key(moody):
    server = moody("drop", "drop", (503, {"Retry-After": "0"}, b""), (429, {"Retry-After": "0"}, b""), DONE)
    assert epsilond.Client(server.url).solve({"n": 1})["id"] == "1"
    assert len(server.seen) == 5 and not server.script
    assert len({headers["Idempotency-Key"] for _, _, headers, _ in server.seen}) == 1
    assert len({body for _, _, _, body in server.seen}) == 1 and server.seen[0][0] == "POST"


def test_a_connection_that_was_closed_meanwhile_costs_no_patience(moody):
    server = moody(DONE, "drop", DONE)
    client = epsilond.Client(server.url, retry_seconds=0)
    client.get("1")
    assert client.get("1")["status"] == "succeeded"
    server.script[:] = ["drop"]
    with pytest.raises(epsilond.Unreachable):
        epsilond.Client(server.url, retry_seconds=0).get("1")


def test_retry_after_is_respected(moody):
    server = moody((503, {"Retry-After": "1"}, b""), DONE)
    started = time.monotonic()
    epsilond.Client(server.url).get("1")
    assert time.monotonic() - started >= 1
    problem = json.dumps({"type": "/problems/queue-full", "status": 503, "detail": "full"}).encode()
    server = moody((503, {"Retry-After": "3600"}, problem))
    with pytest.raises(epsilond.Busy, match="full"):
        epsilond.Client(server.url).get("1")  # a retry would be useless
    assert len(server.seen) == 1


def test_patience_ends(moody):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = "http://127.0.0.1:%d" % unused.getsockname()[1]
        with pytest.raises(epsilond.Unreachable, match=url):
            epsilond.Client(url, retry_seconds=0.3).get("1")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(epsilond.Unreachable, match="timed out"):
            epsilond.Client("http://127.0.0.1:%d" % silent.getsockname()[1], timeout=0.2, retry_seconds=0).get("1")


def test_a_deletion_whose_answer_was_lost_is_one(moody):
    missing = json.dumps({"type": "/problems/not-found", "status": 404}).encode()
    epsilond.Client(moody("drop", (404, {}, missing)).url).delete("1")
    with pytest.raises(epsilond.NotFound):
        epsilond.Client(moody((404, {}, missing)).url).delete("1")


def test_a_broken_stream_is_taken_up_where_it_was(moody):
    stream = {"Content-Type": "text/event-stream", "Connection": "close"}
    server = moody((200, stream,
                    b': hello\n\nevent: progress\nid: 7\ndata: {"fraction":\ndata: 0.5}\n\nid: 8\nevent: progr'),
                   "drop", (200, {**stream, "Content-Length": 99}, b'event: progress\r\nid:9\r\ndata: {}\r\n\r\n'),
                   (200, stream, b'event: job\nid: final\ndata: {"id": "1"}\n\nevent: progress\ndata: {}\n\n'))
    events = list(epsilond.Client(server.url).events("1"))
    assert events == [("progress", {"fraction": 0.5}, "7"), ("progress", {}, "9"), ("job", {"id": "1"}, "final")]
    assert [headers["Last-Event-ID"] for _, _, headers, _ in server.seen] == [None, "7", "7", "9"]
    server = moody((200, stream, b""))
    with pytest.raises(epsilond.Unreachable, match="/v1/jobs/1/events"):
        list(epsilond.Client(server.url, retry_seconds=0).events("1"))


def test_what_is_drawn_is_whole_or_an_exception(moody, tmp_path):
    """An interrupted stream without an id is not retried, because it would be other noise."""
    numpy.save(tmp_path / "rows.npy", numpy.ones((3, 2)))
    whole = (tmp_path / "rows.npy").read_bytes()
    chunked = {"Transfer-Encoding": "chunked", "Content-Length": None}
    for data in (whole[:-16], whole[:-1], whole):
        server = moody((200, chunked, b"%x\r\n%s\r\n" % (len(data), data)))
        rows = epsilond.Client(server.url).noise("1", dimensions=2)
        if data == whole:  # all rows were received, so what follows does not matter
            assert len(list(rows)) == 3
            continue
        assert next(rows).tolist() == [1, 1]
        with pytest.raises(epsilond.Unreachable, match="broke off"):
            list(rows)
        assert len(server.seen) == 1
    for data in (b'{"step": 0}\n', b'{"step": 0}\n{"st'):
        server = moody((200, chunked, b"%x\r\n%s\r\n" % (len(data), data)))
        batches = epsilond.Client(server.url).batches({"n": 2})
        assert next(batches) == {"step": 0}
        with pytest.raises(epsilond.Unreachable, match="broke off"):
            list(batches)
    server = moody("drop", (503, {"Retry-After": "0"}, b""), (200, {}, b'{"step": 0}\n'))  # nothing was received yet
    assert list(epsilond.Client(server.url).batches({"n": 1})) == [{"step": 0}]


def test_noise_that_breaks_off_is_taken_up_again(moody, tmp_path):
    """It is resumed by its id from the missing row, for retry_seconds after the last row."""
    rows = numpy.arange(8.0).reshape(4, 2)

    def part(first, rows_of_it, lost):
        numpy.save(tmp_path / "rows.npy", rows[first:])
        data = (tmp_path / "rows.npy").read_bytes()[:128 + 16 * rows_of_it + lost]
        return 200, {"Transfer-Encoding": "chunked", "Content-Length": None,
                     "X-Stream": "ab"}, b"%x\r\n%s\r\n" % (len(data), data)

    server = moody(part(0, 1, 7), "drop", part(1, 0, 3), (503, {"Retry-After": "0"}, b""), part(1, 2, 0), part(3, 1, 0))
    drawn = epsilond.Client(server.url).noise("1", dimensions=2, part="decoder")
    assert drawn.stream is None
    assert next(drawn).tolist() == [0, 1] and (drawn.stream, drawn.row) == ("ab", 1)
    assert [row.tolist() for row in drawn] == rows[1:].tolist() and drawn.row == 4
    first, *others = [json.loads(body) for _, _, _, body in server.seen]
    assert first == {"job": "1", "dimensions": 2, "part": "decoder", "dtype": "float32"}
    assert others == [{**first, "stream": "ab", "first_row": row} for row in (1, 1, 1, 1, 3)]
    server = moody(*[part(2, 0, 0)] * 50)
    with pytest.raises(epsilond.Unreachable, match="broke off"):
        next(epsilond.Client(server.url, retry_seconds=0.5).noise("1", dimensions=2, stream="ab", first_row=2))
    assert 2 <= len(server.seen) < 50 and json.loads(server.seen[0][3])["first_row"] == 2


def test_noise_goes_on_where_the_service_cut_it(client):
    """In the middle of a row, as when another client needs the memory of one that pauses."""
    job = client.solve(TOEPLITZ)
    rows = client.noise(job, dimensions=400_000)
    drawn = [next(rows) for _ in range(3)]
    other = client.noise(job, dimensions=400_000, stream=rows.stream)  # it takes over the stream
    assert (next(other) == drawn[0]).all()
    other.close()
    drawn.extend(rows)
    assert len(drawn) == 64 and rows.row == 64
    again = client.noise(job, dimensions=400_000, stream=rows.stream)
    assert all((row == other).all() for row, other in zip(drawn, again))


def test_noise_goes_on_in_another_program(client):
    job = client.solve(TOEPLITZ)
    asked = {"dimensions": 3, "dtype": "float64"}
    rows = client.noise(job, **asked)
    used = [next(rows) for _ in range(10)]
    rows.close()
    assert rows.row == 10
    rest = list(client.noise(job, **asked, stream=rows.stream, first_row=rows.row))
    whole = numpy.array(list(client.noise(job, **asked, stream=rows.stream)))
    assert len(rest) == 54 and (whole == numpy.array(used + rest)).all()
    with pytest.raises(epsilond.NotFound, match="Restart the training"):
        next(client.noise(job, **asked, stream="0" * 64, first_row=1))
    with pytest.raises(epsilond.Invalid, match="requires stream"):
        next(client.noise(job, **asked, first_row=1))
    with pytest.raises(epsilond.Conflict):
        next(client.noise(job, dimensions=4, stream=rows.stream, first_row=1))


def test_errors_of_others_are_problems_too(moody):
    client = epsilond.Client(moody((502, {}, b"<h1>Bad gateway</h1>"), (500, {}, b"[1]")).url)
    with pytest.raises(epsilond.Problem, match="502.*Bad gateway"):
        client.get("1")
    with pytest.raises(epsilond.Problem, match="500"):
        client.get("1")


def test_what_the_client_sends(moody):
    server = moody(DONE, DONE)
    client = epsilond.Client(server.url + "/dp/", headers={"Authorization": "Bearer x"})
    client.get("a/b?c")
    assert server.seen[0][1] == "/dp/v1/jobs/a%2Fb%3Fc" and server.seen[0][2]["Authorization"] == "Bearer x"
    client.submit({"n": 1}, key="mine", wait=9)
    method, path, headers, body = server.seen[1]
    assert (method, path, headers["Idempotency-Key"]) == ("POST", "/dp/v1/jobs?wait=9", "mine")
    assert headers["Content-Type"] == "application/json" and json.loads(body) == {"n": 1}


# ---------------------------------------------------------------- the whole contract

def asked_for(monkeypatch):
    """Method, path and query parameters of each request from now on."""
    asked, send = [], transport.Transport._send

    def recorded(self, connection, method, target, *rest):
        path, _, query = target.partition("?")
        asked.append((method, path, {part.split("=")[0] for part in query.split("&") if part}))
        return send(self, connection, method, target, *rest)

    monkeypatch.setattr(transport.Transport, "_send", recorded)
    return asked


def use_it_all(client):
    """Calls every method with every argument that becomes a query parameter."""
    client.index(), client.healthy(), client.ready()
    assert len(client.usage()) == 1 and client.workers() == {"broker": None, "workers": []}
    assert "epsilond_http_requests_total" in client.metrics() and "openapi: 3.1" in client.contract()
    with pytest.raises(epsilond.NotFound) as nobody:
        client.get("nobody")
    assert client.explain(nobody.value) == client.explain("not-found")
    assert client.explain("not-found")["status"] == 404
    job = client.wait(client.submit(PHASES, wait=9))
    client.get(job), list(client.events(job)), client.cancel(job)
    client.curve(job), client.spend(job), client.error(job, phase=0), client.statement(job)
    client.matrix(job, "encoder", form="bands", phase=1), client.mechanism(job, phase=1)
    list(client.batches({"n": 2, "sampling": {"scheme": "poisson", "p": 0.5}, "dataset_size": 4}))
    assert len(list(client.batches(job=job, phase=1, dataset_size=9, seed=2))) == 10
    list(client.noise(client.solve(TOEPLITZ), dimensions=1)), list(client.noise(job, dimensions=1, phase=1))
    request = {"n": 4, "batch_size": 1, "dataset_size": 4, "epsilon": 1, "delta": 1e-5, "families": ["identity"],
               "schemes": ["none"]}
    _, sweep = (client.wait(client.sweep(GAUSSIAN, {"/n": [1, 2]})) for _ in range(2))
    _, plan = (client.wait(client.plan(request)) for _ in range(2))
    assert len(list(client.points(sweep))) == 2
    for one, listed in ((sweep, client.sweeps), (plan, client.plans), (job, client.jobs)):
        assert list(listed(status="succeeded", label="nothing")) == []
        assert len(list(listed())) == 2
        client.get(one), list(client.events(one)), client.cancel(one), client.delete(one)


def test_the_client_does_what_the_contract_offers(launch, monkeypatch):
    """The client uses every operation and every query parameter of the contract, except the dashboard."""
    monkeypatch.setattr("epsilond.client.PAGE", 1)
    asked = asked_for(monkeypatch)
    use_it_all(epsilond.Client(launch().url))
    contract = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text())
    for path, item in contract["paths"].items():
        for method in set(item) & {"get", "post", "delete"}:
            if path in ("/", "/dashboard/{file}"):
                continue
            parameters = [contract["components"]["parameters"][one["$ref"].rsplit("/", 1)[1]] if "$ref" in one else one
                          for one in item.get("parameters", []) + item[method].get("parameters", [])]
            here = [query for verb, target, query in asked
                    if verb == method.upper() and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), target)]
            assert here, (method, path)
            assert {one["name"] for one in parameters if one["in"] == "query"} <= set().union(*here), (method, path)


def test_noise_with_a_seed_is_for_tests(client):
    job = client.solve(TOEPLITZ)
    drawn = [numpy.array(list(client.noise(factorization=job["result"]["factorization"]["id"], noise_multiplier=1,
                                           dimensions=2, part="decoder",
                                           dtype="float64", seed=7, workload=workload)))
             for workload in (None, {"type": "prefix_sum"}, {"type": "momentum", "momentum": 0.5})]
    assert drawn[0].shape == (64, 2) and numpy.array_equal(drawn[0], drawn[1])
    assert not numpy.array_equal(drawn[0], drawn[2])


# ---------------------------------------------------------------- the package

def test_the_version_is_the_service_s(client):
    written = re.search(r'^version = "(.*)"$', (PACKAGE / "pyproject.toml").read_text(), re.M).group(1)
    assert written == epsilond.__version__ == client.index()["version"]


def test_pip_installs_the_folder(server, tmp_path):
    """With the packages of Debian: nothing is downloaded."""
    shutil.copytree(PACKAGE, tmp_path / "source", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    python = tmp_path / "venv" / "bin" / "python"
    for command in ([sys.executable, "-m", "venv", "--system-site-packages", str(tmp_path / "venv")],
                    [str(python), "-m", "pip", "install", "-q", "--no-index", "--no-build-isolation",
                     str(tmp_path / "source")]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    program = """if True:
        import pathlib, sys, epsilond, epsilond.training
        folder = pathlib.Path(epsilond.__file__).parent
        print(folder, (folder / "py.typed").exists(), epsilond.Client(sys.argv[1]).healthy())
        """
    done = subprocess.run([str(python), "-c", program, server.url], capture_output=True, text=True, timeout=PATIENCE,
                          check=True,
                          cwd=tmp_path)
    assert done.stdout.split()[1:] == ["True", "True"] and str(tmp_path / "venv") in done.stdout


def test_what_the_readme_shows_is_so(server):
    """The Python code of the README, as one program: a comment on a line is the output of that line."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (PACKAGE / "README.md").read_text(), re.M | re.S)
    program = "\n".join(blocks).replace("http://localhost:8080", server.url)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=True,
                          env={**os.environ, "PYTHONPATH": str(PACKAGE)})
    assert float(done.stdout.split("\n")[0]) == pytest.approx(0.8917772, rel=1e-3)
    assert "# Privacy statement\n" in done.stdout
    for shown in re.findall(r"^ *print\(.*\)  # (\[.*\])$", program, re.M):
        assert f"\n{shown}\n" in done.stdout


def test_the_page_on_drawing_scales_the_noise_as_it_is_accounted(client):
    """
    The training loop of api/DRAWING.md with gradients of 0. The result of 4 steps is their noise, each row times the
    clip norm, divided by the expected batch size; the rows have the standard deviation of the noise multiplier.
    """
    text = (ROOT / "api/DRAWING.md").read_text()
    (loop,) = re.findall(r"\*\*How to scale it\.\*\*.*?^```python\n(.*?)^```$", text, re.M | re.S)
    rows, seen = [], []

    class Recording:
        batches = staticmethod(client.batches)

        @staticmethod
        def noise(job, dimensions):
            for row in client.noise(job, dimensions=dimensions):
                rows.append(numpy.array(row, dtype=float))
                yield row

    def clipped_sum(parameters, indices, clip):
        seen.append((len(indices), clip))
        return numpy.zeros(len(parameters))

    job = client.solve({"n": 4, "sampling": {"scheme": "poisson", "batch_size": 50, "dataset_size": 1000}, "epsilon": 2,
                        "delta": 1e-5})
    names = {"client": Recording, "job": job, "examples": range(1000), "parameters": numpy.zeros(100_000),
             "clipped_sum": clipped_sum, "clip": 3.0,
             "learning_rate": 0.5, "batch_size": 50}
    exec(loop, names)  # pylint: disable=exec-used
    assert len(rows) == len(seen) == 4 and {clip for _, clip in seen} == {3.0}
    numpy.testing.assert_allclose(names["parameters"], -0.5 * 3 / 50 * sum(rows), rtol=0, atol=1e-6)  # rows are float32
    sigma = job["result"]["noise_multiplier"]
    assert numpy.std(rows) == pytest.approx(sigma, rel=0.01)
    assert numpy.std(names["parameters"]) == pytest.approx(0.5 * sigma * 3 / 50 * 4 ** 0.5, rel=0.02)
