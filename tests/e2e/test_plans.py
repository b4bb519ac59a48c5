"""
Plans over HTTP: the mechanisms tried, their ranking, skipped candidates and the reasons, and the behaviour of plans
after failures.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import contextlib
import sqlite3

import pytest

from conftest import check_problem, until
from follow import Stream, follow

pytestmark = pytest.mark.sanitized
SMALL = {"n": 12, "batch_size": 10, "dataset_size": 30, "epsilon": 4, "delta": 1e-5,
         "families": ["identity", "square_root", "banded", "optimal"]}
FEW = {**SMALL, "families": ["identity", "square_root"], "max_bands": 2}
# Its last candidate takes minutes.
LONG = {"n": 1500, "batch_size": 100, "dataset_size": 7500, "epsilon": 2, "delta": 1e-5,
        "families": ["identity", "optimal"],
        "workload": {"type": "momentum", "momentum": 0.95}}


def plan(server, body, status=202):
    """200: if all answers are cached, the plan has already ended."""
    answer = server.post(body, "/v1/plans")
    assert answer.status_code == status or (status, answer.status_code) == (202, 200), answer.text
    assert answer.headers["Location"] == answer.json()["links"]["self"]
    return answer.json()


def ended(server, document):
    return server.get(document["links"]["self"] + "?wait=300", timeout=400).json()


@pytest.fixture(scope="module")
def small(server):
    return ended(server, plan(server, SMALL))


def test_candidates_are_ranked_by_their_error(small):
    assert (small["status"], small["failed"]) == ("succeeded", 0)
    assert small["done"] == small["total"] == len(small["candidates"])
    assert {name: small[name] for name in SMALL} == SMALL
    assert small["objective"] == "mean_squared"
    answered = [c for c in small["candidates"] if c["status"] == "succeeded"]
    assert small["candidates"][:len(answered)] == answered
    assert [c["rank"] for c in answered] == list(range(1, len(answered) + 1))
    errors = [c["error"]["mean_squared"] for c in answered]
    assert errors == sorted(errors) and len(errors) > 20
    for candidate in small["candidates"][len(answered):]:
        assert candidate["status"] == "skipped" and candidate["reason"]
        assert all(candidate[name] is None for name in ("rank", "noise_multiplier", "error", "guarantee"))
    assert {c["scheme"] for c in answered} == {"none", "poisson", "cyclic_poisson", "balls_in_bins", "b_min_sep"}
    assert [c["scheme"] for c in small["candidates"] if c["family"] == "optimal"] == ["none"]
    bands = {c["bands"] for c in answered if (c["family"], c["scheme"]) == ("square_root", "none")}
    assert bands == {2, 4, 8, 12}
    for candidate in answered:
        assert candidate["guarantee"] == "deterministic"
        assert candidate["buffers"] == {"identity": 0, "optimal": 11}.get(candidate["family"],
                                                                       (candidate["bands"] or 0) - 1)


def test_every_job_is_ready_to_post_and_has_the_same_answer(server, small):
    for candidate in small["candidates"]:
        job = server.solve(candidate["job"])
        assert job["job"] == candidate["job"]  # canonical
        result = job["result"]
        assert job["job"]["sampling"]["scheme"] == candidate["scheme"]
        if candidate["status"] == "succeeded":
            assert result["noise_multiplier"] == candidate["noise_multiplier"]
            assert result["error"] == candidate["error"] and result["guarantee"] == candidate["guarantee"]
            assert result["cache"]["result"] == "hit"


def test_what_is_skipped_is_no_better(server, small):
    """A candidate that was skipped for a better one is no better than that one, and keeps at least as much noise."""
    skipped = [c for c in small["candidates"] if c["status"] == "skipped" and "whoever accounts it" in c["reason"]]
    answered = [c for c in small["candidates"] if c["status"] == "succeeded"]
    for candidate in skipped:
        error = server.solve(candidate["job"])["result"]["error"]["mean_squared"]
        assert any(c["error"]["mean_squared"] <= error and c["buffers"] <= candidate["buffers"] for c in answered)


def test_estimates_stand_beside_what_is_proven(server):
    """The rank is by proof; an estimate promises less error than its candidate's proof, and the hint names the best."""
    done = ended(server, plan(server, {"n": 64, "batch_size": 10, "dataset_size": 160, "epsilon": 2, "delta": 1e-5,
                                       "schemes": ["b_min_sep"], "families": ["square_root"], "max_bands": 4}))
    answered = [c for c in done["candidates"] if c["rank"]]
    assert [c["error"]["mean_squared"] for c in answered] == sorted(c["error"]["mean_squared"] for c in answered)
    assert sorted(c["estimate"]["rank"] for c in answered) == list(range(1, len(answered) + 1))
    estimated = [c for c in answered if c["estimate"]["noise_multiplier"]]
    assert estimated
    for candidate in answered:
        result = server.solve(candidate["job"])["result"]
        value = result.get("unproven_estimate", {}).get("value", float("inf"))
        share = min(1, value / candidate["noise_multiplier"])
        assert candidate["estimate"]["noise_multiplier"] == (value if share < 1 else None)
        assert candidate["estimate"]["error"] == pytest.approx(candidate["error"]["mean_squared"] * share**2)
    least = min(answered, key=lambda c: c["estimate"]["error"])
    assert least["estimate"]["rank"] == 1
    promises = least["estimate"]["error"] < 0.98 * answered[0]["error"]["mean_squared"]
    assert (done["hint"] is not None) == promises
    if promises:
        assert done["hint"].startswith(f"{least['family']} of {least['bands']} bands under {least['scheme']} would")


