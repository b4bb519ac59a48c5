#!/usr/bin/env python3
"""Checks the layout. Files that depend on each other in a cycle, by the symbols of their objects, are at most five and
in one folder. The rooms of lib are layers: a file uses only its own room and those before it in LAYERS, by symbols
and by includes. Rooms of the server that must be independent do not include each other. No folder has too many
sources. Prints TAP. B as in tests/run.sh.
"""
import os
import subprocess
import sys
from pathlib import Path

B = Path(os.environ.get("B", "build/release"))
MOST = 5
FOLDER_MOST = 25  # sources
# The rooms of lib, each before those that use it. Only lib/epsilon.h is outside of them.
LAYERS = ("base", "numerics", "sampling", "pld", "moments", "strategy", "accountants", "job", "tuned", "solve",
          "training", "ask")
# What files of a room must not include.
APART = {"server/http": ("jobs", "groups", "work", "store", "routes"),
         "server/cells": ("http", "routes", "jobs", "groups", "broker"),
         "server/broker": ("http", "routes", "jobs", "groups"), "server/jobs": ("http", "routes", "groups"),
         "server/groups": ("http", "routes"), "server/work": ("http", "routes", "jobs", "groups", "store"),
         "server/store": ("http", "routes", "jobs", "groups", "work"),
         "server/ops": ("http", "routes", "jobs", "groups", "work", "store")}


def symbols(path):
    """The symbols that an object defines, and those that it needs."""
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
    """Includes across rooms that must be independent."""
    return [f"{path}: {line}" for room, others in APART.items() for path in sorted(Path(room).glob("*.[ch]"))
            for line in path.read_text().splitlines()
            if any(line.startswith(f'#include "server/{other}/') for other in others)]


def layer(name):
    """The layer of a file of lib; None: it is in no room."""
    room = name.split("/")[1]
    return LAYERS.index(room) if room in LAYERS else None


def upward(files):
    """Files of lib that use a later room, by symbols and by includes, and files that are in no room."""
    uses = {(name, other) for name, others in files.items() for other in others if name.startswith("lib/")}
    for path in map(str, sorted(Path("lib").rglob("*.[ch]"))):
        for line in Path(path).read_text().splitlines():
            if line.startswith('#include "'):
                uses.add((path, line.split('"')[1]))
    uses = {(name, other) for name, other in uses if "lib/epsilon.h" not in (name, other)}
    loose = sorted({name for pair in uses for name in pair if layer(name) is None})
    return [f"{name} is in no room" for name in loose] or [
        f"{name} uses {other}" for name, other in sorted(uses) if layer(other) > layer(name)]


def crowded():
    """Folders with too many sources."""
    folders = {}
    for room in ("lib", "api", "server"):
        for path in Path(room).rglob("*.c"):
            folders.setdefault(str(path.parent), []).append(path)
    return [f"{folder}: {len(paths)}" for folder, paths in sorted(folders.items()) if len(paths) > FOLDER_MOST]


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
    print("1..5")
    for number, (bad, what) in enumerate(((large, f"cycles of files have at most {MOST} files of one room"),
                                          (strangers(), "HTTP, jobs, work and the store are independent"),
                                          (upward(files), "rooms of lib use only those above them"),
                                          (crowded(), f"folders have at most {FOLDER_MOST} sources"),
                                          ([] if len(objects) > 100 else ["too few objects"],
                                           "the objects have been built")), 1):
        print(f"{'not ok' if bad else 'ok'} {number} - {what}")
        for circle in bad:
            print(f"# {circle}")


main()
