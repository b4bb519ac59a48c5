#!/usr/bin/env bash
# Executes the Dockerfile without a container engine: FROM, WORKDIR, COPY, RUN and USER line by line in THIS root file
# system, both stages one after the other, and then runs what the image would run. It is meant for a bare Debian 12 in a
# chroot or a disposable machine, because it installs packages, adds a user and writes to /src, /out and /usr/bin. It
# therefore requires confirmation: docker/check.sh --here
#
# Both stages share one root, so a run-time package that is missing in the second stage would not be noticed. The last
# check therefore verifies that every library of the binary comes from a package that the second stage installs.
#
# SPDX-License-Identifier: GPL-3.0-or-later
set -euo pipefail
if [ "${1:-}" != --here ] || [ "$(id -u)" != 0 ]; then
    sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
project=$(cd "$(dirname "$0")/.." && pwd)
user=root stage=0 packages=
cd /

drop() {
    setpriv --reuid="$user" --regid="$user" --init-groups "$@"
}

# as_user COMMAND: a shell command, as the current user.
as_user() {
    if [ "$user" = root ]; then sh -c "$1"; else drop sh -c "$1"; fi
}

copy() {
    case $1 in
    --from=*) mkdir -p "$(dirname "$3")" && cp -a "$2" "$3" ;;
    .) tar -C "$project" --exclude=./build --exclude=./.git -cf - . | tar -xf - ;;
    *) echo "check: unsupported: COPY $*" >&2 && exit 1 ;;
    esac
}

while read -r word rest; do
    case $word in
    FROM) stage=$((stage + 1)) user=root && cd / && echo "check: stage $stage: $rest" ;;
    WORKDIR) mkdir -p "$rest" && cd "$rest" ;;
    COPY) # shellcheck disable=SC2086
        copy $rest ;;
    USER) user=$rest ;;
    RUN)
        echo "check: RUN $rest"
        [ "$stage" = 1 ] || packages="$packages $rest"
        as_user "$rest" </dev/null ;;
    '' | '#'* | VOLUME | EXPOSE | STOPSIGNAL | HEALTHCHECK | ENTRYPOINT | CMD) ;;
    *) echo "check: unsupported instruction: $word" >&2 && exit 1 ;;
    esac
done <"$project/Dockerfile"

echo "check: as $user in $PWD: epsilond --version"
as_user "/usr/bin/epsilond --version"
as_user "touch /var/lib/epsilond/writable && rm /var/lib/epsilond/writable"

forgotten=0
for soname in $(objdump -p /usr/bin/epsilond | sed -n 's/^ *NEEDED *//p'); do
    file=$(ldd /usr/bin/epsilond | awk -v want="$soname" '$1 == want { print $3 }')
    owner=$(dpkg -S "*/$(basename "$(readlink -f "$file")")" | head -n 1 | cut -d: -f1)
    case " $packages libc6 libm6 " in
    *" $owner "*) ;;
    *) echo "check: $soname belongs to $owner, which the second stage does not install" && forgotten=1 ;;
    esac
done
[ "$forgotten" = 0 ]

# The command and the health check of the image, on another port.
setpriv --reuid="$user" --regid="$user" --init-groups \
    /usr/bin/epsilond serve --listen 127.0.0.1:18080 --db /var/lib/epsilond/check.db >/dev/null 2>&1 &
server=$!
healthy=1
for _ in $(seq 50); do
    curl -fsS -o /dev/null http://127.0.0.1:18080/healthz 2>/dev/null && healthy=0 && break
    sleep 0.1
done
kill "$server" && wait "$server" || true
rm -f /var/lib/epsilond/check.db*
[ "$healthy" = 0 ] && echo "check: the image builds, starts and is healthy"
