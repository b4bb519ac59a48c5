"""
The examples in JAX and with opake, on data made here: train_digits_jax.py, killed again and again, ends with the
network of a run that was left alone, bit for bit; what it leaves out when it may not repeat steps; and the accuracy of
all.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys

import numpy
import pytest

from conftest import TESTS, patterns

EXAMPLES = TESTS.parent / "api" / "python" / "examples"
MORTAL = str(TESTS / "e2e" / "mortal.py")
STEPS = 60
CHECKPOINT = 9  # steps
FLOOR = 0.8  # of the accuracy; observed: over 0.99; chance: 0.1

needs = {name: pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"needs {name}")
         for name in ("jax", "optax", "jax_privacy", "opake")}


def run_program(name, *options, death=None):
    """death: (function of os, number of the call)."""
    start = [MORTAL, *map(str, death)] if death else []
    return subprocess.run([sys.executable, *start, str(EXAMPLES / name), *map(str, options)],
                          capture_output=True, text=True, timeout=300, check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLES.parent), str(EXAMPLES)])})


def end(*arguments):
    done = run_program(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def accuracy(text):
    return float(re.search(r"^accuracy (\S+) on 300 held-out", text, re.M)[1])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return patterns.write(tmp_path_factory.mktemp("data") / "patterns.npz")


def options(run, data, url="http://127.0.0.1:9", **others):
    """Without a url, nobody listens."""
    told = {"run": run, "data": data, "url": url, "steps": STEPS, "checkpoint-every": CHECKPOINT, "bands": 4, **others}
    return [part for name, value in told.items() for part in (f"--{name}", value)]


def released(run):
    return int.from_bytes((run / "journal").read_bytes()[16:], "little")


@needs["jax"]
@needs["optax"]
def test_a_killed_run_ends_as_if_it_had_not_been(server, data, tmp_path):
    killed, whole, optimizer = tmp_path / "killed", tmp_path / "whole", "adam"

    def kill(death, begins, recorded, **others):
        """It resumes after so many steps (None: it does not come to that), and so many are recorded when it dies."""
        done = run_program("train_digits_jax.py", *options(killed, data, optimizer=optimizer, **others), death=death)
        assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr
        assert re.findall(r"resumed after (\d+) steps", done.stdout) == ([] if begins is None else [str(begins)])
        assert released(killed) == recorded

    kill(("replace", 3), None, 0, url=server.url)  # the first checkpoint; from here on the service is not needed
    whole.mkdir(mode=0o700)
    for name in ("key", "mechanism.json", "options.json"):  # the same run, left alone
        shutil.copy(killed / name, whole / name)
    kill(("pwrite", 5), None, 5)
    kill(("replace", 1), 0, 9)  # a checkpoint that is not there yet
    kill(("pwrite", 22), 0, 31)  # of steps that were not recorded before
    kill(("replace", 4), 27, 60)  # the last one
    said = end("train_digits_jax.py", *options(killed, data, optimizer=optimizer))
    assert re.search(r"resumed after 54 steps, which cost an epsilon of (3\.9|4\.0)", said)

    out = end("train_digits_jax.py", *options(whole, data, optimizer=optimizer))
    assert accuracy(out) > FLOOR and out[out.index("accuracy"):] == said[said.index("accuracy"):]
    assert "# Privacy statement" in out and "epsilon = 4 and delta = 0.0001" in out
    with numpy.load(killed / "checkpoint.npz") as one, numpy.load(whole / "checkpoint.npz") as other:
        assert one.files == other.files and len(one.files) > 8
        for name in one.files:
            assert one[name].tobytes() == other[name].tobytes(), name


@needs["jax"]
@needs["optax"]
def test_lost_steps_are_skipped(server, data, tmp_path):
    """Where they may not be repeated: the run ends after the same number of steps, and draws none again, not even if it
    is killed once more and may repeat steps then."""
    run, told = tmp_path / "run", {"optimizer": "adam", "lost-steps": "skip"}
    assert run_program("train_digits_jax.py", *options(run, data, url=server.url, **told),
                       death=("pwrite", 25)).returncode == -signal.SIGKILL
    done = run_program("train_digits_jax.py", *options(run, data, **told), death=("pwrite", 2))
    assert done.returncode == -signal.SIGKILL and "resumed after 25 steps" in done.stdout
    said = end("train_digits_jax.py", *options(run, data, optimizer="adam"))
    assert "resumed after 25 steps" in said and released(run) == STEPS
    assert accuracy(said) > FLOOR
    with numpy.load(run / "checkpoint.npz") as saved:
        assert '"steps": 60' in str(saved["told"])
        counts = [int(saved[name]) for name in saved.files if saved[name].dtype == numpy.int32]
        assert counts == [60 - 7, 60]  # updates, and steps of the mechanism: 18 to 24 were skipped


@needs["jax"]
@needs["optax"]
def test_it_compares_with_dp_sgd(server, data, tmp_path):
    out = end("train_digits_jax.py", *options(tmp_path / "run", data, url=server.url), "--compare")
    assert accuracy(out) > FLOOR
    assert float(re.search(r"^accuracy (\S+) by DP-SGD with epsilon = 4$", out, re.M)[1]) > FLOOR
    assert "4 bands: noise multiplier" in out and "1 bands: noise multiplier" in out
    done = run_program("train_digits_jax.py", *options(tmp_path / "run", data), "--clip", "2", "--optimizer", "adam")
    assert done.returncode == 1 and "another clip and optimizer" in done.stderr


@needs["jax_privacy"]
@needs["optax"]
def test_jax_privacy_trains_with_a_mechanism(server, data):
    out = end("privatize_with_jax_privacy.py", "--url", server.url, "--data", data, "--steps", STEPS, "--bands", 4)
    assert accuracy(out) > FLOOR and "# Privacy statement" in out


@needs["opake"]
@pytest.mark.parametrize("drawn_by", ["epsilond", "opake"])
def test_opake_trains_with_a_mechanism(server, data, drawn_by):
    out = end("noise_with_opake.py", "--url", server.url, "--data", data, "--steps", STEPS, "--bands", 4,
              "--drawn-by", drawn_by)
    assert accuracy(out) > FLOOR and "# Privacy statement" in out


# ---------------------------------------------------------------- the pages


def lines_of(page, server):
    """The programs of a page, for fewer steps."""
    text = (EXAMPLES / page).read_text().replace("http://localhost:8080", server.url).replace('"n": 2000', '"n": 32')
    return [compile(block, page, "exec") for block in re.findall(r"^```py\n(.*?)^```$", text, re.M | re.S)]


def run_lines(program, given):
    exec(program, given)  # pylint: disable=exec-used


@needs["jax"]
@needs["optax"]
def test_the_lines_of_the_page_on_jax_run(server, tmp_path, monkeypatch):
    """With sums of 0: what is left in the parameters is the noise, as it is accounted."""
    jax, jnp = importlib.import_module("jax"), importlib.import_module("jax.numpy")
    monkeypatch.chdir(tmp_path)
    sgd, adam, resuming = lines_of("JAX.md", server)
    given = {"params": {"w": jnp.zeros(7)}, "padded": lambda indices: (len(indices), None),
             "clipped_sum": lambda params, *_: jax.tree.map(jnp.zeros_like, params)}
    run_lines(sgd, given)
    mechanism, drawn = given["mechanism"], given["mechanism"].noise(numpy.zeros(7), given["key"], clip_norm=1.0)
    expected = -0.5 / 500 * sum(drawn.step() for _ in range(mechanism.n))
    assert numpy.allclose(given["params"]["w"], expected, rtol=0, atol=1e-6)

    run_lines(adam, given)
    given |= {"state": given["optimizer"].init(given["params"]), "batches": mechanism.batches(50000, given["key"])}
    before = given["state"]
    run_lines(resuming, given)
    assert jax.tree.structure(given["state"]) == jax.tree.structure(before)
    updates, _ = given["optimizer"].update({"w": jnp.zeros(7)}, given["state"])
    assert numpy.isfinite(updates["w"]).all()


@needs["jax_privacy"]
@needs["optax"]
def test_the_lines_of_the_page_on_jax_privacy_run(server):
    jnp = importlib.import_module("jax.numpy")
    given = {"loss": lambda params, image, label: ((params @ image - label)**2).sum()}
    for program in lines_of("JAX_PRIVACY.md", server):
        run_lines(program, given)
    params = jnp.zeros(1000)
    batch = jnp.ones((8, 1000)), jnp.ones(8), jnp.arange(8) < 0  # all padding
    after, _ = given["step"](params, given["optimizer"].init(params), *batch)
    deviation = 0.5 / 500 * given["mechanism"].stddev(0)
    assert abs(float(after.std()) / deviation - 1) < 6 / 2000**0.5  # six deviations: 1 false alarm in 10^8 keys


@needs["opake"]
def test_the_lines_of_the_page_on_opake_run(server, tmp_path, monkeypatch):
    torch = importlib.import_module("torch")
    monkeypatch.chdir(tmp_path)
    ours, theirs = lines_of("OPAKE.md", server)
    given = {"params": {"w": torch.zeros(7)}, "images": torch.zeros(50000, 7), "labels": torch.zeros(50000),
             "loss": lambda params, image, label: (params["w"] @ image - label)**2}
    run_lines(ours, given)  # images of 0 have gradients of 0
    drawn = given["mechanism"].noise(numpy.zeros(7), given["key"], clip_norm=1.0)
    expected = -0.5 / 500 * sum(drawn.step() for _ in range(given["mechanism"].n))
    assert numpy.allclose(given["params"]["w"], expected, rtol=0, atol=1e-6)
    run_lines(theirs, given)
    assert given["noised"].noise_stddev == pytest.approx(given["mechanism"].stddev(0, 1 / 500))
