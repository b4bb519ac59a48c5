#!/bin/sh
# Checks that the shared library exports exactly the functions that the public header marks EPS_API, and that the header
# compiles by itself as C and as C++. Prints TAP. B, BIN and CC as in tests/run.sh.
#
# SPDX-License-Identifier: GPL-3.0-or-later
set -u
B=${B:-build/release} BIN=${BIN:-build} CC=${CC:-cc}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0 number=0

# result STATUS NAME DETAIL-FILE
result() {
    number=$((number + 1))
    if [ "$1" = 0 ]; then
        echo "ok $number - $2"
    else
        failures=1
        echo "not ok $number - $2"
        sed 's/^/# /' "$3"
    fi
}

echo "1..5"
# The header after preprocessing: one declaration per line, only the marked ones, the name before the parameters.
$CC -E -P lib/epsilon.h | tr '\n' ' ' | tr ';' '\n' | grep -F 'visibility("default")' |
    sed 's/.*visibility("default")))//; s/__attribute__((warn_unused_result))//; s/(.*//' |
    grep -oE '[A-Za-z_0-9]+ *$' | tr -d ' ' | sort -u >"$work/declared"
nm -D --defined-only "$BIN/libepsilon.so" | awk '$2 ~ /[A-Z]/ { print $3 }' |
    grep -vE '^(__asan|__odr|__tsan|_init$|_fini$)' | sort -u >"$work/exported"
diff "$work/declared" "$work/exported" >"$work/diff"
same=$?
[ -s "$work/declared" ] || same=1
result $same "libepsilon.so exports what lib/epsilon.h declares (< declared only, > exported only)" "$work/diff"

printf '#include "lib/epsilon.h"\nint main(void) { return (int)sizeof(struct eps_job) == 0; }\n' >"$work/header.c"
cp "$work/header.c" "$work/header.cc"
$CC -std=gnu17 -pedantic -Wall -Wextra -Werror -I. -c -o "$work/c.o" "$work/header.c" 2>"$work/c.log"
result $? "the header compiles as C17" "$work/c.log"
g++ -std=c++17 -pedantic -Wall -Wextra -Werror -I. -c -o "$work/cc.o" "$work/header.cc" 2>"$work/cc.log"
result $? "the header compiles as C++17" "$work/cc.log"

# The serial OpenBLAS must be loaded, so that the library starts no threads of its own.
ldd "$BIN/libepsilon.so" | grep -E 'libopenblas|libblas|liblapack\.' >"$work/blas"
grep -v openblas-serial "$work/blas" >"$work/other"
result $([ ! -s "$work/other" ] && echo 0 || echo 1) "the only BLAS that is loaded is the serial OpenBLAS" "$work/other"

# Nor does it call what writes global variables, such as signgam.
nm -D --undefined-only "$BIN/libepsilon.so" | sed 's/.* //; s/@.*//' |
    grep -xE 'lgamma[flq]?|gamma[fl]?|strtok|gmtime|localtime|ctime|asctime|s?rand|s?random|drand48|setlocale|setenv' \
        >"$work/global"
result $([ ! -s "$work/global" ] && echo 0 || echo 1) "libepsilon.so calls nothing that writes globals" "$work/global"
exit $failures
