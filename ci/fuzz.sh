#!/usr/bin/env bash
# Fuzzes: `ci/fuzz.sh` runs each target for a few seconds, `ci/fuzz.sh onnx -max_total_time=3600` one for an hour. What it finds
# it adds to `target/fuzz/found/TARGET`; what crashed lies in `target/fuzz/crashes`. Nothing has to be installed: the fuzzer is a
# crate, and the flags are those that cargo-fuzz gives.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}/fuzz")
host=$(rustc -vV | sed -n 's/^host: //p')

export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares"
# What the server needs takes as long to build as all else.
features=()
case ${1:-} in http | config | reports | pack) features=(--features serve) ;; esac
# Some seconds of fuzzing take less time than better code takes to compile.
[ "$#" -gt 0 ] || export CARGO_PROFILE_RELEASE_OPT_LEVEL=1
cargo build --manifest-path fuzz/Cargo.toml --release --target "$host" --target-dir "$target" "${features[@]}"

run() {
    local name=$1
    shift
    mkdir -p "$target/found/$name" "$target/crashes"
    local dictionary=()
    [ ! -f "fuzz/$name.dict" ] || dictionary=("-dict=fuzz/$name.dict")
    # Memory for a model is bounded by its pool; what takes 30 s never ends.
    "$target/$host/release/$name" -rss_limit_mb=3072 -malloc_limit_mb=1024 -timeout=30 -print_final_stats=1 \
        -artifact_prefix="$target/crashes/$name-" "${dictionary[@]}" "$@" \
        "$target/found/$name" "fuzz/corpus/$name"
}

# Copies all that `fuzz/many.sh` needs to a folder.
pack() {
    local name
    mkdir -p "$1/corpus" "$1/lib"
    for name in $(ls fuzz/corpus); do
        strip -o "$1/$name" "$target/$host/release/$name"
        cp -r "fuzz/corpus/$name" "$1/corpus/"
    done
    ldd "$1/onnx" | awk '/libstdc|libgcc/ { print $3 }' | xargs cp -L -t "$1/lib"
    cp fuzz/onnx.dict fuzz/many.sh "$1/"
}

if [ "${1:-}" = pack ]; then
    pack "$2"
elif [ "$#" -gt 0 ]; then
    run "$@"
else
    # A minute in all, on two processors, and nearly the same inputs each time: what is new is looked for with another seed.
    for name in safetensors numpy settings; do
        run "$name" -max_total_time=10 -seed=1
    done >"$target/small.log" 2>&1 &
    status=0
    run onnx -max_total_time=30 -seed=1 || status=$?
    wait "$!" || status=$?
    cat "$target/small.log"
    exit "$status"
fi
