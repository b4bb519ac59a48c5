"""
The example trainings in PyTorch, with and without Opacus: killed again and again, a run that repeats its lost steps
ends with the parameters of a run that was left alone, bit for bit; one that skips them goes on after them. On the
digits of scikit-learn.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from conftest import TESTS

torch = pytest.importorskip("torch")
pytest.importorskip("opacus")
pytest.importorskip("sklearn")

PACKAGE = TESTS.parent / "api" / "python"
EXAMPLES = PACKAGE / "examples"
PATHS = f"{PACKAGE}:{EXAMPLES}"
MORTAL = str(TESTS / "e2e" / "mortal.py")
STEPS, CHECKPOINT = 60, 9
programs = pytest.mark.parametrize("program", ["train_digits_torch.py", "train_digits_opacus.py"])


def run_program(program, run, *options, url="http://127.0.0.1:9", death=None, threads=1):
    """death: (function, number of the call). Without a url, nobody listens."""
    start = [MORTAL, *map(str, death)] if death else []
    return subprocess.run(
        [sys.executable, *start, str(EXAMPLES / program), "--run", str(run), "--url", url, "--steps", str(STEPS),
         "--checkpoint-every", str(CHECKPOINT), "--batch-size", "48", *options], capture_output=True, text=True,
        timeout=180, check=False, env={**os.environ, "PYTHONPATH": PATHS, "OMP_NUM_THREADS": str(threads)})


def end(*arguments, **options):
    done = run_program(*arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def drawn(journal):
    """The number of steps that the journal knows."""
    return int.from_bytes(journal.read_bytes()[-8:], "little")


def kill(program, run, death, begins, journal, *options):
    """It resumes at a step (None: it begins), and so many steps are drawn when it dies."""
    done = run_program(program, run, *options, death=death)
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr
    assert re.findall(r"resumed at step (\d+)", done.stdout) == ([] if begins is None else [str(begins)])
    assert drawn(run / "journal") == journal


def begin(program, run, url, *options):
    """A run that is killed at its first step, and a copy of it as it was before."""
    done = run_program(program, run, *options, url=url, death=("step", 1))
    assert done.returncode == -signal.SIGKILL and drawn(run / "journal") == 1, done.stdout + done.stderr
    copy = run.with_name("whole")
    copy.mkdir(mode=0o700)
    for name in ("key", "mechanism.json", "options.json"):
        shutil.copy(run / name, copy / name)
    return copy


def same(one, other):
    """Whether two checkpoints are equal, to the last bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def checkpoint(run):
    return torch.load(run / "checkpoint.pt", weights_only=True)


@pytest.mark.parametrize("program, options", [
    ("train_digits_torch.py", []), ("train_digits_torch.py", ["--optimizer", "adam", "--learning-rate", "0.03"]),
    ("train_digits_opacus.py", [])])
def test_a_run_that_repeats_ends_as_if_it_had_not_been_killed(server, tmp_path, program, options):
    options = ["--lost-steps", "repeat", *options]
    killed = tmp_path / "killed"
    whole = begin(program, killed, server.url, *options)
    kill(program, killed, ("step", 5), 0, 5, *options)
    kill(program, killed, ("step", 3), 0, 5, *options)  # repeats steps that were repeated
    refused = run_program(program, killed, *options, threads=2)
    assert refused.returncode == 1 and "is a run with another torch" in refused.stderr
    kill(program, killed, ("replace", 2), 0, 18, *options)
    kill(program, killed, ("step", 28), 9, 37, *options)
    said = end(program, killed, *options)
    assert "resumed at step 36" in said and drawn(killed / "journal") == STEPS
    alone = end(program, whole, *options)
    assert same(checkpoint(killed), checkpoint(whole))
    assert said[said.index("accuracy"):] == alone[alone.index("accuracy"):]
    assert "# Privacy statement" in said and "epsilon = 8 and delta = 0.0001" in said
    assert float(re.search(r"^accuracy (\S+) on 360", said, re.M)[1]) > 0.6  # observed: 0.8; chance: 0.1


@programs
def test_a_run_that_skips_goes_on_after_the_lost_steps(server, tmp_path, program):
    killed = tmp_path / "killed"
    whole = begin(program, killed, server.url)
    kill(program, killed, ("step", 20), 1, 21)
    shutil.copy(killed / "checkpoint.pt", tmp_path / "after18.pt")
    said = end(program, killed)
    assert "resumed at step 21" in said and drawn(killed / "journal") == STEPS
    again = end(program, killed)
    assert f"resumed at step {STEPS}" in again
    assert again[again.index("accuracy"):] == said[said.index("accuracy"):]
    end(program, whole)
    assert not same(checkpoint(killed), checkpoint(whole))  # without steps 0 and 18 to 20
    for run in (killed, whole):
        state = checkpoint(run)
        noise = state["noise"] if "noise" in state else state["optimizer_state_dict"]["epsilond"]
        assert noise["steps"] == STEPS
    assert float(re.search(r"^accuracy (\S+) on 360", said, re.M)[1]) > 0.6


