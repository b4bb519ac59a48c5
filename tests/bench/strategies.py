"""The bench's rows for strategies: jax_privacy and libepsilon side by side in one run, and the minimiser's choice.

Per case the peer's best of several (in a virtual environment of its own under the build folder; double precision,
imports not timed) and ours (bench_strategies: in process, one core, no caches). Both results are printed, the root of
error times squared sensitivity, or the norm of the noise coefficients: a time without its answer says nothing. Where
the peer has no such optimiser, ours stands alone.

    strategies.py --build build --objects build/release [--repeat 3] [--skip-peer]

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import json
import os
import subprocess

from peers import ask_peer

PEER = "jax-privacy==2.0.0"


def case(kind, n, size, epochs=1, objective="mean_squared", peer=True):
    return {"kind": kind, "n": n, "size": size, "epochs": epochs, "separation": n // epochs, "objective": objective,
            "peer": peer}


CASES = [
    case("banded", 1024, 16), case("banded", 4096, 32), case("banded", 4096, 32, objective="max_squared"),
    case("banded", 1000000, 64, peer=False),
    case("banded_columns", 256, 16), case("banded_columns", 4096, 64, peer=False),
    case("blt", 1024, 3, objective="max_squared"), case("blt", 1024, 3, epochs=4),
    case("blt", 1000000, 4, peer=False),
    case("banded_inverse", 1024, 8, peer=False), case("banded_inverse", 4096, 16, epochs=8, peer=False),
    case("optimal", 256, 5, epochs=4), case("optimal", 2000, 3, epochs=20, peer=False),
    case("noise", 10000, 32), case("noise", 1000000, 32),
]
MINIMISERS = [(256, 4), (1024, 8), (1024, 32), (4096, 16)]


def time_peer(build, repeat):
    """The peer's answers by index in CASES."""
    with_peer = [i for i, item in enumerate(CASES) if item["peer"]]
    cases = [{**CASES[i], "repeat": repeat} for i in with_peer]
    answers = ask_peer(build, "venv-strategies", PEER, "peer_strategies.py", cases, JAX_PLATFORMS="cpu")
    return dict(zip(with_peer, answers))


def ask(objects, *arguments):
    done = subprocess.run([os.path.join(objects, "tests/bench/bench_strategies"), *map(str, arguments)], text=True,
                          check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def time_library(objects, item, repeat):
    if item["kind"] == "noise":
        answer = ask(objects, "noise", item["n"], item["size"], repeat)
        return {"value": answer["norm"], "seconds": answer["seconds"]}
    answer = ask(objects, item["kind"], item["n"], item["size"], item["epochs"], item["separation"],
                 item["objective"], repeat)
    return {"value": answer["root_loss"], "seconds": answer["seconds"]}


def name_of(item):
    size = {"blt": "buffers", "optimal": "digits of gap"}.get(item["kind"], "bands")
    epochs = f", {item['epochs']} epochs" if item["epochs"] > 1 else ""
    largest = ", max" if item["objective"] == "max_squared" else ""
    return f"{item['kind']}, n={item['n']}, {item['size']} {size}{epochs}{largest}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--objects", default="build/release")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--skip-peer", action="store_true")
    options = parser.parse_args()

    peers = {} if options.skip_peer else time_peer(options.build, options.repeat)
    print(f"\nStrategies, best of {options.repeat}; the peer is {PEER} on the CPU, double precision\n")
    print(f"  {'':<46}{'jax_privacy':>26}{'ours, in process':>26}{'faster':>10}")
    print(f"  {'case':<46}{'root loss':>14}{'ms':>12}{'root loss':>14}{'ms':>12}{'times':>10}")
    for i, item in enumerate(CASES):
        ours = time_library(options.objects, item, 1 if item["n"] >= 1000000 or item["kind"] == "optimal" else
                            options.repeat)
        peer = peers.get(i)
        theirs = f"{peer['value']:>14.7f}{1e3 * peer['seconds']:>12.2f}" if peer else f"{'':>26}"
        times = f"{peer['seconds'] / ours['seconds']:>10.0f}" if peer else ""
        worse = "  WORSE than the peer" if peer and ours["value"] > peer["value"] * (1 + 1e-6) else ""
        print(f"  {name_of(item):<46}{theirs}{ours['value']:>14.7f}{1e3 * ours['seconds']:>12.2f}{times}{worse}",
              flush=True)

    print("\nEvaluations to the same loss of a banded inverse: our L-BFGS, GSL's vector_bfgs2\n")
    for n, bands in MINIMISERS:
        found = ask(options.objects, "minimisers", n, bands)
        print(f"  n={n}, {bands} bands{'':<12}{found['evaluations']:>8}{found['gsl_evaluations']:>8}"
              f"   ({found['gsl_end']})", flush=True)


main()
