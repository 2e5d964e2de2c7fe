"""Eight threads run one model on one device: python examples/python/threads.py MODEL [DEVICE].

Lines that begin with # %% part it into cells: editors and Jupyter open it as a notebook.
"""

# %% Load the model once. All threads share this session: no lock, and no session for each thread.
import sys
import threading

import numpy as np

import streampool as sp

session = sp.Session(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "auto")
print(session)

# %% An input of the size that the model takes. Sizes that it leaves open are 1 here.
shape = [size if isinstance(size, int) else 1 for size in session.inputs[0].shape]
inputs = [np.full(shape, number, np.float32) for number in range(8)]

# %% What one thread gets, to compare with.
alone = [session(x) for x in inputs]


# %% Each thread calls the session as if it were alone. It has a stream of its own, so its work does not wait for that of others.
together = threading.Barrier(8)
seen = {}


def work(number):
    """Run the model a few times on this thread's own stream."""
    stream = sp.current_stream(session.device).index
    together.wait()
    for _ in range(100):
        outputs = session(inputs[number])
    seen[number] = stream, outputs


threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

# %% All got the bits that one thread got.
for number, (stream, outputs) in sorted(seen.items()):
    for name, y in outputs.items():
        same = np.array_equal(y, alone[number][name])
        print(f"thread {number}: {name} {y.shape}, {'the same bits' if same else 'OTHER BITS'}, on stream {stream}")

# %% What the device holds now.
stats = sp.memory_stats(session.device)
print(f"{stats['allocated_bytes']} bytes in use, {stats['free_streams']} of {stats['streams']} streams free")
