"""The lifecycle of a job over HTTP: submit, wait, read, list, join, cancel, delete."""
import re
import threading
import time

import pytest

from conftest import DP_SGD, ENDLESS, GAUSSIAN, ONE_BY_ONE, PATIENCE, check_problem, until

pytestmark = pytest.mark.sanitized


def test_accepted_then_succeeded(server):
    answer = server.post(dict(DP_SGD, n=201))
    assert answer.status_code == 202
    document = answer.json()
    assert answer.headers["Location"] == f"/v1/jobs/{document['id']}" == document["links"]["self"]
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", document["id"])
    assert document["status"] in ("queued", "running")
    done = server.get(f"/v1/jobs/{document['id']}?wait=100").json()
    assert done["status"] == "succeeded"
    assert done["created_at"] == document["created_at"]
    assert done["created_at"] <= done["started_at"] <= done["finished_at"]
    assert done["attempts"] == 1
    assert done["progress"]["fraction"] == 1
    result = done["result"]
    assert result["solved_for"] == "epsilon"
    assert result["epsilon"] == result["bracket"]["upper"] >= result["bracket"]["lower"] > 0
    assert result["cache"]["result"] == "miss"


def test_wait_answers_when_finished(server):
    answer = server.post(dict(DP_SGD, n=202), headers={"Prefer": "respond-async, wait=100"})
    assert answer.status_code == 200
    assert answer.headers["Preference-Applied"] == "wait=100"
    assert answer.json()["status"] == "succeeded"


def test_wait_runs_out(launch):
    server = launch()
    started = time.monotonic()
    answer = server.post(ENDLESS, "/v1/jobs?wait=1", headers={"Prefer": "wait=100"})
    assert 0.9 < time.monotonic() - started < 20
    assert answer.status_code == 202
    document = answer.json()
    started = time.monotonic()
    polled = server.get(f"/v1/jobs/{document['id']}?wait=1")
    assert time.monotonic() - started > 0.9
    assert polled.json()["status"] == "running"
    assert polled.json()["progress"]["stage"]
    assert server.post(None, f"/v1/jobs/{document['id']}/cancel").status_code == 202


def test_a_returned_job_is_the_same_job(server):
    first = server.solve(dict(GAUSSIAN, label="again"))
    second = server.post(first["job"])
    assert second.status_code == 200
    document = second.json()
    assert document["id"] != first["id"]
    assert document["job"] == first["job"]
    assert document["label"] == "again"
    assert document["result"]["cache"]["result"] == "hit"
    for name, value in first["result"].items():
        if name not in ("cache", "elapsed_seconds"):
            assert document["result"][name] == value
    # The label is not part of the identity, nor is the notation of numbers.
    third = server.request("POST", "/v1/jobs", headers={"Content-Type": "application/json"}, data="""
        {"delta": 0.000001, "noise_multiplier": 2, "n": 1e2, "sampling": {"scheme": "none", "epochs": null}}""")
    assert third.status_code == 200
    assert third.json()["result"]["cache"]["result"] == "hit"
    assert third.json()["label"] is None


def test_finished_document_is_the_same_from_memory_and_database(launch):
    server = launch()
    job_id = server.solve(DP_SGD)["id"]
    before = server.get(f"/v1/jobs/{job_id}")
    server.stop()
    server.start()
    after = server.get(f"/v1/jobs/{job_id}")
    assert after.text == before.text
    assert after.headers["ETag"] == before.headers["ETag"]


def test_etag(server):
    location = f"/v1/jobs/{server.solve(GAUSSIAN)['id']}"
    etag = server.get(location).headers["ETag"]
    for value in (etag, f'"other", {etag}', "*", "W/" + etag):
        answer = server.get(location, headers={"If-None-Match": value})
        assert answer.status_code == 304 and not answer.content
        assert answer.headers["ETag"] == etag
    assert server.get(location, headers={"If-None-Match": '"other"'}).status_code == 200


