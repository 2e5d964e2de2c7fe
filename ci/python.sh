#!/usr/bin/env bash
# Builds the Python package as tests are built, runs its tests, and reads its Python with ruff and mypy. What it needs goes to
# an environment below `target`. Tests that need PyTorch skip where that is not installed. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
environment=$target/python
package=crates/python

[ -x "$environment/bin/python" ] || python3 -m venv "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check numpy onnx pytest ruff mypy

cargo build --profile test --quiet -p streampool-python
cp "$target/debug/lib_streampool.so" "$package/python/streampool/_streampool.abi3.so"

cd "$package"
"$environment/bin/ruff" check .
"$environment/bin/ruff" format --check .
"$environment/bin/mypy" python
PYTHONPATH=python exec "$environment/bin/pytest" "$@"
