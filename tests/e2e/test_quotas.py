"""
Quotas of keys: each is refused with 429 when it is used up, a refused request does nothing, and other keys are served.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import os
import re
import signal
import subprocess

import pytest
import requests

from conftest import BINARY, DP_SGD, ENDLESS, GAUSSIAN, ONE_BY_ONE, check_problem, until

UNITS = {"requests": ("request", ";w=1"), "queued": ("job", ""), "seconds": ("second", ";w=3600"),
         "streams": ("stream", ""), "bytes": ("byte", "")}
SLOW = {"base": ENDLESS, "grid": {"/epsilon": [1, 2]}}
NOISE = {"dimensions": 200000}


def slow(i):
    return {**ENDLESS, "epsilon": 1 + i / 1000}


def draw(*options):
    lines = subprocess.run([BINARY, "key", *options, "new"], capture_output=True, text=True, timeout=60,
                           check=True).stdout.splitlines()
    return lines[0], lines[-1]


class Keyed:
    """A server and its keys, by name: the text of a quota, or None."""

    def __init__(self, launch, path, *options, **quotas):
        self.path = path
        self.keys, self.lines = {}, {}
        for name, quota in quotas.items():
            scope = "admin" if name == "admin" else "submit"
            self.keys[name], self.lines[name] = draw("--scope", scope, *(("--quota", quota) if quota else ()))
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
    path.write_text(f"{draw()[1]} {quota.replace(',', ' ')}\n")
    path.chmod(0o600)
    serve = subprocess.run([BINARY, "serve", "--listen", "127.0.0.1:0", "--db", tmp_path / "x.db", "--keys", path],
                           capture_output=True, text=True, timeout=60)
    assert serve.returncode == 1 and "line 1 of" in serve.stderr and not os.path.exists(tmp_path / "x.db")


def test_a_line_has_the_quotas_before_the_name():
    _, line = draw("--quota", "bytes=1MiB,requests=5/s", "--name", "ann")
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
    assert int(re.search(r"^epsilond_quota_refused_total (\d+)", metrics, re.M)[1]) >= len(over) + posted.count(429)


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
    job = keyed.ask("few", "/v1/jobs?wait=60", {**DP_SGD, "n": 60000, "delta": 1e-9,
                                                "accountant": {"method": "pld", "tolerance": 1e-6}}).json()
    assert job["status"] == "succeeded"
    bodies = ({**DP_SGD, "n": 50000 + i, "accountant": {"method": "pld", "tolerance": 1e-7}} for i in range(1000))
    answer = next(filter(lambda answer: answer.status_code == 429,
                         (keyed.ask("few", "/v1/jobs?wait=60", body) for body in bodies)))
    assert check_over(answer, "seconds", 1) == 0
    assert keyed.ask("few", "/v1/jobs?wait=60", {**DP_SGD, "n": 50000,
                                                 "accountant": {"method": "pld", "tolerance": 1e-7}}).status_code == 200
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
