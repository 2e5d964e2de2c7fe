#!/usr/bin/env bash
# Fuzzes with all processors at once: `ci/fuzz.sh pack FOLDER` copies this and the programs to a folder, and there
# `./many.sh SECONDS` runs them, on any x86-64 Linux with glibc 2.34 or later. Two processes take each of the small formats, the others
# take models. It ends with a line for each format; what crashed lies in `crashes`, and `./onnx crashes/FILE` repeats it.
set -u
cd "$(dirname "$(realpath "$0")")"
export LD_LIBRARY_PATH=$PWD/lib RUST_BACKTRACE=1
seconds=$1 pids=() failed=0
mkdir -p crashes logs
begin() {
    local name=$1 job=$2
    shift 2
    mkdir -p "found/$name-$job"
    "./$name" -max_total_time="$seconds" -seed=$((1000 + job)) -rss_limit_mb=3072 -malloc_limit_mb=1024 -timeout=30 \
        -print_final_stats=1 -artifact_prefix="crashes/$name-$job-" "$@" "found/$name-$job" "corpus/$name" \
        >"logs/$name-$job" 2>&1 &
    pids+=($!)
}
models=$(($(nproc) - 6))
for ((job = 0; job < (models > 1 ? models : 1); job++)); do begin onnx "$job" -dict=onnx.dict; done
for job in 0 1; do
    for name in safetensors numpy settings; do begin "$name" "$job"; done
done
for pid in "${pids[@]}"; do wait "$pid" || failed=$((failed + 1)); done
for name in onnx safetensors numpy settings; do
    awk -v name="$name" -v seconds="$seconds" '/stat::number_of_executed_units/ { runs += $2; processes++ }
        END { printf "%s: %d runs in %d processes of %d s\n", name, runs, processes, seconds }' logs/"$name"-*
done
echo "$failed processes failed, $(ls crashes | wc -l) inputs in crashes"
[ "$failed" -eq 0 ]
