"""Streampool on Ray: models behind Ray Serve, and over the datasets of Ray Data.

>>> import streampool.ray
>>> from ray import serve
>>> serve.run(streampool.ray.app("model.onnx"))  # doctest: +SKIP
>>> dataset.map_batches(streampool.ray.Predictor("model.onnx"))  # doctest: +SKIP

Ray places replicas, restarts and scales them. Inside a replica the queue of Streampool makes batches: ``serve.batch`` is not
needed.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ._batching import BatchQueue
from ._errors import DeadlineExceeded, DeviceLost, Error, InvalidInput, Overloaded, TooLarge
from ._session import Session
from ._streampool import Tensor

__all__ = ["Predictor", "app"]

_TYPES = {
    "BOOL": "bool", "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64", "UINT8": "uint8", "UINT16": "uint16",
    "UINT32": "uint32", "UINT64": "uint64", "FP16": "float16", "FP32": "float32", "FP64": "float64",
}  # fmt: skip
_NAMES = {name: kind for kind, name in _TYPES.items()}

# The sessions of this process, for the tasks of Ray Data that come to it.
_sessions: dict[Any, Session] = {}
_loading = threading.Lock()

# Once its device is lost, a replica fails new requests after this many seconds. If it were quicker, Ray would take it for idle
# and prefer it.
_HOLD = 0.25
# Its process ends after this many seconds, as only a new one can use the device again.
_END = 0.5


def _stored(model: str | os.PathLike[str] | bytes) -> bytes | str:
    """Read the model where the file is: on another node there may be none."""
    return model if isinstance(model, bytes) else os.fspath(model)


class Predictor:
    """A model over the batches of a dataset: ``dataset.map_batches(Predictor("model.onnx"))``.

    A batch has a column for each input of the model. The columns of its outputs are added to it, so that rows keep what they
    had. Each worker loads the model once. A worker that is killed is replaced by Ray, which runs its batch again: every row has
    one result.

    Parameters
    ----------
    model
        A path that every node can read, or the bytes of an ONNX file.
    device
        As for :class:`streampool.Session`.
    keep
        The columns that are kept beside the outputs; all of them if it is not given.
    """

    def __init__(
        self, model: str | os.PathLike[str] | bytes, *, device: str = "auto", keep: list[str] | None = None, **options: Any
    ) -> None:
        self._model, self._device, self._keep, self._options = _stored(model), device, keep, options

    def _session(self) -> Session:
        key = (self._model, self._device, tuple(sorted(self._options.items())))
        with _loading:
            session = _sessions.get(key)
            if session is None:
                session = _sessions[key] = Session(self._model, device=self._device, **self._options)
        return session

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Run one batch."""
        session = self._session()
        names = [port.name for port in session.inputs]
        missing = [name for name in names if name not in batch]
        if missing:
            raise InvalidInput(f"the dataset has no columns {missing} for the model: it has {sorted(batch)}")
        outputs = session.run({name: np.ascontiguousarray(batch[name]) for name in names})
        kept = batch if self._keep is None else {name: batch[name] for name in self._keep}
        return {**kept, **outputs}


