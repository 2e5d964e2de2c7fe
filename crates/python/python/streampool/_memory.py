"""What a device's pool holds, under the names of ``torch.mps`` and ``torch.cuda``."""

from __future__ import annotations

from typing import Any

from . import _streampool


def memory_stats(device: str = "auto") -> dict[str, Any]:
    """Return what the pool of a device holds: bytes by kind, and streams."""
    return _streampool.memory_stats(device)


def current_allocated_memory(device: str = "auto") -> int:
    """Return the bytes in tensors and programs that are alive."""
    return int(memory_stats(device)["allocated_bytes"])


def driver_allocated_memory(device: str = "auto") -> int:
    """Return the bytes taken from the driver, caches included."""
    stats = memory_stats(device)
    return int(stats["reserved_bytes"]) + int(stats["overhead_bytes"])


def recommended_max_memory(device: str = "auto") -> int:
    """Return the most bytes that the pool takes: its limit."""
    return int(memory_stats(device)["limit_bytes"])


def memory_snapshot(device: str = "auto") -> dict[str, Any]:
    """Return everything that the pool of a device knows of itself: each stream's memory and work, events, caches, quirks."""
    return _streampool.memory_snapshot(device)
