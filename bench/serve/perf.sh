#!/usr/bin/env bash
# Measures the server with NVIDIA's perf_analyzer, over HTTP and gRPC, with tensors in the body and in shared memory:
#     bench/serve/perf.sh PROGRAM [CONCURRENCY, such as 1:16:5]
# It takes perf_analyzer from the wheel of tritonclient 2.41, whose binary runs on Debian 12, and the two libraries that it needs. The model
# gives its input back, 16 numbers.
set -euo pipefail
program=$(realpath "$1")
concurrency=${2:-1:16:5}
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT
tools=${PERF_ANALYZER:-${TMPDIR:-/tmp}/streampool-perf-analyzer}
perf=$tools/tritonclient-2.41.0.data/data/bin/perf_analyzer
if [ ! -x "$perf" ]; then
    mkdir -p "$tools"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" tritonclient==2.41.0 nvidia-cuda-runtime-cu12
    (cd "$work" && apt-get download -qq libb64-0d 2>"$work/apt" && dpkg -x ./*.deb "$tools")
    for wheel in "$work"/*.whl; do python3 -m zipfile -e "$wheel" "$tools"; done
    chmod +x "$perf"
fi
export LD_LIBRARY_PATH=$tools/nvidia/cuda_runtime/lib:$tools/usr/lib/x86_64-linux-gnu
mkdir "$work/models"
[ -d "$tools/python/onnx" ] || python3 -m pip install --quiet --root-user-action=ignore --disable-pip-version-check --target "$tools/python" onnx
PYTHONPATH=$tools/python python3 - "$work/models/identity.onnx" <<'PYTHON'
import sys
from onnx import TensorProto, helper, save
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 16]) for name in "xy")
graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "identity", [x], [y])
save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), sys.argv[1])
PYTHON
"$program" serve "$work/models" --http 127.0.0.1:0 --grpc 127.0.0.1:0 --shared-memory '' 2>"$work/log" &
server=$!
for _ in $(seq 100); do grep -q ready "$work/log" && break; sleep 0.1; done
address() { sed -n "s/.*$1=\"\([^\"]*\)\".*/\1/p" "$work/log"; }
for protocol in http grpc; do
    for memory in none system; do
        "$perf" -m identity -i "$protocol" -u "$(address $protocol)" --concurrency-range "$concurrency" --shared-memory $memory \
            --output-shared-memory-size 64 --measurement-interval 1000 -s 999 -f "$work/$protocol-$memory.csv" >"$work/out" 2>&1 ||
            { tail -n 20 "$work/out"; exit 1; }
        echo "$protocol, shared memory: $memory"
        python3 - "$work/$protocol-$memory.csv" <<'PYTHON'
import csv, sys
rows = sorted(csv.DictReader(open(sys.argv[1])), key=lambda row: int(row["Concurrency"]))
for row in rows:
    print(f'  {row["Concurrency"]:>3} callers: {float(row["Inferences/Second"]):9.0f}/s, p50 {row["p50 latency"]} us, p99 {row["p99 latency"]} us')
PYTHON
    done
done
