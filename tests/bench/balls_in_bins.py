"""The bench's rows for balls in bins: ours beside the paper's algorithms as written, and beside PLD_accounting.

Times are processor time of one core, without caches (bench_balls_in_bins, whose comments say what is measured); the
straightforward versions run once, ours at its best of several where it is short. Both results must agree. Feldman and
Shenfeld's accountant (C = I only) is in a virtual environment of its own under the build folder.

    balls_in_bins.py --build build --objects build/release [--skip-peer]

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import json
import os
import subprocess

from peers import ask_peer

PEER = "pld-accounting[performance]==2.0"
DELTA = 1e-5
AGREE = 1e-10

# family, n, bins, bands (0: the family's own), sigma, order, repeat
ORDERS = [
    ("identity", 1000, 1000, 0, 1.0, 64, 5),
    ("square_root", 100, 100, 4, 2.0, 32, 3),
    ("square_root", 1000, 100, 4, 4.0, 16, 3),
]
# family, n, bins, bands, sigma
DISTANCES = [("identity", 1000, 100, 0, 4.0), ("square_root", 1000, 100, 4, 5.0),
             ("inverse_square_root", 1000, 100, 4, 5.0)]
# unknown, family, n, bins, bands, given, accountant, the most seconds it may take
SOLVES = [
    ("epsilon", "identity", 1000, 100, 0, 4.0, "conditional_composition", 10),
    ("epsilon", "square_root", 1000, 100, 4, 5.0, "conditional_composition", 10),
    ("sigma", "identity", 1000, 100, 0, 2.0, "conditional_composition", 60),
    ("sigma", "square_root", 1000, 100, 4, 2.0, "conditional_composition", 60),
]
PEERS = [{"sigma": 0.5, "bins": 1000, "delta": DELTA}]


def ask(objects, *arguments):
    done = subprocess.run([os.path.join(objects, "tests/bench/bench_balls_in_bins"), *map(str, arguments)], text=True,
                          check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def name_of(family, n, bins, bands):
    return f"{family}{f' {bands} bands' if bands else ''}, n={n}, b={bins}"


def describe(name, answer):
    verdict = "" if answer["apart"] <= AGREE else f"  APART by {answer['apart']:.1e}"
    print(f"  {name:<56}{1e3 * answer['naive_seconds']:>12.1f}{1e3 * answer['seconds']:>12.1f}"
          f"{answer['naive_seconds'] / answer['seconds']:>10.0f}{verdict}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--objects", default="build/release")
    parser.add_argument("--skip-peer", action="store_true")
    options = parser.parse_args()

    print("\nBalls in bins, processor time of one core; the rival is the paper's algorithm as written\n")
    print(f"  {'case':<56}{'as written':>12}{'ours, ms':>12}{'faster':>10}")
    for family, n, bins, bands, sigma, order, repeat in ORDERS:
        answer = ask(options.objects, "orders", family, n, bins, bands, sigma, order, repeat)
        describe(f"{name_of(family, n, bins, bands)}, all orders to {order}", answer)
    for case in DISTANCES:
        describe(f"{name_of(*case[:4])}, distances", ask(options.objects, "distances", *case))

    print(f"\nWhole solves at delta = {DELTA:g}, and the seconds they may take\n")
    for unknown, family, n, bins, bands, given, accountant, most in SOLVES:
        answer = ask(options.objects, unknown, family, n, bins, bands, given, accountant)
        name = f"{name_of(family, n, bins, bands)}, {unknown} at {given:g}"
        print(f"  {accountant:<26}{name:<48}{answer['value']:>12.7f}{answer['seconds']:>9.2f}{most:>5}"
              f"{'  SLOWER' if answer['seconds'] > most else ''}", flush=True)

    print("\nPLD_accounting 2.0 with numba (its bracket of epsilon) and ours, C = I\n")
    peers = [None] * len(PEERS)
    if not options.skip_peer:
        peers = ask_peer(options.build, "venv-balls-in-bins", PEER, "peer_balls_in_bins.py", PEERS)
    for case, peer in zip(PEERS, peers):
        ours = ask(options.objects, "epsilon", "identity", case["bins"], case["bins"], 0, case["sigma"], "pld")
        theirs, verdict = "", ""
        if peer:
            theirs = f"[{peer['lower']:.7f}, {peer['epsilon']:.7f}]{peer['seconds']:>9.2f} s"
            verdict = f"{peer['seconds'] / ours['seconds']:>8.0f} times faster"
            verdict += "" if ours["value"] <= peer["epsilon"] else "  LOOSER than the peer"
            verdict += "" if ours["value"] >= peer["lower"] else "  UNDER the peer's lower bound"
        print(f"  b={case['bins']}, sigma={case['sigma']:g}  {theirs:<34}{ours['value']:>12.7f}"
              f"{ours['seconds']:>9.3f} s{verdict}", flush=True)


main()
