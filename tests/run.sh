#!/bin/sh
# Runs the tests of one flavour and counts the results: cmocka programs and the scripts in this folder print TAP; pytest
# writes JUnit. The last line is "N passed, N failed". A program that crashes counts as one failure, and so does one
# that runs no test.
#
#   tests/run.sh [unit] [paper] [truth] [soak] [tables] [toys] [exports] [install] [fuzz] [e2e] [readme]
#                [e2e-sanitized]     (default: all but the last)
#
# From the environment: B (objects), BIN (products), CC, PYTHON, TEST_TIMEOUT (seconds per program, 900), E2E_TIMEOUT
# (seconds for all of pytest, 1800), E2E_TEST_TIMEOUT (for each of its tests; that of tests/pytest.ini), JOBS (programs,
# or files of pytest, run in parallel, by default the number of processors).
#
# All but pytest is one pool, the longest first, whose results are printed in the order of the suites. pytest has half
# of the processes, as its servers and browsers are processes too, but two if there are two, as its tests wait much of
# the time. It starts first and runs in parallel with the pool, which yields to it, because its tests have deadlines,
# and runs one more at a time when it ends. The pool has the policy SCHED_IDLE, because patient cells of the servers
# have it, too, and get next to no time beside any other policy.
#
# SPDX-License-Identifier: GPL-3.0-or-later
set -u
B=${B:-build/release} BIN=${BIN:-build} PYTHON=${PYTHON:-/usr/bin/python3} CC=${CC:-cc}
export B BIN CC
suites=${*:-unit paper truth soak tables toys exports install fuzz e2e readme}
log=$B/tests/log
mkdir -p "$log"
passed=0 failed=0 skipped=0

# Sanitizers write to their own files, because the log of a server may be truncated before its report. sanitizers
# REPORT: sets the file name.
sanitizers() {
    report=$1
    export ASAN_OPTIONS="log_path=$report:detect_leaks=1:strict_string_checks=1"
    export UBSAN_OPTIONS="log_path=$report:print_stacktrace=1"
    export TSAN_OPTIONS="log_path=$report:exitcode=66:suppressions=$PWD/tests/tsan.supp"
    rm -f "$report".*
}

# out_of NAME: the file for its output; next to it are .err, .status and .report.*
out_of() {
    echo "$(cd "$log" && pwd)/$(echo "$1" | tr / _)"
}

# count NAME OK NOT_OK SKIPPED SECONDS: prints one line of the report and adds the counts.
count() {
    passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
    printf '  %-50s %5d passed %4d s' "$1" "$2" "$5"
    [ "$3" = 0 ] || printf ', %d FAILED' "$3"
    [ "$4" = 0 ] || printf ', %d skipped' "$4"
    printf '\n'
}

# run NAME COMMAND...: runs it. judge NAME: counts the lines of its TAP.
run() {
    out=$(out_of "$1")
    shift
    sanitizers "$out.report"
    began=$(date +%s)
    CMOCKA_MESSAGE_OUTPUT=TAP timeout -k 10 "${TEST_TIMEOUT:-900}" "$@" >"$out" 2>"$out.err"
    status=$?
    echo $(($(date +%s) - began)) >"$out.seconds"
    echo $status >"$out.status" # last: it is waited for
}

# run_one NAME: what belongs to the name.
run_one() {
    case $1 in
    tables) run "$1" sh tests/check_tables.sh ;;
    circles) run "$1" "$PYTHON" tests/check_circles.py ;;
    lemmas) run "$1" "$PYTHON" tests/check_lemmas.py ;;
    toys) run "$1" "$PYTHON" tests/check_toys.py ;;
    exports) run "$1" sh tests/check_exports.sh ;;
    install) run "$1" sh tests/check_install.sh ;;
    fuzz/*) run "$1" sh tests/replay.sh "$B/tests/fuzz/replay_${1#fuzz/}" "tests/fuzz/corpus/${1#fuzz/}" ;;
    readme/*) EPSILOND=$BIN/epsilond run "$1" "$PYTHON" tests/check_readme.py "${1#readme/}" ;;
    *) run "$1" "$B/tests/$1" ;;
    esac
}

# names SUITE: of what it runs, one a line.
names() {
    case $1 in
    unit | paper | truth | soak)
        for source in "tests/$1"/test_*.c "tests/$1"/*/test_*.c "tests/$1"/*/*/test_*.c; do
            [ ! -e "$source" ] || expr "$source" : 'tests/\(.*\)\.c'
        done
        ;;
    fuzz)
        for source in tests/fuzz/fuzz_*.c; do
            [ ! -e "$source" ] || expr "$source" : 'tests/fuzz/fuzz_\(.*\)\.c' | sed 's|^|fuzz/|'
        done
        ;;
    tables) printf '%s\n' tables circles lemmas ;;
    toys | exports | install) echo "$1" ;;
    readme) { "$PYTHON" tests/check_readme.py --pages || echo none; } | tr ' ' '\n' | sed 's|^|readme/|' ;;
    e2e | e2e-sanitized) echo e2e ;;
    *) echo "run.sh: unknown suite: $1" >&2; return 2 ;;
    esac
}

# What takes longest, so that no core waits for it at the end.
long='unit/memory/test_out_of_memory readme/api/GUIDE.md toys truth/test_draws truth/test_truth
unit/training/test_phases_best unit/ask/test_plan soak/test_jobs unit/memory/test_out_of_memory_store'

