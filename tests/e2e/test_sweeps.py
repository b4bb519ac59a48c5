"""Sweeps over HTTP: the product of a grid, its table, its events, and its behaviour after failures."""
import contextlib
import csv
import io
import itertools
import re
import sqlite3
import time

import pytest
import yaml

from conftest import DP_SGD, ENDLESS, GAUSSIAN, ONE_BY_ONE, ROOT, check_problem, until
from follow import Stream, follow

pytestmark = pytest.mark.sanitized
BASE = {"n": 100, "sampling": {"scheme": "poisson", "p": 0.01}, "delta": 1e-6}
CONTRACT = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text())
COLUMNS = list(CONTRACT["components"]["schemas"]["Point"]["properties"])


def sweep(server, grid, base=BASE, status=202, **more):
    """200: if all answers are cached, it may have ended already."""
    answer = server.post({"base": base, "grid": grid, **more}, "/v1/sweeps")
    assert answer.status_code == status or (status, answer.status_code) == (202, 200), answer.text
    assert answer.headers["Location"] == answer.json()["links"]["self"]
    return answer.json()


def ended(server, document):
    return server.get(document["links"]["self"] + "?wait=300", timeout=400).json()


def rows(server, document, limit=500):
    found, path = [], f"{document['links']['points']}?limit={limit}"
    while path:
        answer = server.get(path)
        found += answer.json()["items"]
        link = answer.headers.get("Link")
        assert (link is None) == (answer.json()["next"] is None)
        path = re.fullmatch(r'<(.*)>; rel="next"', link)[1] if link else None
    return found


def test_the_product_in_order_and_each_point_as_a_job(server):
    grid = {"/noise_multiplier": [1, 1.5], "/sampling/p": [0.01, 0.02, 0.03]}
    accepted = sweep(server, grid, label="product")
    assert accepted["base"] == BASE and accepted["grid"] == grid and accepted["label"] == "product"
    assert list(accepted["grid"]) == list(grid)
    assert accepted["total"] == 6 and accepted["finished_at"] is None
    done = ended(server, accepted)
    assert (done["status"], done["done"], done["failed"]) == ("succeeded", 6, 0)
    assert done["created_at"] == accepted["created_at"] <= done["finished_at"]
    table = rows(server, done)
    assert [(row["/noise_multiplier"], row["/sampling/p"]) for row in table] == list(itertools.product(*grid.values()))
    for row in table:
        assert list(row) == [*grid, *COLUMNS]
        job = {**BASE, "noise_multiplier": row["/noise_multiplier"],
               "sampling": {"scheme": "poisson", "p": row["/sampling/p"]}}
        single = server.post(job)
        assert single.status_code == 200 and single.json()["result"]["cache"]["result"] == "hit"
        result = single.json()["result"]
        assert [row[name] for name in ("epsilon", "delta", "noise_multiplier", "accountant")] == [
            result[name] for name in ("epsilon", "delta", "noise_multiplier", "accountant")]
        assert row["mean_squared"] == result["error"]["mean_squared"] and row["detail"] is None
        of_point = server.get(f"/v1/jobs/{row['job']}").json()
        assert of_point["status"] == "succeeded" and of_point["job"] == single.json()["job"]
        assert server.get(of_point["links"]["matrix"]).status_code == 200


def test_points_are_in_no_list_of_jobs(launch):
    server = launch()
    ended(server, sweep(server, {"/noise_multiplier": [1, 2, 3]}))
    single = server.solve(GAUSSIAN)
    for query in ("", "?status=succeeded", "?limit=1"):
        assert [item["id"] for item in server.get("/v1/jobs" + query).json()["items"]] == [single["id"]]


