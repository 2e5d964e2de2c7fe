import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import streampool as sp


def make(nodes, inputs, outputs, weights=()):
    """A model of ONNX; inputs and outputs are (name, type, shape)."""
    info = [helper.make_tensor_value_info(*each) for each in inputs]
    told = [helper.make_tensor_value_info(*each) for each in outputs]
    initial = [numpy_helper.from_array(array, name) for name, array in weights]
    graph = helper.make_graph(nodes, "test", info, told, initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    if all(shape is not None for _, _, shape in (*inputs, *outputs)):
        onnx.checker.check_model(model)
    return model


def outside(model):
    """The model without the values of its weights, and these by name."""
    made, weights = onnx.ModelProto(), {}
    made.CopyFrom(model)
    for tensor in made.graph.initializer:
        weights[tensor.name] = numpy_helper.to_array(tensor).copy()
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="none")
    return made, weights


@pytest.fixture(scope="session")
def weight():
    return np.random.default_rng(1).standard_normal((16, 4), dtype=np.float32)


@pytest.fixture(scope="session")
def linear(weight):
    """y = x @ w, any number of rows."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    f32 = TensorProto.FLOAT
    return make([node], [("x", f32, ["rows", 16])], [("y", f32, ["rows", 4])], [("w", weight)])


@pytest.fixture(scope="session")
def session(linear):
    return sp.Session(linear, device="host")


@pytest.fixture(scope="session")
def identity():
    """A session for each type: y is x."""
    made = {}

    def of(dtype):
        code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        if code not in made:
            node = helper.make_node("Identity", ["x"], ["y"])
            made[code] = sp.Session(make([node], [("x", code, None)], [("y", code, None)]), device="host")
        return made[code]

    return of


@pytest.fixture(scope="session")
def gather():
    """Rows of a table, chosen by indices: an index out of range is a request's own fault."""
    node = helper.make_node("Gather", ["table", "i"], ["y"])
    table = np.arange(12, dtype=np.float32).reshape(6, 2)
    return sp.Session(
        make([node], [("i", TensorProto.INT64, ["n"])], [("y", TensorProto.FLOAT, ["n", 2])], [("table", table)]),
        device="host",
    )


def counter(words):
    """A decoder with a cache that grows: the next word is that behind the last one, and the first when there were three."""
    f32, i64 = TensorProto.FLOAT, TensorProto.INT64
    nodes = [
        helper.make_node("Gather", ["next", "input_ids"], ["after"]),
        helper.make_node("Gather", ["after", "end"], ["last"], axis=1),
        helper.make_node("Cast", ["input_ids"], ["new"], to=f32),
        helper.make_node("Concat", ["past.0", "new"], ["present.0"], axis=1),
        helper.make_node("Mul", ["present.0", "zero"], ["nothing"]),
        helper.make_node("Add", ["nothing", "one"], ["ones"]),
        helper.make_node("ReduceSum", ["ones", "along"], ["count"], keepdims=1),
        helper.make_node("Equal", ["count", "three"], ["is_third"]),
        helper.make_node("Unsqueeze", ["is_third", "end1"], ["which"]),
        helper.make_node("Where", ["which", "first", "last"], ["logits"]),
    ]
    following = np.eye(words, dtype=np.float32)[[*range(1, words), 0]]
    weights = [
        ("next", following),
        ("end", np.array([-1])),
        ("end1", np.array([2])),
        ("along", np.array([1])),
        ("zero", np.zeros(1, np.float32)),
        ("one", np.ones(1, np.float32)),
        ("three", np.full((1, 1), 3, np.float32)),
        ("first", np.eye(words, dtype=np.float32)[0]),
    ]
    inputs = [("input_ids", i64, ["batch", "length"]), ("past.0", f32, ["batch", "past"])]
    outputs = [("logits", f32, ["batch", "one", words]), ("present.0", f32, ["batch", "total"])]
    return make(nodes, inputs, outputs, weights)
