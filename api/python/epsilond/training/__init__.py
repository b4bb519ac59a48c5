"""
From an answer to a private training run: the noise of a job's mechanism, drawn where the parameters are.

    mechanism = client.mechanism(job)
    noise = mechanism.noise(parameters, key, clip_norm=1.0)
    total = sum_of_clipped_gradients + noise.step()
    parameters -= learning_rate * total / expected_batch_size

It requires NumPy; noise on tensors requires PyTorch, and on pytrees JAX.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from .mechanism import Mechanism, load_key
from .noise import Noise, ReplayError

__all__ = ["Mechanism", "Noise", "ReplayError", "load_key"]
