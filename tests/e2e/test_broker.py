"""
Jobs on other machines, through RabbitMQ: the answers of a server that computes everything itself, however many workers,
servers and brokers die on the way.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import collections
import time

import pytest

from broker import SERVER, Broker, Worker
from conftest import ENDLESS, GAUSSIAN, Server, until
from test_isolation import bare

pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="needs the package rabbitmq-server")

BANDS = {"n": 64, "matrix": {"family": "banded", "bands": 4, "toeplitz": True},
         "sampling": {"scheme": "b_min_sep", "p": 0.05}, "delta": 1e-3, "noise_multiplier": 1.0,
         "accountant": {"method": "monte_carlo", "seed": 5}}
VERIFICATION = dict(BANDS, n=256, delta=1e-2)
SWEEP = {"base": BANDS, "grid": {"/noise_multiplier": [1.0, 1.25, 1.5], "/accountant/seed": [1, 2]}}
PLAN = {"n": 12, "batch_size": 10, "dataset_size": 30, "epsilon": 4, "delta": 1e-5,
        "families": ["identity", "square_root"]}
TRAVEL = ("--broker-seconds", "0", "--workers", "1")


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    running = Broker(tmp_path_factory.mktemp("broker"))
    yield running
    running.close()


@pytest.fixture
def hire(tmp_path, broker):
    """Starts workers, and stops those that are still running."""
    started = []

    def start(*options, **process):
        started.append(Worker(tmp_path, broker.url, *options, **process))
        return started[-1]

    yield start
    for worker in started:
        if worker.process.poll() is None:
            worker.stop()


@pytest.fixture
def serve(launch, broker):
    """Starts servers at the broker."""
    return lambda *options: launch("--broker", broker.url, *TRAVEL, *options)


def connected(server):
    return server.metric("epsilond_broker_connected") == 1


def ask_all(server):
    """Posts all three; returns their paths."""
    job = server.post(VERIFICATION).json()["links"]["self"]
    return [job, *(server.post(body, path).json()["links"]["self"]
                   for body, path in ((SWEEP, "/v1/sweeps"), (PLAN, "/v1/plans")))]


def all_answers(server, paths):
    """What was answered: the documents without what differs between two computations of the same."""
    job, sweep, plan = (server.get(f"{path}?wait=100").json() for path in paths)
    assert [each["status"] for each in (job, sweep, plan)] == ["succeeded"] * 3
    points = server.get(sweep["links"]["points"]).json()["items"]
    return [without_caches(bare(each)) for each in (job["result"], points, plan["candidates"])]


def candidates_of(answers):
    """Those of the plan that were computed, without their rank: the more are under way at a time, the fewer are skipped
    because another one is better."""
    return {(each["family"], each["scheme"], each["bands"]): {**each, "rank": None} for each in answers[2]
            if each["status"] == "succeeded"}


def without_caches(value):
    """What the caches did depends on who computed what before."""
    if isinstance(value, dict):
        return {name: without_caches(member) for name, member in value.items() if name not in ("cache", "job", "id")}
    return [without_caches(member) for member in value] if isinstance(value, list) else value


def test_answers_are_the_same_whoever_dies(serve, launch, hire, broker):
    local = launch()
    expected = all_answers(local, ask_all(local))
    server, workers = serve(), [hire() for _ in range(3)]
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
    assert server.metric("epsilond_broker_dead_total") == server.metric("epsilond_broker_malformed_total") == 0
    workers[2].stop()
