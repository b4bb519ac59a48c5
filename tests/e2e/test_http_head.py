"""Ambiguous request heads, targets with hidden parts, and requests from pages of other sites."""
import json
import socket

import pytest
import requests

import wire
from conftest import DP_SGD, ENDLESS, GAUSSIAN, check_problem

pytestmark = pytest.mark.sanitized
JOB = json.dumps(GAUSSIAN).encode()
SECOND = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(JOB), JOB)


def post(*headers, body=JOB, line=b"POST /v1/jobs HTTP/1.1", host=b"Host: HOST"):
    fields = [line, *([host] if host else []), b"Content-Type: application/json", *headers]
    return b"\r\n".join(fields) + b"\r\n\r\n" + body


LENGTH = b"Content-Length: %d" % len(JOB)

SMUGGLERS = {
    "two lengths": post(LENGTH, b"Content-Length: 0"),
    "two lengths, the first one short": post(b"Content-Length: 0", LENGTH),
    "two equal lengths": post(LENGTH, LENGTH),
    "lengths in one header": post(b"Content-Length: %d, %d" % (len(JOB), len(JOB))),
    "length and chunked": post(LENGTH, b"Transfer-Encoding: chunked", body=CHUNKED),
    "chunked and length": post(b"Transfer-Encoding: chunked", b"Content-Length: 4", body=CHUNKED),
    "chunked twice": post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=CHUNKED),
    "chunked and identity": post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity", body=CHUNKED),
    "another encoding": post(b"Transfer-Encoding: gzip", body=CHUNKED),
    "a list of encodings": post(b"Transfer-Encoding: gzip, chunked", body=CHUNKED),
    "chunked behind a space": post(b"Transfer-Encoding : chunked", LENGTH, body=CHUNKED),
    "chunked with a tail": post(b"Transfer-Encoding: chunked\x0b", body=CHUNKED),
    "chunked in HTTP/1.0": post(b"Transfer-Encoding: chunked", body=CHUNKED, line=b"POST /v1/jobs HTTP/1.0"),
    "a length behind a space": post(b"Content-Length : %d" % len(JOB)),
    "a length with a sign": post(b"Content-Length: +%d" % len(JOB)),
    "a negative length": post(b"Content-Length: -1"),
    "a length in hexadecimal": post(b"Content-Length: 0x10"),
    "a length beyond 64 bits": post(b"Content-Length: 99999999999999999999999"),
    "an empty length": post(b"Content-Length:"),
    "a return within a value": post(LENGTH, b"X: a\rTransfer-Encoding: chunked"),
    "a NUL within a name": post(LENGTH, b"Transfer-Encoding\0: chunked"),
    "a name in brackets": post(LENGTH, b"(X): a"),
    "no name": post(LENGTH, b": a"),
    "no name at first": b"POST /v1/jobs HTTP/1.1\r\n: a\r\nHost: HOST\r\n\r\n",
    "no name in a GET": b"GET /v1 HTTP/1.1\r\nHost: HOST\r\n: a\r\n\r\n",
    "a NUL at the start of a line": b"GET /v1 HTTP/1.1\r\nHost: HOST\r\n\0X: a\r\n\r\n",
    "a NUL within a value": post(LENGTH, b"X: a\0b"),
    "a NUL at the end of a value": post(LENGTH, b"X: a\0"),
    "a NUL at the end of a length": post(b"Content-Length: %d\0" % len(JOB)),
    "a folded line": post(LENGTH, b"X: a\r\n b"),
    "a folded length": post(b"Content-Length:\r\n %d" % len(JOB)),
    "a folded encoding": post(b"Transfer-Encoding:\r\n\tchunked", body=CHUNKED),
    "a fold at the end": post(LENGTH, b"X: a\r\n "),
    "a fold at first": b"GET /v1 HTTP/1.1\r\n X: a\r\nHost: HOST\r\n\r\n",
    "a line that ends with LF": post(LENGTH, b"X: a\nY: b"),
    "a request line that ends with LF": b"GET /v1 HTTP/1.1\nHost: HOST\r\n\r\n",
    "a head that ends with LF": b"GET /v1 HTTP/1.1\r\nHost: HOST\r\n\n",
    "LF alone": b"GET /v1 HTTP/1.1\nHost: HOST\n\n",
    "no colon": post(LENGTH, b"X"),
    "no host": post(LENGTH, host=None),
    "no host in a GET": b"GET /v1 HTTP/1.1\r\n\r\n",
    "no host in HTTP/1.0": b"GET /v1 HTTP/1.0\r\n\r\n",
    "two hosts": post(LENGTH, b"Host: HOST"),
    "two hosts in a GET": b"GET /v1 HTTP/1.1\r\nHost: HOST\r\nHost: evil.example\r\n\r\n",
    "an empty host": b"GET /v1 HTTP/1.1\r\nHost:\r\n\r\n",
    "a host with a path": b"GET /v1 HTTP/1.1\r\nHost: HOST/x\r\n\r\n",
    "a host with a user": b"GET /v1 HTTP/1.1\r\nHost: a@HOST\r\n\r\n",
    "two hosts in one": b"GET /v1 HTTP/1.1\r\nHost: HOST evil.example\r\n\r\n",
}


