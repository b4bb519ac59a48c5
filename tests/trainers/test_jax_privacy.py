"""
epsilond.jax_privacy: the privatizer of JAX Privacy, given a mechanism, adds noise of the covariance that was accounted.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import numpy
import pytest

jax = pytest.importorskip("jax")
jax_privacy = pytest.importorskip("jax_privacy")
jnp = jax.numpy

from jax_privacy.noise_addition import matrix_factorization_privatizer  # noqa: E402

from conftest import STRATEGIES  # noqa: E402
from covariances import RUNS, assert_covariance, inverse  # noqa: E402
from epsilond.jax_privacy import noising_matrix, privatizer_arguments, stddev  # noqa: E402
from epsilond.optax import correlated_noise  # noqa: E402

KEY = bytes(range(16))


def materialised(mechanism):
    matrix = noising_matrix(mechanism)
    if isinstance(matrix, jax.Array):
        assert matrix.shape[0] == mechanism.n + 1 and numpy.isnan(matrix[-1]).all()
        return matrix[:-1]
    return matrix.materialize(mechanism.n)


def test_the_matrix_is_that_of_the_service(server, mechanism):
    expected = inverse(server, mechanism)
    assert numpy.abs(materialised(mechanism) - expected).max() < 1e-6 * numpy.abs(expected).max()


def test_some_are_streamed_and_some_are_dense(solved):
    """Those without a recurrence are arrays; the others keep few rows."""
    dense = [matrix for matrix in STRATEGIES if isinstance(noising_matrix(solved(matrix)), jax.Array)]
    assert {matrix["family"] for matrix in dense} == {"tree", "fourier"}
    state = noising_matrix(solved({"family": "blt", "buffers": 2})).init_multiply(jnp.zeros(7))
    assert [leaf.shape for leaf in jax.tree.leaves(state)] == [(2, 7), (), (1, 7)]
    with pytest.warns(UserWarning, match="keeps 70 rows"):
        noising_matrix(solved({"family": "square_root"}, n=70))


def drawn(privatizer, n, coordinates=RUNS):
    """The noise of a run, as the update of sums of 0: each coordinate is a run of its own."""
    zeros = {"a": jnp.zeros((2, coordinates // 4)), "b": jnp.zeros(coordinates // 2)}
    _, (a, b) = jax.jit(lambda: jax.lax.scan(
        lambda state, _: (lambda x, state: (state, (x["a"].reshape(-1), x["b"])))(*privatizer.update(zeros, state)),
        privatizer.init(zeros), None, n))()
    return numpy.concatenate([a, b], axis=1).astype(float)


def test_noise_has_the_covariance_that_was_accounted(server, mechanism):
    """Of JAX Privacy's privatizer with these arguments, and of ours."""
    clip_norm, factor = 0.5, inverse(server, mechanism)
    covariance = (clip_norm * mechanism.noise_multiplier)**2 * factor @ factor.T
    theirs = matrix_factorization_privatizer(**privatizer_arguments(mechanism, clip_norm),
                                             prng_key=jax.random.key(1))
    for privatizer in theirs, correlated_noise(mechanism, KEY, clip_norm=clip_norm):
        assert_covariance(drawn(privatizer, mechanism.n), covariance)


def test_nothing_is_drawn_after_the_last_step(mechanism):
    for privatizer in (matrix_factorization_privatizer(**privatizer_arguments(mechanism, 1), prng_key=3),
                       correlated_noise(mechanism, KEY, clip_norm=1)):
        x = drawn(privatizer, mechanism.n + 2, coordinates=8)
        assert numpy.isfinite(x[:mechanism.n]).all() and numpy.isnan(x[mechanism.n:]).all()


def test_types_are_those_of_the_gradients(solved):
    mechanism = solved({"family": "banded", "bands": 4})
    privatizer = matrix_factorization_privatizer(**privatizer_arguments(mechanism, 1), prng_key=3, dtype=jnp.float32)
    like = [jnp.zeros(5, jnp.bfloat16), jnp.zeros((), jnp.float32)]
    updates, _ = privatizer.update(like, privatizer.init(like))
    assert [leaf.dtype for leaf in updates] == [jnp.bfloat16, jnp.float32]
    coarse = matrix_factorization_privatizer(**privatizer_arguments(mechanism, 1), prng_key=3)
    with pytest.raises(TypeError, match="bfloat16 is too coarse"):
        coarse.update(like, coarse.init(like))
    with pytest.raises(ValueError, match="not for arrays of these shapes"):
        privatizer.update([jnp.zeros(4), jnp.zeros(())], privatizer.init(like))


def test_the_standard_deviation_is_that_of_the_sum_they_clip(solved):
    """clip_norm is the sensitivity that JAX Privacy names for the sums of its clipped_grad()."""
    mechanism = solved({"family": "identity"})
    assert stddev(mechanism, 3.0) == 3 * mechanism.noise_multiplier
    for options, bound in (({"l2_clip_norm": 3.0}, 3), ({"l2_clip_norm": 3.0, "normalize_by": 60}, 0.05),
                           ({"l2_clip_norm": 3.0, "rescale_to_unit_norm": True, "normalize_by": 4}, 0.25)):
        sums = jax_privacy.clipped_grad(lambda w, x: 100 * (w * x).sum(), **options)
        assert sums.sensitivity() == pytest.approx(bound)
        assert float(jnp.linalg.norm(sums(jnp.ones(4), jnp.ones((1, 4))))) == pytest.approx(bound, rel=1e-5)
    for wrong in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="clip_norm must be a positive number"):
            stddev(mechanism, wrong)
