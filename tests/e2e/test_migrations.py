"""
Databases of every schema that a commit has had, made by the last server of each (schemas/make.py): what they hold can
be read and continued by this build. And the way back, which is refused.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import contextlib
import json
import pathlib
import sqlite3
import subprocess

import pytest

from conftest import BINARY, GAUSSIAN, PATIENCE, ROOT, Server, until

FOLDER = pathlib.Path(__file__).parent / "schemas"
NEWEST = max(int(file.name[:4]) for file in (ROOT / "migrations").glob("*.sql"))
SCHEMAS = sorted(FOLDER.glob("*.sql"))


def load(dump, database):
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.executescript(dump.read_text())


def shape(database):
    """The tables, indexes and triggers, without spaces and comments; columns as they are declared or were added."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA user_version").fetchone() == (NEWEST,)
        names = connection.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
        tables = {name: connection.execute(f"PRAGMA table_info({name})").fetchall()
                  for kind, name in names if kind == "table"}
        return sorted(names), tables


class Upgraded(Server):
    """A server on a database of an older schema."""

    def __init__(self, folder, dump):
        self.dump = dump
        super().__init__(folder)

    def start(self, *options):
        if self.process is None:
            load(self.dump, self.database)
        return super().start(*options)


def kept(document, before):
    """Whether a job's document tells what it did."""
    now = {name: document[name] for name in before if name != "figures"}
    result = document.get("result") or {}
    figures = {name: result.get(name) for name in before["figures"]}
    assert now == {name: before[name] for name in now} and figures == before["figures"]


def test_there_is_a_database_of_every_schema_before_this_one():
    """That of schema 9 is from before migration 9 was changed, which migration 14 makes up for."""
    numbers = sorted(int(file.name[:4]) for file in (ROOT / "migrations").glob("*.sql"))
    assert numbers == list(range(1, NEWEST + 1))
    assert {int(file.stem) for file in SCHEMAS} >= set(range(1, NEWEST))


@pytest.mark.parametrize("dump", SCHEMAS, ids=lambda dump: dump.stem)
def test_an_older_database_is_read_and_continued(dump, tmp_path):
    before = json.loads(dump.with_suffix(".json").read_text())
    assert len(before["jobs"]) >= 5 and (int(dump.stem) < 9 or before["groups"])
    server = Upgraded(tmp_path, dump)
    try:
        long, waiting = before["waiting"]
        assert server.request("POST", f"/v1/jobs/{long['id']}/cancel").status_code in (200, 202)
        listed = [job["id"] for job in server.get("/v1/jobs?limit=100").json()["items"]]
        assert set(listed) == {job["id"] for job in before["jobs"] + before["waiting"]}
        for job in before["jobs"]:
            kept(server.get(f"/v1/jobs/{job['id']}").json(), job)
            if job["label"]:
                found = server.get("/v1/jobs", params={"label": job["label"]}).json()["items"]
                assert job["id"] in [item["id"] for item in found]
        for group in before["groups"]:
            document = server.get(group["link"]).json()
            assert {name: document[name] for name in group if name != "link"} == {
                name: group[name] for name in group if name != "link"}
            rows = (server.get(document["links"]["points"]).json()["items"] if "points" in document["links"]
                    else document["candidates"])
            assert [row["status"] for row in rows] == ["succeeded"] * group["total"]
            assert server.request("DELETE", group["link"]).status_code == 204
        # What had been accepted is computed, once, and its idempotency key still means it.
        done = server.until(waiting["id"], "succeeded")
        assert done["label"] == "waiting" and done["attempts"] == 1 and done["result"]["epsilon"] > 0
        assert server.until(long["id"], "canceled")
        assert server.metric("epsilond_checksum_failures_total") == 0
        assert server.solve(GAUSSIAN)["status"] == "succeeded"
        assert server.log_text().count("event=migrated") == NEWEST - int(dump.stem)
        server.stop()
        if before["groups"]:  # soon after a start, the jobs of groups that were deleted are deleted
            assert server.stored("SELECT count(*) FROM jobs WHERE parent IS NOT NULL") != [(0,)]
            server.start()
            until(lambda: server.stored("SELECT count(*) FROM jobs WHERE parent IS NOT NULL") == [(0,)])
            server.stop()
        fresh = tmp_path / "fresh.db"
        subprocess.run([BINARY, "solve", "--db", fresh], input=json.dumps(GAUSSIAN), capture_output=True, text=True,
                       timeout=PATIENCE, check=True)
        assert shape(server.database) == shape(fresh)
    finally:
        if server.process.poll() is None:
            server.kill()


@pytest.mark.parametrize("command", ["serve", "solve"])
def test_the_way_back_is_refused_and_changes_nothing(launch, command):
    server = launch()
    server.solve(GAUSSIAN)
    server.stop()
    with contextlib.closing(sqlite3.connect(server.database)) as connection:
        connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
    before = pathlib.Path(server.database).read_bytes()
    options = ["--listen", "127.0.0.1:0"] if command == "serve" else []
    ended = subprocess.run([BINARY, command, *options, "--db", server.database], input=json.dumps(GAUSSIAN),
                           capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode != 0 and not ended.stdout
    [message] = [line for line in ended.stderr.splitlines() if line.startswith("epsilond: ")]
    assert server.database in message and f"schema version {NEWEST + 1} is newer" in message
    assert f"({NEWEST})" in message and "run the newer epsilond that wrote it, or restore a backup" in message
    assert pathlib.Path(server.database).read_bytes() == before
