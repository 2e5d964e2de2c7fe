#!/usr/bin/env bash
# Tries hostile numbers for long, on all processors:
#
#     ci/hostile.sh build FOLDER             builds the tests, and copies them and this file there
#     FOLDER/hostile.sh run KIND SECONDS     runs one kind of them, and ends with a line that counts
#
# `ASAN=1 ci/hostile.sh build …` builds them with the address sanitizer: then models and kernels skip themselves.
# KIND is one of the words of `kinds`, or `all`, which takes so long for each. The folder is enough: it runs on another machine
# that has neither a Rust compiler nor a network; `kernels` needs a C++ compiler. `FIRST=5000000 …` begins with other cases,
# `PROCESSES=4 …` takes fewer processors. What the processes print lies in `FOLDER/output`.
set -euo pipefail

# The word, the crate, its test, the name of the test in it, and cases between the first of two processes.
kinds='
ops      streampool-host      fuzz     ops_of_hostile_numbers           1000000000
calls    streampool-tensor    fuzz     calls_of_hostile_numbers         1000000000
models   streampool-model     hostile  models_of_hostile_numbers_end    1000000000
plans    streampool-emulated  hostile  plans_of_hostile_numbers_fit     1000000000
kernels  streampool-emulated  hostile  kernels_of_hostile_numbers       1000000000
'

build() {
    mkdir -p "$1"
    local folder
    folder=$(realpath "$1")
    cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/.."
    local word crate test path
    local target=()
    if [ -n "${ASAN:-}" ]; then
        export RUSTC_BOOTSTRAP=1
        export RUSTFLAGS="-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer --cfg sanitize_address"
        target=(--target "$(rustc -vV | sed -n 's/^host: //p')" --target-dir "${CARGO_TARGET_DIR:-target}/asan")
    fi
    while read -r word crate test _; do
        [ -n "$word" ] || continue
        path=$(cargo test --no-run --message-format=json-render-diagnostics "${target[@]}" -p "$crate" --test "$test" |
            sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
        strip --strip-debug -o "$folder/$word" "$path"
    done <<<"$kinds"
    cp "${BASH_SOURCE[0]}" "$folder/hostile.sh" 2>/dev/null || cp ci/hostile.sh "$folder/hostile.sh"
}

# Runs one kind in as many processes as there are processors, each of which begins elsewhere.
try() {
    local word=$1 seconds=$2 name=$3 apart=$4 failed=0 process
    # Ops of hostile sizes ask for more than there is, and are to be told so.
    export ASAN_OPTIONS="detect_stack_use_after_return=1 allocator_may_return_null=1 max_allocation_size_mb=4096"
    local processes=${PROCESSES:-$(nproc)} pids=()
    mkdir -p output
    for ((process = 0; process < processes; process++)); do
        HOSTILE_SECONDS=$seconds HOSTILE_FIRST=$((${FIRST:-0} + process * apart)) \
            "./$word" "$name" --nocapture >"output/$word-$process" 2>&1 &
        pids+=($!)
    done
    for process in "${!pids[@]}"; do
        if ! wait "${pids[process]}"; then
            failed=$((failed + 1))
            echo "$word: see output/$word-$process"
        fi
    done
    cat output/"$word"-* | awk -v word="$word" -v processes="$processes" -v failed="$failed" '
        / tried from / {
            for (i = 2; i <= NF; i++) {
                if ($i == "tried") tried += $(i - 1)
                if ($i == "wrong") wrong += $(i - 1)
            }
        }
        END { printf "%s: %d tried in %d processes, %d wrong, %d processes failed\n", word, tried, processes, wrong, failed }'
    [ "$failed" -eq 0 ]
}

case "${1:-}" in
build) build "$2" ;;
run)
    cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")"
    status=0 found=
    while read -r word _ _ name apart; do
        if [ -n "$word" ] && { [ "$2" = all ] || [ "$2" = "$word" ]; }; then
            found=yes
            try "$word" "$3" "$name" "$apart" || status=1
        fi
    done <<<"$kinds"
    [ -n "$found" ] || { echo "there is no kind $2" >&2; exit 2; }
    exit "$status"
    ;;
*)
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
