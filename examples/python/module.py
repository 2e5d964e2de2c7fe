"""A module of PyTorch, from many threads, in one line: python examples/python/module.py.

Needs the packages torch and onnxscript. Lines that begin with # %% part it into cells.
"""

# %% Any module. This one has random weights.
import concurrent.futures

import torch

import streampool as sp

torch.manual_seed(7)
module = torch.nn.Sequential(
    torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.LayerNorm(128), torch.nn.Linear(128, 10)
).eval()
inputs = [torch.randn(1 + number % 4, 64) for number in range(64)]

# %% Whether it can be taken as a whole. If not, this names the operators that are missing.
print(sp.explain(module, (inputs[3],)))

# %% The line. Any number of rows is taken, since the first axis is said to be one that changes.
fast = sp.from_torch(module, (inputs[3],), dynamic_shapes=({0: "batch"},))

# %% Call it as the module is called, from eight threads.
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    outputs = list(pool.map(fast, inputs))
with torch.inference_mode():
    difference = max((fast_y - module(x)).abs().max().item() for x, fast_y in zip(inputs, outputs, strict=True))
print(f"{len(outputs)} outputs, largest difference from PyTorch {difference:.1e}")

# %% Or compiled: what cannot be taken stays with PyTorch. Where the package is installed, the name "streampool" is enough.
compiled = torch.compile(module, backend="streampool" if "streampool" in torch.compiler.list_backends() else sp.torch_backend)
with torch.inference_mode():
    print(f"compiled: {tuple(compiled(inputs[3]).shape)}")
