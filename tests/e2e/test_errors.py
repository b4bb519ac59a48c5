"""Invalid input: each invalid request gets its status and a problem document that names the error."""
import json
import re
import socket
import subprocess

import pytest
import yaml

from conftest import BINARY, DP_SGD, ENDLESS, ONE_BY_ONE, PATIENCE, ROOT, check_problem

pytestmark = pytest.mark.sanitized
JSON = {"Content-Type": "application/json"}
CONTRACT = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text())


def changed(**members):
    job = json.loads(json.dumps(DP_SGD))
    for name, value in members.items():
        if name == "p":
            job["sampling"]["p"] = value
        else:
            job[name] = value
    return job


# What is refused, where and how: tests/unit/api/refusals.jsonl. Here: that it comes through.
INVALID = [
    ("/n", changed(n=True)),
    ("/sampling/p", changed(p=1.0001)),
    ("", changed(epsilon=1.0)),
    ("/accountant/tolerance", changed(accountant={"method": "pld", "tolerance": 1})),
    ("/matrix/coefficients/1", changed(matrix={"family": "toeplitz", "coefficients": [1, "2"]})),
]


@pytest.mark.parametrize("pointer,job", INVALID, ids=lambda value: None if isinstance(value, dict) else value
                         or "whole")
def test_invalid_job(server, pointer, job):
    check_problem(server.post(job), 422, "invalid-job", pointer)


def detail(problem, pointer):
    return next(error["detail"] for error in problem["errors"] if error["pointer"] == pointer)


# The place of the wrong name, and the proposal.
MEANT = [
    ("/sampling/sample_rate", 0.1, "did you mean p?"),
    ("/matrix/family", "bandmf", "did you mean banded?"),
    ("/sampling/scheme", "lottery", None),
]


@pytest.mark.parametrize("pointer,value,words", MEANT, ids=[f"{row[0]}-{row[1]}" for row in MEANT])
def test_the_name_that_was_meant(server, pointer, value, words):
    job = changed(matrix={"family": "banded", "bands": 2})
    *path, name = pointer.split("/")[1:]
    place = job
    for step in path:
        place = place.setdefault(step, {})
    place[name] = value
    told = detail(check_problem(server.post(job), 422, "invalid-job", pointer), pointer)
    assert words in told if words else "did you mean" not in told


def test_parameters_of_queries_that_were_meant(server):
    for query, meant in {"?limits=3": "limit", "?state=running": "status", "?labl=x": "label"}.items():
        problem = check_problem(server.get("/v1/jobs" + query), 422, "invalid-job", query.split("=")[0])
        assert f"did you mean {meant}?" in problem["detail"]
    assert "did you mean wait?" in check_problem(server.post({}, "/v1/jobs?wiat=3"), 422, "invalid-job")["detail"]


def test_every_foreign_name_stands_for_one_of_ours():
    rows = re.findall(r'^    \{"([^"]+)", "([^"]+)"\},$', (ROOT / "api" / "codec" / "meant.c").read_text(),
                      re.MULTILINE)
    words = set(re.findall(r"[a-z_]+[0-9]*", (ROOT / "api" / "openapi.yaml").read_text()))
    assert len(rows) > 50 and len(set(rows)) == len(rows)
    for theirs, ours in rows:
        assert ours in words and theirs == re.sub("[^a-z0-9]", "", theirs)


def test_every_violation_at_once(server):
    problem = check_problem(server.post({"n": 0, "sampling": {"scheme": "poisson", "p": 2}, "delta": 3, "epsilon": 1,
                                         "spam": 1}), 422, "invalid-job")
    assert {"/n", "/sampling/p", "/delta", "/spam"} <= {error["pointer"] for error in problem["errors"]}


MALFORMED = [
    ("", "the body is empty"),
    (" \n\t\r\n", "the body is empty"),
    ("{", None),
    ('{"n": 1,\n  "n": 2}', "line 2"),
    ('{"n": 1,\n\n oops}', "line 3"),
    ('{"n": NaN}', "line 1"),
    ('{"n": Infinity}', "line 1"),
    ('{"n": 1e999}', None),
    ('{"n": 20000000000000000001}', None),
    ("[" * 100000, None),
    ('{"a":' * 100000, None),
    (b'{"label": "\xff\xfe"}', None),
    ('{"n": 1} trailing', None),
]


