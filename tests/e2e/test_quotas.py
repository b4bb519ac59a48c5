"""
Quotas of keys: each is refused with 429 when it is used up, a refused request does nothing, and other keys are served.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import os
import re
import signal
import subprocess
import sys

import pytest
import requests

from conftest import BINARY, DP_SGD, ENDLESS, GAUSSIAN, ONE_BY_ONE, ROOT, check_problem, draw_key, until

sys.path.insert(0, str(ROOT / "api" / "python"))

import epsilond  # noqa: E402

pytestmark = pytest.mark.sanitized
UNITS = {"requests": ("request", ";w=1"), "queued": ("job", ""), "seconds": ("second", ";w=3600"),
         "streams": ("stream", ""), "bytes": ("byte", "")}
SLOW = {"base": ENDLESS, "grid": {"/epsilon": [1, 2]}}
NOISE = {"dimensions": 200000}


def slow(i):
    return {**ENDLESS, "epsilon": 1 + i / 1000}


class Keyed:
    """A server and its keys, by name: the text of a quota, or None."""

    def __init__(self, launch, path, *options, **quotas):
        self.path = path
        self.keys, self.lines = {}, {}
        for name, quota in quotas.items():
            scope = "admin" if name == "admin" else "submit"
            self.keys[name], self.lines[name] = draw_key("--scope", scope, *(("--quota", quota) if quota else ()))
        self.write()
        self.server = launch("--keys", str(path), *options)

    def write(self, **changed):
        """Replaces the quotas in the lines."""
        for name, quota in changed.items():
            words = [word for word in self.lines[name].split() if "=" not in word]
            self.lines[name] = " ".join(words + quota.split(","))
        self.path.write_text("".join(f"{line}\n" for line in self.lines.values()))
        self.path.chmod(0o600)

    def reload(self, **changed):
        self.write(**changed)
        seen = self.server.log_text().count("event=keys ")
        self.server.process.send_signal(signal.SIGHUP)
        until(lambda: self.server.log_text().count("event=keys ") > seen)

    def ask(self, who, path, body=None, method=None, **options):
        headers = {"Authorization": f"Bearer {self.keys[who]}", **options.pop("headers", {})}
        return requests.request(method or ("GET" if body is None else "POST"), self.server.url + path, json=body,
                                headers=headers, timeout=100, **options)

    def ids(self, who, kind="jobs"):
        return [item["id"] for item in self.ask(who, f"/v1/{kind}?limit=100").json()["items"]]


@pytest.fixture
def keyed(launch, tmp_path):
    return lambda *options, **quotas: Keyed(launch, tmp_path / "keys", *options, **quotas)


def check_over(answer, quota, most):
    problem = check_problem(answer, 429, "quota")
    unit, window = UNITS[quota]
    assert problem["quota"] == quota and str(most) in problem["detail"]
    retry = int(answer.headers["Retry-After"])
    assert retry >= 1
    assert answer.headers["RateLimit-Policy"] == f'"{quota}";q={most};qu="{unit}"{window}'
    left = re.fullmatch(rf'"{quota}";r=(\d+);t={retry}', answer.headers["RateLimit"])
    return int(left[1])


# ---------------------------------------------------------------- the command and the file


@pytest.mark.parametrize("quota", ["requests=5", "requests=0/s", "queued=1,queued=1", "bytes=1e9", "seconds=-1/h", "",
                                   "streams=99999999999999999999", "memory=1", "queued=1 streams=1"])
def test_a_wrong_quota_is_refused(quota, launch, tmp_path):
    run = subprocess.run([BINARY, "key", "--quota", quota, "new"], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (2, "") and "--quota: " in run.stderr
    if "=" not in quota or " " in quota:
        return
    path = tmp_path / "keys"
    path.write_text(f"{draw_key()[1]} {quota.replace(',', ' ')}\n")
    path.chmod(0o600)
    serve = subprocess.run([BINARY, "serve", "--listen", "127.0.0.1:0", "--db", tmp_path / "x.db", "--keys", path],
                           capture_output=True, text=True, timeout=60)
    assert serve.returncode == 1 and "line 1 of" in serve.stderr and not os.path.exists(tmp_path / "x.db")


def test_a_line_has_the_quotas_before_the_name():
    _, line = draw_key("--quota", "bytes=1MiB,requests=5/s", "--name", "ann")
    assert line.split()[4:] == ["requests=5/s", "bytes=1048576", "ann"]


# ---------------------------------------------------------------- each of them


def test_requests_a_second(keyed):
    keyed = keyed(few="requests=4/s", free=None, admin=None)
    answers = [keyed.ask("few", "/v1/jobs") for _ in range(40)]
    over = [answer for answer in answers if answer.status_code != 200]
    assert 4 <= len(answers) - len(over) and len(over) > 5
    assert all(check_over(answer, "requests", 4) == 0 for answer in over)
    assert keyed.ask("free", "/v1/jobs").status_code == 200
    assert requests.get(keyed.server.url + "/healthz", timeout=60).status_code == 200
    until(lambda: keyed.ask("few", "/v1/jobs").status_code == 200)
    posted = [keyed.ask("few", "/v1/jobs", {**GAUSSIAN, "noise_multiplier": 1 + i}).status_code for i in range(20)]
    assert 429 in posted and len(keyed.ids("free")) == sum(status != 429 for status in posted)
    metrics = keyed.ask("admin", "/metrics").text
    series = r'^epsilond_(?:quota_refused_total{quota="requests"}|http_problems_total{problem="quota"}) (\d+)$'
    counts = [int(count) for count in re.findall(series, metrics, re.M)]
    assert len(counts) == 2 and min(counts) >= len(over) + posted.count(429)


def test_waiting_jobs(keyed):
    keyed = keyed(*ONE_BY_ONE, few="queued=3", other=None)
    first = keyed.ask("other", "/v1/jobs", ENDLESS).json()["id"]
    until(lambda: keyed.ask("other", f"/v1/jobs/{first}").json()["status"] == "running")
    waiting = [keyed.ask("few", "/v1/jobs", slow(300 + i)).json()["id"] for i in range(2)]
    sweep = keyed.ask("few", "/v1/sweeps", SLOW)
    assert sweep.status_code == 202
    for path, body in (("/v1/jobs", slow(1)), ("/v1/sweeps", SLOW)):
        check_over(keyed.ask("few", path, body, headers={"Idempotency-Key": path}), "queued", 3)
    assert sorted(keyed.ids("few")) == sorted(waiting + [first]) and len(keyed.ids("few", "sweeps")) == 1
    assert keyed.ask("other", "/v1/jobs", DP_SGD).status_code == 202
    keyed.ask("few", f"/v1/jobs/{waiting[0]}/cancel", {})
    again = keyed.ask("few", "/v1/jobs", slow(400), headers={"Idempotency-Key": "/v1/jobs"})
    assert again.status_code == 202 and "Idempotent-Replayed" not in again.headers
    check_over(keyed.ask("few", "/v1/jobs", slow(401)), "queued", 3)
    replayed = keyed.ask("few", "/v1/jobs", slow(400), headers={"Idempotency-Key": "/v1/jobs"})
    assert replayed.json()["id"] == again.json()["id"]
    keyed.reload(few="queued=4")
    assert keyed.ask("few", "/v1/jobs", slow(402)).status_code == 202
    check_over(keyed.ask("few", "/v1/jobs", slow(403)), "queued", 4)
    keyed.server.stop()
    keyed.server.start()  # what waited still does, and counts, but one may run now
    assert 429 in [keyed.ask("few", "/v1/jobs", slow(404 + i)).status_code for i in range(2)]


def test_a_key_fills_only_its_part_of_the_queue(keyed):
    keyed = keyed(*ONE_BY_ONE, "--queue", "20", flood=None, other=None)
    first = keyed.ask("other", "/v1/jobs", ENDLESS).json()["id"]
    until(lambda: keyed.ask("other", f"/v1/jobs/{first}").json()["status"] == "running")
    posted = [keyed.ask("flood", "/v1/jobs", {**DP_SGD, "n": 300 + i}) for i in range(15)]
    assert [answer.status_code for answer in posted] == [202] * 10 + [429] * 5
    check_over(posted[-1], "queued", 10)
    posted = [keyed.ask("other", "/v1/jobs", {**DP_SGD, "n": 400 + i}).status_code for i in range(6)]
    assert posted == [202] * 5 + [429]
    keyed.ask("other", f"/v1/jobs/{first}/cancel", {})


def test_seconds_of_computing(keyed):
    keyed = keyed("--express", "0", few="seconds=1/h", other=None)
    first = {**DP_SGD, "n": 60000, "delta": 1e-9, "accountant": {"method": "pld", "tolerance": 1e-6}}
    job = keyed.ask("few", "/v1/jobs?wait=60", first).json()
    assert job["status"] == "succeeded"
    bodies = ({**DP_SGD, "n": 50000 + i, "accountant": {"method": "pld", "tolerance": 1e-7}} for i in range(1000))
    answer = next(filter(lambda answer: answer.status_code == 429,
                         (keyed.ask("few", "/v1/jobs?wait=60", body) for body in bodies)))
    assert check_over(answer, "seconds", 1) == 0
    assert keyed.ask("few", "/v1/jobs", first).status_code == 200  # it is cached
    check_over(keyed.ask("few", "/v1/sweeps", {"base": DP_SGD, "grid": {"/delta": [1e-5, 1e-4]}}), "seconds", 1)
    curve = keyed.ask("few", job["links"]["curve"])
    check_over(curve, "seconds", 1)
    assert keyed.ask("other", job["links"]["curve"]).status_code == 200
    assert keyed.ask("few", job["links"]["curve"]).status_code == 200
    keyed.reload(few="seconds=3600/h")
    assert keyed.ask("few", "/v1/jobs", {**DP_SGD, "n": 777}).status_code == 202


def test_streams_at_a_time(keyed):
    keyed = keyed(few="streams=2", other=None)
    job = keyed.ask("few", "/v1/jobs?wait=60", GAUSSIAN).json()["id"]
    body = {"job": job, **NOISE}
    streams = [keyed.ask("few", "/v1/noise", body, stream=True) for _ in range(2)]
    assert [stream.status_code for stream in streams] == [200, 200]
    check_over(keyed.ask("few", "/v1/noise", body), "streams", 2)
    check_over(keyed.ask("few", "/v1/batches", {"job": job}), "streams", 2)
    with keyed.ask("other", "/v1/noise", body, stream=True) as stream:
        assert stream.status_code == 200
    streams[0].close()

    def served():
        with keyed.ask("few", "/v1/noise", body, stream=True) as stream:
            return stream.status_code == 200

    until(served)
    streams[1].close()


def test_streams_of_events_count(keyed):
    keyed = keyed(*ONE_BY_ONE, few="streams=2", other=None)
    job = keyed.ask("few", "/v1/jobs", ENDLESS).json()
    sweep = keyed.ask("few", "/v1/sweeps", SLOW).json()
    body = {"job": keyed.ask("other", "/v1/jobs", GAUSSIAN).json()["id"], **NOISE}
    streams = [keyed.ask("few", one["links"]["events"], stream=True) for one in (job, sweep)]
    assert [stream.status_code for stream in streams] == [200, 200]
    readers = [stream.iter_lines(chunk_size=1) for stream in streams]
    assert all(next(reader) for reader in readers)
    for path in (job["links"]["events"], sweep["links"]["events"]):
        check_over(keyed.ask("few", path), "streams", 2)
    check_over(keyed.ask("few", "/v1/noise", body), "streams", 2)
    (mine,) = keyed.ask("few", "/v1/usage").json()["keys"]
    assert mine["quotas"]["streams"] == {"limit": 2, "used": 2}
    with keyed.ask("other", keyed.ask("other", "/v1/jobs", slow(7)).json()["links"]["events"], stream=True) as stream:
        assert stream.status_code == 200
    # The end of a stream makes room, whichever side ends it.
    streams[0].close()
    until(lambda: keyed.ask("few", "/v1/usage").json()["keys"][0]["quotas"]["streams"]["used"] == 1)
    keyed.ask("few", sweep["links"]["cancel"], method="POST")
    assert b"event: sweep" in list(readers[1])
    until(lambda: keyed.ask("few", "/v1/usage").json()["keys"][0]["quotas"]["streams"]["used"] == 0)
    with keyed.ask("few", job["links"]["events"], stream=True) as stream:
        assert stream.status_code == 200


def test_bytes_kept(keyed):
    keyed = keyed(few="bytes=10kB", other=None)
    posted = [keyed.ask("few", "/v1/jobs?wait=60", {**GAUSSIAN, "noise_multiplier": 1 + i},
                        headers={"Idempotency-Key": f"{i}"}) for i in range(10)]
    statuses = [answer.status_code for answer in posted]
    fit = statuses.index(429)
    assert statuses == [200] * fit + [429] * (10 - fit) and 3 < fit < 8
    left = check_over(posted[-1], "bytes", 10000)
    assert 0 < left < 2500
    assert len(keyed.ids("few")) == fit
    check_over(keyed.ask("few", "/v1/sweeps", {"base": GAUSSIAN, "grid": {"/delta": [1e-5, 1e-4]}}), "bytes", 10000)
    check_over(keyed.ask("few", "/v1/jobs", GAUSSIAN), "bytes", 10000)  # also if it needs no computing
    assert keyed.ids("few", "sweeps") == []
    replayed = keyed.ask("few", "/v1/jobs", {**GAUSSIAN, "noise_multiplier": 1}, headers={"Idempotency-Key": "0"})
    assert replayed.json()["id"] == posted[0].json()["id"]
    keyed.server.stop()
    keyed.server.start()
    check_over(keyed.ask("few", "/v1/jobs", GAUSSIAN), "bytes", 10000)
    assert keyed.ask("few", f"/v1/jobs/{posted[0].json()['id']}", method="DELETE").status_code == 204
    assert keyed.ask("few", "/v1/jobs?wait=60", {**GAUSSIAN, "noise_multiplier": 99}).status_code == 200
    check_over(keyed.ask("few", "/v1/jobs", GAUSSIAN), "bytes", 10000)


# ---------------------------------------------------------------- usage


def test_usage_of_one_key_and_of_all(keyed):
    keyed = keyed(*ONE_BY_ONE, one="queued=9,requests=1000/s,seconds=7200/h,bytes=1MiB,streams=3", two=None, admin=None)
    id_of = {name: line.split()[0] for name, line in keyed.lines.items()}
    job = keyed.ask("one", "/v1/jobs?wait=60", DP_SGD).json()
    first = keyed.ask("one", "/v1/jobs", ENDLESS).json()["id"]
    until(lambda: keyed.ask("one", f"/v1/jobs/{first}").json()["status"] == "running")
    for i in range(3):
        keyed.ask("one", "/v1/jobs", slow(i + 1))
    stream = keyed.ask("one", "/v1/noise", {"job": job["id"], **NOISE}, stream=True)
    (mine,) = keyed.ask("one", "/v1/usage").json()["keys"]
    assert (mine["id"], mine["scope"], mine["group"]) == (id_of["one"], "submit", "default")
    assert {name: quota["limit"] for name, quota in mine["quotas"].items()} == \
        {"requests": 1000, "queued": 9, "seconds": 7200, "streams": 3, "bytes": 1 << 20}
    used = {name: quota["used"] for name, quota in mine["quotas"].items()}
    assert (used["queued"], used["streams"], mine["total"]["kept"]) == (3, 1, 5)
    assert 5 * 1024 < used["bytes"] < 20000 and 0 <= used["requests"] < 100
    assert mine["total"]["requests"] >= 8 and 0 < mine["total"]["seconds"] < used["seconds"]
    stream.close()
    everything = keyed.ask("admin", "/v1/usage")
    by_id = {key["id"]: key for key in everything.json()["keys"]}
    assert sorted(by_id) == list(by_id) == sorted(id_of.values())
    other = by_id[id_of["two"]]
    assert all(quota["limit"] is None and not quota["used"] for quota in other["quotas"].values())
    assert other["total"] == {"requests": 0, "seconds": 0, "kept": 0}
    assert by_id[id_of["one"]]["quotas"]["queued"] == {"limit": 9, "used": 3}
    assert not any(key in everything.text or key[14:] in everything.text for key in keyed.keys.values())
    assert not any(line.split()[3] in everything.text for line in keyed.lines.values())
    keyed.server.stop()
    keyed.server.start()
    (mine,) = keyed.ask("one", "/v1/usage").json()["keys"]
    assert mine["total"]["kept"] == 5 and mine["quotas"]["bytes"]["used"] == used["bytes"]
    assert mine["quotas"]["queued"]["used"] >= 3 and mine["total"]["requests"] == 1
    keyed.ask("one", f"/v1/jobs/{job['id']}", method="DELETE")
    (mine,) = keyed.ask("one", "/v1/usage").json()["keys"]
    assert mine["total"]["kept"] == 4 and mine["quotas"]["bytes"]["used"] < used["bytes"]


def test_usage_without_keys(launch):
    server = launch()
    server.solve(GAUSSIAN)
    (everyone,) = server.get("/v1/usage").json()["keys"]
    assert everyone["id"] is None and everyone["total"]["requests"] >= 2
    assert all(quota["limit"] is None for quota in everyone["quotas"].values())


def test_usage_in_the_client(keyed):
    keyed = keyed(one="streams=3")
    with epsilond.Client(keyed.server.url, bearer_key=keyed.keys["one"]) as client:
        (mine,) = client.usage()
        assert mine["quotas"]["streams"] == {"limit": 3, "used": 0}


def test_the_client_waits_for_its_quota(keyed):
    keyed = keyed(one="requests=3/s")
    with epsilond.Client(keyed.server.url, bearer_key=keyed.keys["one"]) as client:
        assert [client.index()["links"]["usage"] for _ in range(7)] == ["/v1/usage"] * 7
    with epsilond.Client(keyed.server.url, bearer_key=keyed.keys["one"], retry_seconds=0) as client, \
            pytest.raises(epsilond.Problem) as raised:
        for _ in range(30):
            client.index()
    assert raised.value.status == 429 and raised.value.type == "quota"
