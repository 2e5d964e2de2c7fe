"""The part of the package that is Rust."""

from collections.abc import Iterator, Mapping, Sequence
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
        seed: int | None = None,
        weights: Mapping[str, Any] | None = None,
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
    def run(
        self, inputs: Any, *, timeout: float | None = None, urgent: bool = False, seed: int | None = None
    ) -> dict[str, Any]:
        """Run the model and wait for the outputs, by name.

        ``timeout`` is in seconds; ``urgent`` puts the run before others; ``seed`` is what random operators without a seed of
        their own begin with in this run. A run on tensors of the GPU is not waited for: it has no timeout, and is not urgent.
        """
    def start(
        self,
        inputs: Any,
        answer: Any,
        spread: bool,
        inbox: Inbox | None = None,
        *,
        timeout: float | None = None,
        urgent: bool = False,
        seed: int | None = None,
    ) -> int:
        """Start a run; ``answer`` is completed when it is over."""
    def bind(self, inputs: Any) -> BoundSession:
        """Bind the model to tensors of PyTorch on its GPU, and run it once.

        Each call of the result reads these inputs as they are then, writes the same outputs, and returns them by name. It
        costs less than :meth:`run`, as nothing is allocated or looked up.
        """
    def warm_up(self, shapes: list[list[int]]) -> None:
        """Prepare what runs with inputs of these shapes need, on the calling thread's stream."""
    def statistics(self) -> dict[str, Any]:
        """Return how often it ran, and what it holds."""

class Binding:
    """A session whose outputs stay on the device as the next run's inputs, as the cache of a decoder does.

    It is one sequence of runs. Each thread has one of its own, of one session. Runs of one binding come one after the other.
    """

    def __new__(cls, session: Session) -> Binding: ...
    def carry(self, output: str, input: str) -> None:
        """Make this output of each run this input of the next. Runs return it no more."""
    def carry_caches(self) -> int:
        """Carry each output ``present…`` to the input ``past…``, and return how many there are."""
    def set(self, input: str, value: Any) -> None:
        """Make an input this in each run that does not say otherwise; a carried one until the next run."""
    def set_zeros(self, **sizes: int) -> None:
        """Set each carried input to zeros, with these sizes for the axes that have names in the model."""
    def get(self, input: str) -> Any | None:
        """Return what an input is in the next run, as an array; None if it has no value."""
    def clear(self) -> None:
        """Forget all that was set or carried so far. What is carried where stays."""
    def run(self, inputs: Any, *, timeout: float | None = None) -> dict[str, Any]:
        """Run the model with these inputs and those that it has, and return the outputs that are not carried.

        After an error the inputs are as before, except caches that the run was changing in place: set these again.
        """

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
        capacity_of: dict[str, int] | None = None,
        capacity_bytes: int | None = None,
        when_full: str = "reject",
        block_timeout: float | None = None,
        tenants: dict[str, float] | None = None,
        max_overtakes: int | None = None,
        adaptive: bool | None = None,
        latency_objective: float | None = None,
        padding: dict[str, Any] | None = None,
    ) -> Queue: ...
    @property
    def is_open(self) -> bool:
        """Whether it takes requests."""
    def infer(self, inputs: Any, **how: Any) -> Any:
        """Answer one request, and wait for that."""
    def start(self, inputs: Any, future: Any, how: dict[str, Any] | None, inbox: Inbox | None = None) -> int:
        """Hand in one request; ``future`` is completed with its answer."""
    def statistics(self) -> dict[str, Any]:
        """Return what the queue has done so far."""
    def close(self, *, cancel: bool = False) -> None:
        """Close it: requests that wait are answered, or cancelled."""
    def restart(self) -> None:
        """Open a closed queue again."""

class Inbox:
    """Answers on their way to an event loop."""

    def __new__(cls, event_loop: Any) -> Inbox: ...
    def deliver(self) -> None:
        """Tell some of the answers. The event loop calls it."""

class Recording:
    """A recording of what a device does."""

    def finish(self, path: Any = None) -> dict[str, Any]:
        """End it after the work in flight, write a trace to ``path``, and return what took time."""

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

