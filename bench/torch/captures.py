#!/usr/bin/env python3
"""PyTorch captures CUDA graphs one after the other, in its default mode, which forbids other threads most calls meanwhile. Eight
threads of ours use the same GPU in the same process. Neither side may fail. Writes JSON.

    captures.py LIBRARY REPORT.json [--seconds N] [--waits]

LIBRARY is libbeside.so of bench/build-gpu.sh. By default a graph is captured as `torch.cuda.graph` does, but without its wait for
the whole device, in which driver 580 crashes while another thread makes graphs (see the README's limits); --waits has that, too.
"""

import argparse
import ctypes
import json
import sys
import threading
import time

import torch
from torch import nn

THREADS = 8


def captured(model, inputs, stream, pool, waits):
    """A graph of the model, and where it leaves its result."""
    graph = torch.cuda.CUDAGraph()
    if waits:
        with torch.cuda.graph(graph, pool=pool, stream=stream):
            return graph, model(inputs)
    with torch.cuda.stream(stream):
        graph.capture_begin(pool=pool)
        try:
            result = model(inputs)
        finally:
            graph.capture_end()
    return graph, result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("report")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--waits", action="store_true")
    options = parser.parse_args()
    library = ctypes.CDLL(options.library)
    library.beside_rounds.restype = ctypes.c_uint64

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 256)).cuda().eval()
    inputs = torch.randn(4, 512, device="cuda")
    stream = torch.cuda.Stream()
    # A pool for each graph would fill 80 GB in a minute.
    pool = torch.cuda.graph_pool_handle()
    with torch.no_grad(), torch.cuda.stream(stream):
        expected = model(inputs)
        stream.synchronize()

    failed = []
    ours = threading.Thread(target=lambda: failed.append(library.beside_run(THREADS, options.seconds)))
    # It gives Python's lock away for as long as it runs.
    ours.start()
    captures, errors, until = 0, [], time.monotonic() + options.seconds
    with torch.no_grad():
        while time.monotonic() < until and len(errors) < 10:
            try:
                graph, result = captured(model, inputs, stream, pool, options.waits)
                with torch.cuda.stream(stream):
                    graph.replay()
                stream.synchronize()
                if not torch.equal(result, expected):
                    torch.testing.assert_close(result, expected)
                captures += 1
            except (RuntimeError, AssertionError) as error:
                errors.append(str(error).splitlines()[0])
    ours.join()
    report = {
        "torch": torch.__version__,
        "seconds": options.seconds,
        "captures": captures,
        "capture_errors": errors,
        "our_rounds": library.beside_rounds(),
        "our_failed_threads": failed[0],
    }
    with open(options.report, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
    print(json.dumps(report, indent=1))
    # A side that did nothing has shown nothing.
    return int(bool(errors) or failed[0] > 0 or captures < 10 or report["our_rounds"] < 10)


if __name__ == "__main__":
    sys.exit(main())
