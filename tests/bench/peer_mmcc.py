"""MMCC as one would write it over dp_accounting's mixture PLDs: one JSON line in, one JSON line out.

The paper's figures 1 and 2 with its appendix B: the binomial quantile and the largest products for the tail, half of
delta for bad events, entries rounded up to a grid, one PLD a row from from_mixture_gaussian_mechanism, all composed.
Run by mmcc.py with the Python of a virtual environment that has dp_accounting; imports are not timed.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import json
import math
import sys
import time

import numpy
from dp_accounting.pld import privacy_loss_distribution
from scipy import stats

INTERVAL = 1e-4  # the library's default
GRID = 0.01      # of the entries


def square_root(n):
    coefficients = numpy.ones(n)
    for t in range(1, n):
        coefficients[t] = coefficients[t - 1] * (1 - 0.5 / t)
    return numpy.array([[coefficients[i - j] if j <= i else 0.0 for j in range(n)] for i in range(n)])


def probabilities(c, p, sigma, delta1):
    """The raised probability (ptilde) of every entry."""
    n = len(c)
    share = delta1 / (2 * (numpy.count_nonzero(c) - n))
    z = stats.norm.isf(share)
    tilde = numpy.full((n, n), p)
    gram = numpy.zeros((n, n))
    for i in range(n):
        most = int(stats.binom.isf(share, i + 1, p))
        for j in range(i):
            square = gram[j, j]
            tail = numpy.sort(gram[j, :i + 1])[::-1][:most].sum()
            loss = z * math.sqrt(square) / sigma + (2 * tail - square) / (2 * sigma ** 2)
            tilde[i, j] = p * math.exp(loss) / (p * math.exp(loss) + 1 - p)
        gram += numpy.outer(c[i], c[i])
    return tilde


def row_pld(entries, tilde, sigma):
    law = numpy.ones(1)
    for entry, probability in zip(numpy.ceil(entries / GRID - 1e-9).astype(int), tilde):
        longer = numpy.zeros(len(law) + entry)
        longer[:len(law)] += (1 - probability) * law
        longer[entry:] += probability * law
        law = longer
    kept = numpy.flatnonzero(law > 1e-18)
    return privacy_loss_distribution.from_mixture_gaussian_mechanism(
        sigma, kept * GRID, law[kept] / law[kept].sum(), value_discretization_interval=INTERVAL)


def solve(case):
    c = square_root(case["n"])
    tilde = probabilities(c, case["p"], case["noise_multiplier"], case["delta"] / 2)
    total = None
    for i in range(case["n"]):
        pld = row_pld(c[i, :i + 1], tilde[i, :i + 1], case["noise_multiplier"])
        total = pld if total is None else total.compose(pld)
    return total.get_epsilon_for_delta(case["delta"] / 2)


def main():
    for line in sys.stdin:
        case = json.loads(line)
        start = time.perf_counter()
        epsilon = solve(case)
        print(json.dumps({"epsilon": float(epsilon), "seconds": time.perf_counter() - start}), flush=True)


main()
