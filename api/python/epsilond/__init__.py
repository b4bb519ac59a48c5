"""
A client for epsilond, the differential-privacy accounting service.

    from epsilond import Client

    client = Client("http://localhost:8080")
    job = client.solve({"n": 1000, "sampling": {"scheme": "poisson", "p": 0.01}, "epsilon": 1, "delta": 1e-6})
    print(job["result"]["noise_multiplier"])

It requires only the standard library. Matrices are returned as NumPy arrays if NumPy is installed.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from .client import Client
from .events import Event
from .noise import NoiseRows
from .problems import (Busy, Conflict, EpsilondError, Invalid, JobFailed, NotFound, Problem, TooCostly, Unattainable,
                       Unreachable, Unsupported, Violation)

__all__ = ["Busy", "Client", "Conflict", "EpsilondError", "Event", "Invalid", "JobFailed", "NoiseRows", "NotFound",
           "Problem", "TooCostly", "Unattainable", "Unreachable", "Unsupported", "Violation"]
__version__ = "0.1.0"
