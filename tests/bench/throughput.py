"""Requests per second with keys on: wrk with keep-alive connections, GET of a finished job and POST of a job whose
result is cached (every such POST commits a row before it is answered). Beside each rate is the processor time of the
server for one request. Below the POSTs are the commits of that run and how long they took, as the server counted them:
whether a slow run was the disk's doing can be read off. Then the same by libmicrohttpd alone, with replies of the same
size (bench_http.c): what no server upon it exceeds on this machine, beside wrk.

    throughput.py --build build --objects build/release [--seconds 5]

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import contextlib
import http.client
import json
import os
import re
import subprocess
import urllib.parse

from served import server

HERE = os.path.dirname(os.path.abspath(__file__))
JOB = {"n": 1000, "sampling": {"scheme": "poisson", "p": 0.01}, "noise_multiplier": 1.0, "delta": 1e-6,
       "accountant": {"method": "pld", "tolerance": 1e-3}}
THREADS = "2"  # of both servers; the default of --http-threads
CONNECTIONS = (32, 128)  # the more clients post at once, the more of them share a commit


def wrk(url, seconds, connections, *arguments, **environment):
    """Requests per second, and requests; any other answer than success ends the bench."""
    command = ["wrk", "-t2", f"-c{connections}", f"-d{seconds}s", "--latency", *arguments, url]
    text = subprocess.run(command, text=True, check=True, stdout=subprocess.PIPE,
                          env={**os.environ, **environment}).stdout
    if "Non-2xx" in text or "Socket errors" in text:
        raise SystemExit("bench: wrk saw errors\n" + text)
    rate = float(re.search(r"Requests/sec:\s*([\d.]+)", text).group(1))
    p99 = re.search(r"^ +99% +(\S+)", text, re.M).group(1)
    return rate, p99, int(re.search(r"(\d+) requests in", text).group(1))


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(name, pid, url, seconds, connections, *arguments, **environment):
    before = processor_seconds(pid)
    rate, p99, requests = wrk(url, seconds, connections, *arguments, **environment)
    took = (processor_seconds(pid) - before) / requests
    print(f"  {name:<26}{connections:>4} connections {rate:>10,.0f} /s   99% within {p99:<9}{1e6 * took:>6.1f} us each",
          flush=True)


def commits(ask):
    """The server's histogram of commit times: upper bounds in seconds and how many fell under each, and the writes."""
    text = ask("GET", "/metrics")
    buckets = re.findall(r'^epsilond_store_commit_seconds_bucket\{le="([^"]+)"\} (\d+)$', text, re.M)
    writes = re.search(r"^epsilond_store_writes_total (\d+)$", text, re.M).group(1)
    return [float(bound) for bound, _ in buckets], [int(count) for _, count in buckets], int(writes)


def describe_commits(before, after):
    """The commits between two readings, with bounds on the quantiles of their durations."""
    bounds, counts = after[0], [now - then for now, then in zip(after[1], before[1])]
    total = counts[-1]
    if not total:
        return "no commit"

    def under(share):
        return next(f"{1e3 * bound:g} ms" for bound, count in zip(bounds, counts) if count >= share * total)
    return (f"{total:,} commits of {(after[2] - before[2]) / total:.1f} writes; half within {under(0.5)}, 99% within "
            f"{under(0.99)}, all within {under(1)}")


def new_key(build, scope):
    """A key, and its line for the file."""
    told = subprocess.run([os.path.join(build, "epsilond"), "key", "new", "--group", "bench", "--scope", scope],
                          text=True, check=True, stdout=subprocess.PIPE).stdout.splitlines()
    return told[0], told[-1]


def ours(build, seconds):
    """Returns the size of a reply."""
    (key, line), (admin, admin_line) = new_key(build, "submit"), new_key(build, "admin")
    with server(build, "--http-threads", THREADS, keys=f"{line}\n{admin_line}\n") as (port, pid):
        connection = http.client.HTTPConnection("127.0.0.1", port)

        def ask(method, path, body=None, bearer=admin):
            connection.request(method, path, body, {"Content-Type": "application/json",
                                                    "Authorization": f"Bearer {bearer}"})
            answer = connection.getresponse()
            text = answer.read().decode()
            if answer.status != 200:
                raise SystemExit(f"bench: {method} {path} was answered\n{text}")
            return text

        base = f"http://127.0.0.1:{port}"
        text = ask("POST", "/v1/jobs?wait=60", json.dumps(JOB), key)
        link = urllib.parse.urljoin(base, json.loads(text)["links"]["self"])
        bearer = ["-H", f"Authorization: Bearer {key}"]
        posts = [*bearer, "-s", os.path.join(HERE, "cached.lua")]
        for connections in CONNECTIONS:
            measure("GET of a finished job", pid, link, seconds, connections, *bearer)
        for connections in CONNECTIONS:
            before = commits(ask)
            measure("POST of a cached job", pid, base + "/v1/jobs", seconds, connections, *posts, JOB=json.dumps(JOB))
            print(f"  {'':<26}{describe_commits(before, commits(ask))}", flush=True)
    return len(text)


@contextlib.contextmanager
def alone(objects, size):
    """libmicrohttpd without a service. Yields the port and the process id."""
    process = subprocess.Popen([os.path.join(objects, "tests/bench/bench_http"), THREADS, str(size)], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield int(process.stdout.readline()), process.pid
    finally:
        process.stdin.close()
        process.wait(30)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--objects", default="build/release")
    parser.add_argument("--seconds", type=int, default=5)
    options = parser.parse_args()
    print(f"\nRequests per second with keys (wrk on this machine's {os.cpu_count()} cores, {options.seconds} s each); "
          "processor time of the server\n")
    size = ours(options.build, options.seconds)
    with alone(options.objects, size) as (port, pid):
        for connections in CONNECTIONS:
            measure("libmicrohttpd alone, GET", pid, f"http://127.0.0.1:{port}/", options.seconds, connections)
        # of 128 clients that post, its own loop keeps some waiting (server/http/loops.c)
        measure("libmicrohttpd alone, POST", pid, f"http://127.0.0.1:{port}/", options.seconds, CONNECTIONS[0], "-s",
                os.path.join(HERE, "cached.lua"), JOB=json.dumps(JOB))


main()
