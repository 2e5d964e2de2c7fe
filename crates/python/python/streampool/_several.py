"""One model on several devices."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import _streampool
from ._batching import BatchQueue
from ._errors import DeviceLost, NoDevice
from ._session import Session


class DeviceSet:
    """A model on several devices: each call goes to the device with the fewest calls under way.

    A call without a queue goes to where a tensor of PyTorch among its inputs lies, if that is one of the devices.

    The weights are loaded on each device once. A device that is lost, or turns out to be when the set is made, is left out from
    then on, and :meth:`status` says so. What was under way on it fails: nothing is run again elsewhere, because a model that
    breaks one device would then break the next.

    Parameters
    ----------
    model
        As for :class:`Session`.
    devices
        Their names, such as ``["cuda:0", "cuda:1"]``; by default all NVIDIA GPUs.
    queue
        Settings of a :class:`BatchQueue` for each device, which makes batches of the calls; without them each call runs alone.
    options
        Further options of :class:`Session`.
    """

    def __init__(
        self, model: Any, devices: Sequence[str] | None = None, *, queue: dict[str, Any] | None = None, **options: Any
    ) -> None:
        names = [f"cuda:{number}" for number in range(_streampool.device_count("cuda"))] if devices is None else list(devices)
        if not names:
            raise NoDevice("there is no device to run on: name some, such as devices=['host']")
        self._names = ["cuda:0" if name == "cuda" else name for name in names]
        self._sessions: dict[int, Session] = {}
        self._queues: dict[int, BatchQueue] | None = None if queue is None else {}
        self._lock = threading.Lock()
        self._under_way = [0] * len(names)
        self._begun = [0] * len(names)
        self._lost: list[str | None] = [None] * len(names)
        for number, name in enumerate(names):
            try:
                session = self._sessions[number] = Session(model, name, **options)
                if self._queues is not None:
                    self._queues[number] = BatchQueue(session, **(queue or {}))
            except DeviceLost as lost:
                self._lost[number] = str(lost)
        self._left()

    def _left(self) -> list[int]:
        """Return the numbers of the devices that are left."""
        left = [number for number, why in enumerate(self._lost) if why is None]
        if not left:
            raise DeviceLost("; ".join(why for why in self._lost if why))
        return left

    @contextlib.contextmanager
    def _place(self, inputs: Any = ()) -> Iterator[int]:
        values = inputs.values() if isinstance(inputs, Mapping) else inputs if isinstance(inputs, (list, tuple)) else (inputs,)
        # Those of PyTorch lie on "cuda:0" or the like.
        tensors_on = {str(getattr(value, "device", None)) for value in values}
        with self._lock:
            left = self._left()
            near = [number for number in left if self._names[number] in tensors_on]
            number = min(near or left, key=lambda number: (self._under_way[number], self._begun[number]))
            self._under_way[number] += 1
            self._begun[number] += 1
        try:
            yield number
        except DeviceLost as lost:
            self._lost[number] = self._lost[number] or str(lost)
            raise
        finally:
            with self._lock:
                self._under_way[number] -= 1

    def run(self, inputs: Any, **how: Any) -> dict[str, Any]:
        """Run the model and wait for the outputs, from any thread: as :meth:`Session.run`, or :meth:`BatchQueue.infer`."""
        if self._queues is None:
            with self._place(inputs) as number:
                return self._sessions[number].run(inputs, **how)
        with self._place() as number:
            result: dict[str, Any] = self._queues[number].infer(inputs, **how)
            return result

    async def run_async(self, inputs: Any, **how: Any) -> dict[str, Any]:
        """Run the model without blocking the event loop: as :meth:`Session.run_async`, or :meth:`BatchQueue.infer_async`."""
        if self._queues is None:
            with self._place(inputs) as number:
                return await self._sessions[number].run_async(inputs, **how)
        with self._place() as number:
            result: dict[str, Any] = await self._queues[number].infer_async(inputs, **how)
            return result

    def status(self) -> list[dict[str, Any]]:
        """Return what each device does: its name, calls under way and ever begun, and why it is left out, if it is lost."""
        with self._lock:
            return [
                {"device": name, "under_way": under_way, "begun": begun, "lost": lost}
                for name, under_way, begun, lost in zip(self._names, self._under_way, self._begun, self._lost, strict=True)
            ]

    def close(self) -> None:
        """Close the queues. Requests that wait are answered."""
        for queue in (self._queues or {}).values():
            queue.close()

    def __enter__(self) -> DeviceSet:
        """Return the set itself."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close it."""
        self.close()