@pytest.mark.parametrize("body,place", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_json(server, body, place):
    problem = check_problem(server.request("POST", "/v1/jobs", data=body, headers=JSON), 400, "malformed-json")
    assert "line" in problem["detail"] and "column" in problem["detail"]
    assert place is None or place in problem["detail"]


@pytest.mark.parametrize("body", ["[]", "1", "null", '"job"'])
def test_json_that_is_no_object(server, body):
    check_problem(server.request("POST", "/v1/jobs", data=body, headers=JSON), 422, "invalid-job")


def test_body_over_the_limit(server):
    body = b'{"n": 1' + b" " * (8 << 20) + b"}"
    check_problem(server.request("POST", "/v1/jobs", data=body, headers=JSON), 413, "body-too-large")
    # Chunked: the length is not known in advance.
    pieces = (b" " * 65536 for _ in range(160))
    check_problem(server.request("POST", "/v1/jobs", data=pieces, headers=JSON), 413, "body-too-large")
    assert server.get("/healthz").status_code == 200


def test_expect_continue_is_refused_before_the_body(server):
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           b"Content-Length: 900000000\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("media", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonp"])
def test_wrong_media_type(server, media):
    headers = {"Content-Type": media} if media else {}
    problem = check_problem(server.request("POST", "/v1/jobs", data=b"{}", headers=headers), 415, "media-type")
    assert "application/json" in problem["detail"]


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/sweeps", "/v1/plans", "/v1/noise", "/v1/batches"])
def test_no_body_needs_no_media_type(server, path):
    for headers in [{}, JSON]:
        problem = check_problem(server.request("POST", path, headers=headers), 400, "malformed-json")
        assert "the body is empty" in problem["detail"]


def test_media_type_may_have_parameters(server):
    answer = server.request("POST", "/v1/jobs?wait=100", data=json.dumps(DP_SGD),
                            headers={"Content-Type": "Application/JSON; charset=utf-8"})
    assert answer.status_code == 200


def test_not_acceptable(server):
    check_problem(server.get("/v1/jobs", headers={"Accept": "text/html"}), 406, "not-acceptable")
    check_problem(server.get("/v1", headers={"Accept": "application/json;q=0"}), 406, "not-acceptable")
    for accept in ("*/*", "application/*", "text/html, application/json;q=0.1", ""):
        assert server.get("/v1/jobs", headers={"Accept": accept}).status_code == 200


@pytest.mark.parametrize("path", ["/v1/jobs/1", "/v1/jobs/01234567-0000-7000-8000-000000000000",
                                  "/v1/jobs/01234567-0000-7000-8000-00000000000G", "/v1/jobs/", "/v2", "/nowhere",
                                  "/v1/jobs/" + "a" * 3000, "/problems/nothing", "/v1/jobs/x/curve/y"])
def test_unknown_path_or_id(server, path):
    check_problem(server.get(path), 404, "not-found")


@pytest.mark.parametrize("method,path", [("PUT", "/v1/jobs"), ("PATCH", "/v1"), ("GET", "/v1/jobs/x/cancel"),
                                         ("POST", "/metrics"), ("DELETE", "/v1/jobs")])
def test_method_not_allowed(server, method, path):
    answer = server.request(method, path)
    check_problem(answer, 405, "method")
    assert "OPTIONS" in answer.headers["Allow"]
    assert method not in answer.headers["Allow"].split(", ")


def operations():
    """Each operation of the contract: method, path, and query parameters."""
    for path, item in CONTRACT["paths"].items():
        for method in ("get", "post", "delete"):
            if method in item:
                parameters = [parameter if "name" in parameter else
                              CONTRACT["components"]["parameters"][parameter["$ref"].rsplit("/", 1)[1]]
                              for parameter in item.get("parameters", []) + item[method].get("parameters", [])]
                yield method.upper(), path, [one["name"] for one in parameters if one["in"] == "query"]


def ask(server, method, path, query):
    path = path.replace("{id}", server.solve(DP_SGD)["id"]).replace("{type}", "internal")
    return server.request(method, f"{path}?{query}", data=json.dumps(DP_SGD) if path == "/v1/jobs" else None,
                          headers=JSON)


@pytest.mark.parametrize("method,path,names", list(operations()), ids=lambda value: value if type(value) is str else "")
def test_the_query_has_what_the_contract_says_and_nothing_else(server, method, path, names):
    problem = check_problem(ask(server, method, path, "prat=noise&%20=1"), 422, "invalid-job")
    assert {error["pointer"] for error in problem["errors"]} == {"?prat", "? "}
    there = re.sub("^unknown query parameter(; did you mean part[?] Allowed: |; allowed: |; none is allowed here)", "",
                   problem["errors"][0]["detail"])
    assert sorted(there.split(", ")) == (sorted(names) or [""])
    # All errors at once: unknown, without a value, repeated.
    for name in names:
        problem = check_problem(ask(server, method, path, f"{name}&x=1&{name}=1"), 422, "invalid-job")
        assert [error["pointer"] for error in problem["errors"]] == [f"?{name}", "?x", f"?{name}"]
    check_problem(ask(server, method, path, "=1"), 422, "invalid-job")
    answer = ask(server, "HEAD", path, "prat=noise")
    assert method != "GET" or (answer.status_code == 422 and not answer.content)


