"""Products of a constant matrix, as linear layers have them, beside ONNX Runtime, in turn: milliseconds a run, and GFLOP/s.

    PYTHONPATH=crates/python/python python bench/models/products.py [ROWSxINNERxCOLUMNS[:Gelu] ...] [--rounds R] [--seconds S]

One caller, f32, with a bias. Of ONNX Runtime the better of one and two threads is taken. Each figure is the median of the
rounds. It takes the packages numpy, onnx and onnxruntime.
"""

import argparse
import statistics
import time

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import streampool as sp

SHAPES = [
    "16x768x3072",
    "64x384x384",
    "128x384x1536",
    "197x192x768",
    "197x768x2304",
    "256x256x128",
    "784x192x768:Gelu",
    "1024x1024x1024",
    "3136x96x384",
    "4096x256x128",
]


def model(rows, inner, columns, activation):
    """A linear layer."""
    drawn = np.random.default_rng(1)
    weight = drawn.standard_normal((inner, columns), np.float32) * np.float32(inner**-0.5)
    bias = drawn.standard_normal(columns, np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["s"])]
    nodes.append(helper.make_node(activation or "Identity", ["s"], ["y"]))
    told = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, inner])]
    result = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, columns])]
    weights = [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")]
    graph = helper.make_graph(nodes, "product", told, result, weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    made.ir_version = 9
    return made.SerializeToString(), {"x": drawn.standard_normal((rows, inner), np.float32)}


def milliseconds(run, seconds):
    """The median time of a run."""
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="*", default=SHAPES)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=0.15)
    asked = parser.parse_args()
    for shape in asked.shapes:
        sizes, _, activation = shape.partition(":")
        rows, inner, columns = map(int, sizes.split("x"))
        made, given = model(rows, inner, columns, activation)
        ours = sp.Session(made, device="host")
        runs = {"ours": lambda ours=ours, given=given: ours.run(given)}
        for threads in (1, 2):
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            theirs = onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"])
            runs[threads] = lambda theirs=theirs, given=given: theirs.run(None, given)
        own, other = runs["ours"]()["y"], runs[1]()[0]
        assert np.abs(own - other).max() <= 1e-4 * max(1, np.abs(other).max()), "the results differ"
        taken = {name: [] for name in runs}
        for _ in range(asked.rounds):
            for name, run in runs.items():
                taken[name].append(milliseconds(run, asked.seconds))
        own = statistics.median(taken["ours"])
        other = min(statistics.median(taken[threads]) for threads in (1, 2))
        rate = 2e-6 * rows * inner * columns / own
        theirs = f"ONNX Runtime {other:7.3f} ms, {other / own:.2f} of its rate"
        print(f"{shape:18} ours {own:7.3f} ms, {rate:5.0f} GFLOP/s, {theirs}", flush=True)


if __name__ == "__main__":
    main()
