"""Memory and references are back where they began after many calls.

LEAK_CALLS=1000000 makes it a million, which takes some minutes: build the package in release for that.
"""

import asyncio
import concurrent.futures
import contextlib
import gc
import os
import random
import sys
import threading
import time
import tracemalloc

import numpy as np
import pytest

import streampool as sp

CALLS = int(os.environ.get("LEAK_CALLS", "20000"))

# Allocators keep some of what they have; a leak of 32 bytes a call would be more in a million calls.
SLACK = 8 << 20


def resident():
    with open("/proc/self/statm") as told:
        return int(told.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def references(*objects):
    return [sys.getrefcount(each) for each in objects]


def are_as_before(before, counted):
    """Whether there are as many references as before, once threads have let go of what they are through with."""
    for _ in range(100):
        if counted() == before:
            return True
        time.sleep(0.1)
    return False


class Odd(Exception):
    pass


def refuse(x):
    if (x < 0).any():
        raise Odd("negative")
    return x + 1


def calls(session, queue, function, count):
    """So many calls of every kind, good and bad."""
    x, wrong, refused = np.ones((2, 16), np.float32), np.ones((2, 15), np.float32), np.full((1, 4), -1.0)
    for _ in range(count // 10):
        session.run({"x": x})
        session(x=x)
        queue.infer(x)
        function.infer(x)
        session.submit(x).result(60)
        queue.submit(x).result(60)
        ticket = queue.submit(x)
        ticket.cancel()
        with contextlib.suppress(sp.InvalidInput):
            session.run(wrong)
        with contextlib.suppress(Odd):
            function.infer(refused)
        sp.Event(device="host").record()


async def tasks(session, queue, count):
    x = np.ones((2, 16), np.float32)

    async def one(number):
        if number % 3 == 0:
            return await session.run_async(x)
        task = asyncio.ensure_future(queue.infer_async(x))
        if number % 3 == 1:
            await asyncio.sleep(0)
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            return await task

    for begin in range(0, count, 100):
        await asyncio.gather(*(one(number) for number in range(begin, begin + 100)))


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="this system does not tell what is resident")
def test_nothing_is_left_of_many_calls(session):
    with sp.BatchQueue(session, max_batch_size=8) as queue, sp.BatchQueue(refuse, max_batch_size=8) as function:

        def round_of(count):
            calls(session, queue, function, count)
            asyncio.run(tasks(session, queue, count // 10))
            gc.collect()

        # Streams, programs and caches are there from then on.
        round_of(2000)
        known = (session, queue, function, refuse, np.dtype(np.float32))

        def counted():
            return references(*known)

        before, begun = counted(), resident()
        round_of(CALLS)
        assert are_as_before(before, counted), (before, counted())
        grown = resident() - begun
        print(f"after {CALLS} calls {grown} bytes more are resident")
        assert grown < SLACK, f"{grown} bytes more are resident"
        tracemalloc.start()
        round_of(500)
        traced = tracemalloc.get_traced_memory()[0]
        round_of(1000)
        more = tracemalloc.get_traced_memory()[0] - traced
        tracemalloc.stop()
        assert more < 32 << 10, f"{more} bytes more are allocated in Python"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_nothing_is_left_of_threads_forks_exceptions_and_cancellations(session):
    failed = []
    with sp.BatchQueue(session, max_batch_size=8) as queue, sp.BatchQueue(refuse, max_batch_size=8) as function:

        def work(seed, rounds):
            drawn = random.Random(seed)
            try:
                for _ in range(rounds):
                    x = np.full((drawn.randint(1, 3), 16), seed, np.float32)
                    what = drawn.randint(0, 4)
                    if what == 0:
                        assert session.run(x)["y"].shape == (len(x), 4)
                    elif what == 1:
                        tickets = [queue.submit(x) for _ in range(4)]
                        for ticket in tickets[::2]:
                            ticket.cancel()
                        for ticket in tickets:
                            with contextlib.suppress(sp.Cancelled):
                                assert ticket.result(60)["y"].shape == (len(x), 4)
                    elif what == 2:
                        with pytest.raises(Odd):
                            function.infer(-x - 1)
                    elif what == 3:
                        with pytest.raises(sp.InvalidInput):
                            session.run(x[:, :3])
                    else:
                        asyncio.run(queue.infer_async(x))
            except BaseException as error:
                failed.append(error)

        def forks(rounds):
            for _ in range(rounds):
                child = os.fork()
                if child == 0:
                    # The child has the package, and is told that it cannot use it.
                    code = 1
                    with contextlib.suppress(sp.Closed):
                        session.run(np.ones((1, 16), np.float32))
                        code = 2
                    os._exit(0 if code == 1 else code)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

        def round_of(count):
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                works = [pool.submit(work, seed, count) for seed in range(8)]
                forks(3)
                for each in works:
                    each.result()
            gc.collect()

        def counted():
            return references(session, queue, function, refuse)

        round_of(100)
        before, begun, threads = counted(), resident(), threading.active_count()
        for _ in range(max(1, CALLS // 20000)):
            round_of(200)
        assert not failed, failed[0]
        assert are_as_before(before, counted), (before, counted())
        assert threading.active_count() == threads
        grown = resident() - begun
        assert grown < SLACK, f"{grown} bytes more are resident"
