#!/usr/bin/env bash
# Shows on a GPU all that has to be shown there, with binaries built elsewhere (bench/build-gpu.sh): the machine needs
# neither Rust nor a network. Writes one report.
#
#   bench/gpu.sh BINARIES_DIR REPORT_DIR [--quick] [STAGE...]
#
# Stages, all of them by default, always in this order:
#   doctor       what the machine has, and whether a little work comes out right
#   conformance  every promise of the contract
#   tests        every other test of the CUDA device
#   captures     PyTorch captures graphs beside eight of our threads in one process: neither side fails
#   sanitizer    compute-sanitizer's memcheck and racecheck on a short set
#   bench        our figures beside the raw driver's
#   fairness     what each thread gets and waits while crowds of threads run flat out, and which calls starve
#   torch        PyTorch's, in Python and C++
#   ops          the operators of tensors, in turn with PyTorch's
#   models       an encoder as an ONNX model from several threads, and PyTorch's
#   common       models of common kinds beside PyTorch's graphs
#   lengths      a text encoder whose requests each have a length of their own
#   batching     many callers through a queue that makes batches, beside threads by themselves
#   several      all GPUs of the machine in one process, where there are two or more
#   report       all of it in report.md and report.json, and whether the goals are met
#
# What a stage finds stays in REPORT_DIR, so that stages may be run one by one. A stage that fails does not stop the
# others; the exit code is not zero if any failed. --quick measures for a shorter time and sanitizes less.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
all_stages=(doctor conformance tests captures sanitizer bench fairness torch ops models common lengths batching several report)

usage() {
    sed -n 's/^# \{0,1\}//; 2,25p' "$0" >&2
    [ "$#" -eq 0 ] || printf '\n%s\n' "$*" >&2
    exit 2
}

quick=() folders=() chosen=()
for argument in "$@"; do
    case $argument in
    --quick) quick=(--quick) ;;
    -*) usage "there is no option $argument" ;;
    *)
        if [ "${#folders[@]}" -lt 2 ]; then
            folders+=("$argument")
        elif [[ " ${all_stages[*]} " == *" $argument "* ]]; then
            chosen+=("$argument")
        else
            usage "there is no stage $argument"
        fi
        ;;
    esac
done
[ "${#folders[@]}" -eq 2 ] || usage "BINARIES_DIR and REPORT_DIR are needed"
[ -d "${folders[0]}" ] || usage "there is no folder ${folders[0]}: build into it with bench/build-gpu.sh"
[ "${#chosen[@]}" -gt 0 ] || chosen=("${all_stages[@]}")
mkdir -p "${folders[1]}" || usage "${folders[1]} cannot be written"
binaries=$(cd "${folders[0]}" && pwd)
report=$(cd "${folders[1]}" && pwd)
# Binaries may have come by a way that does not keep the mode.
chmod +x "$binaries"/test-* "$binaries"/streampool{,-measure} 2>/dev/null

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Kernels that one test has compiled, the next one finds there.
export TMPDIR=$work

is_chosen() {
    [[ " ${chosen[*]} " == *" $1 "* ]]
}

# libraries: NVRTC and cuBLASLt as Python's packages bring them, where the system has none.
libraries() {
    python3 - <<'PYTHON'
import glob, subprocess, sys
known = subprocess.run("PATH=$PATH:/sbin ldconfig -p", shell=True, capture_output=True, text=True).stdout
roots = [f"{path}/nvidia/*/lib" for path in sys.path if path]
roots += ["/usr/local/cuda/lib64", "/usr/local/cuda*/targets/*/lib", "/usr/local/cuda*/lib64"]
wanted = {}
for library in ("libnvrtc.so", "libcublasLt.so"):
    if library not in known:
        found = [hit.rsplit("/", 1)[0] for root in roots for hit in sorted(glob.glob(f"{root}/{library}*"))]
        wanted.update(dict.fromkeys(found[:1]))
print(":".join(wanted))
PYTHON
}

