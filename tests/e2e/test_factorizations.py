"""
Factorisations through the service: every served family, each found again by its id; optimised ones are computed once
(also across a kill); errors in a matrix are reported at their member.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import io
import json
import subprocess
import time

import numpy
import pytest

from conftest import BINARY, PATIENCE, check_problem, until

NONE = {"scheme": "none", "epochs": 2}
FAMILIES = [
    {"family": "identity"},
    {"family": "toeplitz", "coefficients": [1, 0.5, 0.25]},
    {"family": "dense", "rows": [[1 if i == j else 0.25 / (1 + i - j) for j in range(i + 1)] for i in range(24)]},
    {"family": "square_root"},
    {"family": "square_root", "bands": 4},
    {"family": "square_root", "bands": 4, "stamps": 3},
    {"family": "inverse_square_root", "bands": 4},
    {"family": "banded", "bands": 4},
    {"family": "banded", "bands": 4, "column_normalize": True},
    {"family": "banded", "bands": 4, "toeplitz": False},
    {"family": "banded", "bands": 4, "objective": "max_squared"},
    {"family": "banded_inverse", "bands": 3},
    {"family": "blt", "buffers": 2},
    {"family": "blt", "decay": [0.9, 0.5], "scale": [0.3, 0.2]},
    {"family": "optimal"},
    {"family": "tree"},
    {"family": "tree", "decoder": "full"},
    {"family": "fourier"},
]
OPTIMISED = [matrix for matrix in FAMILIES if matrix["family"] in ("banded", "banded_inverse", "optimal")
             or "buffers" in matrix]


def name_of(matrix):
    return "-".join([matrix["family"], *(f"{k}={v}" for k, v in matrix.items()
                                         if k != "family" and not isinstance(v, list))])


def job_of(matrix, n=24, **members):
    return {"n": n, "matrix": matrix, "sampling": NONE, "noise_multiplier": 2.0, "delta": 1e-6, **members}


def need(server, matrix):
    if matrix["family"] not in server.get("/v1").json()["families"]:
        pytest.skip(f"{matrix['family']} is not served by this build")


def stored(document, **members):
    return {"family": "stored", "id": document["result"]["factorization"]["id"], **members}


def npy(server, document, part):
    answer = server.get(document["links"]["matrix"], params={"part": part}, headers={"Accept": "application/x-npy"})
    if answer.status_code == 422:
        return None
    assert answer.status_code == 200, answer.text

    array = numpy.load(io.BytesIO(answer.content), allow_pickle=False)
    if array.ndim == 1: # the first column of a Toeplitz matrix
        n = len(array)
        array = numpy.array([[array[i - j] if i >= j else 0 for j in range(n)] for i in range(n)])
    return array


@pytest.mark.sanitized
@pytest.mark.parametrize("matrix", FAMILIES, ids=name_of)
def test_every_family_is_found_by_its_id(server, matrix):
    need(server, matrix)
    first = server.solve(job_of(matrix))
    assert len(first["result"]["factorization"]["id"]) == 64
    again = server.solve(job_of(stored(first)))
    assert again["result"]["factorization"]["id"] == first["result"]["factorization"]["id"]
    assert again["result"]["cache"]["result"] == "miss"
    for member in ("epsilon", "sensitivity", "error"):
        assert again["result"][member] == first["result"][member]
    for document in (first, again):
        encoder, noise, decoder = (npy(server, document, part) for part in ("encoder", "noise", "decoder"))
        assert encoder.shape[1] == 24
        if decoder is None:
            continue
        # Prefix sums: decoder times encoder is the lower-triangular matrix of ones.
        assert numpy.allclose(decoder @ encoder, numpy.tril(numpy.ones((24, 24))), atol=1e-8)
        assert numpy.allclose(noise @ encoder, numpy.eye(24), atol=1e-8)
        mean = (decoder ** 2).sum(axis=1).mean() * 4
        assert mean == pytest.approx(document["result"]["error"]["mean_squared"], rel=1e-8)


@pytest.mark.sanitized
@pytest.mark.parametrize("matrix", [
    {"family": "blt", "buffers": 3},
    {"family": "blt", "buffers": 2, "stamps": 2, "normalization": "sensitivity"},
    {"family": "blt", "decay": [0.9, 0.5], "scale": [0.3, 0.2]},
], ids=name_of)
def test_noise_from_the_buffers_of_a_blt(server, matrix):
    """What a trainer draws with only the result, by the formula of the contract, is C^-1 z."""
    first = server.solve(job_of(matrix))
    for document in (first, server.solve(job_of(stored(first)))):
        blt = document["result"]["factorization"]["blt"]
        decay, scale = numpy.array(blt["decay"]), numpy.array(blt["scale"])
        assert len(decay) == len(scale) == matrix.get("buffers", 2)
        rows = 24 // matrix.get("stamps", 1)
        encoder = npy(server, document, "encoder")
        z, x, buffers = numpy.random.default_rng(9).normal(size=24), numpy.zeros(24), None
        for t in range(24):
            if t % rows == 0:
                buffers = numpy.zeros(len(decay))
            y = z[t] - scale @ buffers
            buffers = decay * buffers + y
            x[t] = y / encoder[0, 0]
        assert numpy.allclose(encoder @ x, z, atol=1e-12)
    given = server.solve(job_of({"family": "blt", **blt, "normalization": "none"}, n=rows))
    assert numpy.allclose(npy(server, given, "encoder") * encoder[0, 0], encoder[:rows, :rows], rtol=1e-12)
    assert given["result"]["factorization"]["blt"] == blt
    plain = server.solve(job_of({"family": "square_root"}))
    assert "blt" not in plain["result"]["factorization"]


@pytest.mark.parametrize("matrix", OPTIMISED, ids=name_of)
def test_an_optimum_is_computed_once_even_across_a_kill(launch, matrix):
    server = launch()
    need(server, matrix)
    first = server.solve(job_of(matrix))["result"]
    assert first["cache"]["factorization"] == "miss"
    assert server.solve(job_of(matrix, delta=1e-7))["result"]["cache"]["factorization"] == "hit"
    server.kill()
    server.start()
    second = server.solve(job_of(matrix, delta=1e-8))["result"]
    assert second["cache"]["factorization"] == "hit"
    assert second["factorization"] == first["factorization"]
    assert second["error"] == first["error"]
    plain = server.solve(job_of({**matrix, "normalization": "none"}))["result"]
    assert plain["cache"]["factorization"] == "hit"
    assert plain["factorization"]["iterations"] == first["factorization"]["iterations"]
    solved = subprocess.run([BINARY, "solve", "--db", server.database, "-"], text=True, timeout=PATIENCE,
                            input=json.dumps(job_of(matrix, delta=1e-9)), stdout=subprocess.PIPE, check=True)
    assert json.loads(solved.stdout)["result"]["cache"]["factorization"] == "hit"


def test_an_optimum_under_way_is_computed_once(launch):
    server = launch("--workers", "4")
    matrix = {"family": "banded", "bands": 32, "gap": 1e-9}
    need(server, matrix)
    posted = [server.post(job_of(matrix, n=4096, delta=delta)).json()["id"] for delta in (1e-4, 1e-5, 1e-6, 1e-7)]
    caches = [server.until(job_id, "succeeded")["result"]["cache"]["factorization"] for job_id in posted]
    assert sorted(caches) == ["hit"] * 3 + ["miss"]


def test_who_waits_for_an_optimum_can_be_canceled(launch):
    server = launch("--workers", "3", "--max-operations", "1e18")
    matrix = {"family": "banded", "bands": 64, "gap": 1e-12}
    need(server, matrix)
    ids = [server.post(job_of(matrix, n=200000, delta=delta)).json()["id"] for delta in (1e-4, 1e-5, 1e-6)]
    for job_id in ids:
        server.until(job_id, "running", "succeeded")
    for job_id in ids:
        assert server.request("POST", f"/v1/jobs/{job_id}/cancel").status_code in (200, 202)
    for job_id in ids:
        assert server.get(f"/v1/jobs/{job_id}").json()["status"] in ("canceled", "succeeded")
    assert server.solve(job_of({"family": "banded", "bands": 4}))["result"]["cache"]["factorization"] == "miss"


def test_who_waits_for_an_optimum_lends_its_worker(launch):
    """Two workers: one optimises, one job waits for that, and a third job finishes meanwhile."""
    server = launch("--workers", "2", "--express", "0", "--max-operations", "1e18")
    matrix = {"family": "banded", "bands": 1024, "gap": 1e-12}
    need(server, matrix)
    ids = [server.post(job_of(matrix, n=200000, delta=delta)).json()["id"] for delta in (1e-4, 1e-5)]
    for job_id in ids:
        server.until(job_id, "running")
    until(lambda: server.metric("epsilond_workers_busy") == 1)
    assert server.solve(job_of({"family": "square_root", "bands": 4}))["status"] == "succeeded"
    assert [server.get(f"/v1/jobs/{job_id}").json()["status"] for job_id in ids] == ["running"] * 2
    for job_id in reversed(ids):  # the one that waits comes first
        began = time.monotonic()
        assert server.request("POST", f"/v1/jobs/{job_id}/cancel").json()["status"] == "canceled"
        assert time.monotonic() - began < 5
    until(lambda: server.metric("epsilond_workers_busy") == 0)


def test_stored_outlives_restarts_and_the_job_that_computed_it(launch):
    server = launch()
    source = server.solve(job_of({"family": "square_root", "bands": 4}))
    server.stop()
    server.start()
    scaled = server.solve(job_of(stored(source, normalization="sensitivity", stamps=2), n=48))
    assert scaled["result"]["sensitivity"]["value"] == pytest.approx(1, rel=1e-12)
    assert server.request("DELETE", source["links"]["self"]).status_code == 204
    server.kill()
    server.start()
    again = server.solve(job_of(stored(scaled, normalization="none"), n=48))
    assert again["result"]["factorization"] == scaled["result"]["factorization"]
    assert again["job"]["matrix"] == {"family": "stored", "id": again["result"]["factorization"]["id"],
                                      "normalization": "none", "stamps": 1}
    # The same without the service.
    solved = subprocess.run([BINARY, "solve", "--db", server.database, "-"], text=True, timeout=PATIENCE,
                            input=json.dumps(job_of(stored(scaled, normalization="none"), n=48)),
                            stdout=subprocess.PIPE, check=True)
    assert json.loads(solved.stdout)["result"]["factorization"] == scaled["result"]["factorization"]


@pytest.mark.parametrize("phases", [False, True], ids=["job", "phase"])
def test_a_factorisation_of_a_kept_job_is_not_evicted(launch, phases):
    server = launch("--cache-bytes", "65536")
    job = job_of({"family": "square_root", "bands": 5})
    training = [{"n": 9, "sampling": {"scheme": "poisson", "p": 0.1}},
                {name: job[name] for name in ("n", "matrix", "sampling")}]
    asked = {name: job[name] for name in ("noise_multiplier", "epsilon", "delta") if name in job}
    first = server.solve({"phases": training, **asked} if phases else job)
    factorization = (first["result"]["phases"][1] if phases else first["result"])["factorization"]
    for n in range(100, 130):  # loss distributions that are cached
        server.solve({"n": n, "sampling": {"scheme": "poisson", "p": 0.01, "examples_per_user": 20},
                      "noise_multiplier": 20 + n / 100, "delta": 1e-6})
    assert server.metric("epsilond_cache_evictions_total") > 0
    again = server.solve(job_of({"family": "stored", "id": factorization["id"]}))
    assert again["result"]["factorization"]["id"] == factorization["id"]
    if phases:  # the matrix shown for the phase is the one that was used
        shown = server.get(first["links"]["matrix"] + "?phase=1").json()["coefficients"]
        assert shown == server.get(again["links"]["matrix"]).json()["coefficients"]


def test_an_unknown_id(server):
    problem = check_problem(server.post(job_of({"family": "stored", "id": "0123456789abcdef" * 4})), 422, "invalid-job",
                            "/matrix/id")
    assert "factorization.id" in problem["detail"]
    for wrong in ("", "0" * 63, "0" * 65, "G" * 64, "A" * 64, 7, None):
        check_problem(server.post(job_of({"family": "stored", "id": wrong})), 422, "invalid-job", "/matrix/id")
    first = server.solve(job_of({"family": "square_root", "bands": 3}))
    check_problem(server.post(job_of(stored(first), n=25)), 422, "invalid-job", "/n")
    check_problem(server.post(job_of(stored(first, bands=3))), 422, "invalid-job", "/matrix/bands")


POISSON = {"scheme": "poisson", "p": 0.1}
WRONG = [
    ({"family": "square_root", "bands": 25}, {}, "/matrix/bands"),
    ({"family": "inverse_square_root", "bands": 25}, {}, "/matrix/bands"),
    ({"family": "banded", "bands": 25}, {}, "/matrix/bands"),
    ({"family": "banded_inverse", "bands": 25}, {}, "/matrix/bands"),
    ({"family": "blt", "buffers": 25}, {}, "/matrix/buffers"),
    ({"family": "square_root", "stamps": 5}, {}, "/matrix/stamps"),
    ({"family": "optimal", "stamps": 7}, {}, "/matrix/stamps"),
    ({"family": "square_root", "stamps": 0}, {}, "/matrix/stamps"),
    ({"family": "dense", "rows": [[0] * (i + 1) for i in range(24)]}, {}, "/matrix"),
    ({"family": "dense", "rows": [[-1] * (i + 1) for i in range(24)]}, {"sampling": POISSON}, None),
    ({"family": "toeplitz", "coefficients": [1, -0.5]}, {"sampling": POISSON}, None),
    ({"family": "blt", "decay": [0.9, 1.0], "scale": [0.1, 0.1]}, {}, "/matrix/decay/1"),
    ({"family": "blt", "decay": [0.0], "scale": [0.1]}, {}, "/matrix/decay/0"),
    ({"family": "blt", "decay": [0.5], "scale": [0.1, 0.2]}, {}, None),
    ({"family": "blt", "decay": [0.5]}, {}, "/matrix/scale"),
    ({"family": "blt"}, {}, "/matrix/buffers"),
    ({"family": "banded", "bands": 4, "toeplitz": False, "epochs": 5, "separation": 3}, {}, "/matrix/bands"),
    ({"family": "banded", "bands": 4, "toeplitz": False, "column_normalize": True}, {}, "/matrix/column_normalize"),
    ({"family": "banded", "bands": 4, "gap": 0}, {}, "/matrix/gap"),
    ({"family": "banded", "bands": 4, "objective": "least"}, {}, "/matrix/objective"),
    ({"family": "banded", "bands": 4, "epochs": 5, "separation": 6}, {}, "/matrix/separation"),
    ({"family": "banded"}, {}, "/matrix/bands"),
    ({"family": "tree", "decoder": "none"}, {}, "/matrix/decoder"),
    ({"family": "fourier"}, {"sampling": POISSON}, "/matrix/family"),
    ({"family": "square_root", "normalization": "sensitivity"}, {"sampling": POISSON}, "/matrix/normalization"),
]


@pytest.mark.sanitized
@pytest.mark.parametrize("matrix,members,pointer", WRONG, ids=lambda value: json.dumps(value)[:40])
def test_a_wrong_matrix_is_refused_with_its_member(server, matrix, members, pointer):
    answer = server.post(job_of(matrix, **members))
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert problem["type"] in ("/problems/invalid-job", "/problems/unsupported")
    assert problem["errors"][0]["detail"] or problem["detail"]
    if pointer is not None:
        assert pointer in [error["pointer"] for error in problem["errors"]], problem
