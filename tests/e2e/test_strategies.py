"""
Sensitivities, scalings and error figures of strategies over HTTP, compared with brute force in numpy, which enumerates
every participation pattern and forms every inverse.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import io
import itertools
import math
import re

import numpy
import pytest

from closed_forms import gaussian_delta
from conftest import check_problem

BASE = {"noise_multiplier": 2.0, "delta": 1e-6}


def none(epochs, separation=None, schema="fixed_order"):
    return {"scheme": "none", "epochs": epochs, "separation": separation, "schema": schema}


def toeplitz(column, n):
    column = list(column) + [0.0] * (n - len(column))
    return numpy.array([[column[i - j] if i >= j else 0 for j in range(n)] for i in range(n)])


def fixed_order(n, k, b):
    return [[i for i in range(s, n, b)][:k] for s in range(n)]


def min_separation(n, k, b):
    return [pattern for size in range(1, k + 1) for pattern in itertools.combinations(range(n), size)
            if all(after - before >= b for before, after in zip(pattern, pattern[1:]))]


def sensitivity(matrix, patterns):
    """Exact if C'C >= 0."""
    gram = matrix.T @ matrix
    assert gram.min() >= -1e-12
    return math.sqrt(max(gram[numpy.ix_(pattern, pattern)].sum() for pattern in patterns))


def encoder(server, document):
    answer = server.get(document["links"]["matrix"], headers={"Accept": "application/x-npy"})
    assert answer.status_code == 200, answer.text
    part = numpy.load(io.BytesIO(answer.content))
    return toeplitz(part, len(part)) if part.ndim == 1 else part


def close(value, expected, relative=1e-9):
    return abs(value - expected) <= relative * abs(expected)


# ---------------------------------------------------------------- sensitivity

def test_more_patterns_than_the_separation(server):
    """k = b = 2 on diag(1, 1, 1, 1, 1, 3): with b patterns the result would be 2, the true value is 10."""
    rows = [[0.0] * i + [1.0] for i in range(6)]
    rows[5][5] = 3.0
    job = dict(BASE, n=6, matrix={"family": "dense", "rows": rows, "normalization": "none"}, sampling=none(2, 2))
    result = server.solve(job)["result"]
    assert close(result["sensitivity"]["value"], math.sqrt(10)) and result["sensitivity"]["exact"]
    mu = math.sqrt(10) / 2
    assert gaussian_delta(mu, result["bracket"]["upper"]) <= 1e-6 <= gaussian_delta(mu, result["bracket"]["lower"])


def test_three_vectors_at_120_degrees(server):
    """MEMF H.2: the square is 1.125 for vector contributions, while the sum of |X_ij| gives 1.5."""
    height = math.sqrt(3) / 4
    rows = [[0.0], [-height, height], [-0.25, -0.25, 0.5]]
    job = dict(BASE, n=3, matrix={"family": "dense", "rows": rows, "normalization": "none"}, sampling=none(3, 1))
    result = server.solve(job)["result"]
    assert close(result["sensitivity"]["value"]**2, 1.125)
    assert result["error"] is None  # C is singular
    doubled = server.solve(dict(job, adjacency="replace_one"))["result"]
    assert close(doubled["sensitivity"]["value"], 2 * math.sqrt(1.125))


def test_replace_one_doubles(server):
    job = dict(BASE, n=10, matrix={"family": "square_root"}, sampling=none(2))
    single = server.solve(job)["result"]
    double = server.solve(dict(job, adjacency="replace_one"))["result"]
    assert close(double["sensitivity"]["value"], 2 * single["sensitivity"]["value"])
    # Twice the sensitivity with twice the noise gives the same answer, and four times the error.
    same = server.solve(dict(job, adjacency="replace_one", noise_multiplier=4.0))["result"]
    assert close(same["epsilon"], single["epsilon"], 2e-6)
    assert close(same["error"]["mean_squared"], 4 * single["error"]["mean_squared"])


