#!/usr/bin/env python3
"""A thousand tasks of asyncio through a queue: rows per second, and how long the event loop stands still.

    tasks.py [--tasks N] [--rows R] [--seconds S] [--device NAME]

Each task asks again and again. A task beside them wakes as often as the loop goes round, and notes the time between; the round in
which all tasks begin is left out. For comparison: the same tasks with `asyncio.sleep(0)` in place of the request, the same requests
handed in by threads, and by one thread that keeps a thousand tickets under way. Needs the packages streampool, numpy and onnx.
"""

import argparse
import asyncio
import collections
import threading
import time

import numpy as np
from gil import model

import streampool as sp


async def rounds(stop, seen):
    """Note how long each round of the loop takes."""
    await asyncio.sleep(0.2)
    last = time.perf_counter()
    while not stop.is_set():
        await asyncio.sleep(0)
        now = time.perf_counter()
        seen.append(now - last)
        last = now


async def tasks(ask, count, seconds):
    """Answers per second, and the loop's rounds."""
    stop, seen, answers = threading.Event(), [], [0] * count

    async def one(number):
        while not stop.is_set():
            await ask()
            answers[number] += 1

    beside = asyncio.ensure_future(rounds(stop, seen))
    all_of_them = asyncio.gather(*(one(number) for number in range(count)))
    await asyncio.sleep(0.2)
    before, begun = sum(answers), time.perf_counter()
    await asyncio.sleep(seconds)
    rate = (sum(answers) - before) / (time.perf_counter() - begun)
    stop.set()
    await asyncio.gather(beside, all_of_them)
    return rate, np.sort(np.array(seen)) * 1e3


def show(name, rate, seen, rows):
    told = "" if seen is None else (
        f"; a round of the loop: median {seen[len(seen) // 2]:.2f} ms, 99 % {seen[int(len(seen) * 0.99)]:.2f} ms, longest {seen[-1]:.2f} ms"
    )
    print(f"{name:32} {rate * rows:9.0f} rows/s{told}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--device", default="host")
    options = parser.parse_args()
    session = sp.Session(model(), options.device)
    x = np.ones((options.rows, 256), np.float32)
    with sp.BatchQueue(session, max_batch_size=64, capacity=2 * options.tasks) as queue:
        queue.infer(x)

        async def nothing():
            await asyncio.sleep(0)

        show("sleep(0), no requests", *asyncio.run(tasks(nothing, options.tasks, options.seconds)), 0)
        for way in (queue.infer_async, session.run_async):
            rate, seen = asyncio.run(tasks(lambda way=way: way(x), options.tasks, options.seconds))
            show(way.__name__, rate, seen, options.rows)

        under_way, answers, begun = collections.deque(), 0, time.perf_counter()
        while time.perf_counter() - begun < options.seconds:
            if len(under_way) == options.tasks:
                under_way.popleft().result()
                answers += 1
            under_way.append(queue.submit(x))
        show("tickets of one thread", answers / (time.perf_counter() - begun), None, options.rows)
        for ticket in under_way:
            ticket.result()

        counts, until = [0] * 8, time.perf_counter() + options.seconds

        def work(number):
            while time.perf_counter() < until:
                queue.infer(x)
                counts[number] += 1

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        show("eight threads", sum(counts) / options.seconds, None, options.rows)


if __name__ == "__main__":
    main()