found=$(libraries)
export LD_LIBRARY_PATH=$found${found:+${LD_LIBRARY_PATH:+:}}${LD_LIBRARY_PATH:-}
if nvidia-smi -L >/dev/null 2>&1; then
    # There is a GPU: a test that skips for want of one has failed.
    export REQUIRE_CUDA=1
else
    echo "nvidia-smi shows no GPU: what needs one is skipped or fails"
fi

failures=0 stage='' deadline=0

# begin STAGE SECONDS: what its steps said in an earlier run no longer counts.
begin() {
    stage=$1 deadline=$((SECONDS + $2))
    printf '\n==== %s\n' "$stage"
    touch "$report/stages.tsv"
    awk -F '\t' -v stage="$stage" '$1 != stage' "$report/stages.tsv" >"$work/stages.tsv"
    mv "$work/stages.tsv" "$report/stages.tsv"
}

# summary LOG: what tests and the sanitizer's tools say at their end, in one line.
summary() {
    awk '/^test result:/ { passed += $4; failed += $6; ended = 1 }
         /^skipped: / { skipped++ }
         /^test .* FAILED$/ { names = names " " $2 }
         / (ERROR|RACECHECK) SUMMARY: / { sub(/.*SUMMARY: /, ""); if (!said[$0]++) found = found "; " $0 }
         END {
             if (ended) line = passed " passed, " failed " failed, " skipped + 0 " skips" (names ? ":" names : "")
             print line found
         }' "$1"
}

# step NAME COMMAND...: one command of a stage, with a log of its own, within what is left of the stage's time.
step() {
    local name=$1 begun=$SECONDS left=$((deadline - SECONDS)) code=0 verdict=ok
    local log=$work/$stage.$name.log
    shift
    if [ "$left" -gt 0 ]; then
        timeout -k 10 "$left" "$@" >"$log" 2>&1 || code=$?
    else
        code=124 && echo "there was no time left for it" >"$log"
    fi
    case $code in
    0) ;;
    124 | 137) verdict="timed out" ;;
    *) verdict="failed ($code)" ;;
    esac
    local line
    line=$(printf '%s\t%s\t%s\t%d\t%s' "$stage" "$name" "$verdict" $((SECONDS - begun)) "$(summary "$log")")
    printf '%s\n' "$line" | tee -a "$report/stages.tsv"
    if [ "$code" -ne 0 ]; then
        tail -n 40 "$log"
        return 1
    fi
}

# run_tests NAME [FILTER...]: one test binary.
run_tests() {
    local name=$1
    shift
    step "$name" "$binaries/test-$name" --show-output "$@" || failures=1
}

run_doctor() {
    begin doctor 60
    step doctor "$binaries/streampool" doctor || failures=1
}

run_conformance() {
    begin conformance 400
    run_tests conformance
}

run_the_tests() {
    begin tests 230
    local path name
    for path in "$binaries"/test-*; do
        name=${path##*/test-}
        case $name in
        conformance) ;;
        # It is for any device, and reads what was carried along.
        onnx) TEST_DEVICE=cuda ONNX_DATA=$binaries/onnx run_tests onnx ;;
        batching) TEST_DEVICE=cuda run_tests batching ;;
        several) ;;
        *) run_tests "$name" ;;
        esac
    done
}

