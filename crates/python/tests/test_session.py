import asyncio
import concurrent.futures
import itertools
import os
import textwrap
import threading
import time

import ml_dtypes
import numpy as np
import pytest
from conftest import make
from onnx import TensorProto, helper
from processes import in_a_process

import streampool as sp


def rows(count, seed=0):
    return np.random.default_rng(seed).standard_normal((count, 16), dtype=np.float32)


def test_inputs_come_by_name_in_order_or_alone(session, weight):
    x = rows(3)
    for outputs in [session.run({"x": x}), session(x=x), session(x), session.run([x]), session.run(x)]:
        assert list(outputs) == ["y"]
        np.testing.assert_allclose(outputs["y"], x @ weight, rtol=1e-5, atol=1e-5)
        assert outputs["y"].dtype == np.float32


def test_a_model_comes_as_a_path_bytes_or_a_proto(linear, tmp_path, weight):
    path = tmp_path / "linear.onnx"
    path.write_bytes(linear.SerializeToString())
    x = rows(1)
    for model in [str(path), path, path.read_bytes(), linear]:
        np.testing.assert_allclose(sp.Session(model, "host").run({"x": x})["y"], x @ weight, rtol=1e-5, atol=1e-5)
    with pytest.raises(sp.InvalidInput, match="expected a path"):
        sp.Session(3, "host")
    with pytest.raises(sp.InvalidModel):
        sp.Session(b"no model", "host")
    with pytest.raises(sp.Error, match="nowhere.onnx"):
        sp.Session("nowhere.onnx", "host")


def test_a_session_tells_what_it_takes(session):
    (x,) = session.inputs
    assert (x.name, x.dtype, x.shape) == ("x", "float32", ("rows", 16))
    (y,) = session.outputs
    assert (y.name, y.shape) == ("y", ("rows", 4))
    assert session.device == "host"
    assert repr(session) == "<streampool.Session on host: (x) -> (y)>"
    assert session.statistics()["plans"] >= 0


@pytest.mark.parametrize("device", ["nowhere", "host:1", "cuda:x", ""])
def test_an_unknown_device_is_refused(linear, device):
    with pytest.raises(sp.InvalidInput, match="expected"):
        sp.Session(linear, device)


TYPES = ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (7,), (2, 3, 4)])
def test_every_type_and_layout_comes_back(identity, dtype, shape):
    drawn = np.random.default_rng(2).integers(0, 100, shape)
    x = np.asarray(drawn % 2 if dtype == "bool" else drawn, dtype=dtype)
    layouts = [x, np.asfortranarray(x), x.copy()[..., ::-1] if x.ndim else x, x.astype(x.dtype.newbyteorder(">"))]
    if x.ndim == 3:
        layouts.append(np.repeat(x, 2, axis=1)[:, ::2])
        layouts.append(np.broadcast_to(x[:1], x.shape))
    read_only = x.copy()
    read_only.flags.writeable = False
    layouts.append(read_only)
    for layout in layouts:
        y = identity(dtype).run(layout)["y"]
        assert y.dtype == dtype
        assert y.shape == layout.shape
        np.testing.assert_array_equal(y, layout)


def test_small_types_are_held_in_wider_ones():
    x = np.array([0.3, 5.1, -70], np.float32).astype(ml_dtypes.float8_e4m3fn)
    f8, f32 = TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT
    model = make([helper.make_node("Cast", ["x"], ["y"], to=f32)], [("x", f8, [3])], [("y", f32, [3])])
    model.opset_import[0].version, model.ir_version = 21, 10
    session = sp.Session(model, device="host")
    assert np.array_equal(session(x=x)["y"], x.astype(np.float32))
    with pytest.raises(sp.InvalidInput, match="complex"):
        session(x=np.zeros(3, np.complex64))


