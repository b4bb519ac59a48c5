#!/usr/bin/env python3
"""A refactoring alters no number: two builds answer 500 jobs over the whole vocabulary with the same documents, bit
for bit.

  make corpus BASE=HEAD~1                the commit before, built beside this one
  corpus.py OLD NEW                      two programs
  corpus.py OLD NEW --within 1e-12       numbers may differ by rounding, and so the accounting version

jobs.jsonl was chosen among random jobs so that schemes, families, accountants, adjacencies, additions, questions and
ways to end meet in as many pairs as 500 jobs have room for. Errors are documents too.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
from pathlib import Path

VOLATILE = {"id", "compute_seconds", "elapsed_seconds", "created_at", "started_at", "finished_at", "request_id"}


def stripped(document):
    if isinstance(document, dict):
        return {key: stripped(value) for key, value in document.items() if key not in VOLATILE}
    if isinstance(document, list):
        return [stripped(value) for value in document]
    return document


def answer(program, job):
    done = subprocess.run([program, "solve", "-"], input=job, capture_output=True, text=True, timeout=600, check=False)
    return stripped(json.loads(done.stdout or "null")), done.returncode


def differences(old, new, within, at=""):
    """Pointers to where two documents differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [found for key in sorted(old.keys() | new.keys())
                for found in differences(old.get(key), new.get(key), within, f"{at}/{key}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [found for i, pair in enumerate(zip(old, new)) for found in differences(*pair, within, f"{at}/{i}")]
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (old, new))
    if numbers and abs(old - new) <= within * max(abs(old), abs(new)):
        return []
    return [] if type(old) is type(new) and old == new else [f"{at}: {old!r} -> {new!r}"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--within", type=float, default=0)
    options = parser.parse_args()
    if options.within > 0:
        VOLATILE.add("accounting_version")
    jobs = (Path(__file__).parent / "jobs.jsonl").read_text().splitlines()

    def compare(job):
        (old, old_code), (new, new_code) = (answer(program, job) for program in (options.old, options.new))
        return differences({"exit": old_code, "document": old}, {"exit": new_code, "document": new}, options.within)

    answered = differ = 0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count() or 1)) as pool:
        for number, found in enumerate(pool.map(compare, jobs), 1):
            answered += 1
            differ += bool(found)
            for line in found[:5]:
                print(f"corpus: line {number}{line}")
    print(f"corpus: {answered} jobs, {differ} answered differently")
    sys.exit(bool(differ) or answered < 500)


if __name__ == "__main__":
    main()
