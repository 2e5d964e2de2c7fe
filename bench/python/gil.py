#!/usr/bin/env python3
"""Measures how long calls hold the interpreter's lock (GIL).

    gil.py [--calls N] [--device NAME] [--goal MICROSECONDS]

The lock is given back by PyEval_SaveThread and taken by PyEval_RestoreThread. A small library, which `cc` makes, is loaded before
Python's own and sums the time from the one to the other, on one thread, of a model of one small layer; the bytecode of the loop is
part of it. Of twenty rounds the least is taken. Needs Linux, `cc`, a Python with a shared libpython, and the packages streampool, numpy and onnx.
"""

import argparse
import ctypes
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

COUNTER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <time.h>

static __thread uint64_t since, held, times;

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void *PyEval_SaveThread(void) {
    static void *(*real)(void);
    if (!real) real = (void *(*)(void))dlsym(RTLD_NEXT, "PyEval_SaveThread");
    if (since) { held += now() - since; times++; }
    since = 0;
    return real();
}

void PyEval_RestoreThread(void *state) {
    static void (*real)(void *);
    if (!real) real = (void (*)(void *))dlsym(RTLD_NEXT, "PyEval_RestoreThread");
    real(state);
    since = now();
}

void gil_reset(void) { held = times = 0; }
uint64_t gil_held(void) { return held; }
uint64_t gil_times(void) { return times; }
"""


def counting():
    """The library in this process; starts the process again with it if it is not there."""
    made = os.environ.get("GIL_COUNTER")
    if made is None:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gil"))
        (folder / "counter.c").write_text(COUNTER)
        made = str(folder / "counter.so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", made, folder / "counter.c", "-ldl"], check=True)
        environment = dict(os.environ, LD_PRELOAD=made, GIL_COUNTER=made)
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)
    counter = ctypes.PyDLL(made)
    counter.gil_held.restype = counter.gil_times.restype = ctypes.c_uint64
    return counter


def model():
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    weight = np.random.default_rng(1).standard_normal((256, 128), dtype=np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", size]) for n, size in (("x", 256), ("y", 128))]
    graph = helper.make_graph([node], "linear", info[:1], info[1:], [numpy_helper.from_array(weight, "w")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    made.ir_version = 9
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--device", default="host")
    parser.add_argument("--goal", type=float, help="fail if session.run holds it longer, in microseconds")
    arguments = parser.parse_args()
    counter = counting()
    import numpy as np

    import streampool as sp

    session = sp.Session(model(), arguments.device)
    queue = sp.BatchQueue(session, max_batch_size=8)
    x = np.ones((4, 256), np.float32)
    given = {"x": x}
    ways = {
        "session.run({'x': x})": lambda: session.run(given),
        "session(x)": lambda: session(x),
        "queue.infer(x)": lambda: queue.infer(x),
        "session.submit(x)": lambda: session.submit(given).result(),
    }
    held = {}

    def measure(name, call):
        for _ in range(1000):
            call()
        parts, begun = [], time.perf_counter()
        for _ in range(20):
            counter.gil_reset()
            for _ in range(arguments.calls // 20):
                call()
            # The last part, since the lock was taken, is not in it yet.
            parts.append(counter.gil_held() / max(1, arguments.calls // 20) / 1e3)
        each = (time.perf_counter() - begun) / arguments.calls * 1e6
        # Other processes only add to it.
        held[name] = min(parts)
        middle = statistics.median(parts)
        print(f"{name:24} holds the lock for {held[name]:6.2f} us (median {middle:6.2f}) of {each:7.2f} us a call", flush=True)

    for name, call in ways.items():
        # A thread, since waits of the main thread also look for signals.
        thread = threading.Thread(target=measure, args=(name, call))
        thread.start()
        thread.join()
    queue.close()
    if arguments.goal is not None and held["session.run({'x': x})"] > arguments.goal:
        sys.exit(f"session.run holds it for more than {arguments.goal} us")


if __name__ == "__main__":
    main()
