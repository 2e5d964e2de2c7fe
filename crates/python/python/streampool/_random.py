"""Random numbers that anybody can have again."""

from __future__ import annotations

from typing import Any

from . import _streampool


def rand(*shape: int, device: str = "auto", dtype: Any = "float32") -> _streampool.Tensor:
    """Return random numbers from 0 to below 1. :func:`manual_seed` says which."""
    return _streampool.draw("uniform", shape, device, dtype)


def randn(*shape: int, device: str = "auto", dtype: Any = "float32") -> _streampool.Tensor:
    """Return normally distributed random numbers. :func:`manual_seed` says which."""
    return _streampool.draw("normal", shape, device, dtype)
