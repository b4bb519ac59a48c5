"""The bench's rows for strategies optimised for the job: the mean squared error beside that of the best matrix of the
family for error alone with as many bands or buffers (BandMF, BandInvMF, BLT) and of the square root, all at the noise
proven for them; and seconds.

    tuned.py --build build

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import json
import os
import subprocess
import time

BINS = {"name": "balls in bins, 128 steps, 32 bins", "n": 128, "bands": 16, "epsilon": 2,
        "sampling": {"scheme": "balls_in_bins", "bins": 32}}
CASES = [
    BINS,
    {**BINS, "family": {"family": "banded_inverse", "bands": 16}},
    {**BINS, "family": {"family": "blt", "buffers": 2}},
    {"name": "b-min-sep, 240 steps, 64 of 1920", "n": 240, "bands": 16, "epsilon": 4,
     "sampling": {"scheme": "b_min_sep", "batch_size": 64, "dataset_size": 1920, "separation": 16}},
    {"name": "b-min-sep, 1024 steps, p 0.01", "n": 1024, "bands": 16, "epsilon": 2,
     "sampling": {"scheme": "b_min_sep", "p": 0.01, "separation": 16}},
    {"name": "b-min-sep, 1024 steps, 64 bands", "n": 1024, "bands": 64, "epsilon": 4,
     "sampling": {"scheme": "b_min_sep", "p": 0.01, "separation": 64}},
]


def solve(build, case, matrix):
    """The mean squared error and seconds of one solve, including the start of the program."""
    job = {"n": case["n"], "matrix": matrix, "sampling": case["sampling"],
           "epsilon": case["epsilon"], "delta": 1e-5}
    start = time.perf_counter()
    done = subprocess.run([os.path.join(build, "epsilond"), "solve", "-"], input=json.dumps(job), text=True,
                          check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)["result"]["error"]["mean_squared"], time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--objects", help="as its neighbours take; the program itself is timed")
    parser.add_argument("--skip-peer", action="store_true", help="there is none")
    options = parser.parse_args()
    print("\nStrategies optimised for the job: mean squared errors at delta = 1e-5, one run\n")
    print(f"  {'case':<36}{'family':<16}{'for error':>10}{'s':>7}{'root':>10}{'s':>7}{'for the job':>13}{'s':>7}"
          f"{'of the error':>14}")
    for case in CASES:
        family = case.get("family", {"family": "banded", "bands": case["bands"]})
        rows = [solve(options.build, case, matrix) for matrix in (
            family, {"family": "square_root", "bands": case["bands"]}, {**family, "optimize_for": "job"})]
        (best, first), (root, second), (tuned, third) = rows
        print(f"  {case['name']:<36}{family['family']:<16}{best:>10.3f}{first:>7.1f}{root:>10.3f}{second:>7.1f}"
              f"{tuned:>13.3f}{third:>7.1f}{tuned / best:>14.3f}", flush=True)


main()