def test_equal_points_are_computed_once(launch):
    server = launch()
    done = ended(server, sweep(server, {"/label": [str(i) for i in range(20)]}, dict(DP_SGD, n=777)))
    assert done["failed"] == 0
    table = rows(server, done)
    assert len({row["epsilon"] for row in table}) == 1 and table[0]["epsilon"] > 0
    assert server.metric('epsilond_result_lookups_total{result="miss"}') == 1
    assert len({row["job"] for row in table}) == 20  # each with its own label
    again = ended(server, sweep(server, {"/noise_multiplier": [1, 1.0, 2]}, dict(DP_SGD, n=777)))
    assert [row["epsilon"] for row in rows(server, again)][:2] == 2 * [table[0]["epsilon"]]
    assert server.metric('epsilond_result_lookups_total{result="miss"}') == 2


def test_a_point_that_is_no_job_is_a_failed_row(server):
    done = ended(server, sweep(server, {"/noise_multiplier": [1], "/sampling/p": [0.01, 2, "x", 0.02]}))
    assert (done["status"], done["done"], done["failed"]) == ("succeeded", 4, 2)
    table = rows(server, done)
    assert [row["status"] for row in table] == ["succeeded", "failed", "failed", "succeeded"]
    assert table[1]["job"] is None and table[1]["detail"].startswith("/sampling/p: must lie in")
    assert table[1]["epsilon"] is None and table[1]["accountant"] is None
    # A point that its accountant does not serve.
    tree = {**BASE, "n": 4, "matrix": {"family": "tree"}, "noise_multiplier": 1}
    done = ended(server, sweep(server, {"/accountant": ["pld", "mmcc"]}, tree))
    assert [row["status"] for row in rows(server, done)] == ["failed", "succeeded"]
    assert rows(server, done)[0]["detail"]
    # It may have ended before it is answered.
    body = {"base": {**BASE, "noise_multiplier": 1}, "grid": {"/sampling/p": [2, 3]}}
    answer = server.post(body, "/v1/sweeps")
    assert answer.status_code in (200, 202), answer.text
    assert ended(server, answer.json())["failed"] == 2


def test_what_is_refused(server):
    def refused(body, pointer):
        return check_problem(server.post(body, "/v1/sweeps"), 422, "invalid-job", pointer)

    whole = {**BASE, "noise_multiplier": 1}
    refused({"base": {**whole, "n": -1}, "grid": {"/noise_multiplier": [1, 2]}}, "/base/n")
    long = [1.0] + [0.123456789] * 8000
    refused({"base": {**whole, "n": 8001, "matrix": {"family": "toeplitz", "coefficients": long}},
             "grid": {"/noise_multiplier": [1]}}, "/base")
    check_problem(server.post([], "/v1/sweeps"), 422, "invalid-job", "")
    check_problem(server.request("POST", "/v1/sweeps", data="{", headers={"Content-Type": "application/json"}), 400,
                  "malformed-json")
    assert check_problem(server.get("/v1/sweeps/x"), 404, "not-found")["detail"] == "there is no sweep with this id"
    job = server.solve(GAUSSIAN)["id"]
    check_problem(server.get(f"/v1/sweeps/{job}"), 404, "not-found")
    check_problem(server.get(f"/v1/sweeps/{job}/points"), 404, "not-found")
    check_problem(server.get(f"/v1/sweeps/{job}/points?limit=0"), 422, "invalid-job")
    check_problem(server.get(f"/v1/sweeps/{job}/points?cursor=x"), 422, "invalid-job")


def test_a_member_that_the_base_has_not_and_one_in_an_array(server):
    base = {"n": 4, "sampling": {"scheme": "none"}, "noise_multiplier": 2, "delta": 1e-6,
            "matrix": {"family": "toeplitz", "coefficients": [1, 0.5, 0.25]}}
    done = ended(server, sweep(server, {"/matrix/coefficients/1": [0.5, 0.1], "/accountant/method": ["gaussian"]},
                               base))
    assert done["failed"] == 0
    table = rows(server, done)
    one = server.solve({**base, "matrix": {"family": "toeplitz", "coefficients": [1, 0.1, 0.25]},
                        "accountant": {"method": "gaussian"}})
    assert table[1]["epsilon"] == one["result"]["epsilon"] != table[0]["epsilon"]
    assert one["result"]["cache"]["result"] == "hit"


