"""
Server-Sent Events, as text/event-stream has them.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class Event(NamedTuple):
    """kind: "progress", "point", "candidate", or what the resource is ("job", "sweep", "plan"), which is the last one."""

    kind: str
    data: Any
    id: str


def read_events(lines: Iterable[bytes]) -> Iterator[Event]:
    """The events of a stream's lines, as they arrive; heartbeats, which are comments, are passed over."""
    kind, last = "message", ""
    data: list[str] = []
    for line in lines:
        text = line.decode("utf-8").rstrip("\r")
        if not text:
            if data:
                yield Event(kind, json.loads("\n".join(data)), last)
            kind, data = "message", []
            continue
        name, _, value = text.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)
        elif name == "id":
            last = value
