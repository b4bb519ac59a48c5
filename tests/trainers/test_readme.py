"""
The training loops of README.md, with gradients of 0: what they do to the parameters is the noise of their steps over
the expected batch size.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import re

import numpy
import pytest

from conftest import TESTS

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")


def test_the_loops_scale_the_noise_as_it_is_accounted(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (TESTS.parent / "README.md").read_text().replace("http://localhost:8080", server.url)
    text = text.replace("mechanism.batches(50000, key)", "batches")
    in_torch, in_jax = re.findall(r"^```py\n(.*?)^```$", text, re.M | re.S)
    model = torch.nn.Linear(30, 40)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    given = {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=1.0), "batches": [[], [1, 2]],
             "clipped_sums": lambda model, _, clip_norm: [torch.zeros_like(part) for part in model.parameters()]}
    exec(compile(in_torch, "README.md", "exec"), given)  # pylint: disable=exec-used
    mechanism, key = given["mechanism"], (tmp_path / "run.key").read_bytes()
    drawn = mechanism.noise(model, key, clip_norm=1.0)
    steps = [drawn.step(), drawn.step()]
    for old, new, one, two in zip(before, model.parameters(), *steps):
        assert torch.allclose(old - new, (one + two) / 500, rtol=0, atol=1e-6)

    (tmp_path / "jax").mkdir()  # another training, which needs a journal of its own
    monkeypatch.chdir(tmp_path / "jax")
    given = {"jax": jax, "params": {"w": jax.numpy.zeros((30, 40))}, "mechanism": mechanism, "key": key,
             "learning_rate": 2.0, "batches": [[], [1, 2]], "padded": lambda indices: (None, None),
             "clipped_sum": lambda params, *_: jax.tree.map(jax.numpy.zeros_like, params)}
    exec(compile(in_jax, "README.md", "exec"), given)  # pylint: disable=exec-used
    one = mechanism.noise(numpy.zeros((30, 40)), key, clip_norm=1.0)
    assert numpy.allclose(given["params"]["w"], -2 * (one.step() + one.step()) / 500, rtol=0, atol=1e-6)
    assert given["noise"].released == 2
