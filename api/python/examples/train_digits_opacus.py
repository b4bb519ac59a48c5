"""
Trains a small convolutional network on the digits of scikit-learn with Opacus, which clips the gradients, and with the
batches and the noise of a banded mechanism, for which the service accounts. It writes a checkpoint every few steps by
Opacus's save_checkpoint(), and goes on from the last one when it is started again after a crash.

    pip install ./api/python[torch] opacus==1.6.* scikit-learn
    epsilond serve &
    python api/python/examples/train_digits_opacus.py --run opacus-run

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

import runs
from epsilond.opacus import attach
from epsilond.training import Mechanism, load_key

warnings.filterwarnings("ignore", "Secure RNG")  # of the noise of Opacus, which is not used
warnings.filterwarnings("ignore", "Full backward hook")


def network() -> torch.nn.Module:
    """Independent of the data, so any seed is allowed."""
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Conv2d(1, 16, 3), torch.nn.Tanh(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
                               torch.nn.Linear(144, 10))


def as_dataset(images: Any, labels: Any) -> TensorDataset:
    return TensorDataset(torch.as_tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8),
                         torch.as_tensor(labels).long())


def train(run: Path, mechanism: Mechanism, options: argparse.Namespace, data: TensorDataset) -> torch.nn.Module:
    model, path = network(), run / "checkpoint.pt"
    engine = attach(PrivacyEngine(), mechanism, load_key(run / "key"), journal=run / "journal",
                    lost_steps=options.lost_steps)
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=options.learning_rate),
        data_loader=DataLoader(data), max_grad_norm=options.clip)
    noise = optimizer.noise

    def save() -> None:
        runs.put(path, lambda file: engine.save_checkpoint(path=file, module=model, optimizer=optimizer))

    if path.exists():
        engine.load_checkpoint(path=path, module=model, optimizer=optimizer)
        print(f"resumed at step {noise.steps}, which cost an epsilon of {engine.get_epsilon(options.delta):.4f}",
              flush=True)
    else:
        save()  # from here on, steps are drawn
    for images, labels in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        if noise.steps % options.checkpoint_every == 0 or len(loader) == 0:
            save()
            print(f"checkpoint after {noise.steps} steps", flush=True)
    return model


def main() -> None:
    arguments = runs.parser("Differentially private training with Opacus")
    arguments.add_argument("--lost-steps", choices=("skip", "repeat"), default="skip",
                           help="what becomes of steps that were drawn after the last checkpoint; repeat requires sums "
                                "that are the same to the last bit: the same machine and library")
    arguments.set_defaults(epsilon=8.0)
    options = arguments.parse_args()
    torch.use_deterministic_algorithms(True)
    if options.lost_steps == "repeat":  # the order of sums depends on these
        options.torch = f"{torch.__version__} with {torch.get_num_threads()} threads"

    images, labels, *test = runs.digits(options.data)
    mechanism = runs.open_run(options.run, options, images, labels)
    print(f"{options.bands} bands, noise multiplier {mechanism.noise_multiplier:.4f}", flush=True)
    model = train(options.run, mechanism, options, as_dataset(images, labels))
    images, labels = as_dataset(*test).tensors
    with torch.no_grad():
        right = model(images).argmax(1) == labels
    print(f"accuracy {right.float().mean().item():.4f} on {len(labels)} held-out images\n")
    print(mechanism.statement)


if __name__ == "__main__":
    main()
