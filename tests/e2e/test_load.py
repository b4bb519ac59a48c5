"""Many connections at once, each with a request: none waits for another one."""
import signal
import socket
import urllib.parse

import pytest

pytestmark = pytest.mark.sanitized


@pytest.mark.parametrize("together", [127, 128, 129, 256])
def test_requests_that_are_there_together_are_all_answered(launch, together):
    """A full batch of events from the kernel must be served before the next one is requested. Earlier, 128 simultaneous
    requests remained unanswered until something else happened."""
    server = launch("--http-threads", "1")
    address = urllib.parse.urlsplit(server.url)
    sockets = [socket.create_connection((address.hostname, address.port), timeout=30) for _ in range(together)]
    request = f"GET /healthz HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode()
    for one in sockets:  # accepted and waiting for a request
        one.sendall(request)
        assert one.recv(4096).startswith(b"HTTP/1.1 200")
    server.process.send_signal(signal.SIGSTOP)
    for one in sockets:
        one.sendall(request)
    server.process.send_signal(signal.SIGCONT)
    for one in sockets:
        assert one.recv(4096).startswith(b"HTTP/1.1 200")
        one.close()
