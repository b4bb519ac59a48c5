"""
The example that trains with batches and noise of its own: killed again and again, it ends with the network of a run
that was left alone, bit for bit. On data made here, since the system's Python has no scikit-learn; test_example.py runs
it on the digits.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import os
import re
import shutil
import signal
import subprocess
import sys

import numpy
import pytest

import patterns
from conftest import PATIENCE, ROOT

PACKAGE = ROOT / "api" / "python"
EXAMPLES = PACKAGE / "examples"
PROGRAM = str(EXAMPLES / "train_digits_local.py")
MORTAL = str(ROOT / "tests" / "e2e" / "mortal.py")
STEPS = 120
CHECKPOINT = 9  # steps


def run_program(run, data, *options, url="http://127.0.0.1:9", death=None):
    """death: (function, number of the call). Without a url, nobody listens."""
    start = [MORTAL, *map(str, death)] if death else []
    return subprocess.run(
        [sys.executable, *start, PROGRAM, "--run", str(run), "--data", str(data), "--url", url, "--steps", str(STEPS),
         "--checkpoint-every", str(CHECKPOINT), "--learning-rate", "0.5", *options], capture_output=True, text=True,
        timeout=PATIENCE, check=False, env={**os.environ, "PYTHONPATH": f"{PACKAGE}:{EXAMPLES}"})


def end(*arguments, **options):
    done = run_program(*arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def drawn(run):
    """The number of steps that the journal knows."""
    return int.from_bytes((run / "journal").read_bytes()[-8:], "little")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return patterns.write(tmp_path_factory.mktemp("data") / "patterns.npz")


def test_a_killed_run_ends_as_if_it_had_not_been(server, data, tmp_path):
    killed, whole = tmp_path / "killed", tmp_path / "whole"

    def kill(death, begins, journal, **options):
        """It resumes after so many steps (None: it does not come to that), and so many are drawn when it dies."""
        done = run_program(killed, data, death=death, **options)
        assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr
        assert re.findall(r"resumed after (\d+) steps", done.stdout) == ([] if begins is None else [str(begins)])
        assert (drawn(killed) if (killed / "journal").exists() else None) == journal

    kill(("replace", 1), None, None, url=server.url)  # the options
    kill(("replace", 2), None, None, url=server.url)  # the answer
    kill(("replace", 2), None, 0, url=server.url)  # the first checkpoint; from here on the service is not needed
    whole.mkdir(mode=0o700)
    for name in ("key", "mechanism.json", "options.json"):  # the same run, left alone
        shutil.copy(killed / name, whole / name)
    kill(("step", 1), None, 1)
    kill(("step", 5), 0, 5)
    kill(("step", 3), 0, 5)  # repeats steps that were repeated
    kill(("replace", 1), 0, 9)  # a checkpoint that is not there yet
    kill(("step", 9), 0, 9)
    kill(("step", 31), 0, 31)
    kill(("step", 60), 27, 87)
    kill(("replace", 5), 81, 120)  # the last one
    said = end(killed, data)
    assert "resumed after 117 steps, which cost an epsilon of 3.9" in said

    out = end(whole, data)
    accuracy = float(re.search(r"^accuracy (\S+) on 300", out, re.M)[1])
    assert accuracy > 0.8  # observed: 0.99; chance: 0.1
    assert "# Privacy statement" in out and "epsilon = 4 and delta = 0.0001" in out
    with numpy.load(killed / "checkpoint.npz") as one, numpy.load(whole / "checkpoint.npz") as other:
        assert one.files == other.files and len(one.files) == 9
        for name in one.files:
            assert one[name].tobytes() == other[name].tobytes(), name
    again = end(killed, data)
    assert f"resumed after {STEPS} steps" in again and again.endswith(out[out.index("accuracy"):])


def test_a_run_has_one_set_of_options(server, data, tmp_path):
    end(tmp_path / "run", data, url=server.url)
    done = run_program(tmp_path / "run", data, "--clip", "2", "--epsilon", "1")
    assert done.returncode == 1 and "is a run with another epsilon and clip" in done.stderr
