"""HTTP as bytes on a socket, for requests that no client library would send."""
import contextlib
import json
import socket
import urllib.parse


def address(server):
    parts = urllib.parse.urlsplit(server.url)
    return parts.hostname, parts.port


def host(server):
    return urllib.parse.urlsplit(server.url).netloc


def connect(server, timeout=60):
    return socket.create_connection(address(server), timeout=timeout)


def head(server, line, *headers):
    """The head of a request, with the required Host."""
    return "\r\n".join([line, f"Host: {host(server)}", *headers, "", ""]).encode()


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body, self.rest = status, headers, body, b""

    def json(self):
        return json.loads(self.body)


def read_reply(stream):
    """The next reply of a socket.makefile("rb"), or None at its end."""
    line = stream.readline()
    if not line:
        return None
    assert line.startswith(b"HTTP/1."), line
    headers = {}
    while (field := stream.readline().strip()):
        name, value = field.decode("latin-1").split(":", 1)
        headers[name.lower()] = value.strip()
    return Reply(int(line.split()[1]), headers, stream.read(int(headers.get("content-length", 0))))


def converse(server, data):
    """Sends the bytes; returns every reply until the server closes, and whether it does so within some seconds. What
    follows the last reply of a connection is in its `rest`."""
    replies = []
    with connect(server, 10) as connection, connection.makefile("rb") as stream:
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
        try:
            while (reply := read_reply(stream)):
                replies.append(reply)
                if reply.headers.get("connection", "").lower() == "close":
                    reply.rest = stream.read()
                    break
        except TimeoutError:
            return replies, False
        except ConnectionError:
            pass
    return replies, True


def hung_up(connection, timeout=60):
    """Whether the other side closes the connection, now or soon."""
    connection.settimeout(timeout)
    try:
        return connection.recv(65536) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False
