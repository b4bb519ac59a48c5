"""
Accepted data is never changed: damage from a disk, an expiry or an older build is detected and reported, and never used
in an answer.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import json
import os
import sqlite3
import subprocess

import pytest

from conftest import BINARY, DP_SGD, ENDLESS, GAUSSIAN, ONE_BY_ONE, check_problem, until

pytestmark = pytest.mark.sanitized


def edit(database, statement, *values):
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA ignore_check_constraints = 1")
        changed = connection.execute(statement, values).rowcount
    connection.close()
    return changed


def solved(job):
    """The epsilon of the job, computed by a process without a database."""
    done = subprocess.run([BINARY, "solve"], input=json.dumps(job), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["result"]["epsilon"]


def test_a_result_that_expired_is_not_answered_from_memory(launch):
    server = launch("--keep", "0.3")
    server.solve(GAUSSIAN)
    until(lambda: "event=expired" in server.log_text())  # the first check for expired rows is one second after the
                                                         # start
    again = server.solve(GAUSSIAN)
    server.kill()
    server.start("--keep", "0")
    assert server.get(f"/v1/jobs/{again['id']}").json()["result"]["epsilon"] == again["result"]["epsilon"]


def queued_behind(launch, job):
    """A job that waits in the database of a server that has stopped."""
    server = launch(*ONE_BY_ONE)
    running = server.post(ENDLESS).json()["id"]
    server.until(running, "running")
    job_id = server.post(job).json()["id"]
    assert server.get(f"/v1/jobs/{job_id}").json()["status"] == "queued"
    server.stop()
    assert edit(server.database, "DELETE FROM jobs WHERE id = ?", running) == 1
    return server, job_id


# A digit of p: the result is another valid job.
FLIP = "job = replace(job, '\"p\":0.01', '\"p\":0.03')"


@pytest.mark.parametrize("damage", [FLIP, FLIP + ", checksum = NULL, job_checksum = NULL"], ids=["new row", "old row"])
def test_a_flipped_digit_in_a_queued_job_is_not_computed(launch, damage):
    server, job_id = queued_behind(launch, DP_SGD)
    assert edit(server.database, f"UPDATE jobs SET {damage} WHERE id = ?", job_id) == 1
    server.start()
    until(lambda: server.metric("epsilond_checksum_failures_total") >= 1)
    assert "event=checksum" in server.log_text()
    answer = server.get(f"/v1/jobs/{job_id}?wait=60")
    if answer.status_code == 200:  # the row is intact, but its text is not what was accepted
        assert answer.json()["status"] == "failed"
        assert answer.json()["error"]["type"] == "/problems/internal"
    else:
        assert "checksum" in check_problem(answer, 500, "internal")["detail"]
    # No wrong answer is stored under the job.
    assert server.solve(DP_SGD)["result"]["epsilon"] == solved(DP_SGD)
    assert server.request("DELETE", f"/v1/jobs/{job_id}").status_code == 204


def test_a_damaged_state_is_no_loss(launch):
    """The job itself is intact, so it is computed (again)."""
    server = launch()
    finished = server.solve(DP_SGD)
    server.stop()
    assert edit(server.database, "UPDATE jobs SET status = 77") == 1
    server.start()
    done = server.until(finished["id"], "succeeded")
    assert done["result"]["epsilon"] == finished["result"]["epsilon"]


@pytest.mark.parametrize("damage", ["status = 77", "status = -3", "status = 'x'", "status = 1", "hash = 'x'",
                                    "job = '{'",
                                    "label = x'ff'", "finished_at = 1", "version = 0", "id = id || 'x'"])
def test_a_damaged_row_is_told_and_crashes_nothing(launch, damage):
    server = launch()
    good = server.solve(GAUSSIAN)
    bad = server.solve(DP_SGD)
    server.stop()
    server.start()  # nothing in memory
    assert edit(server.database, f"UPDATE jobs SET {damage} WHERE id = ?", bad["id"]) == 1
    answer = server.get(f"/v1/jobs/{bad['id']}")
    if damage.startswith("id"):
        check_problem(answer, 404, "not-found")
    else:
        assert "checksum" in check_problem(answer, 500, "internal")["detail"]
    for query in ("", "?status=succeeded", "?status=running", "?limit=1"):
        items = server.get("/v1/jobs" + query).json()["items"]
        told = [item for item in items if item["id"] == bad["id"]]
        assert all(item["status"] == "failed" and item["error"]["type"] == "/problems/internal" for item in told)
    assert good["id"] in [item["id"] for item in server.get("/v1/jobs").json()["items"]]
    for link in ("curve", "matrix", "error"):
        assert server.get(bad["links"][link]).status_code in (404, 500)
    assert server.metric("epsilond_checksum_failures_total") > 0
    server.stop()
    server.start()  # the next start counts as one
    assert server.get(f"/v1/jobs/{good['id']}").json() == good


def test_rows_of_an_older_build_are_served(launch):
    """Older builds did not write digests."""
    server = launch()
    finished = server.solve(GAUSSIAN)
    server.stop()
    edit(server.database, "UPDATE jobs SET checksum = NULL, job_checksum = NULL, state_checksum = NULL")
    server.start()
    assert server.get(f"/v1/jobs/{finished['id']}").json() == finished
    assert [item["id"] for item in server.get("/v1/jobs").json()["items"]] == [finished["id"]]
    assert server.metric("epsilond_checksum_failures_total") == 0


def test_damage_that_hides_rows_is_found(launch):
    """An index has fewer ids than it had, as when bits of their number flip. No checksum is wrong: jobs are missing."""
    server = launch()
    jobs = [server.solve(dict(GAUSSIAN, noise_multiplier=1 + number / 7))["id"] for number in range(30)]
    server.stop()
    server.start("--scrub", "100ms")  # nothing in memory, and no log
    until(lambda: server.metric("epsilond_database_scrub_time_seconds") > 0)
    assert server.get("/readyz").status_code == 200
    assert server.metric("epsilond_database_damaged") == 0
    check_problem(server.get(f"/v1/jobs/{jobs[0][:-4]}0000"), 404, "not-found")
    [(root,)] = server.stored("SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_jobs_1'")
    with open(server.database, "r+b") as file:
        file.seek((root - 1) * 4096 + 3)  # the number of ids in the index, which fit into one page
        assert int.from_bytes(file.read(2), "big") == len(jobs)
        file.seek(-2, os.SEEK_CUR)
        file.write((10).to_bytes(2, "big"))
    until(lambda: server.get("/readyz").status_code == 503)
    assert "damaged" in check_problem(server.get("/readyz"), 503, "queue-full")["detail"]
    assert server.metric("epsilond_database_damaged") == 1
    assert "level=error event=damaged " in server.log_text()
    answers = [server.get(f"/v1/jobs/{job_id}") for job_id in jobs]
    hidden = [answer for answer in answers if answer.status_code != 200]
    assert 0 < len(hidden) < len(jobs)  # 404 before it was found
    for answer in hidden:
        assert "unknown" in check_problem(answer, 500, "internal")["detail"]


def test_a_scrub_ends_with_the_service(launch):
    server = launch("--scrub", "1ms")
    until(lambda: server.log_text().count("event=scrubbed") > 3)
    assert server.stop() < 2
    assert "event=damaged" not in server.log_text()
    server.start("--scrub", "0")
    server.solve(GAUSSIAN)
    assert server.metric("epsilond_database_scrub_time_seconds") == 0
