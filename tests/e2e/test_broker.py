"""
Jobs on other machines, through RabbitMQ: the answers of a server that computes everything itself, however many workers,
servers and brokers die on the way.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import collections
import itertools
import os
import subprocess

import pytest

from broker import SERVER, Broker, Worker
from conftest import BINARY, ENDLESS, GAUSSIAN, INSTRUMENTED, X86, check_problem, until
from network import Network
from test_isolation import bare

pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="needs the package rabbitmq-server")

BANDS = {"n": 64, "matrix": {"family": "banded", "bands": 4, "toeplitz": True},
         "sampling": {"scheme": "b_min_sep", "p": 0.05}, "delta": 1e-3, "noise_multiplier": 1.0,
         "accountant": {"method": "monte_carlo", "seed": 5}}
VERIFICATION = dict(BANDS, n=128)
DIVIDED = dict(BANDS, n=4096)  # its draws take seconds
UNBOUNDED = dict(DIVIDED, accountant=dict(DIVIDED["accountant"], samples=2 * 10 ** 6))  # they take minutes
SWEEP = {"base": BANDS, "grid": {"/noise_multiplier": [1.0, 1.5], "/accountant/seed": [1, 2]}}
PLAN = {"n": 12, "batch_size": 10, "dataset_size": 30, "epsilon": 4, "delta": 1e-5,
        "families": ["identity", "square_root"]}
PLACES = 24
TRAVEL = ("--broker-seconds", "0", "--workers", "1")


def certify(folder):
    """A certificate of this machine by an authority of its own, as ca.pem, cert.pem and key.pem."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    (folder / "names").write_text("subjectAltName=DNS:localhost")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority")
    openssl("req", *key, "-keyout", "key.pem", "-out", "request", "-subj", "/CN=broker")
    openssl("x509", "-req", "-in", "request", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-out", "cert.pem", "-extfile", "names")


@pytest.fixture(scope="module")
def network():
    made = Network(3)
    yield made
    made.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory, network):
    folder = tmp_path_factory.mktemp("broker")
    certify(folder)
    running = Broker(folder, places=PLACES, tls=True, addresses=network.addresses)
    yield running
    running.close()


@pytest.fixture
def place(taken=itertools.count()):
    """A virtual host for each test: what one leaves in its queues does not reach another."""
    found = next(taken)
    assert found < PLACES
    return found


@pytest.fixture
def url(broker, place):
    return broker.url(place)


@pytest.fixture
def hire(tmp_path, broker, place, network):
    """Starts workers, and stops those that are still running. far: in which network namespace."""
    started = []

    def start(*options, far=None, **process):
        if far is not None:
            process["program"] = [*network.inside(far), BINARY]
        address = "127.0.0.1" if far is None else network.address(far)
        started.append(Worker(tmp_path, broker.url(place, address), *options, **process))
        return started[-1]

    yield start
    for worker in started:
        if worker.process.poll() is None:
            worker.stop()


@pytest.fixture
def serve(launch, url):
    """Starts servers at the broker."""
    return lambda *options: launch("--broker", url, *TRAVEL, *options)


def connected(server):
    return server.metric("epsilond_broker_connected") == 1


def ask_all(server):
    """Posts all three; returns their paths."""
    job = server.post(VERIFICATION).json()["links"]["self"]
    return [job, *(server.post(body, path).json()["links"]["self"]
                   for body, path in ((SWEEP, "/v1/sweeps"), (PLAN, "/v1/plans")))]


def all_answers(server, paths):
    """What was answered: the documents without what differs between two computations of the same."""
    job, sweep, plan = (server.get(f"{path}?wait=300").json() for path in paths)
    assert [each["status"] for each in (job, sweep, plan)] == ["succeeded"] * 3
    points = server.get(sweep["links"]["points"]).json()["items"]
    return [without_caches(bare(each)) for each in (job["result"], points, plan["candidates"])]


