"""The bench's rows for strategies optimised for the job: the mean squared error beside that of the best matrix for
error alone with as many bands (BandMF) and of the square root, all at the noise proven for them; and seconds.

    tuned.py --build build

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import json
import os
import subprocess
import time

CASES = [
    {"name": "balls in bins, 128 steps, 32 bins", "n": 128, "bands": 16, "epsilon": 2,
     "sampling": {"scheme": "balls_in_bins", "bins": 32}},
    {"name": "b-min-sep, 240 steps, 64 of 1920", "n": 240, "bands": 16, "epsilon": 4,
     "sampling": {"scheme": "b_min_sep", "batch_size": 64, "dataset_size": 1920, "separation": 16}},
    {"name": "b-min-sep, 1024 steps, p 0.01", "n": 1024, "bands": 16, "epsilon": 2,
     "sampling": {"scheme": "b_min_sep", "p": 0.01, "separation": 16}},
]


def solve(build, case, matrix):
    """The mean squared error and seconds of one solve, including the start of the program."""
    job = {"n": case["n"], "matrix": {**matrix, "bands": case["bands"]}, "sampling": case["sampling"],
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
    print(f"  {'case':<36}{'BandMF':>10}{'s':>7}{'root':>10}{'s':>7}{'for the job':>13}{'s':>7}{'of BandMF':>11}")
    for case in CASES:
        rows = [solve(options.build, case, matrix) for matrix in (
            {"family": "banded"}, {"family": "square_root"}, {"family": "banded", "optimize_for": "job"})]
        (best, first), (root, second), (tuned, third) = rows
        print(f"  {case['name']:<36}{best:>10.3f}{first:>7.1f}{root:>10.3f}{second:>7.1f}{tuned:>13.3f}{third:>7.1f}"
              f"{tuned / best:>11.3f}", flush=True)


main()
