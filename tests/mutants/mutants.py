#!/usr/bin/env python3
"""Mutates soundness-critical lines one at a time; the test programs that each row of table.txt names must notice.

  make mutants                    every row
  make mutants SHARE=I/N          every N-th row from the I-th on (0 <= I < N): a part that rotates
  make mutants MUTANTS='NAME..'   these
  mutants.py --check              only whether every row fits the sources, and every lemma has one, or is named as owed

These are errors: a row that does not fit (its text does not occur exactly once, it does not compile, or a test that it
names fails without it), a mutant that survives, and a lemma (## A1. in a LEMMAS.md of lib) that has no row and is not
listed in the table as owed.

The sources are not touched: a mutated file is compiled beside them, and its object is linked in front of the library.
For a mutated header, which any file may include, the test program is compiled anew. The exception is NAME_of.h, which
only NAME.c includes, alone or as one of several widths whose tests tell them apart (lanes): there NAME.c is compiled.

From the environment, which make sets: COMPILE, LINK, LIBS, B, ARCHIVES. Time limits count processor time, so that a
loaded machine changes nothing.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import concurrent.futures
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).parent / "table.txt"
FIELDS = ("lemma", "file", "find", "with", "why", "killed_by")
BASE_SECONDS = 300  # what a test may take without a mutant
HANG_SECONDS = 1200  # no processor is so loaded


def rows():
    """The table: blocks between empty lines, `name:` first, then one line a field, in order."""
    for block in TABLE.read_text().split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        row = {"name": lines[0].rstrip(":")}
        for field, line in zip(FIELDS, lines[1:], strict=True):
            key, _, value = line.partition(": ")
            if key.strip() != field:
                sys.exit(f"table.txt: {row['name']}: {field} expected, not {line!r}")
            row[field] = value
        yield row


def lemmas():
    """Every lemma of the library: a letter, which is its room's, and a number."""
    for path in sorted(ROOT.glob("lib/*/LEMMAS.md")):
        yield from re.findall(r"^## ([A-Z]\d+)\.", path.read_text(), re.M)


def misfit(row, known):
    """The error in the row, or None."""
    path = ROOT / row["file"]
    if row["lemma"] != "-" and row["lemma"] not in known:
        return f"there is no lemma {row['lemma']}"
    if not path.exists():
        return f"there is no {row['file']}"
    found = path.read_text().count(row["find"])
    if found != 1:
        return f"its text is {found} times in {row['file']}"
    if row["find"] == row["with"]:
        return "it changes nothing"
    for test in row["killed_by"].split():
        if not (ROOT / source_of(test)).exists():
            return f"there is no {source_of(test)}"
    return None


def source_of(test):
    return "tests/" + test.partition(":")[0] + ".c"


def command(variable):
    return shlex.split(os.environ[variable])


def call(arguments):
    made = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True)
    if made.returncode != 0:
        raise RuntimeError((made.stderr.strip().splitlines() or ["no message"])[-1])


def compile_to(target, source, *options):
    compiler, *rest = command("COMPILE")
    call([compiler, *options, *rest, "-Wno-error", "-w", "-c", "-o", str(target), str(source)])


def run_test(folder, test, objects, seconds, main_object=None):
    """Links one test program with these objects in front and runs it; (whether it passes, processor seconds)."""
    source, _, only = test.partition(":")
    built = os.environ["B"]
    program = Path(folder) / source.replace("/", "_")
    call([*command("LINK"), "-o", str(program), *map(str, objects), str(main_object or f"{built}/tests/{source}.o"),
          f"{built}/libhelpers.a", *command("ARCHIVES"), *command("LIBS")])

    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    environment = dict(os.environ, **({"TEST_FILTER": only} if only else {}))
    with open(Path(folder) / "said", "w+", errors="replace") as said:
        process = subprocess.Popen([str(program)], cwd=ROOT, env=environment, stdout=said, stderr=subprocess.STDOUT,
                                   preexec_fn=limit)
        hung = threading.Timer(HANG_SECONDS, process.kill)
        hung.start()
        _, status, used = os.wait4(process.pid, 0)
        hung.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        if process.returncode == 0 and not re.search(r"\[  PASSED  \] [1-9]", said.read()):
            raise RuntimeError(f"{test} runs nothing")
    return process.returncode == 0, used.ru_utime + used.ru_stime


