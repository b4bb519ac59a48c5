"""
Monte Carlo over HTTP: the result reports its draws with a seed that can be requested again; the same bits for any
number of workers and after a kill -9; a fast stop on request; truncated results are not cached; and unsupported jobs
are rejected, with the member at fault.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import contextlib
import json
import sqlite3
import subprocess
import time

import pytest

from conftest import BINARY, INSTRUMENTED, ONE_BY_ONE, PATIENCE, check_problem, until

# Answered by several thousand draws.
SPACED = {"n": 32, "matrix": {"family": "square_root", "bands": 2}, "sampling": {"scheme": "b_min_sep", "p": 0.05}}
EPSILON = dict(SPACED, noise_multiplier=1, delta=1e-2, accountant="monte_carlo")
DELTA = dict(SPACED, noise_multiplier=1, epsilon=0.5, accountant="monte_carlo")
NOISE = dict(SPACED, epsilon=1, delta=1e-2, accountant="monte_carlo")

# A few draws of this show that its bound is loose.
LOOSE = {"n": 12, "matrix": {"family": "square_root", "bands": 4}, "noise_multiplier": 1, "epsilon": 1,
         "sampling": {"scheme": "b_min_sep", "p": 0.1}}


def tuned(job, **members):
    return dict(job, accountant={"method": "monte_carlo", **members})


# Several seconds of draws, which are stored in the database block by block; and more than any test waits for.
SLOW = tuned(DELTA, samples=1_000_000)
ENDLESS = tuned(DELTA, samples=2_000_000_000)


def steady(result):
    """The result without its times and cache information."""
    return {name: value for name, value in result.items()
            if name not in ("cache", "elapsed_seconds", "compute_seconds")}


def solved(job, workers):
    """The result of `epsilond solve`, without a database."""
    ended = subprocess.run([BINARY, "solve", "--workers", str(workers), "--log-level", "error"], input=json.dumps(job),
                           capture_output=True, text=True, timeout=300, check=True)
    return json.loads(ended.stdout)["result"]


def edit(server, *statements):
    """Changes the database of a server that has stopped; returns the number of rows changed by each statement."""
    with contextlib.closing(sqlite3.connect(server.database)) as connection:
        changed = [connection.execute(statement).rowcount for statement in statements]
        connection.commit()
    return changed


def drawn(result):
    """The directions that used draws: the decisive one, and the other if it could have been."""
    directions = [d for d in ("remove", "add") if result["monte_carlo"][d]]
    worse = max(result["directions"], key=lambda d: result["directions"][d]["value"])
    assert worse in directions
    for direction in {"remove", "add"} - set(directions):
        assert result["directions"][direction]["value"] <= result["directions"][worse]["value"]
        assert any(f"drew no samples for {direction}" in hint for hint in result["hints"])
    return directions


# ---------------------------------------------------------------- hints

def test_a_loose_answer_says_who_draws(server):
    """Drawing is tighter, as the hint says; an answer of 0, and a job that names another accountant, get no hint."""
    def hints(job):
        return [hint for hint in server.solve(job)["result"]["hints"] if "use monte_carlo" in hint]

    def delta(job):
        return server.solve(job)["result"]["delta"]

    for bands, separation, times in (4, 4, 1.05), (4, 2, 1.4):
        job = {"n": 12, "matrix": {"family": "square_root", "bands": bands}, "noise_multiplier": 1, "epsilon": 1,
               "sampling": {"scheme": "b_min_sep", "p": 0.1, "separation": separation}}
        assert ["sampling would give about" in hint for hint in hints(job)] == [True]
        assert times * delta(dict(job, accountant="monte_carlo")) <= delta(job)
        assert not hints(dict(job, accountant="gaussian"))
        del job["noise_multiplier"]
        assert not hints(dict(job, delta=0.9))
        del job["epsilon"]
        assert not hints(dict(job, delta=0.9, noise_multiplier=1))


def test_an_answer_without_amplification_says_who_draws(server):
    """More bands than renyi remembers: the answer takes the noise into account, or only who is ever drawn."""
    wide = {"n": 70, "matrix": {"family": "square_root", "bands": 66}, "epsilon": 1,
            "sampling": {"scheme": "b_min_sep", "p": 0.02, "separation": 2}}
    for noise, text in (2, "may give a much tighter answer"), (8, "may give a tighter answer"):
        loose = server.solve(dict(wide, noise_multiplier=noise))["result"]
        [hint] = [hint for hint in loose["hints"] if "use monte_carlo" in hint]
        assert text in hint and loose["accountant"] == "gaussian"
        drawn = server.solve(dict(wide, noise_multiplier=noise, accountant="monte_carlo"))["result"]
        assert 5 * drawn["delta"] < loose["delta"]


def test_a_loose_answer_says_how_loose(server):
    """The estimate is beside the answer and not a part of it, near what is drawn, and what the hint names."""
    loose = server.solve(dict(LOOSE, accountant="auto"))["result"]
    estimate = loose["unproven_estimate"]
    assert set(estimate) == {"value", "standard_error", "samples", "direction"}
    assert 0 < estimate["standard_error"] < 0.1 * estimate["value"] < 0.1 * loose["delta"]
    assert loose["guarantee"] == "deterministic" and loose["accountant"] != "monte_carlo"
    drawn = server.solve(tuned(LOOSE, samples=200_000))["result"]
    assert "unproven_estimate" not in drawn
    best = drawn["monte_carlo"][estimate["direction"]]
    error = (best["standard_error"] ** 2 + estimate["standard_error"] ** 2) ** 0.5
    assert abs(best["estimate"] - estimate["value"]) <= 4 * error
    [hint] = [hint for hint in loose["hints"] if "use monte_carlo" in hint]
    named, instead = hint.split("about ")[1].split(":")[0].split(" instead of ")
    assert float(instead) == pytest.approx(loose["delta"], rel=0.01)
    assert estimate["value"] < float(named) < 0.97 * loose["delta"] and hint.endswith(" s")
    assert steady(solved(dict(LOOSE, accountant="auto"), 1)) == steady(solved(dict(LOOSE, accountant="auto"), 2))


# ---------------------------------------------------------------- the three questions

@pytest.mark.sanitized
def test_an_epsilon_is_read_off_draws(server):
    document = server.solve(EPSILON)
    result = document["result"]
    assert document["job"]["accountant"] == {"method": "monte_carlo", "threshold_share": 0.5, "estimator": "auto"}
    assert result["accountant"] == "monte_carlo" and result["guarantee"] == "high_probability"
    assert result["bracket"] is None
    for direction in drawn(result):
        draws, found = result["monte_carlo"][direction], result["directions"][direction]
        assert found["accountant"] == "monte_carlo" and 0 < found["value"] <= result["epsilon"]
        assert set(draws) == {"samples", "threshold", "estimate", "standard_error", "failure_probability", "seed",
                              "estimator", "bound", "plain_samples"}
        assert draws["samples"] > 1000 and 0 < draws["failure_probability"] < 1e-2
        assert 0 < draws["estimate"] <= draws["threshold"] < 1e-2 and draws["standard_error"] > 0
        assert draws["bound"] == 1 if draws["estimator"] == "plain" else 0 < draws["bound"] < 1
        proven = [c["value"] for c in result["candidates"]
                  if c["direction"] == direction and c["accountant"] != "monte_carlo"]
        assert len(proven) >= 2 and found["value"] < min(proven)
    assert result["epsilon"] == max(found["value"] for found in result["directions"].values())


def test_a_delta_is_read_off_draws(server):
    result = server.solve(DELTA)["result"]
    assert result["guarantee"] == "high_probability" and result["bracket"] is None
    for direction in ("remove", "add"):
        draws, value = result["monte_carlo"][direction], result["directions"][direction]["value"]
        assert draws["estimate"] + 2 * draws["standard_error"] < value < 2 * draws["estimate"] + 1e-3


def test_a_noise_multiplier_is_verified_before_it_is_released(server):
    result = server.solve(tuned(NOISE, samples=50_000))["result"]
    assert result["guarantee"] == "estimate_verify_release"
    for direction in drawn(result):
        draws = result["monte_carlo"][direction]
        assert result["directions"][direction]["accountant"] == "monte_carlo"
        assert draws["estimate"] <= draws["threshold"] < 1e-2
    # At least the requested epsilon, by many more draws.
    again = server.solve(tuned(EPSILON, samples=1_000_000) | {"noise_multiplier": result["noise_multiplier"]})["result"]
    assert 0.8 < again["epsilon"] < 1.02


def test_no_separation_is_poisson(server):
    """Independent steps, for which pld is exact: never below it, and with many draws close to it. Draws for users with
    several examples are supported for b_min_sep only."""
    job = {"n": 32, "noise_multiplier": 1, "delta": 1e-2}
    pairs = {"p": 0.025, "examples_per_user": 2}
    exact = server.solve(dict(job, sampling={"scheme": "poisson", **pairs}, accountant="pld"))["result"]
    drawn = server.solve(tuned(dict(job, sampling={"scheme": "b_min_sep", "separation": 1, "warm_start": False,
                                                   **pairs}),
                               samples=400_000))["result"]
    for direction in ("remove", "add"):
        low = exact["directions"][direction]["value"]
        assert low < drawn["directions"][direction]["value"] < 1.1 * low


@pytest.mark.parametrize("change", [
    {"sampling": {"scheme": "balls_in_bins", "bins": 8}},
    {"sampling": {"scheme": "poisson", "p": 0.05}},
    {"sampling": {"scheme": "cyclic_poisson", "p": 0.2, "groups": 1}},
    {"sampling": {"scheme": "poisson", "p": 0.05}, "matrix": {"family": "tree"}},
], ids=["balls_in_bins", "poisson", "cyclic_poisson", "tree"])
def test_every_scheme_that_is_drawn_is_between_the_truth_and_what_is_proven(server, change):
    job = dict(tuned(EPSILON, samples=100_000), **change)
    if change.get("matrix") != {"family": "tree"}:  # whose draws are a bound, too
        job["accountant"]["audit"] = 100_000
    result = server.solve(job)["result"]
    proven = min(max(c["value"] for c in result["candidates"] if c["accountant"] == name)
                 for name in {c["accountant"] for c in result["candidates"]} - {"monte_carlo"})
    assert result["guarantee"] == "high_probability"
    assert max([audit["lower"] for audit in result.get("audit", {}).values()], default=0) < result["epsilon"] < proven


# ---------------------------------------------------------------- seeds

@pytest.mark.sanitized
def test_a_seed_of_the_clients_own_is_an_assumption(server):
    derived = server.solve(EPSILON)
    seed = derived["result"]["monte_carlo"]["remove"]["seed"]
    assert "seed" not in derived["job"]["accountant"] and 0 <= seed <= 2**53
    assert any("whose hash is the seed" in text for text in derived["result"]["assumptions"])
    own = server.solve(tuned(EPSILON, seed=seed))
    assert own["job"]["accountant"]["seed"] == seed
    assert any(f"the seed {seed}, which the client set" in text for text in own["result"]["assumptions"])
    assert own["result"]["epsilon"] == derived["result"]["epsilon"]
    other = server.solve(tuned(EPSILON, seed=7))["result"]
    for direction in drawn(other):
        assert other["monte_carlo"][direction]["seed"] == 7
        assert other["monte_carlo"][direction]["estimate"] != own["result"]["monte_carlo"][direction]["estimate"]
    assert other["epsilon"] == pytest.approx(derived["result"]["epsilon"], rel=0.3)


# ---------------------------------------------------------------- the same bits

@pytest.mark.parametrize("job", [EPSILON, DELTA, NOISE, tuned(DELTA, samples=300_000)],
                         ids=["epsilon", "delta", "noise", "many"])
def test_the_number_of_workers_makes_no_difference(launch, job):
    expected = steady(solved(job, 1))
    assert expected["monte_carlo"]
    assert steady(solved(job, 2)) == expected
    assert steady(launch("--workers", "2").solve(job)["result"]) == expected


def test_a_kill_in_the_middle_makes_no_difference(launch):
    server = launch(*ONE_BY_ONE)
    expected = steady(launch(*ONE_BY_ONE).solve(SLOW)["result"])
    job_id = server.post(SLOW).json()["id"]
    until(lambda: server.stored("SELECT count(*) FROM blobs WHERE kind = 2")[0][0] >= 5)
    assert server.get(f"/v1/jobs/{job_id}").json()["status"] == "running"
    server.kill()
    kept = server.stored("SELECT count(*) FROM blobs WHERE kind = 2")[0][0]
    assert kept >= 5
    server.start()
    document = server.get(f"/v1/jobs/{job_id}?wait=300").json()
    assert document["status"] == "succeeded" and document["attempts"] == 1  # a kill from outside does not count as an
                                                                            # attempt
    assert steady(document["result"]) == expected
    assert server.metric('epsilond_cache_lookups_total{kind="chunk",result="hit"}') == kept
    assert server.metric('epsilond_cache_lookups_total{kind="chunk",result="miss"}') > 0


def test_damaged_draws_are_drawn_again(launch):
    server = launch()
    first = server.solve(DELTA)["result"]
    assert server.metric("epsilond_chunk_bytes") > 0
    server.stop()
    changed = edit(server, "UPDATE blobs SET data = zeroblob(length(data)) WHERE kind = 2", "DELETE FROM results")
    assert changed[0] > 0 and changed[1] == 1
    server.start()
    again = server.solve(DELTA)["result"]
    assert again["cache"]["result"] == "miss" and steady(again) == steady(first)
    assert server.metric("epsilond_checksum_failures_total") == changed[0]
    assert server.metric('epsilond_cache_lookups_total{kind="chunk",result="hit"}') == 0


def test_draws_keep_their_bound(launch):
    bound = 8 << 10
    server = launch("--chunk-bytes", str(bound))
    for seed in range(20):
        server.solve(tuned(DELTA, seed=seed))
    assert 0 < server.metric("epsilond_chunk_bytes") <= bound
    assert server.metric("epsilond_cache_evictions_total") > 0


# ---------------------------------------------------------------- ends

def test_a_cancel_is_heard_at_once(launch):
    server = launch(*ONE_BY_ONE)
    seconds = []
    for number in range(3):  # the best of three, because other programs are running
        job_id = server.post(dict(ENDLESS, epsilon=0.4 + number / 10)).json()["id"]
        server.running(job_id)
        time.sleep(0.5)
        started = time.monotonic()
        assert server.request("POST", f"/v1/jobs/{job_id}/cancel").status_code == 202
        until(lambda: server.metric("epsilond_workers_busy") == 0)
        seconds.append(time.monotonic() - started)
        assert server.get(f"/v1/jobs/{job_id}").json()["status"] == "canceled"
    assert min(seconds) < 0.1, seconds


def test_progress_tells_how_long_it_takes(launch):
    server = launch(*ONE_BY_ONE)
    job_id = server.post(SLOW).json()["id"]
    seen = []

    def ended():
        document = server.get(f"/v1/jobs/{job_id}").json()
        if document["status"] == "running":
            seen.append(document["progress"])
        return document["status"] == "succeeded"

    until(ended)
    fractions = [progress["fraction"] for progress in seen]
    assert fractions == sorted(fractions) and len(set(fractions)) > 5
    assert any(0.2 < fraction < 0.8 for fraction in fractions)
    assert any(progress["remaining_seconds"] for progress in seen)


def test_an_answer_that_was_cut_short_is_its_own_jobs(launch):
    server = launch()
    job = tuned(DELTA, samples=200_000_000, max_seconds=1)
    started = time.monotonic()
    first = server.solve(job)
    assert time.monotonic() - started < (PATIENCE if INSTRUMENTED else 5)
    result = first["result"]
    assert result["guarantee"] == "high_probability" and 0 < result["delta"] < 0.08
    for draws in result["monte_carlo"].values():
        assert 0 < draws["samples"] < 200_000_000
    # An equal job is computed again and may get a better answer; the first one is unchanged.
    second = server.solve(job)
    assert second["result"]["cache"]["result"] == "miss" and second["result"]["compute_seconds"] > 0
    assert second["result"]["delta"] < 0.08 and second["id"] != first["id"]
    server.stop()
    server.start()
    for document in (first, second):
        assert server.get(document["links"]["self"]).json() == document
    assert server.solve(job)["result"]["cache"]["result"] == "miss"
    # A job that finishes in time is not affected.
    whole = tuned(DELTA, max_seconds=1000)
    assert server.solve(whole)["result"]["cache"]["result"] == "miss"
    assert server.solve(whole)["result"]["cache"]["result"] == "hit"


# ---------------------------------------------------------------- audits

@pytest.mark.sanitized
@pytest.mark.parametrize("method", ["auto", "renyi", "gaussian", "monte_carlo"])
def test_an_audit_is_beside_the_answer(server, method):
    job = dict(EPSILON, accountant={"method": method, "audit": 20_000})
    document = server.solve(job)
    result = document["result"]
    assert document["job"]["accountant"]["audit"] == 20_000
    alone = server.solve(dict(EPSILON, accountant=method))["result"]
    assert (alone["epsilon"], alone["guarantee"]) == (result["epsilon"], result["guarantee"])
    assert "audit" not in alone and ("monte_carlo" in result) == (method == "monte_carlo")
    for audit in result["audit"].values():
        assert set(audit) == {"samples", "lower", "ratio"} and audit["samples"] >= 20_000
        assert 0 <= audit["lower"] <= result["epsilon"]
        assert audit["ratio"] == (pytest.approx(result["epsilon"] / audit["lower"]) if audit["lower"] else None)
    if method != "gaussian":  # whose bound is twenty times too large
        assert result["audit"]["remove"]["ratio"] < 2


def test_an_audit_of_noise_is_of_delta(server):
    result = server.solve(dict(NOISE, accountant={"method": "renyi", "audit": 50_000}))["result"]
    assert 1e-2 / 4 < max(audit["lower"] for audit in result["audit"].values()) <= 1e-2
    check_problem(server.post(dict(SPACED, noise_multiplier=1, curve=True, accountant={"method": "renyi", "audit": 9})),
                  422, "invalid-job", "/accountant/audit")
    check_problem(server.post(dict(EPSILON, sampling={"scheme": "none"}, accountant={"method": "auto", "audit": 9})),
                  422, "unsupported", "/accountant/audit")


# ---------------------------------------------------------------- what is not available

@pytest.mark.sanitized
def test_there_is_no_curve(server):
    document = server.solve(EPSILON)
    problem = check_problem(server.get(document["links"]["curve"]), 409, "conflict")
    assert "Monte Carlo" in problem["detail"]
    asked = dict(SPACED, noise_multiplier=1, curve=True)
    check_problem(server.post(dict(asked, accountant="monte_carlo")), 422, "invalid-job", "/accountant")
    check_problem(server.post(tuned(asked, samples=9)), 422, "invalid-job", "/accountant/method")


@pytest.mark.sanitized
def test_there_is_no_curve_where_draws_proved_nothing_better(server):
    """The answer is deterministic, but its accountant still has no curve."""
    document = server.solve(tuned({"n": 4, "matrix": {"family": "square_root", "bands": 2}, "noise_multiplier": 1,
                                   "sampling": {"scheme": "cyclic_poisson", "p": 0.1, "groups": 2}, "delta": 1e-3},
                                  samples=1024))
    assert document["result"]["guarantee"] == "deterministic"
    for _ in range(2):
        problem = check_problem(server.get(document["links"]["curve"]), 409, "conflict")
        assert "no privacy curve" in problem["detail"]
    assert server.get("/readyz").status_code == 200


@pytest.mark.sanitized
@pytest.mark.parametrize("accountant,pointer", [
    ({"method": "monte_carlo", "tolerance": 0.01}, "/accountant/tolerance"),
    ({"method": "monte_carlo", "bad_event_share": 0.5}, "/accountant/bad_event_share"),
    ({"method": "monte_carlo", "max_order": 9}, "/accountant/max_order"),
    ({"method": "monte_carlo", "samples": 0}, "/accountant/samples"),
    ({"method": "monte_carlo", "samples": 2**40 + 1}, "/accountant/samples"),
    ({"method": "monte_carlo", "seed": -1}, "/accountant/seed"),
    ({"method": "monte_carlo", "seed": 2**53 + 1}, "/accountant/seed"),
    ({"method": "monte_carlo", "threshold_share": 1}, "/accountant/threshold_share"),
    ({"method": "monte_carlo", "estimator": "best"}, "/accountant/estimator"),
    ({"method": "monte_carlo", "max_seconds": 0}, "/accountant/max_seconds"),
    ({"method": "monte_carlo", "audit": 0}, "/accountant/audit"),
    ({"method": "renyi", "samples": 1000}, "/accountant/samples"),
    ({"method": "renyi", "seed": 1}, "/accountant/seed"),
    ({"method": "renyi", "estimator": "plain"}, "/accountant/estimator"),
    ({"method": "renyi", "max_seconds": 1}, "/accountant/max_seconds"),
])
def test_tuning_that_is_refused(server, accountant, pointer):
    check_problem(server.post(dict(EPSILON, accountant=accountant)), 422, "invalid-job", pointer)


@pytest.mark.sanitized
@pytest.mark.parametrize("change,pointer", [
    ({"sampling": {"scheme": "none"}}, "/sampling/scheme"),
    ({"adjacency": "replace_one"}, "/adjacency"),
    ({"matrix": {"family": "toeplitz", "coefficients": [1, -0.5]}}, "/matrix"),
])
def test_what_nobody_derived_is_refused(server, change, pointer):
    check_problem(server.post(dict(EPSILON, **change)), 422, "unsupported", pointer)
