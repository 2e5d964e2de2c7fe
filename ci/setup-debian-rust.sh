#!/usr/bin/env bash
# Makes a Rust compiler that can rebuild the standard library: for ThreadSanitizer, which reports falsely on a
# library built without it, and for checking targets whose library is not installed.
#
# Debian's rustc-web comes with the library's sources but without the sanitizers' run-time libraries; rustup's
# toolchain has those. The folder made here is a sysroot of links to both, with a wrapper that calls Debian's
# compiler on it. Prints the wrapper's path; everything else goes to standard error.
set -euo pipefail
cd "$(dirname "$0")/.."

ci/debian-packages.sh rustc-web rust-web-src

debian=$(dpkg -L rustc-web | grep '/bin/rustc$' | head -n 1)
host=$(rustc -vV | sed -n 's/^host: //p')
theirs=$("$debian" --print sysroot)/lib/rustlib
ours=$(rustc --print sysroot)/lib/rustlib

root=${CARGO_TARGET_DIR:-target}/debian-rust
mkdir -p "$root"
root=$(cd "$root" && pwd)
libraries=$root/sysroot/lib/rustlib/$host/lib
rm -rf "$root/sysroot"
mkdir -p "$libraries"
ln -s "$theirs/src" "$theirs/etc" "$root/sysroot/lib/rustlib/"
ln -s "$theirs/$host/lib/"* "$ours/$host/lib/"librustc-*_rt.*.a "$libraries/"

printf '#!/bin/sh\nexec %q --sysroot %q "$@"\n' "$debian" "$root/sysroot" >"$root/rustc.new"
chmod +x "$root/rustc.new"
# Left alone when it says the same, or cargo would take it for a new compiler and build everything again.
if cmp -s "$root/rustc.new" "$root/rustc"; then rm "$root/rustc.new"; else mv "$root/rustc.new" "$root/rustc"; fi
echo "$root/rustc"
