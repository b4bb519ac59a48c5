"""Times dp_accounting on trainings of several phases: one JSON line in, one JSON line out, as peer.py.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import json
import sys
import time

from dp_accounting.pld import privacy_loss_distribution

INTERVAL = 1e-4  # the library's default


def solve(case):
    whole = None
    for noise_multiplier, p in case["phases"]:
        phase = privacy_loss_distribution.from_gaussian_mechanism(
            noise_multiplier, value_discretization_interval=INTERVAL, sampling_prob=p).self_compose(case["n"])
        whole = phase if whole is None else whole.compose(phase)
    return whole.get_epsilon_for_delta(case["delta"])


for line in sys.stdin:
    asked = json.loads(line)
    start = time.perf_counter()
    epsilon = solve(asked)
    print(json.dumps({"epsilon": float(epsilon), "seconds": time.perf_counter() - start}), flush=True)
