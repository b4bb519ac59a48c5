#!/bin/sh
# Builds the image from the Dockerfile by buildah, in a chroot, without an engine or a daemon; checks what it says of
# itself, and runs it (docker/inspect.sh). Needs root, and the package buildah.
#
#   docker/image.sh FOLDER      (for the images)
#
# From the environment: BASE, the first image (debian:12-slim). If no registry has it, mmdebstrap makes one from the
# packages of Debian.
#
# SPDX-License-Identifier: GPL-3.0-or-later
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
folder=$(cd "$1" && pwd)
base=${BASE:-docker.io/library/debian:12-slim}
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
b() {
    buildah --root "$folder/storage" --runroot "$folder/run" "$@"
}

if ! b inspect --type image localhost/base >/dev/null 2>&1; then
    if b pull -q "$base" >/dev/null 2>"$folder/pull.err"; then
        b tag "$base" localhost/base
    else
        echo "image: no registry has $base; its packages are taken from Debian"
        mmdebstrap --quiet --variant=minbase bookworm "$folder/base.tar"
        first=$(b from scratch)
        b add -q "$first" "$folder/base.tar" / >/dev/null
        b commit -q "$first" localhost/base >/dev/null
        b rm "$first" >/dev/null
        rm "$folder/base.tar"
    fi
fi
b bud -q --layers --format docker --build-arg BASE=localhost/base -t localhost/epsilond . >"$folder/build.log" 2>&1 ||
    { tail -n 30 "$folder/build.log" >&2; exit 1; }

config() {
    b inspect --type image --format "{{$1}}" localhost/epsilond
}
user=$(config .Docker.Config.User)
[ "$(config .Docker.Config.Entrypoint)" = '[/usr/bin/epsilond]' ]
[ "$(config .Docker.Config.StopSignal)" = SIGTERM ]
config .Docker.Config.Volumes | grep -q /var/lib/epsilond
config .Docker.Config.Healthcheck | grep -q /healthz
container=$(b from localhost/epsilond)
status=0
sh docker/inspect.sh "$(b mount "$container")" "$user" || status=$?
b umount "$container" >/dev/null
b rm "$container" >/dev/null
exit $status
