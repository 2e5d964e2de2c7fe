"""Sessions, and the tickets of runs under way."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import time
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, overload

from . import _streampool, profiler
from ._errors import Cancelled, Overloaded

# How many rows a batch has at most inside ``with batch_inference(batch_size=…)``.
batch_size: ContextVar[int | None] = ContextVar("streampool_batch_size", default=None)


class Ticket(concurrent.futures.Future):  # type: ignore[type-arg]
    """A run or a request under way: a future, as :mod:`concurrent.futures` and :func:`asyncio.wrap_future` know them.

    Cancelled before it is answered, a request to a queue never runs if it has not begun.
    """

    _id: int | None = None

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the answer and return it, or raise what went wrong."""
        try:
            return super().result(timeout)
        except concurrent.futures.CancelledError:
            raise Cancelled("the request was cancelled") from None

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the answer and return what went wrong, if anything did."""
        try:
            return super().exception(timeout)
        except concurrent.futures.CancelledError:
            raise Cancelled("the request was cancelled") from None

    def cancel(self) -> bool:
        """Cancel it, if it is not answered yet; return whether it is cancelled."""
        cancelled = super().cancel()
        if cancelled and self._id is not None:
            _streampool.cancel(self._id)
        return cancelled


class Session(_streampool.Session):
    """A model, loaded once and run from any number of threads.

    Parameters
    ----------
    model
        A path, the bytes of an ONNX file, or an ``onnx.ModelProto``.
    device
        ``"host"``, ``"cuda"``, ``"cuda:1"``, ``"metal"``, or ``"auto"``: a GPU if one can be used, the host if none can.
    precision
        ``"f16"`` or ``"bf16"`` computes in that type where the model says ``float32``. Inputs and outputs keep their types.
    max_in_flight
        The most runs of :meth:`submit` under way on one stream.
    program_memory
        The most bytes of prepared programs that are kept.
    data_folder
        A folder that symbolic links of external weights may lead to. By default they stay below the model's own folder.
    simplify
        Whether the graph is rewritten at load. Leave it on, except to see whether a rewrite makes a difference.
    seed
        What random operators without a seed of their own begin with in each run. Without it, each run has fresh numbers.
    weights
        Values of weights that the model keeps outside its own file (external data), by name: arrays or tensors of the type
        and shape that the model declares. Weights that are not given are read from files. Floats are shared, not copied, if
        they lie row-major in the memory of the session's device: on the CPU from a multiple of 16 bytes on, on an NVIDIA GPU
        as tensors of PyTorch. Do not change them while the session lives.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model on inputs in its own order, or by name."""
        if args and kwargs:
            raise TypeError("give inputs in order or by name, not both")
        rows = batch_size.get()
        if rows is not None and len(args) == 1:
            from ._batching import in_batches

            results: dict[str, Any] = in_batches(self, args[0], rows)
            return results
        return self.run(kwargs if kwargs else args)

    @overload
    def bind(self) -> _streampool.Binding: ...
    @overload
    def bind(self, inputs: Any) -> _streampool.BoundSession: ...
    def bind(self, inputs: Any = None) -> _streampool.Binding | _streampool.BoundSession:
        """Bind the model to tensors of PyTorch on its GPU, and run it once.

        Each call of the result reads these inputs as they are then, writes the same outputs, and returns them by name. It
        costs less than :meth:`run`, as nothing is allocated or looked up.

        Without inputs: return a :class:`Binding`, whose outputs stay on the device as the next run's inputs.
        """
        if inputs is None:
            return _streampool.Binding(self)
        return super().bind(inputs)

    @contextlib.contextmanager
    def profile(self, path: str | os.PathLike[str] | None = None, *, table: bool = True) -> Iterator[profiler.Profile]:
        """Record what runs inside ``with``, by node of this model.

        A trace for Perfetto goes to ``path``, and a table is printed. On a GPU programs run op by op meanwhile.
        """
        recording = _streampool.record_session(self, profiler._MOST)
        with profiler._recorded(recording, path, table) as made:
            yield made

    def submit(self, inputs: Any, *, timeout: float | None = None, urgent: bool = False, seed: int | None = None) -> Ticket:
        """Start a run and return at once; inputs are copied before that.

        The ticket's ``result()`` is what :meth:`run` would return. Runs of one thread follow one another on its stream.
        ``timeout``, ``urgent`` and ``seed`` are those of :meth:`run`: after ``timeout`` seconds the ticket fails with
        :class:`DeadlineExceeded`, and a run that has not begun by then never does.
        """
        ticket = Ticket()
        ticket._id = self.start(inputs, ticket, False, timeout=timeout, urgent=urgent, seed=seed)
        return ticket

    async def run_async(
        self, inputs: Any, *, timeout: float | None = None, urgent: bool = False, seed: int | None = None
    ) -> dict[str, Any]:
        """Run the model without blocking the event loop. Tasks are spread over several streams.

        ``timeout``, ``urgent`` and ``seed`` are those of :meth:`run`.
        """
        # Here, as asyncio takes longer to import than all the rest.
        import asyncio

        from . import _tasks

        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                result: dict[str, Any] = await _tasks.answer(
                    lambda future, inbox, left=timeout: self.start(
                        inputs, future, True, inbox, timeout=left, urgent=urgent, seed=seed
                    )
                )
                return result
            except Overloaded:
                # As many runs are under way as may be. Some end within a millisecond or so.
                await asyncio.sleep(0.001)
            if deadline is not None:
                timeout = max(0.0, deadline - time.monotonic())
