#!/usr/bin/env python3
"""Writes the encoder of torch.nn.TransformerEncoder (norm_first=False, activation="gelu") with made-up weights as ONNX.

    make_encoder.py FOLDER [--layers 6] [--width 384] [--heads 12] [--inner 1536] [--half] [--external]

Needs the package onnx. FOLDER/encoder.onnx takes x of [batch, sequence, width] and gives y of the same shape, in nodes as
exporters write them.
"""

import argparse
import math
import os

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Builder:
    """Nodes and weights so far."""

    def __init__(self, dtype, seed):
        self.dtype, self.random = dtype, numpy.random.default_rng(seed)
        self.nodes, self.weights = [], []

    def node(self, op, *inputs, count=1, **attributes):
        outputs = [f"{op.lower()}_{len(self.nodes)}_{number}" for number in range(count)]
        self.nodes.append(helper.make_node(op, inputs, outputs, name=f"{op}_{len(self.nodes)}", **attributes))
        return outputs[0] if count == 1 else outputs

    def constant(self, name, values):
        self.weights.append(numpy_helper.from_array(numpy.asarray(values), name))
        return name

    def floats(self, name, values):
        return self.constant(name, numpy.asarray(values, self.dtype))

    def weight(self, name, *shape):
        bound = 1 / math.sqrt(shape[0])
        return self.floats(name, self.random.uniform(-bound, bound, shape))

    def linear(self, x, name, inputs, outputs):
        product = self.node("MatMul", x, self.weight(f"{name}.weight", inputs, outputs))
        return self.node("Add", product, self.floats(f"{name}.bias", self.random.uniform(-0.1, 0.1, outputs)))

    def norm(self, x, name, width):
        scale = self.floats(f"{name}.weight", self.random.uniform(0.9, 1.1, width))
        bias = self.floats(f"{name}.bias", self.random.uniform(-0.1, 0.1, width))
        return self.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)

    def gelu(self, x):
        erf = self.node("Erf", self.node("Div", x, "root_of_2"))
        return self.node("Mul", self.node("Mul", x, self.node("Add", erf, "one")), "half")

    def attention(self, x, name, width, heads):
        def split(part, order):
            projected = self.linear(x, f"{name}.{part}", width, width)
            return self.node("Transpose", self.node("Reshape", projected, "to_heads"), perm=order)

        q, k, v = split("q", [0, 2, 1, 3]), split("k", [0, 2, 3, 1]), split("v", [0, 2, 1, 3])
        scores = self.node("Mul", self.node("MatMul", q, k), "scale")
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1), v)
        joined = self.node("Reshape", self.node("Transpose", mixed, perm=[0, 2, 1, 3]), "to_width")
        return self.linear(joined, f"{name}.out", width, width)

    def layer(self, x, name, options):
        width = options.width
        attended = self.attention(x, f"{name}.attention", width, options.heads)
        x = self.norm(self.node("Add", x, attended), f"{name}.norm1", width)
        inner = self.gelu(self.linear(x, f"{name}.linear1", width, options.inner))
        outer = self.linear(inner, f"{name}.linear2", options.inner, width)
        return self.norm(self.node("Add", x, outer), f"{name}.norm2", width)


def encoder(options):
    build = Builder(numpy.float16 if options.half else numpy.float32, options.seed)
    head = options.width // options.heads
    build.floats("root_of_2", math.sqrt(2))
    build.floats("one", 1)
    build.floats("half", 0.5)
    build.floats("scale", 1 / math.sqrt(head))
    build.constant("to_heads", numpy.array([0, 0, options.heads, head], numpy.int64))
    build.constant("to_width", numpy.array([0, 0, options.width], numpy.int64))
    x = "x"
    for number in range(options.layers):
        x = build.layer(x, f"layers.{number}", options)
    build.nodes[-1].output[0] = "y"
    element = TensorProto.FLOAT16 if options.half else TensorProto.FLOAT
    ends = [helper.make_tensor_value_info(name, element, ["batch", "sequence", options.width]) for name in "xy"]
    graph = helper.make_graph(build.nodes, "encoder", ends[:1], ends[1:], build.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="make_encoder.py")
    model.ir_version = 8
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--inner", type=int, default=1536)
    parser.add_argument("--half", action="store_true", help="weights, inputs and outputs of f16")
    parser.add_argument("--external", action="store_true", help="weights in a file of their own")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    model = encoder(options)
    onnx.checker.check_model(model)
    os.makedirs(options.folder, exist_ok=True)
    path = os.path.join(options.folder, "encoder.onnx")
    if options.external:
        # It is appended to.
        data = os.path.join(options.folder, "encoder.data")
        if os.path.exists(data):
            os.remove(data)
        onnx.save(model, path, save_as_external_data=True, location="encoder.data", size_threshold=1024)
    else:
        onnx.save(model, path)
    print(path)


if __name__ == "__main__":
    main()