def test_a_misspelt_part_is_no_matrix(server):
    """It used to return the encoder, with 200."""
    matrix = server.solve(DP_SGD)["links"]["matrix"]
    problem = check_problem(server.get(matrix + "?prat=noise"), 422, "invalid-job")
    assert problem["errors"] == [{"pointer": "?prat",
                                  "detail": "unknown query parameter; did you mean part? Allowed: part, form, phase"}]
    assert "?prat" in problem["detail"]
    assert server.get(matrix + "?part=noise").json()["part"] == "noise"


@pytest.mark.parametrize("query", [
    "part=", "part", "part=nose", "part=Noise", "part=noise&part=encoder", "part=noise&part=noise", "form=",
    "form=band",
    "part=noise%20", "part=noise&", "&"])
def test_queries_are_read_to_the_letter(server, query):
    answer = server.get(f"{server.solve(DP_SGD)['links']['matrix']}?{query}")
    if query.strip("&") in ("", "part=noise"):  # an empty parameter says nothing
        assert answer.status_code in (200, 422)
    else:
        check_problem(answer, 422, "invalid-job")


@pytest.mark.parametrize("query", ["label=" + "x" * 201, "label=%ff", "limit=1e1", "limit=+1", "limit=%201",
                                   "limit=01x",
                                   "cursor=", "status=Queued", "limit=1&limit=2", "status=failed&status=failed"])
def test_lists_refuse_bad_queries(server, query):
    check_problem(server.get("/v1/jobs?" + query), 422, "invalid-job")
    assert server.get("/v1/jobs?label=" + "%C3%A9" * 200).json() == {"items": [], "next": None}


@pytest.mark.parametrize("limit,words", [("0", "at least one"), ("000", "at least one"),
                                         ("501", "the largest page size"),
                                         ("9" * 40, "the largest page size")])
def test_limits_out_of_range_are_told_apart(server, limit, words):
    sweep = server.post({"base": DP_SGD, "grid": {"/n": [1]}}, "/v1/sweeps").json()
    for path in ("/v1/jobs", "/v1/sweeps", "/v1/plans", sweep["links"]["self"] + "/points"):
        problem = check_problem(server.get(f"{path}?limit={limit}"), 422, "invalid-job", "?limit")
        assert words in problem["errors"][0]["detail"]


def test_bad_wait(server):
    for value in ("x", "-1", "1.5", ""):
        check_problem(server.post(DP_SGD, f"/v1/jobs?wait={value}"), 422, "invalid-job", "?wait")
    for value in ("301", "1000", "9" * 400):
        problem = check_problem(server.post(DP_SGD, f"/v1/jobs?wait={value}"), 422, "invalid-job", "?wait")
        assert "exceeds 300 seconds" in problem["errors"][0]["detail"]
    assert server.post(DP_SGD, "/v1/jobs?wait=300").status_code == 200
    # A preference that cannot be parsed is ignored, and a wait that is too long is applied up to the limit.
    assert server.post(DP_SGD, headers={"Prefer": "wait=soon"}).status_code in (200, 202)
    assert server.post(DP_SGD, headers={"Prefer": "wait=1000"}).headers["Preference-Applied"] == "wait=300"


# pld does not support several bands under Poisson sampling; the matrix takes an optimiser, which the first request has
# run.
def test_the_same_request_has_the_same_answer_whatever_was_computed(launch):
    server = launch()
    job = {"n": 128, "matrix": {"family": "banded", "bands": 4}, "sampling": {"scheme": "poisson", "p": 0.01},
           "noise_multiplier": 2, "delta": 1e-6, "accountant": "pld"}
    phases = {"phases": [{name: job[name] for name in ("n", "matrix", "sampling")},
                         {"n": 9, "sampling": {"scheme": "none"}}],
              "noise_multiplier": 2, "delta": 1e-6, "accountant": "pld"}
    before = [check_problem(server.post(one), 422, "unsupported") for one in (job, phases)]
    assert server.get("/v1/jobs").json()["items"] == []
    done = server.solve(dict(job, accountant="gaussian"))
    assert done["result"]["cache"]["factorization"] == "miss"
    assert [check_problem(server.post(one), 422, "unsupported") for one in (job, phases)] == before
    job["matrix"] = {"family": "stored", "id": done["result"]["factorization"]["id"]}
    assert check_problem(server.post(job), 422, "unsupported")["errors"] == before[0]["errors"]


