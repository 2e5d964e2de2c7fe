#!/usr/bin/env bash
# Runs the tests of the CUDA device on a machine without a GPU, on the imitation of NVIDIA's driver in `testing/cuda-sim`.
# Arguments go to cargo test: `ci/cuda-sim.sh --test conformance`. Kernels are executed on the CPU and need a C++
# compiler; what is compiled once is kept below `target/emulated`. Of what the contract draws for an op one in seven is tried,
# or all with `CUDA_EVERY_OP` set. Without arguments, all but the test of products runs: it is about NVIDIA's library, and
# its large products take the CPU minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
all=
if [ "$#" -eq 0 ]; then
    all=yes
    for test in conformance behaviour captures external copies overhead programs lost bad_input options kernels peers; do
        set -- "$@" --test "$test"
    done
    set -- --lib "$@"
fi

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
folder=$target/cuda-sim
cargo build --quiet --profile test -p streampool-cuda-sim
mkdir -p "$folder"
for name in libcuda.so.1 libnvrtc.so; do
    ln -sf "$target/debug/libstreampool_cuda_sim.so" "$folder/$name"
done
# So nothing that is missing is taken for a test that passes.
export REQUIRE_CUDA=1
export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
cargo test --no-fail-fast -p streampool-cuda "$@"
if [ -n "$all" ]; then
    # Launches that hold the driver's lock so long leave it to nobody who needs it alone, were it not for the gate.
    CUDA_SIM_LAUNCH_US=3000 cargo test -p streampool-cuda --test conformance newcomers
fi
