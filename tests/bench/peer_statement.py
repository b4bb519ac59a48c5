"""Times opake's Monte Carlo accountant of b-min-sep sampling: one JSON line in, one JSON line out.

Run by draws.py with the Python of a virtual environment that has opake-accounting. Its Rust extension is loaded by
itself, as opake's Python modules need a later Python than Debian's. Each line asks for one resolution; the answer has
the processor seconds and delta at the epsilon asked for.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import importlib.util
import json
import sys
import time
from pathlib import Path

import opake


def load_extension():
    (path,) = Path(next(iter(opake.__path__))).rglob("opake_accounting*.so")
    spec = importlib.util.spec_from_file_location("opake_accounting", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def column(bands):
    """The square root's first column, cut and scaled to norm 1."""
    entries = [1.0]
    for k in range(1, bands):
        entries.append(entries[-1] * (1 - 0.5 / k))
    norm = sum(entry * entry for entry in entries) ** 0.5
    return [entry / norm for entry in entries]


def main():
    accounting = load_extension()
    for line in sys.stdin:
        case = json.loads(line)
        config = accounting.DiscretizationConfig(mc_resolution=case["resolution"],
                                                 mc_failure_probability=case["failure"])
        start = time.process_time()
        pld = accounting.bandmf_b_min_sep_warm_mc_pld(column(case["bands"]), case["n"], case["p"],
                                                      case["noise_multiplier"], config)
        seconds = time.process_time() - start
        print(json.dumps({"seconds": seconds, "delta": pld.delta_at(case["epsilon"])}), flush=True)


main()
