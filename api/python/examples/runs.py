"""
What the trainings on the digits share: the options, the data, and the folder of a run, which has the mechanism, the key
and whatever else a run must find again when it is started again.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import argparse
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy

from epsilond import Client
from epsilond.training import Mechanism

# These may differ when a run is started again; all others decide about its results.
MAY_DIFFER = ("run", "url", "data", "checkpoint_every", "compare")


def parser(description: str) -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument("--run", type=Path, required=True, help="folder of the run, which is resumed if it exists")
    arguments.add_argument("--url", default="http://localhost:8080")
    arguments.add_argument("--data", type=Path, help="a .npz file with images of 64 pixels in [0, 1], labels, "
                                                     "test_images and test_labels, in place of scikit-learn's digits")
    arguments.add_argument("--epsilon", type=float, default=4.0)
    arguments.add_argument("--delta", type=float, default=1e-4)
    arguments.add_argument("--steps", type=int, default=400)
    arguments.add_argument("--bands", type=int, default=8, help="of the matrix, at most with --plan; 1 is DP-SGD")
    arguments.add_argument("--plan", action="store_true", help="train with the best of the mechanisms that the service "
                                                               "ranks, in place of banded under b_min_sep")
    arguments.add_argument("--batch-size", type=int, default=96)
    arguments.add_argument("--learning-rate", type=float, default=1.0)
    arguments.add_argument("--clip", type=float, default=1.0)
    arguments.add_argument("--checkpoint-every", type=int, default=20)
    return arguments


def digits(path: Path | None) -> tuple[Any, Any, Any, Any]:
    """Images and labels to train on, and to test."""
    if path:
        with numpy.load(path) as file:
            return tuple(file[name] for name in ("images", "labels", "test_images", "test_labels"))
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    data = load_digits()
    images, test_images, labels, test_labels = train_test_split(data.data / 16, data.target, test_size=0.2,
                                                                random_state=0)
    return images, labels, test_images, test_labels


def put(path: Path, write: Any) -> None:
    """Replaces a file as a whole: after a crash it is the old one or the new one."""
    part = path.with_name(path.name + ".part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # a checkpoint is as secret as the noise
    with os.fdopen(descriptor, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def open_run(run: Path, options: argparse.Namespace, images: Any, labels: Any) -> Mechanism:
    """
    The mechanism of a run, which is that of its first options and data; of a new run, the one that the service accounts
    for.
    """
    run.mkdir(mode=0o700, exist_ok=True)
    check_options(run, options, images, labels)
    path = run / "mechanism.json"
    if not path.exists():
        client = Client(options.url)
        job = client.solve({**(planned if options.plan else banded)(client, options, len(images)), "label": "digits"})
        fresh = run / "mechanism.json.new"
        client.mechanism(job).save(fresh)
        put(path, lambda file: file.write(fresh.read_bytes()))
        fresh.unlink()
    return Mechanism.load(path)


def banded(client: Client, options: argparse.Namespace, examples: int) -> dict[str, Any]:
    return {"n": options.steps, "matrix": {"family": "banded", "bands": options.bands},
            "sampling": {"scheme": "b_min_sep", "separation": options.bands, "batch_size": options.batch_size,
                         "dataset_size": examples},
            "epsilon": options.epsilon, "delta": options.delta}


def planned(client: Client, options: argparse.Namespace, examples: int) -> dict[str, Any]:
    """The job of the mechanism with the least error, of those that this loop can train with."""
    plan = client.wait(client.plan({
        "n": options.steps, "batch_size": options.batch_size, "dataset_size": examples, "epsilon": options.epsilon,
        "delta": options.delta, "max_bands": options.bands, "families": ["identity", "square_root", "banded"],
        "schemes": ["poisson", "cyclic_poisson", "b_min_sep"]}))
    best: dict[str, Any] = plan["candidates"][0]
    print(f"planned: {best['family']} under {best['scheme']}, with a gain of {best['gain']:.2f} over DP-SGD",
          flush=True)
    return dict(best["job"])


def check_options(run: Path, options: argparse.Namespace, images: Any, labels: Any) -> None:
    path = run / "options.json"
    told = {name: value for name, value in vars(options).items() if name not in MAY_DIFFER}
    told["data"] = hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()
    if not path.exists():
        put(path, lambda file: file.write(json.dumps(told).encode()))
    first = json.loads(path.read_text())
    differ = [name for name in told if first.get(name) != told[name]]
    if differ:
        raise SystemExit(f"{run} is a run with another {' and '.join(differ)}: give the same again, or another --run")
