#!/usr/bin/env python3
"""Runs models whose inputs and outputs are large arrays of NumPy: ours beside ONNX Runtime, in turn, in one process.

    arrays.py [ROWSxINNERxCOLUMNS[:Gelu] ...] [--rounds R] [--seconds S] [--device NAME] [--json]

With sizes, linear layers of these sizes take the place of the usual cases. One caller. Of ONNX Runtime the better of one thread a run and all processors is taken. Each figure is the median of the rounds, in
milliseconds a run. Needs Python's packages streampool, numpy, onnx and onnxruntime.
"""

import argparse
import json
import os
import statistics
import time

import numpy as np
import onnxruntime
from gil import model as linear
from onnx import TensorProto, helper, numpy_helper

import streampool as sp

F32, I64 = TensorProto.FLOAT, TensorProto.INT64


def made(nodes, inputs, output, weights=(), opset=18):
    told = [helper.make_tensor_value_info(*each) for each in inputs]
    result = [helper.make_tensor_value_info(*output)]
    initial = [numpy_helper.from_array(array, name) for name, array in weights]
    graph = helper.make_graph(nodes, "one", told, result, initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 9
    return model


def cases():
    """Names, models and inputs."""
    drawn = np.random.default_rng(1)
    yield "linear layer, 4 x 256", linear(), {"x": drawn.standard_normal((4, 256), np.float32)}
    for rows in (256, 4096):
        yield f"linear layer, {rows:,} x 256", linear(), {"x": drawn.standard_normal((rows, 256), np.float32)}
    picture = [1, 3, 640, 640]
    x = drawn.standard_normal(picture, np.float32)
    yield "Relu of 1 x 3 x 640 x 640", made([helper.make_node("Relu", ["x"], ["y"])], [("x", F32, picture)], ("y", F32, picture)), {"x": x}
    weight = drawn.standard_normal((8, 3, 3, 3), np.float32)
    conv = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)
    yield "Conv 3 x 3 of it, 8 channels", made([conv], [("x", F32, picture)], ("y", F32, [1, 8, 640, 640]), [("w", weight)]), {"x": x}
    for rows in (20_000, 100_000):
        scatter = helper.make_node("ScatterND", ["x", "i", "u"], ["y"])
        inputs = [("x", F32, [rows, 64]), ("i", I64, [20_000, 1]), ("u", F32, [20_000, 64])]
        given = {
            "x": drawn.standard_normal((rows, 64), np.float32),
            "i": drawn.permutation(rows)[:20_000].reshape(-1, 1),
            "u": drawn.standard_normal((20_000, 64), np.float32),
        }
        yield f"ScatterND, 20,000 x 64 into {rows:,}", made([scatter], inputs, ("y", F32, [rows, 64])), given


def layers(sizes):
    """The same for linear layers with a bias."""
    drawn = np.random.default_rng(1)
    for one in sizes:
        numbers, _, activation = one.partition(":")
        rows, inner, columns = map(int, numbers.split("x"))
        weight = drawn.standard_normal((inner, columns), np.float32) * np.float32(inner**-0.5)
        weights = [("w", weight), ("b", drawn.standard_normal(columns, np.float32))]
        nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["s"])]
        nodes.append(helper.make_node(activation or "Identity", ["s"], ["y"]))
        model = made(nodes, [("x", F32, [rows, inner])], ("y", F32, [rows, columns]), weights, opset=20)
        yield one, model, {"x": drawn.standard_normal((rows, inner), np.float32)}


def milliseconds(run, seconds):
    """The median time of a run."""
    run()
    times, until = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < until:
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", nargs="*", metavar="ROWSxINNERxCOLUMNS[:Gelu]")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--device", default="host")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    report = {}
    for name, model, given in layers(arguments.layers) if arguments.layers else cases():
        ours = sp.Session(model, arguments.device)
        theirs = []
        for threads in sorted({1, os.cpu_count()}):
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            theirs.append(onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]))
        expected, got = theirs[0].run(None, given)[0], ours.run(given)["y"]
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)
        figures = {"ours": [], "onnxruntime": []}
        for _ in range(arguments.rounds):
            figures["ours"].append(milliseconds(lambda ours=ours: ours.run(given), arguments.seconds))
            figures["onnxruntime"].append(
                min(milliseconds(lambda one=one: one.run(None, given), arguments.seconds) for one in theirs)
            )
        middle = {side: statistics.median(times) for side, times in figures.items()}
        report[name] = middle
        if not arguments.json:
            ratio = middle["ours"] / middle["onnxruntime"]
            print(f"{name:36} ours {middle['ours']:7.3f} ms, ONNX Runtime {middle['onnxruntime']:7.3f} ms, {ratio:.2f} of it", flush=True)
    if arguments.json:
        print(json.dumps(report))


if __name__ == "__main__":
    main()
