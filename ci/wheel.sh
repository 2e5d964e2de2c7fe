#!/usr/bin/env bash
# Makes the wheel for Linux, for CPython 3.10 and later and glibc 2.28 and later: target/wheels/streampool-*-manylinux_2_28_*.whl. Then checks what
# it needs of a system and that it is at most 25 MB, installs it where nothing else is, and runs tests with it. Takes minutes.
#
# Zig links with glibc 2.28. The unwinder has to be the system's, not zig's: glibc unwinds threads that it ends, such as daemon threads of an
# interpreter that ends, with its own, and the process would crash.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
tools=$target/wheel-tools fresh=$target/wheel-fresh

[ -x "$tools/bin/auditwheel" ] || {
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check 'maturin>=1.9,<2' ziglang auditwheel
}
rm -rf "$target"/wheels/streampool-*.whl "$fresh"
PATH=$tools/bin:$PATH maturin build --release --zig --compatibility manylinux_2_28 --manifest-path crates/python/Cargo.toml --out "$target/wheels" \
    -- -C link-arg="$(gcc -print-file-name=libgcc_s.so.1)"
wheel=$(echo "$target"/wheels/streampool-*-manylinux_2_28_*.whl)
"$tools/bin/auditwheel" show "$wheel"
size=$(stat -c %s "$wheel")
echo "$wheel: $size bytes"
[ "$size" -le 25000000 ]

python3 -m venv "$fresh"
"$fresh/bin/pip" install --quiet --disable-pip-version-check "$wheel"
"$fresh/bin/python" -m streampool doctor
"$fresh/bin/pip" install --quiet --disable-pip-version-check pytest onnx
cd crates/python/tests
exec "$fresh/bin/python" -m pytest -p no:cacheprovider --rootdir . test_session.py test_queue.py test_signals.py test_leaks.py "$@"
