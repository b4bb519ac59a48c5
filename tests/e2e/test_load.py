"""
Many connections at once, each of which has a request: none waits for another one's.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import signal
import socket
import urllib.parse

import pytest

pytestmark = pytest.mark.sanitized


@pytest.mark.parametrize("together", [127, 128, 129, 256])
def test_requests_that_are_there_together_are_all_answered(launch, together):
    """A full batch of events from the kernel is served before the next one is asked for: 128 of them once were not,
    until something else happened."""
    server = launch("--http-threads", "1")
    address = urllib.parse.urlsplit(server.url)
    sockets = [socket.create_connection((address.hostname, address.port), timeout=30) for _ in range(together)]
    request = f"GET /healthz HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode()
    for one in sockets:  # accepted, and waiting for a request
        one.sendall(request)
        assert one.recv(4096).startswith(b"HTTP/1.1 200")
    server.process.send_signal(signal.SIGSTOP)
    for one in sockets:
        one.sendall(request)
    server.process.send_signal(signal.SIGCONT)
    for one in sockets:
        assert one.recv(4096).startswith(b"HTTP/1.1 200")
        one.close()
