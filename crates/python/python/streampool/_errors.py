"""The exceptions of Streampool."""

from concurrent.futures import CancelledError as _CancelledError


class Error(Exception):
    """Any error of Streampool."""


class InvalidInput(Error, ValueError):
    """An input does not fit: its shape, its type, its name or its values."""


class InvalidSetting(Error, ValueError):
    """A setting or an option has a value that it cannot have."""


class InvalidModel(Error, ValueError):
    """A model, or another file, is not what it should be."""


class Misuse(Error, RuntimeError):
    """A call that the program should not make, such as one that would wait for itself."""


class Unsupported(Error, NotImplementedError):
    """The model asks for something that Streampool, or this device, does not do."""


class OutOfMemory(Error, MemoryError):
    """There is not enough memory."""


class TooLarge(Error, ValueError):
    """A request is larger than the limits allow."""


class NoFreeStream(Error, RuntimeError):
    """All streams are in use, and the pool does not share them."""


class Overloaded(Error, RuntimeError):
    """As many requests wait as may: try again after ``retry_after`` seconds."""

    retry_after: float | None = None


class DeadlineExceeded(Error, TimeoutError):
    """The deadline passed before there was an answer."""


class Cancelled(Error, _CancelledError):
    """The ticket was cancelled before there was an answer."""


class Closed(Error, RuntimeError):
    """The pool or the queue is closed, or belongs to the process that this one was forked from."""


class DeviceFault(Error, RuntimeError):
    """Work on the device failed. Other streams go on."""


class DeviceLost(Error, RuntimeError):
    """The device is gone for the rest of the process."""


class NoDevice(Error, RuntimeError):
    """There is no such device here, or something that it needs is missing."""


class FunctionFailed(Error, RuntimeError):
    """The function of a queue gave back something that does not fit what it was given."""


class ReadError(Error, OSError):
    """The operating system refused or failed to read a file."""