def test_numbers_without_a_type_become_what_the_model_takes(session, identity):
    assert session.run({"x": [[0.5] * 16]})["y"].dtype == np.float32
    assert identity("int64").run({"x": 3})["y"] == 3
    assert identity("bool").run({"x": True})["y"]


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"x": np.zeros((1, 16))}, "float64|F64|f64"),
        ({"x": np.zeros((1, 15), np.float32)}, "x"),
        ({"z": np.zeros((1, 16), np.float32)}, "z"),
        ({}, "x"),
        ({"x": np.array(["a"])}, "input 'x'|input \"x\""),
        ({"x": np.zeros((1, 16), np.complex64)}, "complex64"),
        ({"x": object()}, "x"),
        ([np.zeros((1, 16), np.float32)] * 2, "2 inputs"),
    ],
)
def test_what_does_not_fit_is_refused(session, inputs, said):
    with pytest.raises(sp.InvalidInput, match=said) as caught:
        session.run(inputs)
    assert isinstance(caught.value, sp.Error) and isinstance(caught.value, ValueError)


def test_a_buffer_of_another_library_is_read(session, weight):
    class Lent:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **how):
            return self.array.__dlpack__(**how)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    x = rows(2)
    np.testing.assert_allclose(session.run({"x": Lent(x)})["y"], x @ weight, rtol=1e-5, atol=1e-5)


def test_threads_get_the_same_bits(session):
    inputs = [rows(1 + seed % 5, seed) for seed in range(64)]
    alone = [session.run(x)["y"] for x in inputs]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for _ in range(5):
            for expected, outputs in zip(alone, pool.map(session.run, inputs), strict=True):
                np.testing.assert_array_equal(outputs["y"], expected)


def test_a_ticket_is_a_future(session, weight):
    tickets = [session.submit(rows(2, seed)) for seed in range(200)]
    told = []
    tickets[0].add_done_callback(told.append)
    for seed, ticket in enumerate(tickets):
        assert isinstance(ticket, concurrent.futures.Future)
        np.testing.assert_allclose(ticket.result(60)["y"], rows(2, seed) @ weight, rtol=1e-5, atol=1e-5)
    assert told == [tickets[0]]
    assert len(list(concurrent.futures.as_completed(tickets))) == 200


def test_inputs_may_change_once_submitted(session, weight):
    x = rows(64)
    expected = x @ weight
    ticket = session.submit(x)
    x[:] = 0
    np.testing.assert_allclose(ticket.result(60)["y"], expected, rtol=1e-4, atol=1e-4)


def test_tasks_run_side_by_side(session, weight):
    async def all_of_them():
        return await asyncio.gather(*(session.run_async(rows(1, seed)) for seed in range(300)))

    for seed, outputs in enumerate(asyncio.run(all_of_them())):
        np.testing.assert_allclose(outputs["y"], rows(1, seed) @ weight, rtol=1e-5, atol=1e-5)


def test_one_bad_request_fails_alone(gather):
    good, bad = np.array([1, 5]), np.array([6])
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        runs = [pool.submit(gather.run, bad if n % 3 == 0 else good) for n in range(60)]
    for n, run in enumerate(runs):
        if n % 3 == 0:
            with pytest.raises(sp.Error):
                run.result()
        else:
            np.testing.assert_array_equal(run.result()["y"], [[2, 3], [10, 11]])
    with pytest.raises(sp.Error):
        gather.submit(bad).result(60)
    np.testing.assert_array_equal(gather.run(good)["y"], [[2, 3], [10, 11]])


def test_a_deadline_that_is_past_is_an_error(session):
    with pytest.raises(sp.DeadlineExceeded) as caught:
        session.run(rows(1), timeout=0)
    assert isinstance(caught.value, TimeoutError)
    with pytest.raises(sp.InvalidInput, match="timeout"):
        session.run(rows(1), timeout=-1)
    session.run(rows(1), timeout=60, urgent=True)
    with pytest.raises(sp.DeadlineExceeded):
        session.submit(rows(1), timeout=0)
    with pytest.raises(sp.DeadlineExceeded):
        asyncio.run(session.run_async(rows(1), timeout=0))


def chain(count):
    """A model of so many products, one after another."""
    f32, names = TensorProto.FLOAT, [f"v{n}" for n in range(count + 1)]
    nodes = [helper.make_node("MatMul", [before, "v0"], [after]) for before, after in itertools.pairwise(names)]
    return make(nodes, [("v0", f32, ["n", "n"])], [(names[-1], f32, ["n", "n"])])


