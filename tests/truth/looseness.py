#!/usr/bin/env python3
"""Prints how loose answers are, as a table in Markdown: the reported delta over the true one, by scheme and direction,
where the true one is at least 1e-12.

    TRUTH_ACCOUNTANT=auto TRUTH_LOOSENESS=lines REPRODUCE=1 TEST_FILTER='random*' build/release/tests/truth/test_truth
    tests/truth/looseness.py lines

SPDX-License-Identifier: GPL-3.0-or-later
"""
import collections
import sys

LEAST = 1e-12


def main():
    found = collections.defaultdict(list)
    with open(sys.argv[1], encoding="ascii") as lines:
        for line in lines:
            scheme, direction, loose, claimed = line.split()
            if float(claimed) / float(loose) >= LEAST:
                found[scheme, direction].append(float(loose))
    print("| scheme | direction | mechanisms | median | 90% | worst |\n| --- | --- | --- | --- | --- | --- |")
    for (scheme, direction), values in sorted(found.items()):
        values.sort()
        shown = [values[len(values) // 2], values[len(values) * 9 // 10], values[-1]]
        print(f"| `{scheme}` | {direction} | {len(values)} | " + " | ".join(f"{value:.3g}" for value in shown) + " |")


if __name__ == "__main__":
    main()