class _Replica:
    """What a replica does: a queue for each model, on one device."""

    def __init__(self, models: dict[str, Any], device: str, settings: dict[str, Any]) -> None:
        self._models, self._device, self._settings = models, device, settings
        self._queues: dict[str, BatchQueue] = {}
        self._lock = threading.Lock()
        self._lost: str | None = None
        self._doctor = ThreadPoolExecutor(1)
        self._of(next(iter(models)))

    def _of(self, name: str) -> BatchQueue:
        with self._lock:
            if name not in self._queues:
                if name not in self._models:
                    raise InvalidInput(f"there is no model {name!r}: there are {sorted(self._models)}")
                session = Session(self._models[name], device=self._device)
                self._queues[name] = BatchQueue(session, **self._settings)
            return self._queues[name]

    def _lose(self, lost: DeviceLost) -> None:
        """From now on the replica is not well. Its process ends, and Ray starts another."""
        if self._lost is None:
            self._lost = str(lost)
            if _is_an_actor():
                end = threading.Timer(_END, os._exit, (1,))
                end.daemon = True
                end.start()

    async def infer(self, inputs: Any, model: str | None = None, **how: Any) -> dict[str, Any]:
        """Answer a call of a handle: ``await handle.infer.remote({"x": x})``.

        ``tenant``, ``priority`` and ``timeout`` are those of :meth:`streampool.BatchQueue.submit`. A task that is cancelled
        withdraws its request.
        """
        if self._lost is not None:
            await asyncio.sleep(_HOLD)
            raise DeviceLost(self._lost)
        name = model or _asked_for() or next(iter(self._models))
        try:
            queue = self._queues.get(name)
            if queue is None:
                # A model is loaded beside the requests for others.
                queue = await asyncio.to_thread(self._of, name)
            outputs: dict[str, Any] = await queue.infer_async(inputs, **{key: of for key, of in how.items() if of is not None})
        except DeviceLost as lost:
            self._lose(lost)
            raise
        return outputs

    async def __call__(self, request: Any) -> Any:
        """Answer a request by HTTP: the JSON of the Open Inference Protocol, at any path; ``?model=NAME`` picks another."""
        from starlette.responses import JSONResponse

        def refused(status: int, why: object, **headers: str) -> JSONResponse:
            return JSONResponse({"error": str(why)}, status, {name.replace("_", "-"): value for name, value in headers.items()})

        try:
            body = await request.json()
            inputs = {one["name"]: _array(one) for one in body["inputs"]}
        except (ValueError, KeyError, TypeError) as wrong:
            return refused(400, f"this is no inference request: {wrong!r}")
        try:
            tenant, model = request.headers.get("x-tenant"), request.query_params.get("model")
            outputs = await self.infer(inputs, model, tenant=tenant)
        except (InvalidInput, TooLarge) as wrong:
            return refused(400, wrong)
        except Overloaded as full:
            return refused(429, full, retry_after=str(max(1, round(getattr(full, "retry_after", None) or 1))))
        except DeadlineExceeded as late:
            return refused(504, late)
        except DeviceLost as lost:
            # Another replica can answer it.
            return refused(503, lost)
        except Error as failed:
            return refused(500, failed)
        told = [
            {"name": name, "datatype": _NAMES[str(array.dtype)], "shape": array.shape, "data": array.ravel().tolist()}
            for name, array in outputs.items()
        ]
        return JSONResponse({"id": body.get("id", ""), "outputs": told})

    async def check_health(self) -> None:
        """Tell Ray that this replica is of no use any more, once its device is lost.

        The device itself is asked, since a replica without requests would not find out.
        """
        if self._lost is None:
            try:
                # On a thread of its own: models that load must not keep it waiting.
                await asyncio.get_running_loop().run_in_executor(self._doctor, self._ask_device)
            except DeviceLost as lost:
                self._lose(lost)
            except Error:
                # It may be short of memory, say.
                pass
        if self._lost is not None:
            raise DeviceLost(self._lost)

    def _ask_device(self) -> None:
        Tensor(np.zeros(1, np.float32), self._device).numpy()

    def __del__(self) -> None:
        # Ray has waited for the requests in progress.
        for queue in getattr(self, "_queues", {}).values():
            queue.close()


def _is_an_actor() -> bool:
    """Whether this process was started by Ray for one replica, and may end with it."""
    ray: Any = sys.modules.get("ray")
    return bool(ray and ray.is_initialized() and ray.get_runtime_context().get_actor_id())


def _asked_for() -> str:
    """Return the model that Ray's own way names: a handle's ``multiplexed_model_id``, or the header of HTTP."""
    serve = sys.modules.get("ray.serve")
    name: str = serve.get_multiplexed_model_id() if serve else ""
    return name


