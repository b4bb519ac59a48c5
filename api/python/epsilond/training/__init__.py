"""
From an answer to a private training run: the batches that were accounted for, and the noise of a job's mechanism, drawn
where the parameters are.

    mechanism = client.mechanism(job)
    noise = mechanism.noise(parameters, key, clip_norm=1.0)
    for indices in mechanism.batches(len(examples), key):
        total = sum_of_clipped_gradients(examples[indices]) + noise.step()
        parameters -= learning_rate * total / expected_batch_size

It requires NumPy; noise on tensors requires PyTorch, and on pytrees JAX.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from .batches import Batches
from .journal import ReplayError
from .mechanism import Mechanism, load_key
from .noise import Noise

__all__ = ["Batches", "Mechanism", "Noise", "ReplayError", "load_key"]
