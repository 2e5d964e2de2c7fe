"""Eight threads run one model on one device: python examples/python/threads.py MODEL [DEVICE]."""

import sys
import threading

import numpy as np

import streampool as sp

session = sp.Session(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "auto")
shape = [size if isinstance(size, int) else 1 for size in session.inputs[0].shape]


def work(number):
    """Run the model a few times on this thread's own stream."""
    x = np.full(shape, number, np.float32)
    for _ in range(100):
        outputs = session(x)
    name, y = next(iter(outputs.items()))
    print(f"thread {number}: {name} {y.shape}, mean {y.mean():.4f}, on stream {sp.current_stream(session.device).index}")


threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
