#!/usr/bin/env bash
# Checks the lock-free parts and the queue's engine under every interleaving that loom can reach: first as shipped, then with
# the planted bugs compiled in, which have to be caught. Each model says itself how far it is explored. Arguments go to the
# test programs: `ci/loom.sh no_wake_up_is_lost`.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTFLAGS="--cfg loom"
# Millions of interleavings are tried.
export CARGO_PROFILE_TEST_OPT_LEVEL=1

check() {
    cargo test -p streampool-runtime -p streampool-batch -p streampool-cuda -p agx-fix --test 'loom_*' --no-fail-fast \
        --target-dir "${CARGO_TARGET_DIR:-target}/loom" -- "$@"
}

echo "-- as shipped"
check "$@"
echo "-- with the planted bugs"
# For the workspace alone: what it depends on is not built again.
RUSTC_WORKSPACE_WRAPPER=$PWD/ci/planted.sh check "$@"
