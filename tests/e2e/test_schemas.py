"""
Compares every response with openapi.yaml: the status is listed for the operation, the media type and headers match, and
the body matches the schema without unknown members. Conversely, what the schema of a job rejects, the service rejects.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import copy
import functools
import itertools
import json

import jsonschema
import pytest
import yaml

from conftest import DP_SGD, ENDLESS, GAUSSIAN, ONE_BY_ONE, ROOT, check_problem, draw_key

pytestmark = pytest.mark.sanitized
CONTRACT = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text())
ANSWERS = ["Job", "JobList", "Progress", "Bracket", "Result", "CurvePoint", "Curve", "Factorization", "StepError",
           "Statement",
           "Batch", "NoiseStep", "Index", "Usage", "KeyUsage", "QuotaUsage",
           "Problem", "Sweep", "SweepList", "Point", "PointList"]
LINES = {"/v1/batches": "Batch", "/v1/noise": "NoiseStep"}
JSON = {"Content-Type": "application/json"}
# For tests that are not about the limit on operations.
PATIENT = ("--max-operations", "1e18")
NOBODY = "/v1/jobs/01234567-0000-7000-8000-000000000000"


def closed(schema):
    """The schema, with unknown members forbidden in every object, unless it describes them itself."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {name: closed(value) for name, value in schema.items()}
    if "properties" in schema and "additionalProperties" not in schema:
        schema["unevaluatedProperties"] = False
    return schema


@functools.cache
def validator_of(text, strict):
    components = copy.deepcopy(CONTRACT["components"])
    if strict:
        for name in ANSWERS:
            components["schemas"][name] = closed(components["schemas"][name])
        # A candidate is a Direction with one additional member.
        components["schemas"]["Result"]["properties"]["candidates"]["items"]["unevaluatedProperties"] = False
    return jsonschema.Draft202012Validator({"components": components, **json.loads(text)})


def validator(schema, strict):
    return validator_of(json.dumps(schema), strict)


def resolve(node):
    while "$ref" in node:
        target = CONTRACT
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def check_answer(answer, method, template):
    """Checks one response against its operation; returns (method, template, status)."""
    responses = CONTRACT["paths"][template][method.lower()]["responses"]
    status = str(answer.status_code)
    listed = responses.get(status) or responses.get("default")
    assert listed, f"{method} {template} does not list {status}"
    response = resolve(listed)
    for name in response.get("headers", {}):
        if name in ("Location", "ETag", "Retry-After"):
            assert name in answer.headers, f"{method} {template} {status} lacks {name}"
    for name in answer.headers:
        if name in ("ETag", "Link", "Location", "Retry-After", "Preference-Applied", "Idempotent-Replayed"):
            assert name in response.get("headers", {}), f"{method} {template} {status}: {name} is not in the contract"
    if "content" not in response:
        assert not answer.content
        return method, template, status
    media = answer.headers["Content-Type"].split(";")[0]
    assert media in response["content"], (method, template, status, media)
    if media == "application/x-ndjson":
        for line in answer.text.splitlines():
            validator({"$ref": f"#/components/schemas/{LINES[template]}"}, True).validate(json.loads(line))
    elif media.endswith("json"):
        validator(response["content"][media]["schema"], True).validate(answer.json())
    if media == "application/problem+json":
        problem = answer.json()
        assert {"type", "title", "status", "detail", "instance"} <= set(problem), problem
        assert problem["status"] == answer.status_code and problem["title"] and problem["detail"]
        assert problem["type"].removeprefix("/problems/") in CONTRACT["components"]["schemas"]["ProblemName"]["enum"]
        assert problem["instance"].split("?")[0] == answer.request.path_url.split("?")[0]
    return method, template, status


