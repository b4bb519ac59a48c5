"""
Numbers from papers, closed forms and independent computations, compared with the service over HTTP. The answer is
always the upper end of the bracket, so every test checks on which side of the true value it lies.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import math

import numpy
import pytest

from closed_forms import gaussian_delta, poisson_step_delta

ONE = {"n": 1, "sampling": {"scheme": "none"}}


def pld(tolerance=1e-6):
    return {"method": "pld", "tolerance": tolerance}


def check_bracket(result, tolerance):
    """Checks that the answer is the upper end of the bracket, that no direction exceeds it, and that the bracket is as
    narrow as requested."""
    value, bracket = result[result["solved_for"]], result["bracket"]
    assert bracket["lower"] <= bracket["upper"] == value
    assert bracket["upper"] - bracket["lower"] <= tolerance * value
    assert value == max(result["directions"][name]["value"] for name in ("remove", "add"))
    assert result["guarantee"] == "deterministic"


def solve(server, job, tolerance=1e-3):
    result = server.solve(job)["result"]
    check_bracket(result, job.get("accountant", {}).get("tolerance", tolerance))
    return result


# ---------------------------------------------------------------- numbers from papers

@pytest.mark.parametrize("sigma,epsilon", [(0.341, 17.648), (0.600, 8.841), (2.231, 1.999)])
@pytest.mark.parametrize("method", ["gaussian", "pld"])
def test_gaussians_of_memf_table_3(server, sigma, epsilon, method):
    job = dict(ONE, noise_multiplier=sigma, delta=1e-6, accountant={"method": method, "tolerance": 1e-6})
    result = solve(server, job)
    assert round(result["epsilon"], 3) == epsilon
    assert result["accountant"] == method
    assert abs(result["directions"]["remove"]["value"] - result["directions"]["add"]["value"]) <= 1e-6 * epsilon


@pytest.mark.parametrize("n,p,sigma,epsilon", [
    (128, 1 / 128, 1, 0.806),
    (2052, 1000 / 342477, 0.402, 17.627), (2052, 1000 / 342477, 0.491, 8.747), (2052, 1000 / 342477, 0.757, 1.898),
    (2052, 1, 15.518, 17.5455), (2052, 1, 27.493, 8.721), (2052, 1, 106.023, 1.8974)])
def test_poisson_sampling(server, n, p, sigma, epsilon):
    result = solve(server, {"n": n, "sampling": {"scheme": "poisson", "p": p}, "noise_multiplier": sigma,
                            "delta": 1e-6, "accountant": pld(1e-5)})
    digits = len(str(epsilon).split(".")[1])
    assert round(result["epsilon"], digits) == epsilon
    assert result["sampling"]["p"] == p


def test_last_iterate(server):
    result = solve(server, {"n": 128, "sampling": {"scheme": "poisson", "p": 1 / 128, "last_iterate": True},
                            "noise_multiplier": 1, "delta": 1e-6, "accountant": pld(1e-5)})
    assert round(result["directions"]["add"]["value"], 5) == 0.29083
    assert round(result["epsilon"], 4) == 0.4199
    assert result["epsilon"] == result["directions"]["remove"]["value"]


# ---------------------------------------------------------------- closed forms

@pytest.mark.parametrize("method", ["gaussian", "pld"])
@pytest.mark.parametrize("delta", [1e-3, 1e-20, 1e-30])
def test_a_gaussian_at_small_delta(server, method, delta):
    for sigma in (0.5, 1.0, 4.0):
        job = dict(ONE, noise_multiplier=sigma, accountant={"method": method, "tolerance": 1e-6})
        result = solve(server, dict(job, delta=delta))
        bracket = result["bracket"]
        assert gaussian_delta(1 / sigma, bracket["upper"]) <= delta <= gaussian_delta(1 / sigma, bracket["lower"])
        result = solve(server, dict(job, epsilon=result["epsilon"]))
        exact = gaussian_delta(1 / sigma, result["epsilon"])
        assert result["bracket"]["lower"] <= exact <= result["bracket"]["upper"]


@pytest.mark.parametrize("delta", [1e-6, 1e-14, 1e-20, 1e-30])
def test_composed_gaussians_are_one(server, delta):
    for sigma in (15.518, 106.023):
        job = {"n": 2052, "sampling": {"scheme": "poisson", "p": 1}, "noise_multiplier": sigma}
        mu = math.sqrt(2052) / sigma
        bracket = solve(server, dict(job, delta=delta, accountant=pld()))["bracket"]
        assert gaussian_delta(mu, bracket["upper"]) <= delta <= gaussian_delta(mu, bracket["lower"])
        # auto finds the equivalent Gaussian.
        result = solve(server, dict(job, delta=delta))
        assert gaussian_delta(mu, result["bracket"]["upper"]) <= delta


@pytest.mark.parametrize("epsilon", [0.001, 0.5, 4.404189, 6.729029])
def test_one_poisson_step(server, epsilon):
    for p, sigma in ((0.01, 1.0), (0.5, 2.0)):
        job = {"n": 1, "sampling": {"scheme": "poisson", "p": p}, "noise_multiplier": sigma, "accountant": pld()}
        result = solve(server, dict(job, epsilon=epsilon))
        remove, add = poisson_step_delta(p, sigma, epsilon)
        assert result["bracket"]["lower"] <= max(remove, add) <= result["bracket"]["upper"]
        for name, exact in (("remove", float(remove)), ("add", float(add))):
            value = result["directions"][name]["value"]
            assert exact <= value <= max(exact * (1 + 2e-6), 1e-300), name


@pytest.mark.parametrize("delta", [1e-20, 1e-30])
def test_one_poisson_step_at_small_delta(server, delta):
    job = {"n": 1, "sampling": {"scheme": "poisson", "p": 0.01}, "noise_multiplier": 1, "delta": delta,
           "accountant": pld()}
    result = solve(server, job)
    upper, lower = result["bracket"]["upper"], result["bracket"]["lower"]
    assert poisson_step_delta(0.01, 1, upper)[0] <= delta <= poisson_step_delta(0.01, 1, lower)[0]
    add = result["directions"]["add"]["value"]
    assert poisson_step_delta(0.01, 1, add)[1] <= delta <= poisson_step_delta(0.01, 1, add * (1 - 2e-6))[1]


def test_a_small_answer_in_delta(server):
    """A delta under 1e-300 is reported as 1e-300, with lower 0."""
    result = server.solve(dict(ONE, noise_multiplier=1, epsilon=50))["result"]
    assert result["delta"] == 1e-300 and result["bracket"] == {"lower": 0, "upper": 1e-300, "exact": True}


# ---------------------------------------------------------------- independent recomputation

def normal(x, mean, sigma):
    return numpy.exp(-(x - mean)**2 / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))


def mixture(x, weights, sigma, sign=1):
    return sum(weight * normal(x, sign * i, sigma) for i, weight in enumerate(weights))


def hockey_sticks(p, q, eps, cell):
    """(H(P||Q), H(Q||P)) from densities on a grid."""
    return (numpy.maximum(p - math.exp(eps) * q, 0).sum() * cell,
            numpy.maximum(q - math.exp(eps) * p, 0).sum() * cell)


def binomial(k, p):
    return [math.comb(k, i) * p**i * (1 - p)**(k - i) for i in range(k + 1)]


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize("examples", [1, 3])
def test_one_step_by_quadrature(server, adjacency, examples):
    p, sigma, eps = 0.2, 0.8, 0.15
    x = numpy.linspace(-14, 14, 400001)
    weights = binomial(examples, p)
    upper = mixture(x, weights, sigma)
    lower = mixture(x, weights if adjacency == "replace_one" else [1], sigma, -1)
    remove, add = hockey_sticks(upper, lower, eps, x[1] - x[0])
    result = solve(server, {"n": 1, "sampling": {"scheme": "poisson", "p": p, "examples_per_user": examples},
                            "noise_multiplier": sigma, "epsilon": eps, "adjacency": adjacency, "accountant": pld()})
    for name, expected in (("remove", remove), ("add", add)):
        assert abs(result["directions"][name]["value"] - expected) < 1e-5 * expected, name


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_two_steps_by_quadrature(server, adjacency):
    p, sigma, eps = 0.3, 1.1, 0.4
    x = numpy.linspace(-9, 9, 3001)
    cell = (x[1] - x[0])**2
    upper = mixture(x, [1 - p, p], sigma)
    lower = mixture(x, [1 - p, p] if adjacency == "replace_one" else [1], sigma, -1)
    remove, add = hockey_sticks(numpy.outer(upper, upper), numpy.outer(lower, lower), eps, cell)
    result = solve(server, {"n": 2, "sampling": {"scheme": "poisson", "p": p}, "noise_multiplier": sigma,
                            "epsilon": eps, "adjacency": adjacency, "accountant": pld(1e-5)})
    for name, expected in (("remove", remove), ("add", add)):
        assert abs(result["directions"][name]["value"] - expected) < 5e-5 * expected, name


def test_last_iterate_by_quadrature(server):
    """n = 9 linear steps equal one step of a binomial mixture with variance n sigma^2."""
    n, p, sigma, eps = 9, 0.1, 1.3, 0.5
    x = numpy.linspace(-40, 50, 900001)
    wide = sigma * math.sqrt(n)
    remove, add = hockey_sticks(mixture(x, binomial(n, p), wide), normal(x, 0, wide), eps, x[1] - x[0])
    result = solve(server, {"n": n, "sampling": {"scheme": "poisson", "p": p, "last_iterate": True},
                            "noise_multiplier": sigma, "epsilon": eps, "accountant": pld()})
    for name, expected in (("remove", remove), ("add", add)):
        assert abs(result["directions"][name]["value"] - expected) < 1e-5 * expected, name


def tilted_composition(p, sigma, n, eps, tilt, spacing=1e-3, span=96.0):
    """delta_remove of n Poisson steps: losses are put on a grid such that their mean is preserved, tilted, and composed
    by one FFT power. This is an estimate and not a bound; its error is about that of a variance larger by n
    spacing^2/8."""
    x = numpy.linspace(-8 * sigma, 1 + 10 * sigma, 1000001)
    loss = numpy.log1p(p * numpy.expm1((x - 0.5) / sigma**2))
    mass = mixture(x, [1 - p, p], sigma) * (x[1] - x[0]) * numpy.exp(tilt * loss)
    total = mass.sum()
    mass /= total
    size = 1 << math.ceil(math.log2(span / spacing))
    cell = numpy.floor(loss / spacing)
    share = loss / spacing - cell
    grid = numpy.zeros(size)
    numpy.add.at(grid, cell.astype(int) % size, mass * (1 - share))
    numpy.add.at(grid, (cell.astype(int) + 1) % size, mass * share)
    composed = numpy.fft.irfft(numpy.fft.rfft(grid)**n, size)
    # The window is centred on the tilted mean.
    first = int(n * (mass * loss).sum() / spacing) - size // 2
    losses = ((numpy.arange(size) - first) % size + first) * spacing
    above = losses > eps
    return (composed[above] * numpy.exp(n * math.log(total) - tilt * losses[above]) *
            -numpy.expm1(eps - losses[above])).sum()


def test_poisson_sampling_by_a_tilted_transform(server):
    """A case in which dp_accounting is off by 6e-4: 2052 steps at delta 1e-10."""
    p, sigma = 1000 / 342477, 0.402
    result = solve(server, {"n": 2052, "sampling": {"scheme": "poisson", "p": p}, "noise_multiplier": sigma,
                            "delta": 1e-10, "accountant": pld(1e-5)})
    assert abs(tilted_composition(p, sigma, 2052, result["epsilon"], 0.97) / 1e-10 - 1) < 5e-4


# ---------------------------------------------------------------- the rule of three, tolerance, directions

@pytest.mark.parametrize("sampling", [{"scheme": "none", "epochs": 4}, {"scheme": "poisson", "p": 0.05}],
                         ids=["none", "poisson"])
def test_the_three_agree(server, sampling):
    job = {"n": 40, "sampling": sampling, "accountant": {"tolerance": 1e-4, "method": "auto"}}
    sigma = solve(server, dict(job, epsilon=1.5, delta=1e-7))
    assert sigma["epsilon"] == 1.5 and sigma["delta"] == 1e-7
    upper, lower = sigma["bracket"]["upper"], sigma["bracket"]["lower"]
    # At the returned noise, epsilon 1.5 and delta 1e-7 hold; with 1% less noise they do not.
    assert solve(server, dict(job, noise_multiplier=upper, delta=1e-7))["bracket"]["lower"] <= 1.5
    assert solve(server, dict(job, noise_multiplier=upper, epsilon=1.5))["bracket"]["lower"] <= 1e-7
    assert solve(server, dict(job, noise_multiplier=lower, delta=1e-7))["bracket"]["upper"] >= 1.5
    assert solve(server, dict(job, noise_multiplier=0.99 * lower, delta=1e-7))["bracket"]["lower"] > 1.5


def test_tolerance_narrows_the_bracket(server):
    job = {"n": 300, "sampling": {"scheme": "poisson", "p": 0.02}, "noise_multiplier": 1.0, "delta": 1e-8}
    ends = []
    for tolerance in (1e-1, 1e-3, 1e-6, 1e-8):
        ends.append(solve(server, dict(job, accountant=pld(tolerance)))["bracket"])
    widths = [end["upper"] - end["lower"] for end in ends]
    assert widths == sorted(widths, reverse=True) and widths[-1] > 0
    assert widths[-1] < 1e-4 * widths[0]
    # All brackets contain the same true value.
    assert max(end["lower"] for end in ends) <= min(end["upper"] for end in ends)


def test_both_directions_stand_beside_each_other(server):
    result = solve(server, {"n": 100, "sampling": {"scheme": "poisson", "p": 0.01}, "noise_multiplier": 0.5,
                            "delta": 1e-6})
    assert set(result["directions"]) == {"remove", "add"}
    assert result["directions"]["add"]["value"] < 0.9 * result["directions"]["remove"]["value"]
    assert {candidate["direction"] for candidate in result["candidates"]} == {"remove", "add"}
    for candidate in result["candidates"]:
        assert candidate["value"] >= result["directions"][candidate["direction"]]["value"]


def test_a_direction_that_all_but_vanishes(server):
    """The add direction near and below 1e-300, where the remove direction alone is the answer."""
    job = {"n": 100, "sampling": {"scheme": "poisson", "p": 0.05}, "noise_multiplier": 1.0}
    for epsilon in (4.9, 5.0, 5.0125, 5.025, 5.036967210358942, 5.05, 8.0):
        result = solve(server, dict(job, epsilon=epsilon))
        assert result["directions"]["add"]["value"] < 1e-150, epsilon
        assert result["delta"] < 1e-7


def test_sampling_never_makes_an_answer_worse(server):
    """The Gaussian of the worst pattern is a candidate next to the amplified bounds."""
    for p in (1, 0.999, 0.1):
        amplified = solve(server, {"n": 20, "matrix": {"family": "square_root"},
                                   "sampling": {"scheme": "poisson", "p": p}, "noise_multiplier": 3, "delta": 1e-6})
        plain = solve(server, {"n": 20, "matrix": {"family": "square_root"},
                               "sampling": {"scheme": "none", "epochs": 20}, "noise_multiplier": 3, "delta": 1e-6})
        assert amplified["epsilon"] <= plain["epsilon"] * (1 + 1e-9)
    assert {candidate["accountant"] for candidate in amplified["candidates"]} == {"gaussian", "mmcc"}


def test_no_noise_and_no_answer(server):
    # No example takes part with a probability above delta, so no noise is needed.
    result = server.solve({"n": 1, "sampling": {"scheme": "poisson", "p": 0.001}, "epsilon": 1, "delta": 0.01})
    assert result["result"]["noise_multiplier"] == 0
    # This would require more noise than 1e9.
    document = server.post({"n": 1000, "sampling": {"scheme": "none", "epochs": 1000}, "epsilon": 0, "delta": 1e-30},
                           "/v1/jobs?wait=60").json()
    assert document["status"] == "failed" and document["error"]["type"] == "/problems/unattainable"


# ---------------------------------------------------------------- the curve

@pytest.mark.parametrize("job", [
    {"n": 100, "sampling": {"scheme": "poisson", "p": 0.05}, "noise_multiplier": 1.0, "curve": True},
    dict(ONE, noise_multiplier=0.8, curve=True)], ids=["poisson", "gaussian"])
def test_the_curve_agrees_with_single_answers(server, job):
    document = server.solve(job)
    points = server.get(document["links"]["curve"]).json()["points"]
    assert points == document["result"]["curve"] and len(points) == 201
    assert points[0]["epsilon"] == 0 and points[-1]["delta"] <= 1e-15 < points[180]["delta"]
    steps = [after["epsilon"] - before["epsilon"] for before, after in zip(points, points[1:])]
    assert max(steps) - min(steps) < 1e-9 * points[-1]["epsilon"]
    for before, after in zip(points, points[1:]):
        assert all(after[name] <= before[name] for name in ("delta", "remove", "add"))
    for point in points[::25]:
        assert 0 < point["lower"] <= point["delta"] == max(point["remove"], point["add"])
        single = dict(job, epsilon=point["epsilon"])
        del single["curve"]
        bracket = solve(server, single)["bracket"]
        # Both contain the true value.
        assert point["lower"] <= bracket["upper"] and bracket["lower"] <= point["delta"]
        assert point["delta"] <= bracket["upper"] * 1.01
