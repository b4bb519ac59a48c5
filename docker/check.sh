#!/usr/bin/env bash
# Executes the Dockerfile without a container engine: WORKDIR, COPY and RUN of its first stage line by line in THIS root
# file system, and runs the folder that the second stage copies as the image would (docker/inspect.sh). It is meant
# for a bare Debian 12 in a chroot or a disposable machine, because it installs packages and writes to /src, /out and
# /image. It therefore requires confirmation: docker/check.sh --here
#
# With buildah, `make image-check` builds the image itself.
#
# SPDX-License-Identifier: GPL-3.0-or-later
set -euo pipefail
if [ "${1:-}" != --here ] || [ "$(id -u)" != 0 ]; then
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
project=$(cd "$(dirname "$0")/.." && pwd)
stage=0 user= image=
cd /

unsupported() {
    echo "check: unsupported: $*" >&2
    exit 1
}

while read -r word rest; do
    case $stage:$word in
    *:FROM) stage=$((stage + 1)) && cd / && echo "check: stage $stage: $rest" ;;
    1:WORKDIR) mkdir -p "$rest" && cd "$rest" ;;
    1:COPY)
        [ "$rest" = '. .' ] || unsupported "$word $rest"
        tar -C "$project" --exclude=./build --exclude=./.git -cf - . | tar -xf - ;;
    1:RUN) echo "check: RUN $rest" && sh -c "$rest" </dev/null ;;
    2:COPY)
        [[ $rest = --from=build\ /*\ / ]] || unsupported "$word $rest"
        image=${rest#* } && image=${image% /} ;;
    2:USER) user=$rest ;;
    *: | *:'#'* | 0:ARG | 2:WORKDIR | 2:VOLUME | 2:EXPOSE | 2:STOPSIGNAL | 2:HEALTHCHECK | 2:ENTRYPOINT | 2:CMD) ;;
    *) unsupported "$word $rest" ;;
    esac
done <"$project/Dockerfile"

sh "$project/docker/inspect.sh" "$image" "$user"
