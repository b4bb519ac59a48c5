"""Replays the README: runs every `$ ` command of a console block against the real server, and compares its output with
the README. Numbers may differ by the default tolerance of a result (an improved search may end elsewhere in the
bracket); ids and times are not shown. Prints TAP, one test per command.

check_readme.py [--update]      --update writes the output of the server into the README instead

The commands of a block share a shell and a folder that contains only the C program of the README, so that a command
can use the output of earlier ones. localhost:8080 is replaced by the server under test, `epsilond` is the binary
named by EPSILOND, and pkg-config finds the library as installed by `make install`.
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
    """The (command, expected output) pairs of a block: `$ ` starts a command, `> ` continues it."""
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
    """Installs the library in its own prefix; returns the environment in which a shell finds it."""
    make = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(["make", "-s", "install", "PREFIX=" + folder, "B=" + os.environ.get("B", "build/release"),
                           "BIN=" + os.environ.get("BIN", os.path.dirname(EPSILOND))], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT,
                          text=True, timeout=300, env=make)
    if done.returncode != 0:
        raise SystemExit("check_readme: " + done.stdout)
    return {"PKG_CONFIG_PATH": folder + "/lib/pkgconfig", "LD_LIBRARY_PATH": folder + "/lib"}


def run(block, address, program, environment):
    """Runs the commands of a block in one shell, next to the C program; returns the output of each."""
    script = ""
    for command, _ in commands(block):
        script += re.sub(r"^[$>] ", "", command, flags=re.M) + f"printf '{MARK}'\n"
    path = os.path.dirname(EPSILOND) + ":/usr/bin:" + os.environ["PATH"]  # the Python of Debian, which has NumPy
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "example.c"), "w", encoding="utf-8") as file:
            file.write(program)
        done = subprocess.run(["bash", "-c", script.replace("localhost:8080", address)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=300, cwd=folder,
                              env={**os.environ, **environment, "PATH": path})
    return done.stdout.replace(address, "localhost:8080").split(MARK)[:-1]


def same(shown, printed):
    """Whether two texts agree: exactly between the numbers, and approximately in the numbers."""
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
