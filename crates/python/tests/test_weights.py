"""Weights that are given to a session, and stay where they are."""

import gc
import sys

import numpy as np
import pytest
from conftest import make, outside
from onnx import TensorProto, helper

import streampool as sp

SIZE = 128


def aligned(array, to=64):
    """A copy of the array that begins at a multiple of so many bytes, and of no more."""
    room = np.empty(array.nbytes + 4 * to, np.uint8)
    begin = -room.ctypes.data % (2 * to) + to
    made = room[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def holders(array):
    return sys.getrefcount(array.base)


@pytest.fixture(scope="module")
def square():
    """y = x @ w + b, without w and b."""
    f32 = TensorProto.FLOAT
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "b"], ["y"])]
    drawn = np.random.default_rng(2)
    weights = [("w", drawn.standard_normal((SIZE, SIZE), np.float32)), ("b", drawn.standard_normal(SIZE, np.float32))]
    return outside(make(nodes, [("x", f32, ["n", SIZE])], [("y", f32, ["n", SIZE])], weights))


def check(session, w, b):
    x = np.random.default_rng(5).standard_normal((3, SIZE), np.float32)
    np.testing.assert_allclose(session.run(x)["y"], x @ np.asarray(w) + b, rtol=1e-4, atol=1e-4)


def test_an_array_is_shared_and_let_go_of(square):
    model, weights = square
    w, b = aligned(weights["w"]), weights["b"]
    assert w.ctypes.data % 128 == 64
    w.setflags(write=False)
    before = holders(w)
    session = sp.Session(model, "host", weights={"w": w, "b": b})
    assert holders(w) > before
    check(session, w, b)
    del session
    gc.collect()
    assert holders(w) == before


@pytest.mark.parametrize("how", ["turned", "shifted", "swapped", "listed"])
def test_what_cannot_be_shared_is_copied(square, how):
    model, weights = square
    w, b = weights["w"], weights["b"]
    made = {
        "turned": lambda: np.asfortranarray(w),
        "shifted": lambda: aligned(w, 4),
        "swapped": lambda: w.astype(">f4"),
        "listed": lambda: [[np.float32(value) for value in row] for row in w],
    }[how]()
    check(sp.Session(model, "host", weights={"w": made, "b": b}), w, b)


def test_a_shared_weight_may_be_an_output_and_an_input():
    nodes = [helper.make_node("Identity", ["w"], ["next"]), helper.make_node("Add", ["x", "x"], ["y"])]
    f32 = TensorProto.FLOAT
    w = aligned(np.random.default_rng(3).standard_normal((SIZE, SIZE), np.float32))
    ends = [("next", f32, [SIZE, SIZE]), ("y", f32, [SIZE, SIZE])]
    model, _ = outside(make(nodes, [("x", f32, [SIZE, SIZE])], ends, [("w", w)]))
    binding = sp.Session(model, "host", weights={"w": w}).bind()
    binding.carry("next", "x")
    binding.set("x", np.zeros((SIZE, SIZE), np.float32))
    for expected in (0 * w, 2 * w, 2 * w):
        np.testing.assert_array_equal(binding.run({})["y"], expected)


def test_weights_that_do_not_fit_are_told(square):
    model, weights = square
    wrong = {
        "as the model declares it": weights | {"w": weights["w"].astype(np.float64)},
        "f32 .128, 64.": weights | {"w": weights["w"][:, :64]},
        "'v'|\"v\"": weights | {"v": weights["w"]},
        "among the weights": {"w": weights["w"]},
        'weight "b"': weights | {"b": np.array(["a"])},
    }
    for text, given in wrong.items():
        with pytest.raises(sp.Error, match=text):
            sp.Session(model, "host", weights=given)
    with pytest.raises(TypeError):
        sp.Session(model, "host", weights=[weights["w"]])


def test_whole_numbers_are_copied():
    node = helper.make_node("Gather", ["table", "places"], ["y"])
    places = aligned(np.arange(4096) % 6)
    table = np.arange(12, dtype=np.float32).reshape(6, 2)
    f32 = TensorProto.FLOAT
    model = make([node], [("table", f32, [6, 2])], [("y", f32, [4096, 2])], [("places", places)])
    session = sp.Session(outside(model)[0], "host", weights={"places": places})
    expected = table[places]
    places[:] = 1 << 40
    np.testing.assert_array_equal(session.run(table)["y"], expected)


def test_nothing_is_left_of_many_sessions(square):
    model, weights = square
    model = model.SerializeToString()
    w = aligned(weights["w"])

    def round_of(count):
        for _ in range(count):
            check(sp.Session(model, "host", weights=weights | {"w": w}), w, weights["b"])
        gc.collect()

    round_of(20)
    before = holders(w), sp.memory_stats("host")["allocated_bytes"]
    round_of(200)
    assert (holders(w), sp.memory_stats("host")["allocated_bytes"]) == before
