"""The bench: dp_accounting and epsilond side by side in one run, then requests per second.

Per case: the peer's best of five (in a virtual environment under the build folder, its imports not timed), ours
in process (bench_solve: best of five, one core, no caches, the tolerance at which our epsilon is not above the
peer's), and ours over HTTP (best of five, each against a fresh server with a fresh database, so that nothing is
cached). Both epsilons are printed: a time without its answer says nothing.

Requests per second: wrk with keep-alive connections, GET of a finished job and POST of a job whose result is
cached (every such POST commits a row before it is answered). Beside the POSTs stand the commits of that run and how
long they took, as the server counted them: whether a slow run was the disk's doing can be read off.

    bench.py --build build --objects build/release [--repeat 5] [--seconds 5] [--skip-peer]

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import http.client
import json
import os
import re
import subprocess
import sys
import time
import urllib.parse

from peers import ask_peer
from served import server

PEER = "dp-accounting==0.6.0"
HERE = os.path.dirname(os.path.abspath(__file__))
CASES = [
    {"name": "Poisson q=0.01, n=1e3, sigma=1", "n": 1000, "p": 0.01, "noise_multiplier": 1.0, "delta": 1e-6},
    {"name": "Poisson q=0.01, n=1e4, sigma=1", "n": 10000, "p": 0.01, "noise_multiplier": 1.0, "delta": 1e-6},
    {"name": "Poisson q=0.01, n=1e5, sigma=1", "n": 100000, "p": 0.01, "noise_multiplier": 1.0, "delta": 1e-6},
    {"name": "Gaussian, n=1, sigma=2", "n": 1, "p": 1.0, "noise_multiplier": 2.0, "delta": 1e-6},
]


def time_library(objects, case, peer_epsilon, repeat):
    arguments = [case["n"], case["p"], case["noise_multiplier"], case["delta"], repr(peer_epsilon), repeat]
    done = subprocess.run([os.path.join(objects, "tests/bench/bench_solve"), *map(str, arguments)], text=True,
                          check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def post(connection, job):
    connection.request("POST", "/v1/jobs?wait=300", json.dumps(job), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    body = json.loads(answer.read())
    if answer.status != 200 or body["status"] != "succeeded":
        raise SystemExit(f"bench: HTTP {answer.status}: {json.dumps(body)[:500]}")
    return body


def http_job(case, tolerance, label):
    sampling = {"scheme": "poisson", "p": case["p"]} if case["p"] < 1 else {"scheme": "none"}
    return {"n": case["n"], "sampling": sampling, "noise_multiplier": case["noise_multiplier"],
            "delta": case["delta"], "accountant": {"method": "auto", "tolerance": tolerance}, "label": label}


def time_http(build, case, tolerance, repeat):
    best, epsilon = float("inf"), None
    for i in range(repeat):
        with server(build) as port:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            start = time.perf_counter()
            body = post(connection, http_job(case, tolerance, f"bench {i}"))
            best = min(best, time.perf_counter() - start)
            epsilon = body["result"]["epsilon"]
            if body["result"]["cache"]["result"] != "miss":
                raise SystemExit("bench: a fresh server answered from its cache")
    return {"epsilon": epsilon, "seconds": best}


def wrk(url, seconds, connections, *arguments, **environment):
    """Requests per second; any other answer than success ends the bench."""
    command = ["wrk", "-t2", f"-c{connections}", f"-d{seconds}s", "--latency", *arguments, url]
    text = subprocess.run(command, text=True, check=True, stdout=subprocess.PIPE,
                          env={**os.environ, **environment}).stdout
    if "Non-2xx" in text or "Socket errors" in text:
        raise SystemExit("bench: wrk saw errors\n" + text)
    rate = float(re.search(r"Requests/sec:\s*([\d.]+)", text).group(1))
    p99 = re.search(r"99%\s*(\S+)", text).group(1)
    return rate, p99


def commits(port):
    """The server's histogram of commit times: upper bounds in seconds and how many fell under each, and the writes."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
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


