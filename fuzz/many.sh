#!/usr/bin/env bash
# Fuzzes with all processors at once: `ci/fuzz.sh pack FOLDER` copies this and the programs to a folder, and there
# `./many.sh SECONDS` runs them, on any x86-64 Linux with glibc 2.34 or later. Processors are divided among the
# formats. It ends with a line for each format; what crashed lies in `crashes`, and `./onnx crashes/FILE` repeats it.
set -u
cd "$(dirname "$(realpath "$0")")"
# Some read their input from a file.
export LD_LIBRARY_PATH=$PWD/lib RUST_BACKTRACE=1 TMPDIR=/dev/shm
# Another time, other inputs.
seconds=$1 first=$(date +%s) count=$(nproc) pids=() failed=0
mapfile -t names < <(ls corpus)
mkdir -p crashes logs
begin() {
    local name=$1 job=$2 dictionary=()
    [ ! -f "$name.dict" ] || dictionary=("-dict=$name.dict")
    mkdir -p "found/$name-$job"
    "./$name" -max_total_time="$seconds" -seed=$((first + job)) -rss_limit_mb=3072 -malloc_limit_mb=1024 -timeout=30 \
        -print_final_stats=1 -artifact_prefix="crashes/$name-$job-" "${dictionary[@]}" "found/$name-$job" "corpus/$name" \
        >"logs/$name-$job" 2>&1 &
    pids+=($!)
}
for ((job = 0; job < count || job < ${#names[@]}; job++)); do begin "${names[job % ${#names[@]}]}" "$job"; done
for pid in "${pids[@]}"; do wait "$pid" || failed=$((failed + 1)); done
for name in "${names[@]}"; do
    awk -v name="$name" -v seconds="$seconds" '/stat::number_of_executed_units/ { runs += $2; processes++ }
        END { printf "%s: %d runs in %d processes of %d s\n", name, runs, processes, seconds }' logs/"$name"-*
done
echo "$failed processes failed, $(ls crashes | wc -l) inputs in crashes"
[ "$failed" -eq 0 ]
