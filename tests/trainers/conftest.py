"""
The server of the end-to-end tests, and mechanisms of every kind from it. These tests need PyTorch and JAX, which
`make trainers` installs.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import importlib.util
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS.parent / "api" / "python"))


def loaded(name):
    """A module of tests/e2e, which has a conftest.py of its own."""
    specification = importlib.util.spec_from_file_location("e2e_" + name, TESTS / "e2e" / (name + ".py"))
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


server, patterns = loaded("conftest").server, loaded("patterns")

# One for each kind of recurrence, with and without stamps.
STRATEGIES = [
    {"family": "identity"}, {"family": "square_root", "bands": 4}, {"family": "square_root", "bands": 3, "stamps": 3},
    {"family": "banded", "bands": 4, "column_normalize": True}, {"family": "banded", "bands": 3, "toeplitz": False},
    {"family": "blt", "buffers": 2}, {"family": "blt", "buffers": 1, "stamps": 2},
    {"family": "banded_inverse", "bands": 3}, {"family": "tree"}, {"family": "tree", "stamps": 2},
    {"family": "fourier"}]


@pytest.fixture(params=STRATEGIES, ids=lambda matrix: "-".join(map(str, matrix.values())))
def mechanism(request, solved):
    return solved(request.param)


@pytest.fixture(scope="session")
def solved(server):
    """The mechanism for a strategy in 12 steps."""
    from epsilond import Client
    client = Client(server.url)

    def solve(matrix, n=12):
        job = {"n": n, "matrix": matrix, "sampling": {"scheme": "none"}, "epsilon": 1, "delta": 1e-6}
        return client.mechanism(client.solve(job), spend=False)

    return solve