def calls_of_sweeps(server):
    sweeps, sweep = "/v1/sweeps", "/v1/sweeps/{id}"
    body = {"base": DP_SGD, "grid": {"/n": [7, 0]}}
    post = ("POST", sweeps, sweeps)
    keyed = {"json": body, "headers": {"Idempotency-Key": "s"}}
    first = server.post(body, sweeps).json()["links"]["self"]
    other = server.request("POST", sweeps, **keyed).json()["links"]["self"]
    for one in (first, other):
        server.get(one + "?wait=60")
    nobody = NOBODY.replace("jobs", "sweeps")
    yield *post, {"json": body}
    yield *post, keyed
    yield *post, {"json": dict(body, label="x"), "headers": {"Idempotency-Key": "s"}}
    yield *post, {"json": {"base": {}, "grid": {"/x": [1]}}}
    yield *post, {"data": "{", "headers": JSON}
    yield *post, {"data": " " * (9 << 20), "headers": JSON}
    yield *post, {"data": "{}", "headers": {"Content-Type": "text/plain"}}
    yield *post, {"json": body, "headers": {"Accept": "text/html"}}
    for query in ("", "?limit=1", "?status=failed", "?limit=0"):
        yield "GET", sweeps, sweeps + query, {}
    html, star = {"headers": {"Accept": "text/html"}}, {"headers": {"If-None-Match": "*"}}
    for template, path in ((sweeps, sweeps), (sweep, first), (sweep + "/points", first + "/points")):
        yield "GET", template, path, html
        yield "GET", template, path, star
    for path in (first, nobody, first + "?wait=x"):
        yield "GET", sweep, path, {}
    for path in (first, first + "?limit=1", first + "?limit=x", nobody):
        yield "GET", sweep + "/points", path.replace("?", "/points?") if "?" in path else path + "/points", {}
    yield "GET", sweep + "/points", first + "/points", {"headers": {"Accept": "text/csv"}}
    for path, headers in ((first, {}), (first, {"Last-Event-ID": "final"}), (first, html["headers"]), (nobody, {})):
        yield "GET", sweep + "/events", path + "/events", {"headers": headers}
    for path in (first, nobody):
        yield "POST", sweep + "/cancel", path + "/cancel", {}
    endless = {"json": {"base": ENDLESS, "grid": {"/label": ["a", "b"]}}, "headers": {"Idempotency-Key": "endless"}}
    yield *post, endless  # 202 on every machine, because it is not over
    running = server.request("POST", sweeps, **endless).json()["links"]["self"]
    yield "DELETE", sweep, running, {}
    yield "POST", sweep + "/cancel", running + "/cancel", {}
    yield "DELETE", sweep, other, {}
    yield "DELETE", sweep, other, {}
    yield *post, keyed


def calls_of_plans(server):
    plans, plan = "/v1/plans", "/v1/plans/{id}"
    body = {"n": 8, "batch_size": 10, "dataset_size": 40, "epsilon": 2, "delta": 1e-5, "families": ["identity"]}
    endless = {"n": 1500, "batch_size": 100, "dataset_size": 7500, "epsilon": 2, "delta": 1e-5,
               "families": ["optimal"], "workload": {"type": "momentum", "momentum": 0.95}}
    post = ("POST", plans, plans)
    keyed = {"json": body, "headers": {"Idempotency-Key": "p"}}
    first = server.post(body, plans).json()["links"]["self"]
    other = server.request("POST", plans, **keyed).json()["links"]["self"]
    for one in (first, other):
        server.get(one + "?wait=60")
    nobody = NOBODY.replace("jobs", "plans")
    yield *post, {"json": body}
    yield *post, keyed
    yield *post, {"json": dict(body, label="x"), "headers": {"Idempotency-Key": "p"}}
    yield *post, {"json": dict(body, n=0, nosuch=1)}
    yield *post, {"data": "{", "headers": JSON}
    yield *post, {"data": " " * (9 << 20), "headers": JSON}
    yield *post, {"data": "{}", "headers": {"Content-Type": "text/plain"}}
    yield *post, {"json": body, "headers": {"Accept": "text/html"}}
    for query in ("", "?limit=1", "?status=failed", "?limit=0"):
        yield "GET", plans, plans + query, {}
    html, star = {"headers": {"Accept": "text/html"}}, {"headers": {"If-None-Match": "*"}}
    for template, path in ((plans, plans), (plan, first)):
        yield "GET", template, path, html
        yield "GET", template, path, star
    for path in (first, nobody, first + "?wait=x"):
        yield "GET", plan, path, {}
    for path, headers in ((first, {}), (first, {"Last-Event-ID": "final"}), (first, html["headers"]), (nobody, {})):
        yield "GET", plan + "/events", path + "/events", {"headers": headers}
    for path in (first, nobody):
        yield "POST", plan + "/cancel", path + "/cancel", {}
    endless = {"json": endless, "headers": {"Idempotency-Key": "plan"}}
    yield *post, endless
    running = server.request("POST", plans, **endless).json()["links"]["self"]
    yield "DELETE", plan, running, {}
    yield "POST", plan + "/cancel", running + "/cancel", {}
    yield "DELETE", plan, other, {}
    yield "DELETE", plan, other, {}
    yield *post, keyed


