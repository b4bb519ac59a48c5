#!/bin/sh
# Runs the tests of one flavour and counts the results: cmocka programs and the scripts in this folder print TAP; pytest
# writes JUnit. The last line is "N passed, N failed". A program that crashes counts as one failure, and so does one
# that runs no test.
#
#   tests/run.sh [unit] [paper] [truth] [soak] [tables] [toys] [exports] [install] [fuzz] [e2e] [readme]
#                [e2e-sanitized]     (default: all but the last)
#
# From the environment: B (objects), BIN (products), CC, PYTHON, TEST_TIMEOUT (seconds per program, 900), E2E_TIMEOUT
# (seconds for all of pytest, 1800; single tests have the timeout in tests/pytest.ini), JOBS (C programs, or files of
# pytest, run in parallel, by default the number of processors).
#
# pytest has half of the processes, as its servers and browsers are processes too, but two if there are two, as its
# tests wait much of the time. If other suites run, it starts first and runs in parallel with them; its line is printed
# in the usual order. C programs yield to it, because its tests have deadlines, and run one more at a time when it ends.
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
    echo $? >"$out.status"
    echo $(($(date +%s) - began)) >"$out.seconds"
}

judge() {
    name=$1
    out=$(out_of "$name")
    report=$out.report
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

tap() {
    run "$@"
    judge "$1"
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

# Runs several at a time and reports them in order.
programs() {
    names=
    for source in "tests/$1"/test_*.c "tests/$1"/*/test_*.c "tests/$1"/*/*/test_*.c; do
        [ ! -e "$source" ] || names="$names $(expr "$source" : 'tests/\(.*\)\.c')"
    done
    for name in $names; do
        rm -f "$(out_of "$name").status"
    done
    [ ! -e "$log/e2e.status" ] || JOBS=$all
    # shellcheck disable=SC2086
    printf '%s\n' $names | nice xargs -P "$JOBS" -I{} sh "$0" run-one {} &
    echo $! >"$log/programs.pid"
    wait $!
    rm -f "$log/programs.pid"
    for name in $names; do
        judge "$name"
    done
}

replays() {
    for source in tests/fuzz/fuzz_*.c; do
        [ -e "$source" ] || continue
        name=$(basename "$source" .c)
        name=${name#fuzz_}
        tap "fuzz/$name" sh tests/replay.sh "$B/tests/fuzz/replay_$name" "tests/fuzz/corpus/$name"
    done
}

# start_e2e ARGUMENTS...: runs pytest with the real binary in the background. At its deadline it is interrupted, so that
# it writes its report; background jobs of a shell ignore interrupts by default.
start_e2e() {
    rm -f "$log/e2e.xml" "$log/e2e.status" "$log/programs.pid"
    run_e2e "$@" &
}

run_e2e() {
    sanitizers "$(out_of e2e).report"
    began=$(date +%s)
    EPSILOND=$BIN/epsilond PYTHONDONTWRITEBYTECODE=1 \
        timeout -s INT -k 60 "${E2E_TIMEOUT:-1800}" env --default-signal=INT \
        "$PYTHON" -m pytest -p no:cacheprovider -q --tb=short -n "$((all > 3 ? all / 2 : all))" --dist loadfile \
        --junitxml="$log/e2e.xml" "$@" tests/e2e >"$log/e2e" 2>&1
    echo $? >"$log/e2e.status"
    echo $(($(date +%s) - began)) >"$log/e2e.seconds"
    [ ! -e "$log/programs.pid" ] || kill -USR1 "$(cat "$log/programs.pid")" # xargs runs one more at a time
}

# judge_e2e NAME: waits for pytest to end, and counts.
judge_e2e() {
    name=$1
    wait
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
    run "$2" "$B/tests/$2"
    exit 0
fi

all=${JOBS:-$(nproc)}
JOBS=$all
for suite in $suites; do
    case $suite in
    e2e) start_e2e ;;
    e2e-sanitized) start_e2e -m sanitized ;;
    *) continue ;;
    esac
    JOBS=$(((all + 1) / 2))
done

for suite in $suites; do
    case $suite in
    unit | paper | truth | soak) programs "$suite" ;;
    tables)
        tap tables sh tests/check_tables.sh
        B=$B tap circles "$PYTHON" tests/check_circles.py
        tap lemmas "$PYTHON" tests/check_lemmas.py
        ;;
    toys) tap toys "$PYTHON" tests/check_toys.py ;;
    exports) tap exports sh tests/check_exports.sh ;;
    install) tap install sh tests/check_install.sh ;;
    fuzz) replays ;;
    readme)
        for page in $("$PYTHON" tests/check_readme.py --pages || echo none); do
            EPSILOND=$BIN/epsilond tap "readme/$page" "$PYTHON" tests/check_readme.py "$page"
        done
        ;;
    e2e | e2e-sanitized) judge_e2e e2e ;;
    *) echo "run.sh: unknown suite: $suite" >&2; exit 2 ;;
    esac
done

[ "$skipped" = 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
