#!/usr/bin/env python3
"""Prints which lines of lib, api and server the tests have run, by what gcov counted in a build of the flavour
`coverage`: a row for each room, then the sums, which must reach the numbers of LEAST. The lines that no test runs are
listed in BUILD/uncovered.txt.

    coverage.py BUILD

GCOV is the gcov of the compiler that built it. A line is run if any object that contains it has run it: functions of
headers are in many.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

LEAST = {("lib", "api"): 90, ("server",): 85}  # percent of the lines
ROOT = pathlib.Path(__file__).resolve().parents[2]


def counted(notes):
    """The lines of one object by source, with how often each was run. An object that nothing ran has no counts."""
    done = subprocess.run([os.environ.get("GCOV", "gcov"), "--json-format", "--stdout", notes], cwd=ROOT, text=True,
                          capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"coverage: the counts of {notes} cannot be read; delete them and test again\n{done.stderr}")
    return [(source["file"], [(line["line_number"], line["count"]) for line in source["lines"]])
            for document in done.stdout.splitlines() if document for source in json.loads(document)["files"]]


def ranges(lines):
    """As "3, 5-7"."""
    runs = []
    for line in sorted(lines):
        if runs and runs[-1][1] == line - 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def share(counts):
    run = sum(count > 0 for count in counts)
    return run, len(counts), 100 * run / max(len(counts), 1)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    rooms = sorted({room for group in LEAST for room in group})
    notes = [str(path) for room in rooms for path in sorted((build / room).rglob("*.gcno"))]
    lines = collections.defaultdict(lambda: collections.defaultdict(int))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for sources in pool.map(counted, notes):
            for name, counts in sources:
                if name.startswith(tuple(f"{room}/" for room in rooms)):
                    for line, count in counts:
                        lines[name][line] += count
    if not lines:
        raise SystemExit(f"coverage: there are no counts in {build}: make coverage")

    folders = collections.defaultdict(list)
    with open(build / "uncovered.txt", "w") as listed:
        for name, counts in sorted(lines.items()):
            folders["/".join(name.split("/")[:2]) if name.count("/") > 1 else name.split("/")[0]] += counts.values()
            missing = [line for line, count in counts.items() if count == 0]
            if missing:
                listed.write(f"{name}: {ranges(missing)}\n")
    print("lines that tests run, by room")
    for folder, counts in sorted(folders.items()):
        print("  {:<24}{:>7,} of {:>7,} {:>8.1f}%".format(folder, *share(counts)))
    failed = False
    for group, least in LEAST.items():
        counts = [count for name, of in lines.items() if name.split("/")[0] in group for count in of.values()]
        run, total, percent = share(counts)
        failed = failed or percent < least
        print(f"{' and '.join(group):<26}{run:>7,} of {total:>7,} {percent:>8.1f}%, of which {least}% are asked"
              f"{': TOO FEW' if percent < least else ''}")
    print(f"the others are listed in {os.path.relpath(build / 'uncovered.txt')}")
    return failed


sys.exit(main())
