"""A thousand tasks of asyncio share batches of one model: python examples/python/tasks.py MODEL [DEVICE].

Lines that begin with # %% part it into cells: editors and Jupyter open it as a notebook.
"""

# %% Load the model.
import asyncio
import sys

import numpy as np

import streampool as sp

session = sp.Session(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "auto")
shape = [size if isinstance(size, int) else 1 for size in session.inputs[0].shape]


# %% A task asks for one row. The queue puts rows of many tasks together and runs the model on them at once.
async def ask(queue, number):
    """Answer one request. A task that is cancelled here withdraws it."""
    outputs = await queue.infer_async(np.full(shape, number / 1000, np.float32), timeout=60)
    return next(iter(outputs.values()))


async def main():
    """Answer a thousand requests."""
    with sp.BatchQueue(session, max_batch_size=32, capacity=2000) as queue:
        answers = await asyncio.gather(*(ask(queue, number) for number in range(1000)))
        batches = queue.statistics()["batch_rows"]
    print(f"{len(answers)} answers in {batches['count']} batches of {batches['mean']:.1f} rows on average")


# %% In a notebook, which has an event loop already: await main()
asyncio.run(main())
