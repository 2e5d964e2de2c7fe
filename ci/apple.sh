#!/usr/bin/env bash
# Lints what is for Apple silicon, its tests, and the program with Metal, on Linux: the standard library is built from
# source, and the compiler, cargo and clippy are Debian's, which fit each other.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$#" -gt 0 ] || set -- -p streampool-metal -p agx-fix -p streampool-cli --all-targets --features streampool-cli/metal

ci/debian-packages.sh rustc-web rust-web-src cargo-web rust-web-clippy

program() { dpkg -L "$1" | grep "/bin/$2\$" | head -n 1; }
CARGO=$(program cargo-web cargo)
RUSTC=$(program rustc-web rustc)
export CARGO RUSTC RUSTC_BOOTSTRAP=1
"$(program rust-web-clippy cargo-clippy)" clippy -Zbuild-std=std,panic_abort,test --target aarch64-apple-darwin \
    --target-dir "${CARGO_TARGET_DIR:-target}/apple" "$@" -- -D warnings
