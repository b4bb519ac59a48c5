"""
epsilond.opake: opake's noise with the strategy of a mechanism has the covariance that was accounted, and its optimizers
get the noise of epsilond.training with its standard deviations.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import io

import numpy
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("opake.dpftrl")

from opake import random  # noqa: E402
from opake.dpftrl.clipping import clipped_grad  # noqa: E402
from opake.dpftrl.noise import bisr_strategy, identity_strategy, mf_gaussian_noise  # noqa: E402
from opake.exceptions import ConfigurationError  # noqa: E402
from opake.serialization import from_state_dict, state_dict  # noqa: E402
from opake.types import NoisedPytree, PerGroup, clipped  # noqa: E402

from conftest import STRATEGIES  # noqa: E402
from covariances import RUNS, assert_covariance, inverse  # noqa: E402
from epsilond.opake import Strategy, add_noise, noise_arguments  # noqa: E402

KEY = bytes(range(16))
DENSE = ("tree", "fourier")


@pytest.fixture(params=[matrix for matrix in STRATEGIES if matrix["family"] not in DENSE],
                ids=lambda matrix: "-".join(map(str, matrix.values())))
def streamed(request, solved):
    return solved(request.param)


def zeros(coordinates=RUNS):
    return {"a": torch.zeros(2, coordinates // 4), "b": torch.zeros(coordinates // 2)}


def flat(tree):
    return numpy.concatenate([part.numpy().reshape(-1) for part in (tree["a"], tree["b"])]).astype(float)


def test_the_matrix_is_that_of_the_service(server, streamed):
    expected = inverse(server, streamed)
    matrix = Strategy(streamed).streaming_matrix(n_steps=streamed.n)
    assert numpy.abs(matrix.materialize(streamed.n).numpy() - expected).max() < 1e-12 * numpy.abs(expected).max()
    assert numpy.allclose(matrix.row_norms_squared(streamed.n), (expected**2).sum(axis=1), rtol=1e-9)


def test_noise_has_the_covariance_that_was_accounted(server, streamed):
    """Each coordinate is a run of its own. The norm is that of what opake clipped."""
    clip_norm, factor = 0.5, inverse(server, streamed)
    noise, state = mf_gaussian_noise(zeros(), **noise_arguments(streamed), key=random.key(1))
    rows = []
    for step in range(streamed.n):
        noisy, state = noise(clipped(zeros(), max_norm=clip_norm), state)
        rows.append(flat(noisy.pytree))
        assert noisy.noise_stddev == pytest.approx(streamed.stddev(step, clip_norm))
    assert_covariance(numpy.stack(rows), (clip_norm * streamed.noise_multiplier)**2 * factor @ factor.T)
    with pytest.raises(ConfigurationError, match="outside the calibrated horizon"):
        noise(clipped(zeros(), max_norm=clip_norm), state)


def test_noise_is_that_of_opake_for_the_same_matrix(solved):
    """Where opake has a recipe for the very matrix: the same numbers from the same key."""
    for matrix, recipe in (({"family": "identity"}, lambda mechanism: identity_strategy()),
                           ({"family": "banded_inverse", "bands": 3}, lambda mechanism: bisr_strategy(
                               bandwidth=3, normalized=False, inv_coefficients=mechanism.recurrence.coefficients))):
        mechanism = solved(matrix)
        ours = noise_arguments(mechanism)
        divisor = getattr(mechanism.recurrence, "divisor", 1)
        theirs = {**ours, "strategy": recipe(mechanism), "noise_multiplier": mechanism.noise_multiplier / divisor}
        (one, first), (two, second) = (mf_gaussian_noise(zeros(40), **arguments, key=random.key(5))
                                       for arguments in (ours, theirs))
        for _ in range(mechanism.n):
            (x, first), (y, second) = (noise(clipped(zeros(40), max_norm=2.0), state)
                                       for noise, state in ((one, first), (two, second)))
            assert numpy.allclose(flat(x.pytree), flat(y.pytree), rtol=1e-5, atol=1e-5)
            assert x.noise_stddev == pytest.approx(y.noise_stddev)


def test_a_checkpoint_of_opake_resumes_bit_for_bit(streamed):
    noise, state = mf_gaussian_noise(zeros(40), **noise_arguments(streamed), key=random.key(1))
    fresh = state
    for _ in range(5):
        before = state
        _, state = noise(clipped(zeros(40), max_norm=1.0), state)
    again, _ = noise(clipped(zeros(40), max_norm=1.0), before)
    repeated, _ = noise(clipped(zeros(40), max_norm=1.0), before)  # a state is not changed by its use
    assert numpy.array_equal(flat(again.pytree), flat(repeated.pytree))
    file = io.BytesIO()
    torch.save(state_dict(state), file)
    file.seek(0)
    resumed = from_state_dict(fresh, torch.load(file, weights_only=False))
    for _ in range(7):
        one, state = noise(clipped(zeros(40), max_norm=1.0), state)
        two, resumed = noise(clipped(zeros(40), max_norm=1.0), resumed)
        assert numpy.array_equal(flat(one.pytree), flat(two.pytree))


def test_groups_have_noise_of_their_own_norms(solved):
    """The factor of group i is sqrt(max_norm_i * their sum)."""
    mechanism = solved({"family": "banded", "bands": 4})
    norms = PerGroup({"a": "first", "b": "second"}, {"first": 3.0, "second": 1.0})
    (one, first), (two, second) = (mf_gaussian_noise(zeros(40), **noise_arguments(mechanism), key=random.key(5))
                                   for _ in range(2))
    for _ in range(mechanism.n):
        x, first = one(clipped(zeros(40), max_norm=norms), first)
        y, second = two(clipped(zeros(40), max_norm=1.0), second)
        for name, factor in (("a", 12**0.5), ("b", 2.0)):
            assert torch.allclose(x.pytree[name], factor * y.pytree[name], rtol=1e-4, atol=1e-5)


def test_what_cannot_be_drawn_is_refused(solved):
    for family in DENSE:
        with pytest.raises(ValueError, match=f"family {family}"):
            noise_arguments(solved({"family": family}))
    mechanism = solved({"family": "banded", "bands": 4})
    arguments = {**noise_arguments(mechanism), "key": random.key(1)}
    for wrong, word in (({"n_steps": 13}, "n_steps=12, not 13"), ({"min_sep": 4}, "leave out min_sep"),
                        ({"max_participations": 1}, "leave out min_sep")):
        with pytest.raises(ValueError, match=word):
            mf_gaussian_noise(zeros(), **{**arguments, **wrong})
    noise, state = mf_gaussian_noise(zeros(), **arguments, second_moment_strategy=arguments["strategy"])
    gradient, clipping = clipped_grad(lambda p, x: (p["a"].sum() + p["b"].sum()) * x, clipping_norm=1.0,
                                      second_moment=True)
    sums, _ = gradient(zeros(), torch.ones(2), state=clipping)
    with pytest.raises(NotImplementedError, match="does not account"):  # it would need the sensitivity of C
        noise(sums, state)
    noise, state = mf_gaussian_noise(zeros(), **arguments, compute_dtype=torch.bfloat16)
    with pytest.raises(TypeError, match="too coarse"):
        noise(clipped(zeros(), max_norm=1.0), state)
    with pytest.warns(UserWarning, match="keeps 70 rows"):
        Strategy(solved({"family": "square_root"}, n=70)).streaming_matrix(n_steps=70)
    noise, state = mf_gaussian_noise(zeros(), **arguments)
    with pytest.raises(ValueError, match="not for tensors of these shapes"):
        noise(clipped(zeros(80), max_norm=1.0), state)


# ---------------------------------------------------------------- noise that epsilond draws


def test_it_is_the_noise_of_epsilond(solved):
    """Of sums that opake clipped, with its norm."""
    mechanism = solved({"family": "blt", "buffers": 2})
    params = {"w": torch.zeros(3, 4), "v": torch.zeros(4)}
    gradient, state = clipped_grad(lambda p, x: 100 * ((p["w"] + p["v"]) * x).sum(), clipping_norm=3.0,
                                   normalize_by=60.0)
    drawn, again = (mechanism.noise(params, KEY, clip_norm=0.05) for _ in range(2))
    for step in range(mechanism.n):
        sums, state = gradient(params, torch.ones(5, 3, 4), state=state)
        assert torch.sqrt(sum((part**2).sum() for part in sums.pytree.values())) == pytest.approx(0.25)
        noisy, x = add_noise(sums, drawn), again.step()
        assert isinstance(noisy, NoisedPytree) and noisy.max_norm == 0.05
        assert noisy.noise_stddev == mechanism.stddev(step, 0.05)
        assert all(torch.equal(noisy.pytree[name], sums.pytree[name] + x[name]) for name in params)
    with pytest.raises(ValueError, match="all 12 steps"):
        add_noise(sums, drawn)


def test_noise_for_something_else_is_refused(solved):
    mechanism = solved({"family": "identity"})
    noise = mechanism.noise(zeros(), KEY, clip_norm=1.0)
    for sums, error, word in ((zeros(), TypeError, "ClippedPytree"),
                              (clipped(zeros(), max_norm=2.0), ValueError, "opake clipped to 2.0"),
                              (add_noise(clipped(zeros(), max_norm=1.0), noise), TypeError, "once"),
                              (clipped(zeros(40), max_norm=1.0), ValueError, "other shapes")):
        with pytest.raises(error, match=word):
            add_noise(sums, noise)