def test_both_programs_train_the_same_network(server, tmp_path):
    """One clips by torch.func and the other by Opacus; batches and noise are the same."""
    one, other = tmp_path / "torch", tmp_path / "opacus"
    end("train_digits_torch.py", one, url=server.url)
    other.mkdir(mode=0o700)
    for name in ("key", "mechanism.json"):
        shutil.copy(one / name, other / name)
    end("train_digits_opacus.py", other)
    left, right = checkpoint(one)["model"], checkpoint(other)["module_state_dict"]
    for x, y in zip(left.values(), right.values(), strict=True):
        assert torch.allclose(x, y, rtol=0, atol=1e-3)


def test_training_is_compared_with_dp_sgd(server, tmp_path):
    said = end("train_digits_torch.py", tmp_path / "run", "--compare", "--steps", "200", "--batch-size", "96",
               url=server.url)
    accuracies = re.findall(r"^(\d) bands, noise multiplier \S+$.*?^accuracy (\S+) on 360", said, re.M | re.S)
    assert [bands for bands, _ in accuracies] == ["8", "1"]
    assert all(float(accuracy) > 0.85 for _, accuracy in accuracies)  # observed: 0.93
    assert said.count("# Privacy statement") == 1
    refused = run_program("train_digits_torch.py", tmp_path / "run", "--steps", "200", "--batch-size", "96",
                          "--optimizer", "adam")
    assert refused.returncode == 1 and "is a run with another optimizer" in refused.stderr


def test_the_service_plans_the_training(server, tmp_path):
    said = end("train_digits_torch.py", tmp_path / "run", "--plan", "--bands", "4", "--steps", "40", url=server.url)
    assert re.search(r"^planned: \w+ under \w+, with a gain of \d\.\d\d over DP-SGD$", said, re.M)
    assert re.search(r"^accuracy 0\.\d+ on 360", said, re.M) and "with epsilon = 8 and delta" in said


def test_the_second_moment_is_without_the_noise(monkeypatch):
    """Of gradients that are noise and a constant, the square of the constant remains."""
    monkeypatch.syspath_prepend(str(PACKAGE))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from train_digits_torch import CorrectedAdam
    parameter = torch.nn.Parameter(torch.zeros(20000))
    adam = CorrectedAdam([parameter], lr=1.0, floor=1e-12)
    draw = torch.Generator().manual_seed(1)
    for step in range(1, 301):
        stddev = 1.0 / step ** 0.25  # that of correlated noise is not constant
        parameter.grad = 0.5 + stddev * torch.randn(20000, generator=draw)
        adam.step(stddev)
    variance, state = adam.param_groups[0]["variance"], adam.state[parameter]
    correction = 1 - 0.999 ** 300
    assert ((state["square"].mean() - variance) / correction).item() == pytest.approx(0.25, rel=0.01)
    plain, same_as = torch.nn.Parameter(torch.zeros(3)), torch.nn.Parameter(torch.zeros(3))
    mine, theirs = CorrectedAdam([plain], lr=0.1, floor=1e-30), torch.optim.Adam([same_as], lr=0.1, eps=0)
    for step in range(5):
        plain.grad = same_as.grad = torch.tensor([1.0, -2.0, 0.1 * step + 0.1])
        mine.step(0.0)
        theirs.step()
    assert torch.allclose(plain, same_as, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:Secure RNG", "ignore:Full backward hook")
@pytest.mark.parametrize("page", ["OPACUS.md", "TORCH.md"])
def test_the_lines_of_the_pages_train_a_network(server, tmp_path, monkeypatch, page):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(tmp_path)
    import runs
    import train_digits_torch
    (lines,) = re.findall(r"^```py\n(.*?)^```$", (EXAMPLES / page).read_text(), re.M | re.S)
    lines = lines.replace("http://localhost:8080", server.url).replace('"n": 400', '"n": 100')
    train, train_labels, *test = runs.digits(None)
    images, labels = train_digits_torch.as_tensors(train, train_labels)
    model = train_digits_torch.network()
    given = {"model": model, "images": images, "labels": labels, "clipped_sums": train_digits_torch.clipped_sums,
             "dataset": torch.utils.data.TensorDataset(images, labels)}
    exec(compile(lines, page, "exec"), given)  # pylint: disable=exec-used
    assert train_digits_torch.accuracy(model, *test) > 0.7  # observed: 0.9; chance: 0.1
    assert drawn(tmp_path / "run.journal") == 100
