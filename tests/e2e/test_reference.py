"""
Numbers computed by others, over HTTP: the rows of tests/paper/reference.json that a job can express (one Gaussian,
composed Gaussians, Poisson sampling, binomial mixtures). Rows with the same mechanism and delta are the two directions
of one job. A number of dp_accounting has errors of its own: the rounding errors that the file states, and about the
spacing of its grid upwards. If the exact value is known, it must lie inside our bracket.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import json

import pytest

from conftest import PATIENCE, ROOT

TOLERANCE = 1e-5
ROWS = json.loads((ROOT / "tests" / "paper" / "reference.json").read_text())["pld"]["rows"]
DIRECTIONS = {"REMOVE": ["remove"], "ADD": ["add"], "both(symmetric)": ["remove", "add"]}
# p of the mixtures Binomial(4, p) whose atoms are listed in the file.
GROUP = [0.96059601, 0.03881196, 0.00058806, 3.96e-06, 1e-08]


def mechanism_of(row):
    """The job of the row without delta, or None: only the library supports general mixtures and truncated batches."""
    name, params = row["mechanism"], row["params"]
    if name in ("gaussian", "poisson_gaussian"):
        return {"n": params["steps"], "noise_multiplier": params.get("sigma_effective", params["sigma"]),
                "sampling": {"scheme": "poisson", "p": params.get("q", 1)}}
    if name != "mixture_gaussian":
        return None
    if row["id"].startswith("mog/binom(128,1_128)/"):
        # The sum of 128 steps with variance 128 sigma^2.
        return {"n": 128, "noise_multiplier": params["sigma"] / 128**0.5,
                "sampling": {"scheme": "poisson", "p": 1 / 128, "last_iterate": True}}
    if params["probs"] == GROUP:
        return {"n": params["steps"], "noise_multiplier": params["sigma"],
                "sampling": {"scheme": "poisson", "p": 0.01, "examples_per_user": 4}}
    return None


def jobs_of_rows():
    """[(job, rows)]: each job once, with every row that it answers."""
    jobs = {}
    for row in ROWS:
        mechanism = mechanism_of(row)
        if mechanism:
            job = dict(mechanism, delta=row["delta"], accountant={"method": "pld", "tolerance": TOLERANCE})
            jobs.setdefault(json.dumps(job, sort_keys=True), (job, []))[1].append(row)
    return list(jobs.values())


JOBS = jobs_of_rows()


@pytest.fixture(scope="module")
def answers(server):
    """All jobs are posted before the first result is read."""
    posted = [server.post(job) for job, _ in JOBS]
    assert {answer.status_code for answer in posted} <= {200, 202}, [answer.text for answer in posted]
    results = []
    for answer in posted:
        document = server.get(f"{answer.headers['Location']}?wait={min(PATIENCE, 300)}").json()
        assert document["status"] == "succeeded", document
        results.append(document["result"])
    return results


def test_most_rows_are_jobs():
    names = [row["mechanism"] for _, rows in JOBS for row in rows]
    assert names.count("gaussian") == 34
    assert names.count("poisson_gaussian") == 38
    assert names.count("mixture_gaussian") == 23  # all except the four rows of a mixture that is not binomial


def error_of(row):
    """How far the epsilon of the row may lie below and above the true value."""
    spacing = row["value_discretization_interval"] or 1e-6
    if row["params"].get("steps", 1) == 1:
        return 1e-6, spacing
    if row["params"].get("q") == 1:
        return 1e-2, 1e-2
    # Noise of the transform that is clipped at zero adds mass, 6e-14 at 2052 steps: test_accounting.py computes it
    # independently.
    return (1e-4, 1e-3) if row["delta"] <= 1e-10 else (1e-6, spacing)


def check_row(row, result):
    bracket = result["bracket"]
    assert bracket["lower"] <= result["epsilon"] == bracket["upper"]
    assert bracket["upper"] - bracket["lower"] <= TOLERANCE * bracket["upper"]
    too_low, too_high = error_of(row)
    for direction in DIRECTIONS[row["adjacency"]]:
        value = result["directions"][direction]["value"]
        assert value <= result["epsilon"]
        # The true value lies between value (1 - TOLERANCE) and value.
        assert value * (1 - TOLERANCE) <= row["epsilon"] + too_low, direction
        assert value >= row["epsilon"] - too_high, direction
    if row["epsilon_exact"] is not None:
        assert bracket["lower"] <= row["epsilon_exact"] <= bracket["upper"]


@pytest.mark.parametrize("index,row", [(i, row) for i, (_, rows) in enumerate(JOBS) for row in rows],
                         ids=[row["id"] for _, rows in JOBS for row in rows])
def test_row(answers, index, row):
    check_row(row, answers[index])


def test_the_composition_is_the_single_gaussian(server):
    """2052 participations of the whole data set without sampling: one Gaussian with sensitivity sqrt(2052)."""
    exact = [row for row in ROWS if row["params"].get("sigma_effective")]
    assert len(exact) >= 8
    for row in exact:
        result = server.solve({"n": 2052, "sampling": {"scheme": "none", "epochs": 2052, "separation": 1},
                               "noise_multiplier": row["params"]["sigma"], "delta": row["delta"],
                               "accountant": {"method": "gaussian", "tolerance": 1e-9}})["result"]
        assert result["sensitivity"]["exact"]
        assert abs(result["sensitivity"]["value"] - 2052**0.5) < 1e-12 * 2052**0.5
        assert abs(result["epsilon"] - row["epsilon_exact"]) <= 2e-9 * row["epsilon_exact"], row["id"]
