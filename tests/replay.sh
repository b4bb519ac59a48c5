#!/bin/sh
# Replays the corpus of a fuzz target without a fuzzer, in one process for all files. If it crashes, runs the files one
# by one to find the cause. Prints TAP, one test per file.
#
#   tests/replay.sh PROGRAM CORPUS
#
# SPDX-License-Identifier: GPL-3.0-or-later
set -u
program=$1 corpus=$2
count=$(find "$corpus" -type f 2>/dev/null | wc -l)
echo "1..$count"
if [ "$count" = 0 ]; then
    echo "# $corpus is empty" >&2
    exit 1
fi
together=0
"$program" "$corpus" >/dev/null 2>&1 || together=1
number=0 failures=0
for file in $(find "$corpus" -type f | sort); do
    number=$((number + 1))
    if [ "$together" = 0 ] || "$program" "$file" >/dev/null 2>"${TMPDIR:-/tmp}/replay.$$"; then
        echo "ok $number - $file"
    else
        failures=$((failures + 1))
        echo "not ok $number - $file"
        sed 's/^/# /' "${TMPDIR:-/tmp}/replay.$$"
    fi
done
rm -f "${TMPDIR:-/tmp}/replay.$$"
if [ "$together" != 0 ] && [ "$failures" = 0 ]; then
    echo "not ok $((number + 1)) - the whole corpus in one process"
fi
[ "$together" = 0 ]
