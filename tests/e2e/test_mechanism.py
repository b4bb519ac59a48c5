"""
GET /v1/jobs/{id}/mechanism: for every family the recurrence of the document, applied to unit vectors, is the C^-1 of
the service; its hash, phases and refusals.
"""
import hashlib
import io

import numpy
import pytest

from conftest import ENDLESS, check_problem

FAMILIES = [
    {"family": "identity"}, {"family": "square_root"}, {"family": "square_root", "bands": 4},
    {"family": "inverse_square_root", "bands": 3}, {"family": "banded", "bands": 4},
    {"family": "banded", "bands": 4, "column_normalize": True}, {"family": "banded", "bands": 3, "toeplitz": False},
    {"family": "banded_inverse", "bands": 3}, {"family": "blt", "buffers": 2},
    {"family": "blt", "decay": [0.9, 0.5], "scale": [0.1, 0.2]}, {"family": "optimal"}, {"family": "tree"},
    {"family": "tree", "decoder": "full"}, {"family": "fourier"}, {"family": "toeplitz", "coefficients": [2, 1, -0.5]},
    {"family": "dense", "rows": [[1 if i == j else 0.1 * (i > j) for j in range(12)] for i in range(12)]},
    {"family": "square_root", "bands": 3, "stamps": 3}, {"family": "tree", "stamps": 2},
    {"family": "banded", "bands": 2, "column_normalize": True, "stamps": 3},
    {"family": "blt", "buffers": 1, "stamps": 2},
    {"family": "inverse_square_root", "bands": 3, "stamps": 2}, {"family": "square_root", "bands": 1},
]
KINDS = {"identity": "identity", "square_root": "inverse", "inverse_square_root": "inverse", "banded": "toeplitz",
         "banded_inverse": "inverse", "blt": "blt", "optimal": "rows", "tree": "rows", "fourier": "rows",
         "toeplitz": "toeplitz", "dense": "rows"}


def job_of(matrix):
    return {"n": 12, "matrix": matrix, "sampling": {"scheme": "none"}, "epsilon": 1, "delta": 1e-6}


def array(server, path):
    return numpy.load(io.BytesIO(server.get(path, headers={"Accept": "application/x-npy"}).content))


def inverse(server, path):
    """C^-1 as the service has it, whole."""
    matrix = array(server, path)
    if matrix.ndim == 1:
        n = len(matrix)
        matrix = numpy.array([[matrix[i - j] if i >= j else 0 for j in range(n)] for i in range(n)])
    return matrix


def solve_block(noise, z):
    """x of one block from z, by the recurrence as api/DRAWING.md describes it."""
    x, kind = numpy.zeros((noise["block"], z.shape[1])), noise["kind"]
    if kind in ("toeplitz", "inverse"):
        coefficients = noise["coefficients"]
    elif kind == "columns":
        columns = numpy.array(noise["columns"]).reshape(-1, noise["width"])
        column = lambda j: columns[max(0, j + len(columns) - noise["block"])]
    elif kind == "blt":
        buffers = numpy.zeros((len(noise["decay"]), z.shape[1]))
    for t in range(noise["block"]):
        if kind == "identity":
            x[t] = z[t] / noise["divisor"]
        elif kind == "toeplitz":
            reach = range(1, min(t + 1, len(coefficients)))
            x[t] = (z[t] - sum(coefficients[d] * x[t - d] for d in reach)) / coefficients[0]
        elif kind == "columns":
            reach = range(1, min(t + 1, noise["width"]))
            x[t] = (z[t] - sum(column(t - d)[d] * x[t - d] for d in reach)) / column(t)[0]
        elif kind == "blt":
            y = z[t] - numpy.array(noise["scale"]) @ buffers
            buffers = numpy.array(noise["decay"])[:, None] * buffers + y
            x[t] = y / noise["divisor"]
        elif kind == "inverse":
            x[t] = sum(coefficients[d] * z[t - d] for d in range(min(t + 1, len(coefficients))))
    return x


def recurrence(server, mechanism):
    """The matrix that the document describes: what it makes of unit vectors."""
    noise, strategy = mechanism["noise"], mechanism["strategy"]
    if noise["kind"] == "rows":
        return array(server, mechanism["links"]["rows"])
    z = numpy.eye(strategy["rows"])
    return numpy.vstack([solve_block(noise, z[i * noise["block_rows"]:(i + 1) * noise["block_rows"]])
                         for i in range(strategy["stamps"])])


