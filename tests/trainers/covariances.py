"""
The covariance that noise must have, from the service, and whether noise has it.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import math

import numpy

RUNS = 4000


def inverse(server, mechanism):
    """C^-1 as the service has it, whole."""
    from epsilond import Client
    matrix = numpy.asarray(Client(server.url).matrix(mechanism.job, "noise"))
    if matrix.ndim == 1:  # the first column of a Toeplitz matrix
        lag = numpy.subtract.outer(numpy.arange(mechanism.n), numpy.arange(mechanism.n))
        matrix = numpy.where(lag >= 0, matrix[lag], 0)
    assert matrix.shape[0] == mechanism.n
    return matrix


def assert_covariance(x, covariance):
    """
    Whitened by the covariance, the rows are independent standard normals. The sum of the squared deviations of their
    sample covariance from I, each over its variance, is about chi-squared with n (n + 1)/2 degrees of freedom; by the
    normal approximation of its cube root (Wilson and Hilferty), six deviations are one false alarm in 10^9, and what
    4000 runs leave of higher moments is far below the factor of 1000 to 10^-6. The keys are fixed besides. Noise that
    is a tenth too large must fail, or else the test has no power.
    """
    assert _deviations(x, covariance) < 6 < _deviations(1.1 * x, covariance)


def _deviations(x, covariance):
    n, runs = x.shape
    white = numpy.linalg.solve(numpy.linalg.cholesky(covariance), x)
    deviation = white @ white.T / runs - numpy.eye(n)
    upper = numpy.triu_indices(n, 1)
    chi = runs * ((deviation[upper]**2).sum() + (numpy.diag(deviation)**2).sum() / 2)
    freedom = n * (n + 1) / 2
    return ((chi / freedom)**(1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