# start_pool NAME...: in the background.
start_pool() {
    rm -f "$log/pool.over"
    for name in "$@"; do
        rm -f "$(out_of "$name").status"
    done
    # shellcheck disable=SC2086
    {
        for name in $long; do
            printf '%s\n' "$@" | grep -xF "$name"
        done
        printf '%s\n' "$@" | grep -vxF "$(printf '%s\n' $long)"
    } >"$log/pool"
    [ ! -e "$log/e2e.status" ] || JOBS=$all
    idle="chrt --idle 0"
    $idle true 2>/dev/null || idle=nice
    (
        $idle xargs -P "$JOBS" -I{} sh "$0" run-one {} <"$log/pool" &
        echo $! >"$log/pool.pid"
        wait $!
        rm -f "$log/pool.pid"
        : >"$log/pool.over"
    ) &
}

judge() {
    name=$1
    out=$(out_of "$name")
    report=$out.report
    until [ -e "$out.status" ] || [ -e "$log/pool.over" ]; do
        sleep 0.1
    done
    [ -e "$out.status" ] || { : >"$out"; : >"$out.err"; echo 0 >"$out.seconds"; echo "none" >"$out.status"; }
    status=$(cat "$out.status")
    took=$(cat "$out.seconds")
    skips=$(grep -cE '^(not )?ok [0-9]+.*# SKIP' "$out")
    bad=$(grep -E '^not ok [0-9]+' "$out" | grep -vc '# SKIP')
    good=$(grep -E '^ok [0-9]+' "$out" | grep -vc '# SKIP')
    planned=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$out" | awk '{ n += $1 } END { print n + 0 }')
    if [ "$bad" = 0 ] && { [ "$status" != 0 ] || [ "$planned" = 0 ] || [ "$planned" != $((good + skips)) ]; }; then
        bad=1
        echo "# $name: exit status $status, $good of $planned tests ran to their end" >>"$out.err"
    fi
    count "$name" "$good" "$bad" "$skips" "$took"
    [ "$bad" = 0 ] || explain "$out" | sed 's/^/      /'
}

# explain OUT: prints what failed, the start of sanitizer reports, and the end of the output.
explain() {
    grep -E -A12 '^not ok' "$1" | grep -v '^ok'
    reports
    tail -n 40 "$1.err"
}

reports() {
    for file in "$report".*; do
        [ ! -e "$file" ] || head -n 40 "$file"
    done
}

# start_e2e ARGUMENTS...: runs pytest with the real binary in the background. At its deadline it is interrupted, so that
# it writes its report; background jobs of a shell ignore interrupts by default.
start_e2e() {
    rm -f "$log/e2e.xml" "$log/e2e.status" "$log/pool.pid"
    run_e2e "$@" &
    e2e=$!
}

run_e2e() {
    sanitizers "$(out_of e2e).report"
    # A daemon that is too slow to stop in order, as instrumented ones may be, ends with threads that nobody joins.
    export TSAN_OPTIONS="$TSAN_OPTIONS:report_thread_leaks=0"
    began=$(date +%s)
    EPSILOND=$BIN/epsilond PYTHONDONTWRITEBYTECODE=1 \
        timeout -s INT -k 60 "${E2E_TIMEOUT:-1800}" env --default-signal=INT \
        "$PYTHON" -m pytest -p no:cacheprovider -q --tb=short -n "$((all > 3 ? all / 2 : all))" --dist loadfile \
        --junitxml="$log/e2e.xml" ${E2E_TEST_TIMEOUT:+-o timeout="$E2E_TEST_TIMEOUT"} "$@" tests/e2e >"$log/e2e" 2>&1
    echo $? >"$log/e2e.status"
    echo $(($(date +%s) - began)) >"$log/e2e.seconds"
    [ ! -e "$log/pool.pid" ] || kill -USR1 "$(cat "$log/pool.pid")" 2>/dev/null # xargs runs one more at a time
}

# judge_e2e NAME: waits for pytest to end, and counts.
judge_e2e() {
    name=$1
    wait "$e2e"
    report=$(out_of e2e).report
    status=$(cat "$log/e2e.status")
    counts=$("$PYTHON" - "$log/e2e.xml" <<'PY'
import sys
import xml.etree.ElementTree as tree
try:
    suite = tree.parse(sys.argv[1]).getroot().find("testsuite")
    total, skipped = int(suite.get("tests")), int(suite.get("skipped"))
    bad = int(suite.get("failures")) + int(suite.get("errors"))
except (OSError, tree.ParseError, AttributeError):
    total, skipped, bad = 0, 0, 1
print(max(total - skipped - bad, 0), bad, skipped)
PY
    )
    # shellcheck disable=SC2086
    set -- $counts
    good=$1 bad=$2 skips=$3
    [ "$status" = 0 ] || [ "$bad" != 0 ] || bad=1
    [ "$good" != 0 ] || [ "$bad" != 0 ] || bad=1
    count "$name" "$good" "$bad" "$skips" "$(cat "$log/e2e.seconds")"
    [ "$bad" = 0 ] || { reports; tail -n 80 "$log/e2e"; } | sed 's/^/      /'
}

if [ "${1:-}" = run-one ]; then
    run_one "$2"
    exit 0
fi

all=${JOBS:-$(nproc)}
JOBS=$all
list=
for suite in $suites; do
    new=$(names "$suite") || exit 2
    list="$list $new"
done
for suite in $suites; do
    case $suite in
    e2e) start_e2e ;;
    e2e-sanitized) start_e2e -m sanitized ;;
    *) continue ;;
    esac
    JOBS=$(((all + 1) / 2))
done
# shellcheck disable=SC2046,SC2086
start_pool $(printf '%s\n' $list | grep -vx e2e)
for name in $list; do
    case $name in
    e2e) judge_e2e e2e ;;
    *) judge "$name" ;;
    esac
done
wait

[ "$skipped" = 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
