"""
A mechanism for the privatizer of JAX Privacy (jax_privacy 2.0), which draws the noise with generators of its own.

    privatizer = matrix_factorization_privatizer(**privatizer_arguments(mechanism, clip_norm=1.0), prng_key=key)

The privatizer adds stddev * (C^-1 z)_t, z standard normal, to the sum that it is given. So `stddev` is clip_norm *
noise_multiplier, where clip_norm bounds the norm of what one example contributes to that sum: C was normalised when
the noise multiplier was found, and nothing is left to divide or multiply by. In particular, of the sums of
jax_privacy.clipped_grad():

- clip_norm is its l2_clip_norm; 1 with rescale_to_unit_norm; either of them over normalize_by if that is given;
- clipped_grad(...).sensitivity() is that number too, but twice it for REPLACE_ONE. The noise multiplier is for the
  adjacency of the job, which the statement names: never give that factor here.

The privatizer draws in the type of the gradients: if that has less than 32 bits, give it dtype=jnp.float32.

JAX Privacy's key has 64 bits at most in its usual form, and jax.random.key(seed) uses only 32 bits of the seed, or 31
if the privatizer makes the key itself: few enough to try them all. Draw it from the operating system,

    key = jax.random.wrap_key_data(numpy.frombuffer(os.urandom(8), numpy.uint32), impl="threefry2x32")

or use epsilond.optax, whose key has 128 bits. Use the key for nothing else in the run: initial parameters, dropout and
batches must not come from it.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy
from jax_privacy.matrix_factorization.streaming_matrix import StreamingMatrix

from .training import Mechanism
from .training.jax_noise import FUNCTIONS
from .training.noise import warn_of_rows
from .training.recurrence import Inverse, Rows


def privatizer_arguments(mechanism: Mechanism, clip_norm: float) -> dict[str, Any]:
    """`noising_matrix` and `stddev` of jax_privacy.noise_addition.matrix_factorization_privatizer()."""
    return {"noising_matrix": noising_matrix(mechanism), "stddev": stddev(mechanism, clip_norm)}


def stddev(mechanism: Mechanism, clip_norm: float) -> float:
    """clip_norm * noise_multiplier, the standard deviation of z and not of the noise C^-1 z, which is
    mechanism.stddev(step, clip_norm). clip_norm: the norm of an example's share of the sum that is noised."""
    if not 0 < clip_norm < float("inf"):
        raise ValueError(f"clip_norm must be a positive number, not {clip_norm!r}: the largest norm of what an example "
                         "contributes")
    return float(clip_norm * mechanism.noise_multiplier)


def noising_matrix(mechanism: Mechanism) -> Any:
    """
    C^-1, as a StreamingMatrix that keeps a few rows, or, for strategies without a recurrence (tree, fourier, dense,
    optimal), as an array. From step n on the noise is NaN, because nothing was accounted for it: a StreamingMatrix
    counts its rows, and the array has a row of NaN after the n of C^-1, which JAX takes for every later index.
    """
    recurrence = mechanism.recurrence
    if isinstance(recurrence, Rows):
        return _array(recurrence, mechanism.n)
    return _streaming(recurrence, mechanism.n)


def _array(recurrence: Rows, n: int) -> Any:
    """The blocks down the diagonal, and the row of NaN."""
    blocks = -(-n // recurrence.block)
    whole = numpy.zeros((blocks * recurrence.block, blocks * recurrence.block_rows), dtype=numpy.float32)
    for i in range(blocks):
        whole[i * recurrence.block:(i + 1) * recurrence.block,
              i * recurrence.block_rows:(i + 1) * recurrence.block_rows] = recurrence.rows
    return jnp.concatenate([jnp.asarray(whole[:n]), jnp.full((1, whole.shape[1]), numpy.nan, dtype=jnp.float32)])


def _streaming(recurrence: Any, n: int) -> Any:
    """The recurrence over values that come one by one, of which the last ones that it needs again are kept."""
    past = len(recurrence.coefficients) if isinstance(recurrence, Inverse) else 1
    warn_of_rows(recurrence.kept + past)

    def init(like: Any) -> Any:
        return {"step": jnp.zeros((), dtype=jnp.int32),
                "rows": jnp.zeros((recurrence.kept, *like.shape), dtype=jnp.float32),
                "values": jnp.zeros((past, *like.shape), dtype=jnp.float32)}

    def following(value: Any, state: Any) -> tuple[Any, Any]:
        step = state["step"]
        t = step % recurrence.block
        values = jax.lax.dynamic_update_index_in_dim(state["values"], value.astype(jnp.float32), t % past, 0)
        x, rows = FUNCTIONS[type(recurrence)](recurrence, t, lambda row: values[row % past], state["rows"])
        x = jnp.where(step < n, x, jnp.float32(numpy.nan))
        return x, {"step": step + 1, "rows": rows, "values": values}

    def init_all(tree: Any) -> Any:
        return [init(leaf) for leaf in jax.tree_util.tree_leaves(tree)]

    def next_all(tree: Any, states: Any) -> tuple[Any, Any]:
        leaves, structure = jax.tree_util.tree_flatten(tree)
        if [leaf.shape for leaf in leaves] != [state["values"].shape[1:] for state in states]:
            raise ValueError("the state is not for arrays of these shapes: init() it with the parameters")
        for leaf in leaves:
            if jnp.promote_types(leaf.dtype, jnp.float32) != leaf.dtype:
                raise TypeError(f"white noise in {leaf.dtype} is too coarse: give the privatizer dtype=jnp.float32")
        pairs = [following(leaf, state) for leaf, state in zip(leaves, states)]
        return jax.tree_util.tree_unflatten(structure, [x for x, _ in pairs]), [state for _, state in pairs]

    return StreamingMatrix(init_all, next_all)
