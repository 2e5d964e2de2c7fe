#!/usr/bin/env bash
# Runs tests under AddressSanitizer with leak detection, the Metal device's on the imitation of Metal: those of the crates
# that are full of `unsafe`. The host's kernels are watched through the contract's suite: their own tests compile for minutes.
# Arguments go to cargo test instead: `ci/asan.sh -p streampool-host --lib`.
set -euo pipefail
cd "$(dirname "$0")/.."
watched=(-p streampool-runtime -p streampool-metal -p streampool-metal-sim -p agx-fix)

mirror=$(ci/metal-mirror.sh)
export RUSTC_BOOTSTRAP=1
# What is watched takes longer to run than to compile.
export CARGO_PROFILE_TEST_OPT_LEVEL=1
export RUSTFLAGS="-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer --cfg sanitize_address --cfg metal_sim -Lnative=$mirror/empty"
# Ops of hostile sizes ask for more than there is, and are to be told so.
export ASAN_OPTIONS="detect_leaks=1 detect_stack_use_after_return=1 strict_init_order=1 allocator_may_return_null=1 max_allocation_size_mb=4096 hard_rss_limit_mb=8192"
host=$(rustc -vV | sed -n 's/^host: //p')
cd "$mirror"
run() { cargo test --no-fail-fast --target "$host" --target-dir "$(dirname "$mirror")/asan" "$@"; }

if [ "$#" -gt 0 ]; then
    run "$@"
else
    status=0
    # Half a minute for ops of hostile numbers. The contract's suite runs once, with four workers and random delays, where commands
    # live longest: with one worker or without delays the host runs the same code.
    HOSTILE_SECONDS=30 run -p streampool-host "${watched[@]}" --test '*' -- --skip one_worker:: --skip plain:: || status=$?
    run "${watched[@]}" --lib || status=$?
    exit "$status"
fi
