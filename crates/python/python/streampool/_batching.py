"""Batches of the requests of many callers."""

from __future__ import annotations

import atexit
import collections
import contextlib
import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, overload

import numpy as np

from . import _session, _streampool
from ._errors import Closed, InvalidSetting
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
    capacity_of
        The most of one priority that wait, such as ``{"low": 100}``.
    capacity_bytes
        The most bytes of arrays that wait.
    when_full
        ``"reject"`` raises :class:`Overloaded`; ``"block"`` waits for room, at most ``block_timeout`` seconds if that is given.
    tenants
        Weights by name: each tenant gets its share while others wait.
    max_overtakes
        How many batches may pass over the request that has waited longest, because others come first by their priority, their
        tenant's share, or their size.
    adaptive
        Whether batches are made smaller or larger by what they cost.
    latency_objective
        The time in seconds within which requests should be answered.
    padding
        Fills an axis of requests up with zeros, so that those of about the same size go together:
        ``{"axis": 1, "multiple": 8}``, or ``"sizes": [16, 64]`` in place of ``"multiple"``. ``"tell": "mask"`` or ``"lengths"``
        gives the model one more input, which says what is the request's own. ``"inputs"`` and ``"outputs"`` are the places of
        those that have the axis; outputs are cut to the request's own size.
    """

    def __new__(cls, model: Any = None, **settings: Any) -> Any:  # noqa: D102
        if model is None:
            return OperationQueue(**settings)
        return super().__new__(cls, model, **{**_defaults, **settings})

    def __init__(self, *_model: Any, **_settings: Any) -> None:
        _open.add(self)

    def submit(self, inputs: Any, **how: Any) -> Ticket:
        """Hand in one request and return its ticket at once.

        ``tenant``, ``priority`` (``"high"``, ``"normal"`` or ``"low"``) and ``timeout`` in seconds say how it is treated. One
        that has not begun ``behind_after`` seconds from now is served when no other of its priority waits.
        """
        ticket = Ticket()
        ticket._id = self.start(inputs, ticket, how or None)
        return ticket

    async def infer_async(self, inputs: Any, **how: Any) -> Any:
        """Answer one request without blocking the event loop. Cancelling the task withdraws the request."""
        from . import _tasks

        return await _tasks.answer(lambda future, inbox: self.start(inputs, future, how or None, inbox))

    def __enter__(self) -> BatchQueue:
        """Return the queue itself."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close the queue. Requests that wait are answered, or cancelled if the block raised."""
        self.close(cancel=raised[0] is not None)


class OperationQueue:
    """Coalesce calls of any operations: what ``BatchQueue(batch_size=8, num_workers=2)`` is, without a model.

    Each operation is a session or a function of arrays whose rows lie along the first axis. Requests for the same operation
    become batches.
    """

    def __init__(self, *, batch_size: int = 8, num_workers: int = 2, **settings: Any) -> None:
        self._settings = {"max_batch_size": batch_size, "max_in_flight": num_workers, **settings}
        self._queues: dict[Any, BatchQueue] = {}
        self._lock = threading.Lock()
        self._is_open = True

    def start(self) -> OperationQueue:
        """Take requests, again after :meth:`stop`."""
        with self._lock:
            self._is_open = True
        return self

    def submit(self, inputs: Any, operation: Any) -> Ticket:
        """Hand in a request for an operation and return its ticket at once."""
        with self._lock:
            if not self._is_open:
                raise Closed("the queue is stopped: call start() first")
            queue = self._queues.get(operation)
            if queue is None:
                queue = self._queues[operation] = BatchQueue(operation, **self._settings)
        return queue.submit(inputs)

    def stop(self) -> None:
        """Answer the requests that wait, and take no more."""
        with self._lock:
            self._is_open = False
            queues, self._queues = list(self._queues.values()), {}
        for queue in queues:
            queue.close()

    def __enter__(self) -> OperationQueue:
        """Return the queue itself, started."""
        return self.start()

    def __exit__(self, *raised: object) -> None:
        """Stop it."""
        self.stop()


_defaults: dict[str, Any] = {}


def configure_batch_queue(**settings: Any) -> None:
    """Set what queues that are made from now on have where they do not say otherwise: the settings of :class:`BatchQueue`."""
    unknown = settings.keys() - _SETTINGS
    if unknown:
        raise InvalidSetting(f"a queue has no {', '.join(sorted(unknown))}; it has {', '.join(sorted(_SETTINGS))}")
    _defaults.update(settings)


_SETTINGS = {
    "max_batch_size",
    "max_wait",
    "max_in_flight",
    "capacity",
    "capacity_of",
    "capacity_bytes",
    "when_full",
    "block_timeout",
    "tenants",
    "max_overtakes",
    "adaptive",
    "latency_objective",
    "padding",
}


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


@overload
def batch_inference(*, batch_size: int = 8) -> contextlib.AbstractContextManager[None]: ...
@overload
def batch_inference(
    session: Session | Callable[..., Any], inputs: Iterable[Any], *, batch_size: int = 8, progress: bool = False
) -> Iterator[Any]: ...
def batch_inference(session: Any = None, inputs: Any = None, *, batch_size: int = 8, progress: bool = False) -> Any:
    """Yield the outputs of each of ``inputs``, in their order, computed in batches.

    Only some inputs are under way at a time, so that ``inputs`` may be a generator without end. With ``progress`` a bar is
    drawn: by ``tqdm`` where it is installed, else as a count.

    Without a session it is a context manager: inside ``with batch_inference(batch_size=8):`` a session called with a list
    gives the list of its answers, and one called with an array goes through its rows, in batches of at most so many.
    """
    if session is None:
        return _batches_of(batch_size)
    return _inferred(session, inputs, batch_size, progress)


@contextlib.contextmanager
def _batches_of(rows: int) -> Iterator[None]:
    if rows < 1:
        raise ValueError("batch_size must be at least 1")
    before = _session.batch_size.set(rows)
    try:
        yield
    finally:
        _session.batch_size.reset(before)


def in_batches(session: Session, inputs: Any, rows: int) -> Any:
    """Return the answers to a list of inputs, or to an array, computed in batches of so many rows."""
    if isinstance(inputs, (list, tuple)):
        return list(_inferred(session, inputs, rows, False))
    parts = [session.run(inputs[begin : begin + rows]) for begin in range(0, max(1, len(inputs)), rows)]
    return {name: _joined([part[name] for part in parts]) for name in parts[0]}


def _joined(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if type(parts[0]).__module__.partition(".")[0] == "torch":
        import torch

        return torch.cat(parts)
    return np.concatenate(parts)


def _inferred(session: Any, inputs: Iterable[Any], batch_size: int, progress: bool) -> Iterator[Any]:
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
