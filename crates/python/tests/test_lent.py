"""Large arrays, which a run on the host reads and makes where they are."""

import ctypes
import gc
import mmap
import sys
import threading

import numpy as np
import pytest
from conftest import make
from onnx import TensorProto, helper

import streampool as sp

F32 = TensorProto.FLOAT
# From so many bytes on arrays are lent.
LARGE = 1 << 16


def at(array, distance):
    """A copy of the array that begins so many bytes behind a multiple of 256."""
    room = np.empty(array.nbytes + 512, np.uint8)
    begin = -room.ctypes.data % 256 + distance
    made = room[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pytest.fixture(scope="module")
def double():
    node = helper.make_node("Add", ["x", "x"], ["y"])
    return sp.Session(make([node], [("x", F32, ["a", "b"])], [("y", F32, ["a", "b"])]), "host")


@pytest.mark.parametrize("distance", [0, 4, 16, 64, 100])
@pytest.mark.parametrize("rows", [127, 128, 129, 1000])
def test_inputs_begin_anywhere(double, distance, rows):
    x = at(drawn(rows, 128), distance)
    before = x.copy()
    x.flags.writeable = False
    y = double.run(x)["y"]
    np.testing.assert_array_equal(y, 2 * before)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "bool"])
def test_each_type_and_layout_comes_back(identity, dtype):
    x = (np.random.default_rng(3).integers(0, 100, (300, 400)) % (2 if dtype == "bool" else 100)).astype(dtype)
    for given in (x, np.asfortranarray(x), x[::-1], x[:, ::2], x.astype(x.dtype.newbyteorder(">"))):
        y = identity(dtype).run(given)["y"]
        assert y.dtype == dtype and y.flags.c_contiguous and y.flags.aligned
        np.testing.assert_array_equal(y, given)
        expected = given.copy()
        y[...] = 1
        np.testing.assert_array_equal(given, expected)


def test_inputs_may_be_overwritten_and_outputs_written(double):
    x = drawn(512, 512)
    expected, kept = [], []
    for round in range(20):
        x[...] = round
        kept.append(double.run({"x": x})["y"])
        expected.append(2.0 * round)
        x[...] = -1
        kept[-1] += 1
    for value, y in zip(expected, kept, strict=True):
        assert y.flags.writeable and (y == value + 1).all()


def test_outputs_outlive_their_session():
    node = helper.make_node("Split", ["x"], ["a", "b"], num_outputs=2)
    model = make([node], [("x", F32, ["n", 128])], [("a", F32, None), ("b", F32, None)])
    session = sp.Session(model, "host")
    x = drawn(512, 128)
    outputs = [session.run(x) for _ in range(3)]
    del session
    gc.collect()
    first = outputs[0].pop("a")
    outputs.pop(0)
    first[...] = 7
    for given in outputs:
        np.testing.assert_array_equal(np.concatenate([given["a"], given["b"]]), x)
    assert (first == 7).all()


def test_nobody_writes_what_others_have():
    w = drawn(256, 128)
    nodes = [
        helper.make_node("Identity", ["w"], ["weight"]),
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("NonZero", ["x"], ["places"]),
    ]
    ends = [("weight", F32, [256, 128]), ("same", F32, ["n", 128]), ("places", TensorProto.INT64, [2, "m"])]
    session = sp.Session(make(nodes, [("x", F32, ["n", 128])], ends, [("w", w)]), "host")
    x = drawn(300, 128)
    before = x.copy()
    for _ in range(3):
        outputs = session.run(x)
        np.testing.assert_array_equal(outputs["weight"], w)
        np.testing.assert_array_equal(outputs["same"], before)
        np.testing.assert_array_equal(outputs["places"], np.nonzero(before))
        for y in outputs.values():
            y[...] = 0
        np.testing.assert_array_equal(x, before)


def test_an_array_that_a_tensor_or_a_binding_has_is_copied():
    tensor = sp.Tensor(drawn(256, 128), "host")
    array = tensor.numpy()
    array[...] = 0
    np.testing.assert_array_equal(tensor.numpy(), drawn(256, 128))

    nodes = [helper.make_node("Add", ["x", "one"], ["next"]), helper.make_node("Mul", ["x", "one"], ["y"])]
    ends = [("next", F32, [256, 128]), ("y", F32, [256, 128])]
    model = make(nodes, [("x", F32, [256, 128])], ends, [("one", np.ones(1, np.float32))])
    binding = sp.Session(model, "host").bind()
    binding.carry("next", "x")
    x = np.zeros((256, 128), np.float32)
    binding.set("x", x)
    for step in range(3):
        x[...] = 100
        y = binding.run({})["y"]
        assert (y == step).all()
        y[...] = 50
        binding.get("x")[...] = 60
    assert (x == 100).all()


def test_requests_of_a_queue_are_copied():
    x = drawn(200, 128)
    seen = []

    def function(rows):
        seen.append(rows.copy())
        rows[...] = 0
        return rows + 1

    with sp.BatchQueue(function, max_batch_size=1000) as queue:
        y = queue.infer(x)
        y += 1
        assert (y == 2).all()
    np.testing.assert_array_equal(x, drawn(200, 128))
    np.testing.assert_array_equal(seen[0], x)


