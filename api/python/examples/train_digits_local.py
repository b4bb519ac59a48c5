"""
Trains a small network on the digits of scikit-learn with differential privacy, and survives kill -9: a run that is
started again gives the same network, bit for bit. It

1. asks the service how much noise a banded mechanism needs under b-min-sep sampling, and keeps the answer in the folder
   of the run. From then on it does not need the service;
2. forms the batches and draws the noise itself, from one secret key, and adds the noise to the sum of the clipped
   gradients;
3. writes a checkpoint every few steps, and goes on from the last one when it is started again;
4. prints the accuracy and the privacy statement of the run.

NumPy computes the network, to show every step; no part is particular to it. The folder of the run is in runs.py.

    pip install ./api/python numpy scikit-learn
    epsilond serve &
    python api/python/examples/train_digits_local.py --run digits-run

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy

import runs
from epsilond.training import Batches, Mechanism, Noise, load_key

HIDDEN = 32


# ---------------------------------------------------------------- the model

def initial_parameters() -> dict[str, Any]:
    """Independent of the data, so any seed is allowed."""
    draw = numpy.random.Generator(numpy.random.Philox(1))
    return {"w1": draw.normal(size=(64, HIDDEN)) / 8, "b1": numpy.zeros(HIDDEN),
            "w2": draw.normal(size=(HIDDEN, 10)) / HIDDEN ** 0.5, "b2": numpy.zeros(10)}


def forward(parameters: dict[str, Any], images: Any) -> tuple[Any, Any]:
    hidden = numpy.tanh(images @ parameters["w1"] + parameters["b1"])
    return hidden, hidden @ parameters["w2"] + parameters["b2"]


def clipped_sum(parameters: dict[str, Any], images: Any, labels: Any, clip: float) -> dict[str, Any]:
    """
    The sum of the gradients of the examples, each clipped to the norm `clip`. The gradient of a weight is the outer
    product of the layer's input and the derivative by its output, so its norm is the product of theirs.
    """
    hidden, scores = forward(parameters, images)
    scores = numpy.exp(scores - scores.max(axis=1, keepdims=True, initial=-numpy.inf))
    by_output = scores / scores.sum(axis=1, keepdims=True)
    by_output[numpy.arange(len(labels)), labels] -= 1
    by_hidden = (by_output @ parameters["w2"].T) * (1 - hidden ** 2)
    squares = sum((1 + (layer ** 2).sum(axis=1)) * (by ** 2).sum(axis=1)
                  for layer, by in ((images, by_hidden), (hidden, by_output)))
    share = numpy.minimum(1, clip / numpy.maximum(numpy.sqrt(squares), 1e-12))[:, None]
    by_hidden, by_output = share * by_hidden, share * by_output
    return {"w1": images.T @ by_hidden, "b1": by_hidden.sum(axis=0),
            "w2": hidden.T @ by_output, "b2": by_output.sum(axis=0)}


# ---------------------------------------------------------------- the run

def save(path: Path, parameters: dict[str, Any], noise: Noise, batches: Batches) -> None:
    state = noise.state_dict()
    rows = {f"row{i}": row for i, row in enumerate(state.pop("rows"))}
    told = json.dumps({"noise": state, "batches": batches.state_dict()})
    runs.put(path, lambda file: numpy.savez(file, told=numpy.array(told), **parameters, **rows))


def resume(path: Path, parameters: dict[str, Any], noise: Noise, batches: Batches) -> None:
    """
    Goes on after the last checkpoint. Steps since then may have been drawn already, and are repeated here with the same
    parameters and batches: their sums are the same to the last bit, and so nothing is revealed by adding the same noise
    again. This is what allow_replay may be used for. It needs the same program, data and options, and gradients that
    are summed in the same order; a trainer that cannot promise this calls noise.advance() in its place.
    """
    with numpy.load(path) as saved:
        told = json.loads(str(saved["told"]))
        for name in parameters:
            parameters[name] = saved[name]
        rows = [saved[f"row{i}"] for i in range(len(parameters))]
    noise.load_state_dict({**told["noise"], "rows": rows}, allow_replay=True)
    batches.load_state_dict(told["batches"])


def train(run: Path, mechanism: Mechanism, options: argparse.Namespace, images: Any, labels: Any) -> dict[str, Any]:
    parameters, key, path = initial_parameters(), load_key(run / "key"), run / "checkpoint.npz"
    batches = mechanism.batches(len(images), key)
    noise = mechanism.noise(parameters, key, clip_norm=options.clip, journal=run / "journal")
    if path.exists():
        resume(path, parameters, noise, batches)
        print(f"resumed after {noise.steps} steps, which cost an epsilon of {mechanism.spent(noise.steps):.4f}",
              flush=True)
    else:
        save(path, parameters, noise, batches)  # from here on, steps are drawn
    for indices in batches:
        total = clipped_sum(parameters, images[indices], labels[indices], options.clip)
        drawn = noise.step()
        for name in parameters:  # divided by the expected batch size, because the actual one is not public
            parameters[name] = parameters[name] - (options.learning_rate / mechanism.sampling["expected_batch_size"]
                                                   * (total[name] + drawn[name]))
        if noise.steps % options.checkpoint_every == 0 or len(batches) == 0:
            save(path, parameters, noise, batches)
            print(f"checkpoint after {noise.steps} steps", flush=True)
    return parameters


def main() -> None:
    options = runs.parser("Differentially private training that can be killed and resumed").parse_args()
    images, labels, test_images, test_labels = runs.digits(options.data)
    mechanism = runs.open_run(options.run, options, images, labels)
    print(f"noise multiplier {mechanism.noise_multiplier:.4f}, p = {mechanism.sampling['p']:.4f}", flush=True)
    parameters = train(options.run, mechanism, options, images, labels)
    right = forward(parameters, test_images)[1].argmax(axis=1) == test_labels
    print(f"accuracy {right.mean():.4f} on {len(test_labels)} held-out images\n")
    print(mechanism.statement)


if __name__ == "__main__":
    main()
