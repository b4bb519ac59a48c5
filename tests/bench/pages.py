"""The cost of idle clients: pages that poll the list of jobs with If-None-Match, and event streams of a long job. The
share of a core is the server's CPU time, user and system, over the elapsed time.

The server has finished jobs to list, and one job that does not change: with one worker and no express lane, it waits
behind another one that runs. The computation of the latter is no cost of the pages: its thread is the one that used
the most processor time.

    pages.py --build build [--seconds 24] [--pages 500] [--streams 50]

SPDX-License-Identifier: GPL-3.0-or-later
"""
import argparse
import asyncio
import json
import pathlib
import re
import subprocess
import tempfile
import time
import urllib.request

LISTED = 60
EVERY = 2.0  # seconds between two polls of a page
LONG = {"n": 4000, "sampling": {"scheme": "poisson", "p": 0.005, "examples_per_user": 500}, "epsilon": 1.0,
        "accountant": {"method": "pld", "tolerance": 5e-9}}
PATH = "/v1/jobs?limit=50"


class Server:
    """A fresh server with one worker and a fresh database, on the build folder's disk."""
    def __init__(self, build, folder):
        self.log = open(folder / "log", "w")
        self.process = subprocess.Popen(
            [str(build / "epsilond"), "serve", "--listen", "127.0.0.1:0", "--db", str(folder / "pages.db"),
             "--workers", "1", "--express", "0", "--log-level", "warn"],
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.port = int(re.match(r"listening on http://127\.0\.0\.1:(\d+)", self.process.stdout.readline()).group(1))

    def post(self, job, query=""):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/jobs{query}", json.dumps(job).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def seconds(self):
        """Processor time of all threads but the one that computes the long job, which has used the most."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(sorted(int(task.read_text().split()[0]) * 1e-9 for task in tasks)[:-1])

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


def head(port, path, *more):
    return "\r\n".join([f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", *more, "", ""]).encode()


async def page(port, first, until, counts):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    tag = None
    await asyncio.sleep(first)
    while time.monotonic() < until:
        asked = time.monotonic()
        writer.write(head(port, PATH, *([f"If-None-Match: {tag}"] if tag else [])))
        answer = (await reader.readuntil(b"\r\n\r\n")).decode()
        await reader.readexactly(int((re.search(r"(?i)content-length: (\d+)", answer) or [0, 0])[1]))
        status = answer.split(" ", 2)[1]
        if status not in ("200", "304"):
            raise SystemExit(f"pages: a page was answered\n{answer}")
        tag = re.search(r"(?i)etag: (\S+)", answer)[1]
        counts[status] = counts.get(status, 0) + 1
        await asyncio.sleep(max(0, asked + EVERY - time.monotonic()))
    writer.close()


async def stream(port, path, until, counts):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head(port, path))
    while (left := until - time.monotonic()) > 0:
        try:
            line = await asyncio.wait_for(reader.readline(), left)
        except asyncio.TimeoutError:
            break
        if not line:
            raise SystemExit("pages: a stream ended")
        counts["events"] = counts.get("events", 0) + line.startswith(b"event:")
    writer.close()


async def watch(server, options, path):
    """The share of a core that the server uses, once all clients are connected."""
    counts, settled = {}, 2 * EVERY
    start = time.monotonic()
    until = start + settled + options.seconds
    tasks = [asyncio.ensure_future(page(server.port, EVERY * i / options.pages, until, counts))
             for i in range(options.pages)]
    tasks += [asyncio.ensure_future(stream(server.port, path, until, counts)) for _ in range(options.streams)]
    await asyncio.sleep(settled)
    before, since = server.seconds(), time.monotonic()
    counts.clear()
    await asyncio.sleep(options.seconds - 0.5)
    share = (server.seconds() - before) / (time.monotonic() - since)
    await asyncio.gather(*tasks)
    return share, counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--seconds", type=float, default=24)
    parser.add_argument("--pages", type=int, default=500)
    parser.add_argument("--streams", type=int, default=50)
    options = parser.parse_args()
    build = pathlib.Path(options.build).resolve()
    print(f"\nOnlookers: {options.pages} pages that poll GET {PATH} every {EVERY:g} s with If-None-Match, "
          f"{options.streams} event streams; the server's share of one core\n")
    for what in "waits", "runs":
        with tempfile.TemporaryDirectory(prefix="pages.", dir=build) as folder:
            server = Server(build, pathlib.Path(folder))
            try:
                for i in range(LISTED):
                    server.post({"n": 10, "sampling": {"scheme": "none"}, "noise_multiplier": 1 + i, "delta": 1e-6},
                                "?wait=60")
                runs = [server.post({**LONG, "delta": 1e-8 / (1 + i)}) for i in range(3)][0]
                time.sleep(1)
                waits = server.post({"n": 10, "sampling": {"scheme": "none"}, "noise_multiplier": 0.5, "delta": 1e-6})
                followed = {"runs": runs, "waits": waits}[what]["links"]["events"]
                share, counts = asyncio.run(watch(server, options, followed))
            finally:
                server.stop()
        print(f"  streams of a job that {what:<6}{100 * share:>6.2f}%   in {options.seconds:g} s: "
              f"{', '.join(f'{count:,} {name}' for name, count in sorted(counts.items()))}", flush=True)


main()
