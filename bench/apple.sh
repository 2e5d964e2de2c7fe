#!/usr/bin/env bash
# Shows on a Mac all that has to be shown there. It needs Rust 1.95 or later, and Xcode's command line tools.
# Writes a folder to send back. The book says what it does and what could go wrong: docs/src/guides/mac.md.
#
#   bench/apple.sh REPORT_DIR [STAGE...]
#
# Stages, all of them by default, always in this order:
#   machine      which Mac, system, GPU and compilers
#   build        everything that follows, in release
#   doctor       what the device is, and whether a little work comes out right
#   op           one op, with Metal's validation layer
#   kernels      the text of every kernel, by Metal's compiler; what fails is kept in REPORT_DIR/kernels
#   alone        every promise of the contract, one after the other
#   conformance  every promise of the contract, many at once
#   layer        the same with Metal's validation layer
#   tests        every other test of the Metal device that needs no imitation of it, and those of agx-fix, with the layer
#   shaders      conformance again, with Metal's validation inside kernels, too
#   inserted     a little work with agx-fix inserted, which has to wrap the driver's encoders
#   story        the argument with figures, on Metal
#   bench        what operators cost on Metal
#
# What a stage says is in REPORT_DIR/STAGE.log, and one line for each in REPORT_DIR/stages.tsv. A stage that fails does
# not stop the others, and one that hangs is looked into and ended; one in which Metal's validation complains has failed,
# too. The exit code is not zero if any failed. Nothing that names the user is collected on purpose: look through the
# folder before you send it.
set -uo pipefail
all_stages=(machine build doctor op kernels alone conformance layer tests shaders inserted story bench)

usage() {
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p;}' "$0" >&2
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
cd "$(dirname "$0")/.." || exit
. bench/apple/watch.sh
[ "$(uname -s)" = Darwin ] || echo "this is no Mac: stages that need Metal fail" >&2

# A test that would be skipped for want of a GPU fails.
export REQUIRE_METAL=1 RUST_BACKTRACE=1
release=${CARGO_TARGET_DIR:-target}/release
program=(cargo run --quiet --release -p streampool-cli --features metal --)
measure=(cargo run --quiet --release -p streampool-measure --features metal --)

machine() {
    date -u +%FT%TZ
    git rev-parse HEAD 2>/dev/null
    sw_vers || return
    sysctl -n machdep.cpu.brand_string hw.ncpu hw.memsize
    system_profiler SPDisplaysDataType | grep -E 'Chipset|Cores|Metal'
    ioreg -rc AGXAccelerator >"$report/ioreg.txt"
    rustc --version
    xcrun metal --version || echo "no metal compiler for the command line: none is needed"
}

build() {
    cargo build --release -p streampool-cli --features metal &&
        cargo build --release -p streampool-measure --features metal && cargo build --release -p agx-fix &&
        cargo test --release --no-run -p streampool-metal -p agx-fix
}

doctor() {
    local said healthy
    rm -f "$report/doctor.json"
    said=$("${program[@]}" doctor)
    healthy=$?
    printf '%s\n' "$said"
    [ "$healthy" -eq 0 ] && grep -q '^Device metal: usable$' <<<"$said" && "${program[@]}" doctor --json >"$report/doctor.json"
}

contract() {
    cargo test --release -p streampool-metal --test conformance -- --show-output "$@"
}

op() {
    # A name that is no test's would be no failure.
    contract --exact ops_map::maps_in_place | tee /dev/stderr | grep '^test result: ok. 1 passed' >/dev/null
}

kernels() {
    rm -rf "$report/kernels"
    mkdir -p "$report/kernels"
    KERNEL_TEXTS=$report/kernels cargo test --release -p streampool-metal --test texts -- --show-output
}

alone() { contract --test-threads=1; }

conformance() { contract; }

layer() { contract; }

tests() {
    local status=0
    cargo test --release --no-fail-fast -p streampool-metal --lib --test behaviour -- --show-output || status=1
    cargo test --release --no-fail-fast -p agx-fix -- --show-output || status=1
    return "$status"
}

