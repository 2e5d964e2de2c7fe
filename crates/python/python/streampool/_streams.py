"""Choosing a stream for a thread or a task."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from . import _streampool

# Streams that were chosen, the latest first. A task of asyncio has its own, as it has its own context.
_chosen: ContextVar[tuple[_streampool.Stream, ...]] = ContextVar("streampool", default=())


@contextlib.contextmanager
def stream(stream: _streampool.Stream | None) -> Iterator[None]:
    """Run what is called inside ``with`` on this stream; ``None`` changes nothing."""
    if stream is None:
        yield
        return
    _streampool.stream_was_chosen()
    before = _chosen.set((stream, *_chosen.get()))
    try:
        yield
    finally:
        _chosen.reset(before)
