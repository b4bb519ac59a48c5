"""The peers, each in a virtual environment of its own under the build folder.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import os
import subprocess
import sys


def peer_python(build, folder, peer):
    """The interpreter of the environment that has the peer, "name==version"; made on the first call."""
    venv = os.path.join(build, folder)
    python = os.path.join(venv, "bin", "python")
    stamp = os.path.join(venv, peer)
    if not os.path.exists(stamp):
        print(f"bench: installing {peer} into {venv}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", peer], check=True)
        open(stamp, "w").close()
    return python
