"""Times dp_accounting on the bench's cases: one JSON line in, one JSON line out.

Run by bench.py with the Python of a virtual environment that has dp_accounting; imports are not timed. One
solve is what a user of the library does: build the privacy loss distribution, compose it, ask for epsilon.
The epsilon is the larger of the two directions, as get_epsilon_for_delta gives it.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import json
import sys
import time

from dp_accounting.pld import privacy_loss_distribution

INTERVAL = 1e-4  # the library's default


def solve(case):
    pld = privacy_loss_distribution.from_gaussian_mechanism(
        case["noise_multiplier"], value_discretization_interval=INTERVAL, sampling_prob=case["p"])
    return pld.self_compose(case["n"]).get_epsilon_for_delta(case["delta"])


def main():
    for line in sys.stdin:
        case = json.loads(line)
        best = float("inf")
        for _ in range(case["repeat"]):
            start = time.perf_counter()
            epsilon = solve(case)
            best = min(best, time.perf_counter() - start)
        print(json.dumps({"epsilon": float(epsilon), "seconds": best}), flush=True)


main()
