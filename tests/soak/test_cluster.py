"""
Three nodes of RabbitMQ, of which any one may be lost: while workers compute a sweep, one node is killed, and when it is
back, the one that leads the queue of questions. The answers are those of a server that computes alone, and no question
is lost. Run by `make soak`.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import collections

import pytest

from broker import SERVER, Broker, Relay, Worker
from conftest import launch, until
from test_broker import TRAVEL, VERIFICATION, without_caches
from test_isolation import bare

pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="needs the package rabbitmq-server")

POINTS = 20
TAKEN = 'epsilond_broker_answers_total{use="taken"}'


@pytest.fixture
def nodes(tmp_path):
    running = []
    for i in range(3):
        folder = tmp_path / f"rabbit{i}"
        folder.mkdir()
        running.append(Broker(folder, first=running[0] if running else None))
    yield running
    for node in reversed(running):
        node.close()


@pytest.fixture
def relay(nodes):
    made = Relay(nodes)
    yield made
    made.close()


def queue_of_questions(nodes):
    """From a node that runs."""
    [alive, *_] = [node for node in nodes if node.process.poll() is None]
    [queue] = [queue for queue in alive.ask("list_queues", "-p", "0", "name", "leader", "members", "online")
               if queue["name"].startswith("epsilond.questions.")]
    return queue


def ask(server, first):
    """Asks for a sweep of that seed and those behind it."""
    grid = {"/accountant/seed": list(range(first, first + POINTS))}
    return server.post({"base": VERIFICATION, "grid": grid}, "/v1/sweeps").json()["links"]["self"]


def answers(server, path):
    sweep = server.get(f"{path}?wait=300", timeout=400).json()
    assert sweep["status"] == "succeeded"
    found = server.get(f"{sweep['links']['points']}?limit={POINTS}").json()["items"]
    assert len(found) == POINTS
    return without_caches(bare(found))


def test_a_cluster_loses_a_node_and_then_the_one_that_leads(tmp_path, nodes, relay, launch):
    local = launch()
    expected = [answers(local, ask(local, first)) for first in (0, POINTS)]
    local.stop()
    server = launch("--broker", relay.url(), *TRAVEL)
    workers = [Worker(tmp_path, relay.url()) for _ in range(3)]
    until(lambda: server.metric("epsilond_broker_workers") == 3)
    queue = queue_of_questions(nodes)
    assert sorted(queue["members"]) == sorted(node.node for node in nodes)

    def lose(node, first):
        """In the middle of a sweep, which the others end."""
        path, taken = ask(server, first), server.metric(TAKEN)
        until(lambda: server.metric(TAKEN) > taken + 2)
        node.kill()
        assert server.get(path).json()["status"] == "running"
        found = answers(server, path)
        node.start()
        until(lambda: len(queue_of_questions(nodes)["online"]) == 3)
        return found

    assert lose(next(node for node in nodes if node.node != queue["leader"]), 0) == expected[0]
    leader = queue_of_questions(nodes)["leader"]
    assert lose(next(node for node in nodes if node.node == leader), POINTS) == expected[1]
    assert queue_of_questions(nodes)["leader"] != leader
    answered = collections.Counter(question for worker in workers for question in worker.answered())
    assert len(answered) == 2 * POINTS and max(answered.values()) <= 2
    for lost in ("epsilond_broker_dead_total", "epsilond_broker_malformed_total"):
        assert server.metric(lost) == 0
    for worker in workers:
        worker.stop()