def candidates_of(answers):
    """Those of the plan that were computed, without their rank: the more are under way at a time, the fewer are skipped
    because another one is better."""
    return {(each["family"], each["scheme"], each["bands"]): {**each, "rank": None, "estimate": None}
            for each in answers[2]
            if each["status"] == "succeeded"}


def without_caches(value):
    """What the caches did depends on who computed what before."""
    if isinstance(value, dict):
        return {name: without_caches(member) for name, member in value.items() if name not in ("cache", "job", "id")}
    return [without_caches(member) for member in value] if isinstance(value, list) else value


def test_answers_are_the_same_whoever_dies(serve, launch, hire, broker, network, capsys):
    with capsys.disabled():
        print(f" [workers {network}]", end="", flush=True)
    local = launch()
    expected = all_answers(local, ask_all(local))
    server, workers = serve(), [hire(far=i) for i in range(3)]
    until(lambda: server.metric("epsilond_broker_workers") == 3)
    paths = ask_all(server)
    until(lambda: workers[0].computes() and workers[1].computes())
    workers[0].kill()
    until(lambda: server.metric('epsilond_broker_answers_total{use="taken"}') >= 2)
    broker.kill()
    until(lambda: not connected(server))
    assert server.get("/readyz").status_code == 503
    broker.start()
    until(lambda: connected(server) and server.get("/readyz").status_code == 200)
    until(lambda: workers[1].computes() and workers[2].computes())
    server.kill()
    workers[1].kill()
    server.start()
    found = all_answers(server, paths)
    assert found[:2] == expected[:2] and found[2][0] == expected[2][0]
    here, there = candidates_of(expected), candidates_of(found)
    assert len(here.keys() & there.keys()) > 10 and all(there[key] == here[key] for key in here.keys() & there.keys())
    began = collections.Counter(question for worker in workers for question in worker.began())
    answered = collections.Counter(question for worker in workers for question in worker.answered())
    assert len(answered) == len(began) and max(answered.values()) <= 2
    assert server.metric("epsilond_broker_malformed_total") == 0
    workers[2].stop()


@pytest.mark.parametrize("count", [1, 3])
def test_draws_are_divided_among_workers(serve, launch, hire, count):
    local = launch()
    expected = without_caches(bare(local.solve(DIVIDED)["result"]))
    server, workers = serve("--broker-split", "0"), [hire(far=i) for i in range(count)]
    until(lambda: server.metric("epsilond_broker_workers") == count)
    path = server.post(DIVIDED).json()["links"]["self"]
    until(lambda: len(workers[0].answered()) > 1 and workers[0].computes())
    assert server.metric("epsilond_broker_divided_jobs") == 1
    if count > 1:
        workers[0].kill()
    job = server.get(f"{path}?wait=300").json()
    assert job["status"] == "succeeded" and without_caches(bare(job["result"])) == expected
    began = collections.Counter(portion for worker in workers for portion in worker.began())
    answered = {portion for worker in workers for portion in worker.answered()}
    assert len(began) > 6 and answered == began.keys() and max(began.values()) <= 2
    assert all(worker.began() for worker in workers)
    drawn = "epsilond_draws_total"
    assert server.metric(drawn) == local.metric(drawn)  # no chunk is missing, and none is kept twice
    assert server.metric("epsilond_broker_malformed_total") == server.metric("epsilond_broker_divided_jobs") == 0


def test_workers_stop_when_a_divided_job_is_canceled(serve, hire):
    server, workers = serve("--broker-split", "0"), [hire() for _ in range(2)]
    path = server.post(UNBOUNDED).json()["links"]["self"]
    until(lambda: all(worker.computes() for worker in workers))
    cancel(server, path)
    until(lambda: not any(worker.computes() for worker in workers), patience=1)
    assert server.get(path).json()["status"] == "canceled"
    until(lambda: server.metric("epsilond_broker_divided_jobs") == 0)
    assert server.solve(GAUSSIAN)["attempts"] == 1


