"""A thousand tasks of asyncio share batches of one model: python examples/python/tasks.py MODEL [DEVICE]."""

import asyncio
import sys

import numpy as np

import streampool as sp

session = sp.Session(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "auto")
shape = [size if isinstance(size, int) else 1 for size in session.inputs[0].shape]


async def main():
    """Answer a thousand requests."""
    with sp.BatchQueue(session, max_batch_size=32, capacity=2000) as queue:
        rows = (np.full(shape, number / 1000, np.float32) for number in range(1000))
        answers = await asyncio.gather(*(queue.infer_async(row) for row in rows))
        batches = queue.statistics()["batch_rows"]
    print(f"{len(answers)} answers in {batches['count']} batches of {batches['mean']:.1f} rows on average")


asyncio.run(main())