def throughput(build, seconds):
    print(f"\nRequests per second (wrk on this machine's {os.cpu_count()} cores, {seconds} s each)\n")
    job = http_job(CASES[0], 1e-3, None)
    with server(build) as port:
        base = f"http://127.0.0.1:{port}"
        body = post(http.client.HTTPConnection("127.0.0.1", port), job)
        link = urllib.parse.urljoin(base, body["links"]["self"])
        again = ["-s", os.path.join(HERE, "cached.lua")]
        environment = {"JOB": json.dumps(job)}
        # The more clients post at once, the more of them share a commit.
        for name, url, connections, arguments in [
                ("GET of a finished job", link, 32, []),
                ("POST of a cached job", base + "/v1/jobs", 32, again),
                ("POST of a cached job", base + "/v1/jobs", 128, again)]:
            before = commits(port)
            rate, p99 = wrk(url, seconds, connections, *arguments, **environment)
            print(f"  {name:<24}{connections:>5} connections {rate:>10,.0f} /s   99% within {p99}", flush=True)
            if arguments:
                print(f"  {'':<24}{describe_commits(before, commits(port))}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--objects", default="build/release")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--skip-peer", action="store_true", help="ours alone, at the default tolerance")
    options = parser.parse_args()

    absent = {"epsilon": float("inf"), "seconds": float("nan")}
    peers = [None] * len(CASES)
    if not options.skip_peer:
        peers = ask_peer(options.build, "venv", PEER, "peer.py", [{**case, "repeat": options.repeat} for case in CASES])
    print(f"\nTime per solve for epsilon at delta = 1e-6, best of {options.repeat}; "
          f"the peer is {PEER}, interval 1e-4\n")
    print(f"  {'':<32}{'dp_accounting':>24}{'ours, in process':>36}{'ours, HTTP':>14}{'faster':>10}")
    print(f"  {'case':<32}{'epsilon':>13}{'ms':>11}{'epsilon':>13}{'tolerance':>12}{'ms':>11}{'ms':>14}{'times':>10}")
    for case, peer in zip(CASES, peers):
        peer = peer or absent
        ours = time_library(options.objects, case, peer["epsilon"], options.repeat)
        web = time_http(options.build, case, ours["tolerance"], options.repeat)
        if web["epsilon"] != ours["epsilon"]:
            raise SystemExit(f"bench: {case['name']}: HTTP says {web['epsilon']}, the library {ours['epsilon']}")
        verdict = "" if ours["epsilon"] <= peer["epsilon"] else "  LOOSER than the peer"
        print(f"  {case['name']:<32}{peer['epsilon']:>13.8f}{1e3 * peer['seconds']:>11.3f}{ours['epsilon']:>13.8f}"
              f"{ours['tolerance']:>12.1e}{1e3 * ours['seconds']:>11.3f}{1e3 * web['seconds']:>14.3f}"
              f"{peer['seconds'] / ours['seconds']:>10.0f}{verdict}", flush=True)
    for part in ("strategies.py", "tuned.py", "mmcc.py", "balls_in_bins.py", "draws.py", "phases.py", "trainers.py"):
        subprocess.run([sys.executable, os.path.join(HERE, part), "--build", options.build, "--objects",
                        options.objects, *(["--skip-peer"] if options.skip_peer else [])], check=True)
    subprocess.run([sys.executable, os.path.join(HERE, "costs.py"), "--objects", options.objects], check=True)
    for part in ("pages.py", "fairness.py"):
        subprocess.run([sys.executable, os.path.join(HERE, part), "--build", options.build], check=True)
    print("\nShort jobs solved in this process and by a confined one (--isolate on), without HTTP\n", flush=True)
    subprocess.run([os.path.join(options.objects, "tests/bench/bench_isolation")], check=True)
    print("\nJobs by a worker through RabbitMQ and by the server\n", flush=True)
    subprocess.run([sys.executable, os.path.join(HERE, "broker.py"), "--build", options.build], check=True)
    print("\nOne long Monte Carlo job on many workers, simulated from what is measured with one\n", flush=True)
    subprocess.run([sys.executable, os.path.join(HERE, "simulate.py"), "--build", options.build], check=True)
    throughput(options.build, options.seconds)


main()
