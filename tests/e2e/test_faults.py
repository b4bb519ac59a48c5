"""
Faults of the machine under the service: it is killed, the power goes, calls fail, bits flip, the clock jumps. Whatever
happens, nothing that was acknowledged is lost, no answer differs from that of an undisturbed server, and the service
recovers once the fault ends.

Each test is a sample; `make soak-faults` runs the same for longer, by FAULTS_KILLS (2), FAULTS_POWER (3), FAULTS_CALLS,
FAULTS_FLIPS (12) and FAULTS_CLOCK; SEED begins another sequence.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import contextlib
import errno
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import time

import pytest

from conftest import BINARY, DP_SGD, GAUSSIAN, PATIENCE, Server, check_problem, until
from faults import KINDS, Disk, Faults, Reference, Work, answer, rows_of

SEED = int(os.environ.get("SEED", "1"))
FOR = ("--workers", "2")


def size(name, default):
    return int(os.environ.get(f"FAULTS_{name}", default))


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    running = Reference(tmp_path_factory.mktemp("reference") / "server")
    yield running
    running.server.stop()


@contextlib.contextmanager
def shimmed(folder, *options, record=False):
    """A server with faults."""
    faults = Faults(folder, record)
    server = Server(folder, *FOR, *options, env=faults.environment())
    try:
        yield server, faults
    finally:
        if server.process.poll() is None:
            server.kill()


def test_kill_9_at_any_moment(launch, reference):
    server, work, generator = launch(*FOR), Work(reference, SEED), random.Random(SEED)
    for _ in range(size("KILLS", 2)):
        work.start(server)
        time.sleep(generator.uniform(0, 0.4))
        server.kill()
        work.join()
        server.start()
        work.check(server, 40)
    work.check(server)
    assert work.items
    assert server.metric("epsilond_jobs_crashed_total") == 0
    assert server.metric("epsilond_checksum_failures_total") == 0


def test_the_power_goes_at_any_moment(tmp_path, reference):
    """The process dies before some change of a file, and the disk keeps any part of what was not synchronised."""
    files, work, generator = {}, Work(reference, SEED), random.Random(SEED)
    for number in range(size("POWER", 3)):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
        with shimmed(folder, record=True) as (server, faults):
            work.check(server, 30)
            assert server.stored("PRAGMA integrity_check") == [("ok",)]
            faults.die_at(faults.changes() + generator.randrange(1, 400))
            work.start(server)
            assert server.process.wait(60) == -9
            server.close()
            work.join()
        disk = Disk(files)
        disk.play(faults.record.read_bytes())
        files = disk.kept(generator)
    assert work.items


# A call, and how it fails.
FAILING = [("write", errno.ENOSPC), ("sync", errno.EIO), ("open", errno.EMFILE), ("write", errno.EIO),
           ("sync", errno.ENOSPC), ("truncate", errno.EIO), ("open", errno.EIO), ("read", errno.EIO),
           ("map", errno.ENOMEM), ("unlink", errno.EIO), ("accept", errno.EMFILE)]
SAMPLE = FAILING[:3] if size("CALLS", 0) == 0 else FAILING


class Refused(Work):
    refusals = {500, 503}


@pytest.mark.parametrize("failing", SAMPLE, ids=lambda failing: failing[0] + "-" + errno.errorcode[failing[1]])
def test_calls_that_fail_under_work(tmp_path, reference, failing):
    call, code = failing
    generator, work = random.Random(SEED), Refused(reference, SEED)
    folder = tmp_path / "server"
    folder.mkdir()
    with shimmed(folder) as (server, faults):
        for _ in range(size("CALLS", 1)):
            for count in (1, 1 << 60):
                faults.fail(call, code, generator.randrange(1, 20), count)
                work.start(server)
                time.sleep(generator.uniform(0.1, 0.3))
                faults.end()
                work.join()
                until(lambda: server.get("/readyz").status_code == 200)
                work.check(server, 20)
        server.kill()
        server.start()
        work.check(server, 40)
        assert server.metric("epsilond_jobs_crashed_total") == 0
        assert server.metric("epsilond_bugs_total") == 0
        server.stop()


NO_FAULT = ("sync", 0)


def start_with(folder, failing, first, count):
    """Starts a service of which these calls fail. Returns whether it started and whether the fault was reached; if it
    did not start, it says why."""
    call, code = failing
    faults = Faults(folder)
    faults.fail(call, code, first, count)
    with open(folder / "log", "wb") as log:
        started = subprocess.Popen([BINARY, "serve", "--listen", "127.0.0.1:0", "--db", str(folder / "test.db")],
                                   stdout=subprocess.PIPE, stderr=log, text=True, env=faults.environment())
    line = started.stdout.readline()
    reached = faults.made(call) >= first
    if line:
        faults.end()
        started.terminate()
    assert started.wait(PATIENCE) == (0 if line else 1)
    words = (folder / "log").read_text(errors="replace")
    assert line or re.search(r"^epsilond: .*test\.db.*", words, re.M), words
    return bool(line), reached


@pytest.mark.parametrize("there", [False, True], ids=["new", "there"])
def test_calls_that_fail_at_the_start(tmp_path, there):
    """Each call of each kind in turn, once or from then on: the service starts or says why not, and then starts."""
    before = tmp_path / "before"
    before.mkdir()
    server = Server(before)
    known = server.solve(GAUSSIAN)
    server.kill()
    cases = [(failing, first, count) for failing in FAILING if failing[0] != "accept"
             for first in range(1, 80) for count in (1, 1 << 60)]
    generator, beyond = random.Random(SEED), {}
    if size("CALLS", 0) == 0:
        cases = generator.sample(cases, 12)
    for number, (failing, first, count) in enumerate(sorted(cases)):
        if first > beyond.get(failing, first):
            continue
        folder = tmp_path / str(number)
        shutil.copytree(before, folder) if there else folder.mkdir()
        if not start_with(folder, failing, first, count)[1]:
            beyond[failing] = first
        server = Server(folder)
        assert not there or server.get(known["links"]["self"]).json() == known
        assert server.solve(GAUSSIAN)["result"]["epsilon"] == known["result"]["epsilon"]
        server.kill()
        shutil.rmtree(folder)


YEAR = 365 * 24 * 3600


@pytest.mark.parametrize("restart", [True, False] if size("CLOCK", 0) else [True], ids=lambda restart: str(restart))
def test_the_clock_jumps_by_a_year(tmp_path, reference, restart):
    """Nothing expires because of that, and keys are those of the same resources."""
    for number in range(size("CLOCK", 1)):
        folder = tmp_path / f"server{number}"
        folder.mkdir()
        jump_by_a_year(folder, Work(reference, SEED + number), restart)


def jump_by_a_year(folder, work, restart):
    before = 0
    with shimmed(folder) as (server, faults):
        for seconds in [YEAR, 0, -YEAR, 0]:
            work.start(server, 1)
            if restart:
                time.sleep(0.1)
                server.kill()
                work.join()
                seen = time.time() + before  # the time of the file is the kernel's
                os.utime(server.database + "-lock", (seen, seen))
                faults.shift_clock(seconds)
                server.start()
                work.start(server, 1)
            faults.shift_clock(seconds)
            before = seconds
            # A second after its start the service looks for what has expired, and every second at the clock.
            time.sleep(1.3 if seconds else 0.2)
            work.join()
            work.check(server, 20)
        assert "event=clock" in server.log_text()
        assert server.metric("epsilond_jobs_crashed_total") == 0
        server.stop()



PAGE = 4096


def is_final(document):
    return document["status"] not in ("queued", "running")


def is_told(found, expected):
    """Whether a document is what it was, apart from what is said of damaged rows: children that have failed (their plan
    ranks the others), and a group whose end is unknown."""
    now, before = (rows_of(one, but=("rank", "gain", "estimate")) for one in (found, expected))
    hidden = {"candidates": 0, "best": 0, "hint": 0, **({"finished_at": 0} if "total" in expected else {})}
    return {**found, **hidden} == {**expected, **hidden} and now.keys() == before.keys() and all(
        now[name] == before[name] or now[name]["status"] == "failed" for name in now)


def is_found(server, path):
    """Whether a row whose id, or the way to it, is damaged is found by the list or by SQLite."""
    assert server.get(path).status_code in (200, 500)
    return server.metric("epsilond_checksum_failures_total") > 0 or server.stored("PRAGMA integrity_check") != [("ok",)]


def test_bits_that_flip(launch, tmp_path, reference):
    """One bit of the database, in each page in turn: the service does not start, with the reason, or tells what is
    damaged; nothing else differs, and what is posted again is answered as ever."""
    server, work, generator = launch(*FOR), Work(reference, SEED), random.Random(SEED)
    for path in list(KINDS) * 2:
        work.post(lambda method, path, **more: server.request(method, path, **more), generator, path)
    server.solve({**DP_SGD, "label": "x" * 200})  # a discretised loss is cached
    work.check(server)
    server.stop()
    good = pathlib.Path(server.database).read_bytes()
    pages = list(range(len(good) // PAGE))
    generator.shuffle(pages)
    refused = told = 0
    for number in range(size("FLIPS", 12)):
        page = pages[number % len(pages)] if number else 0
        bit = generator.randrange(8 * PAGE)
        bad = bytearray(good)
        bad[page * PAGE + bit // 8] ^= 1 << bit % 8
        folder = tmp_path / f"flip{number}"
        folder.mkdir()
        (folder / "test.db").write_bytes(bad)
        if not start_with(folder, NO_FAULT, 1, 1)[0]:
            refused += 1
            continue
        damaged = Server(folder, *FOR)
        for item in work.items:
            reply = damaged.get(item.link)
            if reply.status_code == 404:
                assert is_found(damaged, item.path), (page, bit, item.link)
                told += 1
                continue
            if reply.status_code != 200:
                assert re.search("checksum|could not be read", check_problem(reply, 500, "internal")["detail"]), page
            else:
                assert is_told(reply.json(), json.loads(item.ended)), (page, bit, reply.text, item.ended)
            if reply.text != item.ended:
                counted = ("checksum_failures", "store_failures")
                if ("event=group-damaged" in damaged.log_text()  # ended anew by the start before
                        or any(damaged.metric(f"epsilond_{name}_total") for name in counted)):
                    assert re.search("event=(checksum|store) ", damaged.log_text())
                else:  # a plan cites jobs and results that could have been deleted
                    assert item.path == "/v1/plans" and is_found(damaged, "/v1/jobs"), (page, bit, reply.text)
                told += 1
            again = damaged.post(item.body, item.path)
            if again.status_code == 503:  # nothing can be written to that page
                check_problem(again, 503, "queue-full")
                continue
            if again.status_code == 500:  # nor read
                assert "could not be read" in check_problem(again, 500, "internal")["detail"]
                assert damaged.metric("epsilond_store_failures_total") > 0
                continue
            assert again.status_code in (200, 202), (page, bit, again.text)
            link = again.json()["links"]["self"] + "?wait=1"
            until(lambda: is_final(damaged.get(link).json()) or damaged.get("/readyz").status_code == 503)
            reply = damaged.get(link)
            if reply.status_code == 500:  # it shares the page with what is damaged
                assert "could not be read" in check_problem(reply, 500, "internal")["detail"]
                assert damaged.metric("epsilond_store_failures_total") > 0
                continue
            document = reply.json()
            if not is_final(document):  # nor what has ended
                continue
            assert document["status"] == "succeeded", (page, bit, document)
            found, expected = answer(damaged, document), reference.answer(item.path, item.body)
            other = {name: (found[name], expected[name]) for name in found
                     if name in expected and found[name] != expected[name]}
            if other:  # a row that was written to the damaged page, and is damaged there
                assert damaged.metric("epsilond_checksum_failures_total") > 0
                rows = [*map(json.dumps, document.get("candidates", [])), *(now for now, _ in other.values())]
                spoiled = [row for row in rows if '"status": "failed"' in row and "fails its checksum" in row]
                assert spoiled and all(name == "best" or now in spoiled for name, (now, _) in other.items()), (
                    page, bit, item.path, item.body, other)
        damaged.stop()
        shutil.rmtree(folder)
    print(refused, told)
    assert refused < size("FLIPS", 12) / 4