run_captures() {
    begin captures 120
    step torch python3 "$here/torch/captures.py" "$binaries/libbeside.so" "$report/torch_captures.json" \
        --seconds "$([ "${#quick[@]}" -gt 0 ] && echo 10 || echo 60)" || failures=1
}

# What the sanitizer slows down a hundred times is still over in a minute or two. No promise about faults: to have
# a launch refused is an error to it.
memcheck_set=(queue::commands_execute_in_order queue::copies_keep_their_place_among_ops
    events::queues_are_ordered_by_events programs::slots_are_bound_at_replay
    ops_move::copies_go_between_any_layouts ops_move::copies_of_block_lengths ops_fused::inputs_broadcast
    ops_fused::maps_of_block_lengths ops_reduce::reductions_of_block_lengths ops_norm::norms_of_block_lengths
    ops_norm::softmax_of_block_lengths ops_matmul::products_of_block_sizes ops_matmul::epilogues
    ops_attention::attention_of_block_lengths ops_conv::convolutions_of_block_sizes ops_rnn::layers_of_block_lengths
    ops_index::indices_out_of_range ops_order::sorts_of_block_lengths ops_order::scans_of_block_lengths
    ops_spatial::pools_of_block_lengths ops_tally::places_of_block_lengths ops_linalg::lu_solves
    threads::chains_in_both_directions)
racecheck_set=(ops_move::copies_transpose ops_norm::softmax_of_extremes ops_norm::norms_of_extremes
    ops_reduce::nan_wins ops_reduce::long_sums_stay_accurate ops_matmul::nan_stays_in_its_row
    ops_matmul::integer_products_with_bias ops_attention::attention_of_block_lengths ops_rnn::layers_of_block_lengths
    ops_order::sorts_of_block_lengths ops_order::scans_of_block_lengths ops_linalg::lu_solves
    ops_tally::histograms_of_any_layout)

# sanitize TOOL TEST...: each of these promises under a tool of compute-sanitizer, several at a time. In one process the
# tool would slow them down together, until they give up waiting.
sanitize() {
    local tool=$1
    shift
    step "$tool" xargs -P 8 -n 1 "$sanitizer" --tool "$tool" --error-exitcode 86 --print-limit 20 \
        "$binaries/test-conformance" --exact < <(printf '%s\n' "$@")
}

run_sanitizer() {
    begin sanitizer 230
    local sanitizer
    sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer) || {
        printf '%s\t%s\t%s\t0\t%s\n' sanitizer sanitizer failed "there is no compute-sanitizer" |
            tee -a "$report/stages.tsv"
        failures=1
        return
    }
    if [ "${#quick[@]}" -gt 0 ]; then
        memcheck_set=("${memcheck_set[@]:4:6}") racecheck_set=("${racecheck_set[@]:1:2}")
    fi
    local memcheck racecheck
    sanitize memcheck "${memcheck_set[@]}" &
    memcheck=$!
    sanitize racecheck "${racecheck_set[@]}" &
    racecheck=$!
    wait "$memcheck" || failures=1
    wait "$racecheck" || failures=1
}

run_bench() {
    finish_torch_build
    begin bench 230
    # shellcheck disable=SC2016
    step runtime bash -c '"$0" runtime --device cuda --json "${@:2}" >"$1"' \
        "$binaries/streampool-measure" "$report/runtime.json" "${quick[@]}" || failures=1
}

