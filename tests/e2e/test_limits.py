"""The memory that one client can make the service use, as counted by the kernel."""
import os
import pathlib
import re
import stat

import pytest

from conftest import GAUSSIAN, INSTRUMENTED, ONE_BY_ONE, check_problem, until

MIB = 1 << 20
# Takes minutes and 25 MB of memory.
QUIET = {"n": 400, "matrix": {"family": "optimal", "gap": 1e-9, "objective": "max_squared"},
         "sampling": {"scheme": "none", "epochs": 20, "separation": 20}, "epsilon": 8, "delta": 1e-6}


def resident(server, field="VmRSS"):
    """The memory of the server process in bytes, now (VmHWM: at the maximum)."""
    status = open(f"/proc/{server.process.pid}/status").read()
    return 1024 * int(re.search(rf"{field}:\s+(\d+) kB", status)[1])


def dense(n, noise_multiplier):
    """A job whose text has two bytes per number; decoded, it would be much larger."""
    rows = "[" + ",".join("[" + ",".join(["1"] * (i + 1)) + "]" for i in range(n)) + "]"
    return ('{"n":%d,"matrix":{"family":"dense","rows":%s},"sampling":{"scheme":"none"},"noise_multiplier":%r,'
            '"delta":1e-6}' % (n, rows, noise_multiplier))


def busy(launch, *options):
    """A server whose only worker is busy, and that caches nothing."""
    server = launch(*ONE_BY_ONE, "--memory-bytes", "1MiB", *options)
    running = server.post(QUIET).json()["id"]
    server.until(running, "running")
    return server, running


def post_text(server, text):
    return server.request("POST", "/v1/jobs", data=text, headers={"Content-Type": "application/json"})


def test_queued_jobs_are_counted_as_they_are_held(launch):
    server, running = busy(launch, "--queue-bytes", "24MiB")
    before = resident(server)
    text = dense(700, 1.0).replace('"noise_multiplier":1.0', '"noise_multiplier":%d')  # half a megabyte
    accepted = 0
    while (answer := post_text(server, text % (accepted + 1))).status_code == 202:
        accepted += 1
        assert accepted < 100
    problem = check_problem(answer, 503, "queue-full")
    assert "--queue-bytes" in problem["detail"]
    assert accepted >= 20  # a reasonable use of 24 MiB
    # Including the memory for decoding one of them; all of them decoded would take 200.
    assert resident(server) - before < 96 * MIB or INSTRUMENTED
    server.post(None, f"/v1/jobs/{running}/cancel")


def test_canceled_jobs_hold_nothing(launch):
    server, running = busy(launch)
    text = dense(700, 1.0).replace('"noise_multiplier":1.0', '"noise_multiplier":%d')
    before = None
    for i in range(30):
        job_id = post_text(server, text % (i + 1)).json()["id"]
        assert server.post(None, f"/v1/jobs/{job_id}/cancel").json()["status"] == "canceled"
        if i == 9:
            before = resident(server)  # the memory for decoding one of them has been allocated
    assert resident(server) - before < 48 * MIB or INSTRUMENTED
    server.post(None, f"/v1/jobs/{running}/cancel")


def test_jobs_that_join_a_run_are_counted(launch):
    server, _ = busy(launch, "--queue-bytes", "64KiB")
    ids = []
    while (answer := server.post(dict(QUIET, label="again"))).status_code == 202:
        ids.append(answer.json()["id"])
        assert len(ids) < 200
    check_problem(answer, 503, "queue-full")
    assert len(ids) > 5
    for job_id in ids:
        server.post(None, f"/v1/jobs/{job_id}/cancel")
    assert server.post(dict(QUIET, label="again")).status_code == 202
    for item in server.get("/v1/jobs?status=running").json()["items"]:
        server.post(None, f"/v1/jobs/{item['id']}/cancel")


def test_the_database_has_a_bound(launch):
    server = launch("--max-db", "2MiB", "--workers", "1")
    numbers = [1] + [1 / (2 + i) for i in range(8000)]
    job = dict(GAUSSIAN, n=len(numbers), matrix={"family": "toeplitz", "coefficients": numbers})
    first = server.solve(job)
    running = server.post(QUIET).json()["id"]
    kept = server.post(dict(GAUSSIAN, n=77), headers={"Idempotency-Key": "kept"}).json()["id"]
    posted = []
    while (answer := server.post(job)).status_code == 200:
        posted.append(answer.json()["id"])
        assert len(posted) < 100
    problem = check_problem(answer, 503, "queue-full")
    assert "--max-db" in problem["detail"] and int(answer.headers["Retry-After"]) > 0
    assert len(posted) >= 4
    check_problem(server.post(dict(GAUSSIAN, n=78)), 503, "queue-full")
    check_problem(server.get("/readyz"), 503, "queue-full")
    assert 2 * MIB <= server.metric("epsilond_database_bytes") < 8 * MIB
    # Accepted jobs end, and can be read and replayed.
    replay = server.post(dict(GAUSSIAN, n=77), headers={"Idempotency-Key": "kept"})
    assert replay.json()["id"] == kept and replay.headers["Idempotent-Replayed"] == "true"
    server.post(None, f"/v1/jobs/{running}/cancel")
    assert server.until(kept, "succeeded")
    assert server.get(first["links"]["self"]).json()["result"] == first["result"]
    # The limit also holds after a restart, and deleted jobs make room.
    server.stop()
    server.start()
    for job_id in posted:
        assert server.request("DELETE", f"/v1/jobs/{job_id}").status_code == 204
    until(lambda: server.request("DELETE", f"/v1/jobs/{kept}").status_code in (204, 404) and
          server.get("/readyz").status_code == 200)
    assert server.post(job).status_code == 200


@pytest.mark.sanitized
def test_files_are_private(launch):
    """Even if they were not private when the service found them."""
    old = os.umask(0)
    try:
        server = launch()
        server.solve(GAUSSIAN)
        files = [pathlib.Path(server.database + tail) for tail in ("", "-wal", "-shm")]
        assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * 3
        server.kill()
        for file in files:
            file.chmod(0o666)
        server.start()
        server.solve(dict(GAUSSIAN, n=101))
        assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * 3
        spools = len(list(server.folder.iterdir()))
        server.get(server.solve(GAUSSIAN)["links"]["matrix"])
        assert len(list(server.folder.iterdir())) == spools  # temporary files have no name
    finally:
        os.umask(old)
