"""A server for the parts of the bench that ask over HTTP.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import contextlib
import os
import re
import subprocess
import tempfile


@contextlib.contextmanager
def server(build):
    """A fresh epsilond with a fresh database, on the build folder's disk: /tmp may be memory. Yields the port."""
    with tempfile.TemporaryDirectory(prefix="bench.", dir=build) as folder:
        with open(os.path.join(folder, "log"), "w") as log:
            process = subprocess.Popen(
                [os.path.join(build, "epsilond"), "serve", "--listen", "127.0.0.1:0", "--db",
                 os.path.join(folder, "bench.db")], stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            line = process.stdout.readline()
            match = re.match(r"listening on http://127\.0\.0\.1:(\d+)", line)
            if not match:
                raise SystemExit(f"bench: the server said {line!r}")
            yield int(match.group(1))
        finally:
            process.terminate()
            process.wait(30)
