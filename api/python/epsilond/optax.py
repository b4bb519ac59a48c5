"""
The noise of a mechanism as transformations of optax, and Adam without the noise's part of its second moment.

    optimizer = optax.chain(correlated_noise(mechanism, key, clip_norm=1.0, expected_batch_size=500),
                            optax.sgd(0.5))
    state = optimizer.init(params)
    updates, state = optimizer.update(sum_of_clipped_gradients, state)

One update is one step of the mechanism: it takes the sum of the clipped gradients of one batch that was accounted for.
So correlated_noise() comes first in the outermost chain, where each batch, an empty one too, reaches it once.

- optax.MultiSteps around it gives it one update in every k. That is right with use_grad_mean=False, if the k parts make
  up one batch: the noise is then added once to their sum. With the mean, which is the default, it is k times too much.
- A wrapper that may leave an update out, such as optax.apply_if_finite or the should_skip_update_fn of MultiSteps, must
  not be around it: whether it leaves one out is seen, depends on gradients without noise, and takes the later batches
  out of step with the mechanism. Around the transformations that follow, it sees only noisy gradients and may stay.
- A wrapper that hides parameters, such as optax.masked or optax.multi_transform, must not be around it either, unless
  what it hides is not trained: those parameters would get no noise.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy
import optax

from .training import Mechanism
from .training.journal import checked_key


def correlated_noise(mechanism: Mechanism, key: bytes | None, *, clip_norm: float,
                     expected_batch_size: float | None = None) -> optax.GradientTransformation:
    """
    Adds clip_norm * noise_multiplier * (C^-1 z)_t to the sum of the clipped gradients of step t, and divides by the
    expected batch size if there is one. From step n on, updates are NaN, because nothing was accounted for them.

    key: 16 secret bytes, as for Mechanism.noise(); None draws new ones, for a run that is not resumed.

    The state is that of the JaxNoise mechanism.noise(params, key, clip_norm=clip_norm), a pytree of arrays, and says in
    state["step"] how many steps were drawn. It contains the key. That JaxNoise makes a checkpoint of it without the
    key, state_dict(state), and a state of a checkpoint, load_state_dict(saved, released=...), which says what it costs
    to repeat steps.
    """
    key = checked_key(key)
    _check_positive("expected_batch_size", expected_batch_size)

    def noise_of(like: Any) -> Any:
        return mechanism.noise(like, key, clip_norm=clip_norm, backend="jax")

    noise_of([jnp.zeros(1)])  # complains now of what is wrong

    def init(params: Any) -> Any:
        return noise_of(params).init()

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        shapes = [tuple(leaf.shape) for leaf in jax.tree_util.tree_leaves(updates)]
        if shapes != [tuple(rows.shape[1:]) for rows in state["rows"]]:
            raise ValueError(f"the state is not for gradients of the shapes {shapes}: init() it with the parameters "
                             "whose gradients are summed")
        state, drawn = noise_of(updates)(state)
        total = jax.tree_util.tree_map(jnp.add, updates, drawn)
        if expected_batch_size is not None:
            total = jax.tree_util.tree_map(lambda part: part / expected_batch_size, total)
        return total, state

    return optax.GradientTransformation(init, update)


class CorrectedAdamState(NamedTuple):
    """The number of updates that were averaged; the next step of the mechanism, which is another number only where a
    run leaves steps out; the averages of the gradients and of their squares, and that of the noise's variance."""
    count: Any
    step: Any
    mu: Any
    nu: Any
    variance: Any


def scale_by_adam_corrected(mechanism: Mechanism, *, clip_norm: float, expected_batch_size: float, b1: float = 0.9,
                            b2: float = 0.999, floor: float = 0.1, eps: float = 1e-8) -> optax.GradientTransformation:
    """
    Adam whose second moment is that of the gradients, and not of the gradients and the noise (DP-AdamBC: Tang,
    Shpilevskiy and Lécuyer 2023). It follows correlated_noise() with the same mechanism, clip norm and batch size.

    The expected square of a noisy gradient is that of the gradient plus (stddev(t)/expected_batch_size)^2, whatever the
    steps have in common. What the noise adds to the second moment is therefore the exponential average of those
    variances with the weights of the moment, also where they differ from step to step. It is subtracted:

        m / (sqrt(max(v - noise, floor * noise)) + eps)

    with v, m and noise corrected for their start at 0. The paper's floor is a constant; here it is a share of the
    noise's variance, so that it does not depend on the scale of the gradients. v fluctuates by about
    sqrt(2 (1 - b2) / (1 + b2)) of that variance if the noise is not correlated, which is 0.03 for 0.999; a floor far
    below divides by chance. A larger floor makes smaller steps.

    Like all that only sees noisy gradients, it costs no privacy. From step n on, updates are NaN.
    """
    _check_positive("expected_batch_size", expected_batch_size)
    _check_positive("floor", floor)
    if not 0 <= b1 < 1 or not 0 <= b2 < 1:
        raise ValueError(f"b1 and b2 must lie in [0, 1), and are {b1} and {b2}")
    if not eps >= 0:
        raise ValueError(f"eps must not be negative, and is {eps}")
    block = mechanism.recurrence.block
    deviations = numpy.array([mechanism.stddev(step, clip_norm) for step in range(min(block, mechanism.n))])
    variances = numpy.asarray((deviations / expected_batch_size)**2, dtype=numpy.float32)

    def init(params: Any) -> CorrectedAdamState:
        def zeros() -> Any:
            return jax.tree_util.tree_map(lambda leaf: jnp.zeros(leaf.shape, jnp.float32), params)

        none = jnp.zeros((), jnp.int32)
        return CorrectedAdamState(none, none, zeros(), zeros(), jnp.zeros((), jnp.float32))

    def update(updates: Any, state: CorrectedAdamState, params: Any = None) -> tuple[Any, CorrectedAdamState]:
        del params
        variance = jnp.where(state.step < mechanism.n, jnp.asarray(variances)[state.step % block],
                             jnp.float32(numpy.nan))

        def average(decay: float, old: Any, new: Any) -> Any:
            return decay * old + (1 - decay) * new

        mu = jax.tree_util.tree_map(lambda g, m: average(b1, m, g), updates, state.mu)
        nu = jax.tree_util.tree_map(lambda g, v: average(b2, v, jnp.square(g.astype(jnp.float32))), updates, state.nu)
        count, noise = state.count + 1, average(b2, state.variance, variance)
        steps = count.astype(jnp.float32)
        first, second = (-jnp.expm1(steps * math.log(decay)) if decay else 1 for decay in (b1, b2))

        def scaled(g: Any, m: Any, v: Any) -> Any:
            own = jnp.maximum(v - noise, floor * noise) / second
            return (m / first / (jnp.sqrt(own) + eps)).astype(g.dtype)

        return (jax.tree_util.tree_map(scaled, updates, mu, nu),
                CorrectedAdamState(count, state.step + 1, mu, nu, noise))

    return optax.GradientTransformation(init, update)


def _check_positive(name: str, value: float | None) -> None:
    if value is not None and not 0 < value < float("inf"):
        raise ValueError(f"{name} must be a positive number, not {value!r}")
