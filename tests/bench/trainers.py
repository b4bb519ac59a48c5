"""The bench's rows for trainers: what the noise of a step costs, ours and that of jax_privacy and opake in one run.

The noise of a model of 10 and 100 million float32 parameters, for 16 bands and for a BLT of 4 buffers. Each case is a
process of its own on all cores, with the Python of `make trainers`; imports and compilation are not timed. The best of
several steps counts, in seconds and in processor seconds, and the memory is the largest resident set less that of
before: what the noise keeps, what it returns, and what it needs meanwhile. A case that needs more memory than there is
is left out, with a word. Where PyTorch finds a GPU, the rows are repeated there, and the memory is that of the GPU.

    trainers.py --build build [--python PYTHON] [--repeat 5] [--skip-peer]

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile

from served import server

HERE = os.path.dirname(os.path.abspath(__file__))
STRATEGIES = {"16 bands": {"family": "square_root", "bands": 16}, "BLT, 4 buffers": {"family": "blt", "buffers": 4}}
SIZES = [10**7, 10**8]
OURS = {"cpu": ["NumPy", "PyTorch", "JAX"], "cuda": ["PyTorch", "JAX"]}
PEERS = ["jax_privacy", "opake"]
MOST = {"16 bands": 52, "BLT, 4 buffers": 30}  # rows of float32 that a case may need at most, of ours and of the peers


FREE = "import torch; print(torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else 0)"


def available(python, device):
    """Bytes of memory that are free for a case; 0 without such a device."""
    if device == "cuda":
        done = subprocess.run([python, "-c", FREE], text=True, check=False, capture_output=True)
        return int(done.stdout) if done.returncode == 0 else 0
    with open("/proc/meminfo") as file:
        return 1024 * int(next(line.split()[1] for line in file if line.startswith("MemAvailable")))


def fetch(port, folder):
    """The mechanisms, which step_noise.py loads."""
    sys.path.insert(0, os.path.join(HERE, "..", "..", "api", "python"))
    from epsilond import Client
    client = Client(f"http://127.0.0.1:{port}")
    for name, matrix in STRATEGIES.items():
        job = client.solve({"n": 2000, "matrix": matrix, "sampling": {"scheme": "none"}, "epsilon": 1, "delta": 1e-6})
        client.mechanism(job, spend=False).save(os.path.join(folder, name))


def ask(python, **case):
    """What a case costs; None if it does not run here."""
    done = subprocess.run([python, os.path.join(HERE, "step_noise.py"), json.dumps(case)], text=True, check=False,
                          capture_output=True)
    if done.returncode != 0:
        print(f"bench: {case['who']} did not run: {(done.stderr.strip().splitlines() or ['killed'])[-1]}", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def rows(python, device, drawn_by, name, size, mechanism, repeat):
    """Prints a row for each of drawn_by."""
    needed = 4 * size * MOST[name]
    if available(python, device) < needed:
        print(f"  {name:<18}{size:>12}  {device:<6}left out: it may need {1e-9 * needed:.0f} GB", flush=True)
        return
    for who in drawn_by:
        found = ask(python, who=who, device=device, size=size, mechanism=mechanism, repeat=repeat)
        if found:
            print(f"  {name:<18}{size:>12}  {device:<6}{who:<14}{1e3 * found['seconds']:>10.2f}"
                  f"{1e3 * found['processor']:>14.0f}{found['bytes'] / 1e6:>12.0f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--objects", help="not used")
    parser.add_argument("--python", help="one with PyTorch and JAX; by default that of `make trainers`")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--skip-peer", action="store_true")
    options = parser.parse_args()

    python = options.python or os.path.join(options.build, "trainers", "bin", "python")
    if not os.path.exists(python):
        print("bench: no environment of `make trainers`, so no rows for trainers")
        return
    print(f"\nThe noise of a step in float32, best of {options.repeat}\n")
    print(f"  {'strategy':<18}{'parameters':>12}  {'on':<6}{'drawn by':<14}{'ms':>10}{'processor ms':>14}"
          f"{'memory, MB':>12}")
    with server(options.build) as (port, _), tempfile.TemporaryDirectory(dir=options.build) as folder:
        fetch(port, folder)
        for device, ours in OURS.items():
            if not available(python, device):
                continue
            who = ours + ([] if options.skip_peer else PEERS)
            for name, size in itertools.product(STRATEGIES, SIZES):
                rows(python, device, who, name, size, os.path.join(folder, name), options.repeat)


main()
