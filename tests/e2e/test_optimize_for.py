"""
Strategies that are optimised for the whole job, over HTTP: they are better, kept for equal jobs alone, usable by their
id, and the jobs without them are written as before.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import sys

import numpy
import pytest

from conftest import ROOT, check_problem

sys.path.insert(0, str(ROOT / "api" / "python"))

from epsilond import Client  # noqa: E402
from epsilond.training.noise import cipher_key  # noqa: E402
from epsilond.training.numpy_backend import NumpyDraws  # noqa: E402
from test_mechanism import inverse, recurrence  # noqa: E402

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


FULL = [({"family": "blt", "buffers": 2}, "blt"), ({"family": "banded_inverse", "bands": 3}, "inverse")]


@pytest.mark.parametrize("matrix, kind", FULL, ids=[kind for _, kind in FULL])
def test_few_rows_of_noise(server, matrix, kind):
    """A strategy that was optimised for a job streams like one of its family: from as many buffers, and replayed by the
    client from the recurrence that the service tells."""
    job = {"n": 16, "matrix": {**matrix, "optimize_for": "job"}, "epsilon": 2, "delta": 1e-3,
           "sampling": {"scheme": "balls_in_bins", "bins": 4}, "accountant": {"method": "renyi", "max_order": 4}}
    document = server.solve(job)
    found, plain = document["result"], server.solve(dict(job, matrix=matrix))["result"]
    assert found["error"]["mean_squared"] < plain["error"]["mean_squared"]
    described = server.get(document["links"]["mechanism"]).json()
    assert described["noise"]["kind"] == kind
    if kind == "blt":
        assert described["noise"]["decay"] == found["factorization"]["blt"]["decay"]
        assert len(described["noise"]["decay"]) == 2
    else:
        assert len(described["noise"]["coefficients"]) == 3
    exact = inverse(server, document["links"]["matrix"] + "?part=noise")
    assert numpy.abs(recurrence(server, described) - exact).max() < 1e-10 * numpy.abs(exact).max()

    asked = {"dimensions": 3, "dtype": "float64", "seed": 1}
    drawn = server.post({"job": document["id"], **asked}, "/v1/noise").content
    by_id = {"factorization": found["factorization"]["id"], "noise_multiplier": found["noise_multiplier"]}
    assert len(drawn) > 16 * 3 * 8 and server.post({**by_id, **asked}, "/v1/noise").content == drawn

    key = bytes(range(16))
    mechanism = Client(server.url).mechanism(document["id"])
    noise = mechanism.noise(numpy.zeros(40), key, clip_norm=1)
    x = numpy.stack([noise.step() for _ in range(16)])
    blocks = numpy.arange(3, dtype=numpy.uint32)
    z = numpy.stack([NumpyDraws().draw(cipher_key(mechanism, key), blocks, blocks * 0, row)[:40] for row in range(16)])
    expected = mechanism.noise_multiplier * exact @ z.astype(float)
    assert numpy.abs(x - expected).max() < 3e-6 * numpy.abs(expected).max()


def test_refused_where_nothing_says_what_to_reach(server):
    job = {key: value for key, value in JOB.items() if key != "epsilon"}
    check_problem(server.post(dict(job, noise_multiplier=2)), 422, "invalid-job", "/matrix/optimize_for")
