"""
Trains a small network on the digits of scikit-learn with differential privacy, from the accounting to the model card.
It

1. asks the service how much noise a banded mechanism needs under b-min-sep sampling, for a given epsilon and delta;
2. gets the batches, drawn by the accounted scheme, and the noise C^-1 z of the accounted matrix; clips the gradient of
  each example, and adds the noise to the sum;
3. prints the accuracy and the privacy statement of the run.

    pip install ./api/python -r api/python/examples/requirements.txt
    epsilond serve &
    python api/python/examples/train_digits.py --url http://localhost:8080

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy
from jax.flatten_util import ravel_pytree
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from epsilond import Client

HIDDEN = 32


# ---------------------------------------------------------------- the model

def initial_parameters() -> dict[str, Any]:
    """Independent of the data, so any seed is allowed."""
    first, second = jax.random.split(jax.random.key(1))
    return {"w1": jax.random.normal(first, (64, HIDDEN)) / 8, "b1": jnp.zeros(HIDDEN),
            "w2": jax.random.normal(second, (HIDDEN, 10)) / HIDDEN ** 0.5, "b2": jnp.zeros(10)}


def logits(parameters: dict[str, Any], images: Any) -> Any:
    hidden = jnp.tanh(images @ parameters["w1"] + parameters["b1"])
    return hidden @ parameters["w2"] + parameters["b2"]


def loss(parameters: dict[str, Any], image: Any, label: Any) -> Any:
    return -jax.nn.log_softmax(logits(parameters, image))[label]


@jax.jit
def clipped_sum(parameters: dict[str, Any], images: Any, labels: Any, taken: Any, clip: float) -> Any:
    """The sum of the gradients of the examples taken, each clipped to the norm `clip`."""
    gradients = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(parameters, images, labels)
    rows = jax.vmap(lambda tree: ravel_pytree(tree)[0])(gradients)
    norms = jnp.linalg.norm(rows, axis=1)
    return (taken * jnp.minimum(1, clip / jnp.maximum(norms, 1e-12))) @ rows


# ---------------------------------------------------------------- the run

def main() -> None:
    arguments = argparse.ArgumentParser(description="Differentially private training with noise from epsilond")
    arguments.add_argument("--url", default="http://localhost:8080")
    arguments.add_argument("--epsilon", type=float, default=4.0)
    arguments.add_argument("--delta", type=float, default=1e-4)
    arguments.add_argument("--steps", type=int, default=400)
    arguments.add_argument("--bands", type=int, default=8)
    arguments.add_argument("--batch-size", type=int, default=96)
    arguments.add_argument("--learning-rate", type=float, default=1.0)
    arguments.add_argument("--clip", type=float, default=1.0)
    options = arguments.parse_args()

    digits = load_digits()
    images, test_images, labels, test_labels = train_test_split(digits.data / 16, digits.target, test_size=0.2,
                                                                random_state=0)

    client = Client(options.url)
    job = client.solve({"n": options.steps, "matrix": {"family": "banded", "bands": options.bands},
                        "sampling": {"scheme": "b_min_sep", "separation": options.bands,
                                     "batch_size": options.batch_size,
                                     "dataset_size": len(images)},
                        "epsilon": options.epsilon, "delta": options.delta, "label": "digits"})
    result = job["result"]
    print(f"noise multiplier {result['noise_multiplier']:.4f}, p = {result['sampling']['p']:.4f}, "
          f"accountant {result['accountant']}")

    flat, restore = ravel_pytree(initial_parameters())
    batches = client.batches(job=job)
    noise = client.noise(job, dimensions=len(flat))  # for a clip norm of 1
    for batch, row in zip(batches, noise):
        taken = numpy.zeros(len(images))
        taken[batch["indices"]] = 1
        total = clipped_sum(restore(flat), images, labels, taken, options.clip) + options.clip * row
        flat -= options.learning_rate * total / options.batch_size  # the expected batch size, because the actual one is
                                                                    # not public
    right = jnp.argmax(logits(restore(flat), test_images), axis=1) == test_labels
    print(f"accuracy {float(right.mean()):.4f} on {len(test_labels)} held-out images\n")
    print(client.statement(job))


if __name__ == "__main__":
    main()
