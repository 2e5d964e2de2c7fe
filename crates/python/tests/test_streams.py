import asyncio
import threading

import numpy as np
import pytest
from processes import in_a_process

import streampool as sp


def test_each_thread_has_a_stream_of_its_own():
    seen, barrier = {}, threading.Barrier(4)

    def look(n):
        stream = sp.current_stream("host")
        barrier.wait(60)
        seen[n] = stream.index

    threads = [threading.Thread(target=look, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen.values())) == 4
    assert sp.default_stream("host").index == 0


def test_a_chosen_stream_is_the_current_one(session):
    stream, inner = sp.Stream("host"), sp.Stream("host")
    outside = sp.current_stream("host")
    with sp.stream(stream):
        assert sp.current_stream("host") == stream
        session.run(np.ones((1, 16), np.float32))
        with sp.stream(inner), sp.stream(None):
            assert sp.current_stream("host") == inner
        assert sp.current_stream("host") == stream
        with pytest.raises(ZeroDivisionError), sp.stream(inner):
            raise ZeroDivisionError
        assert sp.current_stream("host") == stream
    assert sp.current_stream("host") == outside
    assert stream != inner and len({stream, inner, stream}) == 2


def test_each_task_chooses_for_itself():
    async def choose(stream, turn):
        with sp.stream(stream):
            await turn.wait()
            return sp.current_stream("host").index

    async def both():
        turn = asyncio.Event()
        streams = [sp.Stream("host") for _ in range(2)]
        tasks = [asyncio.ensure_future(choose(stream, turn)) for stream in streams]
        await asyncio.sleep(0)
        turn.set()
        assert await asyncio.gather(*tasks) == [stream.index for stream in streams]

    asyncio.run(both())


def test_events_order_and_time(session):
    begin, end = sp.Event(enable_timing=True, device="host"), sp.Event(enable_timing=True, device="host")
    begin.record()
    session.run(np.ones((64, 16), np.float32))
    end.record()
    end.synchronize()
    assert end.query() and begin.elapsed_time(end) >= 0
    other = sp.Stream("host")
    other.wait_event(end)
    other.wait_stream(sp.current_stream("host"))
    other.record_event().wait()
    other.synchronize()
    assert other.query()
    with pytest.raises(sp.Error):
        sp.Event(device="host").elapsed_time(end)


def test_memory_is_told(session):
    session.run(np.ones((64, 16), np.float32))
    stats = sp.memory_stats("host")
    assert stats["device"] and stats["streams"] == 32
    assert 0 < sp.current_allocated_memory("host") <= sp.driver_allocated_memory("host")
    assert sp.recommended_max_memory("host") > 0
    assert sp.empty_cache("host") >= 0
    sp.synchronize("host")
    assert sp.release_current_stream("host") in (True, False)
    assert sp.device_count("host") == 1
    assert {device["name"].split(":")[0] for device in sp.devices()} >= {"host", "cuda", "metal"}


def test_a_snapshot_tells_each_stream(session):
    session.run(np.ones((64, 16), np.float32))
    told = sp.memory_snapshot("host")
    assert told["memory"]["in_use"] == sp.current_allocated_memory("host")
    assert told["memory"]["limit"] == sp.recommended_max_memory("host")
    mine = [stream for stream in told["made"] if stream["index"] == sp.current_stream("host").index]
    assert len(mine) == 1 and mine[0]["ops"] > 0 and mine[0]["memory"]["in_use"] >= 0


def test_a_part_of_the_memory_is_all_there_is(session):
    with pytest.raises(sp.InvalidInput, match="in use"):
        sp.set_per_process_memory_fraction(0.5, "host")
    for fraction in (0, -1, 1.5, float("nan")):
        with pytest.raises(sp.InvalidInput, match="fraction"):
            sp.set_per_process_memory_fraction(fraction, "cuda:7")
    told = in_a_process("""
        import streampool as sp
        sp.set_per_process_memory_fraction(0.001, "host")
        limit = sp.recommended_max_memory("host")
        try:
            for _ in range(1000):
                sp.Tensor([0.0] * 1000, "host")
            kept = [sp.rand(1 << 20, device="host") for _ in range(limit >> 22)]
            kept.append(sp.rand(limit // 4, device="host"))
        except sp.OutOfMemory:
            print("refused", limit)
    """)
    assert told.split()[0] == "refused"
    assert abs(int(told.split()[1]) / sp.recommended_max_memory("host") - 0.001) < 0.0005


def test_a_pool_is_set_up_before_it_is_used(session):
    with pytest.raises(sp.InvalidInput, match="before"):
        sp.configure(streams=4)
    with pytest.raises(sp.InvalidInput, match="when_exhausted"):
        sp.configure(when_exhausted="never")
