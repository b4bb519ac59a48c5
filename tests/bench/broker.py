"""What it costs that a job is computed by a worker, through RabbitMQ, and not by a thread of the server: the time from
POST with a wait to its answer, for jobs of about 1 s and 0.1 s; how many empty jobs a second go through; and what
it costs that the draws of one long job travel in portions of about 1 s and 0.1 s, by servers with the draws of
tests/bench/portions_long.c and portions_short.c. Of such a job, a part is not divided: the cost is relative to the
seconds that the worker has spent on portions. Those of a job for an epsilon are not longer than a third of a second.

Server and worker have one thread each, on this machine. They are measured in turn, so that what else the machine does
is in all.

    broker.py --build build --objects build/release [--rounds 3]

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import itertools
import os
import pathlib
import re
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
# Divided: the sums of a block are 1,024 times as many if an epsilon is sought.
LONG = {"n": 4096, "matrix": {"family": "banded", "bands": 4, "toeplitz": True},
        "sampling": {"scheme": "b_min_sep", "p": 0.05}, "noise_multiplier": 1.0}
LONG = {name: {**LONG, **known, "accountant": {"method": "monte_carlo", "samples": 300_000}}
        for name, known in (("a delta", {"epsilon": 20}), ("an epsilon", {"delta": 1e-3}))}
serial = itertools.count()


def fresh(job):
    """The same job, but for a number that makes it another one."""
    return dict(job, noise_multiplier=job["noise_multiplier"] + next(serial) * 1e-9)


def seconds(server, job, count):
    """What each of some jobs takes."""
    found = []
    for _ in range(count):
        found.append(seconds_of(server, fresh(job)))
    return found


def seconds_of(server, job):
    start = time.perf_counter()
    server.solve(job)
    return time.perf_counter() - start


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


def draws(server, job, worker):
    """The seconds of a job with another seed, and those of each of its portions."""
    before = len(took(worker))
    fresh = dict(job, accountant={**job["accountant"], "seed": next(serial)})
    return seconds_of(server, fresh), took(worker)[before:]


def took(worker):
    return [float(each) for each in re.findall(r"event=answer .*seconds=([\d.]+)", worker.log())]


def measure_portions(here, divided, worker, rounds):
    for name, job in LONG.items():
        found = {server: [] for server in (here, *divided)}
        for server in found:
            draws(server, job, worker)  # what is kept from then on
        for _ in range(rounds):
            for server in found:
                found[server].append(draws(server, job, worker))
        local = statistics.median(elapsed for elapsed, _ in found[here])
        for server in divided:
            portions = [portion for _, each in found[server] for portion in each]
            more = [one[0] - other[0] for one, other in zip(found[server], found[here])]
            ratio = statistics.median(extra / sum(one[1]) for extra, one in zip(more, found[server]))
            print(f"a job for {name}, {local:.1f} s by the server, in {len(portions) / rounds:.0f} portions of "
                  f"{statistics.median(portions):.2f} s by a worker: {100 * ratio:+.1f}%, "
                  f"{1e3 * rounds * statistics.median(more) / len(portions):+.1f} ms a portion", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--objects", default="build/release")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ["EPSILOND"] = os.path.abspath(os.path.join(options.build, "epsilond"))
    sys.path.insert(0, str(ROOT / "tests" / "e2e"))
    import broker
    import conftest
    with tempfile.TemporaryDirectory(prefix="bench.", dir=options.build) as folder:
        folders = [pathlib.Path(folder).resolve() / name for name in ("broker", "here", "there", "long", "short")]
        for each in folders:
            each.mkdir()
        rabbit = broker.Broker(folders[0])
        try:
            one = ("--workers", "1", "--express", "0", "--log-level", "error")
            here = conftest.Server(folders[1], *one)
            there = conftest.Server(folders[2], *one, "--broker", rabbit.url(), "--broker-seconds", "0")
            split = (*one, "--broker", rabbit.url(), "--broker-seconds", "0", "--broker-split", "0")
            divided = []
            for each in folders[3:]:
                conftest.BINARY = os.path.abspath(f"{options.objects}/tests/bench/portions_{each.name}")
                divided.append(conftest.Server(each, *split))
            worker = broker.Worker(folders[2], rabbit.url())
            conftest.until(worker.welcome)
            measure(here, there, options.rounds)
            measure_portions(here, divided, worker, options.rounds)
            worker.stop()
            for server in (here, there, *divided):
                server.stop()
        finally:
            rabbit.close()


if __name__ == "__main__":
    main()
