#!/usr/bin/env python3
"""Runs a model from several Python threads: ours beside ONNX Runtime, in turn, in one process.

    compare.py MODEL [--threads N] [--seconds S] [--rounds R] [--device NAME] [--json]

Inputs are random, of the declared sizes; what is not declared is 1. Of ONNX Runtime the better of one thread a run and all
processors is taken. Needs Python's packages streampool, numpy and onnxruntime.
"""

import argparse
import json
import os
import statistics
import threading
import time

import numpy as np

import streampool as sp


def drawn(info, generator):
    """A random input; indices are small."""
    shape = [size if isinstance(size, int) else 1 for size in info.shape or ()]
    if info.dtype in ("int64", "int32"):
        return generator.integers(0, 2, shape).astype(info.dtype)
    return generator.standard_normal(shape).astype(info.dtype or "float32")


def rate(run, threads, seconds):
    """Runs per second of so many threads."""
    counts, barrier = [0] * threads, threading.Barrier(threads + 1)

    def work(place):
        run()
        barrier.wait()
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            run()
            counts[place] += 1

    workers = [threading.Thread(target=work, args=(place,)) for place in range(threads)]
    for worker in workers:
        worker.start()
    barrier.wait()
    begun = time.perf_counter()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - begun)


def onnxruntime_runs(path, given):
    """A function for each way of ONNX Runtime."""
    import onnxruntime

    for threads in sorted({1, os.cpu_count()}):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        yield lambda session=session: session.run(None, given)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="host")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    session = sp.Session(arguments.model, arguments.device)
    generator = np.random.default_rng(1)
    given = {info.name: drawn(info, generator) for info in session.inputs}
    ours, theirs = lambda: session.run(given), list(onnxruntime_runs(arguments.model, given))
    figures = {"ours": [], "onnxruntime": []}
    for _ in range(arguments.rounds):
        figures["ours"].append(rate(ours, arguments.threads, arguments.seconds))
        figures["onnxruntime"].append(max(rate(run, arguments.threads, arguments.seconds) for run in theirs))
    middle = {name: statistics.median(rates) for name, rates in figures.items()}
    told = {"threads": arguments.threads, **middle, "ratio": middle["ours"] / middle["onnxruntime"]}
    if arguments.json:
        print(json.dumps(told))
    else:
        print(f"{arguments.threads} threads: ours {middle['ours']:.0f}/s, ONNX Runtime {middle['onnxruntime']:.0f}/s,"
              f" {told['ratio']:.2f} of it")


if __name__ == "__main__":
    main()
