"""Times the draws of jax_privacy's monte_carlo module: one JSON line in, one JSON line out.

Run by draws.py with the Python of a virtual environment that has jax_privacy, on one core; imports are not timed. A
draw is what a user of the module asks for: a sample of the mechanism's output under b-min-sep sampling, and its
privacy loss. They are drawn in batches of several sizes, and the fastest of several short runs counts, in processor
time.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import json
import sys
import time

import numpy
from jax_privacy import batch_selection
from jax_privacy.experimental.monte_carlo import sample_generation

BATCHES = (16, 64, 256, 1024)
RUNS = 4


def column(bands):
    """The square root's first column, cut and scaled to norm 1."""
    entries = numpy.cumprod(numpy.concatenate([[1.0], 1 - 0.5 / numpy.arange(1, bands)]))
    return entries / numpy.linalg.norm(entries)


def rate(case, batch, seconds):
    """Draws a second in batches of this size."""
    strategy = batch_selection.BMinSepSampling(sampling_prob=case["p"], iterations=case["n"], min_sep=case["bands"],
                                               warm_start=False)
    start, drawn, losses = time.process_time(), 0, []
    while time.process_time() - start < seconds:
        loss, _ = sample_generation.get_privacy_loss_sample(strategy, 1.0, column(case["bands"]), seed=drawn,
                                                            num_samples=batch)
        losses.append(loss.mean())
        drawn += batch
    return drawn / (time.process_time() - start), float(numpy.mean(losses))


def main():
    for line in sys.stdin:
        case = json.loads(line)
        found = [(*rate(case, batch, case["seconds"] / (RUNS * len(BATCHES))), batch)
                 for _ in range(RUNS) for batch in BATCHES]
        best, _, batch = max(found)
        mean = sum(mean for _, mean, _ in found) / len(found)
        print(json.dumps({"draws": best, "batch": batch, "mean": mean}), flush=True)


main()
