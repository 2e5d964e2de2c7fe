"""The part of the package that is Rust."""

from typing import Any

__version__: str

class ValueInfo:
    """An input or an output of a model, as the model declares it."""

    @property
    def name(self) -> str:
        """Its name."""
    @property
    def dtype(self) -> str | None:
        """The type of its elements as NumPy names it, where the model declares it."""
    @property
    def shape(self) -> tuple[int | str | None, ...] | None:
        """Its sizes, where the model declares them: a number, a name, or None for any."""

class Session:
    """A model."""

    def __new__(
        cls,
        model: Any,
        device: str = "auto",
        *,
        precision: str | None = None,
        max_in_flight: int | None = None,
        program_memory: int | None = None,
        data_folder: str | None = None,
        simplify: bool = True,
    ) -> Session: ...
    @property
    def inputs(self) -> list[ValueInfo]:
        """The inputs that a run needs."""
    @property
    def optional_inputs(self) -> list[ValueInfo]:
        """The inputs that a run may leave out."""
    @property
    def outputs(self) -> list[ValueInfo]:
        """The outputs."""
    @property
    def metadata(self) -> dict[str, str]:
        """What the file says about itself."""
    @property
    def device(self) -> str:
        """The kind of device that it runs on."""
    def run(self, inputs: Any, *, timeout: float | None = None, urgent: bool = False) -> dict[str, Any]:
        """Run the model and wait for the outputs, by name."""
    def start(self, inputs: Any, answer: Any, spread: bool) -> int:
        """Start a run; ``answer`` is completed when it is over."""
    def bind(self, inputs: Any) -> BoundSession:
        """Bind the model to tensors of PyTorch on its GPU, and run it once.

        Each call of the result reads these inputs as they are then, writes the same outputs, and returns them by name. It costs less
        than :meth:`run`, as nothing is allocated or looked up.
        """
    def warm_up(self, shapes: list[list[int]]) -> None:
        """Prepare what runs with inputs of these shapes need, on the calling thread's stream."""
    def statistics(self) -> dict[str, Any]:
        """Return how often it ran, and what it holds."""

class BoundSession:
    """A session bound to tensors of PyTorch on its GPU."""

    def __call__(self) -> dict[str, Any]:
        """Run the model on what the inputs hold now, and return the outputs, which are the same tensors each time."""
    @property
    def outputs(self) -> dict[str, Any]:
        """The outputs by name."""

class Queue:
    """A queue of requests."""

    def __new__(
        cls,
        model: Any,
        *,
        max_batch_size: int | None = None,
        max_wait: float | None = None,
        max_in_flight: int | None = None,
        capacity: int | None = None,
        when_full: str = "reject",
        block_timeout: float | None = None,
        tenants: dict[str, float] | None = None,
        adaptive: bool | None = None,
        latency_objective: float | None = None,
    ) -> Queue: ...
    @property
    def is_open(self) -> bool:
        """Whether it takes requests."""
    def infer(self, inputs: Any, **how: Any) -> Any:
        """Answer one request, and wait for that."""
    def start(self, inputs: Any, future: Any, how: dict[str, Any] | None) -> int:
        """Hand in one request; ``future`` is completed with its answer."""
    def statistics(self) -> dict[str, Any]:
        """Return what the queue has done so far."""
    def close(self, *, cancel: bool = False) -> None:
        """Close it: requests that wait are answered, or cancelled."""
    def restart(self) -> None:
        """Open a closed queue again."""

class Stream:
    """A stream of a device. Work on one stream runs in order; streams run side by side."""

    def __new__(cls, device: str = "auto") -> Stream: ...
    @property
    def index(self) -> int:
        """Its number in the pool: 0 is the default stream."""
    @property
    def device(self) -> str:
        """The kind of device it belongs to."""
    def query(self) -> bool:
        """Whether all work on it is over. Never blocks."""
    def synchronize(self) -> None:
        """Wait for all work on it."""
    def wait_event(self, event: Event) -> None:
        """Let work that comes later wait for an event."""
    def wait_stream(self, other: Stream) -> None:
        """Let work that comes later wait for all work on another stream."""
    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, by default a new one, and return it."""
    def recover(self) -> None:
        """Make the stream usable again after a fault."""

class Event:
    """A point of a stream that others can wait for."""

    def __new__(cls, enable_timing: bool = False, *, device: str = "auto") -> Event: ...
    def record(self, stream: Stream | None = None) -> None:
        """Record it on a stream, by default the current one."""
    def wait(self, stream: Stream | None = None) -> None:
        """Let work that comes later on a stream, by default the current one, wait for it."""
    def query(self) -> bool:
        """Whether everything before its latest recording is over. Never blocks."""
    def synchronize(self, timeout: float | None = None) -> None:
        """Wait for everything before its latest recording."""
    def elapsed_time(self, end: Event) -> float:
        """Return the milliseconds from this event to a later one. Both need ``enable_timing``."""

def cancel(id: int) -> None:
    """Withdraw a run or a request."""

def configure(
    *,
    streams: int | None = None,
    when_exhausted: str | None = None,
    timeout: float | None = None,
    memory_limit: int | None = None,
) -> None:
    """Set how pools of streams are made. Call it before a device is used.

    ``when_exhausted`` says what a thread gets when all ``streams`` are in use: ``"share"``, ``"fail"``, or ``"wait"``, which
    ends after ``timeout`` seconds if that is given.
    """

def current_stream(device: str = "auto") -> Stream:
    """Return the stream that work of the calling thread or task goes to."""

def default_stream(device: str = "auto") -> Stream:
    """Return stream 0, which belongs to the main thread."""

def device_count(kind: str = "cuda") -> int:
    """Return how many usable devices of a kind there are: ``"cuda"``, ``"metal"`` or ``"host"``."""

def devices() -> list[dict[str, Any]]:
    """Return every kind of device: its name, whether it is usable, and why not."""

def empty_cache(device: str = "auto") -> int:
    """Give memory that nobody uses back to the device, and return how many bytes."""

def forget_after_fork() -> None:
    """Forget the thread that completes futures, which a forked child does not have."""

def memory_stats(device: str = "auto") -> dict[str, Any]:
    """Return what a pool holds."""

def release_current_stream(device: str = "auto") -> bool:
    """Give the calling thread's stream back to the pool after its work, and return whether it had one."""

def run_program(arguments: list[str]) -> int:
    """Do what the program ``streampool`` does with these arguments, the first of which names it; return its exit code."""

def stop() -> None:
    """End the thread that completes futures."""

def stream_was_chosen() -> None:
    """Say that streams are chosen from now on."""

def synchronize(device: str = "auto") -> None:
    """Wait for all work on a device."""
