"""Times jax_privacy on the bench's strategies: one JSON line in, one JSON line out.

Run by strategies.py with the Python of a virtual environment that has jax_privacy, in double precision; imports are
not timed. The best of several calls is taken, so that what jax compiles once and keeps is not counted; what a call
compiles anew, as the optimisers do, is what its user waits for.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import json
import sys
import time

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
from jax_privacy.matrix_factorization import buffered_toeplitz, dense, toeplitz  # noqa: E402


def banded(case):
    reduce = jnp.max if case["objective"] == "max_squared" else jnp.mean
    coefficients = toeplitz.optimize_banded_toeplitz(case["n"], case["size"], reduction_fn=reduce)
    return lambda: float(jnp.sqrt(toeplitz.loss(coefficients, case["n"], reduce))), coefficients


def blt(case):
    error = "max" if case["objective"] == "max_squared" else "mean"
    found = buffered_toeplitz.optimize(
        n=case["n"], min_sep=case["separation"], max_participations=case["epochs"], error=error,
        min_buffers=case["size"], max_buffers=case["size"])

    def loss():
        c = found.toeplitz_coefs(case["n"])
        reduce = jnp.max if error == "max" else jnp.mean
        variance = toeplitz.per_query_error(strategy_coef=c, n=case["n"])
        square = toeplitz.minsep_sensitivity_squared(c, case["separation"], case["epochs"], case["n"])
        return float(jnp.sqrt(reduce(variance) * square))
    return loss, found.buf_decay


def optimal(case):
    c = dense.optimize(case["n"], epochs=case["epochs"])
    return lambda: float(jnp.sqrt(jnp.mean(dense.per_query_error(strategy_matrix=c)))), c


def banded_columns(case):
    c = dense.optimize(case["n"], epochs=case["epochs"], bands=case["size"], equal_norm=True)
    return lambda: float(jnp.sqrt(jnp.mean(dense.per_query_error(strategy_matrix=c)))), c


def noise(case):
    root = toeplitz.optimal_max_error_strategy_coefs(case["size"])
    coefficients = toeplitz.inverse_coef(root, case["n"])
    return lambda: float(jnp.linalg.norm(coefficients)), coefficients


KINDS = {"banded": banded, "blt": blt, "optimal": optimal, "banded_columns": banded_columns, "noise": noise}


def main():
    for line in sys.stdin:
        case = json.loads(line)
        best = float("inf")
        for _ in range(1 if case["kind"] == "optimal" else case["repeat"]):
            start = time.perf_counter()
            value, array = KINDS[case["kind"]](case)
            array.block_until_ready()
            best = min(best, time.perf_counter() - start)
        print(json.dumps({"value": value(), "seconds": best}), flush=True)


main()
