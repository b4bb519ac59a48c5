"""
Runs the examples of api/python as described in their first lines. JAX and scikit-learn are installed from PyPI into
build/; if PyPI is not reachable, the test is skipped with a message.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import os
import re
import subprocess
import sys

import pytest

from conftest import ROOT

PACKAGE = ROOT / "api" / "python"
NEEDED = PACKAGE / "examples" / "requirements.txt"
INSTALLING = 400  # seconds
RUNNING = 180


@pytest.fixture(scope="module")
def python():
    """An interpreter with the packages of the example."""
    home = ROOT / "build" / "example"
    stamp = home / "installed"
    if not stamp.exists() or stamp.read_text() != NEEDED.read_text():
        try:
            for command in ([sys.executable, "-m", "venv", "--clear", str(home)],
                            [str(home / "bin" / "pip"), "install", "-q", "--retries", "1", "--timeout", "20", "-r",
                             str(NEEDED)]):
                done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALLING, check=False)
                if done.returncode != 0:
                    said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
                    pytest.skip(f"what {NEEDED.name} names cannot be installed here: {said[-1]}")
        except subprocess.TimeoutExpired:
            pytest.skip(f"what {NEEDED.name} names was not installed within {INSTALLING} s")
        stamp.write_text(NEEDED.read_text())
    return str(home / "bin" / "python")


def run(python, *arguments):
    done = subprocess.run([python, *arguments], capture_output=True, text=True, timeout=RUNNING, check=False,
                          env={**os.environ, "PYTHONPATH": f"{PACKAGE}:{PACKAGE / 'examples'}"})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_network_is_trained_and_its_privacy_is_stated(server, python):
    said = run(python, str(PACKAGE / "examples" / "train_digits.py"), "--url", server.url)
    print(said)
    sigma, accuracy = re.search(r"^noise multiplier (\S+),.*\naccuracy (\S+) on", said, re.M).groups()
    job = server.get("/v1/jobs?label=digits&limit=1").json()["items"][0]
    assert float(sigma) == pytest.approx(job["result"]["noise_multiplier"], rel=1e-3)
    assert float(accuracy) > 0.8  # observed: 0.9 to 0.94; chance: 0.1
    assert said.endswith(server.get(job["links"]["statement"]).text + "\n")


def test_a_network_is_trained_without_the_service(server, python, tmp_path):
    """Once it has the answer; test_training_run.py kills it."""
    command = [str(PACKAGE / "examples" / "train_digits_local.py"), "--run", str(tmp_path / "run"), "--url"]
    said = run(python, *command, server.url)
    print(said)
    accuracy = float(re.search(r"^accuracy (\S+) on 360", said, re.M)[1])
    assert accuracy > 0.8  # observed: 0.92 to 0.96; chance: 0.1
    job = server.get("/v1/jobs?label=digits&limit=1").json()["items"][0]
    assert said.endswith(server.get(job["links"]["statement"]).text + "\n")
    again = run(python, *command, "http://127.0.0.1:9")  # nobody listens there
    assert "resumed after 400 steps" in again and again.endswith(said[said.index("accuracy"):])