def test_threads_overwrite_their_inputs_at_once(double):
    wrong = []

    def work(number):
        x = np.empty((256, 256), np.float32)
        for round in range(100):
            x[...] = number * 1000 + round
            y = double.run(x)["y"]
            x[...] = np.nan
            if not (y == 2 * (number * 1000 + round)).all():
                wrong.append((number, round))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_goes_when_nobody_has_it(double):
    x = drawn(512, 512)

    def round_of(count):
        for _ in range(count):
            double.run(x)["y"][0] = 1
            with pytest.raises(sp.DeadlineExceeded):
                double.run(x, timeout=0)
        kept = [double.run(x)["y"] for _ in range(5)]
        del kept
        gc.collect()
        sp.synchronize("host")

    round_of(10)
    before = sys.getrefcount(x), sp.memory_stats("host")["allocated_bytes"]
    round_of(200)
    assert (sys.getrefcount(x), sp.memory_stats("host")["allocated_bytes"]) == before


def guarded(array, ends):
    """A copy of the array that begins or ends where memory that cannot be read does."""
    page = mmap.PAGESIZE
    room = -(-array.nbytes // page) * page
    memory = mmap.mmap(-1, room + 2 * page)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    library = ctypes.CDLL(None, use_errno=True)
    for guard in (first, first + page + room):
        assert library.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) == 0
    begin = page + (room - array.nbytes if ends else 0)
    made = np.frombuffer(memory, array.dtype, array.size, begin).reshape(array.shape)
    made[...] = array
    return made


OPERATORS = {
    "Conv 3": ("Conv", [2, 3, 67, 52], {"pads": [1] * 4}, [(8, 3, 3, 3)]),
    "Conv 1": ("Conv", [1, 24, 33, 28], {}, [(16, 24, 1, 1)]),
    "Conv 7": ("Conv", [1, 3, 100, 92], {"strides": [2, 2], "pads": [3] * 4}, [(16, 3, 7, 7)]),
    "Conv of each": ("Conv", [1, 16, 45, 36], {"group": 16, "pads": [1] * 4}, [(16, 1, 3, 3)]),
    "Conv, wide": ("Conv", [1, 16, 45, 36], {"dilations": [5, 5]}, [(7, 16, 3, 3)]),
    "ConvTranspose": ("ConvTranspose", [1, 12, 44, 40], {"strides": [2, 2]}, [(12, 5, 3, 3)]),
    "MatMul": ("MatMul", [131, 148], {}, [(148, 37)]),
    "MatMul, one row": ("MatMul", [1, 20_004], {}, [(20_004, 3)]),
    "MatMul, both": ("MatMul", [5, 61, 68], {}, None),
    "Gemm": ("Gemm", [148, 131], {"transA": 1}, [(148, 33)]),
    "Relu": ("Relu", [20_004], {}, []),
    "Tanh": ("Tanh", [20_004], {}, []),
    "Transpose": ("Transpose", [131, 148], {"perm": [1, 0]}, []),
    "Softmax": ("Softmax", [131, 148], {}, []),
    "LayerNormalization": ("LayerNormalization", [131, 148], {}, [(148,)]),
    "ReduceMean": ("ReduceMean", [131, 148], {"keepdims": 1}, []),
    "MaxPool": ("MaxPool", [1, 5, 67, 52], {"kernel_shape": [3, 3], "pads": [1] * 4}, []),
    "AveragePool": ("AveragePool", [1, 5, 67, 52], {"kernel_shape": [2, 2], "strides": [2, 2]}, []),
    "CumSum": ("CumSum", [131, 148], {}, [0]),
    "TopK": ("TopK", [131, 148], {}, [[5]]),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="says what may be read as Linux does")
@pytest.mark.parametrize("name", OPERATORS)
def test_no_operator_reads_beside_its_input(name):
    operator, shape, attributes, weights = OPERATORS[name]
    x = drawn(*shape)
    given = [("w", drawn(*one, seed=2) if isinstance(one, tuple) else np.array(one)) for one in weights or []]
    others = [name for name, _ in given]
    inputs = [("x", F32, None)]
    if weights is None:
        inputs.append(("w", F32, None))
        others = ["w"]
    outputs = ["y", "places"] if operator == "TopK" else ["y"]
    node = helper.make_node(operator, ["x", *others], outputs, **attributes)
    session = sp.Session(make([node], inputs, [("y", F32, None)], given), "host")
    w = np.ascontiguousarray(np.swapaxes(drawn(*shape, seed=4), -1, -2)) if weights is None else None

    def run(how):
        return session.run({"x": how(x)} | ({"w": how(w)} if w is not None else {}))["y"]

    expected = run(lambda array: at(array, 0))
    for ends in (False, True):
        np.testing.assert_allclose(run(lambda array, ends=ends: guarded(array, ends)), expected, rtol=1e-5, atol=1e-5)
