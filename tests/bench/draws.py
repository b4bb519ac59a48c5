"""The bench's rows for Monte Carlo: draws a second on one core, ours and jax_privacy's in one run, and the roofline;
then the time to a verified statement, ours and that of opake's Rust accountant in one run.

A draw is a sample of the outputs of n steps and its privacy loss: b-min-sep with separation = bands, square root with
unit columns, cold, remove, sigma 1. The roofline is the time of n bands multiply-adds and n normals at the peak
rate of a loop of nothing else, measured in the same run (bench_draws); 256 bands exceed it, by FFT. Best of several
short runs, in processor time. Both mean losses are printed: a rate without its answer says nothing. Where the peer
cannot be installed its column says so.

A statement is an upper bound on delta, in both directions, that fails with a probability of at most delta. opake counts
its resolution as a loss that is infinite, so that it must be below delta. Its time is inversely proportional to it and
is measured at two resolutions; at the one that the statement needs, half of delta, it is extrapolated.

    draws.py --build build --objects build/release [--seconds 4] [--skip-peer]

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import json
import os
import resource
import subprocess

from peers import ask_peer

PEER = "jax-privacy==2.0.0"
CASES = [
    {"n": 1024, "bands": 16, "p": 1 / 49},
    {"n": 7200, "bands": 256, "p": 1.25e-4},
]
VERIFIER = "opake-accounting==0.16.1"
STATEMENT = {"n": 1024, "bands": 16, "p": 0.01, "noise_multiplier": 4.2, "epsilon": 1.0}
DELTA = 1e-6
RESOLUTIONS = [1e-3, 2e-4]


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
    compare_statements(options)


def state_ours(build):
    """The answer to STATEMENT by monte_carlo, and the processor seconds of the whole program."""
    job = {"n": STATEMENT["n"], "matrix": {"family": "square_root", "bands": STATEMENT["bands"]},
           "sampling": {"scheme": "b_min_sep", "separation": STATEMENT["bands"], "p": STATEMENT["p"],
                        "warm_start": True},
           "epsilon": STATEMENT["epsilon"], "noise_multiplier": STATEMENT["noise_multiplier"],
           "accountant": "monte_carlo"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([os.path.join(build, "epsilond"), "solve", "-"], input=json.dumps(job), text=True, check=True,
                          stdout=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return json.loads(done.stdout.splitlines()[0])["result"], after.ru_utime - before.ru_utime


def compare_statements(options):
    print(f"\nMonte Carlo: processor time to a verified delta, {name_of(STATEMENT)}, warm, p={STATEMENT['p']}, noise "
          f"multiplier {STATEMENT['noise_multiplier']}, epsilon {STATEMENT['epsilon']:g}\n")
    print(f"  {'':<32}{'resolution':>12}{'delta':>14}{'seconds':>12}")
    cases = [{**STATEMENT, "resolution": resolution, "failure": DELTA} for resolution in RESOLUTIONS]
    peers = [None] * len(cases)
    if not options.skip_peer:
        peers = ask_peer(options.build, "venv-statements", VERIFIER, "peer_statement.py", cases)
    for case, peer in zip(cases, peers):
        if peer:
            print(f"  {VERIFIER:<32}{case['resolution']:>12g}{peer['delta']:>14.3e}{peer['seconds']:>12.1f}",
                  flush=True)
    ours, seconds = state_ours(options.build)
    if peers[-1]:
        needed = peers[-1]["seconds"] * RESOLUTIONS[-1] / (DELTA / 2)
        print(f"  {'the same, extrapolated':<32}{DELTA / 2:>12g}{'':>14}{needed:>12.0f}")
    faster = f"   {needed / seconds:.0f} times less" if peers[-1] else ""
    print(f"  {'ours':<32}{'':>12}{ours['delta']:>14.3e}{seconds:>12.1f}{faster}", flush=True)
    assert ours["delta"] <= DELTA and ours["guarantee"] == "high_probability", ours


main()
