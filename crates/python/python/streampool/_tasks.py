"""Requests of the tasks of asyncio, handed in and answered without holding up their event loop."""

from __future__ import annotations

import asyncio
import collections
import contextvars
import threading
from collections.abc import Callable
from typing import Any

from . import _streampool

# So many requests are handed in within one round of the loop: others of its tasks have their turn between.
_MOST = 16


class _Request:
    """A request of a task, which may still have to be handed in."""

    __slots__ = ("context", "future", "number", "start")

    def __init__(self, future: asyncio.Future[Any], start: Callable[..., int]) -> None:
        self.future = future
        self.start = start
        self.number: int | None = None
        self.context: contextvars.Context | None = None


class _Door:
    """Where the tasks of one event loop hand in."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.inbox = _streampool.Inbox(loop)
        self.room = _MOST
        self.waiting: collections.deque[_Request] = collections.deque()

    def hand_in(self, request: _Request) -> None:
        if self.room == _MOST:
            self.loop.call_soon(self.next_round)
        if self.room > 0:
            self.room -= 1
            request.number = request.start(request.future, self.inbox)
        else:
            request.context = contextvars.copy_context()
            self.waiting.append(request)

    def next_round(self) -> None:
        self.room = _MOST
        while self.waiting and self.room > 0:
            request = self.waiting.popleft()
            if request.future.done() or request.context is None:
                continue
            self.room -= 1
            try:
                request.number = request.context.run(request.start, request.future, self.inbox)
            except Exception as error:
                request.future.set_exception(error)
        if self.waiting:
            self.room = 0
        if self.room < _MOST:
            self.loop.call_soon(self.next_round)


_known = threading.local()


async def answer(start: Callable[..., int]) -> Any:
    """Await what ``start`` begins, called with a future and the loop's inbox. Cancelling the task withdraws it."""
    loop = asyncio.get_running_loop()
    door: _Door | None = getattr(_known, "door", None)
    if door is None or door.loop is not loop:
        door = _known.door = _Door(loop)
    request = _Request(loop.create_future(), start)
    door.hand_in(request)
    try:
        return await request.future
    except asyncio.CancelledError:
        if request.number is not None:
            _streampool.cancel(request.number)
        raise
