#!/usr/bin/env python3
"""
Makes a database of an older schema, by the server of the last commit that had it:

    git worktree add /tmp/old COMMIT && make -C /tmp/old -s all
    tests/e2e/schemas/make.py /tmp/old/build/epsilond

writes tests/e2e/schemas/NN.sql, a dump of the database, and NN.json, what that server answered: finished jobs, a sweep
and a plan where it knows them, and jobs that it was killed before it had computed.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import json
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import requests

NONE = {"scheme": "none"}
POISSON = {"scheme": "poisson", "p": 0.01}
FINISHED = [
    {"n": 100, "sampling": NONE, "noise_multiplier": 2.0, "delta": 1e-6, "label": "first"},
    {"n": 100, "sampling": NONE, "noise_multiplier": 2.0, "delta": 1e-6, "label": "answered by the first"},
    {"n": 200, "sampling": POISSON, "noise_multiplier": 1.0, "delta": 1e-6},
    {"n": 60, "sampling": POISSON, "epsilon": 1.0, "delta": 1e-6, "label": "\u03b5 = 1"},
    {"n": 4, "sampling": {"scheme": "none", "epochs": 2}, "noise_multiplier": 2.0, "delta": 1e-6,
     "matrix": {"family": "dense", "rows": [[1], [0.5, 1], [0.25, 0.5, 1], [0.125, 0.25, 0.5, 1]]}},
    {"n": 16, "sampling": NONE, "noise_multiplier": 2.0, "delta": 1e-6, "matrix": {"family": "square_root"}},
]
LONG = {"n": 4000, "sampling": {"scheme": "poisson", "p": 0.005, "examples_per_user": 500}, "epsilon": 1.0,
        "delta": 1e-8, "accountant": {"method": "pld", "tolerance": 5e-9}}
WAITING = {"n": 321, "sampling": NONE, "noise_multiplier": 3.0, "delta": 1e-6, "label": "waiting"}
SWEEP = {"base": FINISHED[0], "grid": {"/noise_multiplier": [1.5, 2.5]}, "label": "two points"}
PLAN = {"n": 24, "batch_size": 64, "dataset_size": 192, "epsilon": 4, "delta": 1e-5, "max_bands": 2,
        "schemes": ["none"], "families": ["identity", "square_root"], "label": "a few candidates"}
FIGURES = ("epsilon", "delta", "noise_multiplier", "accountant", "bracket", "guarantee")
BLOB_MOST = 1024  # larger ones, which are only caches, are left out


def essence(document):
    """What must survive of a job's document."""
    result = document.get("result") or {}
    return {**{name: document[name] for name in ("id", "status", "label", "created_at")},
            "figures": {name: result[name] for name in FIGURES if name in result}}


def wait(session, url, link):
    while (document := session.get(url + link).json())["status"] in ("queued", "running"):
        time.sleep(0.02)
    return document


def fill(url):
    """Returns what the service answers."""
    session = requests.Session()
    jobs = []
    for job in FINISHED:
        answer = session.post(url + "/v1/jobs?wait=60", json=job)
        if answer.status_code == 200:
            jobs.append(essence(answer.json()))
        else:
            print(answer.status_code, answer.text[:300], file=sys.stderr)
    groups = []
    for path, body in (("/v1/sweeps", SWEEP), ("/v1/plans", PLAN)):
        answer = session.post(url + path, json=body)
        if answer.status_code in (200, 201, 202):
            link = f"{path}/{answer.json()['id']}"
            document = wait(session, url, link)
            groups.append({"link": link, **{name: document[name] for name in ("status", "label", "total")}})
        else:
            print(path, answer.status_code, answer.text[:300], file=sys.stderr)
    waiting = []
    for job in (LONG, WAITING):
        answer = session.post(url + "/v1/jobs", json=job, headers={"Idempotency-Key": job.get("label", "long")})
        assert answer.status_code == 202, answer.text
        waiting.append(essence(answer.json()))
    return {"jobs": jobs, "groups": groups, "waiting": waiting}


def main(binary):
    with tempfile.TemporaryDirectory() as folder:
        database = pathlib.Path(folder) / "old.db"
        command = [binary, "serve", "--listen", "127.0.0.1:0", "--db", database, "--workers", "1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            url = server.stdout.readline().split()[-1]
            answers = fill(url)
            time.sleep(1)  # until the first of the waiting ones is stored as running
            server.send_signal(signal.SIGKILL)
        connection = sqlite3.connect(database)
        [schema] = connection.execute("PRAGMA user_version").fetchone()
        connection.execute("DELETE FROM blobs WHERE length(data) > ?", (BLOB_MOST,))
        lines = [*connection.iterdump(), f"PRAGMA user_version = {schema};"]
    here = pathlib.Path(__file__).resolve().parent
    (here / f"{schema:02}.sql").write_text("\n".join(lines) + "\n")
    (here / f"{schema:02}.json").write_text(json.dumps(answers, indent=1) + "\n")
    print(f"schema {schema}: {len(answers['jobs'])} jobs, {[group['link'] for group in answers['groups']]}")


if __name__ == "__main__":
    main(sys.argv[1])
