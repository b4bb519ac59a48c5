#!/usr/bin/env python3
"""Checks that a family, a scheme and an accountant are one file and one row each. A toy of each is added to a copy of
the tree under build/, which is built and then solves a job that uses it, by `solve` and over HTTP. Prints TAP.

Adding one means: tests/toys/NAME.c is copied into the room and contains its wire name; one line is added to the
table of the room; and, because C selects by number, one value is added to the enum of lib/epsilon.h. No other line
changes. Not tested: a member that only the new one takes needs a line in api/codec/fields.c, and one in the
published contract (api/openapi.yaml).

From the environment: CC, JOBS.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

TREE = Path("build/toys")
PATIENCE = 120
number = 0

# Name, enum, room and table of each toy.
TOYS = (("toy_prefix", "FAMILY", "lib/strategy/families", "families.c", "FAMILIES"),
        ("toy_half", "SCHEME", "lib/sampling/schemes", "schemes.c", "SCHEMES"),
        ("toy_double", "ACCOUNTANT", "lib/accountants", "registry.c", "ACCOUNTANTS"),
        ("toy_certain", "ACCOUNTANT", "lib/accountants", "registry.c", "ACCOUNTANTS"))

NONE = {"scheme": "none", "epochs": 4}
GAUSSIAN = {"n": 100, "sampling": NONE, "noise_multiplier": 2, "delta": 1e-6, "accountant": "gaussian"}
DELTA = {"n": 4, "sampling": NONE, "noise_multiplier": 2, "epsilon": 1}
SAMPLED = {"n": 100, "noise_multiplier": 1, "delta": 1e-6}


def epsilon(result):
    return result["epsilon"]


def matrix(result):
    return [result[member] for member in ("epsilon", "bracket", "sensitivity", "factorization", "error")]


def doubled(result):
    return 2 * result["epsilon"]


def guaranteed(result):
    return [result["guarantee"], result["delta"], result["accountant"]]


def certain(result):
    expected = ["estimate_verify_release", result["delta"] / 2, "toy_certain"]
    return expected if result["guarantee"] == "deterministic" else None


# What is tested: the job with the toy and the value to read, the job without it and the value to read.
QUESTIONS = (
    ("the family toy_prefix is the Toeplitz matrix 1, 1/2",
     dict(GAUSSIAN, matrix={"family": "toy_prefix"}), matrix,
     dict(GAUSSIAN, matrix={"family": "toeplitz", "coefficients": [1, 0.5]}), matrix),
    ("the scheme toy_half is Poisson with half the probability",
     dict(SAMPLED, sampling={"scheme": "toy_half", "batch_size": 20, "dataset_size": 1000}), epsilon,
     dict(SAMPLED, sampling={"scheme": "poisson", "p": 0.01}), epsilon),
    ("the accountant toy_double returns twice the result of gaussian",
     dict(GAUSSIAN, accountant="toy_double"), epsilon, GAUSSIAN, doubled),
    ("the accountant toy_certain solves by itself, and its guarantee is that of the result",
     dict(DELTA, accountant="toy_certain"), guaranteed, DELTA, certain),
)


def report(good, name, detail=""):
    global number
    number += 1
    print(f"{'ok' if good else 'not ok'} {number} - {name}", flush=True)
    for line in detail.splitlines()[-40:] if not good else []:
        print(f"# {line}")
    return good


def insert(path, pattern, line):
    """Inserts the line after the only match of the pattern."""
    text = (TREE / path).read_text()
    found = list(re.finditer(pattern, text, re.M))
    assert len(found) == 1, f"{path}: {len(found)} places for {line.strip()}"
    (TREE / path).write_text(text[:found[0].end()] + line + text[found[0].end():])


def add(name, enum, room, table, rows):
    shutil.copy(f"tests/toys/{name}.c", TREE / room)
    insert(f"{room}/{table}", rf"^#define {rows}\(row\) *\\\n", f"    row({name}) \\\n")
    insert("lib/epsilon.h", rf"^(?= *EPS_{enum}_COUNT$)", f"    EPS_{enum}_{name.upper()},\n")


def build():
    """Builds the copy with the toys, with warnings as errors and without optimisation."""
    shutil.rmtree(TREE, ignore_errors=True)
    for folder in ("lib", "api", "server", "migrations"):
        shutil.copytree(folder, TREE / folder)
    shutil.copy("Makefile", TREE)
    for toy in TOYS:
        add(*toy)
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "B", "BIN", "FLAVOUR")}
    jobs = os.environ.get("JOBS") or os.cpu_count()
    return subprocess.run(["make", "-s", f"-j{jobs}", "OPT=-O0", f"CC={os.environ.get('CC', 'cc')}", "build/epsilond"],
                          cwd=TREE, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def solve(job):
    ended = subprocess.run([TREE / "build/epsilond", "solve", "-"], input=json.dumps(job), text=True, timeout=PATIENCE,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(ended.stdout)["result"]


class Server:
    def __enter__(self):
        self.process = subprocess.Popen(
            [TREE / "build/epsilond", "serve", "--listen", "127.0.0.1:0", "--db", TREE / "toys.db", "--log-level",
             "error"],
            stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().removeprefix("listening on ").strip()
        return self

    def __exit__(self, *unused):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()

    def post(self, job):
        request = urllib.request.Request(f"{self.url}/v1/jobs?wait={PATIENCE}", json.dumps(job).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=2 * PATIENCE) as answer:
                document = json.load(answer)
        except urllib.error.HTTPError as refused:
            raise AssertionError(refused.read().decode()) from refused
        assert document["status"] == "succeeded", document
        return document["result"]


def ask(way, how):
    for what, toy, seen, known, expected in QUESTIONS:
        try:
            found, wanted = seen(way(toy)), expected(way(known))
        except AssertionError as wrong:
            report(False, f"{what} ({how})", str(wrong))
            continue
        close = found == wanted if isinstance(wanted, list) else abs(found - wanted) <= 1e-3 * wanted
        report(close and wanted, f"{what} ({how})", f"{found} is not {wanted}")


def main():
    print(f"1..{1 + 2 * len(QUESTIONS)}")
    started = time.monotonic()
    built = build()
    if report(built.returncode == 0, "a tree with the toys builds", built.stdout):
        ask(solve, "solve")
        with Server() as server:
            ask(server.post, "HTTP")
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    return number != 1 + 2 * len(QUESTIONS)


sys.exit(main())
