#!/usr/bin/env python3
"""Checks that every cited lemma exists, that every lemma is cited and has an existing test, and that bounds are rounded
by named functions.

A lemma is a letter, which is its room's, and a number: (A7). Each room of lib that has a LEMMAS.md has a letter of its
own and numbers its lemmas from 1 on, without a hole. A lemma has the parts of PARTS, in this order; "Used in" names all
files of lib whose comments cite it, and may name a LEMMAS.md that does. Factors like (1 + 1e-12), and units of roundoff
in a product, belong in lib/numerics/bound.h. Speaks TAP.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("**Statement.**", "**Proof.**", "**Rounding.**", "**Used in**", "**Tested by**")
OPTIONAL = "**Rounding.**"
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


def cited_by(known):
    """File of lib, as in "Used in" -> the lemmas that its comments, or its lemmas, cite."""
    letters = "".join(sorted({number[0] for lemmas in known.values() for number in lemmas}))
    found = {}
    for path in sorted((ROOT / "lib").rglob("*.[ch]")):
        comments = re.findall(r"/\*.*?\*/", path.read_text(), re.S)
        found[str(path.relative_to(ROOT))] = {number for comment in comments for number in citations(comment, letters)}
    for room, lemmas in known.items():
        found[f"{room.relative_to(ROOT)}/LEMMAS.md"] = {
            other for number, text in lemmas.items() for other in citations(text, letters) if other != number}
    return found


def misshapen(at, text):
    """A lemma's parts that are missing, doubled or out of order."""
    found = re.findall(r"^\*\*(?:Statement|Proof|Rounding|Used in|Tested by)\b\.?\*\*", text, re.M)
    wanted = [part for part in PARTS if part != OPTIONAL or part in found]
    wrong = [f"{at} has no part {part}" for part in wanted if part not in found]
    wrong += [f"{at} has the part {part} more than once" for part in PARTS if found.count(part) > 1]
    wrong += [f"{at} has the part {part}, which is written otherwise" for part in found if part not in PARTS]
    if not wrong and found != wanted:
        wrong.append(f"{at} has its parts in the order {' '.join(found)}, not {' '.join(wanted)}")
    return wrong


def misused(at, number, text, cites):
    """Files that "Used in" names and that do not cite the lemma, and files that cite it and are not named."""
    used = re.search(r"^\*\*Used in\*\*(.*?)(?=^\*\*|\Z)", text, re.M | re.S)
    named = set(re.findall(r"`(lib/[\w./]+)`", used[1])) if used else set()
    wrong = [] if named else [f"{at}: Used in names no file of lib in backticks"]
    for name in sorted(named):
        if not (ROOT / name).is_file():
            wrong.append(f"{at}: Used in names {name}, which does not exist")
        elif number not in cites.get(name, ()):
            wrong.append(f"{at}: Used in names {name}, which does not cite it")
    wrong += [f"{at}: {name} cites it and is not named in Used in" for name, numbers in sorted(cites.items())
              if number in numbers and name not in named and not name.endswith(".md")]
    return wrong


def main():
    known, wrong, cited, slack = rooms(), [], set(), []
    letters = "".join(sorted({number[0] for lemmas in known.values() for number in lemmas}))
    numbers = {number for lemmas in known.values() for number in lemmas}
    for path in sorted((ROOT / "lib").rglob("*.[ch]")):
        text = path.read_text()
        for comment in re.findall(r"/\*.*?\*/", text, re.S):
            found = citations(comment, letters)
            cited.update(found)
            wrong += [f"{path.relative_to(ROOT)} cites {number}, which is no lemma"
                      for number in found if number not in numbers]
        if path.name not in ("bound.h", "verify.c"):
            slack += [f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, m.start()) + 1}: {m.group(0)}"
                      for m in SLACK.finditer(text)]
    tests = "".join(p.read_text() for kind in ("*.c", "*.py") for p in (ROOT / "tests").rglob(kind))
    names = set(re.findall(r"^TEST(?:_WITH)?\((\w+)|def test_(\w+)\(", tests, re.M))
    names = {name for pair in names for name in pair}
    bare, cites, shape = misnumbered(known), cited_by(known), []
    for room, lemmas in known.items():
        for number, text in lemmas.items():
            at = f"{room.relative_to(ROOT)}/LEMMAS.md, {number}"
            cited.update(found := [other for other in citations(text, letters) if other != number])
            wrong += [f"{at} cites {other}, which is no lemma" for other in found if other not in numbers]
            line = re.search(r"^\*\*Tested by\*\*(.*)", text, re.M | re.S)
            named = re.findall(r"`(\w+)`", line[1]) if line else []
            files = re.findall(r"tests/[\w./]+\.(?:c|py)", line[1]) if line else []
            shape += misshapen(at, text) + misused(at, number, text, cites)
            bare += [] if named or files else [f"{at} names no test"]
            bare += [f"{at}: there is no test {name}" for name in named if name not in names]
            bare += [f"{at}: there is no {file}" for file in files if not (ROOT / file).exists()]
    bare += [f"{number} is cited nowhere" for number in sorted(numbers - cited)]
    failed = 0
    print("1..4")
    for number, (name, found) in enumerate((("every lemma that is cited exists", wrong),
                                            ("lemmas are numbered, cited, and have a test that exists", bare),
                                            ("bounds are rounded by name", slack),
                                            ("lemmas have all their parts, and name who uses them", shape)), 1):
        failed += bool(found)
        print(f"{'not ' if found else ''}ok {number} - {name}")
        for line in found:
            print(f"#   {line}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
