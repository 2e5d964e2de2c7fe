#!/usr/bin/env bash
# Builds threads.cpp against the PyTorch that python3 imports.
#
#   bench/torch/build.sh PROGRAM
set -euo pipefail
[ "$#" -eq 1 ] || { sed -n 's/^# \{0,1\}//; 2,4p' "$0" >&2 && exit 2; }
program=$1
cd "$(dirname "$0")"

found=$(python3 - <<'PYTHON'
import glob, os, sys
import torch
from torch.utils.cpp_extension import include_paths

root = os.path.dirname(torch.__file__)
# CUDA's headers and its runtime come with Python's packages, with the toolkit, or some with the one and some with
# the other.
packages = [path for base in sys.path for path in sorted(glob.glob(f"{base}/nvidia/*"))]
toolkit = "/usr/local/cuda"
includes = include_paths() + [f"{path}/include" for path in packages + [toolkit]]
runtimes = [hit for path in packages for hit in glob.glob(f"{path}/lib/libcudart.so*")]
runtimes += glob.glob(f"{toolkit}/lib64/libcudart.so*")
print(f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}")
for path in dict.fromkeys(includes):
    if os.path.isdir(path):
        print(f"-isystem{path}")
for path in [f"{root}/lib"] + [os.path.dirname(runtime) for runtime in runtimes[:1]]:
    print(f"-Wl,-rpath,{path}")
print(f"-L{root}/lib")
print("\n".join(runtimes[:1]))
PYTHON
)
mapfile -t flags <<<"$found"
"${CXX:-g++}" -O2 -std=c++20 -DAT_PER_OPERATOR_HEADERS threads.cpp -o "$program" -pthread -Wl,--no-as-needed \
    -Wl,--allow-shlib-undefined "${flags[@]}" -ltorch -ltorch_cpu -ltorch_cuda -lc10 -lc10_cuda