def test_list_pages(launch):
    server = launch()
    posted = [server.solve(dict(GAUSSIAN, label="even" if i % 2 == 0 else "odd & more"))["id"] for i in range(7)]
    newest_first = posted[::-1]
    seen, path = [], "/v1/jobs?limit=3"
    while path:
        answer = server.get(path)
        page = answer.json()
        seen += [item["id"] for item in page["items"]]
        link = answer.headers.get("Link")
        assert (link is None) == (page["next"] is None)
        path = re.fullmatch(r'<(.*)>; rel="next"', link)[1] if link else None
    assert seen == newest_first
    odd, path = [], "/v1/jobs?limit=2&label=odd%20%26%20more&status=succeeded"
    while path:
        answer = server.get(path)
        odd += [item["id"] for item in answer.json()["items"]]
        link = answer.headers.get("Link")
        path = re.fullmatch(r'<(.*)>; rel="next"', link)[1] if link else None
    assert odd == posted[1::2][::-1]
    assert server.get("/v1/jobs?status=failed").json() == {"items": [], "next": None}
    answer = server.get("/v1/jobs")
    assert server.get("/v1/jobs", headers={"If-None-Match": answer.headers["ETag"]}).status_code == 304


def test_list_is_never_older_than_what_was_answered(launch):
    """Pages are cached while nothing changes, and each change is in the next one: changes in the database, and those of
    a job that is not final, which are visible before they are written."""
    server = launch(*ONE_BY_ONE)
    paths = ["/v1/jobs", "/v1/jobs?limit=2", "/v1/jobs?label=a", "/v1/jobs?status=succeeded", "/v1/jobs?status=running"]
    tags = {}

    def told(*changed):
        """Requests the lists twice each; those that changed have another tag, and the others the same."""
        lists = {}
        for path in paths:
            first = server.get(path)
            again = server.get(path, headers={"If-None-Match": first.headers["ETag"]})
            assert (again.status_code, again.headers.get("Link")) == (304, first.headers.get("Link"))
            if path in tags:
                assert (first.headers["ETag"] != tags[path]) == (path in changed), path
            tags[path] = first.headers["ETag"]
            lists[path] = first.json()
            assert first.headers.get("Link", "").count("next") == (lists[path]["next"] is not None)
        return [lists[path]["items"] for path in paths]

    assert told() == [[]] * 5
    done = [server.solve(dict(GAUSSIAN, noise_multiplier=1 + i))["id"] for i in range(3)]
    every, two, labelled, succeeded, _ = told(*paths[:2], paths[3])
    assert [item["id"] for item in every] == done[::-1] == [item["id"] for item in succeeded]
    assert [item["id"] for item in two] == done[:0:-1] and not labelled
    long = server.post(ENDLESS).json()["id"]
    server.running(long)
    waits = server.post(dict(GAUSSIAN, noise_multiplier=9, label="a")).json()["id"]
    del tags[paths[0]], tags[paths[1]], tags[paths[4]]  # progress changes
    for _ in range(20):
        listed = {item["id"]: item for item in server.get("/v1/jobs").json()["items"]}
        assert listed[waits]["status"] == "queued" and listed[long]["status"] == "running"
        (item,) = server.get("/v1/jobs?label=a").json()["items"]
        assert item["status"] == "queued"
        before = server.get(f"/v1/jobs/{long}").json()["progress"]["fraction"]
        assert server.get("/v1/jobs?status=running").json()["items"][0]["progress"]["fraction"] >= before
    server.post(None, f"/v1/jobs/{long}/cancel")
    server.until(long, "canceled")
    assert {item["id"]: item["status"] for item in server.get("/v1/jobs").json()["items"]}[long] == "canceled"
    server.until(waits, "succeeded")
    assert server.get("/v1/jobs?label=a").json()["items"][0]["status"] == "succeeded"
    assert not server.get("/v1/jobs?status=running").json()["items"]
    tags.clear()
    told()
    assert server.request("DELETE", f"/v1/jobs/{done[0]}").status_code == 204
    every, _, _, succeeded, _ = told(paths[0], paths[3])
    assert done[0] not in [item["id"] for item in every + succeeded]
    for limit in range(1, 40):  # more pages than are cached
        assert len(server.get(f"/v1/jobs?limit={limit}").json()["items"]) == min(limit, 4)
    told()


def test_list_tells_progress_that_nobody_writes_down(launch):
    server = launch(*ONE_BY_ONE)
    drawn = server.post({"n": 500, "matrix": {"family": "square_root", "bands": 4}, "noise_multiplier": 1,
                         "delta": 1e-3,
                         "sampling": {"scheme": "b_min_sep", "p": 0.01, "separation": 4},
                         "accountant": {"method": "monte_carlo", "samples": 10 ** 8}}).json()
    server.running(drawn["id"])
    seen = set()

    def moves():
        seen.update(item["progress"]["fraction"] for item in server.get("/v1/jobs?status=running").json()["items"])
        return len(seen) > 2

    until(moves)
    server.post(None, drawn["links"]["cancel"])


