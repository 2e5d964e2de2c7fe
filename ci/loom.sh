#!/usr/bin/env bash
# Checks the lock-free parts and the queue's engine under every interleaving that loom can reach: first as shipped, then with
# the planted bugs compiled in, which have to be caught. Each model says itself how far it is explored. Arguments go to the
# test programs: `ci/loom.sh no_wake_up_is_lost`.
set -euo pipefail
cd "$(dirname "$0")/.."

# The models are small programs run very often: optimised, but not linked slowly.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
for flags in "--cfg loom" "--cfg loom --cfg planted"; do
    echo "-- $flags"
    RUSTFLAGS=$flags cargo test --release -p streampool-runtime -p streampool-batch -p streampool-cuda -p agx-fix --test 'loom_*' --no-fail-fast \
        --target-dir "${CARGO_TARGET_DIR:-target}/loom" -- "$@"
done
