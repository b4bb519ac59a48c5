"""
POST /v1/noise: rows of C^-1 z and B z for a job or a stored factorisation, in each format; that they have the
distribution that was accounted for; that a stream uses bounded memory and ends with its client or the service.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import hashlib
import io
import json
import re
import math
import sqlite3
import struct
import time

import jsonschema
import numpy
import pytest
import requests
import yaml

from conftest import ENDLESS, INSTRUMENTED, PATIENCE, ROOT, check_problem, until

sanitized = pytest.mark.sanitized
BANDED = {"n": 64, "matrix": {"family": "square_root", "bands": 4}, "sampling": {"scheme": "none"},
          "noise_multiplier": 2.0, "delta": 1e-6}
MOMENTUM = {"type": "momentum", "momentum": 0.9, "decay": 0.5}
NPY, LINES, JSON = "application/x-npy", "application/x-ndjson", "application/json"
NOWHERE = "0193a000-0000-7000-8000-000000000000"


def ask(server, request, accept=NPY, **arguments):
    return server.post(request, "/v1/noise", headers={"Accept": accept}, **arguments)


def draw(server, accept=NPY, **request):
    """The rows, read by numpy."""
    answer = ask(server, request, accept)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == accept
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Vary"] == "Accept"
    assert answer.headers.get("X-Guarantee") == ("none" if "seed" in request else None)
    if accept == NPY:
        return numpy.load(io.BytesIO(answer.content))
    steps = answer.json() if accept == JSON else [json.loads(line) for line in answer.text.splitlines()]
    assert [step["step"] for step in steps] == list(range(len(steps)))
    assert all(list(step) == ["step", "values"] for step in steps)
    return numpy.array([step["values"] for step in steps])


def part(server, document, name):
    answer = server.get(f"/v1/jobs/{document['id']}/matrix?part={name}", headers={"Accept": NPY})
    matrix = numpy.load(io.BytesIO(answer.content))
    if matrix.ndim == 1:  # Toeplitz
        column, n = matrix, len(matrix)
        matrix = numpy.array([[column[i - j] if i >= j else 0 for j in range(n)] for i in range(n)])
    return matrix


@sanitized
@pytest.mark.parametrize("matrix", [
    {"family": "identity"}, {"family": "square_root"}, {"family": "square_root", "bands": 4},
    {"family": "inverse_square_root", "bands": 3}, {"family": "banded", "bands": 4},
    {"family": "banded", "bands": 4, "column_normalize": True}, {"family": "banded", "bands": 3, "toeplitz": False},
    {"family": "banded_inverse", "bands": 3}, {"family": "blt", "buffers": 2}, {"family": "optimal"},
    {"family": "tree"}, {"family": "tree", "decoder": "full"}, {"family": "fourier"},
    {"family": "square_root", "bands": 4, "stamps": 3}], ids=lambda matrix: "-".join(map(str, matrix.values())))
def test_noise_has_the_law_that_was_accounted(server, matrix):
    """The rows of C^-1 z have the covariance sigma^2 C^-1 C^-T: whitened, d of them have approximately the covariance
    I; similarly for B z. The draws are seeded, so a correct service always passes; a wrong one fails by far."""
    document = server.solve({"n": 12, "matrix": matrix, "sampling": {"scheme": "none"}, "epsilon": 1, "delta": 1e-6})
    sigma, d = document["result"]["noise_multiplier"], 20000
    for name in "noise", "decoder":
        factor = part(server, document, name)
        wanted = sigma**2 * factor @ factor.T
        x = draw(server, job=document["id"], dimensions=d, part=name, dtype="float64", seed=7)
        assert x.shape == (12, d) and x.dtype == numpy.float64
        white = numpy.linalg.solve(numpy.linalg.cholesky(wanted), x)
        off = (white @ white.T / d - numpy.eye(12)) * math.sqrt(d)
        off[numpy.diag_indices(12)] /= math.sqrt(2)
        chi_square, freedom = (numpy.tril(off)**2).sum(), 12 * 13 / 2
        assert abs(chi_square - freedom) < 6 * math.sqrt(2 * freedom), chi_square
        means = (white.mean(axis=1)**2).sum() * d
        assert means < 12 + 6 * math.sqrt(24), means


@sanitized
def test_each_form_holds_the_same_numbers(server):
    job = server.solve(BANDED)["id"]
    double = draw(server, job=job, dimensions=7, seed=3, dtype="float64")
    single = draw(server, job=job, dimensions=7, seed=3)
    assert double.shape == single.shape == (64, 7)
    assert double.dtype == numpy.float64 and single.dtype == numpy.float32
    assert (single == double.astype(numpy.float32)).all()  # rounded once
    for accept in LINES, JSON:
        assert (draw(server, accept, job=job, dimensions=7, seed=3, dtype="float64") == double).all()
        assert (draw(server, accept, job=job, dimensions=7, seed=3).astype(numpy.float32) == single).all()


@sanitized
def test_the_default_form_is_npy(server):
    job = server.solve(BANDED)["id"]
    answer = server.post({"job": job, "dimensions": 2}, "/v1/noise", headers={"Accept": "*/*"})
    assert answer.headers["Content-Type"] == NPY
    check_problem(ask(server, {"job": job, "dimensions": 2}, "text/csv"), 406, "not-acceptable")


@sanitized
def test_nothing_is_drawn_twice_without_a_seed(server):
    job = server.solve(BANDED)["id"]
    asked = {"job": job, "dimensions": 100, "dtype": "float64"}  # of two float32, one pair in 10^8 coincides
    first, second = draw(server, **asked), draw(server, **asked)
    assert not (first == second).any()
    assert not (draw(server, seed=1, **asked) == draw(server, seed=2, **asked)).any()
    assert not (draw(server, seed=1, **asked) == first).any()


@sanitized
def test_a_seed_is_written_nowhere(launch):
    server = launch("--log-level", "debug")
    job = server.solve(BANDED)["id"]
    draw(server, job=job, dimensions=3, seed=8675309123456)
    assert "8675309123456" not in server.log_text()
    server.stop()
    for file in server.folder.iterdir():
        assert b"8675309123456" not in file.read_bytes()


@sanitized
def test_the_decoder_applies_the_workload(server):
    for workload in {"type": "prefix_sum"}, MOMENTUM, {"type": "toeplitz", "coefficients": [1, 0.5, 2]}:
        document = server.solve({**BANDED, "workload": workload})
        noise = draw(server, job=document["id"], dimensions=5, dtype="float64", seed=1)
        decoded = draw(server, job=document["id"], dimensions=5, dtype="float64", seed=1, part="decoder")
        workload_matrix = part(server, document, "decoder") @ part(server, document, "encoder")
        assert numpy.allclose(decoded, workload_matrix @ noise, rtol=1e-10, atol=1e-10)


@sanitized
def test_a_stored_factorisation_gives_the_noise_of_its_job(server):
    document = server.solve({**BANDED, "workload": MOMENTUM})
    job, stored = document["id"], document["result"]["factorization"]["id"]
    asked = {"dimensions": 5, "seed": 1, "dtype": "float64"}
    of_job = draw(server, job=job, **asked)
    assert (draw(server, factorization=stored, noise_multiplier=2, **asked) == of_job).all()
    assert numpy.allclose(draw(server, factorization=stored, noise_multiplier=6, **asked), 3 * of_job, rtol=1e-12)
    assert numpy.allclose(draw(server, job=job, noise_multiplier=6, **asked), 3 * of_job, rtol=1e-12)
    asked["part"] = "decoder"
    of_job = draw(server, job=job, **asked)
    assert (draw(server, factorization=stored, noise_multiplier=2, workload=MOMENTUM, **asked) == of_job).all()
    sums = draw(server, factorization=stored, noise_multiplier=2, **asked)  # prefix sums
    asked["part"] = "noise"
    assert numpy.allclose(sums, draw(server, job=job, **asked).cumsum(axis=0), rtol=1e-9, atol=1e-9)


@sanitized
def test_jobs_of_every_kind_of_answer(server):
    """The noise multiplier is that of the answer, that of the curve, or 0 if no noise is needed."""
    for multiplier in 1.5, 3.0:
        curve = server.solve({"n": 20, "sampling": {"scheme": "none"}, "noise_multiplier": multiplier, "curve": True})
        x = draw(server, job=curve["id"], dimensions=1000, seed=5, dtype="float64")
        assert abs(x.std() / multiplier - 1) < 0.05
    none = server.solve({"n": 10, "sampling": {"scheme": "poisson", "p": 0.01}, "epsilon": 1, "delta": 0.5})
    assert none["result"]["noise_multiplier"] == 0
    assert (draw(server, job=none["id"], dimensions=4) == 0).all()


PHASES = {"phases": [{**{name: BANDED[name] for name in ("n", "matrix", "sampling")}, "noise_scale": 1.5},
                     {"n": 20, "sampling": {"scheme": "poisson", "p": 0.01}, "count": 3},
                     {"n": 16, "matrix": {"family": "tree"}, "sampling": {"scheme": "none"}, "workload": MOMENTUM,
                      "noise_scale": 0.5}], "noise_multiplier": 2.0, "delta": 1e-6}


@sanitized
def test_each_phase_has_its_noise(server):
    """The noise is that of a job that consists of the phase only, at the noise multiplier of the phase."""
    document = server.solve(PHASES)
    asked = {"dimensions": 5, "dtype": "float64", "seed": 6}
    for index, phase in enumerate(PHASES["phases"]):
        alone = {name: value for name, value in phase.items() if name not in ("noise_scale", "count")}
        sigma = 2.0 * phase.get("noise_scale", 1)
        assert document["result"]["phases"][index]["noise_multiplier"] == sigma
        alone = server.solve({**alone, "noise_multiplier": sigma, "delta": 1e-6})["id"]
        for name in "noise", "decoder":
            answer = server.post({"job": document["id"], "part": name, **asked}, f"/v1/noise?phase={index}")
            assert answer.status_code == 200, answer.text
            rows = numpy.load(io.BytesIO(answer.content))
            assert rows.shape == (phase["n"], 5) and (rows == draw(server, job=alone, part=name, **asked)).all()
        answer = server.post({"job": document["id"], "noise_multiplier": 7, **asked}, f"/v1/noise?phase={index}")
        assert (numpy.load(io.BytesIO(answer.content)) == draw(server, job=alone, noise_multiplier=7, **asked)).all()


@sanitized
def test_the_phase_is_asked_for_where_there_are_phases(server):
    document, other = server.solve(PHASES), server.solve(BANDED)
    job = {"job": document["id"], "dimensions": 1}
    problem = check_problem(server.post(job, "/v1/noise"), 422, "invalid-job", "?phase")
    assert "phases of the job are 0 to 2" in problem["detail"]
    for wrong in "3", "x", "-1", "":
        check_problem(server.post(job, f"/v1/noise?phase={wrong}"), 422, "invalid-job", "?phase")
    check_problem(server.post({"job": other["id"], "dimensions": 1}, "/v1/noise?phase=0"), 422, "invalid-job", "?phase")
    stored = {"factorization": other["result"]["factorization"]["id"], "noise_multiplier": 1, "dimensions": 1}
    check_problem(server.post(stored, "/v1/noise?phase=0"), 422, "invalid-job", "?phase")


@sanitized
def test_noise_of_the_largest_number(server):
    """As for the job with the number that was found; if that is 0 there is none."""
    asked = {"dimensions": 3, "dtype": "float64", "seed": 2}
    poisson = {"sampling": {"scheme": "poisson", "p": 0.01}, "noise_multiplier": 1.0, "delta": 1e-6}
    found = server.solve({**poisson, "n": "max", "epsilon": 2})
    n = found["result"]["n"]
    assert n > 1
    rows = draw(server, job=found["id"], **asked)
    assert rows.shape == (n, 3) and (rows == draw(server, job=server.solve({**poisson, "n": n})["id"], **asked)).all()
    none = server.solve({**poisson, "n": "max", "epsilon": 1e-9, "noise_multiplier": 0.1})
    assert none["result"]["n"] == 0
    problem = check_problem(ask(server, {"job": none["id"], "dimensions": 1}), 409, "conflict")
    assert "n is 0" in problem["detail"]
    for scale, runs in (10, True), (0.05, False):
        phases = [PHASES["phases"][0], {"n": 20, "sampling": {"scheme": "none"}, "noise_scale": scale, "count": "max"}]
        document = server.solve({**PHASES, "phases": phases, "epsilon": 5})
        assert (document["result"]["count"] > 0) == runs
        answer = server.post({"job": document["id"], "dimensions": 1}, "/v1/noise?phase=1")
        if runs:
            assert numpy.load(io.BytesIO(answer.content)).shape == (20, 1)
        else:
            assert "count is 0" in check_problem(answer, 409, "conflict")["detail"]


@sanitized
def test_what_is_wrong_with_a_request(server):
    document = server.solve(BANDED)
    job, stored = document["id"], document["result"]["factorization"]["id"]
    for wrong, pointer in [
            ({"job": job, "noise_multiplier": 0, "dimensions": 1}, "/noise_multiplier"),
            ({"factorization": stored, "noise_multiplier": 1, "dimensions": 1, "part": "decoder",
              "workload": {"type": "momentum", "momentum": 2}}, "/workload/momentum"),
            ({"factorization": stored, "noise_multiplier": 1, "dimensions": 1, "part": "decoder",
              "workload": {"type": "toeplitz", "coefficients": [1] * 65}}, "/workload/coefficients")]:
        check_problem(ask(server, wrong), 422, "invalid-job", pointer)
    every = check_problem(ask(server, {"dimensions": 0, "dtype": 1, "sead": 2}), 422, "invalid-job")
    assert {error["pointer"] for error in every["errors"]} == {"/dimensions", "/dtype", "/sead", ""}
    assert ask(server, [1]).status_code == 422
    check_problem(server.request("POST", "/v1/noise", data="{", headers={"Content-Type": JSON, "Accept": NPY}), 400,
                  "malformed-json")
    check_problem(ask(server, {"job": NOWHERE, "dimensions": 1}), 404, "not-found")
    check_problem(ask(server, {"factorization": "0" * 64, "noise_multiplier": 1, "dimensions": 1}), 404, "not-found")


@sanitized
def test_only_a_succeeded_job_has_noise(launch):
    server = launch()
    job = server.post(ENDLESS).json()["id"]
    problem = check_problem(ask(server, {"job": job, "dimensions": 1}), 409, "conflict")
    assert "running" in problem["detail"] or "queued" in problem["detail"]
    server.request("POST", f"/v1/jobs/{job}/cancel")
    server.until(job, "canceled")
    check_problem(ask(server, {"job": job, "dimensions": 1}), 409, "conflict")


@sanitized
def test_a_singular_matrix_has_no_noise(server):
    document = server.solve({"n": 3, "matrix": {"family": "toeplitz", "coefficients": [0, 1]},
                             "sampling": {"scheme": "none"}, "noise_multiplier": 2.0, "delta": 1e-6})
    problem = check_problem(ask(server, {"job": document["id"], "dimensions": 1}), 422, "unsupported")
    assert "no inverse" in problem["detail"]


@sanitized
def test_it_is_the_matrix_that_was_used(launch):
    """If the stored factorisation is lost, the matrix of the job is computed again, and is the same."""
    server = launch()
    document = server.solve({**BANDED, "matrix": {"family": "banded", "bands": 4}})
    asked = {"job": document["id"], "dimensions": 3, "seed": 4, "dtype": "float64"}
    before = draw(server, **asked)
    server.stop()
    with sqlite3.connect(server.database) as connection:
        connection.execute("DELETE FROM blobs")
    server.start()
    assert (draw(server, **asked) == before).all()


def digest(*values):
    """The SQL function by which rows are checked (server/store/digest.c)."""
    hashed = hashlib.blake2b(digest_size=16)
    for value in values:
        kind, data = {int: (1, lambda: struct.pack("<q", value)), float: (2, lambda: struct.pack("<d", value)),
                      str: (3, lambda: value.encode()), bytes: (4, lambda: value), type(None): (5, bytes)}[type(value)]
        hashed.update(struct.pack("<Bq", kind, len(data())) + data())
    return hashed.digest()


@sanitized
def test_noise_of_another_matrix_is_refused(launch):
    """A result whose factorisation is not stored, and for which computing it again gives a different one, as after an
    update of the program."""
    server = launch()
    job = server.solve(BANDED)["id"]
    server.stop()
    with sqlite3.connect(server.database) as connection:
        connection.create_function("digest", -1, digest)
        columns = ("hash, version, solved_for, epsilon, delta, noise_multiplier, lower, upper, mean_squared, "
                   "max_squared, last_squared, accountant")
        rows = connection.execute(f"SELECT digest({columns}, factorization) = figures_checksum FROM results").fetchall()
        assert rows == [(1,)]
        connection.execute(f"UPDATE results SET factorization = ?1, figures_checksum = digest({columns}, ?1)",
                           ("ab" * 32,))
    server.start()
    problem = check_problem(ask(server, {"job": job, "dimensions": 3}), 409, "conflict")
    assert "factorisation" in problem["detail"]


def resident(server):
    """The maximum memory of the server so far, in bytes."""
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def test_a_long_stream_takes_little_memory(launch):
    """Half a gigabyte passes through three rows of doubles and a few pieces, and through panels if C is full."""
    server = launch()
    for matrix, d, rows in [({"family": "square_root", "bands": 4}, 1_000_000, 128), ({"family": "tree"}, 500_000, 64),
                            ({"family": "square_root"}, 100_000, 512)]:
        job = server.solve({**BANDED, "n": rows, "matrix": matrix})["id"]
        before, seen = resident(server), 0
        with ask(server, {"job": job, "dimensions": d}, stream=True) as answer:
            assert answer.status_code == 200
            for piece in answer.iter_content(1 << 20):
                seen += len(piece)
        assert seen == 128 + 4 * rows * d
        assert resident(server) < before + (150 << 20) or INSTRUMENTED
    until(lambda: server.metric("epsilond_drawn_bytes") == 0)


@sanitized
def test_a_client_that_hangs_up_frees_what_was_drawn(launch):
    server = launch()
    job = server.solve(BANDED)["id"]
    for taken in 1, 300_000:
        answer = ask(server, {"job": job, "dimensions": 400_000}, stream=True)
        assert len(answer.raw.read(taken)) == taken
        assert server.metric("epsilond_drawn_bytes") > 400_000 * 8 * 4
        answer.close()
        until(lambda: server.metric("epsilond_drawn_bytes") == 0)
    assert draw(server, job=job, dimensions=1).shape == (64, 1)


@sanitized
def test_memory_for_noise_is_bounded(launch):
    server = launch("--draw-bytes", "32MiB")
    job = server.solve(BANDED)["id"]
    large = check_problem(ask(server, {"job": job, "dimensions": 2_000_000}), 422, "too-costly")
    needed, allowed, fits = re.search(r"takes ([\d.]+) MiB .* ([\d.]+) MiB .*request (\d+) dimensions",
                                      large["detail"]).groups()
    assert float(needed) > float(allowed) == 32
    assert 600_000 < int(fits) < 2_000_000
    with ask(server, {"job": job, "dimensions": int(fits)}, stream=True) as part:
        assert part.status_code == 200
    until(lambda: server.metric("epsilond_drawn_bytes") == 0)
    with ask(server, {"job": job, "dimensions": 600_000}, stream=True) as first:
        assert first.status_code == 200
        busy = ask(server, {"job": job, "dimensions": 600_000})
        check_problem(busy, 503, "queue-full")
        assert int(busy.headers["Retry-After"]) > 0
        assert draw(server, job=job, dimensions=10).shape == (64, 10)
    until(lambda: server.metric("epsilond_drawn_bytes") == 0)
    with ask(server, {"job": job, "dimensions": 600_000}, stream=True) as again:
        assert again.status_code == 200


@sanitized
def test_limits_of_work_hold_for_noise(launch):
    server = launch("--max-operations", "1e7", "--max-bytes", "1MiB")
    job = server.solve(BANDED)["id"]
    assert draw(server, job=job, dimensions=1000).shape == (64, 1000)
    problem = check_problem(ask(server, {"job": job, "dimensions": 20_000}), 422, "too-costly", "/dimensions")
    assert problem["operations"] > 1e7
    problem = check_problem(ask(server, {"job": job, "dimensions": 100_000}), 422, "too-costly", "/dimensions")
    assert problem["bytes"] > 1 << 20
    needed, allowed, fits = re.search(
        r"and ([\d.]+) MiB of memory, .* operations.* and ([\d.]+) MiB \(--max-bytes\); request (\d+) dimensions",
        problem["detail"]).groups()
    assert float(needed) > float(allowed) == 1
    assert draw(server, job=job, dimensions=int(fits)).shape == (64, int(fits))


@sanitized
def test_a_stop_cuts_a_stream_off(launch):
    """An incomplete reply must not look complete."""
    server = launch()
    job = server.solve(BANDED)["id"]
    answer = ask(server, {"job": job, "dimensions": 300_000}, stream=True)
    assert len(answer.raw.read(1000)) == 1000
    assert server.stop() < PATIENCE / 2
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        for _ in answer.iter_content(1 << 20):
            pass


@sanitized
def test_numbers_beyond_single_precision_cut_the_stream_off(server):
    """An infinity is not valid noise."""
    document = server.solve({"n": 2, "matrix": {"family": "toeplitz", "coefficients": [1e-30], "normalization": "none"},
                             "sampling": {"scheme": "none"}, "noise_multiplier": 1e9, "delta": 0.5})
    asked = {"job": document["id"], "dimensions": 100, "seed": 1}
    assert numpy.isfinite(draw(server, dtype="float64", **asked)).all()
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        ask(server, asked)
    [name] = re.findall(r' event=noise request=(\S+) detail="step 0 exceeds the range of float32"', server.log_text())
    until(lambda: re.search(rf" event=request request={name} .* path=/v1/noise status=200 .* broken=true",
                            server.log_text()))


# ---------------------------------------------------------------- resuming

EVERY_KIND = [
    {"family": "identity"}, {"family": "toeplitz", "coefficients": [1, 0.5, 0.25]}, {"family": "square_root"},
    {"family": "inverse_square_root", "bands": 3}, {"family": "banded", "bands": 4},
    {"family": "banded", "bands": 3, "toeplitz": False}, {"family": "blt", "buffers": 2}, {"family": "optimal"},
    {"family": "tree"}, {"family": "tree", "decoder": "full"}, {"family": "fourier"},
    {"family": "dense",
     "rows": [[1.0 if i == j else 0.5 / (1 + i) if i > j else 0.0 for j in range(24)] for i in range(24)]},
    {"family": "square_root", "bands": 4, "stamps": 3}]


@sanitized
@pytest.mark.parametrize("matrix", EVERY_KIND,
                         ids=lambda matrix: "-".join(str(value)[:20] for value in matrix.values()))
def test_a_stream_goes_on_bit_for_bit(server, matrix):
    """From any row, in any format, any number of times; also with a seed."""
    job = server.solve({"n": 24, "matrix": matrix, "sampling": {"scheme": "none"}, "noise_multiplier": 2.0,
                        "delta": 1e-6})["id"]
    for name, dtype, more in ("noise", "float32", {}), ("decoder", "float64", {}), ("noise", "float64", {"seed": 3}):
        asked = {"job": job, "dimensions": 5, "part": name, "dtype": dtype, **more}
        first = ask(server, asked)
        stream, rows = first.headers["X-Stream"], numpy.load(io.BytesIO(first.content))
        assert rows.shape == (24, 5)
        for k in 0, 1, 13, 23:
            again = ask(server, {**asked, "stream": stream, "first_row": k})
            assert again.status_code == 200, again.text
            assert again.headers["X-Stream"] == stream and again.headers.get("X-Guarantee") == ("none" if more
                                                                                                else None)
            assert again.headers["Cache-Control"] == "no-store"
            assert numpy.load(io.BytesIO(again.content)).tobytes() == rows[k:].tobytes()
            for accept in LINES, JSON:
                answer = ask(server, {**asked, "stream": stream, "first_row": k}, accept)
                steps = answer.json() if accept == JSON else [json.loads(line) for line in answer.text.splitlines()]
                assert [step["step"] for step in steps] == list(range(k, 24))
                assert numpy.array([step["values"] for step in steps], dtype=rows.dtype).tobytes() == rows[k:].tobytes()
        if more:
            assert draw(server, **asked, first_row=13).tobytes() == rows[13:].tobytes()


@sanitized
@pytest.mark.parametrize("matrix", [{"family": "identity"}, {"family": "banded", "bands": 4}, {"family": "tree"}],
                         ids=lambda matrix: matrix["family"])
def test_a_stream_that_was_cut_goes_on(launch, matrix):
    """In the middle of a row, with more of it in transit; and if nothing of the stream was read."""
    server = launch()
    job = server.solve({"n": 50, "matrix": matrix, "sampling": {"scheme": "none"}, "noise_multiplier": 2.0,
                        "delta": 1e-6})["id"]
    asked, size = {"job": job, "dimensions": 30_000}, 4 * 30_000
    answer = ask(server, asked, stream=True)
    stream, part = answer.headers["X-Stream"], answer.raw.read(128 + 7 * size + 1000)
    answer.close()
    rest = draw(server, **asked, stream=stream, first_row=7)
    assert rest.shape == (43, 30_000)
    whole = draw(server, **asked, stream=stream, first_row=0)
    assert whole[7:].tobytes() == rest.tobytes()
    assert whole.tobytes()[:len(part) - 128] == part[128:]
    assert (draw(server, **asked)[:7] == whole[:7]).mean() < 1e-4  # another stream; float32 may coincide
    until(lambda: server.metric("epsilond_drawn_bytes") == 0)


@sanitized
def test_rows_are_left_out_with_a_sign_of_life(server):
    """One space for each skipped row, or for several: numpy reads the longer header, and a line starts with them."""
    job = server.solve({**BANDED, "n": 20_000})["id"]
    asked = {"job": job, "dimensions": 1, "dtype": "float64"}
    first = ask(server, asked)
    rows, asked["stream"] = numpy.load(io.BytesIO(first.content)), first.headers["X-Stream"]
    for k in 63, 64, 8127, 8128, 19_999:
        answer = ask(server, {**asked, "first_row": k})
        begins = len(answer.content) - 8 * (20_000 - k)
        assert begins % 64 == 0 and min(k, 4000) < begins <= 10_000  # the limit of numpy.load()
        assert (numpy.load(io.BytesIO(answer.content)) == rows[k:]).all()
    line = ask(server, {**asked, "first_row": 19_999}, LINES).text
    assert json.loads(line)["values"] == rows[-1].tolist() and 4000 < len(line) - len(line.lstrip(" ")) < 10_000
    assert ask(server, {**asked, "first_row": 0}).content[:128] == first.content[:128]


@sanitized
def test_a_stream_is_for_one_request(server):
    """Two different outputs from one key would reveal both."""
    document, other = server.solve({**BANDED, "workload": MOMENTUM}), server.solve({**BANDED, "workload": MOMENTUM,
                                                                                    "delta": 1e-7})
    job, stored = document["id"], document["result"]["factorization"]["id"]
    assert other["result"]["factorization"]["id"] == stored
    asked = {"job": job, "dimensions": 4}
    stream = ask(server, asked).headers["X-Stream"]
    for change in ({"dimensions": 5}, {"part": "decoder"}, {"dtype": "float64"}, {"noise_multiplier": 3}, {"seed": 1},
                   {"job": other["id"]}, {"job": None, "factorization": stored, "noise_multiplier": 2}):
        answer = ask(server, {**asked, **change, "stream": stream, "first_row": 0})
        assert "started by a different request" in check_problem(answer, 409, "conflict")["detail"], change
        assert "X-Stream" not in answer.headers
    # A different notation of the same request is the same request.
    draw(server, **asked, part="noise", dtype="float32", noise_multiplier=2, stream=stream, first_row=60)
    asked = {"factorization": stored, "noise_multiplier": 2, "dimensions": 4, "part": "decoder"}
    stream = ask(server, {**asked, "workload": MOMENTUM}).headers["X-Stream"]
    for workload in None, {**MOMENTUM, "decay": 0.25}, {"type": "toeplitz", "coefficients": [1, 2]}:
        check_problem(ask(server, {**asked, "workload": workload, "stream": stream, "first_row": 1}), 409, "conflict")
    phases = server.solve({"phases": [PHASES["phases"][1]] * 2, "noise_multiplier": 2.0, "delta": 1e-6})["id"]
    begun = server.post({"job": phases, "dimensions": 1}, "/v1/noise?phase=0", headers={"Accept": NPY})
    again = {"job": phases, "dimensions": 1, "stream": begun.headers["X-Stream"], "first_row": 5}
    check_problem(server.post(again, "/v1/noise?phase=1"), 409, "conflict")
    assert server.post(again, "/v1/noise?phase=0").content[128:] == begun.content[128 + 4 * 5:]


@sanitized
def test_which_rows_a_stream_has(server):
    job = server.solve(BANDED)["id"]
    asked = {"job": job, "dimensions": 4}
    stream = ask(server, asked).headers["X-Stream"]
    assert re.fullmatch("[0-9a-f]{64}", stream)
    for first_row in 64, 2**53:
        problem = check_problem(ask(server, {**asked, "stream": stream, "first_row": first_row}), 422, "invalid-job",
                                "/first_row")
        assert "[0, 63]" in problem["errors"][0]["detail"]
    check_problem(ask(server, {**asked, "stream": stream, "first_row": 1.5}), 422, "invalid-job", "/first_row")
    unknown = check_problem(ask(server, {**asked, "stream": "0" * 64, "first_row": 1}), 404, "not-found")
    assert "Restart the training" in unknown["detail"]
    assert draw(server, **asked, stream=stream, first_row=63).shape == (1, 4)  # the rejected requests did not affect it


@sanitized
def test_the_next_reader_takes_the_stream_over(launch):
    """A connection that only the server considers alive, or a second training with the noise of the first: there is
    only one reader."""
    server = launch("--draw-bytes", "40MiB")
    job = server.solve(BANDED)["id"]
    asked = {"job": job, "dimensions": 600_000}  # 23 MiB
    with ask(server, asked, stream=True) as first:
        assert len(first.raw.read(1000)) == 1000
        again = {**asked, "stream": first.headers["X-Stream"], "first_row": 3}
        until(lambda: ask(server, again, stream=True).status_code == 200)
        with pytest.raises(requests.exceptions.ChunkedEncodingError):
            for _ in first.iter_content(1 << 20):
                pass
    until(lambda: server.metric("epsilond_drawn_bytes") == 0)


@sanitized
def test_who_was_sent_away_may_come_back(launch):
    """The place of a client that pauses goes to another that needs its memory; the stream is kept."""
    server = launch("--draw-bytes", "40MiB", "--request-seconds", "0.3")
    job = server.solve(BANDED)["id"]
    asked = {"job": job, "dimensions": 600_000}
    with ask(server, asked, stream=True) as lazy:
        stream, part = lazy.headers["X-Stream"], lazy.raw.read(128 + 4 * 600_000)
        until(lambda: ask(server, asked, stream=True).status_code == 200)
        with pytest.raises(requests.exceptions.ChunkedEncodingError):
            for _ in lazy.iter_content(1 << 20):
                pass
    until(lambda: server.metric("epsilond_drawn_bytes") == 0)
    rows = draw(server, **asked, stream=stream, first_row=0)
    assert rows[0].tobytes() == part[128:]


@sanitized
def test_for_how_long_a_stream_is_kept(launch):
    """It is kept while it is read, and then for --keep-streams; not across a restart; not at all if the option says
    so."""
    server = launch("--keep-streams", "1s")
    job = server.solve(BANDED)["id"]
    asked = {"job": job, "dimensions": 300_000}
    with ask(server, asked, stream=True) as read:
        stream = read.headers["X-Stream"]
        time.sleep(2.2)
        again = {**asked, "stream": stream, "first_row": 63}
        assert ask(server, again).status_code == 200
    time.sleep(2.2)  # a stream that is requested is kept for longer
    check_problem(ask(server, again), 404, "not-found")
    stream = ask(server, {"job": job, "dimensions": 1}).headers["X-Stream"]
    server.stop()
    assert stream not in server.log_text()
    for file in server.folder.iterdir():
        assert stream.encode() not in file.read_bytes() and bytes.fromhex(stream) not in file.read_bytes()
    server.start()
    check_problem(ask(server, {"job": job, "dimensions": 1, "stream": stream, "first_row": 1}), 404, "not-found")
    server.stop()
    server = launch("--keep-streams", "0")
    answer = ask(server, {"job": server.solve(BANDED)["id"], "dimensions": 1})
    assert answer.status_code == 200 and "X-Stream" not in answer.headers


@sanitized
def test_the_contract_refuses_what_the_service_refuses():
    """The schema of a request is as strict as the service: checked with the requests of
    test_what_is_wrong_with_a_request()."""
    contract = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text())
    check = jsonschema.Draft202012Validator({"$ref": "#/components/schemas/NoiseRequest",
                                             "components": contract["components"]})
    job, stored = {"job": NOWHERE, "dimensions": 1}, {"factorization": "0" * 64, "noise_multiplier": 1, "dimensions": 1}
    for right in (job, stored, {**job, "factorization": None, "noise_multiplier": None, "part": None, "seed": 0},
                  {**stored, "workload": MOMENTUM, "part": "decoder"}, {**job, "stream": "0" * 64, "first_row": 0},
                  {**job, "stream": None, "first_row": None}, {**job, "seed": 1, "first_row": 3}):
        check.validate(right)
    for wrong in ({"dimensions": 1}, {**job, **stored}, {**stored, "noise_multiplier": None},
                  {**job, "workload": MOMENTUM},
                  {**job, "dimensions": 0}, {**job, "noise_multiplier": 0}, {**job, "seed": -1},
                  {**job, "part": "encoder"},
                  {**job, "dtype": "float16"}, {**job, "family": "identity"}, {**job, "job": "x"},
                  {**job, "first_row": 1},
                  {**job, "stream": "0" * 64}, {**job, "stream": "0" * 64, "first_row": -1},
                  {**job, "stream": "x", "first_row": 1},
                  {**job, "first_row": 1, "seed": None}):
        assert not check.is_valid(wrong), wrong