def test_the_ten_best_and_their_gain_over_dp_sgd(server, small):
    answered = [c for c in small["candidates"] if c["rank"]]
    (reference,) = [c for c in answered if (c["family"], c["scheme"]) == ("identity", "poisson")]
    assert reference["gain"] == 1
    for candidate in small["candidates"]:
        if candidate["rank"]:
            assert candidate["gain"] == pytest.approx(reference["error"]["mean_squared"]
                                                      / candidate["error"]["mean_squared"], rel=1e-12)
        else:
            assert candidate["gain"] is None
    assert len(small["best"]) == 10 and small["best"][0]["gain"] > 1
    assert small["best"] == [{name: c[name] for name in small["best"][0]} for c in answered[:10]]
    without = ended(server, plan(server, dict(SMALL, families=["identity"], schemes=["none"])))
    assert [c["gain"] for c in without["best"]] == [None]


def test_the_gain_is_over_the_same_sizes(server):
    done = ended(server, plan(server, {"n": [6, 12], "batch_size": [10, 20], "dataset_size": 60, "epsilon": 4,
                                       "delta": 1e-5, "max_bands": 2,
                                       "families": ["identity", "square_root"],
                                       "schemes": ["poisson", "cyclic_poisson"],
                                       "objective": "max_squared"}))
    own = {(c["n"], c["batch_size"]): c["error"]["max_squared"] for c in done["candidates"]
           if (c["family"], c["scheme"]) == ("identity", "poisson")}
    assert len(own) == 4
    for candidate in done["candidates"]:
        if candidate["rank"]:
            expected = own[candidate["n"], candidate["batch_size"]] / candidate["error"]["max_squared"]
            assert candidate["gain"] == pytest.approx(expected, rel=1e-12)


