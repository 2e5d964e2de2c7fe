#!/usr/bin/env bash
# Streampool on a simulated cluster of Ray: three nodes on this machine, of which a replica, a node and Serve's controller are killed under load.
# Then GPUs are lost under load, those of the imitation of NVIDIA's driver. Needs 600 MB below `target` for Ray, a C++ compiler, and about
# four minutes. Arguments name parts: data, serve, requests, lost.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
environment=$target/ray

[ -x "$environment/bin/ray" ] || {
    python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check 'ray[serve,data]' numpy onnx
}

cargo build --profile test --quiet --workspace --lib --example threads
cp "$target/debug/lib_streampool.so" crates/python/python/streampool/_streampool.abi3.so
export PYTHONPATH=$PWD/crates/python/python

# Only the replicas of the last part load it.
export CUDA_SIM=$target/python-cuda-sim
mkdir -p "$CUDA_SIM"
for name in libcuda.so.1 libnvrtc.so; do
    ln -sf "$target/debug/libstreampool_cuda_sim.so" "$CUDA_SIM/$name"
done
exec "$environment/bin/python" crates/python/tests/ray_cluster.py "$@"
