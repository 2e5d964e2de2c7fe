"""Run models from any number of threads on one GPU.

>>> import streampool as sp
>>> session = sp.Session("model.onnx")  # doctest: +SKIP
>>> session.run({"x": x})["y"]  # doctest: +SKIP

A session can be run from any number of threads and tasks at once. Each thread has a stream of its own, and memory is safe
across streams. :class:`BatchQueue` makes batches of the requests of many callers.
"""

import atexit as _atexit
import os as _os

from . import _interpreter as _interpreter  # Refuses an interpreter that the package does not work in.
from . import _streampool, profiler
from ._batching import BatchQueue, OperationQueue, batch_inference, batched, configure_batch_queue
from ._errors import (
    Cancelled,
    Closed,
    DeadlineExceeded,
    DeviceFault,
    DeviceLost,
    Error,
    FunctionFailed,
    InvalidInput,
    InvalidModel,
    InvalidSetting,
    Misuse,
    NoDevice,
    NoFreeStream,
    OutOfMemory,
    Overloaded,
    ReadError,
    TooLarge,
    Unsupported,
)
from ._memory import (
    current_allocated_memory,
    driver_allocated_memory,
    memory_snapshot,
    memory_stats,
    recommended_max_memory,
)
from ._random import rand, randn
from ._session import Session, Ticket
from ._several import DeviceSet
from ._streampool import (
    Binding,
    BoundSession,
    Event,
    Stream,
    Tensor,
    ValueInfo,
    __version__,
    configure,
    current_stream,
    default_stream,
    device_count,
    devices,
    empty_cache,
    get_rng_state,
    manual_seed,
    release_current_stream,
    set_per_process_memory_fraction,
    set_rng_state,
    synchronize,
)
from ._streams import stream
from ._torch import compile_graph as torch_backend
from ._torch import explain, from_torch

__all__ = [
    "BatchQueue",
    "Binding",
    "BoundSession",
    "Cancelled",
    "Closed",
    "DeadlineExceeded",
    "DeviceFault",
    "DeviceLost",
    "DeviceSet",
    "Error",
    "Event",
    "FunctionFailed",
    "InvalidInput",
    "InvalidModel",
    "InvalidSetting",
    "Misuse",
    "NoDevice",
    "NoFreeStream",
    "OperationQueue",
    "OutOfMemory",
    "Overloaded",
    "ReadError",
    "Session",
    "Stream",
    "Tensor",
    "Ticket",
    "TooLarge",
    "Unsupported",
    "ValueInfo",
    "__version__",
    "batch_inference",
    "batched",
    "configure",
    "configure_batch_queue",
    "current_allocated_memory",
    "current_stream",
    "default_stream",
    "device_count",
    "devices",
    "driver_allocated_memory",
    "empty_cache",
    "explain",
    "from_torch",
    "get_rng_state",
    "manual_seed",
    "memory_snapshot",
    "memory_stats",
    "profiler",
    "rand",
    "randn",
    "recommended_max_memory",
    "release_current_stream",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "stream",
    "synchronize",
    "torch_backend",
]

# Answers that are still to come are told by a thread, which has to end before the interpreter does.
_atexit.register(_streampool.stop)
_os.register_at_fork(after_in_child=_streampool.forget_after_fork)