def test_runs_under_way_are_given_up_at_their_deadline():
    session = sp.Session(chain(60), "host")
    large, small = np.full((1500, 1500), 1e-4, np.float32), np.full((2, 2), 0.5, np.float32)

    def expires(run):
        begun = time.perf_counter()
        with pytest.raises(sp.DeadlineExceeded):
            run()
        assert 0.2 <= time.perf_counter() - begun < 2

    # Each on a stream of its own, as what was given up goes on there.
    for run in (
        lambda: session.submit(large, timeout=0.3).result(),
        lambda: asyncio.run(session.run_async(large, timeout=0.3)),
    ):
        with sp.stream(sp.Stream("host")):
            expires(run)
    # One that is over in time keeps its answer, and options reach the run.
    with sp.stream(sp.Stream("host")):
        expected = session.run(small)["v60"]
        np.testing.assert_array_equal(session.submit(small, timeout=60, urgent=True).result()["v60"], expected)
    np.testing.assert_array_equal(asyncio.run(session.run_async(small, timeout=60, urgent=True))["v60"], expected)


def test_a_seed_of_one_run_is_taken_by_every_way_to_run():
    node = helper.make_node("RandomNormalLike", ["x"], ["y"])
    f32 = TensorProto.FLOAT
    session = sp.Session(make([node], [("x", f32, ["n"])], [("y", f32, ["n"])]), "host")
    x = np.zeros(9, np.float32)
    expected = session.run(x, seed=7)["y"]
    assert not np.array_equal(session.run(x)["y"], expected)
    np.testing.assert_array_equal(session.submit(x, seed=7).result()["y"], expected)
    np.testing.assert_array_equal(asyncio.run(session.run_async(x, seed=7))["y"], expected)


def test_warm_up_takes_shapes(session):
    session.warm_up([[7, 16]])
    with pytest.raises(sp.InvalidInput):
        session.warm_up([[7, 15]])


def test_other_threads_go_on_while_a_run_computes():
    session = sp.Session(chain(8), "host")
    x = np.full((1024, 1024), 1e-3, np.float32)
    session.run(x)
    # Bytecode of this thread between the begin and the end of a run of another.
    running, counted = threading.Event(), []

    def run():
        running.set()
        session.run(x)
        running.clear()

    for _ in range(5):
        thread = threading.Thread(target=run)
        thread.start()
        running.wait(60)
        count = 0
        while running.is_set():
            count += 1
        thread.join()
        counted.append(count)
    # With the lock held for the whole run there would be no more than a few.
    assert max(counted) > 1000, counted


LOADED = """
import numpy as np, os, sys, threading, time
import onnx
from onnx import TensorProto, helper
import streampool as sp
node = helper.make_node("Relu", ["x"], ["y"])
info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in "xy"]
model = helper.make_model(helper.make_graph([node], "g", info[:1], info[1:]), opset_imports=[helper.make_opsetid("", 18)])
model.ir_version = 9
session = sp.Session(model, "host")
x = np.ones(4, np.float32)
session.run(x)
"""


def test_the_interpreter_ends_with_work_under_way():
    print(in_a_process(LOADED + "tickets = [session.submit(x) for _ in range(1000)]\nprint('over')"))


def test_the_interpreter_ends_beside_daemon_threads():
    code = """
    def work():
        while True:
            session.run(x)
    for _ in range(4):
        threading.Thread(target=work, daemon=True).start()
    time.sleep(0.2)
    print('over')
    """
    assert "over" in in_a_process(LOADED + textwrap.dedent(code))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_gets_an_error_and_the_parent_goes_on():
    code = """
    ticket = session.submit(x)
    child = os.fork()
    if child == 0:
        try:
            session.run(x)
        except sp.Closed:
            os._exit(7)
        os._exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    ticket.result(60)
    session.run(x)
    print('over')
    """
    assert "over" in in_a_process(LOADED + textwrap.dedent(code))


