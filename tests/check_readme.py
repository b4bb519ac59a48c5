"""Replays the README: every `$ ` command in a console block runs against the real server, and what it prints
must be what the README shows. Numbers may differ by the default tolerance of an answer (a better search may end
elsewhere in the bracket); ids and times are not shown. The C program is compiled against the header and the shared library, and run. Prints TAP, one
test a command.

    check_readme.py [--update]      --update writes what the server says into the README instead

The commands of one block share a shell and an empty folder, so that a later one can use what an earlier one
found. In place of localhost:8080 stands the server under test; `epsilond` is the binary that EPSILOND names.

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


def run(block, address):
    """Runs a block's commands in one shell; returns what each printed."""
    script = ""
    for command, _ in commands(block):
        script += re.sub(r"^[$>] ", "", command, flags=re.M) + f"printf '{MARK}'\n"
    path = os.path.dirname(EPSILOND) + ":/usr/bin:" + os.environ["PATH"]  # Debian's Python, which has NumPy
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["bash", "-c", script.replace("localhost:8080", address)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=300, cwd=folder,
                              env={**os.environ, "PATH": path})
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


def update(text, address):
    def replace(match):
        pairs = commands(match.group(1))
        printed = run(match.group(1), address)
        return "".join(command + output for (command, _), output in zip(pairs, printed))
    return BLOCK.sub(replace, text)


def compile_and_run(text, folder):
    """The README's C program, built as a user of the installed library would; what it printed, or the errors."""
    source, program = os.path.join(folder, "readme.c"), os.path.join(folder, "readme")
    libraries = os.path.dirname(EPSILOND)
    with open(source, "w", encoding="utf-8") as file:
        file.write(re.search(r"^```c\n(.*?)^```$", text, re.M | re.S).group(1))
    for command in (["cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "-Ilib", "-o", program, source,
                     "-L" + libraries, "-lepsilon", "-lgsl"], [program]):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
                              env={**os.environ, "LD_LIBRARY_PATH": libraries})
        if done.returncode != 0:
            return done.stdout
    return done.stdout


def check(text, address, folder):
    pairs = [(pair, block) for block in BLOCK.findall(text) for pair in commands(block)]
    outputs = [output for block in BLOCK.findall(text) for output in
               (run(block, address) + [""] * len(commands(block)))[:len(commands(block))]]
    print(f"1..{len(pairs) + 1}")
    failures = 0
    for number, (((command, shown), _), printed) in enumerate(zip(pairs, outputs), 1):
        good = same(shown, printed)
        failures += not good
        print(f"{'ok' if good else 'not ok'} {number} - {command[2:].splitlines()[0][:90]}")
        if not good:
            print("".join(f"# shown:   {line}\n" for line in shown.splitlines()) +
                  "".join(f"# printed: {line}\n" for line in printed.splitlines()), end="")
    printed = compile_and_run(text, folder)
    good = re.fullmatch(r"epsilon \d+\.\d+\n", printed) is not None
    print(f"{'ok' if good else 'not ok'} {len(pairs) + 1} - the C program")
    if not good:
        print("".join(f"# printed: {line}\n" for line in printed.splitlines()), end="")
    return 1 if failures or not good or not pairs else 0


def main():
    with open(README, encoding="utf-8") as file:
        text = file.read()
    with tempfile.TemporaryDirectory() as folder:
        server, address = start(folder)
        try:
            if sys.argv[1:] == ["--update"]:
                updated = update(text, address)
                with open(README, "w", encoding="utf-8") as file:
                    file.write(updated)
                return 0
            return check(text, address, folder)
        finally:
            server.terminate()
            server.wait(30)


sys.exit(main())
