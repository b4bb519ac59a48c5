"""
The privacy statement of a job: the JSON compared with the document of the job, the Markdown compared with the JSON.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import json
import re
import string
import subprocess

import pytest

from conftest import BINARY, DP_SGD, ENDLESS, GAUSSIAN, PATIENCE, check_problem
from test_contract import check_schema

pytestmark = pytest.mark.sanitized
JSON = {"Accept": "application/json"}
FOUR_BANDS = {"family": "square_root", "bands": 4}
JOBS = {
    "epsilon": DP_SGD,
    "delta": {"n": 100, "sampling": {"scheme": "poisson", "p": 0.01}, "noise_multiplier": 1, "epsilon": 12,
              "adjacency": "add_remove"},
    "noise": {"n": 40, "matrix": FOUR_BANDS, "sampling": {"scheme": "balls_in_bins", "bins": 20}, "epsilon": 4,
              "delta": 1e-5},
    "fixed_order": {"n": 100, "matrix": FOUR_BANDS, "sampling": {"scheme": "none", "epochs": 4}, "epsilon": 2,
                    "delta": 1e-6,
                    "adjacency": "replace_one"},
    "users": dict(GAUSSIAN, sampling={"scheme": "poisson", "p": 0.01, "examples_per_user": 3}),
    "last_iterate": dict(DP_SGD, sampling={"scheme": "poisson", "p": 0.01, "last_iterate": True}),
    "truncated": {"n": 60, "sampling": {"scheme": "poisson", "batch_size": 20, "dataset_size": 1000,
                                        "truncation": {"max_batch_size": 40}}, "noise_multiplier": 1, "delta": 1e-6},
    "not_adaptive": {"n": 16, "matrix": {"family": "tree", "decoder": "full"},
                     "sampling": {"scheme": "poisson", "p": 0.05},
                     "noise_multiplier": 8, "delta": 1e-6},
    "curve": {"n": 100, "sampling": {"scheme": "poisson", "p": 0.01}, "noise_multiplier": 1.5, "curve": True},
    "verified": {"n": 64, "matrix": FOUR_BANDS, "sampling": {"scheme": "b_min_sep", "p": 0.02}, "epsilon": 1.5,
                 "delta": 1e-3,
                 "accountant": "monte_carlo"},
    "read_off": {"n": 64, "matrix": FOUR_BANDS, "sampling": {"scheme": "b_min_sep", "p": 0.02}, "noise_multiplier": 0.7,
                 "delta": 1e-3, "accountant": "monte_carlo"},
}


def statements(server, job):
    """The document of the job, its statement as JSON, and as Markdown."""
    document = server.solve(job)
    told = server.get(document["links"]["statement"], headers=JSON)
    page = server.get(document["links"]["statement"])
    assert (told.status_code, page.status_code) == (200, 200), told.text + page.text
    assert told.headers["Content-Type"] == "application/json"
    assert page.headers["Content-Type"] == "text/markdown; charset=utf-8"
    return document, told.json(), page.text


def plain(page):
    """The text of the page without its backslashes."""
    return re.sub(r"\\([" + re.escape(string.punctuation) + "])", r"\1", page)


def printed_job(page):
    return re.search(r"^```json\n(.*)\n```$", page, re.M).group(1)


@pytest.mark.parametrize("name", JOBS)
def test_a_statement_says_what_the_answer_says(server, name):
    document, told, page = statements(server, JOBS[name])
    result = document["result"]
    check_schema(told, "Statement")
    assert told["job"] == document["job"]
    assert told["id"] == document["id"] and told["finished_at"] == document["finished_at"]
    for member in ("epsilon", "delta", "solved_for", "bracket", "directions", "accountant"):
        assert told["guarantee"][member] == result[member]
    assert told["guarantee"]["kind"] == result["guarantee"]
    assert told["adjacency"]["name"] == result["adjacency"]
    for member in ("assumptions", "hints", "version", "accounting_version"):
        assert told[member] == result[member]
    (phase,) = told["mechanism"]["phases"]
    assert phase["steps"] == document["job"]["n"] and phase["count"] is None and phase["noise_scale"] is None
    assert (phase["matrix"], phase["sampling"]) == (document["job"]["matrix"], document["job"]["sampling"])
    assert phase["derived"] == result["sampling"]
    assert (phase["factorization"], phase["sensitivity"]) == (result["factorization"], result["sensitivity"])
    text = plain(page)
    sentences = [told["summary"], told["setting"], told["released"], told["adjacency"]["meaning"],
                 told["unit_of_privacy"]["meaning"], told["guarantee"]["meaning"], told["guarantee"]["definition"],
                 *told["assumptions"], *told["not_covered"], *told["hints"], *told["to_complete"]]
    for sentence in sentences:
        assert sentence in text
    for word in (result["adjacency"], result["guarantee"], result["accountant"], document["job"]["matrix"]["family"],
                 document["job"]["sampling"]["scheme"], result["factorization"]["id"], document["id"],
                 f"accounting version {result['accounting_version']}"):
        assert word in text
    derived = {name: value for name, value in result["sampling"].items() if value is not None}
    assert ("In force" in text) == bool(derived)
    for name, value in derived.items():
        assert f"{name} = {value:.17g}" in text or f"{name} = {value!r}" in text


@pytest.mark.parametrize("name", [name for name in JOBS if name != "curve"])
def test_the_numbers_of_the_page_are_those_of_the_answer(server, name):
    document, told, page = statements(server, JOBS[name])
    rows = dict(re.findall(r"^\| ([a-z ]+) \| (.*) \|$", page, re.M))
    for row, member in (("epsilon", "epsilon"), ("delta", "delta"), ("noise multiplier", "noise_multiplier")):
        assert float(rows[row]) == document["result"][member]
    for direction in ("remove", "add"):
        assert float(rows[direction].split(",")[0]) == document["result"]["directions"][direction]["value"]
    bracket = document["result"]["bracket"]
    assert ("its numerical bracket" in rows) == (bracket is not None)
    if bracket:
        ends, said = rows["its numerical bracket"].split(", ")
        assert [float(end) for end in ends.split(" to ")] == [bracket["lower"], bracket["upper"]]
        assert said == ("contains the exact value" if bracket["exact"] else "of the bound of the accountant")
    # Quoted numbers are rounded, but never down.
    epsilon, delta = re.search(r"epsilon = (\S+) and delta = (\S+?)\.(?: |$)", told["summary"]).groups()
    for quoted, exact in ((epsilon, document["result"]["epsilon"]), (delta, document["result"]["delta"])):
        assert exact <= float(quoted) <= exact * 1.001
        assert len(quoted.split("e")[0].replace(".", "").lstrip("0")) <= 4


def test_what_is_quoted_is_never_less_than_the_answer(server):
    for i in range(40):
        job = dict(GAUSSIAN, noise_multiplier=0.37 * 1.31 ** i, delta=0.3 / 1.9 ** i)
        document, told, _ = statements(server, job)
        epsilon, delta = re.search(r"epsilon = (\S+) and delta = (\S+?)\.(?: |$)", told["summary"]).groups()
        assert document["result"]["epsilon"] <= float(epsilon) <= document["result"]["epsilon"] * 1.001
        assert job["delta"] <= float(delta) <= job["delta"] * 1.001


def test_a_denormal_is_quoted_too(server):
    """A ten-thousandth of it, by which it is rounded up, is 0."""
    _, told, _ = statements(server, dict(JOBS["fixed_order"], epsilon=2.18327608897247e-320))
    epsilon = float(re.search(r"epsilon = (\S+) and", told["summary"]).group(1))
    assert 2.18327608897247e-320 <= epsilon <= 2.19e-320


def test_the_job_of_the_page_reproduces_the_answer(server, tmp_path):
    document, _, page = statements(server, dict(DP_SGD, label="``` a' \"b\" \\"))
    job = json.loads(printed_job(page))
    assert job == {name: value for name, value in document["job"].items() if name != "label"}
    assert server.solve(job)["result"]["cache"]["result"] == "hit"
    (tmp_path / "job.json").write_text(printed_job(page))
    command = re.search(r"^epsilond (solve .*)$", page, re.M).group(1).split()
    solved = subprocess.run([BINARY, *command], capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path,
                            check=True)
    assert json.loads(solved.stdout)["result"]["epsilon"] == document["result"]["epsilon"]


def test_units_and_what_may_be_seen(server):
    _, users, _ = statements(server, JOBS["users"])
    assert users["unit_of_privacy"]["unit"] == "user" and users["unit_of_privacy"]["examples"] == 3
    assert "per user" in users["summary"] and "at most 3 examples" in users["unit_of_privacy"]["meaning"]
    _, example, _ = statements(server, JOBS["epsilon"])
    assert example["unit_of_privacy"]["unit"] == "example" and "per example" in example["summary"]
    assert "every intermediate model" in example["released"]
    _, last, _ = statements(server, JOBS["last_iterate"])
    assert "Only the last iterate" in last["released"] and "Only the last iterate" in last["summary"]
    _, fixed, _ = statements(server, JOBS["not_adaptive"])
    assert "not covered" in fixed["released"] and "no input depends on an earlier output" in fixed["summary"]
    meanings = {statements(server, dict(GAUSSIAN, adjacency=name))[1]["adjacency"]["meaning"]
                for name in ("zero_out", "add_remove", "replace_one")}
    assert len(meanings) == 3


def test_a_curve_is_stated_by_pairs_of_it(server):
    document, told, page = statements(server, JOBS["curve"])
    points = document["result"]["curve"]
    assert told["guarantee"]["epsilon"] is None and "privacy curve" in told["summary"]
    assert told["mechanism"]["noise_multiplier"] == 1.5
    assert [pair["delta"] for pair in told["guarantee"]["pairs"]] == [1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12]
    for pair in told["guarantee"]["pairs"]:
        assert pair["epsilon"] == min(point["epsilon"] for point in points if point["delta"] <= pair["delta"])
        assert f"| {pair['delta']:g} | {pair['epsilon']!r} |" in page
    assert statements(server, JOBS["epsilon"])[1]["guarantee"]["pairs"] is None


def test_draws_say_with_which_probability_they_err(server):
    document, told, page = statements(server, JOBS["read_off"])
    draws = document["result"]["monte_carlo"]
    assert document["result"]["guarantee"] == "high_probability"
    assert told["guarantee"]["failure_probability"] == sum(one["failure_probability"] for one in draws.values() if one)
    assert "wrong with probability" in told["summary"]
    assert f"| failure probability | {told['guarantee']['failure_probability']!r} |" in page
    document, told, page = statements(server, JOBS["verified"])
    assert document["result"]["guarantee"] == "estimate_verify_release"
    assert told["guarantee"]["failure_probability"] is None  # it is part of delta
    assert "wrong with" not in told["summary"] and "failure probability |" not in page


@pytest.mark.parametrize("label", ["# heading", "a *b* _c_ `d` | e", "[x](javascript:alert(1))",
                                   "<b>&amp; https://x.y @me",
                                   "line\n# two\n\n- three\r\n| 4 |", "``` fence", "\\", "naïve ε ≤ 1", "1. one",
                                   "$x$ ~~y~~"])
def test_a_label_is_text_and_nothing_else(server, label):
    _, told, page = statements(server, dict(DP_SGD, label=label))
    assert told["label"] == label
    line = next(line for line in page.split("\n") if line.startswith("**Training:** ")).removeprefix("**Training:** ")
    assert plain(line) == re.sub(r"[\x00-\x1f]", " ", label)
    assert not set(re.sub(r"\\[" + re.escape(string.punctuation) + "]", "", line)) & set(string.punctuation)
    # The rest of the page is the same without the label.
    _, _, other = statements(server, dict(DP_SGD, label="other"))
    changing = re.compile(r"^\*\*Training.*$|answered job .* at \S*", re.M)
    assert changing.sub("", page) == changing.sub("", other)


def test_long_arrays_stay_out_of_the_page(server):
    coefficients = [0.999 ** i for i in range(3000)]
    job = {"n": 3000, "matrix": {"family": "toeplitz", "coefficients": coefficients}, "sampling": {"scheme": "none"},
           "noise_multiplier": 2, "delta": 1e-6, "label": "long"}
    document, told, page = statements(server, job)
    assert told["job"]["matrix"]["coefficients"] == coefficients
    assert "coefficients" not in told["mechanism"]["phases"][0]["matrix"]
    assert len(page) < 10000 and "coefficients" not in printed_job(page) and "with its arrays" in page
    short = dict(job, n=3, matrix={"family": "toeplitz", "coefficients": [1, 0.5]})
    _, _, page = statements(server, short)
    assert json.loads(printed_job(page))["matrix"]["coefficients"] == [1, 0.5] and "with its arrays" not in page
    stored = dict(job, matrix={"family": "stored", "id": document["result"]["factorization"]["id"]})
    assert "`--db`" in statements(server, stored)[2]


def test_only_answers_have_a_statement(launch):
    server = launch()
    running = server.post(ENDLESS).json()["links"]["statement"]
    check_problem(server.get(running), 409, "conflict")
    failed = server.post({"n": 9, "sampling": {"scheme": "none"}, "epsilon": 0, "delta": 1e-30},
                         "/v1/jobs?wait=60").json()
    assert failed["status"] == "failed"
    check_problem(server.get(failed["links"]["statement"]), 409, "conflict")
    check_problem(server.get("/v1/jobs/nobody/statement"), 404, "not-found")
    done = server.solve(GAUSSIAN)["links"]["statement"]
    check_problem(server.get(done, headers={"Accept": "text/html"}), 406, "not-acceptable")
    check_problem(server.get(done + "?part=all"), 422, "invalid-job")


def test_what_is_asked_again_is_not_sent_again(server):
    path = server.solve(GAUSSIAN)["links"]["statement"]
    for headers in ({}, JSON):
        answer = server.get(path, headers=headers)
        again = server.get(path, headers={**headers, "If-None-Match": answer.headers["ETag"]})
        assert again.status_code == 304 and not again.content
        assert answer.headers["Vary"] == "Accept"
    assert server.get(path).headers["ETag"] != answer.headers["ETag"]
