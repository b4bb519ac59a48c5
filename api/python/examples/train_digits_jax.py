"""
Trains a small convolutional network on the digits of scikit-learn with differential privacy, in JAX and optax. It

1. asks the service how much noise a banded mechanism needs under b-min-sep sampling, and keeps the answer in the folder
   of the run. From then on it does not need the service;
2. forms the batches itself, pads them, because their sizes vary, and clips the gradient of each example;
3. has optax add the noise to the sum of the clipped gradients, as the first part of its chain;
4. survives kill -9: it records each step in a journal, writes a checkpoint every few steps, and goes on from the last
   one when it is started again;
5. prints the accuracy and the privacy statement of the run; with --compare, the accuracy of DP-SGD at the same epsilon,
   which is a second run that the statement does not cover.

    pip install ./api/python[jax] optax scikit-learn
    epsilond serve &
    python api/python/examples/train_digits_jax.py --run digits-jax

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy
import optax

import runs
from epsilond.optax import correlated_noise, scale_by_adam_corrected
from epsilond.training import Batches, Mechanism, load_key

FILTERS = 16
PADDING = 64  # batches are padded to a multiple of this, so that few sizes are compiled


# ---------------------------------------------------------------- the model

def initial_parameters() -> dict[str, Any]:
    """Independent of the data, so any seed is allowed."""
    first, second = jax.random.split(jax.random.key(1))
    inside = 9 * FILTERS  # a filter at 3 by 3 places
    return {"filters": jax.random.normal(first, (4, 4, 1, FILTERS)) / 4, "b1": jnp.zeros(FILTERS),
            "w": jax.random.normal(second, (inside, 10)) / inside**0.5, "b2": jnp.zeros(10)}


def scores_of(parameters: dict[str, Any], image: Any) -> Any:
    """Of the ten digits, for an image of 8 by 8 pixels."""
    seen = jax.lax.conv_general_dilated(image.reshape(1, 8, 8, 1), parameters["filters"], window_strides=(2, 2),
                                        padding="VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jnp.tanh(seen + parameters["b1"]).reshape(-1) @ parameters["w"] + parameters["b2"]


def loss(parameters: dict[str, Any], image: Any, label: Any) -> Any:
    return optax.losses.softmax_cross_entropy_with_integer_labels(scores_of(parameters, image), label)


def clipped_sum(parameters: dict[str, Any], images: Any, labels: Any, mask: Any, clip: float) -> dict[str, Any]:
    """The sum of the gradients of the examples that are not masked, each clipped to the norm `clip`. An example whose
    gradient is not finite counts nothing: otherwise it would be seen in the sum."""
    gradients = jax.vmap(jax.grad(loss), (None, 0, 0))(parameters, images, labels)
    norms = jax.vmap(optax.tree.norm)(gradients)
    shares = jnp.where(mask & jnp.isfinite(norms), jnp.minimum(1, clip / jnp.maximum(norms, 1e-12)), 0)

    def summed(part: Any) -> Any:
        share = shares.reshape(-1, *[1] * (part.ndim - 1))
        return jnp.where(share > 0, share * part, 0).sum(axis=0)

    return jax.tree.map(summed, gradients)


def padded(images: Any, labels: Any, indices: Any) -> tuple[Any, Any, Any]:
    """The images and labels of a batch, and which of them are not padding."""
    count = len(indices)
    size = max(1, -(-count // PADDING)) * PADDING
    taken = numpy.zeros(size, dtype=numpy.int64)
    taken[:count] = indices
    return images[taken], labels[taken], numpy.arange(size) < count


# ---------------------------------------------------------------- the run and its folder

def optimizer_of(mechanism: Mechanism, key: bytes, options: argparse.Namespace) -> optax.GradientTransformation:
    """The noise comes first. Its sum is divided by the expected batch size, because the actual one is not public."""
    scales: dict[str, Any] = {"clip_norm": options.clip,
                              "expected_batch_size": mechanism.sampling["expected_batch_size"]}
    rate = options.learning_rate or {"sgd": 0.5, "adam": 0.02}[options.optimizer]
    then = (optax.sgd(rate) if options.optimizer == "sgd" else
            optax.chain(scale_by_adam_corrected(mechanism, **scales), optax.scale_by_learning_rate(rate)))
    return optax.chain(correlated_noise(mechanism, key, **scales), then)


class Run:
    """What changes from step to step: the parameters, the state of the optimizer, that of the noise first, and the
    batches."""

    def __init__(self, folder: Path, mechanism: Mechanism, options: argparse.Namespace, examples: int) -> None:
        key = load_key(folder / "key")
        self.path, self.options = folder / "checkpoint.npz", options
        self.parameters = initial_parameters()
        self.batches: Batches = mechanism.batches(examples, key)
        self.noise = mechanism.noise(self.parameters, key, clip_norm=options.clip, journal=folder / "journal")
        self.optimizer = optimizer_of(mechanism, key, options)
        self.state = self.optimizer.init(self.parameters)

    def save(self) -> None:
        """Without the key, and as secret as the noise nevertheless."""
        noise = self.noise.state_dict(self.state[0])
        arrays = {f"row{i}": rows for i, rows in enumerate(noise.pop("rows"))}
        arrays |= {f"leaf{i}": leaf for i, leaf in enumerate(jax.tree.leaves((self.parameters, self.state[1])))}
        told = json.dumps({"noise": noise, "batches": self.batches.state_dict()})
        runs.put(self.path, lambda file: numpy.savez(file, told=numpy.array(told), **arrays))

    def resume(self) -> None:
        """
        Goes on after the last checkpoint. Steps that were drawn since then are lost. Either they are repeated, on the
        CPU of the same machine, where the same program computes the same sums from the same parameters and batches, bit
        for bit, so that adding the same noise again reveals nothing; or they are skipped, which is right anywhere.
        """
        with numpy.load(self.path) as saved:
            told = json.loads(str(saved["told"]))
            rows = [saved[f"row{i}"] for i in range(len(jax.tree.leaves(self.parameters)))]
            structure = jax.tree.structure((self.parameters, self.state[1]))
            leaves = [jnp.asarray(saved[f"leaf{i}"]) for i in range(structure.num_leaves)]
        self.parameters, after = jax.tree.unflatten(structure, leaves)
        self.state = (self.noise.load_state_dict({**told["noise"], "rows": rows}, allow_replay=True), after)
        if self.options.lost_steps == "skip":
            self.skip(self.noise.released)
        self.batches.load_state_dict({**told["batches"], "next_step": int(self.state[0]["step"])})
        if self.options.lost_steps == "skip":
            self.save()

    def skip(self, steps: int) -> None:
        """To the state after so many steps. A checkpoint must follow: from an older one, later steps could not be
        repeated with the same sums."""
        noise, after = self.state
        if self.options.optimizer == "adam":
            after = (after[0]._replace(step=jnp.asarray(steps, dtype=jnp.int32)), *after[1:])
        self.state = (self.noise.advance(noise, steps), after)


def train(folder: Path, mechanism: Mechanism, options: argparse.Namespace, images: Any, labels: Any) -> dict[str, Any]:
    run = Run(folder, mechanism, options, len(images))
    if run.path.exists():
        run.resume()
        steps = int(run.state[0]["step"])
        print(f"resumed after {steps} steps, which cost an epsilon of {mechanism.spent(run.noise.released):.4f}",
              flush=True)
    else:
        run.save()

    @jax.jit
    def step(parameters: Any, state: Any, images: Any, labels: Any, mask: Any) -> tuple[Any, Any]:
        total = clipped_sum(parameters, images, labels, mask, options.clip)
        updates, state = run.optimizer.update(total, state, parameters)
        return optax.apply_updates(parameters, updates), state

    for indices in run.batches:
        run.parameters, run.state = step(run.parameters, run.state, *padded(images, labels, indices))
        run.noise.record(run.state[0])  # before anything that came of the step is kept or seen
        if (run.batches.step + 1) % options.checkpoint_every == 0 or len(run.batches) == 0:
            run.save()
            print(f"checkpoint after {run.batches.step + 1} steps", flush=True)
    return run.parameters


def accuracy_of(folder: Path, options: argparse.Namespace, data: tuple[Any, Any, Any, Any]) -> tuple[float, str]:
    """Of a run, new or resumed; and its statement."""
    images, labels, test_images, test_labels = data
    lasting = {name: value for name, value in vars(options).items() if name != "lost_steps"}
    lasting["device"] = f"{jax.devices()[0].device_kind} of JAX {jax.__version__}"  # others add in another order
    mechanism = runs.open_run(folder, argparse.Namespace(**lasting), images, labels)
    print(f"{options.bands} bands: noise multiplier {mechanism.noise_multiplier:.4f}, "
          f"p = {mechanism.sampling['p']:.4f}", flush=True)
    parameters = train(folder, mechanism, options, images, labels)
    scores = jax.vmap(scores_of, (None, 0))(parameters, test_images)
    return float((scores.argmax(axis=1) == test_labels).mean()), str(mechanism.statement)


def data_of(path: Path | None) -> tuple[Any, Any, Any, Any]:
    """Images and labels to train on, and to test."""
    images, labels, test_images, test_labels = runs.digits(path)
    return images.astype("f4"), labels.astype("i4"), test_images.astype("f4"), test_labels


def main() -> None:
    arguments = runs.parser("Differentially private training in JAX and optax")
    arguments.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd",
                           help="adam: with the noise's variance subtracted from its second moment")
    arguments.set_defaults(learning_rate=None)  # 0.5 for sgd and 0.02 for adam
    arguments.add_argument("--lost-steps", choices=("repeat", "skip"),
                           default="repeat" if jax.default_backend() == "cpu" else "skip",
                           help="what becomes of steps that were drawn after the last checkpoint of a killed run")
    arguments.add_argument("--compare", action="store_true", help="train by DP-SGD as well, at the same epsilon")
    options = arguments.parse_args()
    if options.lost_steps == "repeat" and jax.default_backend() != "cpu":
        raise SystemExit("steps may be repeated only on the CPU, where their sums are the same bit for bit")

    data = data_of(options.data)
    accuracy, statement = accuracy_of(options.run, options, data)
    if options.compare:
        dp_sgd, _ = accuracy_of(options.run / "dp-sgd", argparse.Namespace(**{**vars(options), "bands": 1}), data)
        print(f"accuracy {dp_sgd:.4f} by DP-SGD with epsilon = {options.epsilon:g}")
    print(f"accuracy {accuracy:.4f} on {len(data[3])} held-out images\n")
    print(statement)


if __name__ == "__main__":
    main()
