#!/usr/bin/env python3
"""Writes a small network as ONNX: 512 - 1024 - 1024 - 256, with ReLU between, x of f32 [batch, 512] to y.

    make_mlp.py FOLDER

FOLDER gets mlp.onnx, with made-up weights from a fixed seed. Needs the packages onnx and numpy.
"""

import math
import os
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTHS = [512, 1024, 1024, 256]
OPSET = 17


def model():
    random = numpy.random.default_rng(0)
    nodes, weights, value = [], [], "x"
    for layer, (inputs, outputs) in enumerate(zip(WIDTHS, WIDTHS[1:])):
        bound = 1 / math.sqrt(inputs)
        names = [f"weight{layer}", f"bias{layer}"]
        for name, shape in zip(names, [(inputs, outputs), (outputs,)]):
            weights.append(numpy_helper.from_array(random.uniform(-bound, bound, shape).astype("f4"), name))
        last = layer == len(WIDTHS) - 2
        result = "y" if last else f"sums{layer}"
        nodes.append(helper.make_node("Gemm", [value, *names], [result]))
        if not last:
            value = f"hidden{layer}"
            nodes.append(helper.make_node("Relu", [result], [value]))
    typed = lambda name, width: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width])
    graph = helper.make_graph(nodes, "mlp", [typed("x", WIDTHS[0])], [typed("y", WIDTHS[-1])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    onnx.save(model(), os.path.join(sys.argv[1], "mlp.onnx"))


if __name__ == "__main__":
    main()
