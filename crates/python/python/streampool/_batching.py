"""Batches of the requests of many callers."""

from __future__ import annotations

import asyncio
import atexit
import collections
import functools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

from . import _streampool
from ._session import Session, Ticket

# Queues call functions from threads of their own: these have to end before the interpreter does.
_open: weakref.WeakSet[BatchQueue] = weakref.WeakSet()


def _close_all() -> None:
    for queue in list(_open):
        queue.close(cancel=True)


atexit.register(_close_all)


class BatchQueue(_streampool.Queue):
    """Coalesce the requests of many callers into batches of a session, or of a function of arrays.

    Every array of a request has its rows along the first axis, and so has every output. A function is called with the rows of
    several requests, and returns as many rows. If it raises, the queue calls it again with parts of the batch, so that only the
    guilty requests fail, each with the exception as it was raised.

    Parameters
    ----------
    model
        A :class:`Session`, or a function that takes and returns arrays.
    max_batch_size
        The most rows of a batch.
    max_wait
        The longest time in seconds that a request waits for others. By default the queue decides by itself.
    max_in_flight
        The most batches that are computed at the same time.
    capacity
        The most requests that wait.
    when_full
        ``"reject"`` raises :class:`Overloaded`; ``"block"`` waits for room, at most ``block_timeout`` seconds if that is given.
    tenants
        Weights by name: each tenant gets its share while others wait.
    adaptive
        Whether batches are made smaller or larger by what they cost.
    latency_objective
        The time in seconds within which requests should be answered.
    """

    def __init__(self, *_model: Any, **_settings: Any) -> None:
        _open.add(self)

    def submit(self, inputs: Any, **how: Any) -> Ticket:
        """Hand in one request and return its ticket at once.

        ``tenant``, ``priority`` (``"high"``, ``"normal"`` or ``"low"``) and ``timeout`` in seconds say how it is treated.
        """
        ticket = Ticket()
        ticket._id = self.start(inputs, ticket, how or None)
        return ticket

    async def infer_async(self, inputs: Any, **how: Any) -> Any:
        """Answer one request without blocking the event loop. Cancelling the task withdraws the request."""
        return await asyncio.wrap_future(self.submit(inputs, **how))

    def __enter__(self) -> BatchQueue:
        """Return the queue itself."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close the queue. Requests that wait are answered, or cancelled if the block raised."""
        self.close(cancel=raised[0] is not None)


def batched(function: Callable[..., Any] | None = None, /, **settings: Any) -> Any:
    """Make a function of arrays coalesce the calls of many threads: ``@sp.batched(max_batch_size=32)``.

    The function takes the rows of several calls at once. ``function.queue`` is its :class:`BatchQueue`.
    """
    if function is None:
        return functools.partial(batched, **settings)
    queue = BatchQueue(function, **settings)

    @functools.wraps(function)
    def infer(*arrays: Any) -> Any:
        return queue.infer(arrays)

    infer.queue = queue  # type: ignore[attr-defined]
    return infer


def batch_inference(
    session: Session | Callable[..., Any], inputs: Iterable[Any], *, batch_size: int = 8, progress: bool = False
) -> Iterator[Any]:
    """Yield the outputs of each of ``inputs``, in their order, computed in batches.

    Only some inputs are under way at a time, so that ``inputs`` may be a generator without end. With ``progress`` a bar is
    drawn: by ``tqdm`` where it is installed, else as a count.
    """
    if batch_size < 1:
        raise ValueError("batch_size must be at least 1")
    total = len(inputs) if isinstance(inputs, Sized) else None
    tick = _progress(total) if progress else None
    under_way: collections.deque[Ticket] = collections.deque()
    # Two batches at work, and one that is filled meanwhile.
    most = 3 * batch_size
    with BatchQueue(session, max_batch_size=batch_size, when_full="block", capacity=most) as queue:
        for given in inputs:
            if len(under_way) == most:
                yield under_way.popleft().result()
                if tick:
                    tick(1)
            under_way.append(queue.submit(given))
        while under_way:
            yield under_way.popleft().result()
            if tick:
                tick(1)
    if tick:
        tick(0)


def _progress(total: int | None) -> Callable[[int], object]:
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]
    except ImportError:
        done = 0

        def count(more: int) -> None:
            nonlocal done
            done += more
            of = "" if total is None else f" of {total}"
            print(f"\r{done}{of}", end="" if more else "\n", file=sys.stderr, flush=True)

        return count
    bar = tqdm(total=total)
    return lambda more: bar.update(more) if more else bar.close()
