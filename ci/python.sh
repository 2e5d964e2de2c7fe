#!/usr/bin/env bash
# Builds the Python package as tests are built, runs its tests, and reads its Python with ruff and mypy. What it needs goes to a
# folder below `target`. Tests that need PyTorch skip where that is not installed. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
packages=$target/python-packages
package=crates/python

[ -d "$packages/tokenizers" ] ||
    python3 -m pip install --quiet --disable-pip-version-check --target "$packages" numpy onnx pytest ruff mypy fastapi uvicorn tokenizers

# All libraries: with the features that `cargo test --workspace` builds them with, most are there. An example brings in those
# of tests.
cargo build --profile test --quiet --workspace --lib --example threads
cp "$target/debug/lib_streampool.so" "$package/python/streampool/_streampool.abi3.so"

# The imitation of NVIDIA's driver, for tests of tensors on a GPU.
export CUDA_SIM=$target/python-cuda-sim
mkdir -p "$CUDA_SIM"
for name in libcuda.so.1 libnvrtc.so; do
    ln -sf "$target/debug/libstreampool_cuda_sim.so" "$CUDA_SIM/$name"
done

cd "$package"
"$packages/bin/ruff" check .
"$packages/bin/ruff" format --check .
export PYTHONPATH=python:$packages
python3 -m mypy python
exec python3 -m pytest "$@"
