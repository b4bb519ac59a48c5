"""
Cyclic sampling and truncated batches over HTTP: the setting of BMS section 7.4, results that must agree when computed
in two ways, the assumptions, and the errors for impossible requests.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import pytest

from conftest import check_problem

BMS = {"n": 7200, "matrix": {"family": "square_root", "bands": 256},
       "sampling": {"scheme": "cyclic_poisson", "groups": 256, "batch_size": 1793, "dataset_size": 14745600,
                    "truncation": {"max_batch_size": 2048}},
       "epsilon": 10, "delta": 1.301e-8}


@pytest.mark.parametrize("adjacency, least, most", [("add_remove", 0.573, 0.575), ("zero_out", 0.573, 0.575),
                                                    ("replace_one", 0.5808, 0.5841)])
def test_the_noise_of_bms_7_4(server, adjacency, least, most):
    """An independent computation gives 0.5746 and 0.5831 with unit columns; the paper prints 0.627."""
    result = server.solve(dict(BMS, adjacency=adjacency))["result"]
    assert result["accountant"] == "pld" and least <= result["noise_multiplier"] <= most
    assert result["bracket"]["upper"] <= (1 + 1.001e-3) * result["bracket"]["lower"]
    assert any("14745600, is public" in line for line in result["assumptions"])
    assert any("256 groups" in line for line in result["assumptions"])


def test_plain_dp_sgd_of_bms_7_4(server):
    job = {"n": 7200, "sampling": {"scheme": "poisson", "batch_size": 1793, "dataset_size": 14745600,
                                   "truncation": {"max_batch_size": 2048}}, "epsilon": 10, "delta": 1.301e-8}
    assert server.solve(job)["result"]["noise_multiplier"] == pytest.approx(0.367, abs=5e-4)


def test_a_limit_that_no_batch_reaches_is_none(server):
    job = {"n": 100, "sampling": {"scheme": "poisson", "p": 0.02, "dataset_size": 3000}, "noise_multiplier": 1,
           "delta": 1e-6}
    limited = dict(job, sampling=dict(job["sampling"], truncation={"max_batch_size": 3000}))
    assert server.solve(job)["result"]["epsilon"] == server.solve(limited)["result"]["epsilon"]


def test_cyclic_with_enough_groups_is_poisson_over_the_rounds(server):
    """Unit columns, b bands, b groups: every round of an example is one subsampled Gaussian of norm 1."""
    cyclic = server.solve({"n": 96, "matrix": {"family": "banded", "bands": 8, "column_normalize": True},
                           "sampling": {"scheme": "cyclic_poisson", "p": 0.1, "groups": 8}, "noise_multiplier": 1,
                           "delta": 1e-6})["result"]
    rounds = server.solve({"n": 12, "sampling": {"scheme": "poisson", "p": 0.1}, "noise_multiplier": 1,
                           "delta": 1e-6})["result"]
    assert cyclic["epsilon"] == pytest.approx(rounds["epsilon"], rel=1e-6)
    assert cyclic["accountant"] == "pld" and cyclic["adaptive"] is True


def test_uneven_groups_take_the_worse_size(server):
    job = {"n": 20, "matrix": {"family": "identity"}, "noise_multiplier": 1, "delta": 1e-6,
           "sampling": {"scheme": "cyclic_poisson", "p": 0.2, "groups": 4, "truncation": {"max_batch_size": 14}}}
    at = lambda size: server.solve(dict(job, sampling=dict(job["sampling"], dataset_size=size)))["result"]["epsilon"]
    assert at(202) == pytest.approx(max(at(200), at(204)), rel=1e-9)


def test_truncation_with_a_banded_strategy_needs_groups(server):
    job = {"n": 10, "matrix": {"family": "square_root", "bands": 4}, "noise_multiplier": 1, "delta": 1e-6,
           "sampling": {"scheme": "poisson", "p": 0.1, "dataset_size": 50, "truncation": {"max_batch_size": 9}},
           "accountant": "pld"}
    check_problem(server.post(job), 422, "unsupported", "/matrix")


def test_truncated_groups_are_a_fixed_split(server):
    """The number of examples in a batch depends on the size of its group, so the split is public; without truncation it
    need not be."""
    job = {"n": 20, "matrix": {"family": "square_root", "bands": 3}, "noise_multiplier": 1, "delta": 1e-6,
           "sampling": {"scheme": "cyclic_poisson", "groups": 3, "p": 0.1, "dataset_size": 100}}
    limited = dict(job, sampling=dict(job["sampling"], truncation={"max_batch_size": 6}))
    assert any("33 or one more examples" in line for line in server.solve(limited)["result"]["assumptions"])
    assert any("independently of its value" in line for line in server.solve(job)["result"]["assumptions"])


def test_groups_and_the_last_iterate_are_one_binomial_law(server):
    """k examples over n steps: Binomial(n k, p). By quadrature: 7.627 for k = 3, 2.153 for one."""
    job = {"n": 10, "sampling": {"scheme": "poisson", "p": 0.1, "last_iterate": True}, "noise_multiplier": 1,
           "delta": 1e-5}
    assert server.solve(job)["result"]["epsilon"] == pytest.approx(2.153, abs=3e-3)
    job["sampling"]["examples_per_user"] = 3
    assert server.solve(job)["result"]["epsilon"] == pytest.approx(7.627, abs=8e-3)
