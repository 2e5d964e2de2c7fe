#!/usr/bin/env bash
# Lints on Linux what is built for the imitation of Metal only, or for Apple and the imitation: `ci/apple.sh` lints what is for
# Apple silicon. Arguments go to cargo clippy.
set -euo pipefail
cd "$(dirname "$0")/.."

mirror=$(ci/metal-mirror.sh)
export RUSTFLAGS="--cfg metal_sim -Lnative=$mirror/empty"
cd "$mirror"
exec cargo clippy --target-dir "$mirror/target" -p agx-fix -p streampool-metal -p streampool-metal-sim --all-targets "$@" -- -D warnings
