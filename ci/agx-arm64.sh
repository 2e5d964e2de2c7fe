#!/usr/bin/env bash
# Runs the unit tests of agx-fix for 64-bit ARM on Linux, by qemu: above all those of its stubs, which are other ones for each
# kind of processor. Arguments go to cargo test.
set -euo pipefail
cd "$(dirname "$0")/.."

ci/debian-packages.sh gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
compiler=$(ci/setup-debian-rust.sh)
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
RUSTC=$compiler RUSTC_BOOTSTRAP=1 exec cargo test -Zbuild-std --target aarch64-unknown-linux-gnu \
    --target-dir "${CARGO_TARGET_DIR:-target}/arm64" -p agx-fix --lib "$@"
