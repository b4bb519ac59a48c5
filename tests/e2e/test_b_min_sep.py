"""
b-min-sep sampling over HTTP: moments far below the bound without amplification, p derived from the sizes, the
assumptions, and unsupported jobs, with the member at fault.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import pytest

from conftest import check_problem

SPACED = {"n": 200, "matrix": {"family": "square_root", "bands": 4}, "sampling": {"scheme": "b_min_sep", "p": 0.01},
          "noise_multiplier": 1.5, "delta": 1e-5}


def with_sampling(**members):
    return dict(SPACED, sampling=dict(SPACED["sampling"], **members))


@pytest.mark.sanitized
def test_moments_are_below_the_worst_pattern(server):
    document = server.solve(SPACED)
    result = document["result"]
    assert document["job"]["sampling"]["separation"] == 4 and document["job"]["sampling"]["warm_start"] is True
    for direction in ("remove", "add"):
        found = {c["accountant"]: c for c in result["candidates"] if c["direction"] == direction}
        assert set(found) == {"renyi", "gaussian"}
        assert found["renyi"]["value"] < 0.5 * found["gaussian"]["value"]
        assert result["directions"][direction]["accountant"] == "renyi"
    assert result["directions"]["remove"]["moments"] > 2
    assert result["accountant"] == "renyi" and result["guarantee"] == "deterministic"
    assert any("starts in its steady state" in text for text in result["assumptions"])


def test_no_separation_is_poisson(server):
    """Independent steps: the same answer, with the sampling as it was requested."""
    job = dict(SPACED, matrix={"family": "identity"})
    b_min_sep = server.solve(dict(job, sampling={"scheme": "b_min_sep", "p": 0.01, "separation": 1}))["result"]
    exact = server.solve(dict(job, sampling={"scheme": "poisson", "p": 0.01}))["result"]
    assert b_min_sep["directions"] == exact["directions"] and b_min_sep["accountant"] == "pld"
    assert b_min_sep["sampling"]["p"] == 0.01
    assert any("except in the 0 steps after" in text for text in b_min_sep["assumptions"])


def test_the_rate_follows_from_the_sizes(server):
    sizes = {"scheme": "b_min_sep", "batch_size": 10, "dataset_size": 1000, "separation": 5}
    result = server.solve(dict(SPACED, sampling=sizes))["result"]
    assert result["sampling"]["p"] == pytest.approx(0.01 / (1 - 0.01 * 4), rel=1e-15)
    assert result["sampling"]["expected_batch_size"] == 10
    given = server.solve(with_sampling(p=result["sampling"]["p"], separation=5))["result"]
    assert given["epsilon"] == result["epsilon"]


def test_more_examples_need_more(server):
    found = [server.solve(with_sampling(examples_per_user=k, warm_start=False))["result"] for k in (1, 2)]
    assert found[0]["epsilon"] < found[1]["epsilon"]
    assert any("empty examples" in text for text in found[1]["assumptions"])
    assert not any("empty examples" in text for text in found[0]["assumptions"])
    check_problem(server.post(with_sampling(examples_per_user=2, warm_start=True)), 422, "invalid-job",
                  "/sampling/warm_start")


def test_the_noise_that_is_found_gives_the_epsilon(server):
    job = {key: value for key, value in SPACED.items() if key != "noise_multiplier"}
    found = server.solve(dict(job, epsilon=2))["result"]
    again = server.solve(dict(SPACED, noise_multiplier=found["noise_multiplier"]))["result"]
    assert 1.9 < again["epsilon"] <= 2


@pytest.mark.parametrize("change,pointer", [
    ({"sampling": {"scheme": "b_min_sep", "p": 0.01, "separation": 3, "examples_per_user": 2, "warm_start": False}},
     "/sampling/separation"),
    ({"accountant": {"method": "renyi", "bandwidth": 2}}, "/accountant/bandwidth"),
    ({"adjacency": "replace_one"}, "/adjacency"),
    ({"matrix": {"family": "tree"}, "sampling": {"scheme": "b_min_sep", "p": 0.01, "separation": 200}}, "/matrix"),
    ({"matrix": {"family": "toeplitz", "coefficients": [1, -0.5]}}, "/matrix"),
    ({"accountant": "mmcc"}, "/sampling/scheme"),
    ({"accountant": "pld"}, "/sampling/scheme"),
    ({"accountant": "conditional_composition"}, "/sampling/scheme"),
])
def test_what_nobody_derived_is_refused(server, change, pointer):
    check_problem(server.post({"accountant": "renyi", **SPACED, **change}), 422, "unsupported", pointer)
