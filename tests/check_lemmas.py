#!/usr/bin/env python3
"""Every lemma that is cited exists, every lemma is cited and has a test that exists, and bounds are rounded by name.

A citation is (L7), of the file's own room, or the room's path before it: lib/numerics, L1, or numerics/LEMMAS.md, L1. A room is the nearest folder above with
a LEMMAS.md. Factors like (1 + 1e-12), and units of roundoff in a product, belong in lib/numerics/bound.h. Speaks TAP.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SLACK = re.compile(r"\(1 [+-] (sign \* )?([0-9.]+e-[0-9]+|[0-9.]* ?\*? ?EPS__UNIT_ROUNDOFF)\)|\b1 [+-] 1e-1[0-9]\b")


def rooms():
    """Room -> {lemma number: its text}."""
    found = {}
    for path in sorted((ROOT / "lib").rglob("LEMMAS.md")):
        parts = re.split(r"^## (L\d+)\..*$", path.read_text(), flags=re.M)
        found[path.parent] = dict(zip(parts[1::2], parts[2::2]))
    return found


def room_of(path, known):
    return next((folder for folder in path.parents if folder in known), None)


def citations(text):
    """(room's path or None, number) of each."""
    for match in re.finditer(r"(?:lib/)?(\w+)(?:/LEMMAS\.md)?, (L\d+)|(?<![\w/])\(?(L\d+)(?=[\s),:;.]|$)", text):
        room, number, own = match.groups()
        yield (ROOT / "lib" / room if room and (ROOT / "lib" / room).is_dir() else None), number or own


def main():
    known, wrong, cited, slack = rooms(), [], set(), []
    for path in sorted((ROOT / "lib").rglob("*.[ch]")):
        text, own = path.read_text(), room_of(path, known)
        for comment in re.findall(r"/\*.*?\*/", text, re.S):
            for room, number in citations(comment):
                room = room or own
                if number not in known.get(room, {}):
                    wrong.append(f"{path.relative_to(ROOT)} cites {number}, which {room} has not")
                cited.add((room, number))
        if path.name not in ("bound.h", "verify.c"):
            slack += [f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, m.start()) + 1}: {m.group(0)}"
                      for m in SLACK.finditer(text)]
    tests = "".join(p.read_text() for kind in ("*.c", "*.py") for p in (ROOT / "tests").rglob(kind))
    names = set(re.findall(r"static void (\w+)\(void \*\*|def test_(\w+)\(", tests))
    names = {name for pair in names for name in pair}
    bare = []
    for room, lemmas in known.items():
        for number, text in lemmas.items():
            at = f"{room.relative_to(ROOT)} {number}"
            line = re.search(r"^Test:(.*)", text, re.M | re.S)
            named = re.findall(r"`(\w+)`", line[1]) if line else []
            files = re.findall(r"tests/[\w./]+\.(?:c|py)", line[1]) if line else []
            bare += [] if named or files else [f"{at} names no test"]
            bare += [f"{at}: there is no test {name}" for name in named if name not in names]
            bare += [f"{at}: there is no {file}" for file in files if not (ROOT / file).exists()]
            if (room, number) not in cited and not any(number in citing for citing in cross(known, room)):
                bare.append(f"{at} is cited nowhere")
    failed = 0
    print("1..3")
    for number, (name, found) in enumerate((("every lemma that is cited exists", wrong),
                                            ("every lemma is cited, and has a test that exists", bare),
                                            ("bounds are rounded by name", slack)), 1):
        failed += bool(found)
        print(f"{'not ' if found else ''}ok {number} - {name}")
        for line in found:
            print(f"#   {line}")
    sys.exit(bool(failed))


def cross(known, room):
    """The lemmas of a room that lemmas of others cite by its path."""
    for other, lemmas in known.items():
        for text in lemmas.values():
            yield [number for of, number in citations(text) if of == room or (of is None and other == room)]


if __name__ == "__main__":
    main()