def test_a_subinterpreter_gets_an_import_error():
    code = """
    import _testcapi
    import streampool
    assert _testcapi.run_in_subinterp(
        "try:\\n    import streampool\\nexcept ImportError:\\n    print('refused', flush=True)\\n"
    ) == 0
    """
    pytest.importorskip("_testcapi")
    assert "refused" in in_a_process(textwrap.dedent(code))


def test_the_package_is_quick_to_import():
    code = """
    import time
    import numpy
    begun = time.perf_counter()
    import streampool
    print(time.perf_counter() - begun)
    # What takes long itself is imported where it is needed.
    import sys
    assert not {"asyncio", "torch", "onnx", "ray"} & sys.modules.keys()
    """
    assert min(float(in_a_process(textwrap.dedent(code))) for _ in range(3)) < 10


def test_a_profile_names_nodes_and_writes_a_trace(linear, tmp_path, capsys):
    import json

    session = sp.Session(linear, "host")
    session.run(rows(2))
    with session.profile(tmp_path / "trace.json") as profile:
        for _ in range(5):
            session.run(rows(2))
    assert profile.nodes and profile.nodes[0]["operator"] == "fused.Linear" and profile.nodes[0]["count"] == 5
    assert profile.seconds > 0 and profile.ops[0]["seconds"] > 0
    assert json.loads((tmp_path / "trace.json").read_text())
    assert "fused.Linear" in capsys.readouterr().out
    sp.profiler.start(tmp_path / "other.json", device="host")
    with pytest.raises(RuntimeError, match="under way"):
        sp.profiler.start(device="host")
    session.run(rows(2))
    assert sp.profiler.stop().ops and (tmp_path / "other.json").exists()
    with pytest.raises(RuntimeError, match="start"):
        sp.profiler.stop()
    with sp.profiler.profile(device="host", table=False) as profile:
        session.run(rows(2))
    assert profile.device == "host"
    with pytest.raises(OSError), session.profile(tmp_path / "nowhere" / "trace.json"):
        pass


def test_strings_are_given_and_come_back_as_strings():
    nodes = [
        helper.make_node(
            "LabelEncoder",
            ["x"],
            ["codes"],
            domain="ai.onnx.ml",
            keys_strings=["red", "green"],
            values_int64s=[1, 2],
            default_int64=0,
        ),
        helper.make_node(
            "LabelEncoder",
            ["codes"],
            ["y"],
            domain="ai.onnx.ml",
            keys_int64s=[1, 2],
            values_strings=["warm", "cold"],
            default_string="none",
        ),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.STRING, [None, 1])
    y = helper.make_tensor_value_info("y", TensorProto.STRING, [None, 1])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets, ir_version=9)
    session = sp.Session(model, device="host")
    for given in [np.array([["green"], ["red"], ["blue"]]), np.array([["green"], ["red"], ["blue"]], dtype=object)]:
        got = session.run({"x": given})["y"]
        assert got.dtype == object
        assert got.tolist() == [["cold"], ["warm"], ["none"]]


def test_strings_that_the_model_does_not_name_come_back_too():
    nodes = [helper.make_node("StringNormalizer", ["x"], ["y"], case_change_action="UPPER", stopwords=["the"])]
    x = helper.make_tensor_value_info("x", TensorProto.STRING, [None])
    y = helper.make_tensor_value_info("y", TensorProto.STRING, [None])
    graph = helper.make_graph(nodes, "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session = sp.Session(model, device="host")
    for given in [["The", "Cat"], np.array(["The", "Cat"]), np.array(["The", "Cat"], dtype=object)]:
        assert session.run({"x": given})["y"].tolist() == ["CAT"]
    with pytest.raises(sp.InvalidInput, match="strings"):
        session.run({"x": np.array([1.0], np.float32)})


def test_a_run_may_say_what_random_operators_begin_with():
    node = helper.make_node("RandomNormalLike", ["x"], ["y"])
    session = sp.Session(make([node], [("x", TensorProto.FLOAT, ["n"])], [("y", TensorProto.FLOAT, ["n"])]), device="host")
    x = np.zeros(50, np.float32)
    first, again, other = (session.run(x, seed=seed)["y"] for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any() and (session.run(x)["y"] != session.run(x)["y"]).any()