def test_the_first_answers_come_soon(launch):
    """
    For a plan with only sizes, epsilon and delta: DP-SGD and a better candidate are available after a few seconds of
    processor time (0.6 on the development machine), while the rest takes minutes.
    """
    server = launch("--workers", "2")
    accepted = plan(server, {"n": 2048, "batch_size": 512, "dataset_size": 50000, "epsilon": 2, "delta": 1e-6})
    used = {}

    def is_ranked():
        best = server.get(accepted["links"]["self"]).json()["best"]
        used["seconds"] = server.processor_seconds()
        return len(best) == 10 and best[0]["gain"] is not None and best[0]["gain"] > 1.2

    until(is_ranked)
    assert used["seconds"] < 5
    now = server.get(accepted["links"]["self"]).json()
    assert now["status"] == "running"
    assert (now["epsilon"], now["delta"], now["dataset_size"], now["n"], now["batch_size"]) == (2, 1e-6, 50000, 2048,
                                                                                                512)
    bins = [c for c in now["candidates"] if c["scheme"] == "balls_in_bins"]  # 97 of them, and 2037 = 21 * 97
    assert len(bins) > 10 and {c["n"] for c in bins} == {2037}
    server.post({}, accepted["links"]["cancel"])


def test_few_rows_of_noise(server):
    done = ended(server, plan(server, dict(SMALL, max_bands=4, schemes=["none", "cyclic_poisson"])))
    assert {c["bands"] for c in done["candidates"]} == {None, 2, 4}
    assert all(c["buffers"] < 4 for c in done["candidates"])


def test_lists_of_sizes_are_ranked_by_the_average_gradient(server):
    body = {"epochs": [2, 4], "batch_size": [10, 20], "dataset_size": 60, "epsilon": 4, "delta": 1e-5,
            "families": ["identity"], "schemes": ["poisson", "balls_in_bins"], "objective": "max_squared"}
    done = ended(server, plan(server, body))
    rows = done["candidates"]
    assert sorted((c["n"], c["batch_size"]) for c in rows if c["scheme"] == "poisson") == [(6, 20), (12, 10), (12, 20),
                                                                                       (24, 10)]
    keys = [c["error"]["max_squared"] / c["batch_size"] ** 2 for c in rows if c["rank"]]
    assert keys == sorted(keys)
    assert all(c["rank"] or "identity under poisson is better" in c["reason"] for c in rows)
    assert all(c["rank"] for c in rows if c["scheme"] == "poisson")


def test_only_what_does_the_same_training_rules_out(server):
    """Ten steps have less error than a hundred, but are not better for that reason."""
    body = {"n": [10, 100], "batch_size": [10, 20], "dataset_size": 100, "epsilon": 4, "delta": 1e-5, "max_bands": 2,
            "families": ["identity", "square_root"], "schemes": ["none", "balls_in_bins"]}
    done = ended(server, plan(server, body))
    answered = [c for c in done["candidates"] if c["status"] == "succeeded"]
    assert {(c["n"], c["batch_size"], c["scheme"]) for c in answered} >= {
        (n, batch, "balls_in_bins") for n in body["n"] for batch in body["batch_size"]}
    for candidate in done["candidates"]:
        if candidate["status"] == "skipped" and "whoever accounts it" in candidate["reason"]:
            error = server.solve(candidate["job"])["result"]["error"]["mean_squared"]
            assert any(c["error"]["mean_squared"] <= error and c["buffers"] <= candidate["buffers"] and
                       (c["n"], c["batch_size"]) == (candidate["n"], candidate["batch_size"]) for c in answered)


def test_what_cannot_be_tried_says_why(server):
    done = ended(server, plan(server, dict(SMALL, dataset_size=70, families=["identity"])))  # seven bins
    refused = [c for c in done["candidates"] if c["status"] == "skipped"]
    assert [(c["scheme"], c["job"]) for c in refused] == [("balls_in_bins", None)]
    assert "7 bins, which do not divide n = 12" in refused[0]["reason"]


def test_what_is_refused(server):
    check_problem(server.post({**SMALL, "families": ["trees"]}, "/v1/plans"), 422, "invalid-job", "/families/0")
    long = {"type": "toeplitz", "coefficients": [1 / (i + 1) for i in range(2100)]}
    check_problem(server.post({**SMALL, "n": [2500, 2600], "workload": long}, "/v1/plans"), 422, "invalid-job",
                  "/workload/coefficients")
    check_problem(server.post([1], "/v1/plans"), 422, "invalid-job", "")