# Validation inside kernels takes other pipelines than an archive has, and may allow fewer threads.
shaders() {
    MTL_SHADER_VALIDATION=1 MTL_SHADER_VALIDATION_REPORT_TO_STDERR=1 contract
}

# The encoders have to be the driver's own: a validation layer would hand out its own.
inserted() {
    local said=$report/inserted.txt work
    AGX_FIX_VERBOSE=1 DYLD_INSERT_LIBRARIES=$release/libagx_fix.dylib "$release/streampool" doctor 2>"$said"
    work=$?
    cat "$said"
    [ "$work" -eq 0 ] && grep -q 'agx-fix: loaded into process' "$said" && grep -q 'are wrapped (Encoder)' "$said" &&
        ! grep -Eq 'MTL(GPU)?Debug|MTLTools' "$said" && grep -q '[1-9][0-9]* encoders created' "$said"
}

story() {
    rm -f "$report/story.json"
    "${program[@]}" story --device metal --out "$report/story" --json >"$report/story.json"
}

bench() {
    rm -f "$report/ops.json"
    "${measure[@]}" ops --device metal --json >"$report/ops.json"
}

# How long a stage may take, in seconds: far longer than it should.
limit_of() {
    case $1 in
    machine | doctor | op | inserted) echo 180 ;;
    shaders) echo 3600 ;;
    *) echo 1800 ;;
    esac
}

# Notes how a stage stands. What the system was doing when it went down is then in the folder.
note() {
    grep -v "^$1	" "$report/stages.tsv" >"$report/stages.new"
    printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$report/stages.new"
    mv "$report/stages.new" "$report/stages.tsv"
    sync
}

# Copies what macOS wrote down about crashes of our own programs since the beginning.
collect_crashes() {
    local from=$HOME/Library/Logs/DiagnosticReports
    [ -d "$from" ] || return 0
    # A report is written a little after the crash.
    sleep 5
    find "$from" -type f -newer "$report/begun" \( -name 'streampool*' -o -name 'conformance-*' -o -name 'behaviour-*' \
        -o -name 'texts-*' -o -name 'agx_fix-*' -o -name 'loom_*' -o -name 'imitation-*' \) -exec cp {} "$report" \;
}

finish() {
    collect_crashes
    printf '\nsend back %s\n' "$report"
    exit "$1"
}

trap 'end_group; note "$stage" "stopped by hand" ""; finish 1' INT TERM
failures=0
touch "$report/stages.tsv" "$report/begun"
for stage in "${all_stages[@]}"; do
    [[ " ${chosen[*]} " == *" $stage "* ]] || continue
    printf '\n==== %s\n' "$stage"
    begun=$SECONDS verdict=ok
    # The layer goes on after an error, so that one run shows all.
    case $stage in
    op | layer | tests | shaders) export MTL_DEBUG_LAYER=1 MTL_DEBUG_LAYER_ERROR_MODE=nslog ;;
    *) unset MTL_DEBUG_LAYER MTL_DEBUG_LAYER_ERROR_MODE ;;
    esac
    note "$stage" running "since $(date -u +%FT%TZ)"
    rm -f "$report/$stage.complaints" "$report/$stage.sample"-*.txt
    limited "$(limit_of "$stage")" "$report/$stage.log" "$report/$stage.sample" "$stage"
    case $? in
    0) ;;
    124) verdict=hung ;;
    *) verdict=failed ;;
    esac
    if complaints "$report/$stage.log" >"$report/$stage.complaints"; then
        [ "$verdict" != ok ] || verdict=complaints
        head -n 20 "$report/$stage.complaints"
    else
        rm -f "$report/$stage.complaints"
    fi
    if [ "$verdict" != ok ]; then
        failures=1
        tail -n 40 "$report/$stage.log"
    fi
    note "$stage" "$verdict" "$((SECONDS - begun)) s"
    tail -n 1 "$report/stages.tsv"
done
finish "$failures"
