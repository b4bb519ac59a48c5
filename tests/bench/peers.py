"""The peers, each in a virtual environment of its own under the build folder. Where one cannot be installed (PyPI
is out of reach, say) or does not run, a line says so, and ours stands alone.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def peer_python(build, folder, peer):
    """The interpreter of the peer's environment, "name==version", which the first call makes."""
    venv = os.path.join(build, folder)
    python = os.path.join(venv, "bin", "python")
    stamp = os.path.join(venv, peer)
    if not os.path.exists(stamp):
        print(f"bench: installing {peer} into {venv}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", peer], check=True)
        open(stamp, "w").close()
    return python


def ask_peer(build, folder, peer, script, cases, **environment):
    """The script's answer to each case, run with the peer's Python; None for each where the peer is missing."""
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    try:
        python = peer_python(build, folder, peer)
        done = subprocess.run([python, os.path.join(HERE, script)], input=lines, text=True, check=True,
                              stdout=subprocess.PIPE, env={**os.environ, **environment})
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"bench: no {peer}, its columns stay empty: {error}", flush=True)
        return [None] * len(cases)
    return [json.loads(line) for line in done.stdout.splitlines()]