@pytest.mark.parametrize("data", SMUGGLERS.values(), ids=SMUGGLERS.keys())
def test_what_could_be_smuggled_is_400_and_ends_the_connection(server, data):
    accepted = server.metric("epsilond_jobs_accepted_total")
    data = data.replace(b"HOST", wire.host(server).encode()) + SECOND
    replies, closed = wire.converse(server, data)
    assert [reply.status for reply in replies] in ([400], [413])
    assert closed
    assert replies[0].status == 400 or b"99999" in data
    assert replies[0].headers["connection"].lower() == "close"
    assert b"404" not in replies[0].rest
    if replies[0].headers.get("content-type") == "application/problem+json":  # otherwise the text of libmicrohttpd
        assert replies[0].json()["type"] == "/problems/malformed-request"
    assert server.metric("epsilond_jobs_accepted_total") == accepted


def test_what_is_right_is_read_as_it_was_meant(server):
    """The same forms, but valid: a request that follows on the same connection is answered."""
    local = b"Host: " + wire.host(server).encode()
    for first in (post(LENGTH, host=local), post(b"content-length:\t%d" % len(JOB), host=local),
                  post(LENGTH, b"X-Latin: \xe9\tb", b"X-Empty:", b"X-Spaces: \t ", b"Cookie: a=b; c=d", host=local),
                  post(LENGTH, *(b"X-%d: %s" % (i, b"v" * i) for i in range(100)), host=local)):
        replies, closed = wire.converse(server, first + wire.head(server, "GET /healthz HTTP/1.1", "Connection: close"))
        assert [reply.status for reply in replies][1:] == [200] and replies[0].status in (200, 202)
        assert closed


TRAILERS = {"no trailer": b"", "a trailer": b"X: y\r\n", "no name": b": a\r\n", "two, no name": b"X: y\r\n: a\r\n",
            "a NUL": b"\0X: y\r\n"}


@pytest.mark.parametrize("encoding", [b"Transfer-Encoding: chunked", b"transfer-encoding:CHUNKED"])
@pytest.mark.parametrize("trailer", TRAILERS.values(), ids=TRAILERS.keys())
def test_a_chunked_body_ends_its_connection(server, encoding, trailer):
    """Implementations disagree about its end, so a request in its trailer must not be executed."""
    body = b"%x;ext=\"\n\"\r\n%s\r\n0\r\n%s" % (len(JOB), JOB, trailer)
    replies, closed = wire.converse(server, post(encoding, body=body, host=b"Host: " + wire.host(server).encode()) +
                                    b"\r\n" + SECOND)
    assert len(replies) <= 1 and closed
    assert all(reply.status in (200, 202, 400) and not reply.rest for reply in replies)
    assert replies or trailer  # the server may wait for a trailer, and no more data follows


def test_a_head_in_pieces_is_read_as_a_whole_one(server):
    """However the bytes arrive: the buffer into which they are read grows and is reused."""
    one = wire.head(server, "GET /healthz HTTP/1.1", "X-Long: " + "x" * 9000, "Cookie: a=b", "X-Empty:", "X-Short: y")
    with wire.connect(server) as connection, connection.makefile("rb") as stream:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for size in (3, 500, 4096, len(one)):
            for at in range(0, len(one), size):
                connection.sendall(one[at:at + size])
            assert wire.read_reply(stream).status == 200
        connection.sendall(5 * one)  # pipelined
        assert [wire.read_reply(stream).status for _ in range(5)] == 5 * [200]


@pytest.mark.parametrize("target", ["/v1/jobs%00", "/%00", "/v1?%00=1", "/v1/jobs?label=a%00b", "/v1/jobs?label=%0",
                                    "/v1/jobs?label=%zz", "/%", "/%0g", "/v1/jobs?label=\x7f", "/v1/jobs?label=\xe9",
                                    "/v1/jobs?label=\x01", "/v1 /x", "/v1/jobs?label=a\tb"])
def test_bad_targets_are_400(server, target):
    line = f"GET {target} HTTP/1.1".encode("latin-1")
    replies, closed = wire.converse(server, line + b"\r\nHost: x\r\n\r\n" + SECOND)
    assert [reply.status for reply in replies] == [400] and closed
    assert replies[0].json()["type"] == "/problems/malformed-request"