MATRICES = {
    "identity": {"family": "identity"},
    "square_root": {"family": "square_root"},
    "banded": {"family": "square_root", "bands": 3},
    "toeplitz": {"family": "toeplitz", "coefficients": [1.0, 0.2, 0.6, 0.1]},
    "dense": {"family": "dense", "rows": [[0.3 + ((7 * i + 3 * j) % 5) / 4 for j in range(i + 1)] for i in range(11)]},
    "tree": {"family": "tree"},
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("k,b", [(1, 11), (3, 3), (4, 2), (11, 1)])
@pytest.mark.parametrize("schema", ["fixed_order", "min_separation"])
def test_sensitivity_by_enumeration(server, name, k, b, schema):
    document = server.solve(dict(BASE, n=11, matrix=MATRICES[name], sampling=none(k, b, schema)))
    matrix, given = encoder(server, document), document["result"]["sensitivity"]
    assert close(numpy.linalg.norm(matrix, axis=0).max(), 1)
    expected = sensitivity(matrix, (fixed_order if schema == "fixed_order" else min_separation)(11, k, b))
    if given["exact"]:
        assert close(given["value"], expected)
    else:
        assert expected * (1 - 1e-12) <= given["value"] <= math.sqrt(2) * expected
    assert schema == "min_separation" or given["exact"]


def test_min_separation_of_a_banded_matrix_is_exact(server):
    """Columns at least b apart are orthogonal, so signs do not matter."""
    job = dict(BASE, n=10, sampling=none(3, 2, "min_separation"),
               matrix={"family": "dense", "normalization": "none",
                       "rows": [[0.0] * max(i - 1, 0) + [-0.5 * i] * min(i, 1) + [1.0 + i % 3] for i in range(10)]})
    document = server.solve(job)
    columns = (encoder(server, document)**2).sum(axis=0)
    expected = max(sum(columns[list(pattern)]) for pattern in min_separation(10, 3, 2))
    assert document["result"]["sensitivity"]["exact"]
    assert close(document["result"]["sensitivity"]["value"], math.sqrt(expected))


# ---------------------------------------------------------------- scaling

def test_normalizations(server):
    job = dict(BASE, n=8, sampling=none(2, 4))
    column = [2.0, 1.0, 0.5]
    given = {"family": "toeplitz", "coefficients": column}
    plain = toeplitz(column, 8)
    raw = sensitivity(plain, fixed_order(8, 2, 4))
    scales = {"none": 1, "max_column": 1 / math.sqrt(5.25), "sensitivity": 1 / raw}
    epsilons = {}
    for name, scale in scales.items():
        # The same mechanism three times: the noise is scaled with C.
        document = server.solve(dict(job, matrix=dict(given, normalization=name), noise_multiplier=3 * scale))
        assert numpy.allclose(encoder(server, document), scale * plain, rtol=1e-12)
        assert close(document["result"]["sensitivity"]["value"], scale * raw)
        epsilons[name] = document["result"]["epsilon"]
    assert close(epsilons["none"], epsilons["max_column"], 2e-6)
    assert close(epsilons["none"], epsilons["sensitivity"], 2e-6)


def test_the_hint_gives_the_figure_that_papers_print(server):
    result = server.solve(dict(BASE, n=8, matrix={"family": "square_root"}, sampling=none(2)))["result"]
    expected = 2.0 / result["sensitivity"]["value"]
    figures = [float(word) for hint in result["hints"] for word in re.findall(r"\d+\.\d+", hint)]
    assert any(close(figure, expected, 1e-5) for figure in figures), (expected, result["hints"])


def test_normalization_by_sensitivity_needs_the_scheme_none(server):
    job = dict(BASE, n=8, matrix={"family": "square_root", "normalization": "sensitivity"},
               sampling={"scheme": "poisson", "p": 0.1})
    check_problem(server.post(job), 422, "invalid-job", "/matrix/normalization")


def test_square_root_is_the_square_root(server):
    for workload in ({"type": "prefix_sum"}, {"type": "momentum", "momentum": 0.9},
                     {"type": "toeplitz", "coefficients": [1, 0.5, 0.7, 0.1]}):
        document = server.solve(dict(BASE, n=12, workload=workload, sampling=none(1),
                                     matrix={"family": "square_root", "normalization": "none"}))
        root = encoder(server, document)
        assert numpy.allclose(root @ root, workload_matrix(12, workload), atol=1e-12)


def test_stamps_repeat_the_strategy_down_the_diagonal(server):
    job = dict(BASE, n=12, sampling=none(3, 4),
               matrix={"family": "square_root", "stamps": 3, "normalization": "none"})
    document = server.solve(job)
    block = encoder(server, server.solve(dict(BASE, n=4, sampling=none(1),
                                              matrix={"family": "square_root", "normalization": "none"})))
    expected = numpy.kron(numpy.eye(3), block)
    assert numpy.allclose(encoder(server, document), expected)
    assert close(document["result"]["sensitivity"]["value"], sensitivity(expected, fixed_order(12, 3, 4)))
    check_error(document["result"]["error"], expected, workload_matrix(12, {"type": "prefix_sum"}))


def test_the_tree(server):
    """8 leaves, 15 nodes, each the sum of the steps below it; n = 6 uses 6 of the leaves."""
    for n in (8, 6):
        document = server.solve(dict(BASE, n=n, matrix={"family": "tree", "normalization": "none"},
                                     sampling=none(2, 3)))
        matrix = encoder(server, document)
        nodes = {tuple(1.0 if start <= j < start + size else 0.0 for j in range(n))
                 for size in (1, 2, 4, 8) for start in range(0, 8, size)}
        assert {tuple(row) for row in matrix} - {(0.0,) * n} == nodes - {(0.0,) * n}
        assert close(document["result"]["sensitivity"]["value"], sensitivity(matrix, fixed_order(n, 2, 3)))


# ---------------------------------------------------------------- error figures

def workload_matrix(n, workload):
    """A_tj = sum over s = j..t of decay^(t-s) eta_s momentum^(s-j)."""
    if workload["type"] == "prefix_sum":
        return numpy.tri(n)
    if workload["type"] == "toeplitz":
        return toeplitz(workload["coefficients"], n)
    momentum, decay = workload["momentum"], workload.get("decay", 1)
    cooldown = workload.get("cooldown", {"from": 1, "to": 1})
    start = cooldown["from"] * n
    # eta falls linearly from 1 at step from*n to `to` at step n; steps count from 0.
    eta = [1.0 if s <= start else 1 - (1 - cooldown["to"]) * (s - start) / (n - start) for s in range(n)]
    return numpy.array([[sum(decay**(t - s) * eta[s] * momentum**(s - j) for s in range(j, t + 1))
                         for j in range(n)] for t in range(n)])


def check_error(error, matrix, workload, sigma=2.0):
    variance = sigma**2 * ((workload @ numpy.linalg.inv(matrix))**2).sum(axis=1)
    assert close(error["mean_squared"], variance.mean())
    assert close(error["max_squared"], variance.max())
    assert close(error["last_squared"], variance[-1])


WORKLOADS = [
    {"type": "prefix_sum"},
    {"type": "toeplitz", "coefficients": [1, -0.5, 0.25]},
    {"type": "momentum", "momentum": 0.95},
    {"type": "momentum", "momentum": 0.9, "decay": 0.99},
    {"type": "momentum", "momentum": 0.9, "decay": 0.97, "cooldown": {"from": 0.25, "to": 0.05}},
    {"type": "momentum", "momentum": 0, "cooldown": {"from": 0.55, "to": 0}},
    {"type": "momentum", "momentum": 0.5, "cooldown": {"from": 0, "to": 0.5}},
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=range(len(WORKLOADS)))
@pytest.mark.parametrize("name", ["identity", "banded", "columns", "toeplitz", "dense"])
def test_error_by_inversion(server, name, workload):
    matrix = {"family": "banded", "bands": 3, "toeplitz": False} if name == "columns" else MATRICES[name]
    job = dict(BASE, n=11, matrix=matrix, workload=workload, sampling=none(1))
    if name == "banded" and "cooldown" in workload:
        check_problem(server.post(job), 422, "invalid-job", "/workload/cooldown")
        return
    document = server.solve(job)
    check_error(document["result"]["error"], encoder(server, document), workload_matrix(11, workload))
    answer = server.get(document["links"]["matrix"] + "?part=noise", headers={"Accept": "application/x-npy"})
    noise = numpy.load(io.BytesIO(answer.content))
    noise = toeplitz(noise, 11) if noise.ndim == 1 else noise
    assert numpy.allclose(noise @ encoder(server, document), numpy.eye(11), atol=1e-9)


def test_error_of_a_long_toeplitz_matrix(server):
    n, bands = 3000, 20
    document = server.solve(dict(BASE, n=n, matrix={"family": "square_root", "bands": bands}, sampling=none(1)))
    column = [1.0]
    for t in range(1, bands):
        column.append(column[-1] * (1 - 1 / (2 * t)))
    column = numpy.array(column) / numpy.linalg.norm(column)
    # The first column of A C^-1 by substitution; the variance of step t is the sum of its first t+1 squares.
    rest = numpy.zeros(n)
    for t in range(n):
        rest[t] = (1 - (column[1:t + 1][:bands] * rest[t - 1::-1][:min(t, bands - 1)]).sum() if t else 1) / column[0]
    variance = 4 * numpy.cumsum(rest**2)
    error = document["result"]["error"]
    assert close(error["mean_squared"], variance.mean()) and close(error["last_squared"], variance[-1])
    assert close(error["max_squared"], variance.max())


def test_a_matrix_with_an_upper_triangle(server):
    """Without amplification, a rotation of the noise makes it lower triangular, so inputs may be adaptive."""
    rows = [[1.0, 0.5, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]]
    document = server.solve(dict(BASE, n=3, matrix={"family": "dense", "rows": rows, "normalization": "none"},
                                 sampling=none(3, 1)))
    assert numpy.array_equal(encoder(server, document), rows)
    assert document["result"]["adaptive"] is True
    assert close(document["result"]["sensitivity"]["value"], numpy.linalg.norm([1.5, 1.5, 1]))
    check_error(document["result"]["error"], numpy.array(rows), numpy.tri(3))
