"""The bench's rows for Monte Carlo: draws a second on one core, ours and jax_privacy's in one run, and the roofline.

A draw is a sample of the outputs of n steps and its privacy loss: b-min-sep with separation = bands, square root with
unit columns, cold, remove, sigma 1. The roofline is the time of n bands multiply-adds and n normals at the peak
rate of a loop of nothing else, measured in the same run (bench_draws); 256 bands exceed it, by FFT. Best of several
short runs, in processor time. Both mean losses are printed: a rate without its answer says nothing. Where the peer
cannot be installed its column says so.

    draws.py --build build --objects build/release [--seconds 4] [--skip-peer]

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import json
import os
import subprocess

from peers import ask_peer

PEER = "jax-privacy==2.0.0"
CASES = [
    {"n": 1024, "bands": 16, "p": 1 / 49},
    {"n": 7200, "bands": 256, "p": 1.25e-4},
]


def time_library(objects, case, seconds):
    arguments = [case["n"], case["bands"], repr(case["p"]), seconds]
    done = subprocess.run([os.path.join(objects, "tests/bench/bench_draws"), *map(str, arguments)],
                          text=True, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def time_peer(build, seconds):
    """The rate of every case; none where the peer is missing."""
    return ask_peer(build, "venv-strategies", PEER, "peer_draws.py", [{**case, "seconds": seconds} for case in CASES],
                    JAX_PLATFORMS="cpu", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")


def name_of(case):
    return f"b_min_sep, n={case['n']}, b={case['bands']}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--objects", default="build/release")
    parser.add_argument("--seconds", type=float, default=4, help="of each case and each side")
    parser.add_argument("--skip-peer", action="store_true")
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    peers = [None] * len(CASES) if options.skip_peer else time_peer(options.build, options.seconds)
    print(f"\nMonte Carlo: draws a second on one core; the peer is {PEER}, monte_carlo, at its best batch\n")
    print(f"  {'':<32}{'jax_privacy':>20}{'ours':>20}{'':>10}{'at peak, a second, 1e9':>26}{'roofline':>20}")
    print(f"  {'case':<32}{'mean loss':>10}{'draws':>10}{'mean loss':>10}{'draws':>10}{'faster':>10}"
          f"{'multiply-adds':>16}{'normals':>10}{'draws':>12}{'reached':>8}")
    for case, peer in zip(CASES, peers):
        ours = time_library(options.objects, case, options.seconds)
        theirs = f"{peer['mean']:>10.4f}{peer['draws']:>10,.0f}" if peer else f"{'':>10}{'n/a':>10}"
        faster = f"{ours['draws'] / peer['draws']:>10.1f}" if peer else f"{'n/a':>10}"
        print(f"  {name_of(case):<32}{theirs}"
              f"{ours['mean']:>10.4f}{ours['draws']:>10,.0f}{faster}{ours['fused'] / 1e9:>16.1f}"
              f"{ours['normals'] / 1e9:>10.3f}{ours['roofline']:>12,.0f}{ours['share']:>8.0%}", flush=True)


main()
