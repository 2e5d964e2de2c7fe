#!/usr/bin/env bash
# Compares a few of the models of bench/models/table.py with ONNX Runtime: those that need no exporter. All of them:
# bench/models/exported.py. Packages go to a folder below `target`.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
packages=$target/model-packages

[ -d "$packages/onnxruntime" ] ||
    python3 -m pip install --quiet --disable-pip-version-check --target "$packages" onnx onnxruntime numpy

# The program that `cargo test --workspace` has built, with the same features: an example brings in those of tests.
cargo build --profile test --quiet --workspace --bin streampool --example threads
PYTHONPATH=$packages exec python3 bench/models/exported.py "$target/debug/streampool" --rounds 1 --seconds 0.01 \
    --folder "$target/model-table" nms-8400x80 roi-align-adaptive roi-align-max dft-15991-prime dft-16000-inverse stft-1s \
    scatter-nd-20000x64 conv-dilated-12
