"""epsilond backup: the copy is complete and consistent, and can be made while the server writes."""
import os
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import threading

import pytest
import requests

from conftest import BINARY, DP_SGD, ENDLESS, GAUSSIAN, PATIENCE, Server, until


def backup(database, file, **options):
    return subprocess.run([BINARY, "backup", "--db", str(database), str(file)], capture_output=True, text=True,
                          timeout=PATIENCE, **options)


def count(file):
    connection = sqlite3.connect(file)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    jobs = connection.execute("SELECT count(*) FROM jobs").fetchone()[0]
    connection.close()
    return jobs


@pytest.mark.sanitized
def test_what_was_accepted_before_is_in_a_backup_made_while_the_server_writes(launch, tmp_path):
    server = launch()
    server.solve(GAUSSIAN)
    accepted, over = [], threading.Event()

    def post():
        with requests.Session() as session:
            while not over.is_set():
                answer = session.post(server.url + "/v1/jobs", json=GAUSSIAN, timeout=PATIENCE)
                assert answer.status_code == 200
                accepted.append(answer.json()["id"])

    threads = [threading.Thread(target=post) for _ in range(4)]
    for thread in threads:
        thread.start()
    copies = []
    for i in range(4):
        until(lambda: len(accepted) > 100 * (i + 1))
        before = list(accepted)
        done = backup(server.database, tmp_path / f"copy{i}.db")
        assert done.returncode == 0 and not done.stderr, done.stderr
        copies.append((tmp_path / f"copy{i}.db", before, int(done.stdout.split()[0])))
    over.set()
    for thread in threads:
        thread.join(PATIENCE)
    for file, before, told in copies:
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
        assert count(file) == told >= len(before) + 1
        connection = sqlite3.connect(file)
        kept = {row[0] for row in connection.execute("SELECT id FROM jobs")}
        connection.close()
        assert kept >= set(before)
    assert copies[0][2] < copies[-1][2]  # the server did write
    assert not list(tmp_path.glob("*copy*-*"))  # no other files are left
    # A server continues from one of the copies.
    (tmp_path / "other").mkdir()
    os.rename(copies[1][0], tmp_path / "other" / "test.db")
    other = Server(tmp_path / "other")
    try:
        for job_id in copies[1][1][::20]:
            assert other.get(f"/v1/jobs/{job_id}").json()["result"]["epsilon"] > 0
        assert other.metric("epsilond_checksum_failures_total") == 0
    finally:
        other.stop()


def test_jobs_that_ran_run_from_the_backup(launch, tmp_path):
    server = launch()
    running = server.post(ENDLESS).json()["id"]
    server.running(running)
    (tmp_path / "other").mkdir()
    assert backup(server.database, tmp_path / "other" / "test.db").returncode == 0
    other = Server(tmp_path / "other")
    try:
        assert other.until(running, "running")["attempts"] == 1
    finally:
        other.stop()


def test_the_drill_of_the_manual(launch, tmp_path):
    """Backup of a running service; more work; a lost machine; the copy in the place of the database without its log."""
    server = launch()
    kept = server.solve(GAUSSIAN)
    copy = tmp_path / "copy.db"
    assert backup(server.database, copy).returncode == 0
    lost = server.solve(DP_SGD)["id"]
    server.kill()  # the log stays
    assert os.path.getsize(server.database + "-wal")
    shutil.copy(copy, server.database)
    for tail in ("-wal", "-shm"):
        os.remove(server.database + tail)
    server.start()
    assert server.get(kept["links"]["self"]).json() == kept
    assert server.get(f"/v1/jobs/{lost}").status_code == 404
    assert server.solve(DP_SGD)["status"] == "succeeded"
    server.stop()
    assert count(server.database) == 2


def test_of_a_database_that_no_server_has(launch, tmp_path):
    server = launch()
    server.solve(DP_SGD)
    server.kill()  # the committed data is in the log
    done = backup(server.database, tmp_path / "copy.db")
    assert done.stdout.startswith("1 jobs of ") and count(tmp_path / "copy.db") == 1


@pytest.mark.sanitized
def test_what_cannot_be_is_said_and_leaves_nothing(launch, tmp_path):
    server = launch()
    server.solve(GAUSSIAN)
    (tmp_path / "taken").write_text("mine")
    (tmp_path / "text.db").write_text("no database at all, but long enough to be taken for one" * 100)
    (tmp_path / "empty.db").touch()
    names = sorted(os.listdir(tmp_path))
    for database, file, word in ((server.database, tmp_path / "taken", "File exists"),
                                 (server.database, tmp_path / "none" / "copy", "No such file"),
                                 (server.database, tmp_path / ("x" * 5000), "File name too long"),
                                 (tmp_path / "none.db", tmp_path / "copy", "unable to open"),
                                 (tmp_path / "empty.db", tmp_path / "copy", "no such table"),
                                 (tmp_path / "text.db", tmp_path / "copy", "not a database")):
        refused = backup(database, file)
        assert refused.returncode == 1 and not refused.stdout
        assert refused.stderr.startswith("epsilond: cannot ") and word in refused.stderr, refused.stderr
        assert sorted(os.listdir(tmp_path)) == names
    assert (tmp_path / "taken").read_text() == "mine"
    for arguments in ([], ["a", "b"], ["--workers", "1", "a"]):
        refused = subprocess.run([BINARY, "backup", *arguments], capture_output=True, text=True, cwd=tmp_path)
        assert refused.returncode == 2 and refused.stderr.startswith("epsilond: ")
        assert sorted(os.listdir(tmp_path)) == names


def test_a_full_disk_leaves_nothing(launch, tmp_path):
    server = launch()
    server.solve(GAUSSIAN)
    names = sorted(os.listdir(tmp_path))
    limit = (16384, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    refused = backup(server.database, tmp_path / "copy",
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    assert refused.returncode == 1 and "the disk is full" in refused.stderr and "copy" in refused.stderr
    assert sorted(os.listdir(tmp_path)) == names


def test_a_backup_that_is_stopped_leaves_nothing(launch, tmp_path):
    server = launch()
    server.stop()
    connection = sqlite3.connect(server.database)
    connection.execute("CREATE TABLE ballast (data BLOB)")
    connection.executemany("INSERT INTO ballast VALUES (zeroblob(?))", [(1 << 24,)] * 16)
    connection.commit()
    connection.close()
    process = subprocess.Popen([BINARY, "backup", "--db", server.database, str(tmp_path / "copy")],
                               stderr=subprocess.PIPE, text=True)
    until(lambda: list(tmp_path.glob("copy-*")) or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=PATIENCE)
    if process.returncode != 0:  # otherwise it was faster
        assert process.returncode == 1 and "stopped" in said
        assert [path.name for path in tmp_path.glob("copy*")] == []
