#!/usr/bin/env bash
# Runs the behaviour tests under AddressSanitizer with leak detection.
# Arguments go to cargo test: `ci/asan.sh -p streampool-host`.
set -euo pipefail
cd "$(dirname "$0")/.."
# What runs on a GPU or the imitation of one only, what a C++ compiler compiles, and the program are not watched.
[ "$#" -gt 0 ] || set -- --workspace --exclude={agx-fix,streampool-{cli,cuda,emulated,metal,metal-sim}}

export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer --cfg sanitize_address"
export ASAN_OPTIONS="detect_leaks=1 detect_stack_use_after_return=1 strict_init_order=1"
host=$(rustc -vV | sed -n 's/^host: //p')
cargo test --tests --no-fail-fast --target "$host" --target-dir "${CARGO_TARGET_DIR:-target}/asan" "$@"