def calls(server):
    """(method, template, path, arguments): one call for each response that the contract lists."""
    done = server.solve(DP_SGD)
    ordinary = f"/v1/jobs/{done['id']}"
    dense = server.solve({"n": 3, "matrix": {"family": "dense", "rows": [[1], [1, 1], [1, 1, 1]]},
                          "sampling": {"scheme": "none"}, "noise_multiplier": 2, "delta": 1e-6})["links"]["self"]
    singular = server.solve({"n": 2, "matrix": {"family": "dense", "rows": [[0], [1, 1]]},
                             "sampling": {"scheme": "none"}, "noise_multiplier": 2, "delta": 1e-6})["links"]["self"]
    curve = server.solve(dict(n=5, sampling={"scheme": "none"}, noise_multiplier=1, curve=True))["links"]["self"]
    failed = server.post({"n": 9, "sampling": {"scheme": "none"}, "epsilon": 0, "delta": 1e-30},
                         "/v1/jobs?wait=60").json()["links"]["self"]
    keyed = {"json": GAUSSIAN, "headers": {"Idempotency-Key": "b", "Prefer": "wait=60"}}
    fresh = server.request("POST", "/v1/jobs", **keyed).json()["links"]["self"]
    jobs, job = "/v1/jobs", "/v1/jobs/{id}"
    post = ("POST", jobs, jobs)
    yield *post, {"json": dict(DP_SGD, n=1001)}
    yield *post, {"json": DP_SGD, "headers": {"Prefer": "wait=9", "Idempotency-Key": "a"}}
    yield *post, {"json": DP_SGD, "headers": {"Idempotency-Key": "a"}}
    yield *post, {"json": dict(DP_SGD, n=1002), "headers": {"Idempotency-Key": "a"}}
    yield *post, {"data": "{", "headers": JSON}
    yield *post, {"data": " " * (9 << 20), "headers": JSON}
    yield *post, {"data": "{}", "headers": {"Content-Type": "text/plain"}}
    yield *post, {"json": DP_SGD, "headers": {"Accept": "text/html"}}
    yield *post, {"json": {"n": 0, "sampling": {"scheme": "poisson", "p": 7, "q": 1}}}
    yield *post, {"json": {"n": 4, "sampling": {"scheme": "b_min_sep", "p": 0.1, "separation": 2}, "epsilon": 1,
                           "delta": 0.1,
                         "accountant": "mmcc"}}
    for query in ("", "?limit=1", "?status=failed", "?limit=0", "?cursor=x", "?limit=2&status=succeeded"):
        yield "GET", jobs, jobs + query, {}
    yield "GET", jobs, jobs, {"headers": {"Accept": "text/html"}}
    yield "GET", jobs, jobs, {"headers": {"If-None-Match": "*"}}
    for path in (ordinary, dense, curve, failed, fresh, NOBODY, "/v1/jobs/x", ordinary + "?wait=x"):
        yield "GET", job, path, {}
    yield "GET", job, ordinary, {"headers": {"If-None-Match": "*"}}
    yield "GET", job, ordinary, {"headers": {"Accept": "text/csv"}}
    for path in (ordinary, failed, curve, NOBODY):
        yield "GET", job + "/curve", path + "/curve", {}
    for accept in ("text/csv", "image/png"):
        yield "GET", job + "/curve", ordinary + "/curve", {"headers": {"Accept": accept}}
    yield "GET", job + "/curve", ordinary + "/curve", {"headers": {"If-None-Match": "*"}}
    for path in (ordinary, dense, NOBODY):
        for part in ("encoder", "decoder", "noise", "both"):
            yield "GET", job + "/matrix", f"{path}/matrix?part={part}", {}
    yield "GET", job + "/matrix", singular + "/matrix?part=noise", {}
    for accept in ("application/x-npy", "image/png"):
        yield "GET", job + "/matrix", dense + "/matrix", {"headers": {"Accept": accept}}
    for path in (ordinary, dense, singular, NOBODY):
        yield "GET", job + "/error", path + "/error", {}
    for accept in ("text/csv", "image/png"):
        yield "GET", job + "/error", dense + "/error", {"headers": {"Accept": accept}}
    for path in (ordinary, dense, curve, singular, NOBODY):
        yield "GET", job + "/mechanism", path + "/mechanism", {}
    yield "GET", job + "/mechanism", dense + "/mechanism", {"headers": {"Accept": "image/png"}}
    yield "GET", job + "/mechanism", dense + "/mechanism?phase=1", {}
    for path in (ordinary, curve, NOBODY):
        yield "GET", job + "/spend", path + "/spend", {}
    for accept in ("text/csv", "image/png"):
        yield "GET", job + "/spend", ordinary + "/spend", {"headers": {"Accept": accept}}
    yield "GET", job + "/spend", ordinary + "/spend", {"headers": {"If-None-Match": "*"}}
    for path in (ordinary, dense, curve, failed, NOBODY):
        yield "GET", job + "/statement", path + "/statement", {}
    for header in ({"Accept": "application/json"}, {"Accept": "image/png"}, {"If-None-Match": "*"}):
        yield "GET", job + "/statement", curve + "/statement", {"headers": header}
    for path in (ordinary, NOBODY):
        yield "POST", job + "/cancel", path + "/cancel", {}
    yield "DELETE", job, fresh, {}
    yield "DELETE", job, fresh, {}
    yield *post, keyed
    batches = ("POST", "/v1/batches", "/v1/batches")
    few = {"n": 4, "sampling": {"scheme": "poisson", "p": 0.5}, "dataset_size": 9}
    for accept in ("*/*", "application/json", "image/png"):
        yield *batches, {"json": few, "headers": {"Accept": accept}}
    yield *batches, {"json": dict(few, seed=1)}
    for name in (done["id"], failed.rsplit("/", 1)[-1], "0" * 36, NOBODY.rsplit("/", 1)[-1]):
        yield *batches, {"json": {"job": name, "dataset_size": 9}}
    yield *batches, {"json": dict(few, sampling={"scheme": "poisson", "p": 2}, seed=-1)}
    yield *batches, {"data": "{", "headers": JSON}
    yield *batches, {"data": " " * (9 << 20), "headers": JSON}
    yield *batches, {"data": "{}", "headers": {"Content-Type": "text/plain"}}
    noise = ("POST", "/v1/noise", "/v1/noise")
    some = {"job": done["id"], "dimensions": 3}
    for accept in ("*/*", "application/json", "application/x-ndjson", "image/png"):
        yield *noise, {"json": some, "headers": {"Accept": accept}}
    for wrong in ({"seed": 1}, {"dimensions": 0}, {"job": "0" * 36}, {"part": "encoder"}):
        yield *noise, {"json": some | wrong}
    yield *noise, {"data": "{", "headers": JSON}
    yield *noise, {"data": " " * (9 << 20), "headers": JSON}
    yield *noise, {"data": "{}", "headers": {"Content-Type": "text/plain"}}
    for path in ("/v1", "/v1/usage", "/v1/workers", "/healthz", "/readyz", "/metrics", "/openapi.yaml"):
        yield "GET", path, path, {}
    for accept in ("application/openmetrics-text", "application/json"):
        yield "GET", "/metrics", "/metrics", {"headers": {"Accept": accept}}
    yield "GET", "/v1", "/v1", {"headers": {"If-None-Match": "*"}}
    for name in CONTRACT["components"]["schemas"]["ProblemName"]["enum"] + ["nothing"]:
        yield "GET", "/problems/{type}", f"/problems/{name}", {}
    yield "GET", "/problems/{type}", "/problems/quota", {"headers": {"If-None-Match": "*"}}
    for headers in ({}, {"If-None-Match": "*"}, {"Accept": "application/json"}):
        yield "GET", "/", "/", {"headers": headers}
        yield "GET", "/dashboard/{file}", "/dashboard/main.js", {"headers": headers}
    for name in ("style.css", "icon.svg", "chart.licence.txt", "nothing.js"):
        yield "GET", "/dashboard/{file}", f"/dashboard/{name}", {}
    yield from calls_of_sweeps(server)
    yield from calls_of_plans(server)
    for path, headers in ((ordinary, {}), (ordinary, {"Last-Event-ID": "final"}), (ordinary, {"Last-Event-ID": "x"}),
                          (ordinary, {"Accept": "text/csv"}), (NOBODY, {})):
        yield "GET", job + "/events", path + "/events", {"headers": headers}
    # Last, requests for a running job, because it keeps the workers from everything else.
    running = server.post(ENDLESS).json()["links"]["self"]
    for tail in ("", "?wait=1"):
        yield "GET", job, running + tail, {}
    for tail in ("/curve", "/matrix", "/mechanism", "/error", "/spend", "/statement"):
        yield "GET", job + tail, running + tail, {}
    yield *noise, {"json": some | {"job": running.rsplit("/", 1)[1]}}
    yield "DELETE", job, running, {}
    yield "POST", job + "/cancel", running + "/cancel", {}