def test_pages_and_csv(server):
    sigmas = [1 + i / 64 for i in range(130)]
    done = ended(server, sweep(server, {"/noise_multiplier": sigmas, "/matrix": [
        {"family": "identity"}, {"family": "square_root", "bands": 2}]}, {**GAUSSIAN, "noise_multiplier": None}))
    assert (done["total"], done["failed"]) == (260, 0)
    whole = rows(server, done)
    assert whole == rows(server, done, 33) and len(whole) == 260
    assert len(server.get(done["links"]["points"]).json()["items"]) == 50
    answer = server.get(done["links"]["points"], headers={"Accept": "text/csv"})
    assert answer.headers["Content-Type"] == "text/csv"
    assert answer.headers["Vary"] == "Accept"
    for member in ("limit=2", "cursor=1"):
        refused = server.get(done["links"]["points"] + "?" + member, headers={"Accept": "text/csv"})
        check_problem(refused, 422, "invalid-job", "?" + member.split("=")[0])
    table = list(csv.DictReader(io.StringIO(answer.text)))
    assert list(table[0]) == ["/noise_multiplier", "/matrix", *COLUMNS] and len(table) == 260
    for line, row in zip(table, whole):
        assert float(line["/noise_multiplier"]) == row["/noise_multiplier"]
        assert float(line["epsilon"]) == row["epsilon"] and line["job"] == row["job"]
    assert table[1]["/matrix"] == '{"family":"square_root","bands":2}'
    etag = answer.headers["ETag"]
    assert server.get(done["links"]["points"], headers={"Accept": "text/csv", "If-None-Match": etag}).status_code == 304


def test_cells_of_csv_are_no_formulas(server):
    """The name that a client gives to a point is not executed by the spreadsheet that opens the table (OWASP, CSV
    injection)."""
    formulas = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://x","y")', "-inf",
                "--1", "-0x10"]
    harmless = ["plain", "a=1", "-5", "+1e3", "'quoted'", "1,5", "", " =1"]
    done = ended(server, sweep(server, {"/label": formulas + harmless, "/noise_multiplier": [-2.0, 2.0]},
                               {**GAUSSIAN, "noise_multiplier": None}))
    answer = server.get(done["links"]["points"], headers={"Accept": "text/csv"})
    table = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert [line["/label"] for line in table[::2]] == ["'" + one for one in formulas] + harmless
    assert {line["/noise_multiplier"] for line in table} == {"-2", "2"}
    for line in csv.reader(io.StringIO(answer.text, newline="")):
        for cell in line:
            assert not cell.startswith(("=", "@", "\t", "\r")) and (cell[:1] not in ("+", "-")
                                                                    or float(cell) != 0), cell
    # In JSON they are unchanged.
    assert [row["/label"] for row in rows(server, done)[::2]] == formulas + harmless


def test_events(launch):
    server = launch(*ONE_BY_ONE)
    blocker = server.post(ENDLESS).json()
    server.until(blocker["id"], "running")
    document = sweep(server, {"/noise_multiplier": [1, 2, 3, 4]})
    stream = Stream(server, document["links"]["events"])
    events = iter(stream)
    first = next(events)
    assert (first.name, first.data) == ("progress", {"fraction": 0, "stage": None, "remaining_seconds": None})
    server.post(None, blocker["links"]["cancel"])
    rest = list(events)
    points = [event for event in rest if event.name == "point"]
    final = rest[-1]
    assert (final.name, final.id, final.data) == ("sweep", "final", server.get(document["links"]["self"]).json())
    by_value = {event.data["/noise_multiplier"]: event.data for event in points}
    assert list(by_value.values()) and len(points) == 4
    assert sorted(by_value.values(), key=lambda row: row["/noise_multiplier"]) == rows(server, document)
    assert [event.data["fraction"] for event in rest if event.name == "progress"][-1] == 1
    # A client that reconnects gets the points that it has not received.
    assert [event.id for event in points] == sorted((event.id for event in points), key=int)
    again = follow(server, document["links"]["events"], last=points[1].id)
    assert [event.data for event in again if event.name == "point"] == [event.data for event in points[2:]]
    assert again[-1].name == "sweep"
    assert server.get(document["links"]["events"], headers={"Last-Event-ID": "final"}).status_code == 204


