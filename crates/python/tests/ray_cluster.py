"""Streampool on a simulated cluster of Ray: three nodes on this machine. `ci/ray.sh` runs it.

Under load a replica, a node and Serve's controller are killed, the model is replaced, and the number of replicas changes. Every
request has a value of its own: it is answered once and rightly, or fails with an error that says why. Arguments name parts:
`data`, `serve`, `requests`, which is about what becomes of single ones, and `lost`, in which replicas lose their GPUs. The last
needs a GPU, or an imitation of NVIDIA's driver in the folder that `CUDA_SIM` names.
"""

import contextlib
import ctypes
import json
import os
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.request
from pathlib import Path

# The nodes are reached by the loopback address alone; else Ray replaces that by the address of the machine when it connects.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"

import numpy as np
import onnx

try:
    import ray
except ImportError as missing:
    print(f"skipped: {missing}. Install it with: pip install 'ray[serve,data]'")
    sys.exit(0)
from onnx import TensorProto, helper, numpy_helper
from ray import serve
from ray.cluster_utils import Cluster

import streampool.ray

CALLERS = 8
REST = 0.005
# Ray's own errors for requests at a replica that is gone.
GONE = {"ActorDiedError", "ActorUnavailableError"}
# The folder of the imitation of NVIDIA's driver, if the GPUs are imitated.
SIM = os.environ.get("CUDA_SIM")


