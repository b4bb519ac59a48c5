#!/usr/bin/env python3
"""Checks that every cited lemma exists, that every lemma is cited and has an existing test, and that bounds are rounded
by named functions.

A lemma is identified by the letter of its room and a number: (A7). Each room of lib that has a LEMMAS.md has its own
letter and numbers its lemmas from 1 without gaps. Factors such as (1 + 1e-12), and units of roundoff in a product,
belong in lib/numerics/bound.h. Prints TAP.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SLACK = re.compile(r"\(1 [+-] (sign \* )?([0-9.]+e-[0-9]+|[0-9.]* ?\*? ?EPS__UNIT_ROUNDOFF)\)|\b1 [+-] 1e-1[0-9]\b")


def rooms():
    """Room -> {lemma: its text}."""
    found = {}
    for path in sorted((ROOT / "lib").rglob("LEMMAS.md")):
        parts = re.split(r"^## ([A-Z]\d+)\..*$", path.read_text(), flags=re.M)
        found[path.parent] = dict(zip(parts[1::2], parts[2::2]))
    return found


def misnumbered(known):
    """Rooms that share a letter, and lemmas that are not numbered consecutively."""
    letters = [{number[0] for number in lemmas} for lemmas in known.values()]
    wrong = [f"the letters {found} belong to several rooms" for found in letters if len(found) != 1]
    wrong += ["two rooms share a letter"] if len(set.union(*letters)) != len(known) else []
    for room, lemmas in known.items():
        numbers = [int(number[1:]) for number in lemmas]
        wrong += [f"{room.relative_to(ROOT)}: {number} is out of order"
                  for i, number in enumerate(numbers, 1) if number != i]
    return wrong


def citations(text, letters):
    """The lemmas that a text cites."""
    return re.findall(rf"(?<![\w/.\"])([{letters}]\d+)(?!\w)", text)


def main():
    known, wrong, cited, slack = rooms(), [], set(), []
    letters = "".join(sorted({number[0] for lemmas in known.values() for number in lemmas}))
    numbers = {number for lemmas in known.values() for number in lemmas}
    for path in sorted((ROOT / "lib").rglob("*.[ch]")):
        text = path.read_text()
        for comment in re.findall(r"/\*.*?\*/", text, re.S):
            found = citations(comment, letters)
            cited.update(found)
            wrong += [f"{path.relative_to(ROOT)} cites {number}, which is no lemma" for number in found
                      if number not in numbers]
        if path.name not in ("bound.h", "verify.c"):
            slack += [f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, m.start()) + 1}: {m.group(0)}"
                      for m in SLACK.finditer(text)]
    tests = "".join(p.read_text() for kind in ("*.c", "*.py") for p in (ROOT / "tests").rglob(kind))
    names = set(re.findall(r"static void (\w+)\(void \*\*|def test_(\w+)\(", tests))
    names = {name for pair in names for name in pair}
    bare = misnumbered(known)
    for room, lemmas in known.items():
        for number, text in lemmas.items():
            at = f"{room.relative_to(ROOT)}/LEMMAS.md, {number}"
            cited.update(found := [other for other in citations(text, letters) if other != number])
            wrong += [f"{at} cites {other}, which is no lemma" for other in found if other not in numbers]
            line = re.search(r"^(?:Test:|\*\*Tested by\*\*)(.*)", text, re.M | re.S)
            named = re.findall(r"`(\w+)`", line[1]) if line else []
            files = re.findall(r"tests/[\w./]+\.(?:c|py)", line[1]) if line else []
            bare += [] if named or files else [f"{at} names no test"]
            bare += [f"{at}: there is no test {name}" for name in named if name not in names]
            bare += [f"{at}: there is no {file}" for file in files if not (ROOT / file).exists()]
    bare += [f"{number} is cited nowhere" for number in sorted(numbers - cited)]
    failed = 0
    print("1..3")
    for number, (name, found) in enumerate((("every lemma that is cited exists", wrong),
                                            ("lemmas are numbered, cited, and have a test that exists", bare),
                                            ("bounds are rounded by name", slack)), 1):
        failed += bool(found)
        print(f"{'not ' if found else ''}ok {number} - {name}")
        for line in found:
            print(f"#   {line}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
