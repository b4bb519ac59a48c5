#!/bin/sh
# Checks that what `make install` installs works for a user who only knows pkg-config, under any prefix, after a build
# that was given none, and that `make uninstall` removes all of it. Prints TAP. B, BIN and CC as in tests/run.sh.
#
# SPDX-License-Identifier: GPL-3.0-or-later
set -u
B=${B:-build/release} BIN=${BIN:-build} CC=${CC:-cc}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work" relative-prefix' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL PREFIX DESTDIR
failures=0 number=0 log=$work/log

# result STATUS NAME
result() {
    number=$((number + 1))
    if [ "$1" = 0 ]; then
        echo "ok $number - $2"
    else
        failures=1
        echo "not ok $number - $2"
        sed 's/^/# /' "$log"
    fi
}

# build TARGET...: runs make in this tree, with the settings of its build.
build() {
    make -s B="$B" BIN="$BIN" CC="$CC" "$@" >"$log" 2>&1
}

# installed ROOT: lists every file and link under it.
installed() {
    (cd "$1" && find . ! -type d | sort)
}

# pc ARGUMENTS...: pkg-config, as called by a user of the prefix.
pc() {
    PKG_CONFIG_PATH="$work/prefix/lib/pkgconfig" pkg-config "$@"
}

# The cache of the loader belongs to the machine, so the test only checks whether it would be updated.
mkdir "$work/bin"
printf '#!/bin/sh\necho "$*" >>"%s"\n' "$work/ldconfig" >"$work/bin/ldconfig"
chmod +x "$work/bin/ldconfig"
PATH=$work/bin:$PATH

# loader_told: whether ldconfig has been called to write since the last check; whether it should be depends on the user.
loader_told() {
    told=$(grep -c '^$' "$work/ldconfig" 2>/dev/null)
    rm -f "$work/ldconfig"
    [ "${told:-0}" = 1 ]
}

echo "1..11"
build install PREFIX="$work/prefix" && [ "$(pc --variable=prefix epsilon)" = "$work/prefix" ] 2>>"$log"
result $? "an installation under a prefix that was not given to the build"

if [ "$(id -u)" = 0 ]; then
    loader_told
else
    ! loader_told && grep -q "LD_LIBRARY_PATH=$work/prefix/lib" "$log"
fi
result $? "an installation by root updates the loader cache, any other prints instructions"

cat >"$work/user.c" <<'C'
#include <epsilon.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    struct eps_job job;
    struct eps_result *result;
    struct eps_error error;
    eps_job_init(&job);
    job.mechanism.n = 100;
    job.mechanism.sampling.p = 0.01;
    job.query.epsilon = 1;
    job.query.delta = 1e-6;
    eps_job_defaults(&job);
    if (strcmp(eps_version(), EPS_VERSION) != 0)
        return 2;
    if (eps_solve(NULL, &result, &error, &job) != EPS_OK) {
        printf("%s: %s %s\n", eps_status_name(error.status), error.pointer, error.message);
        return 1;
    }
    printf("%s\n", eps_version());
    eps_result_destroy(result);
    return 0;
}
C
# shellcheck disable=SC2046
"$CC" -std=c17 -Wall -Wextra -Werror $(pc --cflags epsilon) -o "$work/user" "$work/user.c" $(pc --libs epsilon) \
    >"$log" 2>&1 &&
    LD_LIBRARY_PATH="$work/prefix/lib" "$work/user" >"$log" 2>&1
result $? "a program that does not mention GSL links with the flags of pkg-config, and runs"

[ "$(cat "$log")" = "$(pc --modversion epsilon)" ]
result $? "eps_version() is the version of pkg-config"

# shellcheck disable=SC2046
"$CC" -std=c17 $(pc --cflags epsilon) -o "$work/static" "$work/user.c" "$work/prefix/lib/libepsilon.a" \
    $(pc --static --libs epsilon) >"$log" 2>&1 && env -u LD_LIBRARY_PATH "$work/static" >"$log" 2>&1
result $? "a program links with the archive and the flags of pkg-config --static, and runs"

# While the major version is 0, the minor version may change structs, so it is part of the name that programs request
# from the loader.
soname=$(objdump -p "$work/user" | sed -n 's/^ *NEEDED *\(libepsilon.*\)/\1/p')
version=$(pc --modversion epsilon)
case $version in
0.*) [ "$soname" = "libepsilon.so.${version%.*}" ] ;;
*) [ "$soname" = "libepsilon.so.${version%%.*}" ] ;;
esac
result $? "the soname changes with every version that may break programs: $soname"

"$work/prefix/bin/epsilond" --version >"$log" 2>&1
result $? "the installed daemon runs"

grep -qx "ExecStart=$work/prefix/bin/epsilond serve .*" "$work/prefix/lib/systemd/system/epsilond.service" &&
    grep -qx "ExecStart=$work/prefix/bin/epsilond worker" "$work/prefix/lib/systemd/system/epsilond-worker.service" &&
    [ -e "$work/prefix/lib/systemd/system/epsilond.socket" ]
result $? "the units of systemd start the installed daemon"

build install DESTDIR="$work/stage" PREFIX=/usr && grep -qx 'prefix=/usr' "$work/stage/usr/lib/pkgconfig/epsilon.pc" &&
    ! loader_told
result $? "DESTDIR is where files are installed, and does not occur in them"

installed "$work/prefix" >"$work/files" && [ -s "$work/files" ] &&
    touch "$work/prefix/lib/somebody-elses" &&
    build uninstall PREFIX="$work/prefix" && installed "$work/prefix" >"$log" &&
    [ "$(cat "$log")" = ./lib/somebody-elses ] &&
    build uninstall DESTDIR="$work/stage" PREFIX=/usr && installed "$work/stage" >"$log" && [ ! -s "$log" ]
result $? "uninstall removes what install has installed, and nothing else"

! build install PREFIX=relative-prefix && grep -q 'PREFIX' "$log" && [ ! -e relative-prefix ]
result $? "a relative prefix is rejected"
exit $failures