NULS = {"behind the path": b"GET /v1\0 HTTP/1.1", "within the path": b"GET /v1\0/jobs HTTP/1.1",
        "before the path": b"GET \0/v1 HTTP/1.1", "in the query": b"GET /v1/jobs?limit=5\0&label=x HTTP/1.1",
        "behind the method": b"GET\0 /v1 HTTP/1.1", "within the method": b"GET\0X /v1 HTTP/1.1",
        "for the path": b"GET \0 HTTP/1.1", "behind the version": b"GET /v1 HTTP/1.1\0",
        "for a space": b"GET /v1\0HTTP/1.1", "first": b"\0GET /v1 HTTP/1.1"}


@pytest.mark.parametrize("line", NULS.values(), ids=NULS.keys())
def test_a_nul_in_the_request_line_is_400(server, line):
    """It would end the head for this server, but not for a proxy."""
    replies, closed = wire.converse(server, line + b"\r\nHost: " + wire.host(server).encode() + b"\r\n\r\n" + SECOND)
    assert [reply.status for reply in replies] == [400] and closed


# ---------------------------------------------------------------- hosts and origins

def ask(server, method, path, host=None, origin=None):
    headers = {"Content-Type": "application/json"}
    headers.update({"Host": host} if host else {})
    headers.update({"Origin": origin} if origin else {})
    return server.request(method, path, headers=headers, data=JOB if path == "/v1/jobs" else None)


def port(server):
    return wire.address(server)[1]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:PORT", "127.0.0.1.evil.example:PORT", "192.0.2.7:PORT",
                                  "localhost.evil.example", "[2001:db8::1]:PORT", "localhost@evil.example", "0x7f.1"])
def test_foreign_hosts_read_and_change_nothing(server, host):
    """The DNS of an attacker points a name to this machine: a page under that name has our Origin and could read."""
    host = host.replace("PORT", str(port(server)))
    job_id = server.solve(GAUSSIAN)["id"]
    for method, path in (("POST", "/v1/jobs"), ("POST", f"/v1/jobs/{job_id}/cancel"), ("DELETE", f"/v1/jobs/{job_id}"),
                         ("GET", "/v1/jobs"), ("GET", f"/v1/jobs/{job_id}"), ("GET", f"/v1/jobs/{job_id}/events"),
                         ("GET", "/"), ("GET", "/metrics"), ("GET", "/healthz"), ("GET", "/nowhere"),
                         ("OPTIONS", "/v1"),
                         ("PUT", "/v1/jobs")):
        answer = ask(server, method, path, host=host)
        if "@" in host:
            check_problem(answer, 400, "malformed-request")
        else:
            assert "--allow-host" in check_problem(answer, 403, "forbidden")["detail"]
    answer = ask(server, "HEAD", f"/v1/jobs/{job_id}", host=host)
    assert answer.status_code == (400 if "@" in host else 403) and not answer.content
    assert server.get(f"/v1/jobs/{job_id}").status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "https://evil.example", "http://127.0.0.1", "null",
                                    "http://localhost:1", "http://127.0.0.1:PORT.evil.example", "file://",
                                    "http://evil.example:PORT", "https://127.0.0.1:1", "", "127.0.0.1:PORT"])
def test_pages_of_other_sites_change_nothing(server, origin):
    origin = origin.replace("PORT", str(port(server))) or "http://"
    job_id = server.solve(GAUSSIAN)["id"]
    for method, path in (("POST", "/v1/jobs"), ("POST", f"/v1/jobs/{job_id}/cancel"), ("DELETE", f"/v1/jobs/{job_id}")):
        check_problem(ask(server, method, path, origin=origin), 403, "forbidden")
    assert server.get(f"/v1/jobs/{job_id}").status_code == 200


def test_a_page_cannot_cancel_a_job(launch):
    """Any open page could do this: for a POST without a body, browsers ask no permission."""
    server = launch()
    job_id = server.post(ENDLESS).json()["id"]
    page = {"Origin": "https://news.example", "Content-Type": "text/plain"}
    check_problem(server.request("POST", f"/v1/jobs/{job_id}/cancel", headers=page), 403, "forbidden")
    assert server.until(job_id, "running")
    assert server.request("POST", f"/v1/jobs/{job_id}/cancel").status_code == 202


def test_our_own_names_and_pages_may(server):
    number = port(server)
    for name in (f"127.0.0.1:{number}", f"localhost:{number}", f"LOCALHOST:{number}", "localhost", f"[::1]:{number}",
                 f"localhost.:{number}"):
        assert ask(server, "POST", "/v1/jobs", host=name).status_code in (200, 202), name
        assert ask(server, "POST", "/v1/jobs", host=name, origin=f"http://{name}").status_code in (200, 202), name
    # The port of a URL may be omitted.
    assert ask(server, "POST", "/v1/jobs", host="localhost", origin="http://localhost:80").status_code in (200, 202)
    assert ask(server, "POST", "/v1/jobs", host="localhost:443", origin="https://localhost").status_code in (200, 202)


