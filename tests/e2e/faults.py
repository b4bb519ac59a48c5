"""
What the tests of faults share: mixed work whose acknowledgements are kept, what must hold of it whatever happens to the
service, the faults that tests/faults/shim.c causes, and what a disk keeps when the power goes.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import json
import mmap
import os
import pathlib
import random
import re
import struct
import threading
import uuid

import requests

from conftest import BINARY, PATIENCE, Server, preload

SHIM = pathlib.Path(BINARY).parent / "faults.so"
CALLS = ["open", "read", "write", "sync", "truncate", "map", "unlink", "accept"]
SECTOR = 512  # bytes that a disk writes as a whole


# ---------------------------------------------------------------- what must hold

def job(generator):
    """One of many small jobs; a few take a second."""
    if generator.random() < 0.02:
        return {"n": generator.randrange(20000, 50000), "sampling": {"scheme": "poisson", "p": 0.01}, "delta": 1e-8,
                "noise_multiplier": 1.0, "accountant": {"method": "pld", "tolerance": 3e-6}}
    return {"n": generator.randrange(50, 250), "sampling": generator.choice(
        [{"scheme": "none"}, {"scheme": "poisson", "p": 0.01}]), "delta": 1e-6,
            "noise_multiplier": generator.randrange(8, 16) / 8}


def sweep(generator):
    return {"base": {"n": generator.randrange(50, 250), "sampling": {"scheme": "none"}, "delta": 1e-6},
            "grid": {"/noise_multiplier": [1, 1.5, generator.randrange(8, 64) / 8]}}


def plan(generator):
    if generator.random() < 0.1:  # the draws end before their time, so equal ones are cached
        return {"n": 12, "batch_size": 10, "dataset_size": 60, "epsilon": 2, "delta": 1e-3, "max_bands": 2,
                "schemes": ["b_min_sep"], "families": ["square_root"], "verify": "draws"}
    return {"n": 24, "batch_size": 10, "dataset_size": 60, "epsilon": generator.randrange(2, 20) / 2, "delta": 1e-5,
            "families": ["identity"]}


KINDS = {"/v1/jobs": job, "/v1/sweeps": sweep, "/v1/plans": plan}


def rows_of(plan, but=("rank", "estimate")):
    """The candidates of a plan by their mechanism, without some members, and without what depends on how long something
    took: which have an estimate, so which are verified, and what draws verified."""
    if "verify" in plan:
        but = [*but, "gain", "verified", "verification", "proven", "guarantee", "accountant", "job"]
    return {str([row[name] for name in ("family", "bands", "scheme")]):
            {**row, **(row["proven"] or {}), **dict.fromkeys(but)} for row in plan.get("candidates", [])}


def answer(server, document, get=None):
    """What the service has found out, without what differs from run to run: texts, to be compared byte by byte."""
    get = get or server.get
    path = document["links"]["self"]
    if path.startswith("/v1/jobs"):
        result = {name: value for name, value in document["result"].items()
                  if name not in ("cache", "elapsed_seconds", "compute_seconds")}
        return {"": json.dumps([document["job"], result])}
    if path.startswith("/v1/sweeps"):
        points = get(document["links"]["points"]).json()["items"]
        return {str(number): json.dumps({name: value for name, value in point.items() if name != "job"})
                for number, point in enumerate(points)}
    # A candidate may have been skipped because a better one was faster.
    rows = {name: json.dumps(row) for name, row in rows_of(document).items() if row["status"] == "succeeded"}
    return rows if "verify" in document else {"best": json.dumps(document["candidates"][0]["error"]), **rows}


class Reference:
    """The answers of a server that nothing happens to."""

    def __init__(self, folder):
        folder.mkdir()
        self.server, self.known = Server(folder, "--memory-bytes", "256MiB"), {}

    def answer(self, path, body):
        key = path + json.dumps(body)
        if key not in self.known:
            posted = self.server.post(body, path).json()
            document = self.server.get(posted["links"]["self"] + "?wait=300", timeout=300 + PATIENCE).json()
            assert document["status"] == "succeeded", document
            self.known[key] = answer(self.server, document)
        return self.known[key]


class Item:
    """What was acknowledged of a job, sweep or plan."""

    def __init__(self, path, body, headers, document):
        self.path, self.body, self.headers = path, body, headers
        self.link = document["links"]["self"]
        self.ended = None       # its last text, if it has one
        self.canceling = False  # a cancel was sent, and perhaps not answered
        self.deleting = False
        self.deleted = False    # and acknowledged


class Work:
    """Mixed work of several clients, each of which goes on until it is stopped or nobody answers."""

    refusals = {503}  # what may be answered, apart from what a correct request is answered with
    keyed = 1  # the share of posts with an idempotency key

    def __init__(self, reference, seed):
        self.reference, self.generator = reference, random.Random(seed)
        self.items, self.lock, self.stopping = [], threading.Lock(), False
        self.threads, self.wrong, self.refused, self.done = [], [], 0, 0

    def start(self, server, clients=3):
        self.stopping = False
        seeds = [self.generator.random() for _ in range(clients)]
        self.threads = [threading.Thread(target=self.run, args=(server.url, random.Random(seed))) for seed in seeds]
        for thread in self.threads:
            thread.start()

    def join(self):
        """Waits for the clients; fails the test if one saw something wrong."""
        self.stopping = True
        for thread in self.threads:
            thread.join(PATIENCE)
        assert not self.wrong, self.wrong

    def run(self, url, generator):
        session = requests.Session()
        try:
            while not self.stopping:
                self.step(lambda method, path, **more: session.request(method, url + path, timeout=PATIENCE, **more),
                          generator)
                self.done += 1
        except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
            pass  # what was asked last may have happened or not
        except Exception as wrong:  # pylint: disable=broad-except
            self.wrong.append(repr(wrong))
        finally:
            session.close()

    def expect(self, reply, *statuses):
        """Whether the reply has one of these; otherwise it must be a refusal with its reason."""
        if reply.status_code in statuses:
            return True
        assert reply.status_code in self.refusals, (reply.status_code, reply.text)
        assert reply.headers["Content-Type"] == "application/problem+json" and reply.json()["detail"], reply.text
        self.refused += 1
        return False

    def step(self, ask, generator):
        turn = generator.random()
        with self.lock:
            item = generator.choice(self.items) if self.items and turn > 0.6 else None
        if not item:
            self.post(ask, generator)
        elif turn < 0.85:
            self.look(item, ask("GET", item.link))
        elif turn < 0.93:
            item.canceling = True
            self.expect(ask("POST", item.link + "/cancel"), 200, 202, 409, 404)
        else:
            item.deleting = True
            reply = ask("DELETE", item.link)
            if self.expect(reply, 204, 409, 404) and reply.status_code == 204:
                item.deleted = True

    def post(self, ask, generator, path=None):
        path = path or generator.choices(list(KINDS), [8, 1, 1])[0]
        body = KINDS[path](generator)
        key = {"Idempotency-Key": str(uuid.UUID(int=generator.getrandbits(128)))}
        headers = key if generator.random() < self.keyed else {}
        reply = ask("POST", path, json=body, headers=headers)
        if self.expect(reply, 200, 202):
            item = Item(path, body, headers, reply.json())
            with self.lock:
                self.items.append(item)
            self.look(item, reply, posted=True)

    def look(self, item, reply, posted=False):
        """A document that has ended is final to the byte; a GET of a resource that is kept succeeds."""
        deleting = item.deleting  # a reply may be older than what was asked meanwhile
        if reply.status_code == 404:
            assert deleting, (item.link, reply.text)
        elif self.expect(reply, 200, 202):
            document = reply.json()
            if document["status"] not in ("queued", "running") and not posted:
                with self.lock:
                    item.ended = item.ended or reply.text
                assert reply.text == item.ended

    def check(self, server, most=None):
        """Everything that was acknowledged is there, and every answer is that of the reference. most: of the items, the
        newest and others."""
        items = self.items
        if most and len(items) > most:
            items = items[-most // 2:] + self.generator.sample(items[:-most // 2], most // 2)
        for item in items:
            reply = server.get(item.link)
            if item.deleted or (item.deleting and reply.status_code == 404):
                assert reply.status_code == 404, (item.link, reply.text)
                continue
            assert reply.status_code == 200, (item.link, item.body, reply.status_code, reply.text)
            if item.ended:
                assert reply.text == item.ended, (item.link, reply.text, item.ended)
            reply = server.get(item.link + "?wait=300", timeout=300 + PATIENCE)
            document = reply.json()
            if document["status"] == "canceled":
                assert item.canceling, document
            else:
                assert document["status"] == "succeeded", document
                found, expected = answer(server, document), self.reference.answer(item.path, item.body)
                assert found and all(found[name] == expected[name] for name in found if name in expected), (
                    item.link, found, expected)
                assert item.path == "/v1/plans" or found.keys() == expected.keys()
            item.ended = reply.text
            if not item.headers:
                continue
            again = server.post(item.body, item.path, headers=item.headers)  # the key belongs to the same resource
            assert again.headers.get("Idempotent-Replayed") == "true" and again.headers["Location"] == item.link, (
                item.link, again.status_code, again.text)


# ---------------------------------------------------------------- faults of calls

class Faults:
    """The faults that the shim causes; they may be changed while the service runs."""

    def __init__(self, folder, record=False):
        self.folder = folder
        self.file = folder.parent / (folder.name + ".plan")
        self.record = folder.parent / (folder.name + ".record") if record else None
        self.file.write_bytes(bytes(8 * (3 + 4 * len(CALLS))))
        with open(self.file, "r+b") as opened:
            self.map = mmap.mmap(opened.fileno(), 0)

    def environment(self):
        more = {"FAULTS_RECORD": str(self.record)} if self.record else {}
        return dict(os.environ, LD_PRELOAD=preload(SHIM), FAULTS_PLAN=str(self.file),
                    FAULTS_FOLDER=str(self.folder), **more)

    def put(self, at, value):
        struct.pack_into("=q", self.map, 8 * at, value)

    def get(self, at):
        return struct.unpack_from("=q", self.map, 8 * at)[0]

    def shift_clock(self, seconds):
        self.put(0, seconds)

    def changes(self):
        return self.get(1)

    def die_at(self, number):
        self.put(2, number)

    def made(self, call):
        return self.get(3 + 4 * CALLS.index(call))

    def fail(self, call, code, first=1, count=1 << 60):
        """The call with this number from now on fails, and those after it, until there were `count`."""
        at = 3 + 4 * CALLS.index(call)
        number = self.get(at) + first
        self.put(at + 1, number)
        self.put(at + 2, number + count - 1)
        self.put(at + 3, code)

    def end(self):
        for call in range(len(CALLS)):
            self.put(3 + 4 * call + 3, 0)


# ---------------------------------------------------------------- power

class Disk:
    """The files of a folder by the record of their changes: what is safe, and what may be."""

    def __init__(self, before):
        """before: the files at the start, all safe: contents by name."""
        self.safe, self.names = {}, {}  # contents by number, and numbers by name
        for name, data in before.items():
            self.names[name] = len(self.safe)
            self.safe[len(self.safe)] = bytearray(data)
        self.safe_names, self.pending = dict(self.names), {number: [] for number in self.safe}

    def play(self, record):
        at = 0
        while (end := record.find(b"\n", at)) >= 0:
            what, offset, length, name = re.fullmatch(rb"(\w+) (\d+) (\d+) (.*)", record[at:end]).groups()
            data = record[end + 1:end + 1 + int(length)]
            at = end + 1 + int(length)
            if at > len(record):
                break  # the process died while it was recorded
            self.change(what.decode(), int(offset), name.decode(), data)

    def change(self, what, offset, name, data):
        if what == "create":
            number = self.names[name] = len(self.safe)
            self.safe[number], self.pending[number] = bytearray(), []
        elif what == "unlink":
            self.names.pop(name, None)
        elif name == ".":
            self.safe_names = dict(self.names)
        elif what == "sync":
            for change in self.pending[self.names[name]]:
                self.apply(self.safe[self.names[name]], change)
            self.pending[self.names[name]] = []
        else:
            self.pending[self.names[name]].append((what, offset, data))

    @staticmethod
    def apply(file, change):
        what, offset, data = change
        if what == "truncate":
            del file[offset:]
            file.extend(bytes(offset - len(file)))
        else:
            file.extend(bytes(max(0, offset - len(file))))
            file[offset:offset + len(data)] = data

    def kept(self, generator):
        """What is there after the power went: contents by name. Of what was not synchronised, the disk may have kept
        all, nothing, or any part, in units of sectors; the order in which it was written means nothing."""
        share = generator.choice([0, 0, 1, 0.5, 0.9])
        torn = generator.random() < 0.5
        names = dict(self.safe_names)
        for name in self.names.keys() | self.safe_names.keys():
            if self.names.get(name) != self.safe_names.get(name) and generator.random() < share:
                names.pop(name, None)
                if name in self.names:
                    names[name] = self.names[name]
        files = {}
        for name, number in names.items():
            if name.endswith("-shm"):
                continue  # the index in memory: who opens the database first begins a new one
            file = bytearray(self.safe[number])
            for what, offset, data in self.pending[number]:
                pieces = [(what, offset, data)]
                if torn and what == "write":
                    pieces = [(what, offset + at, data[at:at + SECTOR]) for at in range(0, len(data), SECTOR)]
                for piece in pieces:
                    if generator.random() < share:
                        self.apply(file, piece)
            files[name] = bytes(file)
        return files
