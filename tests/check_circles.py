#!/usr/bin/env python3
"""Files that need each other, by the symbols of their objects: a circle stays within one room and is of five files at most,
and rooms have none. And by what they include: rooms of the server that must not know of each other do not. Prints TAP. B as
in tests/run.sh.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import os
import subprocess
import sys
from pathlib import Path

B = Path(os.environ.get("B", "build/release"))
MOST = 5
# What no file of a room includes.
APART = {"server/http": ("jobs", "groups", "work", "store", "routes"), "server/jobs": ("http", "routes", "groups"),
         "server/groups": ("http", "routes"), "server/work": ("http", "routes", "jobs", "groups", "store"),
         "server/store": ("http", "routes", "jobs", "groups", "work"),
         "server/ops": ("http", "routes", "jobs", "groups", "work", "store")}


def symbols(path):
    """What an object defines, and what it needs."""
    defined, needed = set(), set()
    for line in subprocess.run(["nm", "-P", path], check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines():
        name, kind = line.split()[:2]
        if kind == "U":
            needed.add(name)
        elif kind.isupper():
            defined.add(name)
    return defined, needed


def circles(graph):
    """The strongly connected components of more than one node (Tarjan)."""
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in graph[node]:
            if other not in number:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == number[node]:
            circle = [stack.pop()]
            while circle[-1] != node:
                circle.append(stack.pop())
            if len(circle) > 1:
                found.append(sorted(circle))

    for node in graph:
        if node not in number:
            visit(node)
    return found


def strangers():
    """Includes that cross where they must not."""
    return [f"{path}: {line}" for room, others in APART.items() for path in sorted(Path(room).glob("*.[ch]"))
            for line in path.read_text().splitlines()
            if any(line.startswith(f'#include "server/{other}/') for other in others)]


def main():
    sys.setrecursionlimit(10000)
    objects = {str(path.relative_to(B).with_suffix("")): symbols(path)
               for folder in ("lib", "api", "server") for path in sorted((B / folder).rglob("*.o"))
               if Path(path.relative_to(B).with_suffix(".c")).exists()}
    home = {symbol: name for name, (defined, _) in objects.items() for symbol in defined}
    files = {name: {home[symbol] for symbol in needed if symbol in home} - {name}
             for name, (_, needed) in objects.items()}
    large = [circle for circle in circles(files)
             if len(circle) > MOST or len({os.path.dirname(name) for name in circle}) > 1]
    print("1..3")
    for number, (bad, what) in enumerate(((large, f"files that need each other are {MOST} of one room at most"),
                                          (strangers(), "HTTP, jobs, work and the store know no more of each other than they may"),
                                          ([] if len(objects) > 100 else ["too few objects"], "the objects are there")), 1):
        print(f"{'not ok' if bad else 'ok'} {number} - {what}")
        for circle in bad:
            print(f"# {circle}")


main()
