"""
A mechanism for opake 0.16 (PyTorch), in two ways.

    noised = add_noise(clipped, noise)  # noise = mechanism.noise(params, key, clip_norm=1.0, journal="run.journal")

adds the noise that epsilond.training draws to what opake clipped, and tells opake's optimizers its standard deviation.

    noise, state = mf_gaussian_noise(params, **noise_arguments(mechanism), key=key)

has opake draw the noise, with the strategy that was accounted. opake's own recipes (BandMF, BSR, BISR, BLT) find their
coefficients by themselves; theirs are not those of the job, which is why the strategy here is not one of them.

Normalisations. opake adds max_norm * noise_multiplier * (C^-1 z)_t, where max_norm comes with the clipped gradients:
clipping_norm / normalize_by of opake's clipped_grad(). The noise multiplier is that of the job for this very C,
whatever the norms of its columns: it is multiplied and divided by nothing. With one max_norm for each group of
parameters (PerGroup), opake gives group i the factor sqrt(max_norm_i * their sum) in place of max_norm. An example's
gradient, each group over its factor, then has norm 1 at most, so the noise multiplier is the same.

Keys. opake draws each step with a torch.Generator on the CPU, which takes 32 bits of its seed. So the noise of a step
is one of 2^32, whatever the key, and whoever knows some coordinates of it, such as those of a parameter without a
gradient, finds the others by trying. Where somebody may try, use add_noise(), whose key has 128 bits.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

from typing import Any, NoReturn

import torch
from opake.dpftrl.noise import identity_strategy
from opake.pytree import tree_flatten, tree_map, tree_unflatten
from opake.types import ClippedPytree, NoisedPytree, PerGroup, noised

from .training import Mechanism, Noise
from .training.noise import warn_of_rows
from .training.recurrence import Inverse, Rows

StreamingMatrix: Any = type(identity_strategy().streaming_matrix())  # what a strategy of opake returns


def add_noise(clipped: Any, noise: Noise) -> Any:
    """
    The clipped gradients plus the noise of the next step, as opake's NoisedPytree. noise: mechanism.noise(params, key,
    clip_norm=max_norm), for parameters in the same structure and with the norm that opake clipped to, which is
    clipping_norm / normalize_by.
    """
    if not isinstance(clipped, ClippedPytree) or isinstance(clipped, NoisedPytree):
        raise TypeError("noise is added to the ClippedPytree that opake's clipped_grad() returns, once")
    if isinstance(clipped.max_norm, PerGroup):
        raise ValueError("one max_norm for all parameters, please: clip with a number, not with a PerGroup")
    if clipped.max_norm != noise.clip_norm:
        raise ValueError(f"opake clipped to {clipped.max_norm}, but the noise is for clip_norm={noise.clip_norm}: make "
                         "it with clipping_norm / normalize_by")

    def total(gradient: Any, drawn: Any) -> Any:
        if gradient.shape != drawn.shape:
            raise ValueError("the noise was made for parameters of other shapes")
        return gradient + drawn

    deviation = noise.stddev(min(noise.steps, noise.mechanism.n - 1))  # step() complains of a step too many
    return noised(tree_map(total, clipped.pytree, noise.step()), max_norm=clipped.max_norm, noise_stddev=deviation)


def noise_arguments(mechanism: Mechanism) -> dict[str, Any]:
    """`strategy`, `n_steps` and `noise_multiplier` of opake.dpftrl.noise.mf_gaussian_noise()."""
    return {"strategy": Strategy(mechanism), "n_steps": mechanism.n, "noise_multiplier": mechanism.noise_multiplier}


class Strategy:
    """
    The strategy of a mechanism in place of a recipe of opake (its protocol MfStrategy). It can be drawn from, and not
    accounted for: the guarantee is that of the job. After n steps, opake raises ConfigurationError.
    """

    def __init__(self, mechanism: Mechanism) -> None:
        if isinstance(mechanism.recurrence, Rows):
            raise ValueError(f"opake cannot draw from a strategy of the family "
                             f"{mechanism.document['strategy']['family']}, whose rows need white noise of any other "
                             "step: use add_noise(), or solve the job with identity, banded, square_root, "
                             "inverse_square_root, banded_inverse, toeplitz or blt")
        self.mechanism = mechanism

    def streaming_matrix(self, *, n_steps: int, min_sep: int = 1, max_participations: int | None = None) -> Any:
        """C^-1, which keeps a few rows."""
        n = self.mechanism.n
        if n_steps != n:
            raise ValueError(f"the mechanism is for n_steps={n}, not {n_steps}: solve a job for another number")
        if min_sep != 1 or max_participations is not None:
            raise ValueError("leave out min_sep and max_participations: how often examples take part is that of the "
                             "job's sampling")
        norms = torch.tensor([self.mechanism.stddev(t) / self.mechanism.noise_multiplier for t in range(n)],
                             dtype=torch.float64)
        return _streaming(self.mechanism.recurrence, lambda count: norms[:count].square())

    def coefficients(self, **_: Any) -> NoReturn:
        raise NotImplementedError("opake does not account for a mechanism of epsilond: mechanism.statement is the "
                                  "guarantee, and mechanism.spent(steps) what was spent")

    gram_matrix = sensitivity = coefficients


def _streaming(recurrence: Any, row_norms_squared: Any) -> Any:
    """The recurrence over values that come one by one, of which the last ones that it needs again are kept."""
    past = len(recurrence.coefficients) if isinstance(recurrence, Inverse) else 0
    warn_of_rows(recurrence.kept + past)

    def init(tree: Any) -> dict[str, Any]:
        def kept(count: int) -> list[Any]:
            return [leaf.new_zeros((count, *leaf.shape), dtype=torch.promote_types(leaf.dtype, torch.float32))
                    for leaf in tree_flatten(tree)[0]]

        return {"step": 0, "rows": kept(recurrence.kept), "values": kept(past)}

    def following(value: Any, t: int, rows: Any, values: Any) -> tuple[Any, Any, Any]:
        """x, and what is kept after it; the state before is not changed."""
        if torch.promote_types(value.dtype, torch.float32) != value.dtype:
            raise TypeError(f"white noise in {value.dtype} is too coarse: give compute_dtype=torch.float32")
        if value.shape != rows.shape[1:]:
            raise ValueError("the state is not for tensors of these shapes")
        rows, values = rows.clone() if t else torch.zeros_like(rows), values.clone()
        if past:
            values[t % past] = value
        x = recurrence.row(t, lambda row: values[row % past] if past else value.clone(), rows)
        return x, rows, values

    def multiply(tree: Any, state: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        leaves, structure = tree_flatten(tree)
        t = state["step"] % recurrence.block
        if len(leaves) != len(state["rows"]):
            raise ValueError("the state is not for so many tensors")
        done = [following(leaf, t, rows, values)
                for leaf, rows, values in zip(leaves, state["rows"], state["values"])]
        x, rows, values = (list(part) for part in zip(*done))
        return tree_unflatten(structure, x), {"step": state["step"] + 1, "rows": rows, "values": values}

    return StreamingMatrix(init, multiply, row_norms_squared)