run_fairness() {
    finish_torch_build
    begin fairness 230
    # shellcheck disable=SC2016
    step crowds bash -c '"$0" fairness --device cuda --json "${@:2}" >"$1"' \
        "$binaries/streampool-measure" "$report/fairness.json" "${quick[@]}" || failures=1
    # shellcheck disable=SC2016
    step long bash -c '"$0" fairness --device cuda --threads 31 --seconds "$2" --json >"$1"' \
        "$binaries/streampool-measure" "$report/fairness_long.json" "$([ "${#quick[@]}" -gt 0 ] && echo 5 || echo 60)" || failures=1
    # shellcheck disable=SC2016
    step calls bash -c '"$0" fairness --device cuda --calls --json >"$1"' \
        "$binaries/streampool-measure" "$report/fairness_calls.json" || failures=1
}

torch_build=''
# start_torch_build: compiles the C++ while tests run.
start_torch_build() {
    "$here/torch/build.sh" "$work/threads" >"$work/torch.build.log" 2>&1 &
    torch_build=$!
}

# What is measured is measured alone.
finish_torch_build() {
    if [ -n "$torch_build" ]; then
        wait "$torch_build"
        torch_build=''
    fi
}

run_torch() {
    finish_torch_build
    begin torch 235
    step python python3 "$here/torch/threads.py" "$report/torch_python.json" "${quick[@]}" || failures=1
    if [ -x "$work/threads" ]; then
        step cpp python3 "$here/torch/each.py" "$work/threads" "$report/torch_cpp.json" "${quick[@]}" || failures=1
    else
        cp "$work/torch.build.log" "$work/torch.cpp.log"
        printf 'torch\tcpp\tfailed\t0\tit does not compile\n' | tee -a "$report/stages.tsv"
        tail -n 40 "$work/torch.build.log"
        failures=1
    fi
}

run_ops() {
    finish_torch_build
    begin ops 150
    local effort=(--seconds 0.3) turns=(--seconds 0.12 --rounds 3) precision
    if [ "${#quick[@]}" -gt 0 ]; then
        effort=(--quick) turns=(--seconds 0.05 --rounds 2)
    fi
    for precision in f32 f16; do
        # shellcheck disable=SC2016
        step "$precision" bash -c '"$0" ops --device cuda --json "${@:2}" >"$1"' \
            "$binaries/streampool-measure" "$report/ops_$precision.json" --precision "$precision" "${effort[@]}" || failures=1
        # A goal that is missed, which it says with 3, is for the report to tell.
        # shellcheck disable=SC2016
        step "compare_$precision" bash -c 'python3 "$@" || [ "$?" -eq 3 ]' compare \
            "$here/ops/compare.py" "$binaries/streampool-measure" --device cuda --precision "$precision" \
            --json "$report/compare_$precision.json" "${turns[@]}" || failures=1
    done
}

# measured NAME MODEL ARGUMENT...: a model again and again; what was measured is in model_NAME.json.
measured() {
    local name=$1 model=$2
    shift 2
    # shellcheck disable=SC2016
    step "$name" bash -c '"$0" run "$1" --device cuda --repeat --seconds 1 --json "${@:3}" >"$2"' "$binaries/streampool" \
        "$binaries/$model.onnx" "$report/model_$name.json" "$@" || failures=1
}

run_models() {
    finish_torch_build
    begin models 200
    if [ ! -e "$binaries/minilm.onnx" ]; then
        printf 'models\tencoder\tskipped\t0\tmake them with models/make_encoder.py BINARIES_DIR\n' | tee -a "$report/stages.tsv"
        return
    fi
    local layers=(--shape x=1,128,384) whole=(--shape input_ids=1,128 --shape attention_mask=1,128) threads
    for threads in 1 8; do
        measured "layers_$threads" encoder "${layers[@]}" --threads "$threads" --resident
        measured "layers_host_$threads" encoder "${layers[@]}" --threads "$threads"
        measured "whole_$threads" minilm "${whole[@]}" --threads "$threads" --resident
        measured "whole_host_$threads" minilm "${whole[@]}" --threads "$threads"
    done
    measured layers_large half --shape x=256,128,384 --resident
    measured whole_large minilm --shape input_ids=256,128 --shape attention_mask=256,128 --half --resident
    # shellcheck disable=SC2016
    step torch_encoder bash -c 'python3 "$0" "$1" --reference "$2" >"$3"' "$here/models/torch_encoder.py" "$binaries" \
        "$work" "$report/torch_encoder.json" || failures=1
    step agree "$binaries/streampool" run "$binaries/minilm.onnx" --device cuda --input "$work/words.npz" \
        --check "$work/states.npz" || failures=1
}

run_common() {
    finish_torch_build
    begin common 560
    local less=()
    [ "${#quick[@]}" -eq 0 ] || less=(--seconds 0.3 --threads 1)
    # A model that is slower is for the report to tell.
    step table python3 "$here/models/common.py" "$binaries/streampool" --json "$report/common.json" "${less[@]}" || failures=1
}

run_lengths() {
    begin lengths 120
    local less=()
    [ "${#quick[@]}" -eq 0 ] || less=(--seconds 2)
    # shellcheck disable=SC2016
    step single bash -c '"$0" lengths "$1" --device cuda --json "${@:3}" >"$2"' "$binaries/streampool-measure" \
        "$binaries/minilm.onnx" "$report/lengths.json" "${less[@]}" || failures=1
    # shellcheck disable=SC2016
    step batches bash -c '"$0" lengths "$1" --device cuda --batch 32 --threads 8 --json "${@:3}" >"$2"' \
        "$binaries/streampool-measure" "$binaries/minilm.onnx" "$report/lengths_batches.json" "${less[@]}" || failures=1
}

# queued NAME MODEL ARGUMENT...: a model by many callers through a queue, and by threads; batching_NAME.json tells.
queued() {
    local name=$1 model=$2
    shift 2
    # shellcheck disable=SC2016
    step "$name" bash -c '"$0" bench model "$1" --device cuda --queue --seconds 2 --json "${@:3}" >"$2"' \
        "$binaries/streampool" "$binaries/$model.onnx" "$report/batching_$name.json" "$@" || failures=1
}

run_batching() {
    begin batching 300
    if [ ! -e "$binaries/encoder.onnx" ] || [ ! -e "$binaries/mlp.onnx" ]; then
        printf 'batching\tmodels\tskipped\t0\tmake them with models/make_*.py BINARIES_DIR\n' | tee -a "$report/stages.tsv"
        return
    fi
    queued mlp mlp --shape x=1,512 --threads 1,8,256 --max-batch 256
    queued encoder encoder --shape x=1,128,384 --threads 1,8,256 --max-batch 64
    queued half half --shape x=1,128,384 --threads 1,8,256 --max-batch 64
    step queue "$binaries/streampool-measure" queue || failures=1
    step story "$binaries/streampool" story --device cuda || failures=1
}

run_several() {
    begin several 580
    local models=()
    [ ! -e "$binaries/half.onnx" ] || models=(--models "$binaries")
    step doctor "$binaries/streampool" doctor || failures=1
    # Events, programs and memory of one device that are given to another, and copies between two.
    run_tests conformance foreign
    run_tests peers
    TEST_DEVICE=cuda run_tests several
    # shellcheck disable=SC2016
    step measure bash -c '"$0" several --device cuda --json "${@:2}" >"$1"' "$binaries/streampool-measure" \
        "$report/several.json" "${models[@]}" "${quick[@]}" || failures=1
    # It needs two.
    step illegal python3 "$here/illegal_address.py" || failures=1
    python3 "$here/report_several.py" "$report" | tee "$report/several.md"
}

# The logs of this run after those of earlier ones, so much of them as is worth keeping.
keep_logs() {
    local log
    for log in "$work"/*.log; do
        [ -e "$log" ] || continue
        printf '\n======== %s, %s\n' "$(basename "$log" .log)" "$(date -u +%FT%TZ)"
        tail -c 2000000 "$log"
    done >>"$report/logs.txt"
    tail -c 15000000 "$report/logs.txt" >"$work/logs.txt" && mv "$work/logs.txt" "$report/logs.txt"
}

if is_chosen torch; then
    start_torch_build
fi
for name in "${all_stages[@]}"; do
    is_chosen "$name" || continue
    case $name in
    doctor) run_doctor ;;
    conformance) run_conformance ;;
    tests) run_the_tests ;;
    captures) run_captures ;;
    sanitizer) run_sanitizer ;;
    bench) run_bench ;;
    fairness) run_fairness ;;
    torch) run_torch ;;
    ops) run_ops ;;
    models) run_models ;;
    common) run_common ;;
    lengths) run_lengths ;;
    batching) run_batching ;;
    several)
        # With one GPU only when it is asked for.
        gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
        if [ "$gpus" -gt 1 ] || [ "${#chosen[@]}" -lt "${#all_stages[@]}" ]; then
            run_several
        fi
        ;;
    report)
        printf '\n==== report\n'
        python3 "$here/report.py" "$report" "$binaries/built.txt" || failures=1
        ;;
    esac
done
keep_logs
exit "$failures"
