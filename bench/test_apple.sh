#!/usr/bin/env bash
# Tests of what bench/apple.sh does beside running things: the limit of time and the reading of logs. They need no Mac.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
. bench/apple/watch.sh

folder=$(mktemp -d)
trap 'end_group; rm -rf "$folder"' EXIT
failures=0

expect() {
    local what=$1 wanted=$2 got=$3
    if [ "$wanted" != "$got" ]; then
        printf '%s\n  wanted: %s\n  got:    %s\n' "$what" "$wanted" "$got" >&2
        failures=1
    fi
}

# Stands for macOS's tool: says for whom it was called.
sample() { printf 'sampled %s\n' "$1" >"$5"; }

ends() { echo "it ends"; return "$1"; }
limited 20 "$folder/log" "$folder/sample" ends 0
expect "what ends well" 0 "$?"
limited 20 "$folder/log" "$folder/sample" ends 7
expect "what fails" 7 "$?"
expect "its words" "it ends" "$(cat "$folder/log")"
expect "no samples of what ends" 0 "$(find "$folder" -name 'sample-*' | wc -l | tr -d ' ')"

# Hangs in a process that it started, and will not go when it is asked.
hangs() {
    echo "it begins"
    tail -f /dev/null &
    echo $! >"$folder/child"
    trap '' TERM
    wait
    while :; do sleep 1; done
}
begun=$SECONDS
limited 2 "$folder/log" "$folder/sample" hangs
expect "what hangs" 124 "$?"
[ $((SECONDS - begun)) -lt 60 ] || expect "it is ended" soon never
child=$(cat "$folder/child")
expect "the process that hangs is sampled" "sampled $child" "$(cat "$folder/sample-$child.txt" 2>/dev/null)"
grep -q "^it begins$" "$folder/log" || expect "what was said" "it begins" "$(cat "$folder/log")"
grep -q "not ended after 2 s" "$folder/log" || expect "the limit is told" "a line" "$(cat "$folder/log")"
kill -0 "$child" 2>/dev/null && expect "what it started is ended" gone "$child"

says() { printf '%s\n' "$@" >"$folder/log"; complaints "$folder/log" | cut -d : -f 1 | tr '\n' ' '; }

expect "a clean log" "" "$(says \
    '2026-10-17 16:40:59.867 conformance[17424:9358094] Metal API Validation Enabled' \
    '2026-10-17 16:40:59.867 conformance[17424:9358094] Metal GPU Validation Enabled' \
    '2026-10-17 16:40:59.867 conformance[17424:9358094] Metal Shader Validation Enabled' \
    'test map_adds ... ok' \
    'test invalid_loads_are_refused ... ok' \
    'Device metal: usable' \
    'agx-fix: 0 encoders created, 0 ended' \
    'test result: ok. 180 passed; 0 failed; 0 ignored')"
# What others met, as they wrote it down.
expect "assertions" "1 2 3 4 " "$(says \
    "-[MTLDebugComputeCommandEncoder setThreadgroupMemoryLength:atIndex:]:543: failed assertion \`length(16640) must be <= 16384.'" \
    "validateComputeFunctionArguments:1066: failed assertion \`Compute Function(kernel_set_rows): Read-only bytes are being bound at index 2'" \
    "-[AGXG14XFamilyCommandBuffer tryCoalescingPreviousComputeCommandEncoderWithConfig:nextEncoderClass:]:1094: failed assertion \`A command encoder is already encoding to this command buffer'" \
    "-[_MTLCommandBuffer addCompletedHandler:]:1011: failed assertion \`Completed handler provided after commit call'")"
expect "errors that are only logged" "2 3 " "$(says \
    '2026-10-17 16:40:59.867 behaviour[1:2] Metal API Validation Enabled' \
    '2026-10-17 16:41:02.101 behaviour[1:2] -[MTLDebugBlitCommandEncoder copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:]:812: sizes differ' \
    'End Encoding Validation' \
    'encoder was not ended')"
expect "errors inside kernels" "1 3 4 " "$(says \
    'Invalid device store at offset 128000, executing kernel function: "k"' \
    'buffer: kv_store_probe, length:1024, resident:Read Write' \
    'Invalid threadgroup load at offset 4096, executing kernel function: "reduce"' \
    'Null texture access executing kernel function "k" encoder: "0", dispatch: 0')"

# The script with a cargo that only says something.
mkdir "$folder/bin"
cat >"$folder/bin/cargo" <<'EOF'
#!/bin/sh
echo "layer ${MTL_DEBUG_LAYER:-off} ${MTL_DEBUG_LAYER_ERROR_MODE:-}"
case "$*" in
*"--exact ops_map::"*) echo 'test result: ok. 0 passed; 0 failed' ;;
*"--test texts"*) echo "-[MTLDebugDevice newLibraryWithSource:options:error:]:1: wrong" ;;
*" agx-fix"*) exit 1 ;;
esac
EOF
chmod +x "$folder/bin/cargo"
PATH=$folder/bin:$PATH bench/apple.sh "$folder/report" op kernels alone layer tests >"$folder/log" 2>&1
expect "that something failed" 1 "$?"
verdicts=$(cut -f 1,2 "$folder/report/stages.tsv" | tr '\t\n' '  ')
expect "verdicts" "op failed kernels complaints alone ok layer ok tests failed " "$verdicts"
expect "with the layer" "layer 1 nslog" "$(cat "$folder/report/layer.log")"
expect "without it" "layer off " "$(cat "$folder/report/alone.log")"

[ "$failures" -eq 0 ] && echo "apple.sh watches as it should"
exit "$failures"