def test_every_answer_is_in_the_contract(launch):
    server = launch(*PATIENT)
    seen, wrong = set(), []
    for method, template, path, arguments in calls(server):
        answer = server.request(method, path, **arguments)
        try:
            seen.add(check_answer(answer, method, template))
        except (AssertionError, jsonschema.ValidationError) as error:
            wrong.append(f"{method} {path} {answer.status_code}: {str(error)[:600]}")
    assert not wrong, "\n".join(wrong)
    listed = {(method.upper(), template, status) for template, item in CONTRACT["paths"].items()
              for method in item if method != "parameters" for status in item[method]["responses"]}
    missing = {row for row in listed - seen if row[2] not in ("default", "503", "429")}
    assert not missing, sorted(missing)


def test_a_used_up_quota_is_in_the_contract(launch, tmp_path):
    """Every operation that needs a key is 429 with its headers."""
    key, line = draw_key("--scope", "admin", "--quota", "requests=1/s")
    path = tmp_path / "keys"
    path.write_text(line)
    path.chmod(0o600)
    server = launch("--keys", str(path))
    header = {"Authorization": f"Bearer {key}"}
    for template, item in CONTRACT["paths"].items():
        for method in item.keys() & {"get", "post", "delete"}:
            operation = item[method]
            assert ("429" in operation["responses"]) == (operation["x-scope"] != "anyone"), template
            if operation["x-scope"] != "anyone":
                target = template.format(id=NOBODY[-36:])
                answers = [server.request(method.upper(), target, json={}, headers=header) for _ in range(3)]
                answer = next(answer for answer in answers if answer.status_code == 429)
                check_answer(answer, method.upper(), template)
                assert {"Retry-After", "RateLimit", "RateLimit-Policy"} <= set(answer.headers)


