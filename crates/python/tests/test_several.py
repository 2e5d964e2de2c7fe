import asyncio
import concurrent.futures
import types

import numpy as np
import pytest

import streampool as sp


def rows(count, seed=0):
    return np.random.default_rng(seed).standard_normal((count, 16), dtype=np.float32)


@pytest.mark.parametrize("queue", [None, {"max_batch_size": 8}])
def test_calls_are_spread_over_devices(linear, session, queue):
    with sp.DeviceSet(linear, ["host", "host"], queue=queue) as devices, concurrent.futures.ThreadPoolExecutor(8) as pool:
        inputs = [rows(1, seed) for seed in range(40)]
        for x, outputs in zip(inputs, pool.map(lambda x: devices.run({"x": x}), inputs), strict=True):
            np.testing.assert_allclose(outputs["y"], session.run({"x": x})["y"], rtol=1e-5, atol=1e-5)

        async def tasks():
            return await asyncio.gather(*(devices.run_async({"x": x}) for x in inputs[:10]))

        assert len(asyncio.run(tasks())) == 10
        status = devices.status()
        assert sum(one["begun"] for one in status) == 50 and all(one["begun"] > 5 for one in status), status
        assert all(one["under_way"] == 0 and one["lost"] is None for one in status)


def test_a_lost_device_is_left_out(linear, monkeypatch):
    devices = sp.DeviceSet(linear, ["host", "host"])
    broken = devices._sessions[0]

    class Broken:
        def run(self, inputs):
            raise sp.DeviceLost("struck")

    devices._sessions[0] = Broken()
    with pytest.raises(sp.DeviceLost, match="struck"):
        for _ in range(2):
            devices.run({"x": rows(1)})
    for _ in range(5):
        devices.run({"x": rows(1)})
    assert [one["lost"] for one in devices.status()] == ["struck", None]
    devices._sessions[1] = Broken()
    with pytest.raises(sp.DeviceLost):
        devices.run({"x": rows(1)})
    with pytest.raises(sp.DeviceLost, match="struck; struck"):
        devices.run({"x": rows(1)})
    assert broken is not None


@pytest.mark.parametrize("queue", [None, {}])
def test_a_device_that_is_lost_when_the_set_is_made_is_left_out(linear, monkeypatch, queue):
    made = sp.Session

    def session(model, device, **options):
        if device != "host":
            raise sp.DeviceLost(f"{device} is struck")
        return made(model, device, **options)

    monkeypatch.setattr("streampool._several.Session", session)
    with sp.DeviceSet(linear, ["cuda:0", "host"], queue=queue) as devices:
        for _ in range(3):
            devices.run({"x": rows(1)})
        assert [one["lost"] for one in devices.status()] == ["cuda:0 is struck", None]
        assert [one["begun"] for one in devices.status()] == [0, 3]
    with pytest.raises(sp.DeviceLost, match="cuda:0 is struck; cuda:1 is struck"):
        sp.DeviceSet(linear, ["cuda:0", "cuda:1"], queue=queue)


def test_settings_of_a_call_are_not_dropped(linear):
    devices = sp.DeviceSet(linear, ["host"])
    with pytest.raises(TypeError, match="tenant"):
        asyncio.run(devices.run_async({"x": rows(1)}, tenant="ann"))
    assert devices.status()[0]["under_way"] == 0


def test_a_call_goes_to_where_its_tensors_lie(linear):
    devices = sp.DeviceSet(linear, ["host", "host", "host"])
    devices._names = ["cuda:0", "cuda:1", "cuda:2"]
    tensor = types.SimpleNamespace(device="cuda:1")

    class Recorder:
        def run(self, inputs):
            return {}

    devices._sessions = dict.fromkeys(range(3), Recorder())
    for inputs in ({"x": rows(1), "cache": tensor}, [tensor], tensor):
        devices.run(inputs)
    assert [one["begun"] for one in devices.status()] == [0, 3, 0]
    devices._lost[1] = "struck"
    devices.run(tensor)
    assert [one["begun"] for one in devices.status()] == [1, 3, 0]


def test_no_device_is_an_error(linear):
    with pytest.raises(sp.NoDevice):
        sp.DeviceSet(linear, [])