def model(path, add):
    """y = x + add."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy")
    node, one = helper.make_node("Add", ["x", "one"], ["y"]), helper.make_tensor("one", TensorProto.FLOAT, [1], [float(add)])
    graph = helper.make_graph([node], "plus", [x], [y], [one])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path.read_bytes()


def slow(path, layers=60, width=512, rows=256):
    """y = x, after some tens of milliseconds."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", rows, width]) for name in "xy")
    nodes, last = [], "x"
    for layer in range(layers):
        nodes.append(helper.make_node("MatMul", [last, "eye"], [last := f"h{layer}"]))
    nodes.append(helper.make_node("Identity", [last], ["y"]))
    graph = helper.make_graph(nodes, "slow", [x], [y], [numpy_helper.from_array(np.eye(width, dtype=np.float32), "eye")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path.read_bytes(), np.ones((1, rows, width), np.float32)


class Load:
    """Callers of a handle, all the time."""

    def __init__(self, handle, right=(1,)):
        self.handle, self.right = handle, right
        self.stop, self.lock = threading.Event(), threading.Lock()
        self.sent, self.answers, self.failed, self.wrong, self.times = 0, {}, {}, 0, []
        self.last_failure, self.slowest_failure = 0.0, 0.0
        self.threads = [threading.Thread(target=self.call, args=(number,), daemon=True) for number in range(CALLERS)]
        for thread in self.threads:
            thread.start()

    def call(self, number):
        count = 0
        while not self.stop.is_set():
            count += 1
            value = float(number * 1_000_000 + count)
            with self.lock:
                self.sent += 1
            begun = time.monotonic()
            try:
                answer = self.handle.infer.remote({"x": np.full((1, 4), value, np.float32)}).result(timeout_s=60)
                outcome = float(answer["y"][0, 0]) - value
            except Exception as error:
                outcome = type(error).__name__
            with self.lock:
                self.times.append(time.monotonic() - begun)
                if isinstance(outcome, str):
                    self.failed[outcome] = self.failed.get(outcome, 0) + 1
                    self.last_failure = time.monotonic()
                    self.slowest_failure = max(self.slowest_failure, self.last_failure - begun)
                elif outcome in self.right:
                    self.answers[outcome] = self.answers.get(outcome, 0) + 1
                else:
                    self.wrong += 1
            time.sleep(REST)

    def end(self, what):
        self.stop.set()
        for thread in self.threads:
            thread.join(90)
            assert not thread.is_alive(), "a request hangs"
        good, failed = sum(self.answers.values()), sum(self.failed.values())
        p50, p99 = (np.percentile(self.times, part) * 1e3 for part in (50, 99))
        print(
            f"{what}: {self.sent} sent, {good} answered, {failed} failed {self.failed or ''}, {self.wrong} wrong, "
            f"p50 {p50:.0f} ms, p99 {p99:.0f} ms",
            flush=True,
        )
        assert self.wrong == 0 and good + failed == self.sent and good > 50
        return failed


def until(what, condition, seconds=90):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it never came to this: {what}"
        time.sleep(0.2)


def running():
    """The replicas that run."""
    deployments = serve.status().applications["default"].deployments
    return sum(deployment.replica_states.get("RUNNING", 0) for deployment in deployments.values())


def replica_actors():
    from ray.util.state import list_actors

    return [actor for actor in list_actors(filters=[("state", "=", "ALIVE")]) if "_Replica" in (actor.name or "")]


def serving(folder, cluster, nodes):
    plus_one, plus_two = model(folder / "one.onnx", 1), model(folder / "two.onnx", 2)

    def app(of, replicas):
        return streampool.ray.app(of, device="host", replicas=replicas, cpus=0.5, max_batch_size=8)

    handle = serve.run(app(plus_one, 3))
    load = Load(handle)
    time.sleep(5)
    assert load.end("three replicas") == 0

    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}).encode()

    def ask(body):
        return urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:8000/", body), timeout=30)

    assert json.load(ask(body))["outputs"][0]["data"] == [2, 3, 4, 5]
    times = []
    for _ in range(100):
        begun = time.monotonic()
        ask(body).read()
        times.append(time.monotonic() - begun)
    by_handle = []
    for _ in range(100):
        begun = time.monotonic()
        handle.infer.remote({"x": np.ones((1, 4), np.float32)}).result()
        by_handle.append(time.monotonic() - begun)
    session = streampool.Session(plus_one, device="host")
    with streampool.BatchQueue(session, max_batch_size=8) as queue:
        begun = time.monotonic()
        for _ in range(100):
            queue.infer(np.ones((1, 4), np.float32))
        ours = (time.monotonic() - begun) / 100
    print(
        f"one caller: our queue {1e6 * ours:.0f} us, Serve's handle p50 {1e3 * np.median(by_handle):.1f} ms, HTTP p50 "
        f"{1e3 * np.median(times):.1f} ms",
        flush=True,
    )
    try:
        ask(b'{"inputs": [{"name": "z", "datatype": "FP32", "shape": [1], "data": [1]}]}')
    except urllib.error.HTTPError as error:
        assert error.code == 400 and "missing" in json.load(error)["error"]
    else:
        raise AssertionError("a wrong request is refused")

    load = Load(handle)
    time.sleep(2)
    ray.kill(ray.get_actor(replica_actors()[0].name, namespace="serve"))
    time.sleep(6)
    until("three replicas again", lambda: running() == 3)
    load.end("a replica is killed")
    assert set(load.failed) <= GONE, load.failed

    load = Load(handle)
    time.sleep(2)
    # Not the head, and one that has something to lose.
    hosts = {actor.node_id for actor in replica_actors()}
    gone = next(number for number, node in enumerate(nodes) if number > 0 and node.node_id in hosts)
    cluster.remove_node(nodes[gone], allow_graceful=False)
    time.sleep(10)
    load.end("a node is killed")
    assert set(load.failed) <= GONE, load.failed
    nodes[gone] = cluster.add_node(num_cpus=2, num_gpus=0, node_ip_address="127.0.0.1")
    until("three replicas again", lambda: running() == 3)

    load = Load(handle)
    time.sleep(2)
    ray.kill(ray.get_actor("SERVE_CONTROLLER_ACTOR", namespace="serve"), no_restart=False)
    time.sleep(6)
    assert load.end("Serve's controller is killed") == 0

    load = Load(handle, right=(1, 2))
    time.sleep(2)
    serve.run(app(plus_two, 3))
    time.sleep(3)
    failed = load.end("the model is replaced")
    assert failed == 0 and load.answers.get(2, 0) > 0 and load.answers.get(1, 0) > 0, load.answers

    load = Load(handle, right=(2,))
    for count in (1, 4, 1):
        serve.run(app(plus_two, count))
        until(f"{count} replicas", lambda count=count: running() == count)
        time.sleep(2)
    assert load.end("1, 4 and 1 replicas") == 0
    serve.shutdown()