def test_others_do_not_wait_for_a_divided_job(serve, hire):
    """The broker gives out what came first, so not all of the job may be there."""
    server, worker = serve("--broker-split", "0"), hire()
    until(lambda: server.metric("epsilond_broker_workers") == 1)
    path = server.post(UNBOUNDED).json()["links"]["self"]
    until(lambda: len(worker.answered()) > 20)  # of the longest run
    before = len(worker.answered())
    assert server.solve(GAUSSIAN)["attempts"] == 1
    assert len(worker.answered()) - before < 10
    cancel(server, path)


def test_workers_stop_when_the_time_of_a_divided_job_is_over(serve, hire):
    server, workers = serve("--broker-split", "0", "--max-seconds", "60" if INSTRUMENTED else "8"), [hire(), hire()]
    path = server.post(UNBOUNDED).json()["links"]["self"]
    until(lambda: all(worker.computes() for worker in workers))
    job = server.get(f"{path}?wait=100").json()
    until(lambda: not any(worker.computes() for worker in workers), patience=1)
    assert job["status"] == "failed" and job["error"]["type"] == "/problems/timeout"
    assert server.metric("epsilond_broker_divided_jobs") == 0
    assert server.solve(GAUSSIAN)["attempts"] == 1


def test_draws_that_no_worker_makes_are_made_here(launch):
    nowhere = launch("--broker", "amqp://guest:guest@127.0.0.1:1/", *TRAVEL, "--broker-split", "0", "--broker-fallback")
    assert bare(nowhere.solve(DIVIDED)["result"]) == bare(launch().solve(DIVIDED)["result"])
    assert nowhere.metric("epsilond_broker_fallback_total") > 0


def computing(server, worker):
    """Posts a job that takes long, and waits until the worker computes it; returns its path."""
    path = server.post(ENDLESS).json()["links"]["self"]
    until(worker.computes)
    return path


def cancel(server, path):
    assert server.request("POST", path + "/cancel").status_code in (200, 202)


@pytest.mark.sanitized
def test_a_worker_stops_when_its_job_is_canceled(serve, hire):
    server, worker = serve(), hire()
    path = computing(server, worker)
    cancel(server, path)
    until(lambda: not worker.computes(), patience=1)
    assert worker.answered() == [] and server.get(path).json()["status"] == "canceled"
    assert server.solve(GAUSSIAN)["attempts"] == 1 and len(worker.answered()) == 1


@pytest.mark.sanitized
@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_job_that_is_submitted_again_at_once_is_computed(serve, hire, threads):
    """The server's thread and the worker have not ended what was canceled when they get the same question again."""
    server, worker = serve("--workers", "2"), hire("--workers", threads)
    path = computing(server, worker)
    for done in range(8):
        cancel(server, path)
        path = server.post(ENDLESS).json()["links"]["self"]
        until(lambda: len(worker.began()) > done + 1 and worker.computes())
        assert server.get(path).json()["status"] == "running"
    cancel(server, path)
    assert server.solve(GAUSSIAN)["attempts"] == 1


@pytest.mark.sanitized
def test_a_worker_that_is_told_to_stop_gives_its_job_back(serve, hire):
    server = serve()
    for _ in range(4):  # more often than deliveries are repeated
        worker = hire()
        path = computing(server, worker) if not server.get("/v1/jobs").json()["items"] else path
        until(worker.computes)
        worker.stop()
        assert worker.answered() == []
    assert server.get(path).json()["status"] == "running"
    cancel(server, path)


