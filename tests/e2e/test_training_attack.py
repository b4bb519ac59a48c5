"""
An attack on what a trainer releases, as a check of the whole chain from the job to the batches and the noise: an
adversary who knows everything but the participation of one example and the white noise takes the likelihood ratio, the
best test there is. It must not beat the (epsilon, delta) that was claimed, and it must come near enough to show that
the noise is no more than was asked for. Not a proof: those are in lib/.

The example contributes a gradient of the clip norm in one coordinate, always the same, and the others nothing, which is
the worst case for strategies without negative entries. Each run is a coordinate and an example of its own. Seeded.
"""
import itertools
import math
import sys

import numpy
import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "api" / "python"))

from epsilond import Client  # noqa: E402
from test_mechanism import inverse  # noqa: E402

KEY = bytes(range(16))
RUNS = 20000
N = 8
SIGMAS = 4  # of all tests together, one would fail by chance with a probability of less than 1e-3, but for the seed


def poisson(p):
    return {pattern: p**sum(pattern) * (1 - p)**(N - sum(pattern)) for pattern in itertools.product((0, 1), repeat=N)}


def balls_in_bins(bins):
    return {tuple(int(t % bins == i) for t in range(N)): 1 / bins for i in range(bins)}


def b_min_sep(p, separation):
    """An example that may take part in a step does so with probability p, and then waits."""
    laws = {(): 1.0}
    for _ in range(N):
        grown = {}
        for pattern, probability in laws.items():
            waits = any(pattern[-(separation - 1):]) if separation > 1 else False
            for part, share in ((0, 1 - p), (1, p)) if not waits else ((0, 1.0),):
                grown[(*pattern, part)] = probability * share
        laws = grown
    return laws


ATTACKS = [
    ({"family": "identity"}, {"scheme": "poisson", "p": 0.25}, poisson(0.25)),
    ({"family": "square_root", "bands": 3}, {"scheme": "balls_in_bins", "bins": 4}, balls_in_bins(4)),
    ({"family": "banded", "bands": 3}, {"scheme": "b_min_sep", "p": 0.3, "separation": 3, "warm_start": False},
     b_min_sep(0.3, 3)),
    ({"family": "blt", "buffers": 2}, {"scheme": "balls_in_bins", "bins": 2}, balls_in_bins(2)),
]


def loss(y, means, sigma):
    """ln(P/Q) of each column of y, where P is the mixture of N(mean, sigma^2 I), and Q is N(0, sigma^2 I)."""
    exponents = numpy.stack([math.log(share) + (mean @ y - mean @ mean / 2) / sigma**2 for mean, share in means])
    top = exponents.max(axis=0)
    return top + numpy.log(numpy.exp(exponents - top).sum(axis=0))


def shown(losses, others, delta):
    """The largest epsilon that the events {loss > t} show: (epsilon, delta) is refuted by P(S) > e^epsilon Q(S) +
    delta, with both probabilities at the pessimistic ends of their confidence intervals."""
    best = 0.0
    for threshold in numpy.linspace(losses.min(), losses.max(), 200):
        p, q = (losses > threshold).mean(), (others > threshold).mean()
        p_least = p - SIGMAS * math.sqrt(max(p * (1 - p), 1 / RUNS) / RUNS)
        q_most = q + SIGMAS * math.sqrt(max(q * (1 - q), 1 / RUNS) / RUNS)
        if p_least > delta:
            best = max(best, math.log((p_least - delta) / q_most))
    return best


@pytest.mark.parametrize("matrix, sampling, law", ATTACKS,
                         ids=["-".join([matrix["family"], sampling["scheme"]]) for matrix, sampling, _ in ATTACKS])
def test_the_best_adversary_learns_what_was_claimed(server, matrix, sampling, law):
    epsilon, delta, clip_norm = 2.0, 0.02, 0.5
    client = Client(server.url)
    assert abs(sum(law.values()) - 1) < 1e-12
    job = client.solve({"n": N, "matrix": matrix, "sampling": sampling, "epsilon": epsilon, "delta": delta})
    mechanism = client.mechanism(job)
    encoder = numpy.linalg.inv(inverse(server, f"/v1/jobs/{mechanism.job}/matrix?part=noise"))

    noise = mechanism.noise(numpy.zeros((2, RUNS)), KEY, clip_norm=clip_norm)
    takes_part = numpy.zeros((N, RUNS))
    x = numpy.empty((N, 2, RUNS))
    for step, indices in enumerate(mechanism.batches(RUNS, KEY)):
        takes_part[step, indices] = 1
        x[step] = noise.step()
    found = {pattern: 0 for pattern in law}
    for pattern in takes_part.T.astype(int):
        found[tuple(pattern)] += 1  # KeyError: a pattern that has no probability
    chi = sum((count - RUNS * law[pattern])**2 / (RUNS * law[pattern]) for pattern, count in found.items()
              if RUNS * law[pattern] > 5)
    assert chi < len(law) + 5 * math.sqrt(2 * len(law))

    means = [(clip_norm * encoder @ numpy.array(pattern), share) for pattern, share in law.items()]
    sigma = clip_norm * mechanism.noise_multiplier
    with_it, without = (loss(encoder @ y, means, sigma) for y in (clip_norm * takes_part + x[:, 0], x[:, 1]))
    removed, added = shown(with_it, without, delta), shown(-without, -with_it, delta)
    print(f"remove {removed:.3f}, add {added:.3f} of {epsilon}")
    assert removed <= epsilon and added <= epsilon
    assert max(removed, added) >= epsilon / 5

    # The hockey-stick divergence itself, both ways, against the claim.
    for one, other in ((with_it, without), (-without, -with_it)):
        parts = (one > epsilon) - math.exp(epsilon) * (other > epsilon)
        assert parts.mean() - SIGMAS * parts.std() / math.sqrt(RUNS) <= delta
