"""How long a short job of one key takes while another key floods the service, beside what it takes when it is idle: the
time from POST with a wait to its answer. Every job is computed; the flood keeps its part of the queue full.

The two are measured in turn, so that what else the machine does is in both. The goal is a p99 within twice the idle
one. With as many workers as cores, a job that starts beside those of the flood also shares the cores with them.

    fairness.py --build build [--rounds 4] [--jobs 50]

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import contextlib
import http.client
import itertools
import json
import multiprocessing
import os
import re
import statistics
import subprocess
import tempfile
import time

SHORT = {"n": 200, "sampling": {"scheme": "poisson", "p": 0.01}, "noise_multiplier": 1.0, "delta": 1e-6}
FLOODS = (
    ("equally short jobs", SHORT),
    ("jobs ten times as long", dict(SHORT, n=50000, accountant={"method": "pld", "tolerance": 1e-6})),
    ("a sweep of short jobs", None),
)
FULL = 0.05  # seconds to wait when the flood has its part of the queue
serial = itertools.count()


def fresh(job):
    """The same job, but for a number that makes it another one."""
    return dict(job, noise_multiplier=1 + next(serial) * 1e-9)


class Client:
    def __init__(self, port, key):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        self.headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def post(self, path, body):
        self.connection.request("POST", path, json.dumps(body), self.headers)
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())


def new_key(binary):
    lines = subprocess.run([binary, "key", "new"], check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()
    return lines[0], lines[-1]


@contextlib.contextmanager
def server(build, workers):
    """A server with two keys. Yields its port and the keys."""
    binary = os.path.join(build, "epsilond")
    keys = [new_key(binary) for _ in range(2)]
    with tempfile.TemporaryDirectory(prefix="bench.", dir=build) as folder:
        path = os.path.join(folder, "keys")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.writelines(line + "\n" for _, line in keys)
        command = [binary, "serve", "--listen", "127.0.0.1:0", "--db", os.path.join(folder, "bench.db"), "--keys", path,
                   "--queue", "300", "--workers", str(workers), "--log-level", "error"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            yield int(re.match(r"listening on http://127\.0\.0\.1:(\d+)", process.stdout.readline())[1]), \
                [key for key, _ in keys]
        finally:
            process.terminate()
            process.wait(30)


def measure(client, count):
    """The seconds that each of some short jobs takes."""
    seconds = []
    for _ in range(count):
        job = fresh(SHORT)
        start = time.perf_counter()
        status, document = client.post("/v1/jobs?wait=300", job)
        seconds.append(time.perf_counter() - start)
        if status != 200 or document["status"] != "succeeded" or document["result"]["cache"]["result"] != "miss":
            raise SystemExit(f"bench: {status}: {json.dumps(document)[:300]}")
    return seconds


def one_more(client, job):
    if job:
        return client.post("/v1/jobs", fresh(job))
    grid = {"/noise_multiplier": [fresh(SHORT)["noise_multiplier"] for _ in range(50)]}
    return client.post("/v1/sweeps", {"base": SHORT, "grid": grid})


def pour(port, key, job, first, full, over):
    """Keeps the part of the queue full that this key may have, and empties it in the end.

    Clients are on other machines, so this one takes only the processor time that nobody else wants.
    """
    global serial
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    client, posted, serial = Client(port, key), [], itertools.count(first)
    while not over.is_set():
        status, document = one_more(client, job)
        if status == 429:
            full.set()
            time.sleep(FULL)
        elif status in (200, 202):
            posted.append(document["links"]["cancel"])
        else:
            raise SystemExit(f"bench: the flood got {status}: {json.dumps(document)[:300]}")
    for path in posted:
        client.post(path, {})


@contextlib.contextmanager
def flood(port, key, job):
    """In a process of its own, so that it takes nothing from the one that measures but what the service does."""
    full, over = multiprocessing.Event(), multiprocessing.Event()
    process = multiprocessing.Process(target=pour, args=(port, key, job, 10 ** 6 * next(serial), full, over))
    process.start()
    if not full.wait(300):
        raise SystemExit("bench: the flood did not fill its part of the queue")
    yield
    over.set()
    process.join()
    if process.exitcode:
        raise SystemExit("bench: the flood failed")


def quantile(seconds, share):
    return statistics.quantiles(seconds, n=100, method="inclusive")[round(100 * share) - 1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=50, help="measured in each half of a round")
    options = parser.parse_args()
    cores = os.cpu_count()
    print(f"\nA short job of one key while another key floods the service ({cores} cores, "
          f"{options.rounds * options.jobs} jobs each)\n")
    print(f"  {'the flood':<24}{'workers':>8}{'idle: median':>14}{'p99':>10}{'flooded: median':>18}{'p99':>10}"
          f"{'p99, times':>12}")
    for (name, job), workers in itertools.product(FLOODS, sorted({max(1, cores - 1), cores})):
        idle, flooded = [], []
        with server(options.build, workers) as (port, (key, flooding)):
            client = Client(port, key)
            measure(client, 5)
            for _ in range(options.rounds):
                idle += measure(client, options.jobs)
                with flood(port, flooding, job):
                    flooded += measure(client, options.jobs)
        times = quantile(flooded, 0.99) / quantile(idle, 0.99)
        print(f"  {name:<24}{workers:>8}{1e3 * quantile(idle, 0.5):>11.1f} ms{1e3 * quantile(idle, 0.99):>7.1f} ms"
              f"{1e3 * quantile(flooded, 0.5):>15.1f} ms{1e3 * quantile(flooded, 0.99):>7.1f} ms{times:>12.2f}"
              f"{'' if times <= 2 else '  OVER TWICE'}", flush=True)


main()
