"""How well one long Monte Carlo job would use 10, 100 and 1,000 workers: a discrete-event simulation on
what is measured here with one worker, which is first held against runs with 1, 2 and 4 workers on this machine.

The model. A server has one thread for what portions cost it, a broker one as well, and each worker computes one portion
at a time. A portion is sent if fewer than `window` are at the broker, and if no more than `ahead` wait for one before
them; it passes the broker, is computed, passes the broker back and is merged in order. Between two portions a worker
waits for the broker to store its answer and to deliver the next. A long job has longer portions, as in draws.c, which
cost the more the longer they are if their sums are those of a grid of epsilons. Assumed beyond the measurements:

- every worker is as fast as one here, has its portions to itself, and none dies;
- how long portions take is drawn from those measured, independently of each other;
- the network adds nothing to what this machine's loopback does; the broker stores on a disk like this one's;
- the broker and the server each have a core of their own, and what they do for a portion costs what it costs here.

In the runs on this machine all share its cores, less what other processes use meanwhile, equally among what runs.

    simulate.py --build build

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import collections
import datetime
import heapq
import itertools
import math
import os
import pathlib
import random
import re
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASE = {"n": 4096, "matrix": {"family": "banded", "bands": 4, "toeplitz": True},
        "sampling": {"scheme": "b_min_sep", "p": 0.05}, "noise_multiplier": 1.0}
# What is solved for: the job, and how many numbers the sums of a block are.
KINDS = {"epsilon": ({**BASE, "delta": 1e-3}, 2 + 5 * 1024), "delta": ({**BASE, "epsilon": 20}, 2 + 5)}
FEW, MANY = 100_000, 400_000  # samples
BROKER_JOBS = 1024
UNDER_WAY = 2  # portions at the broker for each thread of a worker, and as many besides: server/jobs/portions.c
# Of lib/accountants/monte_carlo/draws.c: bytes and number of blocks that are announced, and the least number of
# portions that they are; how many portions a run has before they become longer, and the most blocks of one.
AHEAD_BYTES, AHEAD_MOST, AHEAD_LEAST, PORTIONS_MOST, CHUNKS_MOST = 64e6, 1 << 20, 64, 1024, 256
BLOCKS = 12  # of a portion of a short run: PORTION_OPERATIONS / BLOCK_OPERATIONS
MEASURED = (1, 2, 4)
PREDICTED = (10, 100, 1000)
HOURS = (1, 10, 100)  # of one core, that the draws of a job take


# ---------------------------------------------------------------- the simulation

class Clock:
    def __init__(self):
        self.now, self.events, self.count = 0.0, [], 0

    def after(self, seconds, act):
        self.count += 1
        heapq.heappush(self.events, (self.now + seconds, self.count, act))

    def run(self):
        while self.events:
            self.now, _, act = heapq.heappop(self.events)
            act()


class Cores:
    """What runs on so many cores shares them equally: at most one for each."""

    def __init__(self, clock, cores):
        self.clock, self.cores, self.running = clock, cores, []
        self.done, self.since, self.version, self.count = 0.0, 0.0, 0, 0  # done: seconds of each that runs all the time

    def rate(self):
        return min(1.0, self.cores / len(self.running))

    def advance(self):
        if self.running:
            self.done += (self.clock.now - self.since) * self.rate()
        self.since = self.clock.now

    def run(self, seconds, act):
        self.advance()
        self.count += 1
        heapq.heappush(self.running, (self.done + seconds, self.count, act))
        self.plan()

    def plan(self):
        self.version += 1
        if self.running:
            version = self.version
            left = max(self.running[0][0] - self.done, 0) / self.rate()
            self.clock.after(left, lambda: self.end(version))

    def end(self, version):
        if version != self.version:  # something else has begun or ended meanwhile
            return
        self.advance()
        act = heapq.heappop(self.running)[2]
        self.plan()
        act()


class Station:
    """Does one thing after the other."""

    def __init__(self, cores):
        self.cores, self.queue, self.busy = cores, collections.deque(), False

    def ask(self, seconds, act):
        self.queue.append((seconds, act))
        self.next()

    def next(self):
        if self.busy or not self.queue:
            return
        self.busy = True
        seconds, act = self.queue.popleft()
        self.cores.run(seconds, lambda: self.end(act))

    def end(self, act):
        self.busy = False
        act()
        self.next()


Costs = collections.namedtuple("Costs", "server broker pause fixed")  # seconds a portion; fixed: of the job, before


def simulate(portions, workers, costs, window, ahead, cores=math.inf):
    """The seconds that a job of these portions takes. cores: that all share; math.inf: each has its own."""
    clock = Clock()
    shared = Cores(clock, cores)
    server, broker = (Station(shared if cores < math.inf else Cores(clock, 1)) for _ in range(2))
    state = {"sent": 0, "out": 0, "merged": 0, "idle": workers}
    waiting, answered = collections.deque(), set()

    def send():
        while (state["sent"] < len(portions) and state["out"] < window
               and state["sent"] < state["merged"] + ahead):
            number = state["sent"]
            state["sent"] += 1
            state["out"] += 1
            server.ask(costs.server / 2, lambda number=number: broker.ask(costs.broker / 2, lambda: arrive(number)))

    def arrive(number):
        waiting.append(number)
        give()

    def give():
        while waiting and state["idle"]:
            state["idle"] -= 1
            number = waiting.popleft()
            shared.run(portions[number], lambda number=number: compute(number))

    def compute(number):
        clock.after(costs.pause, rest)
        broker.ask(costs.broker / 2, lambda: server.ask(costs.server / 2, lambda: merge(number)))

    def rest():
        state["idle"] += 1
        give()

    def merge(number):
        state["out"] -= 1
        answered.add(number)
        while state["merged"] in answered:
            answered.remove(state["merged"])
            state["merged"] += 1
        state["end"] = clock.now
        send()

    server.ask(costs.fixed, send)
    clock.run()
    assert state["merged"] == len(portions)
    return state["end"]


def check_model():
    """Where the answer is known without a simulation."""
    free = Costs(0, 0, 0, 0)
    assert math.isclose(simulate([1.0] * 12, 3, free, 100, 100), 4)
    assert math.isclose(simulate([1.0] * 12, 4, free, 100, 100, cores=2), 6)
    assert math.isclose(simulate([1.0] * 12, 4, free, 2, 100), 6)  # no more than two at the broker
    assert math.isclose(simulate([9.0] + [1.0] * 9, 2, free, 100, 2), 13)  # the third waits for the first
    assert math.isclose(simulate([1.0] * 4, 1, Costs(0, 0, 0.5, 2), 100, 100), 7.5)
    assert math.isclose(simulate([0.0] * 100, 50, Costs(1, 0, 0, 0), 100, 100), 100)  # the server alone is busy


# ---------------------------------------------------------------- the measurements

def ticks(pid):
    """CPU seconds of a process and its children that live."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + sum(map(ticks, children))


