"""The bench: dp_accounting and epsilond side by side in one run, then requests per second.

Per case: the peer's best of five (in a virtual environment under the build folder, its imports not timed), ours
in process (bench_solve: best of five, one core, no caches, the tolerance at which our epsilon is not above the
peer's), and ours over HTTP (best of five, each against a fresh server with a fresh database, so that nothing is
cached). Both epsilons are printed: a time without its answer says nothing.

    bench.py --build build --objects build/release [--repeat 5] [--seconds 5] [--skip-peer]

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import http.client
import json
import os
import subprocess
import sys
import time

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
        with server(build) as (port, _):
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
    subprocess.run([sys.executable, os.path.join(HERE, "broker.py"), "--build", options.build, "--objects",
                    options.objects], check=True)
    print("\nOne long Monte Carlo job on many workers, simulated from what is measured with one\n", flush=True)
    subprocess.run([sys.executable, os.path.join(HERE, "simulate.py"), "--build", options.build], check=True)
    subprocess.run([sys.executable, os.path.join(HERE, "throughput.py"), "--build", options.build, "--objects",
                    options.objects, "--seconds", str(options.seconds)], check=True)


main()
