"""What takes long on one machine, through a server, RabbitMQ and workers, one for each core here:

- The production run of b-min-sep subsampling (Dong and Ganesh 2026), section 7.4: 7,200 steps, 256 bands, batches of
  1,793 of 14,745,600 examples, truncated at 2,048, epsilon 10, delta 1.301e-8. The paper verifies sigma 0.47 by draws
  that took 150 CPUs for two days. Here from a cold start: 0.47 must be certified with whole batches; the least sigma of
  truncated ones, as a job that travels as a whole; and their delta at 0.47 by draws that are divided.
- A plan of more than 1,000 candidates.

With REPRODUCE=1, as in `make reproduce`, these: 20 minutes on two cores. Otherwise smaller ones, whose answers are
compared with those of a server without workers, to the bit.

    [REPRODUCE=1] reproduce_workers.py --build build

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import collections
import contextlib
import os
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHOLE = os.environ.get("REPRODUCE") == "1"
PAPER, DELTA = 0.47, 1.301e-8  # sigma, and the delta for which it is certified


def production(steps, bands, truncated=True, **members):
    part = 7200 // steps
    truncation = {"truncation": {"max_batch_size": 2048}} if truncated else {}
    return {"n": steps, "matrix": {"family": "square_root", "bands": bands},
            "sampling": {"scheme": "b_min_sep", "separation": bands, "batch_size": 1793,
                         "dataset_size": 14745600 // part, "warm_start": False, **truncation},
            "epsilon": 10, **(members or {"delta": DELTA})}


DRAWS = {"accountant": {"method": "monte_carlo", "seed": 7}}
SMALL = {"n": 4096, "matrix": {"family": "banded", "bands": 4, "toeplitz": True},
         "sampling": {"scheme": "b_min_sep", "p": 0.05}, "noise_multiplier": 1, "delta": 1e-3, **DRAWS}
LENGTHS = [256, 320, 384, 448, 512, 640, 768, 1024] if WHOLE else [16]
PLAN = {"n": LENGTHS, "batch_size": 64, "dataset_size": 16384, "epsilon": 4, "delta": 1e-6,
        **({} if WHOLE else {"families": ["identity", "square_root"]})}
CERTIFIED = "production, whole batches"
JOBS = {CERTIFIED: production(7200, 256, truncated=False, noise_multiplier=PAPER),
        **({"production, truncated": production(7200, 256),
            "production, truncated, by draws": production(7200, 256, noise_multiplier=PAPER, **DRAWS)} if WHOLE else
           {"a small one, by draws": SMALL})}
failures = []


def say(fine, text):
    failures.extend([] if fine else [text])
    print(f"{'# ' if fine else 'not ok - '}{text}", flush=True)


def answered(server, body, path):
    """What was answered, and how long it took."""
    start = time.monotonic()
    link = server.post(body, path).json()["links"]["self"]
    while True:
        document = server.get(f"{link}?wait=300", timeout=400).json()
        if document["status"] not in ("queued", "running"):
            return document, time.monotonic() - start


def by_setting(plan):
    """What was answered, without what depends on which others ended before; of settings that occur once."""
    found = collections.defaultdict(list)
    for one in plan["candidates"]:
        if one["status"] == "succeeded":
            found[one["n"], one["family"], one["scheme"], one["bands"], one["buffers"]].append(
                [one["noise_multiplier"], one["error"], one["guarantee"], one["accountant"]])
    return {key: answers for key, answers in found.items() if len(answers) == 1}


def reproduce(server, local):
    for name, job in JOBS.items():
        document, took = answered(server, job, "/v1/jobs")
        result = document.get("result") or {}
        if document["status"] != "succeeded":
            say(False, f"{name}: {document.get('error')}")
            continue
        numbers = {member: result[member] for member in ("noise_multiplier", "epsilon", "guarantee", "directions")}
        say(name != CERTIFIED or result["delta"] <= DELTA,
            f"{name}: sigma {result['noise_multiplier']:.4f}, epsilon {result['epsilon']:.4f}, delta "
            f"{result['delta']:.3e} ({result['guarantee']}) in {took:.0f} s")
        if local:
            alone = answered(local, job, "/v1/jobs")[0]["result"]
            say(all(alone[member] == value for member, value in numbers.items()), f"{name}: the same without workers")
    whole = sum("accountant" not in job for job in JOBS.values())
    portions = server.metric("epsilond_broker_questions_total") - whole
    say(portions > 0, f"{portions:,.0f} portions of draws were sent")
    plan, took = answered(server, PLAN, "/v1/plans")
    best, done = plan["candidates"][0], sum(one["status"] == "succeeded" for one in plan["candidates"])
    say(plan["status"] == "succeeded" and plan["failed"] == 0 and (plan["total"] > 1000 or not WHOLE),
        f"a plan of {plan['total']:,} candidates: {done:,} answered, in {took:.0f} s; the best is {best['family']} "
        f"under {best['scheme']}")
    if local:
        there, here = by_setting(plan), by_setting(answered(local, PLAN, "/v1/plans")[0])
        both = there.keys() & here.keys()
        say(len(both) > len(here) / 2 and all(there[key] == here[key] for key in both),
            f"{len(both):,} candidates that both have answered are the same")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    os.environ["EPSILOND"] = os.path.abspath(os.path.join(options.build, "epsilond"))
    sys.path.insert(0, str(ROOT / "tests" / "e2e"))
    import broker
    import conftest
    if not broker.SERVER.exists():
        print("# skipped: needs the package rabbitmq-server")
        return 0
    with contextlib.ExitStack() as open_things:
        folder = open_things.enter_context(tempfile.TemporaryDirectory(prefix="reproduce.", dir=options.build))
        folders = [pathlib.Path(folder).resolve() / name for name in ("broker", "server", "local")]
        for each in folders:
            each.mkdir()
        rabbit = broker.Broker(folders[0])
        open_things.callback(rabbit.close)
        limits = ("--max-operations", "1e16", "--max-seconds", "0", "--log-level", "error")
        server = conftest.Server(folders[1], "--broker", rabbit.url(), "--broker-seconds", "0", "--broker-split", "1s",
                                 *limits)
        open_things.callback(server.stop)
        local = None if WHOLE else conftest.Server(folders[2], *limits)
        if local:
            open_things.callback(local.stop)
        workers = [broker.Worker(folders[1], rabbit.url()) for _ in range(os.cpu_count())]
        for worker in workers:
            open_things.callback(worker.stop)
        conftest.until(lambda: all(worker.welcome() for worker in workers))
        reproduce(server, local)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
