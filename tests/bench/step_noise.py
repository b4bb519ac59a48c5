"""Times the noise of a step, ours or a peer's: a JSON argument in, a JSON line out; see trainers.py.

The peers get strategies of the same kind and cost: jax_privacy that of the mechanism itself, opake its own square root
of 16 bands and its own BLT of at most 4 buffers.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import json
import os
import resource
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "api", "python"))

import numpy

from epsilond.training import Mechanism

KEY = bytes(range(16))
CASE = json.loads(sys.argv[1])
DEVICE = CASE["device"]  # cpu or cuda
os.environ["JAX_PLATFORMS"] = DEVICE


def with_numpy(mechanism, size):
    return mechanism.noise([numpy.zeros(size, "f4")], KEY, clip_norm=1.0).step


def with_torch(mechanism, size):
    import torch
    noise = mechanism.noise([torch.zeros(size, device=DEVICE)], KEY, clip_norm=1.0)
    return waiting(noise.step)


def waiting(step):
    """A function that returns when a GPU has done what step asked of it."""
    import torch
    if DEVICE == "cpu":
        return step

    def run():
        step()
        torch.cuda.synchronize()

    return run


def with_jax(mechanism, size):
    import jax
    noise = mechanism.noise([jax.numpy.zeros(size)], KEY, clip_norm=1.0)
    return stepping(jax.jit(noise, donate_argnums=0), noise.init())


def stepping(step, state):
    """A function without arguments; step returns a state and the noise."""
    import jax
    states = [state]

    def run():
        states[0], noise = step(states[0])
        jax.block_until_ready(noise)

    return run


def with_jax_privacy(mechanism, size):
    import jax
    from jax_privacy import noise_addition
    from jax_privacy.matrix_factorization import buffered_toeplitz, toeplitz
    noise = mechanism.document["noise"]
    if noise["kind"] == "toeplitz":
        inverse = toeplitz.inverse_as_streaming_matrix(jax.numpy.asarray(noise["coefficients"], dtype="float32"))
    else:
        blt = buffered_toeplitz.BufferedToeplitz.build(buf_decay=noise["decay"], output_scale=noise["scale"],
                                                       dtype=jax.numpy.float32)
        inverse = blt.inverse_as_streaming_matrix()
    privatizer = noise_addition.matrix_factorization_privatizer(inverse, stddev=1.0, prng_key=jax.random.key(0))
    sums = [jax.numpy.zeros(size)]
    return stepping(jax.jit(lambda state: privatizer.update(sums, state)[::-1], donate_argnums=0),
                    privatizer.init(sums))


def with_opake(mechanism, size):
    import torch
    from opake.dpftrl import noise as strategies
    from opake.random import key
    from opake.types import ClippedPytree
    banded = mechanism.document["noise"]["kind"] == "toeplitz"
    strategy = (strategies.bsr_strategy(bandwidth=16, alpha=1.0, beta=0.0) if banded else
                strategies.blt_strategy(max_buffers=4))
    sums = [torch.zeros(size, device=DEVICE)]
    noise, state = strategies.mf_gaussian_noise(sums, strategy, n_steps=200, min_sep=16, max_participations=10,
                                                noise_multiplier=1.0, key=key(0))
    clipped, states = ClippedPytree(pytree=sums, max_norm=1.0), [state]

    def run():
        _, states[0] = noise(clipped, states[0])

    return waiting(run)


TRAINERS = {"NumPy": with_numpy, "PyTorch": with_torch, "JAX": with_jax, "jax_privacy": with_jax_privacy,
            "opake": with_opake}


def resident():
    """The most bytes taken so far, where the noise is drawn."""
    if DEVICE != "cpu" and "torch" in sys.modules:
        return sys.modules["torch"].cuda.max_memory_allocated()
    if DEVICE != "cpu":
        return sys.modules["jax"].devices()[0].memory_stats()["peak_bytes_in_use"]
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main():
    mechanism = Mechanism.load(CASE["mechanism"])
    TRAINERS[CASE["who"]](mechanism, 64)()  # what is imported and compiled
    before = resident()
    step = TRAINERS[CASE["who"]](mechanism, CASE["size"])
    step()
    seconds = processor = float("inf")
    for _ in range(CASE["repeat"]):
        start, began = time.perf_counter(), time.process_time()
        step()
        seconds = min(seconds, time.perf_counter() - start)
        processor = min(processor, time.process_time() - began)
    print(json.dumps({"seconds": seconds, "processor": processor, "bytes": resident() - before}))


main()
