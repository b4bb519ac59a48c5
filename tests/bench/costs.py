"""The accountants' predicted costs of jobs beside the measured ones: processor time on one core, without caches.

    costs.py --objects build/release

The jobs are in costs.jsonl; a ratio beyond 2 either way is marked, because estimates decide what is left out,
refused or run first. The largest job takes about a minute.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import json
import os
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
    print(f"{'predicted over measured':72}{'predicted':>11}{'measured':>11}{'ratio':>8}")
    beyond = 0
    with open(os.path.join(HERE, "costs.jsonl")) as lines:
        for line in lines:
            done = subprocess.run([program], input=line, text=True, check=True, stdout=subprocess.PIPE)
            cost = json.loads(done.stdout)
            ratio = cost["predicted"] / cost["measured"]
            far = not 0.5 <= ratio <= 2
            beyond += far
            print(f"{describe(json.loads(line)):72}{cost['predicted']:9.3g} s{cost['measured']:9.3g} s{ratio:8.2f}"
                  f"{'  beyond 2' if far else ''}", flush=True)
    print(f"{beyond} beyond a factor of 2")


if __name__ == "__main__":
    main()