def test_a_full_queue_is_in_the_contract(launch):
    server = launch("--queue", "1", *ONE_BY_ONE, *PATIENT)
    server.until(server.post(ENDLESS).json()["id"], "running")
    server.post(dict(ENDLESS, delta=1e-9))
    refused = server.post(dict(ENDLESS, delta=1e-10))
    assert check_answer(refused, "POST", "/v1/jobs")[2] == "503"
    assert check_answer(server.get("/readyz"), "GET", "/readyz")[2] == "503"


def test_too_costly_is_in_the_contract(launch):
    refused = launch("--max-operations", "10").post(DP_SGD)
    assert check_answer(refused, "POST", "/v1/jobs")[2] == "422"
    assert refused.json()["type"] == "/problems/too-costly" and refused.json()["operations"] > 10


def test_no_answer_for_wrong_methods_and_paths_without_a_problem(server):
    for method, path, status in (("PUT", "/v1/jobs", 405), ("DELETE", "/v1", 405), ("POST", "/openapi.yaml", 405),
                                 ("GET", "/v1/job", 404), ("GET", "/%00", 400), ("GET", "//v1/jobs", 404)):
        answer = server.request(method, path)
        assert answer.status_code == status, (path, answer.text)
        validator({"$ref": "#/components/schemas/Problem"}, True).validate(answer.json())
        assert answer.json()["detail"] and answer.json()["instance"]


