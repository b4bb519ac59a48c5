"""
epsilond doctor: each check, broken by real means: files, clocks, libraries and modes of the processor that are wrong.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import time

import pytest

from conftest import BINARY, GAUSSIAN, INSTRUMENTED, PATIENCE, Server, preload

# Checks that depend on this machine, and on the build.
UNSURE = ("disk", "isolation") if INSTRUMENTED else ("disk",)
# In place of functions of libraries.
OLD_SQLITE = 'const char *sqlite3_libversion(void) { return "3.7.17"; }'
OLD_BLAS = 'char *openblas_get_config(void) { return "OpenBLAS 0.3.1 NO_AFFINITY"; }'
THREADS = "int openblas_get_parallel(void) { return 1; }"
FLUSHING = ("#include <xmmintrin.h>\n"
            "__attribute__((constructor)) static void flush(void) { _mm_setcsr(_mm_getcsr() | 0x8040); }")
ROUNDING = "#include <fenv.h>\n__attribute__((constructor)) static void up(void) { fesetround(FE_UPWARD); }"
CLOCK = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int calls;
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_MONOTONIC)
        now->tv_sec -= BACK * calls++;
    return status;
}
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """A database with one job."""
    server = Server(tmp_path_factory.mktemp("doctor"))
    server.solve(GAUSSIAN)
    server.stop()
    return server.database


@pytest.fixture
def copy(database, tmp_path):
    shutil.copy(database, tmp_path / "copy.db")
    return tmp_path / "copy.db"


def preloaded(folder, source):
    """The environment in which this C code replaces what it defines."""
    (folder / "preload.c").write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "preload.so", folder / "preload.c"], check=True)
    return dict(os.environ, LD_PRELOAD=preload(folder / "preload.so"))


def visit(*options, binary=BINARY, **process):
    """The exit status, and {check: (verdict, text)}."""
    ended = subprocess.run([binary, "doctor", *map(str, options)], capture_output=True, text=True, timeout=PATIENCE,
                           **process)
    told = re.sub("^profiling:.*\n", "", ended.stderr, flags=re.M)  # of a build for coverage, by another user
    assert not told and ended.returncode in (0, 1), told
    lines = [re.fullmatch(r"(ok|warning|FAILED) +([a-z]+) +(.+)", line) for line in ended.stdout.splitlines()]
    found = {line[2]: (line[1], line[3]) for line in lines}
    assert list(found) == ["database", "wal", "disk", "libraries", "processor", "clock", "address", "keys",
                           "certificate", "isolation"]
    assert (ended.returncode == 1) == any(verdict == "FAILED" for verdict, _ in found.values())
    return found


def edit(path, *statements):
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def is_(found, check, verdict, text):
    assert found[check][0] == verdict and text in found[check][1], found[check]
    # Nothing else is affected, but for what this machine or the build decides.
    assert not [other for other in found if other not in (check, *UNSURE) and found[other][0] != "ok"], found


@pytest.mark.sanitized
def test_a_healthy_database_and_nothing_is_changed(launch):
    server = launch()
    server.solve(GAUSSIAN)
    found = visit("--db", server.database)  # while it is served
    assert all(found[check][0] == "ok" for check in found if check not in UNSURE), found
    assert "1 jobs" in found["database"][1]
    server.stop()
    before = open(server.database, "rb").read()
    assert visit("--db", server.database)["database"][0] == "ok"
    assert open(server.database, "rb").read() == before
    server.start()
    server.solve(dict(GAUSSIAN, n=5))
    server.kill()  # the log has the last commits
    files = [pathlib.Path(server.database + tail) for tail in ("", "-wal")]
    before = [file.read_bytes() for file in files]
    assert "2 jobs" in visit("--db", server.database)["database"][1]
    assert [file.read_bytes() for file in files] == before
    missing = server.folder / "missing.db"
    is_(visit("--db", missing), "database", "ok", "does not exist")
    assert not missing.exists()


@pytest.mark.sanitized
def test_options_are_those_of_serve():
    for options, why in ((["--loud"], "unknown option"), (["--workers", "0"], "--workers"), (["extra"], "extra")):
        ended = subprocess.run([BINARY, "doctor", *options], capture_output=True, text=True, timeout=PATIENCE)
        assert ended.returncode == 2 and why in ended.stderr and not ended.stdout
    found = visit(env=dict(os.environ, EPSILOND_DB="/no/such/folder/x.db"))
    assert found["disk"][0] == "FAILED" and "/no/such/folder" in found["disk"][1]


def test_damage(copy):
    whole = copy.read_bytes()
    [root] = sqlite3.connect(copy).execute("SELECT rootpage FROM sqlite_master WHERE name = 'jobs'").fetchone()
    at = (root - 1) * 4096
    for damaged in (whole[:at] + bytes(4096) + whole[at + 4096:], whole[:4096] + os.urandom(len(whole) - 4096),
                    whole[:-8192], b"this is no database" * 500):
        copy.write_bytes(damaged)
        is_(visit("--db", copy), "database", "FAILED", "restore a backup")


def test_schemas(copy):
    edit(copy, "PRAGMA user_version = 1000")
    is_(visit("--db", copy), "database", "FAILED", "run the newer epsilond")
    edit(copy, "PRAGMA user_version = 2")
    is_(visit("--db", copy), "database", "warning", "make a backup first")


def test_files_that_cannot_be_used(copy, tmp_path):
    os.link(copy, tmp_path / "second.db")
    is_(visit("--db", copy), "database", "FAILED", "hard links")
    os.remove(tmp_path / "second.db")
    is_(visit("--db", tmp_path), "database", "FAILED", "not a file")
    copy.chmod(0o444)
    tmp_path.chmod(0o755)
    if os.geteuid():
        is_(visit("--db", copy), "database", "FAILED", "owner or mode")
    else:  # as a user who is not root, as the service is
        for folder in tmp_path.parents[:3]:
            folder.chmod(0o755)
        binary = shutil.copy(BINARY, tmp_path)  # the project may be in a folder of root alone
        found = visit("--db", copy, binary=binary, user=65534, group=65534, extra_groups=[])
        assert found["database"][0] == "FAILED" and found["disk"][0] == "FAILED", found


def test_a_long_log(copy):
    with open(f"{copy}-wal", "wb") as file:
        file.truncate(300 << 20)
    found = visit("--db", copy)
    assert found["wal"][0] == "warning" and "300 MiB" in found["wal"][1]


def test_room_on_the_disk(copy):
    free = shutil.disk_usage(copy.parent).free
    is_(visit("--db", copy, "--max-db", "64MiB", "--spool-bytes", "0"), "disk", "ok", "are free")
    is_(visit("--db", copy, "--max-db", free * 2), "disk", "warning", "lower --max-db")
    is_(visit("--db", copy, "--max-db", "0"), "disk", "warning", "set --max-db")
    if not os.geteuid():
        small = copy.parent / "small"
        small.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", small], capture_output=True).returncode:
            pytest.skip("no right to mount")
        try:
            is_(visit("--db", small / "x.db"), "disk", "FAILED", "free some space")
        finally:
            subprocess.run(["umount", small], check=True)


def test_an_older_library(copy, tmp_path):
    is_(visit("--db", copy, env=preloaded(tmp_path, OLD_SQLITE)), "libraries", "FAILED", "SQLite 3.7.17 is loaded")
    is_(visit("--db", copy, env=preloaded(tmp_path, OLD_BLAS)), "libraries", "FAILED", "OpenBLAS 0.3.1 is loaded")
    is_(visit("--db", copy, env=preloaded(tmp_path, THREADS)), "libraries", "FAILED", "libopenblas0-serial")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the code is for x86-64")
def test_modes_of_the_processor(copy, tmp_path):
    for source in (FLUSHING, ROUNDING):
        is_(visit("--db", copy, env=preloaded(tmp_path, source)), "processor", "FAILED", "Do not preload")


def test_clocks(copy, tmp_path):
    is_(visit("--db", copy, env=preloaded(tmp_path, CLOCK.replace("BACK", "1000"))), "clock", "FAILED", "goes back")
    program = tmp_path / "epsilond"
    shutil.copy(BINARY, program)
    tomorrow = time.time() + 86400
    os.utime(program, (tomorrow, tomorrow))
    is_(visit("--db", copy, binary=program), "clock", "FAILED", "this program was installed")
    later = f"{int(tomorrow * 1000):012x}"
    edit(copy, f"UPDATE jobs SET id = '{later[:8]}-{later[8:]}' || substr(id, 14)")
    is_(visit("--db", copy), "clock", "FAILED", "the newest job was created")


def test_addresses(copy):
    is_(visit("--db", copy, "--listen", "nowhere"), "address", "FAILED", "HOST:PORT")
    is_(visit("--db", copy, "--listen", "203.0.113.1:80"), "address", "FAILED", "cannot listen")
    is_(visit("--db", copy, "--listen", "0.0.0.0:80"), "address", "FAILED", "--insecure")


def test_keys(copy, tmp_path):
    keys = tmp_path / "keys"
    drawn = subprocess.run([BINARY, "key", "new"], capture_output=True, text=True, check=True).stdout
    keys.write_text(drawn.splitlines()[-1] + "\n")
    keys.chmod(0o600)
    options = ("--db", copy, "--keys", keys)
    is_(visit(*options), "keys", "ok", "1")
    keys.chmod(0o604)
    is_(visit(*options), "keys", "warning", "chmod 600")
    keys.chmod(0o620)
    is_(visit(*options), "keys", "FAILED", "go-w")
    keys.chmod(0o600)
    keys.write_text("no key\n")
    is_(visit(*options), "keys", "FAILED", str(keys))
    is_(visit("--db", copy, "--insecure"), "keys", "warning", "everyone")


def test_certificates(copy, tmp_path):
    certificate, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
    options = ("--db", copy, "--tls-cert", certificate, "--tls-key", key)

    def certify(days):
        subprocess.run(["openssl", "req", "-x509", "-key", key, "-days", str(days), "-subj", "/CN=x", "-out",
                        certificate], check=True, capture_output=True)

    certify(90)
    key.chmod(0o640)
    is_(visit(*options), "certificate", "ok", "valid until")
    key.chmod(0o604)
    is_(visit(*options), "certificate", "FAILED", "private key")
    key.chmod(0o600)
    certify(3)
    is_(visit(*options), "certificate", "warning", "renew it")
    # The clock of the check is moved rather than that of the certificate.
    move = CLOCK.replace("CLOCK_MONOTONIC", "CLOCK_REALTIME").replace("static int calls;", "")
    move += "time_t time(time_t *out) { struct timespec now; clock_gettime(CLOCK_REALTIME, &now); return now.tv_sec; }"
    for away, text in ((-5 * 86400, "expired"), (86400, "only")):
        found = visit(*options, env=preloaded(tmp_path, move.replace("BACK * calls++", str(away))))
        assert found["certificate"][0] == "FAILED" and text in found["certificate"][1]
    certificate.write_text("")
    is_(visit(*options), "certificate", "FAILED", str(certificate))