@pytest.mark.parametrize("job", [
    {"n": 100, "matrix": {"family": "blt", "buffers": 2}, "sampling": {"scheme": "none"}},
    {"n": 100, "matrix": {"family": "stored", "id": "0" * 64}, "sampling": {"scheme": "none"}},
], ids=["blt", "stored"])
def test_what_is_not_served_says_so(server, job):
    served = server.get("/v1").json()["families"]
    if job["matrix"]["family"] in served:
        pytest.skip("this build serves it")
    problem = check_problem(server.post(dict(job, noise_multiplier=1, delta=1e-6)), 422, "unsupported")
    assert problem["detail"]


def test_too_costly(launch):
    server = launch("--max-operations", "1000")
    problem = check_problem(server.post(dict(DP_SGD, n=100000)), 422, "too-costly")
    assert problem["operations"] > 1000
    assert problem["bytes"] >= 0


def test_queue_full(launch):
    server = launch("--queue", "1", *ONE_BY_ONE)
    running = server.post(ENDLESS).json()["id"]
    server.until(running, "running")
    assert server.post(dict(DP_SGD, n=11)).status_code == 202
    answer = server.post(dict(DP_SGD, n=12))
    check_problem(answer, 503, "queue-full")
    assert int(answer.headers["Retry-After"]) > 0
    check_problem(server.get("/readyz"), 503, "queue-full")
    assert server.metric("epsilond_queue_refused_total") == 1
    server.post(None, f"/v1/jobs/{running}/cancel")


def test_a_broken_request_line_does_no_harm(server):
    host, port = server.url.removeprefix("http://").split(":")
    for garbage in (b"\0\0\0\r\n\r\n", b"GET\r\n\r\n", b"POST /v1/jobs HTTP/1.1\r\nContent-Length: -1\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(garbage)
    # An incomplete request may remain unanswered until the idle limit; it must not delay others.
    assert server.get("/healthz").status_code == 200


@pytest.mark.parametrize("job,pointer", [
    ({"accountant": "magic"}, "/accountant"),
    ({"accountant": "mmcc", "curve": True, "delta": None}, "/accountant"),
    ({"accountant": {"method": "mmcc"}, "curve": True, "delta": None}, "/accountant/method"),
    ({"n": 5000, "matrix": {"family": "optimal"}}, "/n"),
    ({"n": None, "epochs": 50, "matrix": {"family": "optimal"}}, "/epochs"),
    ({"n": None, "epochs": 50, "matrix": {"family": "stored", "id": "0" * 64, "stamps": 3}}, "/matrix/stamps"),
])
def test_the_pointer_is_where_it_was_written(server, job, pointer):
    whole = {"n": 100, "sampling": {"scheme": "none", "batch_size": 5, "dataset_size": 500}, "noise_multiplier": 1,
             "delta": 1e-6, **job}
    problem = server.post(whole).json()
    assert [error["pointer"] for error in problem["errors"]] == [pointer], problem
    ended = subprocess.run([BINARY, "solve", "-"], input=json.dumps(whole), capture_output=True, text=True,
                           timeout=PATIENCE)
    assert [error["pointer"] for error in json.loads(ended.stdout or ended.stderr)["errors"]] == [pointer]


def test_the_least_noise_of_the_largest_matrix_has_a_curve(server):
    matrix = {"family": "toeplitz", "coefficients": [1e100], "normalization": "none"}
    result = server.solve({"n": 1, "matrix": matrix, "sampling": {"scheme": "none"}, "noise_multiplier": 1e-9,
                           "curve": True})["result"]
    assert 5e217 < result["curve"][-1]["epsilon"] < 6e217


@pytest.mark.parametrize("scheme", ["poisson", "b_min_sep"])
def test_auto_says_what_stands_in_the_way(server, scheme):
    """The message is not that of the first accountant that fails, which the job did not name."""
    job = {"n": 20, "matrix": {"family": "toeplitz", "coefficients": [1, -0.5]},
           "sampling": {"scheme": scheme, "p": 0.1},
           "noise_multiplier": 1, "delta": 1e-6}
    problem = check_problem(server.post(job), 422, "unsupported")
    assert "entries are all >= 0" in problem["detail"] and "pld" not in problem["detail"]
    named = check_problem(server.post(dict(job, accountant="pld")), 422, "unsupported")
    assert "pld" in named["detail"]