def test_list_leaves_out_arrays(server):
    job = {"n": 4, "matrix": {"family": "toeplitz", "coefficients": [1, 0.5]},
           "sampling": {"scheme": "none"}, "noise_multiplier": 1.5, "delta": 1e-6, "label": "arrays"}
    document = server.solve(job)
    assert document["job"]["matrix"]["coefficients"] == [1, 0.5]
    item = server.get("/v1/jobs?label=arrays").json()["items"][0]
    assert item["id"] == document["id"]
    assert "coefficients" not in item["job"]["matrix"]
    assert item["result"]["epsilon"] == document["result"]["epsilon"]


def test_list_leaves_out_every_array(server):
    blt = {"family": "blt", "decay": [0.9, 0.5], "scale": [0.1, 0.3]}
    workload = {"type": "toeplitz", "coefficients": [1, 0.25]}
    given = server.solve(dict(GAUSSIAN, matrix=blt, workload=workload, label="blt"))
    assert given["job"]["matrix"]["decay"] == [0.9, 0.5]
    assert given["job"]["workload"]["coefficients"] == [1, 0.25]
    item = server.get("/v1/jobs?label=blt").json()["items"][0]["job"]
    assert {"family", "normalization", "stamps"} <= set(item["matrix"])
    assert not [value for part in ("matrix", "workload") for value in item[part].values() if isinstance(value, list)]


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "limit=x", "status=done", "cursor=1"])
def test_list_refuses_bad_queries(server, query):
    check_problem(server.get("/v1/jobs?" + query), 422, "invalid-job")


def test_equal_jobs_are_computed_once(launch):
    server = launch("--workers", "2")
    first = server.post(ENDLESS).json()
    server.until(first["id"], "running")
    second = server.post(dict(ENDLESS, label="the same")).json()
    assert second["id"] != first["id"]
    assert server.until(second["id"], "running")["attempts"] == 1
    assert server.metric("epsilond_jobs_joined_total") == 1
    assert server.metric("epsilond_workers_busy") == 1
    # Canceling one does not affect the other.
    assert server.post(None, f"/v1/jobs/{first['id']}/cancel").status_code == 202
    assert server.get(f"/v1/jobs/{first['id']}").json()["status"] == "canceled"
    assert server.get(f"/v1/jobs/{second['id']}").json()["status"] == "running"
    assert server.metric("epsilond_workers_busy") == 1
    assert server.post(None, f"/v1/jobs/{second['id']}/cancel").status_code == 202
    until(lambda: server.metric("epsilond_workers_busy") == 0)


def test_many_equal_jobs_at_once_share_one_run(launch):
    server = launch("--workers", "2")
    answers = []

    def ask():
        import requests
        answers.append(requests.post(server.url + "/v1/jobs?wait=100", json=dict(DP_SGD, n=777), timeout=PATIENCE))

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.status_code for answer in answers] == [200] * 12
    assert len({answer.json()["id"] for answer in answers}) == 12
    assert len({answer.json()["result"]["epsilon"] for answer in answers}) == 1
    assert server.metric("epsilond_run_seconds_count") == 1


def test_cancel_within_two_seconds(launch):
    server = launch()
    job_id = server.post(ENDLESS).json()["id"]
    server.until(job_id, "running")
    started = time.monotonic()
    answer = server.post(None, f"/v1/jobs/{job_id}/cancel")
    assert answer.status_code == 202
    document = server.until(job_id, "canceled")
    assert time.monotonic() - started < 2
    assert document["finished_at"]
    # The worker is free again just as fast.
    until(lambda: not server.metric("epsilond_workers_busy"), 10)
    again = server.post(None, f"/v1/jobs/{job_id}/cancel")
    assert again.status_code == 200
    assert again.json() == document


def test_cancel_wakes_who_waits(launch):
    server = launch()
    job_id = server.post(ENDLESS).json()["id"]
    server.until(job_id, "running")
    answers = []

    def wait():
        import requests
        answers.append(requests.get(f"{server.url}/v1/jobs/{job_id}?wait=100", timeout=PATIENCE))

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: server.metric("epsilond_http_requests_waiting") >= 1)
    server.post(None, f"/v1/jobs/{job_id}/cancel")
    thread.join(20)
    assert not thread.is_alive()
    assert answers[0].json()["status"] == "canceled"