@pytest.mark.sanitized
@pytest.mark.parametrize("matrix", FAMILIES, ids=lambda matrix: "-".join(map(str, matrix.values()))[:40])
def test_the_recurrence_is_the_inverse_that_was_accounted(server, matrix):
    document = server.solve(job_of(matrix))
    mechanism = server.get(document["links"]["mechanism"]).json()
    kind = KINDS[matrix["family"]]
    if matrix.get("column_normalize") or matrix.get("toeplitz") is False:
        kind = "columns"
    elif matrix["family"] == "square_root" and "bands" in matrix:
        kind = "toeplitz" if matrix["bands"] > 1 else "identity"
    assert mechanism["noise"]["kind"] == kind
    assert mechanism["strategy"]["stamps"] == matrix.get("stamps", 1)
    assert mechanism["strategy"]["factorization"] == document["result"]["factorization"]["id"]
    assert mechanism["noise_multiplier"] == document["result"]["noise_multiplier"]
    expected = inverse(server, document["links"]["matrix"] + "?part=noise")
    assert numpy.abs(recurrence(server, mechanism) - expected).max() < 1e-10 * numpy.abs(expected).max()


def test_a_mechanism_has_the_sampling_that_was_accounted(server):
    job = {"n": 16, "matrix": {"family": "banded", "bands": 3}, "epsilon": 8, "delta": 1e-6,
           "sampling": {"scheme": "b_min_sep", "batch_size": 100, "dataset_size": 10000}}
    document = server.solve(job)
    mechanism = server.get(document["links"]["mechanism"]).json()
    derived = {name: value for name, value in document["result"]["sampling"].items() if value is not None}
    assert mechanism["sampling"] == {**document["job"]["sampling"], **derived}
    assert mechanism["sampling"]["separation"] == 3
    assert (mechanism["n"], mechanism["count"], mechanism["phase"]) == (16, 1, None)
    assert mechanism["adjacency"] == document["result"]["adjacency"]
    for name in "job", "statement", "spend":
        assert server.get(mechanism["links"][name]).status_code == 200


def test_the_hash_is_that_of_what_is_drawn(server):
    first, second = (server.get(server.solve(job_of({"family": "tree"}) | {"label": label})["links"]["mechanism"])
                     for label in ("a", "b"))
    content = first.text[first.text.index('"n":'):first.text.rindex(',"links"')]
    assert first.json()["hash"] == hashlib.blake2b(content.encode(), digest_size=32).hexdigest()
    assert first.json()["hash"] == second.json()["hash"] and first.json()["job"] != second.json()["job"]
    other = server.get(server.solve(job_of({"family": "tree"}) | {"epsilon": 2})["links"]["mechanism"]).json()
    assert other["hash"] != first.json()["hash"]


def test_each_phase_has_its_mechanism(server):
    phases = [{"n": 8, "matrix": {"family": "tree"}, "sampling": {"scheme": "none"}, "count": 2},
              {"n": 4, "matrix": {"family": "square_root", "bands": 2}, "noise_scale": 2,
               "sampling": {"scheme": "none"}}]
    document = server.solve({"phases": phases, "noise_multiplier": 8, "delta": 1e-6})
    path = document["links"]["mechanism"]
    check_problem(server.get(path), 422, "invalid-job", "?phase")
    check_problem(server.get(path + "?phase=2"), 422, "invalid-job", "?phase")
    first, second = (server.get(f"{path}?phase={phase}").json() for phase in (0, 1))
    assert (first["phase"], first["n"], first["count"], first["noise_multiplier"]) == (0, 8, 2, 8)
    assert (second["phase"], second["n"], second["count"], second["noise_multiplier"]) == (1, 4, 1, 16)
    for phase, mechanism in enumerate((first, second)):
        expected = inverse(server, f"{document['links']['matrix']}?part=noise&phase={phase}")
        assert numpy.allclose(recurrence(server, mechanism), expected, rtol=0, atol=1e-12)


def test_no_mechanism_without_an_answer(launch):
    server = launch()
    running = server.post(ENDLESS).json()["id"]
    check_problem(server.get(f"/v1/jobs/{running}/mechanism"), 409, "conflict")
    server.post(None, f"/v1/jobs/{running}/cancel")
    check_problem(server.get("/v1/jobs/01234567-0000-7000-8000-000000000000/mechanism"), 404, "not-found")
    never = server.solve({"phases": [{"n": 10, "sampling": {"scheme": "poisson", "p": 1}, "count": "max"}],
                          "noise_multiplier": 0.1, "epsilon": 0.1, "delta": 1e-6})
    assert "never run" in check_problem(server.get(never["links"]["mechanism"] + "?phase=0"), 409, "conflict")["detail"]


def test_c_without_an_inverse_has_no_mechanism(server):
    document = server.solve(job_of({"family": "dense", "rows": [[1, 0], [1, 0]]}) | {"n": 2})
    check_problem(server.get(document["links"]["mechanism"]), 422, "unsupported")
