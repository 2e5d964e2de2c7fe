#!/usr/bin/env bash
# Builds what bench/gpu.sh runs on a GPU machine that has no Rust: the tests of the CUDA device and the one of the
# operators as `test-NAME`, the library that PyTorch's process loads and the programs `streampool` and `streampool-measure`, stripped, in
# one folder.
#
#   bench/build-gpu.sh BINARIES_DIR [NAME...]
#
# A NAME is that of a test file of crates/cuda/tests, `unit` for the tests inside its source, `onnx` for the operators
# against the node tests of ONNX, `batching` for queues over sessions, `several` for several devices, `beside` for the
# library, or `streampool` for the programs; all of them by default. What does not compile is left out, and the exit code says so. The node tests' data is carried along as
# BINARIES_DIR/onnx from ONNX_DATA, or from where the test has installed it; without it that test skips.
set -euo pipefail

usage() {
    sed -n 's/^# \{0,1\}//; 2,11p' "$0" >&2
    exit 2
}

case ${1:-} in '' | -*) usage ;; esac
mkdir -p "$1"
binaries=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."
most_bytes=$((60 << 20))

# The lock ranks are checked by debug assertions: the tests keep them. Linking all that many binaries slowly gains
# them nothing.
tests_profile=(CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true)
stripped=(CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_STRIP=symbols)

# collect: copies the executables that cargo tells of on its standard output.
collect() {
    python3 -c '
import json, shutil, sys
for line in sys.stdin:
    message = json.loads(line)
    path, target = message.get("executable"), message.get("target", {})
    if target.get("kind") == ["example"]:
        shutil.copy2(message["filenames"][0], sys.argv[1])
        continue
    if message.get("reason") != "compiler-artifact" or not path:
        continue
    name = target["name"] if target["kind"] == ["test"] else "unit"
    name = f"test-{name}" if message["profile"]["test"] else target["name"]
    shutil.copy2(path, f"{sys.argv[1]}/{name}")
' "$binaries"
}

build() {
    env "${stripped[@]}" "$@" --release --message-format=json-render-diagnostics | collect
}

# carry_onnx_data: the node tests' models, inputs and outputs.
carry_onnx_data() {
    local data=${ONNX_DATA:-}
    if [ -z "$data" ]; then
        data=$(find "${CARGO_TARGET_DIR:-target}/tmp" -type d -path '*/onnx/backend/test/data' -print -quit \
            2>/dev/null || true)
    fi
    if [ -z "$data" ]; then
        echo "the node tests of ONNX are not here: run the test onnx of streampool-model first" >&2
        return
    fi
    rm -rf "$binaries/onnx"
    mkdir "$binaries/onnx"
    cp -rL "$data"/{node,simple,pytorch-converted,pytorch-operator} "$binaries/onnx"
}

tests=() program=no onnx=no face=() beside=no
for name in "$@"; do
    case $name in
    streampool) program=yes ;;
    unit) tests+=(--lib) ;;
    onnx) onnx=yes ;;
    batching | several) face+=(--test "$name") ;;
    beside) beside=yes ;;
    *) tests+=(--test "$name") ;;
    esac
done
if [ "$#" -eq 0 ]; then
    tests=(--tests) program=yes onnx=yes face=(--test batching --test several) beside=yes
fi

failures=0
if [ "${#tests[@]}" -gt 0 ]; then
    build "${tests_profile[@]}" cargo test -p streampool-cuda --no-run --no-fail-fast "${tests[@]}" || failures=1
fi
if [ "$onnx" = yes ]; then
    build "${tests_profile[@]}" cargo test -p streampool-model --no-run --test onnx || failures=1
    carry_onnx_data
fi
if [ "${#face[@]}" -gt 0 ]; then
    build "${tests_profile[@]}" cargo test -p streampool --no-run "${face[@]}" || failures=1
fi
if [ "$beside" = yes ]; then
    build cargo build -p streampool-cuda --example beside || failures=1
fi
if [ "$program" = yes ]; then
    build cargo build -p streampool-cli -p streampool-measure --bins || failures=1
fi

commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain 2>/dev/null)" ] || commit="$commit, with changes"
printf '%s, %s\n' "$commit" "$(rustc --version)" >"$binaries/built.txt"

ls -l "$binaries"
bytes=$(du -sb "$binaries" | cut -f1)
printf '%d bytes in all, of at most %d\n' "$bytes" "$most_bytes"
[ "$bytes" -le "$most_bytes" ] && [ "$failures" -eq 0 ]
