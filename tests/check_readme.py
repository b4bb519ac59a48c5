"""Replays the documentation: every `$ ` command in a console block of the pages below runs against the real server, and
its output must be what the page shows. Numbers may differ by the default tolerance of an answer (a better search may
end elsewhere in the bracket). Links to files and headings must lead somewhere. Prints TAP: one test a command, and one
for the links of each page.

    check_readme.py [--update] [PAGE...]      of these pages (default: all)
    check_readme.py --pages                   prints the pages, one a line

--update writes the server's answers into the pages instead.

Each page has a server and a database of its own. The commands of one block share a shell and a folder, so that a later
command can use what an earlier one found. The folder holds the page's programs: code blocks that follow a line which
ends with `NAME.c`: or `NAME.py`:. The server under test takes the place of localhost:8080; `epsilond` is the binary
that EPSILOND names, pkg-config finds the library as `make install` leaves it, and Python finds the client.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import os
import re
import subprocess
import sys
import tempfile

PAGES = ["README.md", "api/GUIDE.md", "api/DRAWING.md", "server/OPERATING.md", "lib/accountants/monte_carlo/README.md",
         "tests/paper/RESULTS.md", "api/python/README.md", "CONTRIBUTING.md",
         *(f"api/python/examples/{name}.md" for name in ("JAX", "JAX_PRIVACY", "OPACUS", "OPAKE", "TORCH"))]
EPSILOND = os.path.abspath(os.environ.get("EPSILOND", "build/epsilond"))
TOLERANCE = 1e-3
MARK = "\x1e"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
BLOCK = re.compile(r"(?<=^```console\n)(.*?)(?=^```$)", re.M | re.S)
PROGRAM = re.compile(r"`(\w+\.(?:c|py))`:\n\n```\w+\n(.*?)^```$", re.M | re.S)
FENCED = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")


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
    """Installs the library into a prefix of its own. Returns the variables by which a shell finds it there."""
    make = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(["make", "-s", "install", "PREFIX=" + folder, "B=" + os.environ.get("B", "build/release"),
                           "BIN=" + os.environ.get("BIN", os.path.dirname(EPSILOND))], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=300, env=make)
    if done.returncode != 0:
        raise SystemExit("check_readme: " + done.stdout)
    return {"PKG_CONFIG_PATH": folder + "/lib/pkgconfig", "LD_LIBRARY_PATH": folder + "/lib"}


def run(block, address, programs, environment):
    """Runs a block's commands in one shell, beside the page's programs; returns the output of each."""
    script = ""
    for command, _ in commands(block):
        script += re.sub(r"^[$>] ", "", command, flags=re.M) + f"printf '{MARK}'\n"
    path = os.path.dirname(EPSILOND) + ":/usr/bin:" + os.environ["PATH"]  # the Python of Debian, which has NumPy
    with tempfile.TemporaryDirectory() as folder:
        for name, program in programs:
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(program.replace("localhost:8080", address))
        done = subprocess.run(["bash", "-c", script.replace("localhost:8080", address)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=300, cwd=folder,
                              env={**os.environ, **environment, "PATH": path,
                                   "PYTHONPATH": os.path.abspath("api/python"), "PYTHONDONTWRITEBYTECODE": "1"})
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
        server.kill()
        raise SystemExit(f"check_readme: the server said {line!r}")
    return server, line.split("//", 1)[1].strip()


def replay(text):
    """For each console block of a page, the outputs of its commands; fewer where the shell ended early."""
    blocks, outputs = BLOCK.findall(text), []
    if not blocks:
        return outputs
    with tempfile.TemporaryDirectory() as folder:
        environment = install(folder) if "pkg-config" in text else {}
        server, address = start(folder)
        try:
            for block in blocks:
                outputs.append(run(block, address, PROGRAM.findall(text), environment))
        finally:
            server.terminate()
            server.wait(30)
    return outputs


def read(page):
    with open(page, encoding="utf-8") as file:
        return file.read()


def update(page):
    text = read(page)
    outputs = iter(replay(text))

    def replace(match):
        pairs, printed = commands(match.group(1)), next(outputs)
        if len(printed) != len(pairs):
            raise SystemExit(f"check_readme: {page}: a command ended the shell: {pairs[len(printed)][0]}")
        return "".join(command + output for (command, _), output in zip(pairs, printed))

    with open(page, "w", encoding="utf-8") as file:
        file.write(BLOCK.sub(replace, text))


def anchors(page):
    """The names that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", read(page)), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(page):
    broken = []
    for target, anchor in LINK.findall(FENCED.sub("", read(page))):
        path = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
        if not os.path.exists(path) or (anchor and anchor not in anchors(path)):
            broken.append(target + ("#" + anchor if anchor else ""))
    return broken


def check(page, first):
    """Prints the tests of a page, numbered from `first`; returns how many there were and how many failed."""
    text, number, failures = read(page), first, 0
    for block, outputs in zip(BLOCK.findall(text), replay(text)):
        pairs = commands(block)
        for (command, shown), printed in zip(pairs, outputs + [""] * (len(pairs) - len(outputs))):
            good = same(shown, printed)
            failures += not good
            print(f"{'ok' if good else 'not ok'} {number} - {page}: {command[2:].splitlines()[0][:90]}")
            number += 1
            if not good:
                print("".join(f"# shown:   {line}\n" for line in shown.splitlines()) +
                      "".join(f"# printed: {line}\n" for line in printed.splitlines()), end="")
    broken = broken_links(page)
    failures += bool(broken)
    print(f"{'not ok' if broken else 'ok'} {number} - {page}: links")
    print("".join(f"# leads nowhere: {link}\n" for link in broken), end="", flush=True)
    return number - first + 1, failures


def main():
    arguments = sys.argv[1:]
    if arguments == ["--pages"]:
        print("\n".join(PAGES))
        return 0
    updating = "--update" in arguments
    pages = [page for page in arguments if page != "--update"] or PAGES
    done = failed = 0
    for page in pages:
        if updating:
            update(page)
        else:
            tests, failures = check(page, done + 1)
            done, failed = done + tests, failed + failures
    if not updating:
        print(f"1..{done}")
    return 1 if failed else 0


sys.exit(main())
