#!/usr/bin/env bash
# Runs the tests with the code for Metal on Linux, against the imitation of it in `testing/metal-sim`.
# Arguments go to cargo test: `ci/metal-sim.sh -p streampool-metal`. `ci/asan.sh` and `ci/tsan.sh` do the same, watched.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$#" -gt 0 ] || set -- -p agx-fix -p streampool-metal -p streampool-metal-sim

mirror=$(ci/metal-mirror.sh)
flags="--cfg metal_sim -Lnative=$mirror/empty"
export RUSTFLAGS=$flags RUSTDOCFLAGS=$flags
cd "$mirror"
exec cargo test --no-fail-fast --target-dir "$mirror/target" "$@"
