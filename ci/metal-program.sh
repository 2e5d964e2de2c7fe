#!/usr/bin/env bash
# Runs the program with Metal on Linux, on the imitation of it: `ci/metal-program.sh doctor`. The imitation is the library that
# it loads, as Apple's frameworks are on a Mac.
set -euo pipefail
cd "$(dirname "$0")/.."

mirror=$(ci/metal-mirror.sh)
export RUSTFLAGS="--cfg metal_sim -Lnative=$mirror/empty"
cd "$mirror"
cargo rustc --quiet --release --target-dir "$mirror/target" -p streampool-metal-sim --crate-type cdylib
libraries=$mirror/target/release
cargo rustc --quiet --release --target-dir "$mirror/target" -p streampool-cli --features metal -- \
    -Clink-arg="-L$libraries" -Clink-arg=-lstreampool_metal_sim -Clink-arg="-Wl,-rpath,$libraries"
exec "$libraries/streampool" "$@"
