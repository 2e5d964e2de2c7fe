#!/usr/bin/env bash
# Installs those of these Debian packages that are missing: `ci/debian-packages.sh lld-22`. Standard output stays empty.
set -euo pipefail

missing=()
for package in "$@"; do
    status=$(dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null || true)
    [ "$status" = "install ok installed" ] || missing+=("$package")
done
[ "${#missing[@]}" -gt 0 ] || exit 0

command -v apt-get >/dev/null || { echo "this check needs Debian's packages ${missing[*]}" >&2; exit 1; }
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q >&2
"${as_root[@]}" apt-get install -qy --no-install-recommends "${missing[@]}" >&2
