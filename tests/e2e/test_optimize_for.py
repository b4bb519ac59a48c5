"""
Strategies that are optimised for the whole job, over HTTP: they are better, kept for equal jobs alone, usable by their
id, and the jobs without them are written as before.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from conftest import check_problem

JOB = {"n": 24, "matrix": {"family": "banded", "bands": 4, "optimize_for": "job"},
       "sampling": {"scheme": "b_min_sep", "p": 0.1}, "epsilon": 2, "delta": 1e-3,
       "accountant": {"method": "renyi", "max_order": 4}}


def with_matrix(**members):
    return dict(JOB, matrix=dict(JOB["matrix"], **members))


def test_less_error_than_for_error_alone(server):
    tuned, plain = server.solve(JOB), server.solve(with_matrix(optimize_for="error"))
    assert tuned["result"]["error"]["mean_squared"] < 0.95 * plain["result"]["error"]["mean_squared"]
    assert tuned["result"]["guarantee"] == "deterministic" and tuned["result"]["factorization"]["iterations"] > 0
    assert tuned["job"]["matrix"]["optimize_for"] == "job"
    assert "optimize_for" not in plain["job"]["matrix"]
    # the default is the same job, whose result is there already
    again = server.solve({**JOB, "matrix": {"family": "banded", "bands": 4}})
    assert again["result"]["cache"]["result"] == "hit"


def test_the_strategy_by_its_id(server):
    tuned = server.solve(JOB)["result"]
    given = server.solve(dict(JOB, matrix={"family": "stored", "id": tuned["factorization"]["id"]},
                              sampling=dict(JOB["sampling"], separation=4)))["result"]
    assert given["noise_multiplier"] == tuned["noise_multiplier"]
    assert given["factorization"]["id"] == tuned["factorization"]["id"]


def test_the_column_is_kept_for_equal_jobs(server):
    first = server.solve(with_matrix(bands=3))["result"]
    assert first["cache"]["factorization"] == "miss"
    other = server.solve(dict(with_matrix(bands=3), delta=1e-4))["result"]
    assert other["cache"]["factorization"] == "miss"
    assert other["factorization"]["id"] != first["factorization"]["id"]


def test_refused_where_nothing_says_what_to_reach(server):
    job = {key: value for key, value in JOB.items() if key != "epsilon"}
    check_problem(server.post(dict(job, noise_multiplier=2)), 422, "invalid-job", "/matrix/optimize_for")
