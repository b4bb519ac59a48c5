"""What it costs that a job is computed by a worker, through RabbitMQ, and not by a thread of the server: the time from
POST with a wait to its answer, for jobs of about 1 s and 0.1 s; and how many empty jobs a second go through.

Server and worker have one thread each, on this machine. The two are measured in turn, so that what else the machine
does is in both.

    broker.py --build build [--rounds 3]

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import itertools
import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLOW = {"n": 128, "matrix": {"family": "banded", "bands": 4, "toeplitz": True},
        "sampling": {"scheme": "b_min_sep", "p": 0.05}, "delta": 1e-3, "noise_multiplier": 1.0,
        "accountant": {"method": "monte_carlo", "seed": 5}}
QUICK = {"n": 50000, "sampling": {"scheme": "poisson", "p": 0.01}, "noise_multiplier": 1.0, "delta": 1e-6,
         "accountant": {"method": "pld", "tolerance": 1e-6}}
EMPTY = {"n": 100, "sampling": {"scheme": "none"}, "noise_multiplier": 2.0, "delta": 1e-6}
POINTS = 1000
serial = itertools.count()


def fresh(job):
    """The same job, but for a number that makes it another one."""
    return dict(job, noise_multiplier=job["noise_multiplier"] + next(serial) * 1e-9)


def seconds(server, job, count):
    """What each of some jobs takes."""
    found = []
    for _ in range(count):
        asked = fresh(job)
        start = time.perf_counter()
        server.solve(asked)
        found.append(time.perf_counter() - start)
    return found


def sweep(server):
    """Empty jobs a second."""
    grid = {"/noise_multiplier": [3 + next(serial) * 1e-6 for _ in range(POINTS)]}
    start = time.perf_counter()
    path = server.post({"base": EMPTY, "grid": grid}, "/v1/sweeps").json()["links"]["self"]
    assert server.get(f"{path}?wait=300", timeout=400).json()["status"] == "succeeded"
    return POINTS / (time.perf_counter() - start)


def measure(here, there, rounds):
    for name, job, count in (("1 s", SLOW, 4), ("0.1 s", QUICK, 20), ("empty", EMPTY, 100)):
        took = {server: [] for server in (here, there)}
        for _ in range(rounds):
            for server in took:
                took[server] += seconds(server, job, count)
        local, remote = (statistics.median(took[server]) for server in (here, there))
        print(f"a job of {name}: {1e3 * local:.1f} ms by the server, {1e3 * remote:.1f} ms by a worker "
              f"({100 * (remote / local - 1):+.1f}%, {1e3 * (remote - local):+.1f} ms)", flush=True)
    rates = [[sweep(server) for _ in range(rounds)] for server in (here, there)]
    print(f"empty jobs of a sweep: {max(rates[0]):.0f}/s by the server, {max(rates[1]):.0f}/s by a worker")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ["EPSILOND"] = os.path.abspath(os.path.join(options.build, "epsilond"))
    sys.path.insert(0, str(ROOT / "tests" / "e2e"))
    import broker
    import conftest
    with tempfile.TemporaryDirectory(prefix="bench.", dir=options.build) as folder:
        folders = [pathlib.Path(folder).resolve() / name for name in ("broker", "here", "there")]
        for each in folders:
            each.mkdir()
        rabbit = broker.Broker(folders[0])
        try:
            one = ("--workers", "1", "--express", "0", "--log-level", "error")
            here = conftest.Server(folders[1], *one)
            there = conftest.Server(folders[2], *one, "--broker", rabbit.url(), "--broker-seconds", "0")
            worker = broker.Worker(folders[2], rabbit.url())
            conftest.until(worker.welcome)
            measure(here, there, options.rounds)
            worker.stop()
            for server in (here, there):
                server.stop()
        finally:
            rabbit.close()


if __name__ == "__main__":
    main()