def test_what_a_lost_worker_computed_for_others_is_computed_by_them(serve, hire):
    """Both jobs need one factorisation. The worker that computes it is killed while the only other one waits for it."""
    server, first = serve(), hire()
    job = {"n": 1000, "matrix": {"family": "optimal"}, "sampling": {"scheme": "none", "epochs": 10}, "delta": 1e-6}
    sweep = server.post({"base": job, "grid": {"/noise_multiplier": [2, 3]}}, "/v1/sweeps").json()["links"]["self"]
    until(first.computes)
    second = hire()
    until(second.computes)
    assert first.computes()
    first.kill()
    assert server.get(sweep + "?wait=300").json()["status"] == "succeeded"
    assert len(second.answered()) == 2


def test_a_job_that_ends_three_workers_fails(serve, hire):
    server = serve()
    path = server.post(ENDLESS).json()["links"]["self"]
    for _ in range(3):
        worker = hire()
        until(worker.computes)
        worker.kill()
    failed = server.get(path + "?wait=60").json()
    assert failed["status"] == "failed" and failed["error"]["type"] == "/problems/crashed"
    assert "given to workers 3 times" in failed["error"]["detail"]
    assert server.metric("epsilond_broker_dead_total") == 1


def test_a_worker_without_memory_gives_its_question_back(serve, hire):
    """There is none when the question arrives. When there is again, it takes the next one."""
    server, worker = serve(), hire()
    until(lambda: server.metric("epsilond_broker_workers") == 1)
    nothing = b"\x31\xc0\xc3" if X86 else b"\x00\x00\x80\xd2\xc0\x03\x5f\xd6"  # returns NULL
    before = server.overwrite("errand_create", nothing, worker.process.pid)
    path = server.post(VERIFICATION).json()["links"]["self"]
    failed = server.get(path + "?wait=60").json()
    assert failed["status"] == "failed" and "given to workers 3 times" in failed["error"]["detail"]
    assert worker.log().count("out of memory") == 3
    server.overwrite("errand_create", before, worker.process.pid)
    assert server.solve(GAUSSIAN)["attempts"] == 1 and len(worker.answered()) == 1


def test_a_worker_that_may_answer_otherwise_is_refused(serve, hire):
    """One of another version is, too: see tests/unit/broker/test_letter.c."""
    server, other = serve(), hire(env=dict(os.environ, OPENBLAS_CORETYPE="Prescott"))
    assert other.process.wait(60) == 1
    assert "numbers might differ" in other.log() and "OpenBLAS Prescott" in other.log() and other.began() == []
    [shown] = server.get("/v1/workers").json()["workers"]
    assert shown["state"] == "refused" and "OpenBLAS Prescott" in shown["reason"]
    assert "state=refused" in server.log_text()
    small = hire("--max-bytes", "1MiB")
    assert small.process.wait(60) == 1 and "--max-bytes" in small.log()


def test_workers_are_shown(serve, hire):
    server = serve()
    until(lambda: connected(server))
    assert server.get("/v1/workers").json() == {"broker": {"connected": True, "detail": None}, "workers": []}
    worker = hire("--workers", "2")
    until(worker.welcome)
    assert server.solve(GAUSSIAN)["status"] == "succeeded"
    until(lambda: server.get("/v1/workers").json()["workers"][0]["computed"] == 1)
    [shown] = server.get("/v1/workers").json()["workers"]
    assert (shown["state"], shown["threads"], shown["failed"], shown["reason"]) == ("ready", 2, 0, None)
    labels = f'worker="{shown["name"]}",host="{shown["host"]}",version="{shown["version"]}"'
    assert server.metric(f"epsilond_worker_jobs_total{{{labels}}}") == 1
    worker.stop()
    until(lambda: server.get("/v1/workers").json()["workers"][0]["state"] in ("leaving", "lost"))


def test_small_jobs_do_not_travel(launch, url):
    server = launch("--broker", url, "--broker-seconds", "1h")
    assert server.solve(GAUSSIAN)["attempts"] == 1
    assert server.metric("epsilond_broker_questions_total") == 0