class Tensor:
    """Numbers on a device, with operators that run on the current stream and do not wait.

    Values of two types are computed in the type that NumPy would choose. Operators that a tensor lacks raise an
    ``AttributeError`` that names those it has.
    """

    def __new__(cls, values: Any, device: str = "auto", *, dtype: Any = None) -> Tensor: ...
    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
    @property
    def dtype(self) -> str:
        """The type of its elements, as NumPy names it."""
    @property
    def device(self) -> str:
        """The device it is on."""
    @property
    def ndim(self) -> int:
        """How many axes it has."""
    @property
    def size(self) -> int:
        """How many elements it has."""
    @property
    def T(self) -> Tensor:  # noqa: N802
        """Its axes in the other order."""
    def numpy(self) -> Any:
        """Return it as an array of NumPy, after waiting for it."""
    def torch(self) -> Any:
        """Return it as a tensor of PyTorch on the same device."""
    def item(self) -> Any:
        """Return its only element as a number of Python."""
    def tolist(self) -> Any:
        """Return its elements as lists of Python."""
    def astype(self, dtype: Any) -> Tensor:
        """Return it in another type."""
    def to(self, device: str) -> Tensor:
        """Return it on another device."""
    def reshape(self, *shape: Any) -> Tensor:
        """Return it in another shape; one size may be -1."""
    def transpose(self, a: int | None = None, b: int | None = None) -> Tensor:
        """Return it with two axes changed for each other or, without them, all in the other order."""
    def permute(self, *order: int) -> Tensor:
        """Return it with its axes in this order."""
    def flip(self, axis: int | Sequence[int]) -> Tensor:
        """Return its elements the other way round along these axes."""
    def matmul(self, other: Any) -> Tensor:
        """Return a matrix product."""
    def clip(self, low: float, high: float) -> Tensor:
        """Return each element, but at least ``low`` and at most ``high``."""
    def where(self, a: Any, b: Any) -> Tensor:
        """Return elements of ``a`` where this is true, else of ``b``."""
    def masked_select(self, mask: Any) -> Tensor:
        """Return the elements where a mask is true, as one axis."""
    def std(self, axis: int | Sequence[int] | None = None, ddof: int = 0, keepdims: bool = False) -> Tensor:
        """Return the standard deviation; ``ddof`` is taken from the count."""
    def argmax(self, axis: int = -1, keepdims: bool = False) -> Tensor:
        """Return the place of the largest element along an axis."""
    def argmin(self, axis: int = -1, keepdims: bool = False) -> Tensor:
        """Return the place of the smallest element along an axis."""
    def topk(self, count: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
        """Return the largest elements along an axis, and their places."""
    def sort(self, axis: int = -1, descending: bool = False) -> Tensor:
        """Return its elements in order along an axis."""
    def exp(self) -> Tensor:
        """Return ``exp`` of each element."""
    def exp2(self) -> Tensor:
        """Return ``exp2`` of each element."""
    def expm1(self) -> Tensor:
        """Return ``expm1`` of each element."""
    def log(self) -> Tensor:
        """Return ``log`` of each element."""
    def log2(self) -> Tensor:
        """Return ``log2`` of each element."""
    def log10(self) -> Tensor:
        """Return ``log10`` of each element."""
    def log1p(self) -> Tensor:
        """Return ``log1p`` of each element."""
    def sqrt(self) -> Tensor:
        """Return ``sqrt`` of each element."""
    def rsqrt(self) -> Tensor:
        """Return ``rsqrt`` of each element."""
    def reciprocal(self) -> Tensor:
        """Return ``reciprocal`` of each element."""
    def sin(self) -> Tensor:
        """Return ``sin`` of each element."""
    def cos(self) -> Tensor:
        """Return ``cos`` of each element."""
    def tan(self) -> Tensor:
        """Return ``tan`` of each element."""
    def asin(self) -> Tensor:
        """Return ``asin`` of each element."""
    def acos(self) -> Tensor:
        """Return ``acos`` of each element."""
    def atan(self) -> Tensor:
        """Return ``atan`` of each element."""
    def sinh(self) -> Tensor:
        """Return ``sinh`` of each element."""
    def cosh(self) -> Tensor:
        """Return ``cosh`` of each element."""
    def tanh(self) -> Tensor:
        """Return ``tanh`` of each element."""
    def asinh(self) -> Tensor:
        """Return ``asinh`` of each element."""
    def acosh(self) -> Tensor:
        """Return ``acosh`` of each element."""
    def atanh(self) -> Tensor:
        """Return ``atanh`` of each element."""
    def erf(self) -> Tensor:
        """Return ``erf`` of each element."""
    def floor(self) -> Tensor:
        """Return ``floor`` of each element."""
    def ceil(self) -> Tensor:
        """Return ``ceil`` of each element."""
    def round(self) -> Tensor:
        """Return ``round`` of each element."""
    def trunc(self) -> Tensor:
        """Return ``trunc`` of each element."""
    def abs(self) -> Tensor:
        """Return ``abs`` of each element."""
    def sign(self) -> Tensor:
        """Return ``sign`` of each element."""
    def square(self) -> Tensor:
        """Return ``square`` of each element."""
    def sigmoid(self) -> Tensor:
        """Return ``sigmoid`` of each element."""
    def relu(self) -> Tensor:
        """Return ``relu`` of each element."""
    def silu(self) -> Tensor:
        """Return ``silu`` of each element."""
    def softplus(self) -> Tensor:
        """Return ``softplus`` of each element."""
    def is_nan(self) -> Tensor:
        """Return ``is_nan`` of each element."""
    def is_inf(self) -> Tensor:
        """Return ``is_inf`` of each element."""
    def is_finite(self) -> Tensor:
        """Return ``is_finite`` of each element."""
    def logical_not(self) -> Tensor:
        """Return ``logical_not`` of each element."""
    def squeeze_all(self) -> Tensor:
        """Return it without axes of size one."""
    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """Return ``sum`` over these axes, by default all."""
    def prod(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """Return ``prod`` over these axes, by default all."""
    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """Return ``mean`` over these axes, by default all."""
    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """Return ``min`` over these axes, by default all."""
    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """Return ``max`` over these axes, by default all."""
    def all(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """Return ``all`` over these axes, by default all."""
    def any(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """Return ``any`` over these axes, by default all."""
    def log_sum_exp(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """Return ``log_sum_exp`` over these axes, by default all."""
    def softmax(self, axis: int = -1) -> Tensor:
        """Return ``softmax`` along an axis."""
    def log_softmax(self, axis: int = -1) -> Tensor:
        """Return ``log_softmax`` along an axis."""
    def cumsum(self, axis: int = -1) -> Tensor:
        """Return ``cumsum`` along an axis."""
    def cumprod(self, axis: int = -1) -> Tensor:
        """Return ``cumprod`` along an axis."""
    def unsqueeze(self, axis: int = -1) -> Tensor:
        """Return ``unsqueeze`` along an axis."""
    def squeeze(self, axis: int = -1) -> Tensor:
        """Return ``squeeze`` along an axis."""
    def minimum(self, other: Any) -> Tensor:
        """Return ``minimum`` of each element and its counterpart."""
    def maximum(self, other: Any) -> Tensor:
        """Return ``maximum`` of each element and its counterpart."""
    def logical_and(self, other: Any) -> Tensor:
        """Return ``logical_and`` of each element and its counterpart."""
    def logical_or(self, other: Any) -> Tensor:
        """Return ``logical_or`` of each element and its counterpart."""
    def logical_xor(self, other: Any) -> Tensor:
        """Return ``logical_xor`` of each element and its counterpart."""
    def __add__(self, other: Any) -> Tensor: ...
    def __radd__(self, other: Any) -> Tensor: ...
    def __sub__(self, other: Any) -> Tensor: ...
    def __rsub__(self, other: Any) -> Tensor: ...
    def __mul__(self, other: Any) -> Tensor: ...
    def __rmul__(self, other: Any) -> Tensor: ...
    def __truediv__(self, other: Any) -> Tensor: ...
    def __rtruediv__(self, other: Any) -> Tensor: ...
    def __floordiv__(self, other: Any) -> Tensor: ...
    def __mod__(self, other: Any) -> Tensor: ...
    def __pow__(self, other: Any) -> Tensor: ...
    def __rpow__(self, other: Any) -> Tensor: ...
    def __matmul__(self, other: Any) -> Tensor: ...
    def __and__(self, other: Any) -> Tensor: ...
    def __or__(self, other: Any) -> Tensor: ...
    def __xor__(self, other: Any) -> Tensor: ...
    def __lt__(self, other: Any) -> Tensor: ...
    def __le__(self, other: Any) -> Tensor: ...
    def __gt__(self, other: Any) -> Tensor: ...
    def __ge__(self, other: Any) -> Tensor: ...
    def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
    def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]
    def __neg__(self) -> Tensor: ...
    def __abs__(self) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __getitem__(self, index: Any) -> Tensor: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __bool__(self) -> bool: ...
    def __float__(self) -> float: ...
    def __int__(self) -> int: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

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

def draw(how: str, shape: Sequence[int], device: str, dtype: Any) -> Tensor:
    """Draw random numbers."""

def empty_cache(device: str = "auto") -> int:
    """Give memory that nobody uses back to the device, and return how many bytes."""

def forget_after_fork() -> None:
    """Forget the thread that completes futures, which a forked child does not have."""

def get_rng_state() -> bytes:
    """Return where the random numbers of this process stand."""

def manual_seed(seed: int) -> None:
    """Begin the random numbers of this process anew: the same seed gives the same numbers on every device."""

def memory_snapshot(device: str = "auto") -> dict[str, Any]:
    """Return everything that the pool of a device knows of itself."""

def set_per_process_memory_fraction(fraction: float, device: str = "auto") -> None:
    """Have the pool of a device take at most this part of the device's memory.

    It has to be said before the device is used.
    """

def memory_stats(device: str = "auto") -> dict[str, Any]:
    """Return what a pool holds."""

def record_device(device: str, capacity: int) -> Recording:
    """Begin to record what a device does, at most ``capacity`` ops."""

def record_session(session: Session, capacity: int) -> Recording:
    """Begin to record what the device of a session does, and for which of its nodes."""

def release_current_stream(device: str = "auto") -> bool:
    """Give the calling thread's stream back to the pool after its work, and return whether it had one."""

def run_program(arguments: list[str]) -> int:
    """Do what the program ``streampool`` does with these arguments, the first of which names it; return its exit code."""

def set_rng_state(state: bytes) -> None:
    """Go back, or on, to a state that :func:`get_rng_state` gave."""

def stop() -> None:
    """End the thread that completes futures."""

def stream_was_chosen() -> None:
    """Say that streams are chosen from now on."""

def synchronize(device: str = "auto") -> None:
    """Wait for all work on a device."""