def test_events_tell_each_candidate_with_its_rank_so_far(server):
    accepted = plan(server, dict(SMALL, label="followed", families=["identity", "square_root"]))
    events = follow(server, accepted["links"]["events"])
    done = ended(server, accepted)
    assert events[-1].name == "plan" and events[-1].data == done
    told = [event.data for event in events if event.name == "candidate"]
    assert len(told) == done["total"]
    so_far = []
    for candidate in told:
        if candidate["status"] == "succeeded":
            so_far = sorted(so_far + [candidate["error"]["mean_squared"]])
            assert so_far[candidate["rank"] - 1] == candidate["error"]["mean_squared"]
        else:
            assert candidate["rank"] is None
    by_job = {str(c["job"]): c for c in done["candidates"]}
    later = lambda c: c | {"rank": 0, "gain": 0, "estimate": c["estimate"] and {**c["estimate"], "rank": 0}}
    assert all(later(by_job[str(c["job"])]) == later(c) for c in told)
    assert all(c["gain"] in (None, by_job[str(c["job"])]["gain"]) for c in told)
    (reference,) = [i for i, c in enumerate(told) if (c["family"], c["scheme"]) == ("identity", "poisson")]
    assert all((c["gain"] is None) == (i < reference or c["rank"] is None) for i, c in enumerate(told))
    again = follow(server, accepted["links"]["events"], last=events[-3].id)
    assert len(again) < len(events)


def test_a_plan_under_a_key_is_one(server):
    headers = {"Idempotency-Key": "one-plan"}
    body = dict(SMALL, families=["identity"])
    first = server.request("POST", "/v1/plans", json=body, headers=headers)
    again = server.request("POST", "/v1/plans", json=body, headers=headers)
    assert again.json()["id"] == first.json()["id"] and again.headers["Idempotent-Replayed"] == "true"
    other = server.request("POST", "/v1/plans", json=dict(body, n=24), headers=headers)
    check_problem(other, 409, "conflict")


def test_what_takes_long_joins_the_ranking_later_and_can_be_canceled(launch):
    server = launch("--workers", "2")
    accepted = plan(server, LONG)

    def is_running():
        rows = server.get(accepted["links"]["self"]).json()["candidates"]
        states = {(c["family"], c["scheme"]): c["status"] for c in rows}
        others = {state for (family, _), state in states.items() if family != "optimal"}
        return others <= {"succeeded", "skipped"} and states[("optimal", "none")] == "running"

    until(is_running)
    ranked = server.get(accepted["links"]["self"]).json()
    assert ranked["status"] == "running" and ranked["candidates"][0]["rank"] == 1
    check_problem(server.request("DELETE", accepted["links"]["self"]), 409, "conflict")
    assert server.post({}, accepted["links"]["cancel"]).status_code == 202
    canceled = ended(server, accepted)
    assert canceled["status"] == "canceled"
    assert [c["status"] for c in canceled["candidates"] if c["family"] == "optimal"] == ["canceled"]
    assert canceled["candidates"][0]["rank"] == 1
    assert server.request("DELETE", accepted["links"]["self"]).status_code == 204
    assert server.get(accepted["links"]["self"]).status_code == 404


def test_a_plan_survives_a_kill(launch):
    server = launch("--workers", "2")
    accepted = plan(server, dict(FEW, label="kept"))
    stream = Stream(server, accepted["links"]["events"])
    for event in stream:
        if event.name == "candidate":
            break
    stream.close()
    server.kill()
    server.start()
    done = ended(server, accepted)
    assert (done["status"], done["label"]) == ("succeeded", "kept")
    assert done["done"] == done["total"] == accepted["total"]
    assert {c["status"] for c in done["candidates"]} <= {"succeeded", "skipped"}
    assert [c["job"] for c in accepted["candidates"]] and sorted(
        str(c["job"]) for c in done["candidates"]) == sorted(str(c["job"]) for c in accepted["candidates"])