def test_cancel_is_of_the_whole(launch):
    server = launch(*ONE_BY_ONE)
    document = sweep(server, {"/epsilon": [1 + i / 100 for i in range(50)]}, {**ENDLESS, "epsilon": None})
    until(lambda: any(row["status"] == "running" for row in rows(server, document)))
    assert server.get(document["links"]["self"]).json()["status"] == "running"
    check_problem(server.request("DELETE", document["links"]["self"]), 409, "conflict")
    answer = server.post(None, document["links"]["cancel"])
    assert answer.status_code == 202
    canceled = answer.json()
    assert (canceled["status"], canceled["done"], canceled["total"]) == ("canceled", 50, 50)
    assert {row["status"] for row in rows(server, document)} == {"canceled"}
    assert server.post(None, document["links"]["cancel"]).status_code == 200
    assert server.metric("epsilond_jobs_running") == server.metric("epsilond_jobs_queued") == 0
    assert server.solve(GAUSSIAN)["status"] == "succeeded"
    assert follow(server, document["links"]["events"])[-1].data["status"] == "canceled"
    job = next(row["job"] for row in rows(server, document) if row["job"])
    assert server.request("DELETE", document["links"]["self"]).status_code == 204
    check_problem(server.get(document["links"]["self"]), 404, "not-found")
    check_problem(server.get(document["links"]["points"]), 404, "not-found")
    assert server.stored("SELECT count(*) FROM children") == [(0,)]
    until(lambda: server.get(f"/v1/jobs/{job}").status_code == 404)  # they are deleted soon after


@pytest.mark.parametrize("points", [2, 50])
def test_kill_9_in_the_middle_of_a_cancel(launch, points):
    """A sweep whose jobs are canceled is canceled, even if the process ends before the end of the sweep is written."""
    server = launch(*ONE_BY_ONE)
    document = sweep(server, {"/epsilon": [1 + i / 100 for i in range(points)]}, {**ENDLESS, "epsilon": None})
    until(lambda: any(row["status"] == "running" for row in rows(server, document)))
    until(lambda: len(server.stored("SELECT job FROM children WHERE job IS NOT NULL")) >= 2)
    server.stored("CREATE TRIGGER held BEFORE UPDATE OF finished_at ON job_groups "
                  "BEGIN SELECT RAISE(ABORT, 'held'); END")
    server.post(None, document["links"]["cancel"])
    until(lambda: {row["status"] for row in rows(server, document) if row["job"]} == {"canceled"})
    assert server.get(document["links"]["self"]).json()["status"] == "running"
    check_problem(server.request("DELETE", document["links"]["self"]), 409, "conflict")
    server.kill()
    server.stored("DROP TRIGGER held")
    server.start()
    after = ended(server, document)
    assert (after["status"], after["done"], after["total"]) == ("canceled", points, points)
    assert "running" not in {row["status"] for row in rows(server, document)}
    assert server.metric("epsilond_jobs_running") == server.metric("epsilond_jobs_queued") == 0


def test_one_job_that_is_canceled_cancels_no_sweep(launch):
    server = launch(*ONE_BY_ONE)
    document = sweep(server, {"/epsilon": [1, 2]}, {**ENDLESS, "epsilon": None})
    until(lambda: any(row["status"] == "running" for row in rows(server, document)))
    job = next(row["job"] for row in rows(server, document) if row["status"] == "running")
    server.post(None, f"/v1/jobs/{job}/cancel")
    # either point may be the first that runs
    until(lambda: sorted(row["status"] for row in rows(server, document)) == ["canceled", "running"])
    server.kill()
    server.start()
    until(lambda: sorted(row["status"] for row in rows(server, document)) == ["canceled", "running"])
    assert server.get(document["links"]["self"]).json()["status"] == "running"
    server.post(None, document["links"]["cancel"])


