"""
--private-cache: a group cannot tell what another has asked, by any cache. Without it they share results.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import re
import sqlite3
import subprocess

import pytest
import requests

from conftest import BINARY, DP_SGD, ENDLESS, GAUSSIAN, ONE_BY_ONE, check_problem, draw_key, until

pytestmark = pytest.mark.sanitized
OPTIMISED = {"n": 24, "matrix": {"family": "optimal"}, "sampling": {"scheme": "none"}, "epsilon": 1, "delta": 1e-6}
DRAWN = {"n": 8, "matrix": {"family": "toeplitz", "coefficients": [1, 0.5]}, "noise_multiplier": 1, "delta": 1e-2,
         "sampling": {"scheme": "b_min_sep", "p": 0.3, "separation": 2}, "accountant": "monte_carlo"}
JOBS = (GAUSSIAN, DP_SGD, OPTIMISED, DRAWN)
SWEEP = {"base": DP_SGD, "grid": {"/noise_multiplier": [1, 2, 3]}}
PLAN = {"n": 10, "batch_size": 10, "dataset_size": 100, "epsilon": 1, "delta": 1e-5, "schemes": ["none"],
        "families": ["identity", "optimal"]}


class Groups:
    """A server with keys a and a2 of one group, b of another, and admin."""

    def __init__(self, launch, path, *options):
        self.keys, lines = {}, []
        for name in ("a", "a2", "b", "admin"):
            key, line = draw_key("--group", name[0] if name != "admin" else "c",
                                 "--scope", "admin" if name == "admin" else "submit")
            self.keys[name] = key
            lines.append(line)
        path.write_text("\n".join(lines))
        path.chmod(0o600)
        self.server = launch("--keys", str(path), *options)

    def ask(self, who, path, body=None, **options):
        headers = {"Authorization": f"Bearer {self.keys[who]}"}
        return requests.request("GET" if body is None else "POST", self.server.url + path, json=body,
                                headers=headers, timeout=100, **options)

    def metric(self, name):
        text = self.ask("admin", "/metrics").text
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)[1])

    def solve(self, who, job):
        """The status of the POST, and the document in the end."""
        posted = self.ask(who, "/v1/jobs", job)
        ended = self.ask(who, posted.json()["links"]["self"] + "?wait=60").json()
        assert ended["status"] == "succeeded", ended
        return posted.status_code, ended


@pytest.fixture
def apart(launch, tmp_path):
    return Groups(launch, tmp_path / "keys", "--private-cache")


def test_it_needs_keys(tmp_path):
    run = subprocess.run([BINARY, "serve", "--listen", "127.0.0.1:0", "--db", tmp_path / "x.db", "--private-cache"],
                         capture_output=True, text=True, timeout=60)
    assert run.returncode == 1 and "--private-cache" in run.stderr and "--keys" in run.stderr


def test_another_group_computes_anew(apart):
    """What it is told is what the first one was told, and its own group is answered at once."""
    for job in JOBS:
        first_status, first = apart.solve("a", job)
        hits = apart.metric('epsilond_result_lookups_total{result="hit"}')
        status, other = apart.solve("b", job)
        assert (first_status, status) == (202, 202)
        assert apart.metric('epsilond_result_lookups_total{result="hit"}') == hits
        assert other["result"]["cache"] == first["result"]["cache"] and "hit" not in str(other["result"]["cache"])
        assert other["result"]["compute_seconds"] > 0
        for told in (first, other):
            del told["result"]["elapsed_seconds"], told["result"]["compute_seconds"]
        assert other["result"] == first["result"]
        status, own = apart.solve("a2", job)
        assert status == 200 and own["result"]["cache"]["result"] == "hit"
        assert apart.solve("b", job)[0] == 200


def test_factorisations_are_not_shared(apart):
    """Nor looked up by a different job, or by their ids."""
    _, first = apart.solve("a", OPTIMISED)
    blobs = [apart.metric("epsilond_cache_bytes")]
    _, own = apart.solve("a2", {**OPTIMISED, "epsilon": 2})
    assert own["result"]["cache"]["factorization"] == "hit"
    assert apart.metric("epsilond_cache_bytes") == blobs[0]
    named = first["result"]["factorization"]["id"]
    noise = {"factorization": named, "noise_multiplier": 1, "dimensions": 2}
    stored = {**OPTIMISED, "epsilon": 4, "matrix": {"family": "stored", "id": named}}
    check_problem(apart.ask("b", "/v1/noise", noise), 404, "not-found")
    check_problem(apart.ask("b", "/v1/jobs", stored), 422, "invalid-job", "/matrix/id")
    assert apart.ask("a2", "/v1/jobs", stored).status_code == 202
    _, other = apart.solve("b", {**OPTIMISED, "epsilon": 3})
    assert other["result"]["cache"]["factorization"] == "miss"
    assert apart.metric("epsilond_cache_bytes") == 2 * blobs[0]
    assert apart.ask("a2", "/v1/noise", noise).status_code == 200
    by_job = {"job": first["id"], "dimensions": 2}
    assert apart.ask("a2", "/v1/noise", by_job).status_code == 200
    assert apart.ask("admin", "/v1/noise", by_job).status_code == 200  # which uses the factorisation of the job
    check_problem(apart.ask("admin", "/v1/noise", noise), 404, "not-found")
    assert apart.ask("a", first["links"]["matrix"]).status_code == 200


def test_points_and_candidates_are_not_shared(apart):
    for path, body in (("/v1/sweeps", SWEEP), ("/v1/plans", PLAN)):
        misses, hits = [], []
        for who in ("a", "b", "a2"):
            posted = apart.ask(who, path, body).json()
            ended = apart.ask(who, posted["links"]["self"] + "?wait=60").json()
            assert ended["status"] == "succeeded" and ended["failed"] == 0
            misses.append(apart.metric('epsilond_result_lookups_total{result="miss"}'))
            hits.append(apart.metric('epsilond_result_lookups_total{result="hit"}'))
        assert misses[1] - misses[0] > 0 == hits[1] - hits[0], path
        assert misses[2] - misses[1] == 0 < hits[2] - hits[1], path


def test_jobs_in_progress_are_not_joined(launch, tmp_path):
    apart = Groups(launch, tmp_path / "keys", "--private-cache", *ONE_BY_ONE)
    ids = [apart.ask("a", "/v1/jobs", ENDLESS).json()["id"]]
    until(lambda: apart.ask("a", f"/v1/jobs/{ids[0]}").json()["status"] == "running")
    ids += [apart.ask("b", "/v1/jobs", ENDLESS).json()["id"]]
    assert apart.metric("epsilond_jobs_joined_total") == 0
    assert apart.ask("b", f"/v1/jobs/{ids[1]}").json()["status"] == "queued"
    ids += [apart.ask("a2", "/v1/jobs", ENDLESS).json()["id"]]
    assert apart.metric("epsilond_jobs_joined_total") == 1
    assert apart.ask("a", f"/v1/jobs/{ids[2]}").json()["status"] == "running"
    apart.server.stop()
    apart.server.start()
    for name, who in zip(ids, ("a", "b", "a2")):
        assert apart.ask(who, f"/v1/jobs/{name}").json()["status"] in ("queued", "running")
        apart.ask(who, f"/v1/jobs/{name}/cancel", {})


def test_curves_are_not_shared_and_all_of_it_outlives_a_restart(apart):
    jobs = {who: apart.solve(who, DP_SGD)[1] for who in ("a", "b")}
    curve = apart.ask("a", jobs["a"]["links"]["curve"]).json()
    with sqlite3.connect(apart.server.database) as connection:
        points = [row[0] for row in connection.execute("SELECT length(points) FROM results")]
    connection.close()
    assert len(points) == 2 and points.count(None) == 1
    assert apart.ask("b", jobs["b"]["links"]["curve"]).json() == curve
    apart.server.stop()
    apart.server.start()
    assert apart.solve("a2", DP_SGD)[0] == 200
    assert apart.ask("b", jobs["b"]["links"]["curve"]).json() == curve
    assert apart.solve("admin", DP_SGD)[0] == 202


def test_a_database_serves_with_the_option_and_without(launch, tmp_path):
    """What one of them has cached is not used by the other, and every job keeps its answer."""
    common = Groups(launch, tmp_path / "keys")
    jobs = [common.solve("a", OPTIMISED)[1]]
    assert common.solve("b", OPTIMISED)[0] == 200
    common.server.stop()
    common.server.options += ("--private-cache",)
    common.server.start()
    status, document = common.solve("a", OPTIMISED)
    assert status == 202 and common.ask("a", jobs[0]["links"]["matrix"]).status_code == 200
    jobs.append(document)
    common.server.stop()
    common.server.options = common.server.options[:-1]
    common.server.start()
    assert common.solve("b", OPTIMISED)[0] == 200
    for job in jobs:
        assert common.ask("a2", job["links"]["self"]).json()["result"] == job["result"]
        assert common.ask("a2", job["links"]["matrix"]).status_code == 200