def _array(given: Mapping[str, Any]) -> Any:
    return np.array(given["data"], _TYPES[given["datatype"]]).reshape(given["shape"])


def _has_gpus() -> bool:
    """Whether the cluster has GPUs. Like ``serve.run`` it connects to Ray first."""
    import ray

    if not ray.is_initialized():
        ray.init(namespace="serve")
    return bool(ray.cluster_resources().get("GPU"))


def app(
    model: str | os.PathLike[str] | bytes | Mapping[str, Any],
    *,
    device: str = "auto",
    max_batch_size: int = 32,
    max_in_flight: int = 2,
    capacity: int = 1024,
    tenants: Mapping[str, float] | None = None,
    replicas: int | tuple[int, int] = 1,
    replicas_per_gpu: int = 1,
    cpus: float = 1.0,
    **options: Any,
) -> Any:
    """Make an application of Ray Serve of a model: ``serve.run(streampool.ray.app("model.onnx"))``.

    Parameters
    ----------
    model
        A path that every node can read, the bytes of an ONNX file, or several of these by name. All models of a replica share
        its device.
    device
        As for :class:`streampool.Session`. Ray gives a replica on ``"cuda"`` a GPU, and one on ``"auto"`` if the cluster has
        any; to know, ``"auto"`` connects to Ray. Say ``"host"`` for replicas that want none.
    max_batch_size, max_in_flight, capacity, tenants
        As for :class:`streampool.BatchQueue`. Ray lets more requests into a replica than the queue has room for, so
        that the queue refuses what is too much, and scales by how many it can run at once. Each model has a queue of its own.
    replicas
        How many there are; or the fewest and the most, between which Ray follows the load.
    replicas_per_gpu
        How many replicas share a GPU. More can answer more requests for a small model, and each takes memory of its own.
    cpus
        The processors that Ray keeps for a replica.
    options
        Further options of ``serve.deployment``, such as ``name`` or ``ray_actor_options``. The mapping
        ``autoscaling_config`` adds to what ``replicas`` says, or stands in place of a single number.
    """
    from ray import serve

    models = {"model": _stored(model)} if not isinstance(model, Mapping) else {name: _stored(of) for name, of in model.items()}
    if not models:
        raise InvalidInput("there is no model")
    settings: dict[str, Any] = {"max_batch_size": max_batch_size, "max_in_flight": max_in_flight, "capacity": capacity}
    if tenants:
        settings["tenants"] = dict(tenants)
    at_once = max_batch_size * max_in_flight
    follow = options.pop("autoscaling_config", None)
    if not (follow is None or isinstance(follow, Mapping)):
        raise InvalidInput(f"autoscaling_config is a {type(follow).__name__}, expected a mapping: {{'max_replicas': 4}}")
    if isinstance(replicas, tuple):
        least, most = replicas
        between = {"min_replicas": least, "max_replicas": most, "target_ongoing_requests": at_once}
        options["autoscaling_config"] = {**between, **(follow or {})}
    elif follow is not None:
        options["autoscaling_config"] = dict(follow)
    else:
        options["num_replicas"] = replicas
    resources = {"num_cpus": cpus}
    given = options.get("ray_actor_options", {})
    # Without a GPU of its own, a replica that finds one would share it with others unasked.
    if device.startswith("cuda") or (device == "auto" and "num_gpus" not in given and _has_gpus()):
        resources["num_gpus"] = 1 / replicas_per_gpu
    options["ray_actor_options"] = {**resources, **given}
    # What a queue refuses is told by the queue, with a time to come again. If Ray let in only as many as there is room for,
    # it would hold all others back itself, without end.
    options.setdefault("max_ongoing_requests", 2 * (capacity + at_once) * len(models))
    options.setdefault("health_check_period_s", 2)
    options.setdefault("graceful_shutdown_timeout_s", 30)
    deployment: Any = serve.deployment(_Replica, **options)
    return deployment.bind(models, device, settings)
