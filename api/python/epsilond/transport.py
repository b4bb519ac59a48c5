"""
HTTP with retries: a request is retried if it got no response, or a 503 or 429, and not earlier than Retry-After says.
Every request of this package may be retried, because those that create something carry an Idempotency-Key.

One connection per thread is kept open; streams use separate connections.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import contextlib
import http.client
import json
import random
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from .problems import Unreachable, problem_of

FIRST_PAUSE = 0.1  # seconds before the first retry; doubled each time, up to
LONGEST_PAUSE = 10.0
Part = TypeVar("Part")
FAILURES = (OSError, http.client.HTTPException)


class Reply(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes
    repeated: bool = False  # an earlier attempt may have been executed although its response was lost

    def json(self) -> Any:
        return json.loads(self.body)


class Patience:
    """The pauses between the attempts of one request."""

    def __init__(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds
        self.pause = FIRST_PAUSE

    def sleep(self, at_least: float = 0.0) -> bool:
        """Waits before the next attempt. Returns False if there is no time for one."""
        pause = max(at_least, random.uniform(self.pause / 2, self.pause))
        self.pause = min(2 * self.pause, LONGEST_PAUSE)
        if time.monotonic() + pause > self.until:
            return False
        time.sleep(pause)
        return True


def retry_after(headers: http.client.HTTPMessage) -> float:
    """The delay in seconds. A date, which a proxy may send, counts as none."""
    try:
        return max(0.0, float(headers.get("Retry-After", "")))
    except ValueError:
        return 0.0


def lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The lines as they arrive. An incomplete response raises an exception, which iterating over the response does not,
    because its peek() hides the error."""
    rest = b""
    while part := response.read1(1 << 16):
        *whole, rest = (rest + part).split(b"\n")
        yield from whole
    if rest or response.length:
        raise http.client.IncompleteRead(rest)


def unbroken(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts of a stream that cannot be resumed; raises Unreachable if it is incomplete."""
    try:
        yield from parts
    except (EOFError, *FAILURES) as failure:
        raise Unreachable(f"the response broke off: {failure or type(failure).__name__}") from failure


class Transport:
    def __init__(self, url: str, timeout: float, retry_seconds: float, headers: Mapping[str, str],
                 context: ssl.SSLContext | None) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an address like http://localhost:8080")
        self.url = url.rstrip("/")
        self.timeout = timeout
        self.retry_seconds = retry_seconds
        self._headers = dict(headers)
        self._context = context
        self._secure = parts.scheme == "https"
        self._host, self._port, self._prefix = parts.hostname, parts.port, parts.path.rstrip("/")
        self._kept = threading.local()

    # ------------------------------------------------------------ connections

    def _connect(self) -> http.client.HTTPConnection:
        if self._secure:
            return http.client.HTTPSConnection(self._host, self._port, timeout=self.timeout, context=self._context)
        return http.client.HTTPConnection(self._host, self._port, timeout=self.timeout)

    def close(self) -> None:
        """Closes the connection of this thread."""
        connection = getattr(self._kept, "connection", None)
        if connection is not None:
            connection.close()
            self._kept.connection = None

    def _send(self, connection: http.client.HTTPConnection, method: str, target: str, body: bytes | None,
              headers: Mapping[str, str], timeout: float) -> http.client.HTTPResponse:
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        connection.request(method, self._prefix + target, body, {**self._headers, **headers})
        return connection.getresponse()

    def _attempt(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str],
                 timeout: float) -> Reply:
        connection: http.client.HTTPConnection | None = getattr(self._kept, "connection", None)
        if connection is not None and connection.sock is not None:
            try:  # the service closes idle connections, which is not an error
                response = self._send(connection, method, target, body, headers, timeout)
                return self._read(response)
            except (ConnectionError, http.client.BadStatusLine):
                self.close()
                return self._attempt(method, target, body, headers, timeout)._replace(repeated=True)
        self._kept.connection = connection = self._connect()
        return self._read(self._send(connection, method, target, body, headers, timeout))

    @staticmethod
    def _read(response: http.client.HTTPResponse) -> Reply:
        return Reply(response.status, response.headers, response.read())

    # ------------------------------------------------------------ requests

    def patience(self) -> Patience:
        return Patience(self.retry_seconds)

    def request(self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None,
                extra: float = 0.0, patient: bool = True) -> Reply:
        """The response, whatever its status. extra: additional seconds that the service may wait."""
        patience = self.patience() if patient else Patience(0.0)
        repeated = False
        while True:
            try:
                reply = self._attempt(method, target, body, headers or {}, self.timeout + extra)
            except FAILURES as failure:
                self.close()
                if isinstance(failure, ssl.SSLError) or not patience.sleep():
                    raise Unreachable(f"{method} {self.url}{target}: {failure or type(failure).__name__}") from failure
                repeated = True
                continue
            if reply.status not in (429, 503) or not patience.sleep(retry_after(reply.headers)):
                return reply._replace(repeated=repeated or reply.repeated)

    def ask(self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None,
            extra: float = 0.0) -> Reply:
        """The response; a problem is raised as an exception."""
        reply = self.request(method, target, body, headers, extra)
        if reply.status >= 400:
            raise problem_of(reply.status, reply.body)
        return reply

    @contextlib.contextmanager
    def stream(self, method: str, target: str, body: bytes | None = None,
               headers: Mapping[str, str] | None = None) -> Iterator[http.client.HTTPResponse]:
        """A response that is read piece by piece. It is retried until it begins, but not after that."""
        patience = self.patience()
        while True:
            connection = self._connect()
            try:
                response = self._send(connection, method, target, body, headers or {}, self.timeout)
                if response.status < 400:
                    break
                reply = self._read(response)
                connection.close()
                if reply.status not in (429, 503) or not patience.sleep(retry_after(reply.headers)):
                    raise problem_of(reply.status, reply.body)
            except FAILURES as failure:
                connection.close()
                if isinstance(failure, ssl.SSLError) or not patience.sleep():
                    raise Unreachable(f"{method} {self.url}{target}: {failure or type(failure).__name__}") from failure
        try:
            yield response
        finally:
            connection.close()
