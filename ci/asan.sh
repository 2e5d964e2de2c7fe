#!/usr/bin/env bash
# Runs the behaviour tests under AddressSanitizer with leak detection, the Metal device's on the imitation of Metal.
# Arguments go to cargo test: `ci/asan.sh -p streampool-host`.
set -euo pipefail
cd "$(dirname "$0")/.."
# Not watched: what runs on CUDA only, the tests of what executes kernels, the program, and models, whose one unsafe call maps a file.
[ "$#" -gt 0 ] || set -- --workspace --exclude=streampool{,-cli,-cuda,-emulated,-kernels,-model}

mirror=$(ci/metal-mirror.sh)
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer --cfg sanitize_address --cfg metal_sim -Lnative=$mirror/empty"
export ASAN_OPTIONS="detect_leaks=1 detect_stack_use_after_return=1 strict_init_order=1"
host=$(rustc -vV | sed -n 's/^host: //p')
cd "$mirror"
exec cargo test --tests --no-fail-fast --target "$host" --target-dir "$(dirname "$mirror")/asan" "$@"
