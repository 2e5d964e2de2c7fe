#!/usr/bin/env bash
# Runs NVIDIA's clients, by HTTP and gRPC, against the server. They go to a folder below `target`.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
packages=$target/serve-packages

[ -d "$packages/tritonclient" ] ||
    python3 -m pip install --quiet --disable-pip-version-check --target "$packages" 'tritonclient[http,grpc]' ml_dtypes numpy onnx

# The program that `cargo test --workspace` has built, with the same features: an example brings in those of tests.
cargo build --profile test --quiet --workspace --bin streampool --example threads
STREAMPOOL=$target/debug/streampool PYTHONPATH=$packages exec python3 crates/serve/tests/clients/test_clients.py