# ---------------------------------------------------------------- jobs

VALUES = [None, 0, -1, 0.5, 1, 2, 3.0, 1e-3, 1e6, 1.5, 2**60, "", "x", "none", True, False, [], [1], [None], ["1"],
          {}, {"x": 1}]
SEEDS = [
    {"n": 6, "matrix": {"family": "toeplitz", "coefficients": [1, 0.5], "stamps": 2, "normalization": "none"},
     "sampling": {"scheme": "none", "epochs": 2, "separation": 2, "schema": "min_separation"},
     "workload": {"type": "momentum", "momentum": 0.5, "decay": 0.9, "cooldown": {"from": 0.5, "to": 0.5}},
     "accountant": {"method": "gaussian", "tolerance": 0.01}, "adjacency": "add_remove", "label": "a",
     "noise_multiplier": 1.5, "delta": 0.01},
    {"n": 5, "matrix": {"family": "identity"}, "accountant": "pld",
     "sampling": {"scheme": "poisson", "batch_size": 2, "dataset_size": 9, "examples_per_user": 2,
                  "last_iterate": False}, "noise_multiplier": 2, "epsilon": 1, "curve": False},
    {"n": 3, "matrix": {"family": "dense", "rows": [[1], [0.5, 1], [0.5, 0.5, 1]]}, "sampling": {"scheme": "none"},
     "workload": {"type": "toeplitz", "coefficients": [1, 2]}, "noise_multiplier": 2, "curve": True},
    {"n": 4, "matrix": {"family": "banded", "bands": 2, "toeplitz": True, "objective": "max_squared", "gap": 0.1},
     "sampling": {"scheme": "b_min_sep", "p": 0.1, "separation": 2, "warm_start": False,
                  "truncation": {"max_batch_size": 3}, "dataset_size": 7}, "epsilon": 1, "delta": 0.1,
     "accountant": {"method": "monte_carlo", "samples": 10, "seed": 1, "threshold_share": 0.5,
                    "estimator": "plain", "max_seconds": 1}},
    {"n": 4, "matrix": {"family": "blt", "decay": [0.5], "scale": [0.5]},
     "sampling": {"scheme": "cyclic_poisson", "p": 0.1, "groups": 2}, "epsilon": 1, "delta": 0.1,
     "accountant": {"method": "auto", "bad_event_share": "auto", "max_order": 9, "bandwidth": 3}},
    {"n": 4, "matrix": {"family": "tree", "decoder": "full"},
     "sampling": {"scheme": "balls_in_bins", "bins": 2, "redraw": True},
     "epsilon": 1, "delta": 0.1},
    {"epochs": 1.5, "sampling": {"scheme": "poisson", "batch_size": 2, "dataset_size": 9}, "noise_multiplier": 2,
     "epsilon": 1},
    {"epochs": 2, "sampling": {"scheme": "none", "batch_size": 2, "dataset_size": 9, "schema": "min_separation"},
     "noise_multiplier": 2, "epsilon": 1},
]


def places(value, path=()):
    """The path of every member of a job."""
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield path + (key,)
            yield from places(item, path + (key,))


def changed(job, path, value):
    job = json.loads(json.dumps(job))
    target = job
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return job


def variants():
    """Each member in turn gets the next values of the list, with a step that combines all of them."""
    values = itertools.cycle(VALUES)
    for seed in SEEDS:
        yield seed
        for path in list(places(seed)):
            for value in itertools.islice(values, 7):
                yield changed(seed, path, value)
            if isinstance(path[-1], str):
                yield changed(seed, path[:-1] + ("unheard_of",), 1)


