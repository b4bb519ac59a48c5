#!/usr/bin/env python3
"""Checks that a family, a scheme and an accountant are one file and one row each, and that a member of theirs is one
line and one row. A toy of each is added to a copy of the tree under build/, which is built and then solves jobs that
use it, by `solve` and over HTTP. Prints TAP.

Adding one means: tests/toys/NAME.c is copied into its room and contains its name in JSON; one line is added to the
table of the room; and, because C selects by number, one value is added to the enum of lib/epsilon.h. A member is one
line in its struct there and one row in lib/base/members.c. No other line changes, and CONTRIBUTING.md names each of
these files. Not tested: the published contract (api/openapi.yaml) and the form of the page.

From the environment: CC, JOBS.
"""
import json
import os
import re
import shutil
import signal
import sqlite3
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

# The member of each toy that has one: its struct and the member before which it goes, in C; its row.
MEMBERS = {"toy_prefix": ("eps_matrix", "double gap;", "gap", "double toy_tail;",
                          'toy_tail, EPS__REAL, "toy_tail", ONLY(FAMILY(TOY_PREFIX)), .initial = 0.5'),
           "toy_half": ("eps_sampling", "bool last_iterate;", "last_iterate", "double toy_thinning;",
                        'toy_thinning, EPS__REAL, "toy_thinning", ONLY(BIT(EPS_SCHEME_TOY_HALF)), .initial = 0.5, '
                        'RANGE(EPS__PROBABILITY)'),
           "toy_double": ("eps_tuning", "double max_seconds;", "max_seconds", "double toy_times;",
                          'toy_times, EPS__REAL, "toy_times", ONLY(METHOD(TOY_DOUBLE)), .initial = 2')}
# The section of CONTRIBUTING.md that says what to touch.
SECTIONS = {"FAMILY": "Add a family", "SCHEME": "Add a scheme", "ACCOUNTANT": "Add an accountant"}

NONE = {"scheme": "none", "epochs": 4}
GAUSSIAN = {"n": 100, "sampling": NONE, "noise_multiplier": 2, "delta": 1e-6, "accountant": "gaussian"}
DELTA = {"n": 4, "sampling": NONE, "noise_multiplier": 2, "epsilon": 1}
SAMPLED = {"n": 100, "noise_multiplier": 1, "delta": 1e-6}


def half(batch, thinning, **more):
    return dict({"n": 100, "sampling": {"scheme": "toy_half", "batch_size": batch, "dataset_size": 1000,
                                        "toy_thinning": thinning}}, **more)


def poisson(p, **more):
    return dict({"n": 100, "sampling": {"scheme": "poisson", "p": p}}, **more)


