"""
MMCC over HTTP: the numbers of the reference and the comparison with groups in the paper, the reporting of bad events,
and the errors where it does not apply.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import math

import pytest

from conftest import check_problem

TREE = {"n": 32, "matrix": {"family": "tree", "normalization": "none"},
        "sampling": {"scheme": "poisson", "p": 1 / 32}, "noise_multiplier": 5 * math.sqrt(6), "delta": 1e-6,
        "accountant": {"method": "mmcc"}}


def test_a_tree_is_at_or_under_the_reference(server):
    result = server.solve(TREE)["result"]
    assert result["epsilon"] <= 1.5868501353042306  # with the exact quantile and half of delta on bad events
    assert result["bracket"]["lower"] <= result["epsilon"] <= (1 + 1e-3) * result["bracket"]["lower"]
    for name in ("remove", "add"):
        direction = result["directions"][name]
        assert direction["accountant"] == "mmcc" and 0 < direction["bad_event_share"] < 1
    assert any("causal order" in line for line in result["assumptions"])


def test_a_share_that_is_asked_for_is_kept(server):
    job = dict(TREE, accountant={"method": "mmcc", "bad_event_share": 0.25})
    result = server.solve(job)["result"]
    assert all(abs(result["directions"][name]["bad_event_share"] - 0.25) < 1e-9 for name in ("remove", "add"))


def test_auto_takes_the_amplified_bound(server):
    job = dict(TREE, accountant="auto")
    result = server.solve(job)["result"]
    assert result["accountant"] == "renyi"
    assert {candidate["accountant"] for candidate in result["candidates"]} >= {"renyi", "mmcc", "gaussian"}


def test_more_random_sampling_beats_groups(server):
    """Figure 6, where epsilon is small: restarted trees of height 4, with each example in every step with probability
    p, or in one group of eight with probability 8 p."""
    job = {"n": 128, "matrix": {"family": "tree", "stamps": 16, "normalization": "none"}, "noise_multiplier": 64.0,
           "delta": 1e-6, "sampling": {"scheme": "poisson", "p": 1 / 16}}
    everywhere = server.solve(job)["result"]["epsilon"]
    grouped = server.solve(dict(job, sampling={"scheme": "cyclic_poisson", "p": 1 / 2,
                                               "groups": 8}))["result"]["epsilon"]
    assert everywhere < grouped


def test_the_curve_ends_at_its_floor(server):
    job = server.solve(dict(TREE, noise_multiplier=20 * math.sqrt(6)))
    points = server.get(job["links"]["curve"]).json()["points"]
    floor = job["result"]["delta"] * min(job["result"]["directions"][name]["bad_event_share"]
                                         for name in ("remove", "add"))
    deltas = [point["delta"] for point in points]
    assert deltas == sorted(deltas, reverse=True)
    assert floor * 0.99 <= deltas[-1] <= 2 * job["result"]["delta"]


@pytest.mark.parametrize("change,pointer", [
    ({"matrix": {"family": "toeplitz", "coefficients": [1, -0.5]}}, "/matrix"),
    ({"adjacency": "replace_one"}, "/adjacency"),
    ({"sampling": {"scheme": "none"}}, "/sampling/scheme"),
])
def test_what_it_does_not_serve(server, change, pointer):
    check_problem(server.post(dict(TREE, **change)), 422, "unsupported", pointer)
