#!/usr/bin/env bash
# Runs NVIDIA's and OpenAI's clients, by HTTP and gRPC, and a browser against the server. They go to a folder below `target`.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
packages=$target/serve-packages

[ -d "$packages/openai" ] ||
    python3 -m pip install --quiet --disable-pip-version-check --upgrade --target "$packages" \
        'tritonclient[http,grpc]' ml_dtypes numpy onnx openai grpcio-reflection pyyaml

# KServe's package, without what its server needs, says what a manifest has.
[ -d "$packages/kserve" ] || {
    python3 -m pip install --quiet --disable-pip-version-check --target "$packages" --upgrade kubernetes six
    python3 -m pip install --quiet --disable-pip-version-check --target "$packages" --upgrade --no-deps kserve
}

# The program that `cargo test --workspace` has built, with the same features and those of the server: an example brings in those of
# tests.
cargo build --profile test --quiet --workspace --bin streampool --example threads --features streampool-cli/text,streampool-cli/tls,streampool-cli/zstd
export STREAMPOOL=$target/debug/streampool PYTHONPATH=$packages
python3 crates/serve/tests/clients/test_clients.py
python3 crates/serve/tests/clients/test_operation.py
# The page, where there is a browser: `apt-get install chromium`.
if command -v chromium >/dev/null; then
    [ -d "$packages/playwright" ] ||
        python3 -m pip install --quiet --disable-pip-version-check --upgrade --target "$packages" playwright
    python3 crates/serve/tests/clients/test_page.py
else
    echo "chromium is not installed: the page was not tried"
fi
