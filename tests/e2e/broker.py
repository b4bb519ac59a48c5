"""
RabbitMQ as an ordinary process in a folder of its own, on ports of its own, or as a cluster of several, and workers of
epsilond at it.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import contextlib
import itertools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

from conftest import BINARY, PATIENCE, until

SERVER = pathlib.Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
CONTROL = SERVER.with_name("rabbitmqctl")
COOKIE = "epsilond"
CONFIGURATION = """listeners.tcp.1 = 127.0.0.1:{port}
disk_free_limit.absolute = 1MB
load_definitions = {folder}/definitions.json
"""
TLS = """listeners.ssl.1 = 127.0.0.1:{tls}
ssl_options.cacertfile = {folder}/ca.pem
ssl_options.certfile = {folder}/cert.pem
ssl_options.keyfile = {folder}/key.pem
"""
CLUSTER = """cluster_formation.peer_discovery_backend = classic_config
cluster_formation.classic_config.nodes.1 = {first}
"""


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def definitions(places):
    """One user, and virtual hosts named 0, 1 and so on."""
    return {"users": [{"name": "guest", "password": "guest", "tags": "administrator"}],
            "vhosts": [{"name": str(place)} for place in range(places)],
            "permissions": [{"user": "guest", "vhost": str(place), "configure": ".*", "write": ".*", "read": ".*"}
                            for place in range(places)]}


class Broker:
    """Its files survive a kill. With tls, the folder must hold ca.pem, cert.pem and key.pem, for localhost. If it holds
    definitions.json, these are the broker's. addresses: where it also listens; more: further lines of its
    configuration; first: the node whose cluster it joins."""

    def __init__(self, folder, places=1, tls=False, addresses=(), more="", first=None):
        self.folder = folder
        self.port, distribution, names, self.tls = free_ports(4)
        configuration = CONFIGURATION + (TLS if tls else "")
        configuration += "".join(f"listeners.tcp.{i} = {address}:{{port}}\n" for i, address in enumerate(addresses, 2))
        configuration += "loopback_users = none\n" if addresses else ""  # the guest comes from there, too
        configuration += CLUSTER.format(first=first.node) if first else ""
        (folder / "rabbitmq.conf").write_text(configuration.format(port=self.port, tls=self.tls, folder=folder) + more)
        if not (folder / "definitions.json").exists():
            (folder / "definitions.json").write_text(json.dumps(definitions(places)))
        (folder / "plugins").write_text("[].")
        (folder / "env").write_text("")
        self.node = f"epsilond{self.port}@localhost"
        names = first.environment["ERL_EPMD_PORT"] if first else str(names)
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8",
            "RABBITMQ_NODENAME": self.node, "RABBITMQ_DIST_PORT": str(distribution),
            "ERL_EPMD_PORT": names, "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_CONF_ENV_FILE": str(folder / "env"), "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"), "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"), "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-setcookie {COOKIE} +S 1:1 +sbwt none",
        }
        # Otherwise the broker starts one, which outlives it.
        self.names = None if first else subprocess.Popen(["epmd", "-port", names], env=self.environment)
        self.process = None
        self.start()

    def url(self, place=0, address="127.0.0.1"):
        return f"amqp://guest:guest@{address}:{self.port}/{place}"

    def start(self):
        with open(self.folder / "output", "ab") as output:
            self.process = subprocess.Popen([SERVER], env=self.environment, stdout=output, stderr=output,
                                            start_new_session=True)
        until(self.answers)
        return self

    def answers(self):
        """Whether it lets clients in: before, it closes connections without a word."""
        assert self.process.poll() is None, (self.folder / "output").read_text()
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                connection.sendall(b"AMQP\0\0\x09\x01")
                return len(connection.recv(8)) > 0
        except OSError:
            return False

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
        until(lambda: not self.answers_at_all())

    def answers_at_all(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def close(self):
        if self.process.poll() is None:
            self.kill()
        if self.names:
            self.names.kill()
            self.names.wait(PATIENCE)

    def ask(self, *command):
        """What rabbitmqctl says, as JSON; for this, the node must run."""
        asked = subprocess.run([CONTROL, "-q", "--erlang-cookie", COOKIE, *command, "--formatter", "json"],
                               env=self.environment, check=True, capture_output=True, text=True, timeout=PATIENCE)
        return json.loads(asked.stdout)


class Relay:
    """Leads each connection to one of the nodes that run, in turn, as a balancer before a cluster does."""

    def __init__(self, nodes):
        self.turns, self.listener = itertools.cycle(nodes), socket.create_server(("127.0.0.1", 0))
        self.length = len(nodes)
        threading.Thread(target=self.accept, daemon=True).start()

    def url(self):
        return f"amqp://guest:guest@127.0.0.1:{self.listener.getsockname()[1]}/0"

    def accept(self):
        with contextlib.suppress(OSError):  # it was closed
            while True:
                client = self.listener.accept()[0]
                node = self.reach()
                if node:
                    for one, other in ((client, node), (node, client)):
                        threading.Thread(target=self.copy, args=(one, other), daemon=True).start()
                else:
                    client.close()

    def reach(self):
        for node in itertools.islice(self.turns, self.length):
            with contextlib.suppress(OSError):
                return socket.create_connection(("127.0.0.1", node.port), timeout=5)
        return None

    @staticmethod
    def copy(one, other):
        one.settimeout(None)
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                other.sendall(data)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Worker:
    """A worker at a broker; its log says which questions it began, and which it answered."""

    def __init__(self, folder, url, *options, program=(BINARY,), **process):
        self.file = folder / f"worker-{time.monotonic_ns()}.log"
        with open(self.file, "ab") as log:
            self.process = subprocess.Popen([*program, "worker", "--broker", url, "--workers", "1", *options],
                                            stdout=log, stderr=log, **process)

    def log(self):
        return self.file.read_text(errors="replace")

    def began(self):
        return re.findall(r"event=question question=(\w+)", self.log())

    def answered(self):
        return re.findall(r"event=answer question=(\w+)", self.log())

    def computes(self):
        given_up = re.findall(r"event=given-up question=(\w+)", self.log())
        return self.process.poll() is None and len(self.began()) > len(self.answered()) + len(given_up)

    def welcome(self):
        assert self.process.poll() is None, self.log()
        return "state=welcomes" in self.log()

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self, expect=0):
        """Sends SIGTERM; returns the seconds until the end."""
        started = time.monotonic()
        if self.process.poll() is None:
            self.process.terminate()
        status = self.process.wait(PATIENCE)
        assert status == expect, self.log()[-4000:]
        return time.monotonic() - started