def test_what_the_schema_refuses_is_refused(launch):
    """Conversely, accepted jobs and their canonical forms match the schema. Jobs of unserved families are checked as
    well: they are `unsupported` only if they are valid."""
    server = launch()
    check = validator({"$ref": "#/components/schemas/JobRequest"}, False)
    accepted, refused, wrong = 0, 0, []
    for job in variants():
        answer = server.post(job)
        problem = answer.json() if answer.status_code >= 400 else {}
        valid = check.is_valid(job)
        if problem.get("type") == "/problems/invalid-job":
            refused += 1
            assert problem["errors"] and all(error["detail"] for error in problem["errors"])
            continue
        assert answer.status_code in (200, 202) or problem["type"] in ("/problems/unsupported", "/problems/too-costly")
        if not valid:
            wrong.append((answer.status_code, json.dumps(job)))
        if not problem:
            accepted += 1
            check.validate(answer.json()["job"])
    assert not wrong, f"{len(wrong)} jobs are accepted against the schema, such as {wrong[:10]}"
    assert accepted > 30 and refused > 300


def test_the_schema_refuses_what_one_member_makes_wrong(server):
    """The schema is effective: if a single member has a wrong type or range, it rejects the job as the service does."""
    check = validator({"$ref": "#/components/schemas/JobRequest"}, False)
    for path, value in ((("n",), 0), (("n",), 1.5), (("n",), "1"), (("sampling", "p"), 0), (("sampling", "p"), 1.01),
                        (("sampling", "q"), 1), (("sampling", "scheme"), "lottery"), (("delta",), 1), (("delta",), 0),
                        (("noise_multiplier",), 2e9), (("epsilon",), 1), (("delta",), None), (("steps",), 1),
                        (("accountant",), "magic"), (("accountant",), {"tolerance": 0.1}), (("curve",), True),
                        (("matrix",), {"family": "toeplitz"}), (("matrix",), {"family": "identity", "bands": 2}),
                        (("workload",), {"type": "momentum"}), (("workload",), {"type": "prefix_sum", "decay": 1}),
                        (("label",), "x" * 201), (("adjacency",), "both")):
        job = changed(DP_SGD, path, value)
        assert not check.is_valid(job), job
        assert server.post(job).json()["type"] == "/problems/invalid-job"


def test_a_returned_job_posts_as_the_same_job(server):
    for seed in SEEDS[:3]:
        first = server.solve(seed)
        again = server.post(first["job"])
        assert again.status_code == 200 and again.json()["result"]["cache"]["result"] == "hit"
        assert again.json()["job"] == first["job"]
        assert json.dumps(again.json()["job"]) == json.dumps(first["job"])
        # The same job in another notation: spaces, order, notations of numbers.
        words = json.dumps(dict(reversed(first["job"].items())), indent=3).replace('"n": ', '"n": 0.')
        words = words.replace('"n": 0.' + str(first["job"]["n"]), f'"n": {first["job"]["n"]}.0e0')
        other = server.request("POST", "/v1/jobs", data=words, headers=JSON)
        assert other.status_code == 200 and other.json()["job"] == first["job"], other.text


def test_epochs_are_another_way_to_write_n(server):
    sampling = {"scheme": "poisson", "batch_size": 600, "dataset_size": 50000}
    first = server.solve({"n": 209, "sampling": sampling, "noise_multiplier": 1, "delta": 1e-5})
    again = server.solve({"epochs": 2.5, "sampling": sampling, "noise_multiplier": 1, "delta": 1e-5})
    assert again["job"] == first["job"] and again["result"]["cache"]["result"] == "hit"
    assert "epochs" not in first["job"]
    # Without randomness the sizes determine the number of participations, and no pass over the data is left out.
    turns = {"scheme": "none", "batch_size": 500, "dataset_size": 50000}
    first = server.solve({"epochs": 20, "sampling": turns, "noise_multiplier": 9, "delta": 1e-5})
    plain = server.solve({"n": 2000, "sampling": {"scheme": "none", "epochs": 20, "separation": 100},
                          "noise_multiplier": 9, "delta": 1e-5})
    assert (first["job"]["sampling"]["epochs"], first["job"]["sampling"]["separation"]) == (20, 100)
    assert first["result"]["epsilon"] == plain["result"]["epsilon"]
    assert first["result"]["sampling"]["expected_batch_size"] == 500
    assert server.post(first["job"]).json()["result"]["cache"]["result"] == "hit"
    refused = server.post({"epochs": 2, "sampling": {"scheme": "poisson", "p": 0.1}, "epsilon": 1, "delta": 0.1})
    check_problem(refused, 422, "invalid-job", "/epochs")
    assert "sampling.batch_size and sampling.dataset_size" in refused.text


