"""
Closed forms to compare the service with, in decimal arithmetic with 400 digits. They share no code, library or rounding
with what they check, and are deliberately slow and simple.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import decimal
from decimal import Decimal

decimal.getcontext().prec = 400


def arctan_inverse(x):
    """arctan(1/x) for an integer x."""
    power, total, k = Decimal(1) / x, Decimal(0), 0
    while abs(power) > Decimal(10)**-410:
        total += power / (2 * k + 1) * (-1)**k
        power /= x * x
        k += 1
    return total


PI = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))


def phi(x):
    """The standard normal distribution function for |x| up to about 25: its series loses e^{x^2/2} of the 400
    digits."""
    x = Decimal(x)
    term, total, k = x, x, 0
    while abs(term) > Decimal(10)**-390:
        k += 1
        term = term * x * x / (2 * k + 1)
        total += term
    return Decimal(1) / 2 + total * (-x * x / 2).exp() / (2 * PI).sqrt()


def gaussian_delta(mu, eps):
    """delta at epsilon of one Gaussian with sensitivity/sigma mu."""
    mu, eps = Decimal(mu), Decimal(eps)
    return phi(mu / 2 - eps / mu) - eps.exp() * phi(-mu / 2 - eps / mu)


def poisson_step_delta(p, sigma, eps):
    """(remove, add) of one Poisson step: P = (1-p) N(0, sigma^2) + p N(1, sigma^2), Q = N(0, sigma^2)."""
    p, sigma, eps = Decimal(p), Decimal(sigma), Decimal(eps)

    def where(ratio):
        """The x at which P/Q = ratio."""
        return sigma * sigma * ((ratio - 1 + p) / p).ln() + Decimal(1) / 2

    x = where(eps.exp())
    remove = p * phi((1 - x) / sigma) + (1 - p - eps.exp()) * phi(-x / sigma)
    if (-eps).exp() <= 1 - p:
        return remove, Decimal(0)
    x = where((-eps).exp())
    add = phi(x / sigma) - eps.exp() * (p * phi((x - 1) / sigma) + (1 - p) * phi(x / sigma))
    return remove, add