def test_kill_9_in_the_middle(launch):
    """Completed points are unchanged, the others are computed, each once."""
    server = launch("--workers", "2")
    base = {"n": 20000, "sampling": {"scheme": "poisson", "p": 0.01}, "delta": 1e-8}
    document = sweep(server, {"/noise_multiplier": [1 + i / 32 for i in range(40)], "/sampling/p": [0.01, 2]}, base)
    for _ in range(3):
        before = server.get(document["links"]["self"]).json()["done"]
        until(lambda: server.get(document["links"]["self"]).json()["done"] >= before + 5)
        server.kill()
        done = {row[0]: row[1:] for row in server.stored(
            "SELECT number, job, ended, epsilon FROM children WHERE ended IS NOT NULL")}
        server.start()
    after = ended(server, document)
    assert (after["status"], after["done"], after["failed"]) == ("succeeded", 80, 40)
    stored = {row[0]: row[1:] for row in server.stored("SELECT number, job, ended, epsilon FROM children")}
    assert len(stored) == 80 and sorted(row[1] for row in stored.values()) == list(range(1, 81))
    assert all(stored[number] == row for number, row in done.items())
    assert server.stored("SELECT count(*), count(DISTINCT child) FROM jobs") == [(40, 40)]
    assert [row["status"] for row in rows(server, document)] == 40 * ["succeeded", "failed"]


def test_stop_in_the_middle(launch):
    server = launch(*ONE_BY_ONE)
    document = sweep(server, {"/epsilon": [1, 2, 3]}, {**ENDLESS, "epsilon": None})
    until(lambda: rows(server, document)[0]["status"] == "running")
    server.stop()
    server.start()
    until(lambda: rows(server, document)[0]["status"] == "running")
    assert server.post(None, document["links"]["cancel"]).json()["status"] == "canceled"


def test_lists_and_idempotency(launch):
    server = launch()
    key = {"Idempotency-Key": "one"}
    body = {"base": BASE, "grid": {"/noise_multiplier": [1, 2]}, "label": "a b"}
    first = server.post(body, "/v1/sweeps", headers=key)
    assert first.status_code == 202
    replay = server.post(body, "/v1/sweeps", headers=key)
    assert replay.headers["Idempotent-Replayed"] == "true" and replay.json()["id"] == first.json()["id"]
    check_problem(server.post(dict(body, label="c"), "/v1/sweeps", headers=key), 409, "conflict")
    check_problem(server.post(dict(body, grid={"/noise_multiplier": [2, 1]}), "/v1/sweeps", headers=key), 409,
                  "conflict")
    check_problem(server.post(GAUSSIAN, headers=key), 409, "conflict")
    ids = [first.json()["id"]] + [sweep(server, {"/noise_multiplier": [1, 2]})["id"] for _ in range(4)]
    for one in ids:
        ended(server, {"links": {"self": f"/v1/sweeps/{one}"}})
    assert server.post(body, "/v1/sweeps", headers=key).status_code == 200  # it is final
    seen, path = [], "/v1/sweeps?limit=2"
    while path:
        answer = server.get(path)
        seen += [item["id"] for item in answer.json()["items"]]
        link = answer.headers.get("Link")
        path = re.fullmatch(r'<(.*)>; rel="next"', link)[1] if link else None
    assert seen == ids[::-1]
    (labelled,) = server.get("/v1/sweeps?label=a%20b&status=succeeded").json()["items"]
    assert labelled["id"] == ids[0] and "grid" not in labelled and labelled["done"] == 2
    assert server.get("/v1/sweeps?status=failed").json() == {"items": [], "next": None}
    server.stop()
    server.start()
    assert server.get(f"/v1/sweeps/{ids[0]}").json()["status"] == "succeeded"
    assert server.get("/v1/sweeps").json()["items"][-1]["id"] == ids[0]


def order_of_ends(server, kinds):
    return [kinds[job] for job in re.findall(r"event=job-end job=(\S+)", server.log_text()) if job in kinds]


