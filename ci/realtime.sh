#!/usr/bin/env bash
# Runs `crates/model/tests/realtime.rs` under the realtime sanitizer, which ends the process when a warm run waits for a lock, makes a system
# call, or asks for more memory than is documented. Its runtime comes with the toolchain; as a library that is preloaded it needs no
# other build.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}/realtime")
mkdir -p "$folder"
host=$(rustc -vV | sed -n 's/^host: //p')
runtime=$(rustc --print sysroot)/lib/rustlib/$host/lib/librustc-stable_rt.rtsan.a
cp -f "$runtime" "$folder/rtsan.a"
# A shared library cannot have what runs before all others; the tests make that call.
ar d "$folder/rtsan.a" rtsan_preinit.cpp.o
cc -shared -o "$folder/librtsan.so" -Wl,--whole-archive "$folder/rtsan.a" -Wl,--no-whole-archive -lpthread -ldl -lm -lrt
runner=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$host")_RUNNER
export "$runner=env LD_PRELOAD=$folder/librtsan.so REQUIRE_RTSAN=1"
cargo test --workspace --test realtime
