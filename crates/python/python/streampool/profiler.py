"""Profiles of a device: ``start`` and ``stop``, or ``with profile():``, as ``torch.mps.profiler`` has them."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

from . import _streampool

__all__ = ["Profile", "profile", "start", "stop"]

_MOST = 1_000_000
_lock = threading.Lock()
_begun: tuple[_streampool.Recording, str | os.PathLike[str] | None] | None = None


class Profile:
    """What ran: ``ops`` by kind and ``nodes`` of a model, each with a count and seconds, the slowest first.

    It is filled when the recording ends. ``print`` writes it as a table.
    """

    def __init__(self) -> None:
        self.device = ""
        self.seconds = 0.0
        self.ops: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []
        self.dropped = 0

    def _fill(self, told: dict[str, Any]) -> Profile:
        vars(self).update(told)
        self.ops = sorted(self.ops, key=lambda op: -op["seconds"])
        self.nodes = sorted(self.nodes, key=lambda node: -node["seconds"])
        return self

    def __str__(self) -> str:
        """Return the table."""
        rows = [(node["name"], node["operator"], node) for node in self.nodes] or [(op["op"], "", op) for op in self.ops]
        wide = max([4, *(len(name) for name, _, _ in rows)])
        lines = [f"{'':{wide}}  {'':16}  {'runs':>8}  {'total ms':>10}  {'each us':>9}"]
        for name, operator, of in rows:
            each = of["seconds"] / max(1, of["count"])
            lines.append(f"{name:{wide}}  {operator:16}  {of['count']:8}  {of['seconds'] * 1e3:10.3f}  {each * 1e6:9.1f}")
        if self.dropped:
            lines.append(f"{self.dropped} more ops were not recorded")
        return "\n".join(lines)


def start(path: str | os.PathLike[str] | None = None, *, device: str = "auto") -> None:
    """Begin to record what a device does. ``path`` is where :func:`stop` writes a trace for Perfetto."""
    global _begun
    with _lock:
        if _begun is not None:
            raise RuntimeError("a recording is under way: call profiler.stop() first")
        _begun = (_streampool.record_device(device, _MOST), path)


def stop() -> Profile:
    """End the recording that :func:`start` began, and return it."""
    global _begun
    with _lock:
        if _begun is None:
            raise RuntimeError("no recording is under way: call profiler.start() first")
        (recording, path), _begun = _begun, None
    return Profile()._fill(recording.finish(path))


@contextlib.contextmanager
def profile(path: str | os.PathLike[str] | None = None, *, device: str = "auto", table: bool = True) -> Iterator[Profile]:
    """Record what a device does inside ``with``, write a trace for Perfetto to ``path``, and print a table."""
    with _recorded(_streampool.record_device(device, _MOST), path, table) as made:
        yield made


@contextlib.contextmanager
def _recorded(recording: _streampool.Recording, path: str | os.PathLike[str] | None, table: bool) -> Iterator[Profile]:
    made = Profile()
    try:
        yield made
    finally:
        made._fill(recording.finish(path))
    if table:
        print(made)
