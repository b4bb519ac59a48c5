"""A server for the parts of the bench that ask over HTTP.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import contextlib
import os
import re
import subprocess
import tempfile


@contextlib.contextmanager
def server(build, *options, keys=None):
    """A fresh epsilond with a fresh database, on the build folder's disk: /tmp may be memory; with these lines as its
    file of keys. Yields the port and the process id."""
    with tempfile.TemporaryDirectory(prefix="bench.", dir=build) as folder:
        if keys is not None:
            path = os.path.join(folder, "keys")
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                file.write(keys)
            options = (*options, "--keys", path)
        with open(os.path.join(folder, "log"), "w") as log:
            process = subprocess.Popen(
                [os.path.join(build, "epsilond"), "serve", "--listen", "127.0.0.1:0", "--db",
                 os.path.join(folder, "bench.db"), *options], stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            line = process.stdout.readline()
            match = re.match(r"listening on http://127\.0\.0\.1:(\d+)", line)
            if not match:
                raise SystemExit(f"bench: the server said {line!r}")
            yield int(match.group(1)), process.pid
        finally:
            process.terminate()
            process.wait(30)
