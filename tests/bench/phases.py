"""The bench's rows for trainings of several different phases: `epsilond solve` from start to end, which includes each
phase alone and its share, beside dp_accounting's composition only. Ours is timed at the widest tolerance at which its
epsilon is not above the peer's. Also the number of cores that ours kept busy.

    phases.py --build build [--objects build/release] [--skip-peer]

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import json
import os
import resource
import subprocess
import tempfile
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


def time_ours(build, count, n, sigma, tolerance):
    phases = [{"n": n, "sampling": {"scheme": "poisson", "p": p}, "noise_scale": noise / sigma}
              for noise, p in phases_of(count, sigma)]
    job = {"phases": phases, "noise_multiplier": sigma, "delta": DELTA,
           "accountant": {"method": "auto", "tolerance": tolerance}}
    with tempfile.NamedTemporaryFile("w", suffix=".json", dir=build) as file:
        json.dump(job, file)
        file.flush()
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([os.path.join(build, "epsilond"), "solve", file.name], text=True, check=True,
                              stdout=subprocess.PIPE)
        seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    result = json.loads(done.stdout.splitlines()[0])["result"]
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"epsilon": result["epsilon"], "lower": result["bracket"]["lower"], "seconds": seconds, "busy": busy}


def at_precision(build, case, most):
    """The best of ours at the widest tolerance at which its epsilon is at most `most`, or at the narrowest."""
    for tolerance in TOLERANCES:
        ours = min((time_ours(build, *case, tolerance) for _ in range(REPEAT)), key=lambda run: run["seconds"])
        if ours["epsilon"] <= most:
            break
    return {**ours, "tolerance": tolerance}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--objects", help="not needed: it is the program that is timed")
    parser.add_argument("--skip-peer", action="store_true")
    options = parser.parse_args()
    print(f"\nTrainings of different Poisson phases, epsilon at delta = {DELTA:g}; the peer is {PEER}, interval 1e-4\n")
    print(f"  {'phases':>6}{'steps':>9}{'peer':>13}{'seconds':>10}{'ours':>13}{'lower':>13}{'tolerance':>11}"
          f"{'seconds':>10}{'of cores':>10}{'faster':>8}")
    peers = [None] * len(CASES)
    if not options.skip_peer:
        cases = [{"phases": phases_of(count, sigma), "n": n, "delta": DELTA} for count, n, sigma in CASES]
        peers = ask_peer(options.build, "venv", PEER, "peer_phases.py", cases)
    for (count, n, sigma), peer in zip(CASES, peers):
        ours = at_precision(options.build, (count, n, sigma), peer["epsilon"] if peer else float("inf"))
        theirs = f"{peer['epsilon']:>13.8f}{peer['seconds']:>10.2f}" if peer else f"{'':>23}"
        verdict = "  LOOSER than the peer" if peer and ours["lower"] > peer["epsilon"] else ""
        faster = f"{peer['seconds'] / ours['seconds']:>8.0f}" if peer else ""
        print(f"  {count:>6}{n:>9}{theirs}{ours['epsilon']:>13.8f}{ours['lower']:>13.8f}{ours['tolerance']:>11.0e}"
              f"{ours['seconds']:>10.3f}"
              f"{ours['busy']:>10.2f}{faster}{verdict}", flush=True)


main()