def test_numbers_are_the_doubles_that_they_decode_to(server):
    first = server.solve(dict(GAUSSIAN, matrix={"family": "toeplitz", "coefficients": [1, 0, 0.1]}))
    text = """{"n": 1.0E2, "sampling": {"scheme": "none"}, "noise_multiplier": 20e-1, "delta": 0.0000010,
               "matrix": {"coefficients": [10e-1, -0.0, 0.1000000000000000055511151231257827], "family": "toeplitz"}}"""
    answer = server.request("POST", "/v1/jobs", data=text, headers=JSON)
    assert answer.status_code == 200, answer.text
    assert answer.json()["result"]["cache"]["result"] == "hit"
    assert answer.json()["job"] == first["job"]
    assert "-0" not in json.dumps(answer.json()["job"]["matrix"])


@pytest.mark.parametrize("body,pointer", [
    ('{"n": 4, "sampling": {"scheme": "none"}, "delta": 0.1, "epsilon": 1e5}', "/epsilon"),
    ('{"n": 4, "sampling": {"scheme": "poisson", "p": 0.1, "batch_size": 2, "dataset_size": 9}, "delta": 0.1, '
     '"epsilon": 1}', None),
    ('{"n": 4, "sampling": {"scheme": "none", "epochs": 3, "separation": 2}, "delta": 0.1, "epsilon": 1}', None),
    ('{"n": 10, "sampling": {"scheme": "balls_in_bins", "batch_size": 3, "dataset_size": 9}, "delta": 0.1, '
     '"epsilon": 1}', None),
    ('{"n": 2, "matrix": {"family": "dense", "rows": [[1], [1, 1, 1]]}, "sampling": {"scheme": "none"}, '
     '"delta": 0.1, "epsilon": 1}', "/matrix/rows/1"),
    ('{"n": 2, "matrix": {"family": "dense", "rows": [[1]]}, "sampling": {"scheme": "none"}, "delta": 0.1, '
     '"epsilon": 1}', "/matrix/rows"),
    ('{"n": 3, "matrix": {"family": "square_root", "stamps": 2}, "sampling": {"scheme": "none"}, "delta": 0.1, '
     '"epsilon": 1}', "/matrix/stamps"),
    ('{"n": 2, "accountant": {"method": "gaussian", "samples": 10}, "sampling": {"scheme": "none"}, "delta": 0.1, '
     '"epsilon": 1}', "/accountant/samples"),
    ('{"n": 2, "accountant": "monte_carlo", "curve": true, "sampling": {"scheme": "none"}, '
     '"noise_multiplier": 1}', None),
    ('{"n": 2, "sampling": {"scheme": "poisson", "p": 0.1, "last_iterate": true}, "delta": 0.1, "epsilon": 1, '
     '"matrix": {"family": "square_root"}}', None),
])
def test_members_that_do_not_fit_each_other(server, body, pointer):
    answer = server.request("POST", "/v1/jobs", data=body, headers=JSON)
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    if pointer:
        assert pointer in [error["pointer"] for error in problem["errors"]], problem
    assert problem["detail"]


@pytest.mark.parametrize("body", [
    '{"n": 1, "\\u006e": 1}', '{"sampling": {"p": 1, "scheme": "poisson", "p": 1}}', '{"n": 01}', "{'n': 1}",
    '{"n": 1,}', '{"n": -}', '{"label": "\\ud800"}', '{"label": "a\nb"}', '{"n": 0x10}', '{"n": .5}', '\ufeff{}x',
    '{"label": ' + "[" * 100000 + "]" * 100000 + "}"])
def test_what_is_no_json(server, body):
    answer = server.request("POST", "/v1/jobs", data=body.encode(), headers=JSON)
    assert answer.status_code == 400, answer.text
    problem = answer.json()
    assert problem["type"] == "/problems/malformed-json" and "line" in problem["detail"]


def test_the_nearest_n_is_named(server):
    answer = server.post({"n": 10, "sampling": {"scheme": "balls_in_bins", "batch_size": 3, "dataset_size": 9},
                          "epsilon": 1, "delta": 0.1})
    assert answer.status_code == 422 and "9" in answer.json()["errors"][0]["detail"], answer.text
