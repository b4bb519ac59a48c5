"""
Trainings with several phases: their answers compared with closed forms and with each other, the largest number verified
by solving again, and the matrix and errors of each phase.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import copy
import csv
import io
import json
import subprocess

import numpy
import pytest

from closed_forms import gaussian_delta
from conftest import BINARY, PATIENCE, ROOT, check_problem
from test_contract import check_schema

pytestmark = pytest.mark.sanitized
POISSON = {"n": 200, "sampling": {"scheme": "poisson", "p": 0.01}}
BANDED = {"n": 64, "matrix": {"family": "square_root", "bands": 4}, "sampling": {"scheme": "cyclic_poisson", "p": 0.05}}
RELEASE = {"n": 8, "matrix": {"family": "tree"}, "sampling": {"scheme": "none"}, "noise_scale": 8}
ASKED = {"noise_multiplier": 1.0, "delta": 1e-6}
WARM_UP = json.loads((ROOT / "api" / "examples" / "warm_up_and_fine_tunings.json").read_text())


def training(*phases, **asked):
    return {"phases": list(phases), **(asked or ASKED)}


def figures(document):
    result = document["result"]
    return [result[name] for name in ("solved_for", "epsilon", "delta", "noise_multiplier", "bracket", "directions")]


@pytest.mark.parametrize("asked", [ASKED, {"noise_multiplier": 1.0, "epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}],
                         ids=["epsilon", "delta", "noise"])
def test_one_phase_is_the_job_itself(server, asked):
    alone, phase = server.solve({**BANDED, **asked}), server.solve(training(BANDED, **asked))
    assert figures(alone) == figures(phase)
    assert alone["result"]["accountant"] == phase["result"]["accountant"]
    (own,) = phase["result"]["phases"]
    for member in ("sampling", "sensitivity", "factorization", "error", "adaptive"):
        assert own[member] == alone["result"][member]
    for member in ("sampling", "sensitivity", "factorization", "error"):
        assert phase["result"][member] is None


@pytest.mark.parametrize("parts, sigma", [
    ([dict(POISSON, n=50), dict(POISSON, n=150)], 1.0), ([dict(POISSON, n=20, count=10)], 1.0),
    ([dict(POISSON, n=100, noise_scale=0.5)] * 2, 2.0)], ids=["parts", "runs", "scaled"])
def test_a_phase_is_split_without_a_trace(server, parts, sigma):
    whole = server.solve({**POISSON, **ASKED})["result"]
    result = server.solve(training(*parts, delta=1e-6, noise_multiplier=sigma))["result"]
    for d in ("remove", "add"):
        assert result["directions"][d]["value"] == pytest.approx(whole["directions"][d]["value"], rel=1.01e-3)
    assert result["epsilon"] >= whole["bracket"]["lower"] and whole["epsilon"] >= result["bracket"]["lower"]


@pytest.mark.parametrize("delta", [1e-6, 1e-30])
def test_releases_without_sampling_are_one_gaussian(server, delta):
    """Sensitivity 1 over the noise of each run: the squares add up."""
    release = {"n": 1, "sampling": {"scheme": "none"}}
    phases = [dict(release, noise_scale=2), dict(release, noise_scale=5, count=30), dict(release, noise_scale=0.75)]
    document = server.solve(training(*phases, noise_multiplier=3.0, delta=delta))
    mu = sum(p.get("count", 1) / (3.0 * p["noise_scale"])**2 for p in phases)**0.5
    bracket = document["result"]["bracket"]
    assert gaussian_delta(mu, bracket["upper"]) <= delta * (1 + 1e-9)
    assert gaussian_delta(mu, bracket["lower"]) >= delta * (1 - 1e-9)
    assert document["result"]["epsilon"] == bracket["upper"]
    assert bracket["upper"] - bracket["lower"] <= 1.01e-3 * bracket["upper"]
    for phase, result in zip(phases, document["result"]["phases"]):
        assert result["count"] == phase.get("count", 1)
        assert result["noise_multiplier"] == 3.0 * phase["noise_scale"]
        alone = (result["count"])**0.5 / result["noise_multiplier"]
        assert gaussian_delta(alone, result["epsilon"]) <= delta * (1 + 1e-9)
        assert 0 < result["share"] < 1


def test_the_warm_up_and_its_twenty_fine_tunings(server):
    document = server.solve(WARM_UP)
    check_schema(document, "Job")
    result = document["result"]
    assert result["solved_for"] == "noise_multiplier" and result["guarantee"] == "deterministic"
    assert [phase["n"] for phase in document["job"]["phases"]] == [469, 1172, 100]
    assert [phase["count"] for phase in result["phases"]] == [1, 1, 20]
    assert [phase["sampling"]["p"] for phase in result["phases"]] == [128 / 60000, 4 * 512 / 60000, 1024 / 60000]
    sigma = result["noise_multiplier"]
    for phase, scale in zip(result["phases"], (1, 1, 1.5)):
        assert phase["noise_multiplier"] == sigma * scale
        assert 0 < phase["epsilon"] < result["epsilon"] and 0 < phase["share"] < 1
        assert set(phase["directions"]) == {"remove", "add"}
    assert max(result["phases"], key=lambda phase: phase["share"])["count"] == 1
    # The answer satisfies the target: the epsilon at this noise is at most the requested one.
    again = dict(document["job"], noise_multiplier=sigma, epsilon=None)
    assert server.solve(again)["result"]["bracket"]["lower"] <= WARM_UP["epsilon"]
    # The same job with its phases in another order costs the same.
    turned = server.solve(dict(WARM_UP, phases=WARM_UP["phases"][::-1]))["result"]
    assert turned["noise_multiplier"] == pytest.approx(sigma, rel=2e-3)


def test_the_returned_job_is_the_same_job(server):
    for job in (WARM_UP, training(dict(POISSON, count="max"), epsilon=1.0, **ASKED),
                dict(POISSON, n="max", epsilon=1.0, **ASKED)):
        document = server.solve(job)
        answer = server.solve(document["job"])
        assert answer["job"] == document["job"]
        assert answer["result"]["cache"]["result"] == "hit"


def without(job, *names):
    return {name: value for name, value in job.items() if name not in names}


@pytest.mark.parametrize("job", [dict(POISSON, epsilon=1.0, **ASKED),
                                 {"n": None, "sampling": {"scheme": "cyclic_poisson", "p": 0.05, "groups": 7},
                                  "epsilon": 0.5, "delta": 1e-7, "noise_multiplier": 2.0}], ids=["poisson", "cyclic"])
def test_the_largest_n_is_kept_and_the_next_is_not(server, job):
    document = server.solve(dict(job, n="max"))
    result, promise = document["result"], job["epsilon"]
    assert result["solved_for"] == "n"
    n = result["n"]
    assert n > 0 and result["bracket"]["lower"] <= n <= result["bracket"]["upper"]
    assert all(float(value).is_integer() for value in result["bracket"].values())
    groups = job["sampling"].get("groups", 1)  # the turns of a group are what counts
    tight = {"method": "auto", "tolerance": 1e-6}
    asked = dict(without(job, "epsilon"), accountant=tight)
    assert server.solve(dict(asked, n=n))["result"]["epsilon"] <= promise
    assert server.solve(dict(asked, n=result["bracket"]["upper"] + groups))["result"]["epsilon"] > promise
    # Its matrix and its errors are those for this number of steps.
    assert len(server.get(document["links"]["error"]).json()["variance"]) == n
    assert server.get(document["links"]["matrix"]).json()["coefficients"] == [1] + [0] * (n - 1)
    assert result["error"]["last_squared"] == pytest.approx(n * job["noise_multiplier"]**2)
    assert len(server.get(document["links"]["curve"]).json()["points"]) == 201


def test_no_step_keeps_a_promise_that_is_too_small(server):
    document = server.solve({"n": "max", "sampling": {"scheme": "poisson", "p": 1}, "epsilon": 0.1, "delta": 1e-9,
                             "noise_multiplier": 0.5})
    assert document["result"]["n"] == 0
    problem = check_problem(server.get(document["links"]["matrix"]), 409, "conflict")
    assert "n is 0" in problem["detail"]
    check_problem(server.get(document["links"]["error"]), 409, "conflict")


def test_the_largest_count_is_kept_and_the_next_is_not(server):
    phases = [dict(BANDED), dict(POISSON, n=50, noise_scale=2, count="max")]
    document = server.solve(training(*phases, epsilon=2.5, **ASKED))
    check_schema(document, "Job")
    result = document["result"]
    assert result["solved_for"] == "count" and result["phases"][1]["count"] == result["count"] > 0
    phases[1]["count"] = result["count"]
    tight = {"method": "auto", "tolerance": 1e-6}
    assert server.solve(training(*phases, accountant=tight, **ASKED))["result"]["epsilon"] <= 2.5
    phases[1]["count"] = int(result["bracket"]["upper"]) + 1
    assert server.solve(training(*phases, accountant=tight, **ASKED))["result"]["epsilon"] > 2.5


def test_no_count_keeps_a_promise_that_the_others_break(server):
    others = dict(POISSON, n=300)
    document = server.solve(training(others, dict(POISSON, n=20, count="max"), epsilon=0.5, **ASKED))
    check_schema(document, "Job")
    result, rest = document["result"], server.solve(dict(others, **ASKED))["result"]
    assert result["count"] == result["phases"][1]["count"] == 0
    assert result["bracket"] == {"lower": 0, "upper": 0, "exact": False}
    # The returned epsilon holds: it is that of the other phases.
    assert rest["bracket"]["lower"] <= result["epsilon"] <= rest["epsilon"] * 1.0011 and result["epsilon"] > 0.5
    assert "no count does" in result["hints"][0]
    assert result["phases"][1]["epsilon"] is None
    points = server.get(document["links"]["spend"]).json()["points"]
    assert points[-1]["step"] == 300 and points[-1]["epsilon"] == pytest.approx(result["epsilon"], rel=1.1e-2)
    guarantee = server.get(document["links"]["statement"], headers={"Accept": "application/json"}).json()["guarantee"]
    assert guarantee["epsilon"] == result["epsilon"]


def test_each_phase_has_its_matrix_and_its_errors(server):
    document = server.solve(training(dict(POISSON, n=9), dict(BANDED, noise_scale=0.5, count=2), RELEASE))
    links, phases = document["links"], document["result"]["phases"]
    for index, (n, scale) in enumerate([(9, 1), (64, 0.5), (8, 8)]):
        error = server.get(f"{links['error']}?phase={index}").json()
        assert error["noise_multiplier"] == scale
        variance = numpy.array(error["variance"])
        assert variance.shape == (n,)
        figures_of = phases[index]["error"]
        assert variance.mean() == pytest.approx(figures_of["mean_squared"], rel=1e-12)
        assert variance[-1] == pytest.approx(figures_of["last_squared"], rel=1e-12)
    rows = list(csv.DictReader(io.StringIO(
        server.get(links["error"] + "?phase=1", headers={"Accept": "text/csv"}).text)))
    assert len(rows) == 64
    first = server.get(links["matrix"] + "?phase=0").json()["coefficients"]
    assert first == [1] + [0] * 8
    second = numpy.array(server.get(links["matrix"] + "?phase=1").json()["coefficients"])
    alone = server.solve({**BANDED, **ASKED})
    assert server.get(alone["links"]["matrix"]).json()["coefficients"] == second.tolist()
    assert phases[1]["factorization"]["id"] == alone["result"]["factorization"]["id"]
    assert len(server.get(links["matrix"] + "?phase=2&part=noise").json()["rows"][0]) > 0
    bands = server.get(links["matrix"] + "?phase=1&form=bands").json()["bands"]
    assert len(bands) == 64 and bands[9] == second[:4].tolist()


def test_the_phase_is_asked_for_where_there_are_phases(server):
    links = server.solve(training(POISSON, BANDED))["links"]
    for link in (links["matrix"], links["error"]):
        assert "phases of the job are 0 to 1" in check_problem(server.get(link), 422, "invalid-job", "?phase")["detail"]
        for wrong in ("2", "255", "999999999"):
            check_problem(server.get(f"{link}?phase={wrong}"), 422, "invalid-job", "?phase")
        for wrong in ("", "-1", "1.0", "x", "9999999999", "%201"):
            check_problem(server.get(f"{link}?phase={wrong}"), 422, "invalid-job", "?phase")
    alone = server.solve({**POISSON, **ASKED})["links"]
    for link in (alone["matrix"], alone["error"]):
        assert server.get(link).status_code == 200
        problem = check_problem(server.get(link + "?phase=0"), 422, "invalid-job", "?phase")
        assert "remove it" in problem["detail"]


def test_the_curve_goes_through_the_answer(server):
    job = training(POISSON, BANDED, RELEASE)
    document = server.solve(job)
    points = server.get(document["links"]["curve"]).json()["points"]
    assert len(points) == 201 and points[0]["epsilon"] == 0
    epsilon = document["result"]["epsilon"]
    nearest = [point for point in points if point["epsilon"] >= epsilon][0]
    assert nearest["delta"] <= ASKED["delta"] * 1.01
    whole = server.solve(dict(without(job, "delta"), curve=True))
    assert whole["result"]["solved_for"] == "curve"
    assert [phase["count"] for phase in whole["result"]["phases"]] == [1, 1, 1]
    assert len(server.get(whole["links"]["error"] + "?phase=0").json()["variance"]) == 200


def test_what_is_spent_rises_to_the_answer(server):
    document = server.solve(training(dict(POISSON, n=50), dict(RELEASE, count=2), dict(POISSON, n=150)))
    path = document["links"]["spend"]
    spend = server.get(path).json()
    check_schema(spend, "Spend")
    steps = [point["step"] for point in spend["points"]]
    epsilons = [point["epsilon"] for point in spend["points"]]
    assert {50, 58, 66, 216} <= set(steps) and steps == sorted(set(steps)) and steps[-1] == 216
    assert not {51, 57, 59, 65} & set(steps)  # within a tree there are no points
    for before, after in zip(epsilons, epsilons[1:]):
        assert after >= before * (1 - 1e-2)
    assert epsilons[-1] == pytest.approx(document["result"]["epsilon"], rel=1.1e-2)
    # At a boundary it is the epsilon of the completed part.
    first = server.solve(dict(POISSON, n=50, **ASKED))["result"]
    assert first["bracket"]["lower"] <= epsilons[steps.index(50)] <= first["epsilon"] * 1.02
    answer = server.get(path, headers={"Accept": "text/csv"})
    assert answer.headers["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(int(row["step"]), float(row["epsilon"])) for row in rows] == list(zip(steps, epsilons))
    check_problem(server.get(path + "?phase=0"), 422, "invalid-job", "?phase")
    check_problem(server.get(path, headers={"Accept": "image/png"}), 406, "not-acceptable")


def test_what_is_spent_of_an_answer_for_noise_or_for_the_largest(server):
    for job in ({**POISSON, "epsilon": 1.0, "delta": 1e-6}, dict(POISSON, n="max", epsilon=1.0, **ASKED),
                training(POISSON, dict(POISSON, n=20, count="max"), epsilon=1.5, **ASKED)):
        document = server.solve(job)
        points = server.get(document["links"]["spend"]).json()["points"]
        result = document["result"]
        last = {"n": result.get("n"), "count": 200 + 20 * result.get("count", 0)}.get(result["solved_for"], 200)
        assert points[-1]["step"] == last
        assert job["epsilon"] * 0.9 < points[-1]["epsilon"] < job["epsilon"] * 1.01


def test_why_nothing_is_told_of_what_was_spent(server):
    curve = server.solve(dict(POISSON, noise_multiplier=1.0, curve=True))
    none = server.solve({"n": 10, "sampling": {"scheme": "poisson", "p": 0.01}, "epsilon": 1, "delta": 0.5})
    drawn = server.solve({"n": 8, "matrix": {"family": "square_root", "bands": 2}, "noise_multiplier": 1.0,
                          "delta": 1e-2,
                          "sampling": {"scheme": "b_min_sep", "p": 0.1}, "accountant": "monte_carlo"})
    nothing = server.solve({"n": "max", "sampling": {"scheme": "poisson", "p": 1}, "epsilon": 0.1, "delta": 1e-9,
                            "noise_multiplier": 0.5})
    for document, word in ((curve, "delta"), (none, "noise"), (drawn, "parts of a job"), (nothing, "n is 0")):
        assert word in check_problem(server.get(document["links"]["spend"]), 409, "conflict")["detail"]


def test_what_is_of_the_job_is_not_of_a_phase(server):
    problem = check_problem(server.post(dict(training(dict(POISSON, adjacency="zero_out")), n=3)), 422, "invalid-job")
    assert {error["pointer"] for error in problem["errors"]} == {"/n", "/phases/0/adjacency"}
    problem = check_problem(server.post(dict(training(POISSON, RELEASE), accountant="monte_carlo")), 422, "unsupported",
                            "/accountant")
    assert "phase 0" in problem["detail"] and "conditional_composition serves the scheme" in problem["detail"]
    assert problem["accountants"] == ["gaussian", "pld", "mmcc", "renyi"]
    # The message of an accountant that composes is kept, and only accountants that compose are named.
    spaced = {"n": 8, "matrix": {"family": "square_root", "bands": 2}, "sampling": {"scheme": "b_min_sep", "p": 0.1}}
    problem = check_problem(server.post(dict(training(RELEASE, spaced), accountant="pld")), 422, "unsupported",
                            "/phases/1/sampling/scheme")
    assert problem["accountants"] == ["gaussian", "renyi"]


def test_lists_show_trainings_without_arrays_and_end_before_they_are_too_long(launch):
    server = launch()
    given = dict(POISSON, n=9, matrix={"family": "toeplitz", "coefficients": [1, 0.5]})
    document = server.solve(training(given, POISSON))
    (item,) = server.get("/v1/jobs").json()["items"]
    assert "coefficients" not in item["job"]["phases"][0]["matrix"]
    assert document["job"]["phases"][0]["matrix"]["coefficients"] == [1, 0.5]
    check_schema(server.get("/v1/jobs").json(), "JobList")
    many, total = training(*[POISSON] * 256), 30
    for i in range(total):
        server.solve(dict(many, label=str(i)))
    seen, page = [], server.get("/v1/jobs?limit=500").json()
    assert len(page["items"]) < total and page["next"]
    while True:
        assert len(json.dumps(page)) < 6 << 20
        seen += [item["label"] for item in page["items"]]
        if not page["next"]:
            break
        page = server.get(f"/v1/jobs?limit=500&cursor={page['next']}").json()
    assert seen == [str(i) for i in reversed(range(total))] + [None]


def test_the_command_takes_the_same_documents(server):
    done = subprocess.run([BINARY, "solve", "-"], input=json.dumps(WARM_UP), capture_output=True, text=True,
                          timeout=PATIENCE, check=True)
    document = server.solve(WARM_UP)
    assert figures(json.loads(done.stdout)) == figures(document)
    wrong = copy.deepcopy(WARM_UP)
    wrong["phases"][2]["sampling"]["p"] = 7
    done = subprocess.run([BINARY, "solve", "-"], input=json.dumps(wrong), capture_output=True, text=True,
                          timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert json.loads(done.stdout)["errors"][0]["pointer"] == "/phases/2/sampling/p"
