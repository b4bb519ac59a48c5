#!/bin/sh
# Puts the root file system of the image together: PROGRAM, curl for the health check, the shared libraries of both with
# their licences, a user, and a list of what is inside (SPDX 2.3). There is no shell and no package manager.
#
#   docker/root.sh PROGRAM ROOT      (in a Debian with the packages of the program; ROOT must not exist)
#
# SPDX-License-Identifier: GPL-3.0-or-later
set -eu
program=$1 root=$2 user=999
mkdir -p "$root"
cd "$root"
mkdir -p usr/bin usr/lib etc tmp proc dev var/lib/epsilond usr/share/doc/epsilond
for name in bin lib lib64; do # as in Debian, whose loader is /lib64/...
    [ ! -L "/$name" ] || { mkdir -p "usr/$name" && ln -s "usr/$name" "$name"; }
done
cp "$program" usr/bin/epsilond
cp /usr/bin/curl usr/bin/curl

# The libraries, by the names by which the loader asks for them. glibc loads libgcc_s itself when a thread ends.
# shellcheck disable=SC2086
copied="$program /usr/bin/curl"
for file in $(ldd $copied | sed -n 's|^.* => \(/[^ ]*\) (.*|\1|p; s|^[[:blank:]]*\(/[^ ]*\) (.*|\1|p') \
    "$(ldconfig -p | sed -n 's/.*libgcc_s\.so\.1 .* => //p' | head -n 1)"; do
    real=$(readlink -f "$file")
    place=$(readlink -f "$(dirname "$file")")/$(basename "$file")
    [ ! -e ".$place" ] || continue
    mkdir -p ".$(dirname "$place")"
    cp "$real" ".$place"
    copied="$copied $real"
done

printf 'root:x:0:0:root:/:/nonexistent\n' >etc/passwd
printf 'epsilond:x:%s:%s:epsilond:/var/lib/epsilond:/nonexistent\n' $user $user >>etc/passwd
printf 'root:x:0:\nepsilond:x:%s:\n' $user >etc/group
printf 'hosts: files dns\n' >etc/nsswitch.conf
chown $user:$user var/lib/epsilond
chmod 700 var/lib/epsilond
chmod 1777 tmp

# Files belong to packages under the names in dpkg's lists, which may be those before the merge of /lib into /usr.
packages=$(for file in $copied; do
    [ "$file" = "$program" ] || dpkg-query -S "$file" 2>/dev/null || dpkg-query -S "${file#/usr}" 
done | sed 's/: \/.*//' | tr -d ' ' | tr ',' '\n' | sort -u)
version=$("$program" --version | sed 's/^epsilond //; s/ .*//')
sbom=usr/share/doc/epsilond/sbom.spdx.json
{
    printf '{\n  "spdxVersion": "SPDX-2.3",\n  "dataLicense": "CC0-1.0",\n  "SPDXID": "SPDXRef-DOCUMENT",\n'
    printf '  "name": "epsilond-%s",\n' "$version"
    printf '  "documentNamespace": "https://spdx.org/spdxdocs/epsilond-%s-%s",\n' "$version" \
        "$(sha256sum "$program" | cut -c 1-32)"
    printf '  "creationInfo": {"created": "%s", "creators": ["Tool: docker/root.sh"]},\n' \
        "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
    printf '  "documentDescribes": ["SPDXRef-epsilond"],\n  "packages": [\n'
    printf '    {"SPDXID": "SPDXRef-epsilond", "name": "epsilond", "versionInfo": "%s", ' "$version"
    printf '"downloadLocation": "NOASSERTION", "filesAnalyzed": false, "licenseDeclared": "GPL-3.0-or-later"}'
    for package in $packages; do
        dpkg-query -W -f='${Package} ${Version} ${Architecture} ${source:Package} ${source:Version}\n' "$package"
    done | while read -r name number machine source source_number; do
        printf ',\n    {"SPDXID": "SPDXRef-%s", "name": "%s", "versionInfo": "%s", ' "$name" "$name" "$number"
        printf '"downloadLocation": "NOASSERTION", "filesAnalyzed": false, "sourceInfo": "built from %s %s", ' \
            "$source" "$source_number"
        printf '"externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", '
        printf '"referenceLocator": "pkg:deb/debian/%s@%s?arch=%s"}]}' \
            "$name" "$(echo "$number" | sed 's/+/%2B/g; s/:/%3A/g; s/~/%7E/g')" "$machine"
    done
    printf '\n  ],\n  "relationships": [\n'
    printf '    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", '
    printf '"relatedSpdxElement": "SPDXRef-epsilond"}'
    for package in $packages; do
        printf ',\n    {"spdxElementId": "SPDXRef-epsilond", "relationshipType": "DEPENDS_ON", '
        printf '"relatedSpdxElement": "SPDXRef-%s"}' "${package%%:*}"
    done
    printf '\n  ]\n}\n'
} >$sbom
for package in $packages; do
    name=${package%%:*}
    mkdir -p "usr/share/doc/$name"
    cp -L "/usr/share/doc/$name/copyright" "usr/share/doc/$name/"
done
