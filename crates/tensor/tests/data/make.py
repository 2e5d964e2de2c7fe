"""Writes the files beside it, with NumPy and safetensors, as others would: pip install numpy safetensors."""

from pathlib import Path

import numpy as np
from numpy.lib import format as npy
from safetensors.numpy import save_file

HERE = Path(__file__).parent
grid = np.arange(6, dtype=np.float32).reshape(2, 3) / 2

np.save(HERE / "grid.npy", grid)
np.save(HERE / "fortran.npy", np.asfortranarray(np.arange(24, dtype=np.int16).reshape(2, 3, 4)))
np.save(HERE / "big_endian.npy", np.array([1, -2, 1 << 40], dtype=">i8"))
np.save(HERE / "scalar.npy", np.array(2.5, dtype=np.float64))
np.save(HERE / "empty.npy", np.zeros((3, 0), dtype=np.float16))
np.save(HERE / "text.npy", np.array(["not", "numbers"]))
for version in [(2, 0), (3, 0)]:
    with open(HERE / f"version{version[0]}.npy", "wb") as file:
        npy.write_array(file, np.array([True, False]), version=version)
arrays = {"grid": grid, "count": np.array([7], dtype=np.uint32), "inner/half": np.array([0.5], dtype=np.float16)}
np.savez(HERE / "stored.npz", **arrays)
np.savez_compressed(HERE / "deflated.npz", zeros=np.zeros(5000, dtype=np.int64), **arrays)
save_file(
    {"grid": grid, "truth": np.array([True, False]), "half": np.array(1.5, dtype=np.float16), "none": np.zeros((0, 2))},
    HERE / "some.safetensors",
    metadata={"format": "np"},
)