def test_without_a_broker_jobs_wait_or_are_computed_here(launch):
    nowhere = ("--broker", "amqp://guest:guest@127.0.0.1:1/", *TRAVEL)
    waits, falls_back = launch(*nowhere), launch(*nowhere, "--broker-fallback")
    waiting = waits.post(GAUSSIAN).json()["links"]["self"]
    check_problem(waits.get("/readyz"), 503, "queue-full")
    assert "127.0.0.1:1" in waits.get("/readyz").json()["detail"]
    assert falls_back.solve(GAUSSIAN)["status"] == "succeeded" and falls_back.get("/readyz").status_code == 200
    assert falls_back.metric("epsilond_broker_fallback_total") == 1
    assert waits.get(waiting).json()["status"] == "running"
    assert waits.stop() < 5


def test_a_broker_is_known_by_its_certificate(launch, broker):
    url = f"amqps://guest:guest@localhost:{broker.tls}/0"
    trusts = launch("--broker", url, "--broker-ca", str(broker.folder / "ca.pem"))
    doubts = launch("--broker", url)
    until(lambda: connected(trusts))
    until(lambda: "SSL peer cert verification failed" in doubts.log_text())
    assert not connected(doubts)


@pytest.mark.parametrize("options, says", [
    (("--broker", "http://x"), "amqps://user:password@host:port/vhost"),
    (("--broker-fallback",), "give the broker by --broker"),
])
def test_senseless_options_are_refused(options, says, tmp_path):
    ended = subprocess.run([BINARY, "serve", "--listen", "127.0.0.1:0", "--db", tmp_path / "db", *options],
                           capture_output=True, text=True, timeout=60)
    assert ended.returncode in (1, 2) and says in ended.stderr


@pytest.mark.parametrize("options, says", [
    ((), "--broker"), (("--broker", "amqp://x/", "--isolate", "off"), "--isolate"), (("--broker", "x"), "amqps://"),
    (("--broker", "amqp://x/", "more"), "no arguments"),
])
def test_a_worker_says_what_it_needs(options, says):
    ended = subprocess.run([BINARY, "worker", *options], capture_output=True, text=True, timeout=60)
    assert ended.returncode in (1, 2) and says in ended.stderr


def test_factorisations_are_computed_once_and_kept(serve, hire):
    """By a worker; then found in its own cache; and by another worker, in that of the server."""
    job = {"n": 64, "matrix": {"family": "banded", "bands": 4, "toeplitz": True}, "sampling": {"scheme": "none"},
           "noise_multiplier": 2.0, "delta": 1e-6}
    lookups = 'epsilond_cache_lookups_total{kind="factorization",result="%s"}'
    server, worker = serve(), hire()
    results = [server.solve(dict(job, delta=delta))["result"] for delta in (1e-5, 1e-6)]
    missed = server.metric(lookups % "miss")
    assert missed >= 1 and server.metric(lookups % "hit") == 0
    worker.stop()
    hire()
    results.append(server.solve(dict(job, delta=1e-7))["result"])
    assert (server.metric(lookups % "miss"), server.metric(lookups % "hit")) == (missed, 1)
    assert len({result["factorization"]["id"] for result in results}) == 1
    [(uses, kept)] = server.stored("SELECT count(*), count(DISTINCT key) FROM uses")
    assert uses == 3 * kept  # each job uses what the first one has found


def test_a_copy_of_a_server_is_not_let_in(launch, url):
    server = launch("--broker", url)
    until(lambda: connected(server))
    copy = launch()
    copy.stop()
    subprocess.run([BINARY, "backup", "--db", server.database, f"{copy.database}-2"], check=True, timeout=60)
    os.replace(f"{copy.database}-2", copy.database)
    copy.start("--broker", url)
    until(lambda: "exclusive" in copy.log_text())
    check_problem(copy.get("/readyz"), 503, "queue-full")
    assert connected(server) and server.get("/readyz").status_code == 200