def children_of_threads(pid):
    """Cells are started by any thread."""
    found = set()
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found.update((task / "children").read_text().split())
    return found


def spent(pid):
    return ticks(pid) + sum(map(ticks, children_of_threads(pid) - set(
        pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())))


def busy():
    """CPU seconds of the whole machine."""
    user, nice, system = map(int, pathlib.Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def portions_of(worker, known):
    """The portions of the last run: begun, ended, seconds."""
    log, began, found = worker.log(), {}, []
    for at, event, question, rest in re.findall(
            r"time=(\S+) level=info event=(question|answer) question=(\w+)(.*)", log):
        if event == "question":
            began[question] = moment(at)
        elif question not in known:
            known.add(question)
            found.append((began[question], moment(at), float(re.search(r"seconds=([\d.]+)", rest).group(1))))
    return sorted(found)


Run = collections.namedtuple("Run", "elapsed portions pauses server broker others")


def measure(server, rabbit, workers, job, samples, seed, known):
    pids = [server.process.pid, rabbit.process.pid, *(worker.process.pid for worker in workers)]
    job = {**job, "accountant": {"method": "monte_carlo", "samples": samples, "seed": seed}}
    before, whole, start = [spent(pid) for pid in pids], busy(), time.time()
    assert server.solve(job)["status"] == "succeeded"
    elapsed = time.time() - start
    used = [spent(pid) - then for pid, then in zip(pids, before)]
    others = max(busy() - whole - sum(used), 0) / elapsed
    each = [portions_of(worker, known) for worker in workers]
    pauses = [max(after[0] - before[1], 0) for one in each for before, after in zip(one, one[1:])]
    took = [portion[2] for one in each for portion in one]
    share = min(sum(used[2:]) / sum(took), 1)  # of a core, which each had
    return Run(elapsed, [share * one for one in took], pauses, used[0], used[1], others)


def costs_of(few, many):
    """What a portion costs, by the difference between many and few; what the job takes besides."""
    more = len(many.portions) - len(few.portions)
    each = max(many.server - few.server, 0) / more
    return Costs(each, max(many.broker - few.broker, 0) / more, statistics.median(many.pauses),
                 max(few.server - each * len(few.portions), 0))


def window_of(workers):
    return min(BROKER_JOBS, UNDER_WAY * (workers + 1))


def drawn(portions, count):
    return random.Random(1).choices(portions, k=count)


def report(name, runs, costs):
    portions = runs[1].portions
    print(f"\nA job for {name}: {len(portions)} portions of {1e3 * statistics.mean(portions):.0f} ms of CPU "
          f"(from {1e3 * min(portions):.0f} to {1e3 * max(portions):.0f}). A portion costs the server "
          f"{1e3 * costs.server:.1f} ms and the broker {1e3 * costs.broker:.1f} ms of CPU, and its worker a pause of "
          f"{1e3 * costs.pause:.1f} ms; the rest of the job takes {costs.fixed:.1f} s.")
    for workers, run in runs.items():
        cores = max(os.cpu_count() - run.others, 0.5)
        count = len(run.portions)
        said = simulate(drawn(portions, count), workers, costs, window_of(workers), count, cores)
        print(f"  {workers} workers here: {run.elapsed:5.1f} s, simulated {said:5.1f} s "
              f"({100 * (said / run.elapsed - 1):+.0f}%) on {cores:.1f} cores", flush=True)


def predict(portions, costs, few, numbers):
    mean, ahead = statistics.mean(portions), min(AHEAD_BYTES / (8 * numbers), AHEAD_MOST)
    print(f"  {'core-hours':>12}{'workers':>9}{'portions':>10}{'of':>9}{'time':>11}{'efficiency':>12}")
    for hours in HOURS:
        blocks = hours * 3600 / mean * BLOCKS
        times = max(min(max(BLOCKS, blocks / PORTIONS_MOST), CHUNKS_MOST, ahead / AHEAD_LEAST), 1) / BLOCKS
        count = math.ceil(blocks / BLOCKS / times)
        long = [times * portion for portion in drawn(portions, count)]
        # What a portion costs more than one of few numbers is for its bytes.
        each = costs._replace(server=few.server + times * max(costs.server - few.server, 0),
                              broker=few.broker + times * max(costs.broker - few.broker, 0))
        for workers in PREDICTED:
            took = simulate(long, workers, each, window_of(workers), int(ahead / BLOCKS / times))
            print(f"  {hours:>12,}{workers:>9,}{count:>10,}{times * mean:>7.1f} s{took:>9,.0f} s"
                  f"{100 * sum(long) / workers / took:>11.0f}%", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    check_model()
    os.environ["EPSILOND"] = os.path.abspath(os.path.join(options.build, "epsilond"))
    sys.path.insert(0, str(ROOT / "tests" / "e2e"))
    import broker
    import conftest
    with tempfile.TemporaryDirectory(prefix="bench.", dir=options.build) as folder:
        folders = [pathlib.Path(folder).resolve() / name for name in ("broker", "server")]
        for each in folders:
            each.mkdir()
        rabbit = broker.Broker(folders[0])
        try:
            server = conftest.Server(folders[1], "--workers", "1", "--log-level", "error", "--broker", rabbit.url(),
                                     "--broker-seconds", "0", "--broker-split", "0", "--broker-jobs", str(BROKER_JOBS))
            workers, known, seed = [], set(), itertools.count(1)
            runs, few = {name: {} for name in KINDS}, {}

            def run(name, samples):
                return measure(server, rabbit, workers, KINDS[name][0], samples, next(seed), known)
            for count in MEASURED:
                while len(workers) < count:
                    workers.append(broker.Worker(folders[1], rabbit.url()))
                    conftest.until(workers[-1].welcome)
                for name in KINDS:
                    if count == 1:
                        run(name, FEW)  # what is kept from then on: strategies, and the cells themselves
                        few[name] = run(name, FEW)
                    runs[name][count] = run(name, MANY)
            costs = {name: costs_of(few[name], runs[name][1]) for name in KINDS}
            for name, (_, numbers) in KINDS.items():
                report(name, runs[name], costs[name])
                predict(runs[name][1].portions, costs[name], costs["delta"], numbers)
            for worker in workers:
                worker.stop()
            server.stop()
        finally:
            rabbit.close()


if __name__ == "__main__":
    main()
