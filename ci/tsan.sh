#!/usr/bin/env bash
# Runs tests under ThreadSanitizer, with a standard library built under it too, the Metal device's on the imitation of
# Metal: those of the crates where threads share memory by `unsafe`, which compute on the host device. Arguments go to cargo
# test instead: `ci/tsan.sh -p streampool-tensor --tests`.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$#" -gt 0 ] || set -- -p streampool-runtime -p streampool-metal -p streampool-metal-sim -p agx-fix --tests

mirror=$(ci/metal-mirror.sh)
compiler=$(ci/setup-debian-rust.sh)
export RUSTC=$compiler RUSTC_BOOTSTRAP=1
# What is watched takes longer to run than to compile.
export CARGO_PROFILE_TEST_OPT_LEVEL=1
export RUSTFLAGS="-Zsanitizer=thread --cfg sanitize_thread --cfg metal_sim -Lnative=$mirror/empty"
# The one exemption: objc2 stores a selector that it looked up, for all threads, without ordering.
printf 'race:objc2::__macro_helpers::cache::CachedSel\n' >"$mirror/tsan.suppressions"
export TSAN_OPTIONS="halt_on_error=1 exitcode=66 suppressions=$mirror/tsan.suppressions"
host=$("$compiler" -vV | sed -n 's/^host: //p')
cd "$mirror"
exec cargo test --no-fail-fast -Zbuild-std --target "$host" --target-dir "$(dirname "$mirror")/tsan" "$@"
