"""The curve, the matrix and the error per step of a succeeded job, in all representations."""
import csv
import io
import json
import subprocess
import threading

import numpy
import pytest

from conftest import BINARY, DP_SGD, ENDLESS, GAUSSIAN, PATIENCE, check_problem

pytestmark = pytest.mark.sanitized
SQUARE_ROOT = {"n": 64, "matrix": {"family": "square_root"}, "sampling": {"scheme": "none", "epochs": 2},
               "noise_multiplier": 2.0, "delta": 1e-6}
DENSE = {"n": 3, "matrix": {"family": "dense", "rows": [[1], [0.5, 1], [0.25, 0.5, 1]], "normalization": "none"},
         "sampling": {"scheme": "none"}, "noise_multiplier": 2.0, "delta": 1e-6}


def test_curve_as_json_and_csv(server):
    document = server.solve(DP_SGD)
    path = document["links"]["curve"]
    points = server.get(path).json()["points"]
    assert len(points) == 201
    assert points[0]["epsilon"] == 0
    for previous, point in zip(points, points[1:]):
        assert point["epsilon"] > previous["epsilon"]
        assert point["delta"] <= previous["delta"]
    for point in points:
        assert point["delta"] == max(point["remove"], point["add"])
        assert 0 <= point["lower"] <= point["delta"] <= 1
    answer = server.get(path, headers={"Accept": "text/csv"})
    assert answer.headers["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert list(rows[0]) == ["epsilon", "delta", "lower", "remove", "add"]
    assert [{name: float(value) for name, value in row.items()} for row in rows] == points
    # The curve passes through the answer: at its epsilon, delta is approximately the requested one.
    deltas = numpy.interp(document["result"]["epsilon"], [p["epsilon"] for p in points],
                          numpy.log([p["delta"] for p in points]))
    assert abs(deltas - numpy.log(1e-6)) < 0.1


def test_a_curve_that_is_under_its_end_from_the_start_has_a_range(server):
    """Delta is at most the probability of taking part at all. A defect had put all points at epsilon 0."""
    points = server.solve({"n": 2, "sampling": {"scheme": "poisson", "p": 1.15e-19}, "noise_multiplier": 1.3,
                           "curve": True})["result"]["curve"]
    assert [point["epsilon"] for point in points] == [i / 200 for i in range(201)]
    for point in points:
        assert 0 <= point["lower"] <= point["delta"] <= 2.31e-19
        assert point["delta"] > 0


def test_a_job_for_the_curve_has_it_in_its_result(server):
    job = {"n": 200, "sampling": DP_SGD["sampling"], "noise_multiplier": 1.0, "curve": True}
    document = server.solve(job)
    result = document["result"]
    assert result["solved_for"] == "curve"
    assert result["epsilon"] is None and result["delta"] is None
    assert result["curve"] == server.get(document["links"]["curve"]).json()["points"]
    item = [item for item in server.get("/v1/jobs").json()["items"] if item["id"] == document["id"]][0]
    assert "curve" not in item["result"]
    assert server.solve(job)["result"]["curve"] == result["curve"]


def test_no_curve_where_no_noise_is_needed(server):
    # Without noise, delta is at most the probability of taking part at all, about 0.1.
    document = server.solve({"n": 10, "sampling": {"scheme": "poisson", "p": 0.01}, "epsilon": 1, "delta": 0.5})
    assert document["result"]["noise_multiplier"] == 0
    problem = check_problem(server.get(document["links"]["curve"]), 409, "conflict")
    assert "noise" in problem["detail"]


def test_no_curve_before_the_end(launch):
    server = launch()
    running = server.post(ENDLESS).json()["id"]
    check_problem(server.get(f"/v1/jobs/{running}/curve"), 409, "conflict")
    check_problem(server.get(f"/v1/jobs/{running}/matrix"), 409, "conflict")
    server.post(None, f"/v1/jobs/{running}/cancel")
    check_problem(server.get("/v1/jobs/01234567-0000-7000-8000-000000000000/curve"), 404, "not-found")
    check_problem(server.get("/v1/jobs/x/matrix"), 404, "not-found")


def npy(server, path):
    answer = server.get(path, headers={"Accept": "application/x-npy"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "application/x-npy"
    return numpy.load(io.BytesIO(answer.content))


def lower_toeplitz(column):
    n = len(column)
    return numpy.array([[column[i - j] if i >= j else 0 for j in range(n)] for i in range(n)])


def test_matrix_of_a_toeplitz_strategy(server):
    document = server.solve(SQUARE_ROOT)
    path = document["links"]["matrix"]
    both = server.get(path).json()
    encoder, noise = both["coefficients"], both["inverse_coefficients"]
    assert len(encoder) == 64
    assert numpy.allclose(lower_toeplitz(encoder) @ lower_toeplitz(noise), numpy.eye(64), atol=1e-12)
    # C is a multiple of the square root of the prefix sum matrix.
    square = lower_toeplitz(encoder) @ lower_toeplitz(encoder)
    assert numpy.allclose(square / square[0, 0], numpy.tri(64))
    assert numpy.array_equal(npy(server, path), encoder)
    assert numpy.array_equal(npy(server, path + "?part=noise"), noise)
    decoder = npy(server, path + "?part=decoder")
    assert numpy.allclose(decoder, numpy.cumsum(noise))
    assert server.get(path + "?part=decoder").json()["coefficients"] == decoder.tolist()


def test_matrix_of_a_dense_strategy(server):
    path = server.solve(DENSE)["links"]["matrix"]
    expected = numpy.array([[1, 0, 0], [0.5, 1, 0], [0.25, 0.5, 1]])
    assert server.get(path).json()["rows"] == expected.tolist()
    assert numpy.array_equal(npy(server, path), expected)
    assert numpy.allclose(npy(server, path + "?part=noise"), numpy.linalg.inv(expected))
    assert numpy.allclose(npy(server, path + "?part=decoder"), numpy.tri(3) @ numpy.linalg.inv(expected))


def test_large_rows_are_npy_only(server):
    job = {"n": 1000, "matrix": {"family": "tree"}, "sampling": {"scheme": "none"}, "noise_multiplier": 5.0,
           "delta": 1e-6}
    path = server.solve(job)["links"]["matrix"]
    check_problem(server.get(path), 406, "not-acceptable")
    matrix = npy(server, path)
    assert matrix.shape[1] == 1000 and numpy.isfinite(matrix).all()


def test_unknown_part(server):
    path = server.solve(GAUSSIAN)["links"]["matrix"]
    check_problem(server.get(path + "?part=both"), 422, "invalid-job")


def by_bands(matrix, bands):
    return numpy.array([[matrix[i, i - d] if d <= i else 0 for d in range(bands)] for i in range(len(matrix))])


@pytest.mark.parametrize("matrix", [
    {"family": "banded", "bands": 4, "column_normalize": True}, {"family": "banded", "bands": 4, "toeplitz": False},
    {"family": "square_root", "bands": 4}, {"family": "square_root", "bands": 4, "stamps": 3},
    {"family": "dense", "rows": [[float(i + 2)] if i == 0 else [0] * (i - 1) + [1.5, float(i)] for i in range(12)]},
], ids=["normalised", "columns", "toeplitz", "stamped", "dense"])
def test_matrix_by_its_bands(server, matrix):
    job = {"n": 12, "matrix": matrix, "sampling": {"scheme": "none"}, "noise_multiplier": 2.0, "delta": 1e-6}
    path = server.solve(job)["links"]["matrix"]
    encoder = npy(server, path)
    encoder = lower_toeplitz(encoder) if encoder.ndim == 1 else encoder
    bands = npy(server, path + "?form=bands")
    assert bands.shape == (12, 2 if matrix["family"] == "dense" else 4)
    assert numpy.array_equal(bands, by_bands(encoder, bands.shape[1]))
    answer = server.get(path + "?part=encoder&form=bands").json()
    assert answer == {"part": "encoder", "bands": bands.tolist()}
    # The documented formula, row by row from the bands only.
    noise = numpy.random.default_rng(1).standard_normal(12)
    x = numpy.zeros(12)
    for t in range(12):
        x[t] = (noise[t] - sum(bands[t, d] * x[t - d] for d in range(1, min(t + 1, bands.shape[1])))) / bands[t, 0]
    assert numpy.allclose(encoder @ x, noise, atol=1e-12)


def test_bands_of_a_long_matrix(server):
    n = 20000
    job = {"n": n, "matrix": {"family": "banded", "bands": 8, "column_normalize": True}, "noise_multiplier": 2.0,
           "sampling": {"scheme": "none"}, "delta": 1e-6}
    path = server.solve(job)["links"]["matrix"]
    bands = npy(server, path + "?form=bands")
    assert bands.shape == (n, 8)
    assert server.get(path + "?form=bands").json()["bands"] == bands.tolist()
    columns = numpy.zeros((n, 8))
    for d in range(8):
        columns[:n - d, d] = bands[d:, d]
    assert numpy.allclose((columns**2).sum(axis=1), 1, atol=1e-12)


def test_bands_that_are_not_there(server):
    tree = server.solve({"n": 8, "matrix": {"family": "tree"}, "sampling": {"scheme": "none"},
                         "noise_multiplier": 5.0, "delta": 1e-6})["links"]["matrix"]
    check_problem(server.get(tree + "?form=bands"), 422, "unsupported")
    path = server.solve(GAUSSIAN)["links"]["matrix"]
    check_problem(server.get(path + "?form=diagonals"), 422, "invalid-job")
    check_problem(server.get(path + "?form=bands&part=noise"), 422, "invalid-job")


def test_error_per_step(server):
    document = server.solve(SQUARE_ROOT)
    path = document["links"]["error"]
    answer = server.get(path).json()
    assert answer["noise_multiplier"] == 2
    variance = numpy.array(answer["variance"])
    assert variance.shape == (64,)
    error = document["result"]["error"]
    assert variance.mean() == pytest.approx(error["mean_squared"], rel=1e-12)
    assert variance.max() == pytest.approx(error["max_squared"], rel=1e-12)
    assert variance[-1] == pytest.approx(error["last_squared"], rel=1e-12)
    # Compared with the decoder itself.
    decoder = npy(server, document["links"]["matrix"] + "?part=decoder")
    decoder = numpy.array([[decoder[i - j] if i >= j else 0 for j in range(64)] for i in range(64)])
    assert numpy.allclose(variance, 4 * (decoder ** 2).sum(axis=1), rtol=1e-12)
    answer = server.get(path, headers={"Accept": "text/csv"})
    assert answer.headers["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert list(rows[0]) == ["step", "variance"]
    assert [int(row["step"]) for row in rows] == list(range(64))
    assert [float(row["variance"]) for row in rows] == list(variance)
    check_problem(server.get(path, headers={"Accept": "image/png"}), 406, "not-acceptable")


def test_the_error_of_a_curve_alone_is_at_its_noise(server):
    curve = server.solve({"n": 8, "sampling": {"scheme": "none"}, "noise_multiplier": 3.0, "curve": True})
    answer = server.get(curve["links"]["error"]).json()
    assert answer["noise_multiplier"] == 3
    assert answer["variance"] == pytest.approx([9 * (i + 1) for i in range(8)], rel=1e-12)


def test_a_long_error_is_streamed(server):
    n = 1 << 17
    document = server.solve({"n": n, "matrix": {"family": "square_root", "bands": 16}, "sampling": {"scheme": "none"},
                             "noise_multiplier": 2.0, "delta": 1e-6})
    variance = numpy.array(server.get(document["links"]["error"]).json()["variance"])
    assert variance.shape == (n,)
    assert variance[-1] == pytest.approx(document["result"]["error"]["last_squared"], rel=1e-9)


def test_no_error_where_there_is_no_inverse(server):
    job = {"n": 4, "matrix": {"family": "toeplitz", "coefficients": [0, 1]}, "sampling": {"scheme": "none"},
           "noise_multiplier": 2.0, "delta": 1e-6}
    document = server.solve(job)
    assert document["result"]["error"] is None
    assert any("no inverse" in hint for hint in document["result"]["hints"])
    check_problem(server.get(document["links"]["error"]), 422, "unsupported")
    check_problem(server.get("/v1/jobs/x/error"), 404, "not-found")


@pytest.mark.parametrize("n", [309, 312, 322])
def test_no_error_beyond_doubles(server, n):
    """The variances of the last steps overflow: through sigma^2, their sum, or by themselves."""
    job = {"n": n, "matrix": {"family": "toeplitz", "coefficients": [1, 3], "normalization": "none"},
           "sampling": {"scheme": "none"}, "noise_multiplier": 1e9, "delta": 1e-6}
    document = server.solve(job)
    assert document["result"]["error"] is None
    assert any("error is null" in hint for hint in document["result"]["hints"])
    check_problem(server.get(document["links"]["error"]), 422, "unsupported")


def test_error_over_many_orders_of_magnitude(server):
    """Rows of B that grow to 1e85: the first step is the square of 1/C[0, 0], which the rounding of a transform would
    hide."""
    job = {"n": 1200, "matrix": {"family": "square_root"}, "sampling": {"scheme": "none"}, "noise_multiplier": 1,
           "workload": {"type": "toeplitz", "coefficients": [1, 1.1] + [0.01] * 70}, "delta": 1e-6}
    document = server.solve(job)
    encoder = server.get(document["links"]["matrix"]).json()["coefficients"]
    variance = server.get(document["links"]["error"]).json()["variance"]
    assert variance[0] == pytest.approx(1 / encoder[0]**2, rel=1e-12)
    second = (1.1 - encoder[1] / encoder[0]) / encoder[0]
    assert variance[1] == pytest.approx(1 / encoder[0]**2 + second**2, rel=1e-12)
    decoder = server.get(document["links"]["matrix"] + "?part=decoder").json()["coefficients"]
    assert numpy.cumsum(numpy.square(decoder)) == pytest.approx(variance, rel=1e-9)


def test_finished_jobs_answer_while_all_workers_compute(launch):
    server = launch("--workers", "1")
    document = server.solve(SQUARE_ROOT)
    busy = server.post(ENDLESS).json()["id"]
    server.until(busy, "running")
    for link in ("matrix", "error"):
        assert server.get(document["links"][link]).status_code == 200
    assert server.get(f"/v1/jobs/{busy}").json()["status"] == "running"
    server.request("POST", f"/v1/jobs/{busy}/cancel")


def test_a_curve_that_was_lost_is_computed_when_asked_for(launch):
    server = launch()
    wanted = server.get(server.solve(DP_SGD)["links"]["curve"]).json()
    server.stop()
    # The command computes no curve: its result is like that of a process that ended right after the answer.
    other = dict(DP_SGD, delta=1e-5)
    subprocess.run([BINARY, "solve", "--db", server.database, "-"], text=True, timeout=PATIENCE,
                   input=json.dumps(other), stdout=subprocess.DEVNULL, check=True)
    server.start()
    document = server.solve(other)
    assert document["result"]["cache"]["result"] == "hit"
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(server.get(document["links"]["curve"])))
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.status_code for answer in answers] == [200] * 4
    assert all(answer.json() == wanted for answer in answers)
    server.kill()
    server.start()
    assert server.get(document["links"]["curve"]).json() == wanted


def test_a_kill_right_after_the_answer_loses_no_curve(launch):
    server = launch()
    links = []
    for n in range(300, 306):
        links.append(server.solve(dict(DP_SGD, n=n))["links"]["curve"])
    server.kill()
    server.start()
    for link in links:
        assert len(server.get(link).json()["points"]) == 201
