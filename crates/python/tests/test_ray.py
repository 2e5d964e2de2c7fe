"""What of `streampool.ray` needs no Ray. `ci/ray.sh` has the rest."""

import asyncio
import os
import pickle
import sys
import types

import numpy as np
import pytest
from processes import in_a_process

import streampool as sp
import streampool.ray

SIM = os.environ.get("CUDA_SIM")


def test_a_predictor_adds_columns_in_any_process(linear, weight):
    predictor = pickle.loads(pickle.dumps(streampool.ray.Predictor(linear.SerializeToString(), device="host")))
    x = np.random.default_rng(1).standard_normal((5, 16), dtype=np.float32)
    batch = predictor({"id": np.arange(5), "x": x})
    assert sorted(batch) == ["id", "x", "y"] and list(batch["id"]) == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(batch["y"], x @ weight, rtol=1e-5, atol=1e-5)
    with pytest.raises(sp.InvalidInput, match="no columns"):
        predictor({"z": x})


def test_a_replica_answers_and_is_unwell_once_its_device_is_lost(linear, weight):
    replica = streampool.ray._Replica({"model": linear.SerializeToString()}, "host", {"max_batch_size": 4})
    x = np.ones((1, 16), np.float32)
    outputs = asyncio.run(replica.infer({"x": x}, tenant="ann"))
    np.testing.assert_allclose(outputs["y"], x @ weight, rtol=1e-5, atol=1e-5)
    with pytest.raises(sp.InvalidInput, match="no model 'other'"):
        asyncio.run(replica.infer({"x": x}, "other"))
    asyncio.run(replica.check_health())

    class Lost:
        async def infer_async(self, inputs):
            raise sp.DeviceLost("struck")

        def close(self):
            pass

    replica._queues["model"] = Lost()
    for _ in range(2):
        with pytest.raises(sp.DeviceLost, match="struck"):
            asyncio.run(replica.infer({"x": x}))
    with pytest.raises(sp.DeviceLost, match="struck"):
        asyncio.run(replica.check_health())


@pytest.mark.skipif(not SIM, reason="CUDA_SIM names no imitation of NVIDIA's driver")
def test_a_replica_that_nobody_asks_finds_out_that_its_device_is_lost(monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", SIM)
    code = """
    import asyncio, ctypes
    import numpy as np
    import streampool as sp
    import streampool.ray
    from conftest import make
    from onnx import TensorProto, helper

    ends = [(name, TensorProto.FLOAT, ["rows", 4]) for name in "xy"]
    made = make([helper.make_node("Neg", ["x"], ["y"])], ends[:1], ends[1:])
    replica = streampool.ray._Replica({"model": made.SerializeToString()}, "cuda:0", {})
    inputs = {"x": np.ones((1, 4), np.float32)}
    assert (asyncio.run(replica.infer(inputs))["y"] == -1).all()
    asyncio.run(replica.check_health())
    ctypes.CDLL("libcuda.so.1").cudaSimLose()
    for call in (replica.check_health, lambda: replica.infer(inputs)):
        try:
            asyncio.run(call())
        except sp.DeviceLost as lost:
            print(lost)
        else:
            raise AssertionError("it is lost")
    """
    told = in_a_process(code).splitlines()
    assert len(told) == 2 and "uncorrectable" in told[0].lower() and told[0] == told[1]


@pytest.fixture
def cluster(monkeypatch):
    """What `app` asks of a Ray that is not there, whose cluster has the resources `has`."""
    cluster = types.SimpleNamespace(asked={}, has={"CPU": 4.0}, is_connected=False)

    def deployment(_, **options):
        cluster.asked.clear()
        cluster.asked.update(options)
        return types.SimpleNamespace(bind=lambda *_: None)

    def init(namespace):
        assert namespace == "serve" and not cluster.is_connected
        cluster.is_connected = True

    def cluster_resources():
        assert cluster.is_connected
        return cluster.has

    serve = types.SimpleNamespace(deployment=deployment)
    ray = types.SimpleNamespace(serve=serve, init=init, cluster_resources=cluster_resources)
    ray.is_initialized = lambda: cluster.is_connected
    monkeypatch.setitem(sys.modules, "ray", ray)
    return cluster


def test_a_replica_is_given_a_gpu_where_the_cluster_has_one(cluster):
    def gpus(**how):
        streampool.ray.app(b"", **how)
        return cluster.asked["ray_actor_options"].get("num_gpus")

    assert (gpus(device="host"), gpus(device="cuda")) == (None, 1) and not cluster.is_connected
    assert gpus() is None
    cluster.has["GPU"] = 2.0
    assert (gpus(), gpus(device="host"), gpus(device="cuda:0")) == (1, None, 1)
    assert gpus(replicas_per_gpu=4) == 0.25
    assert gpus(ray_actor_options={"num_gpus": 0}) == 0


def test_ray_lets_in_more_than_the_queues_of_all_models_have_room_for(cluster):
    streampool.ray.app(b"", max_batch_size=8, max_in_flight=2, capacity=100)
    assert cluster.asked["max_ongoing_requests"] == 2 * (100 + 16)
    streampool.ray.app(dict.fromkeys("abc", b""), max_batch_size=8, max_in_flight=2, capacity=100)
    assert cluster.asked["max_ongoing_requests"] == 3 * 2 * (100 + 16)


def test_autoscaling_is_said_by_a_mapping_and_takes_the_place_of_a_number(cluster):
    asked = cluster.asked
    config = types.MappingProxyType({"max_replicas": 3})
    streampool.ray.app(b"", autoscaling_config=config)
    assert asked["autoscaling_config"] == {"max_replicas": 3} and "num_replicas" not in asked
    streampool.ray.app(b"", replicas=(1, 2), autoscaling_config=config)
    assert asked["autoscaling_config"] == {"min_replicas": 1, "max_replicas": 3, "target_ongoing_requests": 64}
    streampool.ray.app(b"", replicas=2, autoscaling_config=None)
    assert asked["num_replicas"] == 2 and "autoscaling_config" not in asked
    for replicas in (1, (1, 2)):
        with pytest.raises(sp.InvalidInput, match="autoscaling_config is a SimpleNamespace, expected a mapping"):
            streampool.ray.app(b"", replicas=replicas, autoscaling_config=types.SimpleNamespace(max_replicas=3))
