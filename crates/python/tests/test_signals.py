"""Ctrl-C ends a wait of the main thread: each in a process of its own, which gets a real signal."""

import os

import pytest
from processes import in_a_process

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are sent as Unix sends them")

PRELUDE = """
import os, signal, sys, threading, time
import numpy as np
import onnx
from onnx import TensorProto, helper
import streampool as sp

# A test run in the background of a shell is started without it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Products of matrices of 1,500 times 1,500: seconds, on the host.
f32, names = TensorProto.FLOAT, [f"v{n}" for n in range(COUNT + 1)]
nodes = [helper.make_node("MatMul", [before, "v0"], [after]) for before, after in zip(names, names[1:])]
info = [helper.make_tensor_value_info(name, f32, ["n", "n"]) for name in (names[0], names[-1])]
model = helper.make_model(helper.make_graph(nodes, "g", info[:1], info[1:]), opset_imports=[helper.make_opsetid("", 18)])
model.ir_version = 9
session = sp.Session(model, "host")
large, small = np.full((1500, 1500), 1e-4, np.float32), np.ones((2, 2), np.float32)
gate = threading.Event()

def held(x):
    gate.wait(30)
    return x

# What was waited for goes on, on its stream: others are free.
def beside():
    with sp.stream(sp.Stream("host")):
        session.run(small)

def slow(x):
    time.sleep(0.05)
    return x

def recorded():
    event = sp.Event(device="host")
    event.record()
    return event

def ctrl_c(after):
    def send():
        time.sleep(after)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=send, daemon=True).start()

def ends(wait):
    begun = time.perf_counter()
    ctrl_c(0.3)
    try:
        wait()
    except KeyboardInterrupt:
        took = time.perf_counter() - begun
        assert took >= 0.25, took
        print("ended" if took < 4 else f"ended only after {took} s")
    else:
        print("was not ended", time.perf_counter() - begun)
"""

# What waits, and that the library works afterwards.
WAITS = {
    "run": "ends(lambda: session.run(large)); beside()",
    "run after quick ones": "[session.run(small) for _ in range(5)]; ends(lambda: session.run(large)); beside()",
    "run with a deadline": "ends(lambda: session.run(large, timeout=60))",
    "call": "ends(lambda: session(large))",
    "result": "ticket = session.submit(large); ends(ticket.result)",
    "stream synchronize": "stream = sp.current_stream('host'); ticket = session.submit(large); ends(stream.synchronize)",
    "event synchronize": "ticket = session.submit(large); event = recorded(); ends(event.synchronize)",
    "event synchronize in time": "ticket = session.submit(large); event = recorded(); ends(lambda: event.synchronize(60))",
    "synchronize": "ticket = session.submit(large); ends(lambda: sp.synchronize('host'))",
    "infer": "queue = sp.BatchQueue(held); ends(lambda: queue.infer(small)); gate.set(); queue.infer(small)",
    "infer of a session": "queue = sp.BatchQueue(session, max_wait=9.0, max_batch_size=3000); ends(lambda: queue.infer(large))",
    "submit to a full queue": """
queue = sp.BatchQueue(held, max_batch_size=1, capacity=1, when_full="block", max_in_flight=1)
def fill():
    for _ in range(20):
        queue.submit(small)
ends(fill)
gate.set()
""",
    "close": "queue = sp.BatchQueue(held); ticket = queue.submit(small); ends(queue.close); gate.set(); ticket.result(30)",
    "batch_inference": "ends(lambda: list(sp.batch_inference(slow, [small] * 9999)))",
}


@pytest.mark.parametrize("name", WAITS)
def test_ctrl_c_ends_a_wait(name):
    # So many products that they take several seconds, whatever the machine: the signal comes after 0.3 s.
    told = in_a_process(PRELUDE.replace("COUNT", "200") + WAITS[name] + "\nsys.stdout.flush(); os._exit(0)")
    assert told.split() == ["ended"], told


def test_a_handler_that_returns_lets_the_wait_go_on():
    code = """
seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append(1))
queue = sp.BatchQueue(held)
ctrl_c(0.2)
threading.Timer(3, gate.set).start()
assert queue.infer(small).tolist() == small.tolist()
print(len(seen))
"""
    assert in_a_process(PRELUDE.replace("COUNT", "2") + code).split() == ["1"]
