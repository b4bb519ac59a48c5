"""A client for Server-Sent Events."""
import json
from dataclasses import dataclass

import requests

from conftest import PATIENCE


@dataclass
class Event:
    id: str
    name: str
    data: dict


class Stream:
    """One stream; the iteration ends when the server ends the stream. Heartbeats are counted."""

    def __init__(self, server, path, last=None, timeout=PATIENCE):
        headers = {} if last is None else {"Last-Event-ID": last}
        self.heartbeats = 0
        self.answer = requests.get(server.url + path, headers=headers, stream=True, timeout=timeout)

    def __iter__(self):
        fields = {}
        for line in self.answer.iter_lines(chunk_size=1):
            if line == b":":
                self.heartbeats += 1
            elif line:
                name, _, value = line.decode().partition(": ")
                fields[name] = value
            elif "data" in fields:
                yield Event(fields["id"], fields["event"], json.loads(fields["data"]))
                fields = {}

    def close(self):
        self.answer.close()


def follow(server, path, last=None):
    """All events up to the end of the stream."""
    return list(Stream(server, path, last))
