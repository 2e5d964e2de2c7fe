#!/usr/bin/env bash
# The specifications, at small sizes, each with a bug that it has to find, the assembly of agx-fix, and some traces: the part of `verify/run`
# that fits into a few minutes, with all proofs but the longest. That and more traces take ten more: `verify/run coq`, `verify/run traces`.
# The checkers are installed below target/, and Coq as Debian packages.
set -euo pipefail
cd "$(dirname "$0")/.."

verify/run --ci stubs
ci/debian-packages.sh coq libcoq-iris libcoq-stdpp
verify/run --ci coq
if ! command -v java >/dev/null; then
    echo "skipped: there is no Java"
    exit 0
fi
verify/run --ci tla
TRACES=2000 verify/run --ci traces
