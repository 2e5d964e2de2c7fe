#!/usr/bin/env bash
# The specifications, at small sizes, each with a bug that it has to find, the assembly of agx-fix, the proofs, and some traces: the part of
# `verify/run` that fits into a few minutes. The checkers are installed below target/, and Coq as Debian packages.
set -euo pipefail
cd "$(dirname "$0")/.."

ci/debian-packages.sh coq libcoq-iris libcoq-stdpp
if command -v java >/dev/null; then
    TRACES=2000 exec verify/run --ci
fi
echo "there is no Java: the specifications and traces are skipped"
verify/run --ci stubs
verify/run --ci coq
