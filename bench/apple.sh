#!/usr/bin/env bash
# Shows on a Mac all that has to be shown there. It needs Rust 1.95 or later, and Xcode's command line tools.
# Writes a folder to send back.
#
#   bench/apple.sh REPORT_DIR [STAGE...]
#
# Stages, all of them by default, always in this order:
#   machine      which Mac, system, GPU and compilers
#   build        everything that follows, in release
#   doctor       what the device is, and whether a little work comes out right
#   conformance  every promise of the contract
#   tests        every other test of the Metal device that needs no imitation of it, and those of agx-fix
#   shaders      conformance again, with Metal's validation inside kernels
#   inserted     a little work with agx-fix inserted, which has to wrap the driver's encoders
#   story        the argument with figures, on Metal
#   bench        what operators cost on Metal
#
# What a stage says is in REPORT_DIR/STAGE.log, and one line for each in REPORT_DIR/stages.tsv. A stage that fails does
# not stop the others; the exit code is not zero if any failed. Nothing that names the user is collected on purpose:
# look through the folder before you send it.
set -uo pipefail
all_stages=(machine build doctor conformance tests shaders inserted story bench)

usage() {
    sed -n 's/^# \{0,1\}//; 2,20p' "$0" >&2
    [ "$#" -eq 0 ] || printf '\n%s\n' "$*" >&2
    exit 2
}

[ "$#" -gt 0 ] || usage "REPORT_DIR is needed"
case $1 in -*) usage "there is no option $1" ;; esac
mkdir -p "$1" || usage "$1 cannot be written"
report=$(cd "$1" && pwd)
shift
chosen=("$@")
[ "$#" -gt 0 ] || chosen=("${all_stages[@]}")
for stage in "${chosen[@]}"; do
    [[ " ${all_stages[*]} " == *" $stage "* ]] || usage "there is no stage $stage"
done
cd "$(dirname "$0")/.."
[ "$(uname -s)" = Darwin ] || echo "this is no Mac: stages that need Metal fail" >&2

# A test that would be skipped for want of a GPU fails.
export REQUIRE_METAL=1
release=${CARGO_TARGET_DIR:-target}/release
program=(cargo run --quiet --release -p streampool-cli --features metal --)

machine() {
    date -u +%FT%TZ
    git rev-parse HEAD 2>/dev/null
    sw_vers || return
    sysctl -n machdep.cpu.brand_string hw.ncpu hw.memsize
    system_profiler SPDisplaysDataType | grep -E 'Chipset|Cores|Metal'
    rustc --version
    xcrun metal --version || echo "no metal compiler for the command line: none is needed"
}

build() {
    cargo build --release -p streampool-cli --features metal && cargo build --release -p agx-fix &&
        cargo test --release --no-run -p streampool-metal -p agx-fix
}

doctor() {
    local said
    rm -f "$report/doctor.json"
    said=$("${program[@]}" doctor)
    local healthy=$?
    printf '%s\n' "$said"
    [ "$healthy" -eq 0 ] && grep -q '^Device metal: usable$' <<<"$said" && "${program[@]}" doctor --json >"$report/doctor.json"
}

conformance() {
    cargo test --release -p streampool-metal --test conformance -- --show-output
}

tests() {
    cargo test --release --no-fail-fast -p streampool-metal --lib --test behaviour -- --show-output
    local device=$?
    cargo test --release --no-fail-fast -p agx-fix -- --show-output
    [ "$?" -eq 0 ] && [ "$device" -eq 0 ]
}

# Validation inside kernels takes other pipelines than an archive has, and may allow fewer threads.
shaders() {
    MTL_SHADER_VALIDATION=1 conformance
}

# The encoders have to be the driver's own: a validation layer would hand out its own.
inserted() {
    local said=$report/inserted.txt
    AGX_FIX_VERBOSE=1 DYLD_INSERT_LIBRARIES=$release/libagx_fix.dylib "$release/streampool" doctor 2>"$said"
    local work=$?
    cat "$said"
    [ "$work" -eq 0 ] && grep -q 'are wrapped (Encoder)' "$said" && ! grep -Eq 'MTL(GPU)?Debug|MTLTools' "$said" && grep -q '[1-9][0-9]* encoders created' "$said"
}

story() {
    rm -f "$report/story.json"
    "${program[@]}" story --device metal --out "$report/story" --json >"$report/story.json"
}

bench() {
    rm -f "$report/ops.json"
    "${program[@]}" bench ops --device metal --json >"$report/ops.json"
}

failures=0
touch "$report/stages.tsv"
for stage in "${all_stages[@]}"; do
    [[ " ${chosen[*]} " == *" $stage "* ]] || continue
    printf '\n==== %s\n' "$stage"
    begun=$SECONDS verdict=ok
    # Metal's own validation layer watches all but the figures and what is about the driver itself.
    case $stage in
    inserted | story | bench) unset MTL_DEBUG_LAYER ;;
    *) export MTL_DEBUG_LAYER=1 ;;
    esac
    if ! "$stage" >"$report/$stage.log" 2>&1; then
        verdict=failed failures=1
        tail -n 40 "$report/$stage.log"
    fi
    grep -v "^$stage	" "$report/stages.tsv" >"$report/stages.new"
    printf '%s\t%s\t%d s\n' "$stage" "$verdict" $((SECONDS - begun)) | tee -a "$report/stages.new"
    mv "$report/stages.new" "$report/stages.tsv"
done
printf '\nsend back %s\n' "$report"
exit "$failures"
