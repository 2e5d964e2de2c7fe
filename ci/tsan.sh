#!/usr/bin/env bash
# Runs the behaviour tests under ThreadSanitizer, with a standard library built under it too, so that no report
# has to be suppressed. Arguments go to cargo test: `ci/tsan.sh -p streampool-host`.
set -euo pipefail
cd "$(dirname "$0")/.."
# What runs on a GPU or the imitation of one only, what a C++ compiler compiles, and the program are not watched.
[ "$#" -gt 0 ] || set -- --workspace --exclude={agx-fix,streampool-{cli,cuda,emulated,metal,metal-sim}}

compiler=$(ci/setup-debian-rust.sh)
export RUSTC=$compiler RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=thread --cfg sanitize_thread"
export TSAN_OPTIONS="halt_on_error=1 exitcode=66"
host=$("$compiler" -vV | sed -n 's/^host: //p')
cargo test --tests --no-fail-fast -Zbuild-std --target "$host" --target-dir "${CARGO_TARGET_DIR:-target}/tsan" "$@"
