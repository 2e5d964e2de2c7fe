#!/usr/bin/env python3
"""Runs a model in ONNX Runtime from several threads, as `streampool run --repeat` does, and writes one JSON object.

    peer.py MODEL [--shape NAME=SIZES]... [--threads N] [--intra N] [--seconds S] [--seed N]

Needs the packages onnxruntime and numpy. Inputs are made up by the same rules: floats are normal, whole numbers count
from 1, masks are ones; what the model leaves open of their shapes is given by --shape.
"""

import argparse
import json
import resource
import sys
import threading
import time

import numpy
import onnxruntime

WARM = 2


def made(port, shapes, random):
    """Values for an input."""
    name, low = port.name, port.name.lower()
    dtype = {"float": "float32", "double": "float64"}.get(port.type[7:-1], port.type[7:-1])
    shape = shapes.get(name)
    if shape is None:
        shape = [1 if isinstance(size, str) and "batch" in size.lower() else size for size in port.shape]
    if not all(isinstance(size, int) for size in shape):
        sys.exit(f"the input {name} is {port.shape}: give its sizes by --shape {name}=1,16")
    if dtype.startswith("float") and "mask" not in low and "attention" not in low:
        return random.standard_normal(shape).astype(dtype)
    if "mask" in low or "attention" in low or dtype == "bool":
        return numpy.ones(shape, dtype)
    if "token_type" in low or "segment" in low:
        return numpy.zeros(shape, dtype)
    if low == "sr":
        return numpy.full(shape, 16000, dtype)
    return random.integers(1, 250, shape).astype(dtype)


def shape(text):
    name, sizes = text.rsplit("=", 1)
    return name, [int(size) for size in sizes.split(",") if size]


def measured(session, options):
    """Runs per second of all threads together."""
    gate, counts, stop = threading.Barrier(options.threads + 1), [0] * options.threads, threading.Event()

    def work(number):
        random = numpy.random.default_rng(options.seed + number)
        inputs = {port.name: made(port, dict(options.shape), random) for port in session.get_inputs()}
        for _ in range(WARM):
            session.run(None, inputs)
        gate.wait()
        while not stop.is_set():
            session.run(None, inputs)
            counts[number] += 1

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(options.threads)]
    for thread in threads:
        thread.start()
    gate.wait()
    begin = time.perf_counter()
    time.sleep(options.seconds)
    stop.set()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--shape", action="append", default=[], type=shape)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--intra", type=int, default=1, help="threads of ONNX Runtime's own for each run")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    setup = onnxruntime.SessionOptions()
    setup.intra_op_num_threads, setup.inter_op_num_threads = options.intra, 1
    begin = time.perf_counter()
    session = onnxruntime.InferenceSession(options.model, setup, providers=["CPUExecutionProvider"])
    load = time.perf_counter() - begin
    rate = measured(session, options)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(json.dumps({"version": onnxruntime.__version__, "runs_per_second": rate, "load_seconds": load,
                      "peak_rss_bytes": peak, "threads": options.threads, "intra": options.intra}))


if __name__ == "__main__":
    main()
