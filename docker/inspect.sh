#!/bin/sh
# Checks the root file system of the image as its engine would run it: without privileges, read-only but for the volume
# and /tmp. Needs root, for chroot and mounts.
#
#   docker/inspect.sh ROOT USER[:GROUP]
#
# SPDX-License-Identifier: GPL-3.0-or-later
set -eu
if [ "${3:-}" != inside ]; then
    private=private
    unshare --mount true 2>/dev/null || private=unchanged # in a chroot, whose root is no mount
    exec unshare --mount --propagation $private --pid --fork sh "$0" "$1" "$2" inside
fi
root=$1 user=$2
fail() {
    echo "image: $*" >&2
    exit 1
}

case $user in 0 | 0:* | root | root:* | '') fail "it runs as root" ;; esac
size=$(du -s --apparent-size --block-size=1M "$root" | cut -f 1)
[ "$size" -lt 120 ] || fail "it has $size MB"
for name in sh bash dash ash busybox perl python3 apt dpkg; do
    found=$(find "$root" -name "$name" ! -type d | head -n 1)
    [ -z "$found" ] || fail "it has $found"
done
found=$(find "$root" -xdev -perm /6000 | head -n 1)
[ -z "$found" ] || fail "$found changes its user"
found=$(find "$root" -xdev ! -type l -perm /0002 ! -path "$root/tmp" | head -n 1)
[ -z "$found" ] || fail "everyone may write $found"

mount --bind "$root" "$root"
trap 'umount -R -l "$root"' EXIT
mount --make-private "$root"
mount -o remount,ro,bind "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/dev"
for device in null zero full random urandom; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=700,uid="${user%%:*}" tmpfs "$root/var/lib/epsilond"
inside() {
    env -i /usr/sbin/chroot --userspec="$user" "$root" "$@"
}
inside /usr/bin/epsilond --version
(exec env -i /usr/sbin/chroot --userspec="$user" "$root" /usr/bin/epsilond serve --listen 127.0.0.1:18080 \
    --db /var/lib/epsilond/epsilond.db) >"$root/tmp/log" 2>&1 &
server=$!
tries=0
until inside /usr/bin/curl -fsS -o /dev/null http://127.0.0.1:18080/healthz 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { cat "$root/tmp/log"; fail "it does not answer"; }
    sleep 0.1
done
job='{"n":100,"sampling":{"scheme":"poisson","p":0.01},"noise_multiplier":1.0,"delta":1e-6,
      "matrix":{"family":"optimal"}}'
answer=$(inside /usr/bin/curl -sS -H 'Content-Type: application/json' -d "$job" \
    'http://127.0.0.1:18080/v1/jobs?wait=60')
case $answer in *'"status":"succeeded"'*) ;; *) fail "$answer" ;; esac
inside /usr/bin/curl -fsS -o /dev/null http://127.0.0.1:18080/readyz || fail "it is not ready"
kill -TERM $server
wait $server || fail "it ended with status $?"
! grep -e level=error "$root/tmp/log" || fail "its log has errors"
packages=$(grep -c '"versionInfo"' "$root/usr/share/doc/epsilond/sbom.spdx.json")
echo "image: $size MB, user $user, read-only, no shell, $packages packages listed: it starts, computes and stops"
