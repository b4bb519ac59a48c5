"""
Compares the service with the OpenAPI document: every example is posted, every route is described, and the responses
match the schemas.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import json
import re

import jsonschema
import pytest
import requests
import yaml

from conftest import DP_SGD, GAUSSIAN, PATIENCE, ROOT, until

pytestmark = pytest.mark.sanitized
CONTRACT = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text())
EXAMPLES = CONTRACT["paths"]["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]["examples"]
METHODS = {"get", "post", "put", "patch", "delete"}


def check_schema(value, name):
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": f"#/components/schemas/{name}",
              "components": CONTRACT["components"]}
    jsonschema.Draft202012Validator(schema).validate(value)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_answered(server, name):
    document = server.solve(EXAMPLES[name]["value"])
    check_schema(document, "Job")
    check_schema(document["job"], "JobRequest")
    assert server.post(document["job"]).json()["result"]["cache"]["result"] == "hit"


def test_examples_in_files_are_those_of_the_contract():
    files = {path.stem: json.loads(path.read_text()) for path in (ROOT / "api" / "examples").glob("*.json")}
    assert files == {name: example["value"] for name, example in EXAMPLES.items()}


def test_every_example_of_a_sweep_is_accepted(server):
    body = CONTRACT["paths"]["/v1/sweeps"]["post"]["requestBody"]["content"]["application/json"]
    files = {path.stem: json.loads(path.read_text()) for path in (ROOT / "api" / "examples" / "sweeps").glob("*.json")}
    assert files == {name: example["value"] for name, example in body["examples"].items()}
    for value in files.values():
        check_schema(value, "SweepRequest")
        document = server.post(value, "/v1/sweeps").json()
        check_schema(document, "Sweep")
        done = server.get(document["links"]["self"] + "?wait=300", timeout=400).json()
        check_schema(done, "Sweep")
        assert (done["status"], done["failed"]) == ("succeeded", 0)
        check_schema(server.get(done["links"]["points"]).json(), "PointList")
        check_schema(server.get("/v1/sweeps").json(), "SweepList")


def test_every_example_of_a_plan_is_accepted(server):
    body = CONTRACT["paths"]["/v1/plans"]["post"]["requestBody"]["content"]["application/json"]
    files = {path.stem: json.loads(path.read_text()) for path in (ROOT / "api" / "examples" / "plans").glob("*.json")}
    assert files == {name: example["value"] for name, example in body["examples"].items()}
    for value in files.values():
        check_schema(value, "PlanRequest")
        document = server.post(value, "/v1/plans").json()
        check_schema(document, "Plan")
        link = document["links"]["self"]
        until(lambda: server.get(link + "?wait=60").json()["status"] not in ("queued", "running"), 4 * PATIENCE)
        done = server.get(link).json()
        check_schema(done, "Plan")
        assert (done["status"], done["failed"]) == ("succeeded", 0)
        check_schema(server.get("/v1/plans").json(), "PlanList")


def test_the_route_table_is_the_contract():
    table = (ROOT / "server" / "routes" / "table.c").read_text()
    rows = set(re.findall(r'^    \{"([A-Z]+)", "([^"]+)",', table, re.M))
    described = {(method.upper(), path) for path, item in CONTRACT["paths"].items()
                 for method in item if method in METHODS}
    assert rows == described and len(rows) >= 13


def test_the_contract_is_served(server):
    answer = server.get("/openapi.yaml")
    assert answer.headers["Content-Type"] == "application/yaml"
    assert answer.content == (ROOT / "api" / "openapi.yaml").read_bytes()


def test_documents_fit_their_schemas(server):
    succeeded = server.solve(DP_SGD)
    check_schema(server.get("/v1/jobs?limit=5").json(), "JobList")
    check_schema(server.get(succeeded["links"]["curve"]).json(), "Curve")
    check_schema(server.get(succeeded["links"]["matrix"]).json(), "Factorization")
    check_schema(server.get("/v1").json(), "Index")
    check_schema(server.post({"n": 0}).json(), "Problem")
    check_schema(server.get("/nowhere").json(), "Problem")
    fresh = server.post(dict(DP_SGD, n=1234)).json()
    check_schema(fresh, "Job")


def test_events_fit_their_schema(server):
    """Checks each event and its data."""
    def told(links):
        for block in server.get(links["events"]).text.strip().split("\n\n"):
            fields = [line.split(": ", 1) for line in block.splitlines() if not line.startswith(":")]
            if dict(fields).keys() - {"retry"}:
                yield dict(fields)

    job = server.solve(DP_SGD)
    sweep = server.post({"base": DP_SGD, "grid": {"/noise_multiplier": [1, 2]}}, "/v1/sweeps").json()
    plan = server.post({"n": 10, "batch_size": 10, "dataset_size": 100, "epsilon": 1, "delta": 1e-5,
                        "schemes": ["none"],
                        "families": ["identity"]}, "/v1/plans").json()
    for document, name in (job, "Job"), (sweep, "Sweep"), (plan, "Plan"):
        events = list(told(document["links"]))
        for event in events:
            check_schema(event, "Event")
        assert events[-1]["event"] == name.lower()
        check_schema(json.loads(events[-1]["data"]), name)


def test_every_problem_type_is_explained(server):
    for name in CONTRACT["components"]["schemas"]["ProblemName"]["enum"]:
        page = server.get(f"/problems/{name}").json()
        assert page["type"] == f"/problems/{name}"
        assert page["title"] and len(page["explanation"]) > 40
        assert 400 <= page["status"] < 600


def test_the_index_links_to_what_is_there(server):
    index = server.get("/v1").json()
    drawing = {name: index["links"].pop(name) for name in ("batches", "noise")}
    assert drawing == {"batches": "/v1/batches", "noise": "/v1/noise"}
    for link in drawing.values():
        assert server.get(link).headers["Allow"] == "POST, OPTIONS"
    for link in index["links"].values():
        assert server.get(link).status_code == 200
    assert {"identity", "toeplitz", "dense", "square_root", "tree"} <= set(index["families"])
    assert {"none", "poisson"} <= set(index["schemes"])
    assert {"gaussian", "pld"} <= set(index["accountants"])
    assert index["limits"]["max_body"] == 8 << 20


def test_what_is_served_is_what_the_contract_says(server):
    """Sends a job for each: one that is not listed as served must be rejected as unsupported."""
    index, schemas = server.get("/v1").json(), CONTRACT["components"]["schemas"]
    for listed, name in (("families", "FamilyName"), ("schemes", "SchemeName"), ("accountants", "AccountantName")):
        assert sorted(index[listed]) == sorted(schemas[name]["x-served"])
    schemes = {"none": {}, "poisson": {"p": 0.1}, "cyclic_poisson": {"p": 0.1, "groups": 2},
               "balls_in_bins": {"bins": 2},
               "b_min_sep": {"p": 0.1, "separation": 2}}
    for scheme in schemas["SchemeName"]["enum"]:
        answer = server.post({"n": 4, "sampling": {"scheme": scheme, **schemes[scheme]}, "epsilon": 1, "delta": 0.1})
        assert (answer.status_code == 422) == (scheme not in index["schemes"]), answer.text
    for accountant in schemas["AccountantName"]["enum"]:
        job = {"n": 4, "matrix": {"family": "tree"}, "sampling": {"scheme": "poisson", "p": 0.1}, "epsilon": 1,
               "delta": 0.1,
               "accountant": accountant}
        if accountant in ("pld", "gaussian"):
            job.update(matrix={"family": "identity"})
        if accountant in ("renyi", "conditional_composition", "quadrature"):
            job.update(sampling={"scheme": "balls_in_bins", "bins": 2})
        if accountant == "group_privacy":
            job.update(adjacency="replace_one")
        if accountant == "monte_carlo":
            job.update(matrix={"family": "square_root", "bands": 2},
                       sampling={"scheme": "b_min_sep", "p": 0.1, "separation": 2})
        answer = server.post(job)
        assert (answer.status_code == 422) == (accountant not in index["accountants"]), answer.text
        if answer.status_code == 422:
            assert answer.json()["type"] == "/problems/unsupported"


def test_health_and_readiness(server):
    assert server.get("/healthz").json() == {"status": "ok"}
    assert server.get("/readyz").json() == {"status": "ready"}


def test_metrics_are_prometheus_text(server):
    server.solve(GAUSSIAN)
    answer = server.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    families, samples = {}, {}
    for line in answer.text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in families
            families[name] = kind
        elif not line.startswith("# HELP "):
            series, value = line.rsplit(" ", 1)
            name = re.fullmatch(r'([a-z_]+)(\{([a-z_]+="[^"]*",?)*\})?', series)[1]
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            assert name in families or families.get(base) == "histogram", line
            assert series not in samples
            samples[series] = float(value)
    assert samples['epsilond_http_requests_total{route="POST /v1/jobs",status="200"}'] >= 1
    times = 'epsilond_http_request_seconds_{}{{route="POST /v1/jobs"{}}}'
    assert samples[times.format("bucket", ',le="+Inf"')] == samples[times.format("count", "")] >= 1
    assert samples["epsilond_bugs_total"] == 0


def test_one_log_line_a_request(launch):
    server = launch()
    answer = requests.get(server.url + "/v1/jobs/a%20b%22%0Astatus=200")
    assert answer.status_code == 404
    server.solve(GAUSSIAN)
    server.stop()
    lines = [line for line in server.log_text().splitlines() if " event=request " in line]
    assert len(lines) == 2
    assert 'path="/v1/jobs/a b\\"\\x0astatus=200" status=404' in lines[0]
    assert re.search(r"method=POST path=/v1/jobs status=200 bytes=\d+ ms=[\d.]+ job=[0-9a-f-]{36}$", lines[1])
