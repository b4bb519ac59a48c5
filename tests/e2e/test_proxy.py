"""
Behind a proxy: whom --trusted-proxy is believed to serve, in the log and for the limits per address. The tests are the
proxy.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import re
import subprocess
import threading

import pytest
import requests

from conftest import BINARY, ENDLESS, GAUSSIAN, ONE_BY_ONE, PATIENCE, check_problem, until

pytestmark = pytest.mark.sanitized


def client_of(server, answer):
    """The address in the log line of this request."""
    name = answer.headers["X-Request-Id"]
    pattern = rf"event=request request={re.escape(name)} client=(\S+) "
    until(lambda: re.search(pattern, server.log_text()))
    return re.search(pattern, server.log_text())[1]


def test_a_trusted_proxy_says_who_the_client_is(launch):
    server = launch("--trusted-proxy", "192.0.2.1,127.0.0.0/8")
    for forwarded, client in (("for=198.51.100.7", "198.51.100.7"), ('for="[2001:db8::17]:4711"', "2001:db8::17"),
                              ('for="[::ffff:198.51.100.8]"', "198.51.100.8"),
                              ("for=203.0.113.66, for=198.51.100.7, for=192.0.2.1", "198.51.100.7"),
                              ("for=unknown", "127.0.0.1"), ("proto=https", "127.0.0.1"), (None, "127.0.0.1")):
        assert client_of(server, server.get("/healthz", headers={"Forwarded": forwarded})) == client
    job = server.solve(GAUSSIAN, headers={"Forwarded": "for=198.51.100.9"})["id"]
    until(lambda: f"event=job-end job={job} " in server.log_text())
    [end] = [line for line in server.log_text().splitlines() if f"event=job-end job={job} " in line]
    assert " client=198.51.100.9 " in end
    server.post({"base": GAUSSIAN, "grid": {"/n": [3]}}, "/v1/sweeps", headers={"Forwarded": "for=198.51.100.10"})
    until(lambda: re.search(r"event=job-end .* client=198\.51\.100\.10 ", server.log_text()))


def test_others_are_not_believed(launch):
    server = launch("--trusted-proxy", "192.0.2.1")
    for forwarded in ("for=198.51.100.7", "for=\"", "nonsense"):
        answer = server.get("/healthz", headers={"Forwarded": forwarded})
        assert answer.status_code == 200 and client_of(server, answer) == "127.0.0.1"


def test_what_is_malformed_is_refused(launch):
    """A client that makes a proxy's header malformed is not served in the name of the proxy."""
    server = launch("--trusted-proxy", "127.0.0.1")
    for forwarded in ("for=198.51.100.7:80", 'for=203.0.113.66;x=", for=198.51.100.7', ",".join(["for=1.2.3.4"] * 33)):
        answer = server.get("/healthz", headers={"Forwarded": forwarded})
        assert "Forwarded" in check_problem(answer, 400, "malformed-request")["detail"]
    assert server.get("/healthz").status_code == 200


def test_limits_hold_for_each_client_and_not_for_the_proxy(launch):
    server = launch(*ONE_BY_ONE, "--trusted-proxy", "127.0.0.1", "--max-per-address", "3")
    job = server.post(ENDLESS, headers={"Forwarded": "for=203.0.113.1"}).json()["id"]
    server.running(job)
    answers = []

    def wait(client):
        answers.append((client, requests.get(f"{server.url}/v1/jobs/{job}?wait=100", timeout=PATIENCE,
                                             headers={"Forwarded": f"for={client}"}).status_code))

    # Three clients with three each, one of them with addresses of one /64, are nine connections of the proxy.
    clients = ["198.51.100.1", "198.51.100.2", '"[2001:db8::1]"', '"[2001:db8::2]"', '"[2001:db8::3]"']
    threads = [threading.Thread(target=wait, args=(client,)) for client in (*clients[:2] * 3, *clients[2:])]
    for thread in threads:
        thread.start()
    until(lambda: server.metric("epsilond_http_requests_waiting") == 9)

    def ask(client, path="/v1"):
        return server.get(path, headers={"Forwarded": f"for={client}"})

    for client in ("198.51.100.1", '"[2001:db8::4]"'):
        assert "this address" in check_problem(ask(client), 503, "queue-full")["detail"]
        assert ask(client, "/healthz").status_code == 200
    for client in ("198.51.100.3", '"[2001:db8:0:1::1]"', "unknown"):
        assert ask(client).status_code == 200
    server.request("POST", f"/v1/jobs/{job}/cancel")
    for thread in threads:
        thread.join(PATIENCE)
    assert not [status for _, status in answers if status != 200] and len(answers) == 9
    until(lambda: ask("198.51.100.1").status_code == 200)  # its places are free again


@pytest.mark.parametrize("value", ["proxy.example", "10.0.0.1/8", "127.0.0.1,x"])
def test_what_is_no_address_is_refused(tmp_path, value):
    for command, told in (("serve", "stderr"), ("doctor", "stdout")):
        ended = subprocess.run([BINARY, command, "--listen", "127.0.0.1:0", "--db", tmp_path / "x.db",
                                "--trusted-proxy", value], capture_output=True, text=True, timeout=PATIENCE)
        assert ended.returncode == 1 and "--trusted-proxy must be" in getattr(ended, told)
    assert not (tmp_path / "x.db").exists()