def test_neither_starves(launch):
    """One worker; many single jobs wait, and then a sweep: they are taken alternately, and a single job that arrives
    while a sweep is running is soon started."""
    server = launch(*ONE_BY_ONE)
    blocker = server.post(ENDLESS).json()
    server.until(blocker["id"], "running")
    singles = [server.post(dict(DP_SGD, n=300 + i)).json()["id"] for i in range(12)]
    document = sweep(server, {"/noise_multiplier": [1 + i / 10 for i in range(12)]})
    until(lambda: sum(row["job"] is not None for row in rows(server, document)) >= 2)
    server.post(None, blocker["links"]["cancel"])
    ended(server, document)
    for single in singles:
        server.until(single, "succeeded")
    kinds = {**{one: "single" for one in singles}, **{row["job"]: "point" for row in rows(server, document)}}
    order = order_of_ends(server, kinds)
    assert len(order) == 24
    for at in range(4, 20, 4):  # of four in a row, two of each, except for a short delay in feeding
        assert abs(order[:at].count("single") - order[:at].count("point")) <= 2, order


def test_a_sweep_holds_one_place(launch):
    server = launch(*ONE_BY_ONE, "--queue", "3")
    blocker = server.post(ENDLESS).json()
    server.until(blocker["id"], "running")
    document = sweep(server, {"/noise_multiplier": [1 + i / 10 for i in range(50)]})
    until(lambda: sum(row["job"] is not None for row in rows(server, document)) >= 2)
    posted = [server.post(dict(GAUSSIAN, n=50 + i)) for i in range(3)]
    assert [answer.status_code for answer in posted] == [202, 202, 503]
    check_problem(server.post({"base": BASE, "grid": {"/noise_multiplier": [1]}}, "/v1/sweeps"), 503, "queue-full")
    server.post(None, blocker["links"]["cancel"])
    assert ended(server, document)["done"] == 50
    sweep(server, {"/noise_multiplier": [9]})


def test_ten_thousand_points(launch):
    """Accepted in one transaction, fed a few at a time; most are invalid, so that it is fast."""
    server = launch()
    grid = {"/noise_multiplier": [1] + [-1] * 99, "/delta": [1e-6 * (i + 1) for i in range(100)]}
    document = sweep(server, grid, {"n": 10, "sampling": {"scheme": "none"}})
    assert document["total"] == 10000
    done = ended(server, document)
    assert (done["done"], done["failed"]) == (10000, 9900)
    table = list(csv.DictReader(io.StringIO(server.get(done["links"]["points"], headers={"Accept": "text/csv"}).text)))
    assert len(table) == 10000 and sum(line["status"] == "succeeded" for line in table[:100]) == 100


def damage(server, statement, *values):
    with contextlib.closing(sqlite3.connect(server.database, timeout=60)) as database, database:
        assert database.execute(statement, values).rowcount == 1


def test_a_sweep_expires_with_its_points(launch):
    server = launch("--keep", "2s")
    document = sweep(server, {"/noise_multiplier": [1, 2]})
    ended(server, document)
    time.sleep(2.1)
    server.stop()
    server.start()  # a service checks soon after its start
    until(lambda: server.stored("SELECT (SELECT count(*) FROM job_groups), (SELECT count(*) FROM children), "
                                "(SELECT count(*) FROM jobs)") == [(0, 0, 0)])
    check_problem(server.get(document["links"]["self"]), 404, "not-found")


def test_what_expires_is_deleted_as_fast_as_it_comes(launch):
    """Portions follow each other; at one portion a minute, more than eight jobs a second filled the disk."""
    server = launch("--keep", "1s")
    for first in (1, 2, 3):
        ended(server, sweep(server, {"/noise_multiplier": [first + i / 1000 for i in range(700)]}))
    time.sleep(1.1)
    server.stop()
    server.start()
    until(lambda: server.stored("SELECT (SELECT count(*) FROM job_groups), (SELECT count(*) FROM children), "
                                "(SELECT count(*) FROM jobs), (SELECT count(*) FROM results)") == [(0, 0, 0, 0)], 40)


