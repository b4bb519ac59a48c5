"""
opake (PyTorch) with a mechanism of epsilond: opake sums the clipped gradients of a small network on the digits of
scikit-learn; the strategy, the noise multiplier and the batches are those of a job, whose statement is the guarantee.
The noise is drawn by epsilond.training, or, with --drawn-by opake, by opake.

    pip install ./api/python[torch] 'opake[dpftrl]' scikit-learn
    epsilond serve &
    python api/python/examples/noise_with_opake.py

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import argparse
from typing import Any, Callable

import torch
from opake import random
from opake.dpftrl.clipping import clipped_grad
from opake.dpftrl.noise import mf_gaussian_noise
from runs import digits

from epsilond import Client
from epsilond.opake import add_noise, noise_arguments
from epsilond.training import Mechanism

HIDDEN = 32


def initial_parameters() -> dict[str, Any]:
    """Independent of the data, so any seed is allowed."""
    draw = torch.Generator().manual_seed(1)
    return {"w1": torch.randn(64, HIDDEN, generator=draw) / 8, "b1": torch.zeros(HIDDEN),
            "w2": torch.randn(HIDDEN, 10, generator=draw) / HIDDEN**0.5, "b2": torch.zeros(10)}


def scores_of(parameters: dict[str, Any], images: Any) -> Any:
    return torch.tanh(images @ parameters["w1"] + parameters["b1"]) @ parameters["w2"] + parameters["b2"]


def loss(parameters: dict[str, Any], image: Any, label: Any) -> Any:
    return torch.nn.functional.cross_entropy(scores_of(parameters, image), label)


def noise_of(mechanism: Mechanism, parameters: dict[str, Any], clip: float, drawn_by: str) -> Callable[[Any], Any]:
    """Adds the noise of the next step to clipped gradients."""
    if drawn_by == "epsilond":
        noise = mechanism.noise(parameters, clip_norm=clip)  # a run that is resumed has a key and a journal: see README
        return lambda clipped: add_noise(clipped, noise)
    add, state = mf_gaussian_noise(parameters, **noise_arguments(mechanism), key=random.random_key())

    def added(clipped: Any) -> Any:
        nonlocal state
        noisy, state = add(clipped, state)
        return noisy

    return added


def train(mechanism: Mechanism, images: Any, labels: Any, options: argparse.Namespace) -> dict[str, Any]:
    clip, size = 1.0, mechanism.sampling["expected_batch_size"]
    parameters = initial_parameters()
    sums, clipping = clipped_grad(loss, clipping_norm=clip, batch_argnums=(1, 2))
    noisy_sum = noise_of(mechanism, parameters, clip, options.drawn_by)
    for indices in mechanism.batches(len(images)):
        clipped, clipping = sums(parameters, images[indices], labels[indices], state=clipping)
        total = noisy_sum(clipped).pytree
        parameters = {name: part - options.learning_rate / size * total[name] for name, part in parameters.items()}
    return parameters


def main() -> None:
    arguments = argparse.ArgumentParser(description="opake with a mechanism of epsilond")
    arguments.add_argument("--url", default="http://localhost:8080")
    arguments.add_argument("--data", help="a .npz file, as for train_digits_local.py")
    arguments.add_argument("--drawn-by", choices=("epsilond", "opake"), default="epsilond")
    arguments.add_argument("--steps", type=int, default=400)
    arguments.add_argument("--bands", type=int, default=8)
    arguments.add_argument("--learning-rate", type=float, default=0.5)
    options = arguments.parse_args()

    images, labels, test_images, test_labels = (
        torch.as_tensor(part, dtype=torch.float32 if part.ndim == 2 else torch.int64) for part in digits(options.data))
    client = Client(options.url)
    mechanism = client.mechanism(client.solve(
        {"n": options.steps, "matrix": {"family": "banded", "bands": options.bands}, "epsilon": 4, "delta": 1e-4,
         "sampling": {"scheme": "b_min_sep", "separation": options.bands, "batch_size": 96,
                      "dataset_size": len(images)}, "label": "digits with opake"}))
    parameters = train(mechanism, images, labels, options)
    right = (scores_of(parameters, test_images).argmax(dim=1) == test_labels).float().mean()
    print(f"accuracy {float(right):.4f} on {len(test_labels)} held-out images\n")
    print(mechanism.statement)


if __name__ == "__main__":
    main()
