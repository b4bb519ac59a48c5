"""The bench's rows for trainings of several different phases: ours in process on two threads (bench_phases.c), with
each phase alone and its share, beside dp_accounting's composition only. Ours is timed at the widest tolerance at
which its epsilon is not above the peer's. Also the seconds of processor time, and `epsilond solve` from start to end.

    phases.py --build build --objects build/release [--skip-peer]

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import json
import os
import subprocess
import time

from peers import ask_peer

PEER = "dp-accounting==0.6.0"
DELTA = 1e-6
REPEAT = 3
TOLERANCES = [1e-2, 3e-3, 1e-3, 3e-4, 1e-4]
# phases, steps of each, the first one's noise multiplier
CASES = [(4, 1000, 1.0), (16, 100000, 4.0), (256, 100000, 16.0)]


def phases_of(count, sigma):
    """(noise multiplier, p) of each phase, both rising."""
    return [(sigma * (1 + i / (4 * count)), 1e-3 * (1 + 2.5 * i / count)) for i in range(count)]


def job_of(count, n, sigma, tolerance):
    phases = [{"n": n, "sampling": {"scheme": "poisson", "p": p}, "noise_scale": noise / sigma}
              for noise, p in phases_of(count, sigma)]
    return json.dumps({"phases": phases, "noise_multiplier": sigma, "delta": DELTA,
                       "accountant": {"method": "auto", "tolerance": tolerance}})


def time_ours(objects, job):
    done = subprocess.run([os.path.join(objects, "tests/bench/bench_phases")], input=job, text=True, check=True,
                          stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def time_program(build, job):
    """Seconds from start to end, the least of some runs."""
    best = float("inf")
    for _ in range(REPEAT):
        start = time.perf_counter()
        subprocess.run([os.path.join(build, "epsilond"), "solve", "-"], input=job, text=True, check=True,
                       stdout=subprocess.PIPE)
        best = min(best, time.perf_counter() - start)
    return best


def at_precision(options, case, most):
    """Ours at the widest tolerance at which its epsilon is at most `most`, or at the narrowest."""
    for tolerance in TOLERANCES:
        job = job_of(*case, tolerance)
        ours = time_ours(options.objects, job)
        if ours["epsilon"] <= most:
            break
    return {**ours, "tolerance": tolerance, "program": time_program(options.build, job)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--objects", default="build/release")
    parser.add_argument("--skip-peer", action="store_true")
    options = parser.parse_args()
    print(f"\nTrainings of different Poisson phases, epsilon at delta = {DELTA:g}; the peer is {PEER}, interval 1e-4\n")
    print(f"  {'phases':>6}{'steps':>9}{'peer':>13}{'seconds':>10}{'ours':>13}{'lower':>13}{'tolerance':>11}"
          f"{'seconds':>10}{'of cores':>10}{'faster':>8}{'program':>10}")
    peers = [None] * len(CASES)
    if not options.skip_peer:
        cases = [{"phases": phases_of(count, sigma), "n": n, "delta": DELTA} for count, n, sigma in CASES]
        peers = ask_peer(options.build, "venv", PEER, "peer_phases.py", cases)
    for (count, n, sigma), peer in zip(CASES, peers):
        ours = at_precision(options, (count, n, sigma), peer["epsilon"] if peer else float("inf"))
        theirs = f"{peer['epsilon']:>13.8f}{peer['seconds']:>10.2f}" if peer else f"{'':>23}"
        verdict = "  LOOSER than the peer" if peer and ours["lower"] > peer["epsilon"] else ""
        faster = f"{peer['seconds'] / ours['seconds']:>8.0f}" if peer else f"{'':>8}"
        print(f"  {count:>6}{n:>9}{theirs}{ours['epsilon']:>13.8f}{ours['lower']:>13.8f}{ours['tolerance']:>11.0e}"
              f"{ours['seconds']:>10.3f}"
              f"{ours['busy']:>10.2f}{faster}{ours['program']:>10.3f}{verdict}", flush=True)


main()