def test_damage_is_told_and_not_believed(launch):
    server = launch()
    document = sweep(server, {"/noise_multiplier": [1, 2]})
    other = sweep(server, {"/noise_multiplier": [3]})
    for one in (document, other):
        ended(server, one)
    server.stop()
    damage(server, "UPDATE children SET epsilon = 0 WHERE parent = ? AND number = 1", document["id"])
    damage(server, "UPDATE job_groups SET total = 2 WHERE id = ?", other["id"])
    server.start()
    table = rows(server, document)
    assert [row["status"] for row in table] == ["succeeded", "failed"]
    assert "checksum" in table[1]["detail"] and table[1]["epsilon"] is None
    check_problem(server.get(other["links"]["self"]), 500, "internal")
    check_problem(server.get(other["links"]["points"]), 500, "internal")
    told, whole = server.get("/v1/sweeps").json()["items"]
    assert (told["id"], told["status"], told["links"]) == (other["id"], "failed", other["links"])
    assert "checksum" in told["error"]["detail"] and told["error"]["instance"] == other["links"]["self"]
    assert whole["id"] == document["id"] and "error" not in whole
    assert server.request("DELETE", other["links"]["self"]).status_code == 204


@pytest.mark.parametrize("state", ["status = 0", "status = 'x', done = 7", "failed = 2", "finished_at = 1"])
def test_a_damaged_state_is_counted_anew(launch, state):
    """The outcome of a sweep is also in the rows of its points."""
    server = launch()
    document = ended(server, sweep(server, {"/noise_multiplier": [1, 2, -1]}))
    damage(server, f"UPDATE job_groups SET {state} WHERE id = ?", document["id"])
    found = server.get(document["links"]["self"])
    assert found.status_code == 200 and found.json() == dict(document, finished_at=None)
    assert server.get("/v1/sweeps").json()["items"][0]["done"] == 3
    assert len(rows(server, document)) == 3
    server.stop()
    server.start()
    again = ended(server, document)
    assert again == dict(document, finished_at=again["finished_at"]) and again["finished_at"]
    failures = server.metric("epsilond_checksum_failures_total")
    assert server.get(document["links"]["self"]).json() == again
    assert server.metric("epsilond_checksum_failures_total") == failures
    assert server.request("DELETE", document["links"]["self"]).status_code == 204


def interrupted(launch):
    """A sweep during which the server was killed."""
    server = launch("--workers", "2")
    base = {"n": 50000, "sampling": {"scheme": "poisson", "p": 0.01}, "delta": 1e-8,
            "accountant": {"method": "pld", "tolerance": 1e-6}}
    document = sweep(server, {"/noise_multiplier": [1 + i / 32 for i in range(20)]}, base)
    until(lambda: server.get(document["links"]["self"]).json()["done"] >= 5)
    server.kill()
    return server, document


def test_a_sweep_whose_state_was_damaged_goes_on(launch):
    server, document = interrupted(launch)
    damage(server, "UPDATE job_groups SET done = 20, status = 4 WHERE id = ?", document["id"])
    server.start()
    done = ended(server, document)
    assert (done["status"], done["done"], done["failed"]) == ("succeeded", 20, 0)
    assert [row["status"] for row in rows(server, document)] == 20 * ["succeeded"]
    assert sorted(row[0] for row in server.stored("SELECT ended FROM children")) == list(range(1, 21))


def test_a_sweep_of_which_nobody_knows_what_it_asked_has_failed(launch):
    server, document = interrupted(launch)
    damage(server, "UPDATE job_groups SET request = replace(request, '1e-8', '1e-7') WHERE id = ?", document["id"])
    server.start()
    problem = check_problem(server.get(document["links"]["self"]), 500, "internal")
    assert "checksum" in problem["detail"] and "post the sweep again" in problem["detail"]
    assert [item["status"] for item in server.get("/v1/sweeps").json()["items"]] == ["failed"]
    assert server.stored("SELECT status FROM job_groups") == [(3,)]
    assert server.request("DELETE", document["links"]["self"]).status_code == 204
    until(lambda: server.stored("SELECT count(*) FROM jobs WHERE status < 2") == [(0,)])
