"""
HTTPS: the service with a certificate of its own, a new one at SIGHUP, and what it refuses.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import hashlib
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

import pytest
import requests

from conftest import BINARY, DP_SGD, ENDLESS, GAUSSIAN, ROOT, until

sys.path.insert(0, str(ROOT / "api" / "python"))

import epsilond  # noqa: E402


def make(folder, name):
    """A certificate for 127.0.0.1 and its key, both new."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
                    "-out", certificate], check=True, capture_output=True)
    return certificate, key


@pytest.fixture
def secure(launch, tmp_path):
    certificate, key = make(tmp_path, "first")
    server = launch("--tls-cert", str(certificate), "--tls-key", str(key))
    server.session.verify = str(certificate)
    server.session.trust_env = False  # which might name other authorities
    server.certificate, server.key = certificate, key
    return server


def port_of(server):
    return int(server.url.rsplit(":", 1)[1])


def shown(server):
    """The certificate that the service shows in a new connection, and the version of TLS."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port_of(server)), 60) as plain, context.wrap_socket(plain) as wrapped:
        return wrapped.getpeercert(binary_form=True), wrapped.version()


def test_everything_is_served_by_https(secure):
    assert secure.url.startswith("https://127.0.0.1:")
    job = secure.solve(DP_SGD)
    assert job["status"] == "succeeded"
    answer = secure.get(job["links"]["self"])
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
    page = requests.get(secure.url + "/", verify=str(secure.certificate), headers={"Origin": secure.url}, timeout=60)
    assert page.status_code == 200
    posted = requests.post(secure.url + "/v1/jobs", json=GAUSSIAN, verify=str(secure.certificate),
                           headers={"Origin": secure.url}, timeout=60)
    assert posted.status_code in (200, 202)
    matrix = {"n": 512, "matrix": {"family": "dense", "rows": [[1 / (1 + i + j) for j in range(i + 1)]
                                                               for i in range(512)]},
              "sampling": {"scheme": "none"}, "noise_multiplier": 1, "delta": 1e-6}
    large = secure.solve(matrix)  # a body of megabytes, and a matrix back
    rows = secure.get(large["links"]["matrix"], headers={"Accept": "application/x-npy"})
    assert rows.status_code == 200 and len(rows.content) > 8 * 512 * 512


def test_streams_of_events_and_noise(secure):
    context = ssl.create_default_context(cafile=str(secure.certificate))
    with epsilond.Client(secure.url, context=context) as client:
        job = client.submit(ENDLESS)
        events = client.events(job)
        assert next(events).kind == "progress"
        client.cancel(job)
        assert list(events)[-1].kind == "job"
        wide = client.solve(dict(GAUSSIAN, n=200))
        digest = hashlib.sha256()
        for row in client.noise(wide, dimensions=20000):  # 32 MB
            digest.update(row.tobytes())
        assert len(digest.digest()) == 32


def test_many_clients_at_once(secure):
    """Handshakes and requests of 40 clients; none is lost."""
    seen = []

    def ask():
        for _ in range(5):
            answer = requests.get(secure.url + "/healthz", verify=str(secure.certificate), timeout=60)
            seen.append(answer.json()["status"])

    threads = [threading.Thread(target=ask) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == ["ok"] * 200


def test_a_new_certificate_is_taken_at_a_hangup(secure, tmp_path):
    first, version = shown(secure)
    assert version == "TLSv1.3" and secure.get("/healthz").status_code == 200
    certificate, key = make(tmp_path, "second")

    def reload(expect):
        before = secure.log_text().count("event=certificate")
        secure.process.send_signal(signal.SIGHUP)
        until(lambda: secure.log_text().count("event=certificate") > before)
        assert expect in [line for line in secure.log_text().splitlines() if "event=certificate" in line][-1]

    secure.certificate.write_bytes(certificate.read_bytes())
    reload("is not that of the first certificate")  # the key is still the former one
    assert shown(secure)[0] == first
    secure.key.write_bytes(key.read_bytes())
    reload("file=")
    second = shown(secure)[0]
    assert second != first and second == ssl.PEM_cert_to_DER_cert(certificate.read_text())
    assert secure.get("/healthz").status_code == 200  # the connection that was open
    secure.key.write_text("no key")
    reload("the former certificate stays in use")
    assert shown(secure)[0] == second
    for _ in range(20):
        secure.key.write_bytes(key.read_bytes())
        reload("file=")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_old_versions_and_plain_requests_are_refused(secure):
    for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = version
        with socket.create_connection(("127.0.0.1", port_of(secure)), 60) as plain, pytest.raises(OSError):
            context.wrap_socket(plain)
    context = ssl.create_default_context(cafile=str(secure.certificate))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", port_of(secure)), 60) as plain, \
            context.wrap_socket(plain, server_hostname="127.0.0.1") as wrapped:
        assert wrapped.version() == "TLSv1.2"
    with socket.create_connection(("127.0.0.1", port_of(secure)), 60) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            assert not plain.recv(1000).startswith(b"HTTP")
        except ConnectionResetError:
            pass
    assert secure.get("/healthz").status_code == 200


def test_who_does_not_finish_the_handshake_is_closed(launch, tmp_path):
    certificate, key = make(tmp_path, "only")
    server = launch("--tls-cert", str(certificate), "--tls-key", str(key), "--idle-seconds", "1")
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port_of(server)), 60) as plain:
        plain.sendall(b"\x16\x03\x01")
        assert plain.recv(100) == b""
    assert time.monotonic() - began < 30


def test_what_is_no_certificate_is_refused(tmp_path):
    certificate, key = make(tmp_path, "one")
    _, other = make(tmp_path, "other")
    empty = tmp_path / "empty"
    empty.write_text("")
    locked = tmp_path / "locked"
    subprocess.run(["openssl", "ec", "-in", key, "-aes256", "-passout", "pass:secret", "-out", locked], check=True,
                   capture_output=True)
    for given, private, why in ((certificate, other, "is not that of"), (empty, key, str(empty)),
                                (tmp_path / "none", key, "none"), (certificate, certificate, str(certificate)),
                                (certificate, empty, str(empty)), (certificate, locked, str(locked))):
        ended = subprocess.run([BINARY, "serve", "--listen", "127.0.0.1:0", "--db", str(tmp_path / "x.db"),
                                "--tls-cert", str(given), "--tls-key", str(private)], capture_output=True, text=True,
                               timeout=60)
        assert ended.returncode == 1 and why in ended.stderr, ended.stderr
    ended = subprocess.run([BINARY, "serve", "--tls-cert", str(certificate)], capture_output=True, text=True,
                           timeout=60)
    assert ended.returncode == 2 and "--tls-key" in ended.stderr
    assert not (tmp_path / "x.db").exists()


class Authority:
    """An authority that certifies clients."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.certificate, self.key = folder / f"{name}.pem", folder / f"{name}.key"
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                     "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE", "-addext",
                     "keyUsage=critical,keyCertSign", "-keyout", self.key, "-out", self.certificate)

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=self.folder)

    def certify(self, name, usage="clientAuth", days=2):
        """Returns the files of a certificate and its key."""
        certificate, key = self.folder / f"{self.name}-{name}.pem", self.folder / f"{self.name}-{name}.key"
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                     "-keyout", key, "-out", "request")
        (self.folder / "extensions").write_text(f"extendedKeyUsage={usage}\n" if usage else "")
        self.openssl("x509", "-req", "-in", "request", "-CA", self.certificate, "-CAkey", self.key, "-days", str(days),
                     "-extfile", "extensions", "-out", certificate)
        return str(certificate), str(key)


