"""
JAX Privacy with a mechanism of epsilond: its clipped_grad() sums the clipped gradients of a small network on the digits
of scikit-learn, its privatizer adds the noise, and the strategy, the noise multiplier and the batches are those of a
job, whose statement is the guarantee.

    pip install ./api/python[jax] jax_privacy scikit-learn
    epsilond serve &
    python api/python/examples/privatize_with_jax_privacy.py

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import argparse
import os
from typing import Any

import jax
import jax.numpy as jnp
import jax_privacy
import numpy
import optax
from jax_privacy.noise_addition import matrix_factorization_privatizer
from train_digits_jax import data_of, initial_parameters, loss, padded, scores_of

from epsilond import Client
from epsilond.jax_privacy import privatizer_arguments
from epsilond.training import Mechanism


def secret_key() -> Any:
    """All the bits that JAX's generator takes, from the operating system. For the noise of one run and nothing else."""
    return jax.random.wrap_key_data(jnp.asarray(numpy.frombuffer(os.urandom(8), numpy.uint32)), impl="threefry2x32")


def train(mechanism: Mechanism, images: Any, labels: Any, learning_rate: float, clip: float = 1.0) -> dict[str, Any]:
    sums = jax_privacy.clipped_grad(loss, l2_clip_norm=clip, batch_argnums=(1, 2), keep_batch_dim=False)
    privatizer = matrix_factorization_privatizer(**privatizer_arguments(mechanism, clip), prng_key=secret_key())
    optimizer = optax.chain(privatizer, optax.sgd(learning_rate / mechanism.sampling["expected_batch_size"]))
    parameters = initial_parameters()
    state = optimizer.init(parameters)

    @jax.jit
    def step(parameters: Any, state: Any, images: Any, labels: Any, mask: Any) -> tuple[Any, Any]:
        total = sums(parameters, images, labels, is_padding_example=~mask)
        updates, state = optimizer.update(total, state, parameters)
        return optax.apply_updates(parameters, updates), state

    for indices in mechanism.batches(len(images)):
        parameters, state = step(parameters, state, *padded(images, labels, indices))
    return parameters


def main() -> None:
    arguments = argparse.ArgumentParser(description="JAX Privacy with a mechanism of epsilond")
    arguments.add_argument("--url", default="http://localhost:8080")
    arguments.add_argument("--data", help="a .npz file, as for train_digits_jax.py")
    arguments.add_argument("--steps", type=int, default=400)
    arguments.add_argument("--bands", type=int, default=8)
    arguments.add_argument("--learning-rate", type=float, default=1.0)
    options = arguments.parse_args()

    images, labels, test_images, test_labels = data_of(options.data)
    client = Client(options.url)
    mechanism = client.mechanism(client.solve(
        {"n": options.steps, "matrix": {"family": "banded", "bands": options.bands}, "epsilon": 4, "delta": 1e-4,
         "sampling": {"scheme": "b_min_sep", "separation": options.bands, "batch_size": 96,
                      "dataset_size": len(images)}, "label": "digits with JAX Privacy"}))
    parameters = train(mechanism, images, labels, options.learning_rate)
    scores = jax.vmap(scores_of, (None, 0))(parameters, test_images)
    right = float((scores.argmax(axis=1) == test_labels).mean())
    print(f"accuracy {right:.4f} on {len(test_labels)} held-out images\n")
    print(mechanism.statement)


if __name__ == "__main__":
    main()