def test_a_refusal_costs_no_body(server):
    """It is sent before the client is asked for the body."""
    data = b"POST /v1/jobs HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\n" \
           b"Expect: 100-continue\r\nContent-Length: 100\r\n\r\n"
    replies, closed = wire.converse(server, data)
    assert [reply.status for reply in replies] == [403] and closed


def test_hosts_are_allowed_by_name(launch):
    server = launch("--allow-host", "dp.example.com, Other.example", "--allow-host", "third.example")
    for name in ("dp.example.com", "OTHER.EXAMPLE:8443", "third.example"):
        assert ask(server, "POST", "/v1/jobs", host=name).status_code in (200, 202)
        # A proxy that terminates TLS and forwards under our own name.
        assert ask(server, "POST", "/v1/jobs", origin=f"https://{name}").status_code in (200, 202)
    check_problem(ask(server, "POST", "/v1/jobs", host="x.dp.example.com"), 403, "forbidden")
    check_problem(ask(server, "POST", "/v1/jobs", host="dp.example.com", origin="https://x.example"), 403, "forbidden")
    anyone = launch("--allow-host", "*")
    assert ask(anyone, "POST", "/v1/jobs", host="x.example", origin="https://y.example").status_code in (200, 202)


def test_a_wildcard_is_known_by_its_addresses(launch):
    """As in a container, whose published port is reached under the addresses of the host."""
    server = launch("--listen", "0.0.0.0:0", "--insecure")
    server.url = server.url.replace("0.0.0.0", "127.0.0.1")
    for name in ("localhost:8080", "127.0.0.1:8080", "192.168.1.7:8080", "[2001:db8::1]", "10.0.0.1"):
        assert ask(server, "POST", "/v1/jobs", host=name).status_code in (200, 202), name
    check_problem(ask(server, "POST", "/v1/jobs", host="epsilond:8080"), 403, "forbidden")
    check_problem(ask(server, "POST", "/v1/jobs", host="10.0.0.1", origin="http://10.0.0.2"), 403, "forbidden")


# ---------------------------------------------------------------- every method on every path

def test_head_and_options_are_answered_everywhere(server):
    job_id = server.solve(DP_SGD)["id"]
    paths = ["/v1/jobs", f"/v1/jobs/{job_id}", f"/v1/jobs/{job_id}/cancel", f"/v1/jobs/{job_id}/curve",
             f"/v1/jobs/{job_id}/matrix", f"/v1/jobs/{job_id}/error", "/v1", "/healthz", "/readyz", "/metrics",
             "/openapi.yaml", "/problems/internal", "/nowhere", "*"]
    for path in paths:
        for method in ("OPTIONS", "TRACE", "CONNECT", "PROPFIND", "PATCH", "PUT", "X" * 300):
            replies, _ = wire.converse(server, wire.head(server, f"{method} {path} HTTP/1.1", "Connection: close"))
            assert len(replies) == 1 and replies[0].status in (204, 404, 405), (method, path)
        answer = requests.request("HEAD", server.url + path) if path != "*" else None
        assert answer is None or (not answer.content and answer.status_code in (200, 404, 405))


def test_no_answer_is_sniffed(server):
    """JSON with a label in it must not be interpreted as a page, whatever the label looks like."""
    job_id = server.solve(dict(GAUSSIAN, label="<html><script>alert(1)</script>"))["id"]
    for path in ("", "/curve", "/error", "/matrix", "/statement", "/nowhere"):
        for accept in ("application/json", "text/csv", "*/*", "image/png"):
            answer = server.get(f"/v1/jobs/{job_id}{path}", headers={"Accept": accept})
            assert answer.headers["X-Content-Type-Options"] == "nosniff", (path, accept)
            again = {"Accept": accept, "If-None-Match": answer.headers.get("ETag", '"none"')}
            assert server.get(f"/v1/jobs/{job_id}{path}", headers=again).headers["X-Content-Type-Options"] == "nosniff"
    for method, path in (("GET", "/v1/jobs"), ("POST", "/v1/jobs"), ("GET", "/"), ("GET", "/dashboard/style.css"),
                         ("GET", "/openapi.yaml"), ("GET", "/metrics"), ("GET", "/healthz"), ("OPTIONS", "/v1"),
                         ("PUT", "/v1"), ("GET", "/v1/jobs?limit=x"), ("POST", "/v1/noise"), ("POST", "/v1/batches")):
        answer = ask(server, method, path)
        assert answer.headers["X-Content-Type-Options"] == "nosniff", (method, path)