PHASES = {"noise_multiplier": 1, "delta": 1e-6}
DRAWN = {"n": 64, "matrix": {"family": "square_root", "bands": 2}, "noise_multiplier": 1, "delta": 1e-3,
         "accountant": {"method": "monte_carlo", "samples": 65536, "seed": 7}}


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
    ("toy_prefix takes its tail from a member of its own",
     dict(GAUSSIAN, matrix={"family": "toy_prefix", "toy_tail": 0.25}), matrix,
     dict(GAUSSIAN, matrix={"family": "toeplitz", "coefficients": [1, 0.25]}), matrix),
    ("toy_half takes its share from a member of its own",
     half(20, 0.25, noise_multiplier=1, delta=1e-6), epsilon, poisson(0.005, noise_multiplier=1, delta=1e-6), epsilon),
    ("toy_double takes its factor from a member of its own",
     dict(GAUSSIAN, accountant={"method": "toy_double", "toy_times": 3}), epsilon, GAUSSIAN,
     lambda result: 3 * result["epsilon"]),
    ("phases that differ in the member of a toy are two phases",
     dict(PHASES, phases=[half(20, 1), half(20, 0.125)]), epsilon,
     dict(PHASES, phases=[poisson(0.02), poisson(0.0025)]), epsilon),
    ("the accountant toy_certain solves by itself from what is proven, and its guarantee is the result's",
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
    """Adds a toy; returns the files that were touched."""
    shutil.copy(f"tests/toys/{name}.c", TREE / room)
    insert(f"{room}/{table}", rf"^#define {rows}\(row\) *\\\n", f"    row({name}) \\\n")
    insert("lib/epsilon.h", rf"^(?= *EPS_{enum}_COUNT$)", f"    EPS_{enum}_{name.upper()},\n")
    touched = {f"{room}/", table, "lib/epsilon.h"}
    if name in MEMBERS:
        struct, before, member, line, row = MEMBERS[name]
        insert("lib/epsilon.h", rf"^struct {struct} \{{\n(?:(?!^\}}).*\n)*?(?= *{re.escape(before)})", f"    {line}\n")
        insert("lib/base/members.c", rf"^(?= *row\({struct}, {member},)", f"    row({struct}, {row}) \\\n")
        touched.add("lib/base/members.c")
    return touched


def unnamed():
    """The files that a toy touches and that the instructions of CONTRIBUTING.md do not name."""
    text = Path("CONTRIBUTING.md").read_text()
    sections = dict(zip(re.findall(r"^## (.*)$", text, re.M), re.split(r"^## .*$", text, flags=re.M)[1:]))
    return [f"{SECTIONS[enum]}: {path}" for enum, paths in TOUCHED.items() for path in sorted(paths)
            if path not in sections[SECTIONS[enum]]]


TOUCHED = {}


def build():
    """Builds the copy with the toys, with warnings as errors and without optimisation."""
    shutil.rmtree(TREE, ignore_errors=True)
    for folder in ("lib", "api", "server", "migrations"):
        shutil.copytree(folder, TREE / folder)
    shutil.copy("Makefile", TREE)
    for toy in TOYS:
        TOUCHED.setdefault(toy[1], set()).update(add(*toy))
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

    def document(self, job):
        request = urllib.request.Request(f"{self.url}/v1/jobs?wait={PATIENCE}", json.dumps(job).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=2 * PATIENCE) as answer:
                document = json.load(answer)
        except urllib.error.HTTPError as refused:
            raise AssertionError(refused.read().decode()) from refused
        assert document["status"] == "succeeded", document
        return document

    def post(self, job):
        return self.document(job)["result"]

    def chunks(self):
        """How many blocks of draws are cached."""
        with sqlite3.connect(TREE / "toys.db") as database:
            return database.execute("SELECT count(*) FROM blobs WHERE kind = 2").fetchone()[0]


def ask(way, how):
    for what, toy, seen, known, expected in QUESTIONS:
        try:
            found, wanted = seen(way(toy)), expected(way(known))
        except AssertionError as wrong:
            report(False, f"{what} ({how})", str(wrong))
            continue
        close = found == wanted if isinstance(wanted, list) else abs(found - wanted) <= 1e-3 * wanted
        report(close and wanted, f"{what} ({how})", f"{found} is not {wanted}")


def refusal(server, job):
    try:
        server.post(job)
    except AssertionError as refused:
        return str(refused)
    return "accepted"


def look(server):
    """Checks the places beside the answer that depend on a toy's member. The two jobs have the same p."""
    first, second = half(20, 0.5, **DRAWN), half(10, 1, **DRAWN)
    seeds = [server.post(dict(job, accountant=dict(job["accountant"], seed=None)))["monte_carlo"]["remove"]["seed"]
             for job in (first, second)]
    report(len(set(seeds)) == 2, "the seed depends on the member of a toy", str(seeds))
    chunks = [(server.post(job), server.chunks())[1] for job in (first, second, dict(first, label="again"))]
    report(chunks[0] < chunks[1] == chunks[2], "the cache of draws tells jobs apart by it", str(chunks))
    tail = dict(GAUSSIAN, matrix={"family": "toy_prefix", "toy_tail": 0.25})
    result = server.post(tail)
    stored = server.post(dict(GAUSSIAN, matrix={"family": "stored", "id": result["factorization"]["id"]}))
    report(matrix(stored)[0] == matrix(result)[0] and stored["error"] == result["error"],
           "the recipe of a stored factorisation has it", f"{stored}\n{result}")
    document = server.document(half(20, 0.25, noise_multiplier=1, delta=1e-6))
    report(document["job"]["sampling"]["toy_thinning"] == 0.25, "the canonical job has it", json.dumps(document["job"]))
    said = refusal(server, half(20, 2, noise_multiplier=1, delta=1e-6))
    report("/sampling/toy_thinning" in said and "1e-20" in said, "its range is checked", said)
    said = refusal(server, dict(poisson(0.01), noise_multiplier=1, delta=1e-6, sampling={"scheme": "poisson", "p": 0.01,
                                                                                        "toy_thinning": 0.5}))
    report("/sampling/toy_thinning" in said and "toy_half" in said, "another scheme does not take it", said)


LOOKS = 6


def main():
    print(f"1..{2 + LOOKS + 2 * len(QUESTIONS)}")
    started = time.monotonic()
    built = build()
    if report(built.returncode == 0, "a tree with the toys builds", built.stdout):
        missing = unnamed()
        report(not missing, "CONTRIBUTING.md names every file that a toy touches", "\n".join(missing))
        ask(solve, "solve")
        with Server() as server:
            ask(server.post, "HTTP")
            look(server)
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    return number != 2 + LOOKS + 2 * len(QUESTIONS)


sys.exit(main())
