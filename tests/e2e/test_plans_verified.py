"""
Plans that verify their best candidates by draws: what is chosen and how it is ranked, and that the second part of such
a plan survives kills, is canceled with it, and is refused where it would mean nothing.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import pytest

from conftest import check_problem, until
from follow import Stream, follow

sanitized = pytest.mark.sanitized
# Four candidates have an estimate of less than what is proven; two; one.
SEVERAL = {"n": 12, "batch_size": 10, "dataset_size": 60, "epsilon": 2, "delta": 1e-3, "max_bands": 4,
           "schemes": ["b_min_sep", "balls_in_bins"], "families": ["square_root", "identity"],
           "verify": "draws", "max_seconds": 20}
TWO = {**SEVERAL, "schemes": ["b_min_sep"]}
ONE = {**SEVERAL, "schemes": ["b_min_sep"], "max_bands": 2}
SHARE = 64 / 67  # of delta that the jobs of such a plan have


def plan(server, body):
    answer = server.post(body, "/v1/plans")
    assert answer.status_code == 202, answer.text
    return answer.json()


def ended(server, document):
    return server.get(document["links"]["self"] + "?wait=300", timeout=400).json()


def name(candidate):
    return tuple(candidate[member] for member in ("family", "bands", "scheme"))


def promises(candidate):
    return candidate["rank"] and candidate["estimate"]["noise_multiplier"] is not None


def check(server, done):
    """What holds of every plan that has ended and was not disturbed in its verifications."""
    rows = done["candidates"]
    ranked = [row for row in rows if row["rank"]]
    total = len(rows) + min(3, len(rows))
    assert (done["status"], done["done"], done["total"]) == ("succeeded", total, total)
    assert [row["rank"] for row in ranked] == list(range(1, len(ranked) + 1))
    assert [row["error"]["mean_squared"] for row in ranked] == sorted(row["error"]["mean_squared"] for row in ranked)
    hopes = sorted((row for row in ranked if promises(row)), key=lambda row: row["estimate"]["rank"])
    assert {name(row) for row in rows if row["verification"]} == {name(row) for row in hopes[:3]}
    for row in rows:
        assert row["job"]["delta"] == pytest.approx(SHARE * done["delta"], rel=1e-12)
        assert row["verified"] == (row["proven"] is not None)
        if row["verified"]:
            found = row["verification"]
            assert row["guarantee"] == found["guarantee"] == "estimate_verify_release"
            assert (row["accountant"], row["job"]["accountant"]["method"]) == ("monte_carlo", "monte_carlo")
            assert row["job"]["accountant"]["max_seconds"] == done["max_seconds"]
            assert (row["noise_multiplier"], row["error"]) == (found["noise_multiplier"], found["error"])
            assert row["error"]["mean_squared"] < row["proven"]["error"]["mean_squared"]
            assert found["reason"] is None and row["proven"]["accountant"] != "monte_carlo"
            result = server.get("/v1/jobs/" + found["job"]).json()
            assert result["job"] == row["job"]
            assert all(result["result"][member] == found[member] for member in (
                "noise_multiplier", "error", "guarantee", "monte_carlo", "assumptions"))
            assert any(draws["failure_probability"] < 1 / 64 for draws in found["monte_carlo"].values() if draws)
        elif row["verification"]:
            assert row["verification"]["reason"]
    return hopes[:3]


def test_the_best_by_estimate_are_verified_and_ranked_by_that(server):
    accepted = plan(server, SEVERAL)
    events = follow(server, accepted["links"]["events"])
    done = ended(server, accepted)
    chosen = check(server, done)
    assert (done["failed"], len(chosen)) == (0, 3) and done["hint"] is None
    assert sum(bool(promises(row)) for row in done["candidates"]) > 3
    assert any(row["verified"] for row in chosen)
    ranked = [row for row in done["candidates"] if row["rank"]]
    assert done["best"] == [{member: row[member] for member in done["best"][0]} for row in ranked[:10]]
    assert {member: done[member] for member in SEVERAL} == SEVERAL
    # All candidates come first, without verifications, then those that are verified.
    told = [event.data for event in events if event.name == "candidate"]
    assert len(told) == done["total"] == len(done["candidates"]) + 3
    assert all(row["verification"] is None and not row["verified"] for row in told[:-3])
    assert {name(row) for row in told[-3:]} == {name(row) for row in chosen}
    shown = {name(row): row for row in done["candidates"]}
    for row in told[-3:]:
        assert {**row, "rank": 0, "gain": 0} == {**shown[name(row)], "rank": 0, "gain": 0}
    before = [event.id for event in events if event.name == "candidate"][-4]
    again = follow(server, accepted["links"]["events"], last=before)
    assert [event.data for event in again if event.name == "candidate"] == told[-3:]


@sanitized
def test_a_plan_that_verifies_nothing_is_as_ever(server):
    """Nothing of it has changed its numbers, and its hint names the way."""
    body = {member: value for member, value in ONE.items() if member not in ("verify", "max_seconds")}
    done = ended(server, plan(server, body))
    assert done["total"] == len(done["candidates"]) and "max_seconds" not in done
    assert all(row["job"]["delta"] == body["delta"] for row in done["candidates"])
    assert not any(row["verified"] or row["verification"] or row["proven"] for row in done["candidates"])
    assert '"verify": "draws"' in done["hint"]


@sanitized
def test_too_little_time_and_too_few_candidates_are_told(server):
    """One candidate has an estimate, and the draws have no time: its proof stays, and the other turns find nothing."""
    accepted = plan(server, {**ONE, "max_seconds": 0.001})
    done = ended(server, accepted)
    (chosen,) = check(server, done)
    assert not chosen["verified"] and chosen["guarantee"] == "deterministic"
    assert chosen["verification"]["status"] in ("succeeded", "failed")
    assert chosen["verification"]["reason"] in done["hint"]
    told = [event for event in follow(server, accepted["links"]["events"]) if event.name == "candidate"]
    assert len(told) == len(done["candidates"]) + 1


@sanitized
def test_what_monte_carlo_refuses_keeps_its_proof(launch):
    """By its cost: of two candidates, the limit allows both proofs and the verification of one."""
    server = launch("--max-operations", "1.3e9")
    done = ended(server, plan(server, {**TWO, "max_seconds": 3e8}))
    refused, verified = sorted(check(server, done), key=lambda row: row["verified"])
    assert (refused["bands"], verified["bands"], verified["verified"], refused["verified"]) == (4, 2, True, False)
    assert (refused["verification"]["status"], refused["verification"]["job"]) == ("skipped", None)
    assert "operations" in refused["verification"]["reason"] and done["failed"] == 0


@sanitized
def test_kills_between_and_within_the_parts(launch):
    """When the last candidate is told, and when the first verification is."""
    server = launch("--workers", "1")
    accepted = plan(server, TWO)
    total = len(accepted["candidates"])
    for told in (total, total + 1):
        stream = Stream(server, accepted["links"]["events"])
        for event in stream:
            told -= event.name == "candidate"
            if not told:
                break
        stream.close()
        server.kill()
        server.start()
    done = ended(server, accepted)
    assert len(check(server, done)) == 2 and done["failed"] == 0
    assert server.stored("SELECT count(*) FROM children") == [(done["total"],)]
    events = follow(server, accepted["links"]["events"])
    assert len([event for event in events if event.name == "candidate"]) == total + 2


@sanitized
def test_a_plan_is_canceled_in_its_second_part(launch):
    server = launch("--workers", "1")
    accepted = plan(server, {**ONE, "n": 64, "dataset_size": 160, "delta": 1e-6, "max_seconds": 100})
    shown = lambda: [row for row in server.get(accepted["links"]["self"]).json()["candidates"] if row["verification"]]
    until(lambda: [row["verification"]["status"] for row in shown()] == ["running"])
    (running,) = shown()
    assert running["rank"] and not running["verified"] and running["verification"]["noise_multiplier"] is None
    check_problem(server.request("DELETE", accepted["links"]["self"]), 409, "conflict")
    assert server.post({}, accepted["links"]["cancel"]).status_code == 202
    canceled = ended(server, accepted)
    assert canceled["status"] == "canceled" and canceled["candidates"][0]["rank"] == 1
    assert [row["verification"]["status"] for row in canceled["candidates"] if row["verification"]] == ["canceled"]
    assert {row["status"] for row in canceled["candidates"]} <= {"succeeded", "skipped"}
    assert server.request("DELETE", accepted["links"]["self"]).status_code == 204
    check_problem(server.get(accepted["links"]["self"]), 404, "not-found")


@sanitized
@pytest.mark.parametrize("change, pointer, word", [
    ({"verify": True}, "/verify", "draws"),
    ({"verify": "draw"}, "/verify", "draws"),
    ({"verify": ["draws"]}, "/verify", "draws"),
    ({"verify": None}, "/max_seconds", "verify"),
    ({"max_seconds": 0}, "/max_seconds", "[0.001, 1e9]"),
    ({"max_seconds": "1"}, "/max_seconds", "a number"),
    ({"schemes": ["none"]}, "/verify", "there is none"),
    ({"families": ["identity"], "schemes": ["poisson"]}, "/verify", "exact"),
    ({"adjacency": "replace_one"}, "/verify", "replace_one"),
])
def test_what_is_refused(server, change, pointer, word):
    check_problem(problem := server.post({**SEVERAL, **change}, "/v1/plans"), 422, "invalid-job", pointer)
    assert any(word in one["detail"] for one in problem.json()["errors"] if one["pointer"] == pointer), problem.text