def greets(server, client, version=None):
    """Whether the service answers a client with this certificate and key (None: without one)."""
    context = ssl.create_default_context(cafile=str(server.certificate))
    if version:
        context.minimum_version = context.maximum_version = version
    if client:
        context.load_cert_chain(*client)
    try:
        with socket.create_connection(("127.0.0.1", port_of(server)), 60) as plain, \
                context.wrap_socket(plain, server_hostname="127.0.0.1") as wrapped:
            wrapped.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return wrapped.recv(1000).startswith(b"HTTP/1.1 200")
    except OSError:  # with TLS 1.3, after the handshake of the client
        return False


def resumes(server, client, version):
    """Whether a second connection continues the session of the first."""
    context = ssl.create_default_context(cafile=str(server.certificate))
    context.minimum_version = context.maximum_version = version
    context.load_cert_chain(*client)
    session = None
    for _ in range(2):
        with socket.create_connection(("127.0.0.1", port_of(server)), 60) as plain, \
                context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as wrapped:
            wrapped.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert wrapped.recv(1000).startswith(b"HTTP/1.1 200")
            session, reused = wrapped.session, wrapped.session_reused
    return reused


def test_clients_need_a_certificate_of_the_authority(launch, tmp_path):
    certificate, key = make(tmp_path, "server")
    authority, other = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    trusted = tmp_path / "clients.pem"
    trusted.write_bytes(authority.certificate.read_bytes())
    server = launch("--tls-cert", str(certificate), "--tls-key", str(key), "--tls-client-ca", str(trusted))
    server.certificate = certificate
    good, stranger = authority.certify("alice"), other.certify("alice")
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        assert greets(server, good, version)
        assert greets(server, authority.certify("any", usage=None), version)
        for client in (None, stranger, authority.certify("server", "serverAuth"), authority.certify("late", days=-1),
                       (str(certificate), str(key))):
            assert not greets(server, client, version), client
        assert not resumes(server, good, version)  # which would show no certificate
    # A new authority, for new connections; one that cannot be read changes nothing.
    for text, event, who in ((other.certificate.read_bytes(), "event=certificate file=", stranger),
                             (b"no certificate", "the former certificate stays in use", stranger),
                             (authority.certificate.read_bytes() + other.certificate.read_bytes(),
                              "event=certificate file=", good)):
        before = server.log_text().count(event)
        trusted.write_bytes(text)
        server.process.send_signal(signal.SIGHUP)
        until(lambda: server.log_text().count(event) > before)
        assert greets(server, who) and not greets(server, None)
        assert greets(server, stranger) and greets(server, good) == (who is good)
    server.stop()


def test_the_authority_of_clients_must_be_readable(tmp_path):
    certificate, key = make(tmp_path, "server")
    (tmp_path / "empty").write_text("")
    for options, status, why in ((["--tls-cert", certificate, "--tls-key", key], 1, str(tmp_path / "empty")),
                                 ([], 2, "--tls-client-ca needs --tls-cert")):
        for command in ("serve", "doctor"):
            ended = subprocess.run([BINARY, command, "--listen", "127.0.0.1:0", "--db", tmp_path / "x.db",
                                    "--tls-client-ca", tmp_path / "empty", *options], capture_output=True, text=True,
                                   timeout=60)
            assert ended.returncode == status and why in ended.stderr + ended.stdout
    assert not (tmp_path / "x.db").exists()