def requests(folder):
    """What becomes of a request: several models, cancelled, refused, drained, and replicas that follow the load."""

    def app(of, **settings):
        return streampool.ray.app(of, device="host", cpus=0.2, **settings)

    row = {"x": np.ones((1, 4), np.float32)}
    handle = serve.run(app({"one": model(folder / "one.onnx", 1), "two": model(folder / "two.onnx", 2)}))
    assert handle.infer.remote(row).result()["y"][0, 0] == 2
    assert handle.infer.remote(row, "two").result()["y"][0, 0] == 3
    rays = handle.options(multiplexed_model_id="two")
    times = []
    for _ in range(20):
        begun = time.monotonic()
        assert rays.infer.remote(row).result()["y"][0, 0] == 3
        times.append(time.monotonic() - begun)
    try:
        handle.infer.remote(row, "three").result()
    except streampool.InvalidInput as wrong:
        assert "no model 'three'" in str(wrong)
    else:
        raise AssertionError("there is no such model")
    print(
        f"several models: one replica answers for two; by Ray's multiplexed_model_id p50 {1e3 * np.median(times):.1f} ms",
        flush=True,
    )

    bytes_of, x = slow(folder / "slow.onnx")
    handle = serve.run(app(bytes_of, max_batch_size=1, max_in_flight=1))
    handle.infer.remote({"x": x}).result()
    begun = time.monotonic()
    for _ in range(5):
        handle.infer.remote({"x": x}).result()
    each = (time.monotonic() - begun) / 5
    many = [handle.infer.remote({"x": x}) for _ in range(60)]
    many[0].result()
    for one in many[5:]:
        one.cancel()
    begun = time.monotonic()
    handle.infer.remote({"x": x}).result(timeout_s=60)
    after = time.monotonic() - begun
    ended = {"answered": 0}
    for one in many[1:]:
        try:
            one.result(timeout_s=60)
            ended["answered"] += 1
        except Exception as error:
            ended[type(error).__name__] = ended.get(type(error).__name__, 0) + 1
    assert sum(ended.values()) == 59 and after < 30 * each, (ended, after, each)
    print(
        f"cancelled: 55 of 60 requests of {1e3 * each:.0f} ms; the next has its answer after {1e3 * after:.0f} ms: {ended}",
        flush=True,
    )

    many = [handle.infer.remote({"x": x}) for _ in range(10)]
    many[0].result()
    serve.delete("default")
    for one in many:
        np.testing.assert_array_equal(one.result(timeout_s=60)["y"], x)
    print("drained: an application that is deleted answers the 10 requests that it has", flush=True)

    handle = serve.run(app(bytes_of, max_batch_size=1, max_in_flight=1, capacity=4))
    outcomes, waits = {}, []
    for one in [handle.infer.remote({"x": x}) for _ in range(40)]:
        try:
            one.result(timeout_s=60)
            outcome = "answered"
        except streampool.Overloaded as full:
            outcome = "Overloaded"
            waits.append(full.cause.retry_after or 0)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert sum(outcomes.values()) == 40 and outcomes["answered"] >= 5 and waits and all(wait > 0 for wait in waits), outcomes
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": x.shape, "data": [1] * x.size}]}
    body = json.dumps(body).encode()
    told = []

    def ask():
        try:
            told.append(urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:8000/", body), timeout=60).status)
        except urllib.error.HTTPError as error:
            assert error.code != 429 or int(error.headers["Retry-After"]) > 0
            told.append(error.code)

    busy = [handle.infer.remote({"x": x}) for _ in range(5)]
    asking = [threading.Thread(target=ask) for _ in range(12)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(90)
    for one in busy:
        with contextlib.suppress(streampool.Overloaded):
            one.result()
    assert len(told) == 12 and set(told) <= {200, 429}, told
    print(f"a full queue: by handle {outcomes}; by HTTP {told.count(200)} of 200, {told.count(429)} of 429", flush=True)

    follow = {"upscale_delay_s": 1, "downscale_delay_s": 3, "look_back_period_s": 2, "metrics_interval_s": 1}
    handle = serve.run(app(bytes_of, replicas=(1, 4), max_batch_size=1, max_in_flight=1, autoscaling_config=follow))
    stop, counts, lock = threading.Event(), {}, threading.Lock()

    def load():
        while not stop.is_set():
            try:
                handle.infer.remote({"x": x}).result(timeout_s=60)
                outcome = "answered"
            except Exception as error:
                outcome = type(error).__name__
            with lock:
                counts[outcome] = counts.get(outcome, 0) + 1

    callers = [threading.Thread(target=load) for _ in range(8)]
    for caller in callers:
        caller.start()
    until("four replicas", lambda: running() == 4)
    stop.set()
    for caller in callers:
        caller.join(90)
    until("one replica", lambda: running() == 1)
    assert set(counts) == {"answered"}, counts
    print(f"autoscaling: from 1 to 4 replicas under load and back to 1, {counts}", flush=True)
    serve.shutdown()


def lose_the_gpu(_):
    """Run in a process that uses a GPU: it loses it. The processes beside it do not."""
    driver = ctypes.CDLL("libcuda.so.1")
    if hasattr(driver, "cudaSimLose"):
        driver.cudaSimLose()
        return
    # A kernel writes to memory that nobody allocated.
    text = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry write(.param .u64 to)"
    text += b" { .reg .u64 %to; ld.param.u64 %to, [to]; st.global.u32 [%to], 1; ret; }"
    context, stream, module, kernel = (ctypes.c_void_p() for _ in range(4))
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.cuCtxPushCurrent_v2(context)
    driver.cuStreamCreate(ctypes.byref(stream), 1)
    driver.cuModuleLoadData(ctypes.byref(module), text)
    driver.cuModuleGetFunction(ctypes.byref(kernel), module, b"write")
    address = ctypes.c_uint64(0xDEAD0000)
    parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(address), ctypes.c_void_p))
    driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, None)
    assert driver.cuStreamSynchronize(stream) == 700, "an illegal address"
    driver.cuCtxPopCurrent_v2(ctypes.byref(context))


