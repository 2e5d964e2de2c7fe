#!/usr/bin/env bash
# Runs the tests of the CUDA device on a machine without a GPU, on the imitation of NVIDIA's driver in `testing/cuda-sim`.
# Arguments go to cargo test: `ci/cuda-sim.sh --test conformance`. Kernels are executed on the CPU and need a C++
# compiler; what is compiled once is kept below `target/emulated`. Of what the contract draws for an op one in seven is tried,
# or all with `CUDA_EVERY_OP` set. Without arguments, all but the test of products runs: it is about NVIDIA's library, and
# its large products take the CPU minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
folder=$target/cuda-sim
mkdir -p "$folder"
# What `cargo test --workspace` has built serves here too, since the whole workspace is selected, for its features. Cargo
# runs each test program by this one, which leaves out those of other crates.
skip=-
[ "$#" -gt 0 ] || skip=products
cat >"$folder/run" <<END
#!/bin/sh
case "\$PWD \$1" in
*/$skip-*) ;;
*"/crates/cuda "*) touch "$folder/ran" && exec "\$@" ;;
esac
END
chmod +x "$folder/run"
rm -f "$folder/ran"
host=$(rustc -vV | sed -n 's/^host: //p')
runner=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$host")_RUNNER
export "$runner=$folder/run"

cargo build --quiet --profile test --workspace --lib --example threads
for name in libcuda.so.1 libnvrtc.so; do
    ln -sf "$target/debug/libstreampool_cuda_sim.so" "$folder/$name"
done
# So nothing that is missing is taken for a test that passes.
export REQUIRE_CUDA=1
export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
if [ "$#" -gt 0 ]; then
    cargo test --no-fail-fast --workspace "$@"
else
    cargo test --no-fail-fast --workspace --tests
    # Launches that hold the driver's lock so long leave it to nobody who needs it alone, were it not for the gate.
    CUDA_SIM_LAUNCH_US=3000 cargo test --workspace --test conformance newcomers
fi
[ -e "$folder/ran" ] || { echo "no test of the CUDA device has run" >&2; exit 1; }
