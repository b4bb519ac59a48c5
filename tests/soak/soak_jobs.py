#!/usr/bin/env python3
"""Runs wild jobs (test_jobs.c) in parallel, chunk by chunk, and continues where the last run of the same program ended.

  make soak-jobs                          a hundred thousand, under ASan and UBSan
  make soak-jobs SOAK_MINUTES=20          as many as fit, the rest in later runs
  SOAK_FIRST=7 SOAK_COUNT=1 SOAK_VERBOSE=1 build/asan/tests/soak/test_jobs      one seed again

A job that crashes or hangs ends its program: the seed is noted, and the chunk continues after it. Failures are listed
in build/asan/soak/PROGRAM/failed, one line a seed, with the log beside it.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import concurrent.futures
import hashlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

CHUNK = 250
PROGRAM = Path(sys.argv[1])
COUNT = int(os.environ.get("SOAK_COUNT", 100000))
FIRST = int(os.environ.get("SOAK_FIRST", 0))
END = time.monotonic() + 60 * float(os.environ.get("SOAK_MINUTES", "inf"))


def name(chunk):
    first, count = chunk
    return f"{first}-{first + count - 1}"


def run_chunk(folder, first, count):
    """The seeds of the chunk that failed; None if there was no time to begin it."""
    failed, seed, log = [], first, folder / f"{name((first, count))}.log"
    if time.monotonic() > END:
        return None
    log.unlink(missing_ok=True)
    at = folder / f"{name((first, count))}.at"
    while seed < first + count:
        at.write_text("")
        with log.open("a+", errors="replace") as out:
            start = out.tell()
            subprocess.run([str(PROGRAM)], stdout=out, stderr=subprocess.STDOUT, check=False,
                           env=dict(os.environ, SOAK_FIRST=str(seed), SOAK_COUNT=str(first + count - seed),
                                    SOAK_AT=str(at)))
            out.seek(start)
            said = out.read()
        failed += [int(number) for number in re.findall(r"^# seed (\d+): ", said, re.M)]
        if re.search(r"^# \d+ jobs in ", said, re.M):
            break
        died = int(at.read_text() or seed)
        failed.append(died)
        seed = died + 1
    at.unlink(missing_ok=True)
    (folder / f"{name((first, count))}.done").write_text("".join(f"{seed}\n" for seed in sorted(set(failed))))
    if not failed:
        log.unlink()
    return failed


def main():
    folder = PROGRAM.parents[2] / "soak" / hashlib.sha256(PROGRAM.read_bytes()).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    chunks = [(first, min(CHUNK, FIRST + COUNT - first)) for first in range(FIRST, FIRST + COUNT, CHUNK)]
    left = [chunk for chunk in chunks if not (folder / f"{name(chunk)}.done").exists()]
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count() or 1)) as pool:
        for chunk, failed in zip(left, pool.map(lambda chunk: run_chunk(folder, *chunk), left)):
            for seed in failed or []:
                print(f"soak: seed {seed} failed: {folder}/{name(chunk)}.log", flush=True)
    done = [chunk for chunk in chunks if (folder / f"{name(chunk)}.done").exists()]
    seeds = [seed for chunk in done for seed in (folder / f"{name(chunk)}.done").read_text().split()]
    (folder / "failed").write_text("".join(f"{seed}\n" for seed in seeds))
    print(f"soak: {sum(count for _, count in done)} of {COUNT} jobs ran, {len(seeds)} failed, "
          f"{time.monotonic() - start:.0f} s now; results in {folder}")
    sys.exit(bool(seeds))


if __name__ == "__main__":
    main()
