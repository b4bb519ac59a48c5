"""The command line: solve, options, environment, and errors at startup."""
import json
import os
import signal
import socket
import subprocess
import time

import pytest

from conftest import BINARY, DP_SGD, ENDLESS, PATIENCE

pytestmark = pytest.mark.sanitized


def run(*arguments, **options):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=PATIENCE, **options)


def test_solve_answers_as_the_service_does(server, tmp_path):
    served = server.solve(dict(DP_SGD, label="both"))
    file = tmp_path / "job.json"
    file.write_text(json.dumps(dict(DP_SGD, label="both")))
    for arguments in (["solve", str(file)], ["solve", "--workers", "1", str(file)]):
        ended = run(*arguments)
        assert ended.returncode == 0 and not ended.stderr
        document = json.loads(ended.stdout)
        assert document["status"] == "succeeded"
        assert document["job"] == served["job"]
        for name, value in served["result"].items():
            if name not in ("cache", "elapsed_seconds", "compute_seconds"):
                assert document["result"][name] == value
    assert not list(tmp_path.glob("*.db"))


@pytest.mark.parametrize("text,name", [("{", "malformed-json"), ('{"n": 0}', "invalid-job"), ("", "malformed-json")])
def test_solve_prints_the_problem(text, name):
    ended = run("solve", "-", input=text)
    assert ended.returncode == 1
    assert text or "the body is empty" in json.loads(ended.stdout)["detail"]
    assert json.loads(ended.stdout)["type"] == f"/problems/{name}"


def test_solve_uses_a_database_when_told(tmp_path):
    database = str(tmp_path / "solve.db")
    first = json.loads(run("solve", "--db", database, input=json.dumps(DP_SGD)).stdout)
    second = json.loads(run("solve", "--db", database, input=json.dumps(DP_SGD)).stdout)
    assert first["result"]["cache"]["result"] == "miss"
    assert second["result"]["cache"]["result"] == "hit"
    assert first["result"]["epsilon"] == second["result"]["epsilon"]


def test_solve_stops_on_a_signal():
    process = subprocess.Popen([BINARY, "solve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdin.write(json.dumps(ENDLESS))
    process.stdin.close()
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    output = process.stdout.read()
    assert process.wait(PATIENCE) == 1
    assert time.monotonic() - started < 10
    process.stdout.close()
    assert json.loads(output)["type"] == "/problems/canceled"


def test_help_names_every_option_and_its_variable():
    ended = run("--help")
    assert ended.returncode == 0
    for option in ("listen", "db", "workers", "queue", "max-body", "max-n", "max-operations", "max-bytes",
                   "max-seconds", "cache-bytes", "chunk-bytes", "keep", "log-level"):
        assert f"--{option} " in ended.stdout
        assert f"(EPSILOND_{option.upper().replace('-', '_')})" in ended.stdout
    assert run("serve", "--help").stdout == ended.stdout


def test_version():
    assert run("--version").stdout.startswith("epsilond ")


@pytest.mark.parametrize("arguments", [
    [], ["sing"], ["serve", "--loud"], ["serve", "--workers"], ["serve", "--workers", "0"],
    ["serve", "--workers", "1.5"], ["serve", "--max-body", "lots"], ["serve", "--keep", "5y"],
    ["serve", "--log-level", "shout"], ["serve", "extra"], ["solve", "a", "b"], ["solve", "/no/such/file"],
], ids=" ".join)
def test_bad_usage(arguments):
    ended = run(*arguments)
    assert ended.returncode == 2
    assert ended.stderr.startswith("epsilond: ") and not ended.stdout


def test_environment(tmp_path):
    environment = dict(os.environ, EPSILOND_MAX_N="50", EPSILOND_WORKERS="", EPSILOND_QUEUE="nonsense")
    ended = run("solve", input=json.dumps(DP_SGD), env=environment)
    assert ended.returncode == 1
    assert json.loads(ended.stdout)["errors"][0]["pointer"] == "/n"
    assert run("solve", "--max-n", "1000", input=json.dumps(DP_SGD), env=environment).returncode == 0
    refused = run("serve", "--db", str(tmp_path / "x.db"), env=environment)
    assert refused.returncode == 2 and "--queue" in refused.stderr


def test_address_in_use_and_bad_database(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = run("serve", "--db", str(tmp_path / "x.db"), "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert ended.returncode == 1 and "cannot listen" in ended.stderr
    ended = run("serve", "--db", "/no/such/folder/x.db", "--listen", "127.0.0.1:0")
    assert ended.returncode == 1 and "/no/such/folder/x.db" in ended.stderr
    ended = run("serve", "--db", str(tmp_path / "x.db"), "--listen", "nowhere")
    assert ended.returncode == 1 and "HOST:PORT" in ended.stderr
    junk = tmp_path / "junk.db"
    junk.write_bytes(b"this is no database" * 100)
    assert run("serve", "--db", str(junk), "--listen", "127.0.0.1:0").returncode == 1


def test_listens_on_ipv6(launch):
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError:
        pytest.skip("no IPv6 loopback")
    server = launch("--listen", "[::1]:0")
    assert server.url.startswith("http://[::1]:")
    assert server.get("/healthz").status_code == 200