def processes():
    """The replicas by the number of their process."""
    return {actor.pid: ray.get_actor(actor.name, namespace="serve") for actor in replica_actors()}


def lost(folder):
    """A replica whose GPU is lost fails what it has, and is replaced by a new process; the other goes on."""
    options = {"device": "cuda:0", "cpus": 0.2, "max_batch_size": 8}
    if SIM:
        options["ray_actor_options"] = {"runtime_env": {"env_vars": {"LD_LIBRARY_PATH": SIM}}}
    else:
        options["replicas_per_gpu"] = 2
    handle = serve.run(streampool.ray.app(model(folder / "one.onnx", 1), replicas=2, **options))
    load = Load(handle)
    time.sleep(4)
    assert load.end("two replicas on GPUs") == 0
    typed = {"RayTaskError(DeviceLost)", "ActorDiedError"}

    def strike():
        before = processes()
        gone = next(iter(before))
        begun = time.monotonic()
        ray.get(before[gone].__ray_call__.remote(lose_the_gpu))
        until("another process", lambda: gone not in processes() and len(processes()) == running() == 2)
        again = time.monotonic() - begun
        after = processes()
        assert len(before) == len(after) == 2 and len(after.keys() & before.keys()) == 1, (before, after)
        return begun, again

    load = Load(handle)
    time.sleep(2)
    begun, again = strike()
    time.sleep(3)
    load.end("a GPU is lost")
    right = max(0, load.last_failure - begun)
    print(
        f"  all answers are right again after {right:.1f} s, two replicas run after {again:.1f} s; the slowest failure took "
        f"{load.slowest_failure:.2f} s",
        flush=True,
    )
    assert load.failed and set(load.failed) <= typed and right < 10 and load.slowest_failure < 5, load.failed

    # A replica that nobody asks anything.
    _, again = strike()
    load = Load(handle)
    time.sleep(2)
    assert load.end("a GPU is lost that nobody uses: afterwards") == 0
    print(f"  two replicas run after {again:.1f} s", flush=True)
    serve.shutdown()


def data(folder):
    """Each row has one result, also if a worker is killed."""
    path = folder / "plus.onnx"
    model(path, 1)
    marker = folder / "killed"

    class Slow(streampool.ray.Predictor):
        def __call__(self, batch):
            time.sleep(0.1)
            if batch["id"][0] >= 1000 and not marker.exists():
                marker.write_text("once")
                os._exit(1)
            return super().__call__(batch)

    rows = [{"id": number, "x": np.full(4, number, np.float32)} for number in range(2000)]
    dataset = ray.data.from_items(rows, override_num_blocks=40)
    found = dataset.map_batches(Slow(str(path), device="host"), batch_size=50).take_all()
    ids = sorted(row["id"] for row in found)
    assert marker.exists() and ids == list(range(2000)), len(ids)
    assert all(row["y"][0] == row["id"] + 1 for row in found)
    print("data: 2000 rows, each with one result, after a worker was killed", flush=True)


def main():
    chosen = sys.argv[1:] or ["data", "serve", "requests", *(["lost"] if SIM else [])]
    # Of imitated GPUs there are two on different nodes: no more than replicas want.
    gpus = [1, 1, 0] if SIM else [1, 0, 0] if "lost" in chosen else [0, 0, 0]
    each = [{"num_cpus": 2, "num_gpus": count, "node_ip_address": "127.0.0.1"} for count in gpus]
    cluster = Cluster(initialize_head=True, head_node_args=each[0])
    nodes = [cluster.head_node, *(cluster.add_node(**node) for node in each[1:])]
    ray.init(address=cluster.address, _node_ip_address="127.0.0.1", log_to_driver=False)
    try:
        with tempfile.TemporaryDirectory() as folder:
            if "data" in chosen:
                data(Path(folder))
            if "serve" in chosen:
                serving(Path(folder), cluster, nodes)
            if "requests" in chosen:
                requests(Path(folder))
            if "lost" in chosen:
                lost(Path(folder))
    except BaseException:
        # Callers that still ask would connect to Ray again.
        traceback.print_exc()
        cluster.shutdown()
        os._exit(1)
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main()
