"""
Trains a small convolutional network on the digits of scikit-learn in PyTorch with differential privacy, without another
library for it. It

1. asks the service how much noise a banded mechanism needs under b-min-sep sampling, and keeps the answer in the folder
   of the run;
2. computes the gradient of each example by torch.func, clips it, and adds the mechanism's noise to the sum;
3. takes a step of SGD, or of Adam, which subtracts the variance of the noise from its second moment;
4. writes a checkpoint every few steps, and goes on from the last one when it is started again after a crash;
5. prints the accuracy and the privacy statement, with --compare beside DP-SGD at the same epsilon.

    pip install ./api/python[torch] scikit-learn
    epsilond serve &
    python api/python/examples/train_digits_torch.py --run torch-run

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from torch.func import functional_call, grad, vmap

import runs
from epsilond.training import Mechanism, load_key


# ---------------------------------------------------------------- the model

def network() -> torch.nn.Module:
    """Independent of the data, so any seed is allowed."""
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Conv2d(1, 16, 3), torch.nn.Tanh(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
                               torch.nn.Linear(144, 10))


def as_tensors(images: Any, labels: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.as_tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8), torch.as_tensor(labels).long()


def clipped_sums(model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor, clip: float) -> list[torch.Tensor]:
    """The sum of the gradients of the examples, each clipped to the norm `clip`, for each parameter."""
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    if len(labels) == 0:  # which vmap does not take
        return [torch.zeros_like(parameter) for parameter in parameters.values()]

    def loss(parameters: dict[str, torch.Tensor], image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        scores = functional_call(model, parameters, (image[None],))
        return torch.nn.functional.cross_entropy(scores, label[None])

    gradients = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, images, labels)
    squares = sum(gradient.flatten(1).square().sum(1) for gradient in gradients.values())
    shares = (clip / squares.sqrt().clamp(min=1e-12)).clamp(max=1)
    return [torch.tensordot(shares, gradient, dims=1) for gradient in gradients.values()]


class CorrectedAdam(torch.optim.Optimizer):
    """
    Adam whose second moment is that of the gradient without the noise, as in DP-AdamBC (Tang et al., 2023): an average
    of the noise's variance, with the weights of the average of squares, is subtracted. The floor keeps steps bounded
    where the difference is within the error of the estimate.
    """

    def __init__(self, parameters: Any, lr: float, betas: tuple[float, float] = (0.9, 0.999),
                 floor: float = 1e-3) -> None:
        super().__init__(parameters, {"lr": lr, "betas": betas, "floor": floor, "steps": 0, "variance": 0.0})

    @torch.no_grad()
    def step(self, stddev: float) -> None:  # type: ignore[override]
        """stddev: of the noise in a coordinate of the gradient of this step."""
        for group in self.param_groups:
            first, second = group["betas"]
            group["steps"] += 1
            group["variance"] += (1 - second) * (stddev ** 2 - group["variance"])
            for parameter in group["params"]:
                state = self.state[parameter]
                for name, new, beta in (("mean", parameter.grad, first), ("square", parameter.grad.square(), second)):
                    state[name] = torch.lerp(new, state.get(name, torch.zeros_like(new)), beta)
                square = (state["square"] - group["variance"]) / (1 - second ** group["steps"])
                mean = state["mean"] / (1 - first ** group["steps"])
                parameter -= group["lr"] * mean / square.clamp(min=group["floor"]).sqrt()


# ---------------------------------------------------------------- the run

def train(run: Path, mechanism: Mechanism, options: argparse.Namespace, data: tuple[Any, Any]) -> torch.nn.Module:
    images, labels = as_tensors(*data)
    model, key, path = network(), load_key(run / "key"), run / "checkpoint.pt"
    adam = options.optimizer == "adam"
    optimizer: Any = (CorrectedAdam if adam else torch.optim.SGD)(model.parameters(), lr=options.learning_rate)
    batches = mechanism.batches(len(images), key)
    noise = mechanism.noise(model, key, clip_norm=options.clip, journal=run / "journal")
    size = mechanism.sampling["expected_batch_size"]  # the actual one is not public

    def save() -> None:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "noise": noise.state_dict(),
                 "batches": batches.state_dict()}
        runs.put(path, lambda file: torch.save(state, file))

    def resume() -> None:
        """
        Goes on after the last checkpoint. Steps since then may have been drawn already. Their noise must not be added
        to other sums, and so they are left out, which costs no privacy; or repeated, with sums that must be the same to
        the last bit.
        """
        state = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        noise.load_state_dict(state["noise"], allow_replay=True)
        if options.lost_steps == "skip":
            noise.advance(noise.released)
        batches.load_state_dict({**state["batches"], "next_step": noise.steps})
        print(f"resumed at step {noise.steps}, which cost an epsilon of {mechanism.spent(noise.released):.4f}",
              flush=True)

    if path.exists():
        resume()
    else:
        save()  # from here on, steps are drawn
    for indices in batches:
        sums = clipped_sums(model, images[indices], labels[indices], options.clip)
        stddev = noise.stddev(noise.steps) / size
        for parameter, total, x in zip(model.parameters(), sums, noise.step()):
            parameter.grad = (total + x) / size
        optimizer.step(*[stddev] if adam else [])
        if noise.steps % options.checkpoint_every == 0 or len(batches) == 0:
            save()
            print(f"checkpoint after {noise.steps} steps", flush=True)
    return model


def accuracy(model: torch.nn.Module, images: Any, labels: Any) -> float:
    images, labels = as_tensors(images, labels)
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


def main() -> None:
    arguments = runs.parser("Differentially private training in PyTorch")
    arguments.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd")
    arguments.add_argument("--lost-steps", choices=("skip", "repeat"), default="skip",
                           help="what becomes of steps that were drawn after the last checkpoint; repeat requires sums "
                                "that are the same to the last bit: the same machine and library")
    arguments.set_defaults(epsilon=8.0)
    arguments.add_argument("--compare", action="store_true", help="train DP-SGD too, in a folder in that of the run")
    options = arguments.parse_args()
    torch.use_deterministic_algorithms(True)
    if options.lost_steps == "repeat":  # the order of sums depends on these
        options.torch = f"{torch.__version__} with {torch.get_num_threads()} threads"

    images, labels, *test = runs.digits(options.data)
    statement = None
    for run, bands in [(options.run, options.bands), (options.run / "dp-sgd", 1)][:1 + options.compare]:
        mechanism = runs.open_run(run, argparse.Namespace(**{**vars(options), "bands": bands}), images, labels)
        print(f"{bands} bands, noise multiplier {mechanism.noise_multiplier:.4f}", flush=True)
        model = train(run, mechanism, options, (images, labels))
        print(f"accuracy {accuracy(model, *test):.4f} on {len(test[1])} held-out images\n", flush=True)
        statement = statement or mechanism.statement
    print(statement)


if __name__ == "__main__":
    main()
