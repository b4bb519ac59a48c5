"""Feldman and Shenfeld's accountant (PLD_accounting) on the bench's cases: one JSON line in, one JSON line out.

Run by balls_in_bins.py with the Python of a virtual environment that has it. Imports and the compilation by numba are
not timed.
It is asked for its bracket of epsilon at the accuracy that is its default, both directions.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import json
import sys
import time

from PLD_accounting import gaussian_allocation_epsilon_range


def solve(case):
    return gaussian_allocation_epsilon_range(delta=case["delta"], sigma=case["sigma"], num_steps=case["bins"])


def main():
    solve({"sigma": 1.0, "bins": 4, "delta": 1e-3})
    for line in sys.stdin:
        case = json.loads(line)
        start = time.process_time()
        upper, lower = solve(case)
        print(json.dumps({"epsilon": upper, "lower": lower, "seconds": time.process_time() - start}), flush=True)


main()
