"""Text goes on, word by word: python examples/python/generate.py MODEL TOKENIZER PROMPT [WORDS] [DEVICE].

MODEL is a decoder as Optimum and others export it: input_ids, past… and present…, logits. TOKENIZER is its tokenizer.json.
Lines that begin with # %% part it into cells: editors and Jupyter open it as a notebook.
"""

# %% Load the model and its tokenizer.
import sys

import numpy as np
from tokenizers import Tokenizer

import streampool as sp

session = sp.Session(sys.argv[1], sys.argv[5] if len(sys.argv) > 5 else "auto")
tokenizer = Tokenizer.from_file(sys.argv[2])
given = [port.name for port in session.inputs]
sizes = {size: 0 for port in session.inputs if port.name.startswith("past") for size in port.shape if isinstance(size, str)}
sizes |= {size: 1 for size in sizes if "batch" in size}

# %% The cache stays on the device: each present… is the next past…, which is empty at first.
binding = session.bind()
binding.carry_caches()
binding.set_zeros(**sizes)

# %% The first run reads the prompt, each later one a word.
words = tokenizer.encode(sys.argv[3]).ids
new = words
for _ in range(int(sys.argv[4]) if len(sys.argv) > 4 else 20):
    inputs = {"input_ids": np.array([new], np.int64)}
    if "attention_mask" in given:
        inputs["attention_mask"] = np.ones((1, len(words)), np.int64)
    if "position_ids" in given:
        inputs["position_ids"] = np.arange(len(words) - len(new), len(words), dtype=np.int64)[None]
    logits = binding.run(inputs)["logits"]
    new = [int(logits[0, -1].argmax())]
    words = words + new
print(tokenizer.decode(words))