def baseline(test):
    """Processor seconds of the test without any mutant, which it must pass."""
    with tempfile.TemporaryDirectory() as folder:
        passed, seconds = run_test(folder, test, [], BASE_SECONDS)
    if not passed:
        raise RuntimeError(f"{test} fails without any mutant, or takes over {BASE_SECONDS} s")
    return seconds


def run(row, limits):
    """One mutant: 'killed by ...', 'SURVIVES ...', or an error."""
    with tempfile.TemporaryDirectory() as folder:
        mutant, header = Path(folder) / "mutant.o", row["file"].endswith(".h")
        mutated = Path(folder) / (row["file"] if header else "mutant.c")
        original = (ROOT / row["file"]).read_text()
        template = ROOT / row["file"].replace("_of.h", ".c") if row["file"].endswith("_of.h") else None
        mutated.parent.mkdir(parents=True, exist_ok=True)
        mutated.write_text(f'#line 1 "{row["file"]}"\n' + original.replace(row["find"], row["with"]))
        survived = []
        for test in row["killed_by"].split():
            compile_to(mutant, template or (source_of(test) if header else mutated),
                       *([f"-I{folder}"] if header else []))
            whole = header and not template
            if run_test(folder, test, [] if whole else [mutant], limits[test], mutant if whole else None)[0]:
                survived.append(test)
    return "SURVIVES " + " ".join(survived) if survived else "killed by " + row["killed_by"]


def outcome_of(row, limits):
    start = time.monotonic()
    try:
        outcome = run(row, limits)
    except RuntimeError as error:
        outcome = f"ERROR: {error}"
    return row["name"], outcome, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description="one-line mutations that tests must notice")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--share", default="0/1")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    table, known = list(rows()), list(lemmas())
    wrong = [f"{row['name']}: {why}" for row in table if (why := misfit(row, known))]
    wrong += [f"{row['name']}: twice" for i, row in enumerate(table) if row["name"] in {r["name"] for r in table[:i]}]
    bare = [lemma for lemma in known if lemma not in {row["lemma"] for row in table}]
    owed = re.findall(r"[A-Z]\d+", re.search(r"^# Lemmas without a test that notices.*", TABLE.read_text(), re.M)[0])
    wrong += [f"{lemma}: no row" for lemma in bare if lemma not in owed]
    wrong += [f"{lemma}: has a row now" for lemma in owed if lemma not in bare]
    if wrong and not asked.names:
        sys.exit("table.txt does not fit the sources:\n  " + "\n  ".join(wrong))
    if asked.check:
        print(f"mutants: {len(table)} rows fit, {len(known) - len(bare)} of {len(known)} lemmas have some")
        return
    first, _, step = asked.share.partition("/")
    chosen = [row for row in table if row["name"] in asked.names] if asked.names else table[int(first)::int(step)]
    if asked.names and len(chosen) != len(set(asked.names)):
        sys.exit("no row is called " + " ".join(set(asked.names) - {row["name"] for row in chosen}))
    tests = sorted({test for row in chosen for test in row["killed_by"].split()})
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count() or 1)) as pool:
        try:
            seconds = dict(zip(tests, pool.map(baseline, tests)))
        except RuntimeError as error:
            sys.exit(f"mutants: {error}")
        limits = {test: 10 * taken + 10 for test, taken in seconds.items()}
        bad = 0
        for name, outcome, took in pool.map(outcome_of, chosen, [limits] * len(chosen)):
            bad += not outcome.startswith("killed")
            print(f"{name:<34} {outcome}  ({took:.0f} s)", flush=True)
    print(f"mutants: {len(chosen) - bad} killed, {bad} not")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