def test_cancel_a_queued_job(launch):
    server = launch(*ONE_BY_ONE)
    running = server.post(ENDLESS).json()["id"]
    server.until(running, "running")
    queued = server.post(DP_SGD).json()["id"]
    assert server.get(f"/v1/jobs/{queued}").json()["status"] == "queued"
    assert server.metric("epsilond_jobs_queued") == 1
    document = server.post(None, f"/v1/jobs/{queued}/cancel").json()
    assert document["status"] == "canceled" and document["attempts"] == 0
    assert server.metric("epsilond_jobs_queued") == 0
    # A new equal job is not affected by the canceled one.
    again = server.post(DP_SGD).json()["id"]
    server.post(None, f"/v1/jobs/{running}/cancel")
    assert server.until(again, "succeeded")


def test_delete(launch):
    server = launch()
    finished = server.solve(GAUSSIAN)["id"]
    assert server.request("DELETE", f"/v1/jobs/{finished}").status_code == 204
    check_problem(server.get(f"/v1/jobs/{finished}"), 404, "not-found")
    check_problem(server.request("DELETE", f"/v1/jobs/{finished}"), 404, "not-found")
    running = server.post(ENDLESS).json()["id"]
    server.until(running, "running")
    check_problem(server.request("DELETE", f"/v1/jobs/{running}"), 409, "conflict")
    server.post(None, f"/v1/jobs/{running}/cancel")
    assert server.request("DELETE", f"/v1/jobs/{running}").status_code == 204


def test_a_failed_job_is_200_with_its_problem(server):
    # 1e-300 at epsilon 0 needs more noise than the maximum.
    answer = server.post({"n": 1000, "sampling": {"scheme": "poisson", "p": 1}, "epsilon": 0, "delta": 1e-300},
                         "/v1/jobs?wait=100")
    assert answer.status_code == 200
    document = answer.json()
    assert document["status"] == "failed"
    assert document["error"]["type"] == "/problems/unattainable"
    assert document["error"]["instance"] == f"/v1/jobs/{document['id']}"
    assert document["id"] in [item["id"] for item in server.get("/v1/jobs?status=failed").json()["items"]]
    check_problem(server.get(f"/v1/jobs/{document['id']}/curve"), 409, "conflict")


def test_a_run_over_max_seconds_fails(launch):
    server = launch("--max-seconds", "1")
    document = server.post(ENDLESS, "/v1/jobs?wait=100").json()
    assert document["status"] == "failed"
    assert document["error"]["type"] == "/problems/timeout"


def test_options_and_head(server):
    answer = server.request("OPTIONS", "/v1/jobs")
    assert answer.status_code == 204
    assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD", "OPTIONS", "POST"}
    location = f"/v1/jobs/{server.solve(GAUSSIAN)['id']}"
    head, get = server.request("HEAD", location), server.get(location)
    assert head.status_code == 200 and not head.content
    for name in ("ETag", "Content-Type", "Content-Length"):
        assert head.headers[name] == get.headers[name]


def test_a_result_says_what_computed_it(server):
    first = server.solve(dict(DP_SGD, n=321))
    assert first["result"]["accounting_version"] == server.get("/v1").json()["accounting_version"]
    assert first["result"]["compute_seconds"] > 0
    again = server.solve(dict(DP_SGD, n=321))
    assert again["result"]["cache"]["result"] == "hit" and again["result"]["elapsed_seconds"] == 0
    assert again["result"]["compute_seconds"] == first["result"]["compute_seconds"]


@pytest.mark.parametrize("job", [
    {"n": 900, "matrix": {"family": "square_root"}, "sampling": {"scheme": "poisson", "p": 0.1}, "noise_multiplier": 4,
     "delta": 1e-6, "accountant": {"method": "mmcc", "tolerance": 1e-5}},
    {"n": 1024, "matrix": {"family": "optimal", "gap": 1e-9}, "noise_multiplier": 4, "delta": 1e-6,
     "sampling": {"scheme": "none", "epochs": 16, "separation": 64}}], ids=["mmcc", "optimal"])
def test_a_long_job_moves_and_says_how_long_it_takes(launch, job):
    """The progress used to stay at 0 until the end."""
    server = launch("--max-operations", "1e18")
    job_id = server.post(job).json()["id"]
    server.until(job_id, "running")
    deadline, seen = time.monotonic() + PATIENCE, []
    while time.monotonic() < deadline and len(set(seen)) < 3:
        document = server.get(f"/v1/jobs/{job_id}").json()
        assert document["status"] == "running", document
        seen.append(document["progress"]["fraction"])
        assert document["progress"]["remaining_seconds"] > 0
        time.sleep(0.02)
    assert len(set(seen)) >= 3 and seen == sorted(seen) and seen[-1] < 1
    server.request("POST", f"/v1/jobs/{job_id}/cancel")
