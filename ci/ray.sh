#!/usr/bin/env bash
# Streampool on a simulated cluster of Ray: three nodes on this machine, of which a replica, a node and Serve's controller are killed under load.
# Needs 600 MB below `target` for Ray, and about three minutes. Arguments name parts: data, serve, requests.
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
exec "$environment/bin/python" crates/python/tests/ray_cluster.py "$@"
