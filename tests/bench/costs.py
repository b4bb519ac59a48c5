"""The accountants' predicted costs of jobs beside the measured ones: processor time on one core, without caches.

    costs.py --objects build/release

The jobs are in costs.jsonl. Estimates decide what is left out, refused or run first, and are in nanoseconds of no
particular machine, so each ratio is compared with the median of all: one beyond 2 times that, either way, is marked.
The largest job takes about a minute.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import json
import os
import statistics
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


def describe(job):
    matrix, sampling = job.get("matrix", {}), job["sampling"]
    accountant = job["accountant"]
    name = accountant if isinstance(accountant, str) else f"{accountant['method']} at {accountant['tolerance']:g}"
    more = [f"{member} {matrix[member]}" for member in ("bands",) if member in matrix]
    more += [f"{member} {sampling[member]}" for member in ("bins",) if member in sampling]
    more += [member for member in ("redraw", "truncation", "last_iterate", "examples_per_user") if member in sampling]
    more += [job["adjacency"]] if "adjacency" in job else []
    unknown = next(member for member in ("epsilon", "delta", "noise_multiplier") if member not in job)
    return f"{name}: {unknown}, {matrix.get('family', 'identity')} n={job['n']} {' '.join(more)}".strip()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--objects", default="build/release")
    program = os.path.join(parser.parse_args().objects, "tests/bench/bench_costs")
    costs = []
    with open(os.path.join(HERE, "costs.jsonl")) as lines:
        for line in lines:
            done = subprocess.run([program], input=line, text=True, check=True, stdout=subprocess.PIPE)
            costs.append((describe(json.loads(line)), json.loads(done.stdout)))
    median = statistics.median(cost["predicted"] / cost["measured"] for _, cost in costs)
    print(f"{'':72}{'predicted':>11}{'measured':>11}{'ratio':>8}{'of the median':>15}")
    beyond = 0
    for job, cost in costs:
        ratio = cost["predicted"] / cost["measured"]
        far = not 0.5 <= ratio / median <= 2
        beyond += far
        print(f"{job:72}{cost['predicted']:9.3g} s{cost['measured']:9.3g} s{ratio:8.2f}{ratio / median:15.2f}"
              f"{'  beyond 2' if far else ''}")
    print(f"{beyond} of {len(costs)} beyond a factor of 2; the median ratio is {median:.2f}")


if __name__ == "__main__":
    main()
