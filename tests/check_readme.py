"""Replays the README: every `$ ` command in a console block runs against the real server, and what it prints
must be what the README shows. Numbers may differ by the default tolerance of an answer (a better search may end
elsewhere in the bracket); ids and times are not shown. Prints TAP, one test a command.

    check_readme.py [--update]      --update writes what the server says into the README instead

The commands of one block share a shell and a folder with nothing but the README's C program in it, so that a later one
can use what an earlier one found. In place of localhost:8080 stands the server under test; `epsilond` is the binary
that EPSILOND names, and pkg-config knows the library as `make install` leaves it.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import os
import re
import subprocess
import sys
import tempfile

README = "README.md"
EPSILOND = os.path.abspath(os.environ.get("EPSILOND", "build/epsilond"))
TOLERANCE = 1e-3
MARK = "\x1e"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
BLOCK = re.compile(r"(?<=^```console\n)(.*?)(?=^```$)", re.M | re.S)


def commands(block):
    """The (command, expected output) pairs of a block: `$ ` opens a command, `> ` carries it on."""
    pairs = []
    for line in block.splitlines(keepends=True):
        if line.startswith("$ "):
            pairs.append([line, ""])
        elif not pairs:
            raise SystemExit("check_readme: a console block starts with a command")
        elif not pairs[-1][1] and line.startswith("> "):
            pairs[-1][0] += line
        else:
            pairs[-1][1] += line
    return pairs


def install(folder):
    """The library in a prefix of its own; what a shell needs to find it there."""
    make = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(["make", "-s", "install", "PREFIX=" + folder, "B=" + os.environ.get("B", "build/release"),
                           "BIN=" + os.environ.get("BIN", os.path.dirname(EPSILOND))], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=300, env=make)
    if done.returncode != 0:
        raise SystemExit("check_readme: " + done.stdout)
    return {"PKG_CONFIG_PATH": folder + "/lib/pkgconfig", "LD_LIBRARY_PATH": folder + "/lib"}


def run(block, address, program, environment):
    """Runs a block's commands in one shell, beside the C program; returns what each printed."""
    script = ""
    for command, _ in commands(block):
        script += re.sub(r"^[$>] ", "", command, flags=re.M) + f"printf '{MARK}'\n"
    path = os.path.dirname(EPSILOND) + ":/usr/bin:" + os.environ["PATH"]  # Debian's Python, which has NumPy
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "example.c"), "w", encoding="utf-8") as file:
            file.write(program)
        done = subprocess.run(["bash", "-c", script.replace("localhost:8080", address)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=300, cwd=folder,
                              env={**os.environ, **environment, "PATH": path})
    return done.stdout.replace(address, "localhost:8080").split(MARK)[:-1]


def same(shown, printed):
    """Whether two texts agree: word for word between the numbers, the numbers nearly."""
    if NUMBER.sub("#", shown) != NUMBER.sub("#", printed):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed))
    return all(a == b or abs(float(a) - float(b)) <= TOLERANCE * max(abs(float(a)), abs(float(b)))
               for a, b in pairs)


def start(folder):
    server = subprocess.Popen([EPSILOND, "serve", "--listen", "127.0.0.1:0", "--db", os.path.join(folder, "db")],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    line = server.stdout.readline()
    if not line.startswith("listening on http://"):
        raise SystemExit(f"check_readme: the server said {line!r}")
    return server, line.split("//", 1)[1].strip()


def update(text, run_block):
    def replace(match):
        return "".join(command + output for (command, _), output in zip(commands(match.group(1)),
                                                                        run_block(match.group(1))))
    return BLOCK.sub(replace, text)


def check(text, run_block):
    pairs = [pair for block in BLOCK.findall(text) for pair in commands(block)]
    outputs = [output for block in BLOCK.findall(text) for output in
               (run_block(block) + [""] * len(commands(block)))[:len(commands(block))]]
    print(f"1..{len(pairs)}")
    failures = 0
    for number, ((command, shown), printed) in enumerate(zip(pairs, outputs), 1):
        good = same(shown, printed)
        failures += not good
        print(f"{'ok' if good else 'not ok'} {number} - {command[2:].splitlines()[0][:90]}")
        if not good:
            print("".join(f"# shown:   {line}\n" for line in shown.splitlines()) +
                  "".join(f"# printed: {line}\n" for line in printed.splitlines()), end="")
    return 1 if failures or not pairs else 0


def main():
    with open(README, encoding="utf-8") as file:
        text = file.read()
    program = re.search(r"^```c\n(.*?)^```$", text, re.M | re.S).group(1)
    with tempfile.TemporaryDirectory() as folder:
        environment = install(folder)
        server, address = start(folder)

        def run_block(block):
            return run(block, address, program, environment)

        try:
            if sys.argv[1:] == ["--update"]:
                updated = update(text, run_block)
                with open(README, "w", encoding="utf-8") as file:
                    file.write(updated)
                return 0
            return check(text, run_block)
        finally:
            server.terminate()
            server.wait(30)


sys.exit(main())
