#!/bin/sh
# Checks that extensible parts are one file and one row each: outside its own row, no code refers to a scheme, an
# accountant or a family by name. Prints TAP.
#
# SPDX-License-Identifier: GPL-3.0-or-later
set -u
number=0

# result BAD NAME: BAD describes the failure; empty if there is none.
result() {
    number=$((number + 1))
    if [ -z "$1" ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        echo "$1" | sed 's/^/# /'
    fi
}

# only NAMES ROOM MEMBER ELSEWHERE WHAT: the names occur only in lib/epsilon.h, in the MEMBER of a row in the files of
# ROOM, and in ELSEWHERE. Also checks that they do occur there, which detects a wrong spelling in this script.
only() {
    found=$(grep -rnE --include='*.[ch]' "$1" lib api server | grep -vE "^(lib/epsilon\.h|$4):" |
        grep -vE "^$2/[a-z_/]*\.c:[0-9]+:.*\.$3 = ($1)[A-Z_]*[,}]")
    grep -rqE --include='*.c' "\.$3 = ($1)" "$2" || found="$found no row has such a name"
    result "$found" "$5 are named in their own rows alone"
}

echo "1..9"
# The table of members lists which members belong to which.
only 'EPS_SCHEME_(NONE|[A-Z_]*POISSON|BALLS|B_MIN)' lib/sampling/schemes scheme 'lib/base/members\.c' schemes
# `auto` is not an accountant but the choice among them.
only 'EPS_ACCOUNTANT_(GAUSSIAN|PLD|MMCC|RENYI|COND|MONTE)' lib/accountants method 'lib/base/members\.c' accountants
only 'EPS_FAMILY_(IDENTITY|TOEPLITZ|DENSE|[A-Z_]*SQUARE_ROOT|BANDED|BLT|OPTIMAL|TREE|FOURIER|STORED)' \
    lib/strategy/families family 'lib/base/members\.c' families
# The differences between kinds of strategies are in their rows.
result "$(grep -rnE --include='*.c' 'kind [!=]= ' lib/strategy)" "nothing in lib/strategy asks which kind it has"
# What fills a block in may use how one is held, not the other way round.
upward='' above=''
for room in families optimise kinds sensitivity; do
    upward=$upward$(grep -rnE --include='*.[ch]' "lib/strategy/(none$above)/" "lib/strategy/$room")
    above="$above|$room"
done
result "$upward" "the rooms of lib/strategy use each other in one direction"
# A database applies the migrations that it lacks in order, so their numbers must be consecutive.
result "$(ls migrations | awk '{ if ($0 !~ sprintf("^%04d_[a-z_]+\\.sql$", NR)) print $0 " is not number " NR }')" \
    "migrations are numbered consecutively from 1"
# A mutant whose line was rewritten would not be tested.
result "$(python3 tests/mutants/mutants.py --check 2>&1 | grep -v '^mutants: ')" \
    "every mutant matches the sources, every lemma has one"
# Sources are read in columns.
result "$(find lib api server tests docker .ci/run \
    \( -name '*.[ch]' -o -name '*.py' -o -name '*.js' -o -name '*.sh' -o -name run \) \
    -exec awk 'length($0) > 120 { print FILENAME ":" FNR }' {} +)" "no line of a source is over 120 columns"
# More than these are pairs and triples that belong together. eps_noise_create() is public, on_request() is called by
# libmicrohttpd, tls_choose() by GnuTLS. A definition or declaration begins a line; OF(name) is a name, too.
result "$(python3 - <<'END'
import pathlib, re
for path in (p for room in ("lib", "api", "server", "tests") for p in pathlib.Path(room).rglob("*.[ch]")):
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
    function = r"^\w[^;{}()=]*?(\w+(?:\(\w+\))?)\(((?:[^()]|\([^()]*\))*)\)\s*[;{]"
    for name, list in re.findall(function, text, flags=re.M):
        if re.sub(r"\([^()]*\)", "", list).count(",") >= 7 and name not in (
                "eps_noise_create", "on_request", "tls_choose"):
            print(path, name)
END
)" "no function has more than 7 parameters"