def test_a_plan_with_damaged_rows_ranks_the_others(launch):
    server = launch()
    body = dict(FEW, schemes=["none", "poisson"])
    done = ended(server, plan(server, body))
    server.stop()
    number, worst = server.stored("SELECT number, mean_squared FROM children ORDER BY mean_squared DESC")[0]
    with contextlib.closing(sqlite3.connect(server.database)) as database, database:
        database.execute("UPDATE children SET mean_squared = 0.1 WHERE number = ?", (number,))
        database.execute("UPDATE job_groups SET done = 1")
    server.start()
    found = ended(server, done)  # its state was damaged: it ends again
    answered = [c for c in done["candidates"] if c["rank"]]
    assert answered[-1]["error"]["mean_squared"] == worst
    assert found["candidates"][:len(answered) - 1] == answered[:-1]
    (lost,) = [c for c in found["candidates"] if c["job"] == answered[-1]["job"]]
    assert (lost["status"], lost["rank"]) == ("failed", None) and "checksum" in lost["reason"]
    assert (found["status"], found["failed"]) == ("succeeded", 1)


def test_a_candidate_whose_row_is_lost_is_told(launch):
    """A page of the database that is damaged may take rows with it: what ranks the rest must not look whole."""
    server = launch()
    done = ended(server, plan(server, dict(SMALL, families=["identity"])))
    base = {"n": 10, "sampling": {"scheme": "none"}, "delta": 1e-6}
    swept = server.post({"base": base, "grid": {"/noise_multiplier": [1, 2, 3]}}, "/v1/sweeps").json()["links"]
    assert server.get(swept["self"] + "?wait=60").json()["status"] == "succeeded"
    server.stop()
    with contextlib.closing(sqlite3.connect(server.database)) as database, database:
        database.execute("DELETE FROM children WHERE number = 0")
    server.start()
    found = server.get(done["links"]["self"]).json()
    answered = [c["job"] for c in done["candidates"] if c["rank"]]
    (lost,) = [c for c in found["candidates"] if c["status"] == "failed"]
    assert lost["rank"] is None and "checksum" in lost["reason"]
    assert [c["job"] for c in found["candidates"] if c["rank"]] == [job for job in answered if job != lost["job"]]
    assert server.metric("epsilond_checksum_failures_total") == 1
    points = server.get(swept["points"]).json()["items"]
    assert [point["status"] for point in points] == ["failed", "succeeded", "succeeded"]
    assert "checksum" in points[0]["detail"]
    assert "checksum" in server.get(swept["points"], headers={"Accept": "text/csv"}).text.splitlines()[1]
    assert "event=checksum" in server.log_text()


def test_a_plan_is_ranked_the_same_by_a_process_that_knows_nothing_of_it(launch):
    server = launch()
    done = ended(server, plan(server, FEW))
    events = follow(server, done["links"]["events"])
    server.stop()
    server.start()
    again = follow(server, done["links"]["events"])
    assert [(e.id, e.data) for e in again if e.name == "candidate"] == [
        (e.id, e.data) for e in events if e.name == "candidate"]
    assert server.get(done["links"]["self"]).json() == done
    assert server.request("DELETE", done["links"]["self"]).status_code == 204
    check_problem(server.get(done["links"]["self"]), 404, "not-found")
    check_problem(server.get(done["links"]["events"]), 404, "not-found")


def test_plans_are_listed_without_candidates(server, small):
    listed = server.get("/v1/plans?limit=100").json()["items"]
    mine = [item for item in listed if item["id"] == small["id"]][0]
    assert "candidates" not in mine and mine["n"] == SMALL["n"] and mine["best"] == small["best"]
    assert server.get("/v1").json()["links"]["plans"] == "/v1/plans"
