#!/usr/bin/env bash
# The demonstration: starts epsilond on a free port with its own database, sends it three real questions with curl,
# prints each request and its answer, and stops it. Fails if any step fails.
#
# From the environment: EPSILOND (the binary).
#
# SPDX-License-Identifier: GPL-3.0-or-later
set -euo pipefail
epsilond=${EPSILOND:-build/epsilond}
work=$(mktemp -d)
server=
cleanup() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server" || true; }
    rm -rf "$work"
}
trap cleanup EXIT

fail() {
    echo "demo: $*" >&2
    [ ! -s "$work/log" ] || sed 's/^/demo: log: /' "$work/log" >&2
    exit 1
}

: >"$work/out" # exists before it is read, however late the server starts
"$epsilond" serve --listen 127.0.0.1:0 --db "$work/demo.db" >"$work/out" 2>"$work/log" &
server=$!
url=
for _ in $(seq 100); do
    url=$(sed -n '1s/^listening on //p' "$work/out")
    [ -z "$url" ] || break
    kill -0 "$server" 2>/dev/null || fail "the server did not start"
    sleep 0.1
done
[ -n "$url" ] || fail "the server did not print its address"
echo "epsilond listens on $url"

# ask QUESTION JOB CHECK SHOW: posts the job, waits for its end, verifies CHECK on the answer, and prints SHOW of it.
ask() {
    local question=$1 job=$2 check=$3 show=$4 status
    printf '\n=== %s\n\n' "$question"
    printf 'curl --json @- "%s/v1/jobs?wait=60" <<JOB\n%s\nJOB\n\n' "$url" "$(jq . <<<"$job")"
    status=$(curl -sS --json "$job" -o "$work/answer" -w '%{http_code}' "$url/v1/jobs?wait=60") ||
        fail "curl failed"
    [ "$status" = 200 ] || fail "HTTP $status: $(cat "$work/answer")"
    jq -e '.status == "succeeded"' "$work/answer" >/dev/null || fail "no success: $(cat "$work/answer")"
    jq -e "$check" "$work/answer" >/dev/null || fail "the answer does not satisfy $check: $(cat "$work/answer")"
    jq "$show" "$work/answer"
}

ask "DP-SGD: 1000 steps, sampling rate 1%, noise multiplier 1. Which epsilon does it have at delta = 1e-6?" \
    '{"n": 1000, "sampling": {"scheme": "poisson", "p": 0.01}, "noise_multiplier": 1, "delta": 1e-6}' \
    '.result | .epsilon > 0 and .epsilon == .bracket.upper and .bracket.lower > 0.99 * .bracket.upper' \
    '{status, result: .result | {solved_for, epsilon, delta, noise_multiplier, bracket, guarantee, directions}}'

ask "DP-FTRL: 20 epochs of 100 batches, square-root factorisation. How much noise gives epsilon 8?" \
    '{"n": 2000, "matrix": {"family": "square_root"}, "sampling": {"scheme": "none", "epochs": 20, "separation": 100},
      "epsilon": 8, "delta": 1e-6}' \
    '.result | .noise_multiplier > 0 and .noise_multiplier == .bracket.upper and
      .bracket.lower > 0.99 * .bracket.upper' \
    '{status, result: .result | {solved_for, noise_multiplier, epsilon, delta, bracket, sensitivity, error, hints}}'

ask "The whole privacy curve of that DP-SGD run" \
    '{"n": 1000, "sampling": {"scheme": "poisson", "p": 0.01}, "noise_multiplier": 1, "curve": true}' \
    '.result.solved_for == "curve"' \
    '{status, result: .result | {solved_for, noise_multiplier, accountant, guarantee}, curve: .links.curve}'

echo
echo "curl -H 'Accept: text/csv' $url$(jq -r '.links.curve' "$work/answer")"
curl -sSf -H 'Accept: text/csv' -o "$work/curve.csv" "$url$(jq -r '.links.curve' "$work/answer")" ||
    fail "the curve is not available"
[ "$(wc -l <"$work/curve.csv")" = 202 ] || fail "the curve has $(wc -l <"$work/curve.csv") lines, not 202"
awk 'NR == 1 || NR % 40 == 2' "$work/curve.csv"

kill -TERM "$server"
wait "$server" || fail "the server did not stop cleanly: exit status $?"
server=
printf '\nThree questions, three answers; the server has stopped cleanly.\n'
