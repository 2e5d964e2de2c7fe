"""Refuses subinterpreters: threads of Streampool call back into the main one."""

from importlib import import_module


def _number() -> int:
    """Return the number of this interpreter: 0 is the main one."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            current = import_module(name).get_current()
        except ImportError:
            continue
        return int(current[0] if isinstance(current, tuple) else current)
    return 0


if _number() != 0:
    raise ImportError("streampool works in the main interpreter only, and this is a subinterpreter: use threads or processes")
