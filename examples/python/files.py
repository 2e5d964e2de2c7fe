"""Goes through a folder of files in batches, with a bar: python examples/python/files.py MODEL FOLDER [DEVICE].

Each file is an array of NumPy (.npy), which is one row for the model; the answer goes beside it, as NAME.out.npy. For pictures,
replace `read`. With the package tqdm installed, the bar is tqdm's.
"""

# %% The model and the files.
import pathlib
import sys

import numpy as np

import streampool as sp

session = sp.Session(sys.argv[1], sys.argv[3] if len(sys.argv) > 3 else "auto")
files = sorted(path for path in pathlib.Path(sys.argv[2]).glob("*.npy") if not path.name.endswith(".out.npy"))


# %% How a file becomes an input: with an axis for the rows of a batch.
def read(path):
    """Return what a file holds as one row."""
    return np.load(path)[np.newaxis]


class Files:
    """The files' inputs, read one after the other: so a folder may be larger than memory. The bar knows how many they are."""

    def __len__(self):
        return len(files)

    def __iter__(self):
        return map(read, files)


# %% Answers come in the order of the files, while later files are read and computed.
for path, outputs in zip(files, sp.batch_inference(session, Files(), batch_size=8, progress=True), strict=True):
    (y,) = outputs.values()
    np.save(path.with_suffix(".out.npy"), y[0])

print(f"{len(files)} files answered")
