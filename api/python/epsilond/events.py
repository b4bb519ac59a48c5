"""Server-Sent Events in the format text/event-stream."""
from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class Event(NamedTuple):
    """kind: "progress", "point", "candidate"; or, for the last event, the kind of resource ("job", "sweep", "plan")."""

    kind: str
    data: Any
    id: str


def read_events(lines: Iterable[bytes]) -> Iterator[Event]:
    """The events in the lines of a stream, as they arrive. Heartbeats, which are comments, are skipped."""
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
