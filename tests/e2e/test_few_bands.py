"""
Poisson sampling with few bands over HTTP: the candidates contain moments as well as mmcc, whose epsilon is larger;
cases without a derivation are rejected, with the member at fault.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import pytest

from conftest import check_problem

BANDED = {"n": 256, "matrix": {"family": "square_root", "bands": 3}, "sampling": {"scheme": "poisson", "p": 0.01},
          "noise_multiplier": 1.5, "delta": 1e-5}


def by_accountant(result, direction):
    return {c["accountant"]: c for c in result["candidates"] if c["direction"] == direction}


@pytest.mark.sanitized
def test_moments_are_below_mmcc(server):
    result = server.solve(BANDED)["result"]
    for direction in ("remove", "add"):
        found = by_accountant(result, direction)
        assert set(found) == {"renyi", "mmcc", "gaussian"}
        assert found["renyi"]["value"] < 0.7 * found["mmcc"]["value"] < found["gaussian"]["value"]
        assert result["directions"][direction]["accountant"] == "renyi"
    assert by_accountant(result, "remove")["renyi"]["moments"] > 2
    assert result["accountant"] == "renyi" and result["guarantee"] == "deterministic"
    assert result["epsilon"] == max(result["directions"][name]["value"] for name in ("remove", "add"))


def test_the_noise_that_is_found_gives_the_epsilon(server):
    job = {key: value for key, value in BANDED.items() if key != "noise_multiplier"}
    found = server.solve(dict(job, epsilon=2))["result"]
    again = server.solve(dict(BANDED, noise_multiplier=found["noise_multiplier"], accountant="renyi"))["result"]
    assert 1.8 < again["epsilon"] <= 2
    alone = server.solve(dict(job, epsilon=2, accountant="mmcc"))["result"]
    assert found["noise_multiplier"] < 0.8 * alone["noise_multiplier"]


def test_independent_steps_are_not_better_than_exact(server):
    """pld is exact for independent steps; moments are larger in both directions, but not by much."""
    job = dict(BANDED, matrix={"family": "identity"})
    exact, moments = (server.solve(dict(job, accountant=name))["result"] for name in ("pld", "renyi"))
    for direction in ("remove", "add"):
        low = exact["directions"][direction]["value"]
        assert 0.999 * low < moments["directions"][direction]["value"] < 1.5 * low


def test_a_curve_of_moments(server):
    job = {key: value for key, value in BANDED.items() if key != "delta"}
    points = server.solve(dict(job, curve=True, accountant={"method": "renyi", "max_order": 4}))["result"]["curve"]
    assert len(points) == 201 and all(a["delta"] >= b["delta"] for a, b in zip(points, points[1:]))


NEGATIVE = {"family": "toeplitz", "coefficients": [1, -0.5]}


@pytest.mark.parametrize("change,name,pointer", [
    ({"matrix": {"family": "square_root", "bands": 64}}, "unsupported", "/matrix/bands"),
    ({"matrix": NEGATIVE}, "unsupported", "/matrix"),
    ({"adjacency": "replace_one"}, "unsupported", "/adjacency"),
    ({"matrix": {"family": "tree"}, "sampling": {"scheme": "cyclic_poisson", "p": 0.01, "groups": 4}},
     "unsupported", "/sampling/scheme"),
    ({"sampling": dict(BANDED["sampling"], examples_per_user=2)}, "unsupported", "/sampling/examples_per_user"),
    ({"matrix": {"family": "identity"}, "sampling": {"scheme": "poisson", "batch_size": 10, "dataset_size": 1000,
                                                     "truncation": {"max_batch_size": 20}}},
     "unsupported", "/sampling/truncation"),
    ({"accountant": {"method": "renyi", "bandwidth": 2}}, "unsupported", "/accountant/bandwidth"),
    ({"accountant": {"method": "mmcc", "max_order": 4}}, "invalid-job", "/accountant/max_order"),
])
def test_what_nobody_derived_is_refused(server, change, name, pointer):
    check_problem(server.post({**BANDED, "accountant": "renyi", **change}), 422, name, pointer)
