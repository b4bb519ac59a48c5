"""The bench's rows for MMCC: `epsilond solve` as a user runs it, its memory, and the same by
dp_accounting at n = 64. Then MMCC beside renyi with few bands: the noise that each finds, and processor time.

    mmcc.py --build build [--skip-peer]

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import json
import os
import subprocess
import time

from peers import ask_peer

PEER = "dp-accounting==0.6.0"
CASES = [
    {"name": "Toeplitz n=64, p=1/64", "n": 64, "p": 1 / 64, "noise_multiplier": 61.82359560291439, "peer": True},
    {"name": "Toeplitz n=2048, p=1/2048", "n": 2048, "p": 1 / 2048, "noise_multiplier": 37.4},
    {"name": "banded n=100000, 32 bands", "n": 100000, "p": 1e-3, "noise_multiplier": 10.0, "bands": 32},
]


def job_of(case):
    matrix = {"family": "square_root", "normalization": "none"}
    if "bands" in case:
        matrix["bands"] = case["bands"]
    return {"n": case["n"], "matrix": matrix, "sampling": {"scheme": "poisson", "p": case["p"]},
            "noise_multiplier": case["noise_multiplier"], "delta": 1e-6, "accountant": "mmcc"}


def run(build, job):
    """The result, seconds and kernel counters of one solve, including the start of the program."""
    start = time.perf_counter()
    process = subprocess.Popen([os.path.join(build, "epsilond"), "solve", "-"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdin.write(json.dumps(job).encode())
    process.stdin.close()
    document = json.loads(process.stdout.read())
    usage = os.wait4(process.pid, 0)[2]
    process.returncode = 0
    return document["result"], time.perf_counter() - start, usage


def few_bands(build):
    print("\nFew bands: the noise multiplier for epsilon = 2, delta = 1e-5; square root, n = 1024, p = 0.01\n")
    print(f"  {'case':<32}{'mmcc':>13}{'CPU s':>9}{'renyi':>13}{'CPU s':>9}{'less':>8}")
    for bands in range(2, 7):
        found = []
        for accountant in ("mmcc", "renyi"):
            job = {"n": 1024, "matrix": {"family": "square_root", "bands": bands},
                   "sampling": {"scheme": "poisson", "p": 0.01}, "epsilon": 2, "delta": 1e-5, "accountant": accountant}
            result, _, usage = run(build, job)
            found += [result["noise_multiplier"], usage.ru_utime + usage.ru_stime]
        print(f"  {f'{bands} bands':<32}{found[0]:>13.6f}{found[1]:>9.2f}{found[2]:>13.6f}{found[3]:>9.2f}"
              f"{found[2] / found[0]:>8.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--objects", help="as its neighbours take; the program itself is timed")
    parser.add_argument("--skip-peer", action="store_true")
    options = parser.parse_args()
    print("\nMMCC: epsilon at delta = 1e-6, one run; the peer is the paper's algorithm over dp_accounting's mixtures\n")
    print(f"  {'case':<32}{'dp_accounting':>13}{'s':>9}{'ours':>13}{'s':>9}{'MiB':>8}{'faster':>10}")
    for case in CASES:
        result, seconds, usage = run(options.build, job_of(case))
        epsilon, size = result["epsilon"], usage.ru_maxrss / 1024
        theirs, ratio = f"{'':>22}", ""
        peer = None
        if case.get("peer") and not options.skip_peer:
            peer, = ask_peer(options.build, "venv", PEER, "peer_mmcc.py", [{**case, "delta": 1e-6}])
        if peer:
            theirs = f"{peer['epsilon']:>13.8f}{peer['seconds']:>9.2f}"
            ratio = f"{peer['seconds'] / seconds:>10.0f}" + ("" if epsilon <= peer["epsilon"] else "  LOOSER")
        print(f"  {case['name']:<32}{theirs}{epsilon:>13.8f}{seconds:>9.2f}{size:>8.0f}{ratio}", flush=True)
    few_bands(options.build)


main()
