#!/usr/bin/env bash
# Checks every library and program for Apple silicon, on Linux: the standard library is built from source.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$#" -gt 0 ] || set -- --workspace

compiler=$(ci/setup-debian-rust.sh)
export RUSTC=$compiler RUSTC_BOOTSTRAP=1 RUSTFLAGS="-D warnings"
cargo check -Zbuild-std=std,panic_abort --target aarch64-apple-darwin --target-dir "${CARGO_TARGET_DIR:-target}/apple" "$@"
