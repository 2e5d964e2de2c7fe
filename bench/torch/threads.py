#!/usr/bin/env python3
"""PyTorch from Python threads, a stream for each: forward passes per second with a synchronise after each, eager and
as CUDA graphs, and the rate of one large matrix product. Writes JSON.

    threads.py REPORT.json [--quick]
"""

import argparse
import json
import statistics
import threading
import time

import torch
from torch import nn

THREADS = (1, 2, 4, 8, 16)
ROUNDS = 3
WIDTH = 8192


def linear():
    return nn.Linear(256, 128), (4, 256)


def mlp():
    layers = nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 256)
    return nn.Sequential(*layers), (1, 512)


def eager(model, inputs, _stream):
    return lambda: model(inputs)


# Only one thread may capture at a time, and nobody may replay meanwhile.
CAPTURING = threading.Lock()


def graph(model, inputs, stream):
    with CAPTURING:
        for _ in range(3):
            model(inputs)
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured, stream=stream, capture_error_mode="thread_local"):
            model(inputs)
    return captured.replay


def rate_once(make, model, shape, threads, seconds):
    """How often `threads` threads together run the model in a second."""
    stop = threading.Event()
    made = threading.Barrier(threads)
    ready = threading.Barrier(threads + 1)
    counts = [0] * threads
    # Made before anybody captures: random numbers drawn meanwhile are an error to PyTorch.
    inputs = [torch.randn(shape, device="cuda") for _ in range(threads)]
    torch.cuda.synchronize()

    def work(number):
        stream = torch.cuda.Stream()
        with torch.no_grad(), torch.cuda.stream(stream):
            try:
                run = make(model, inputs[number], stream)
                made.wait()
                run()
                stream.synchronize()
            except Exception:
                made.abort()
                ready.abort()
                raise
            ready.wait()
            count = 0
            while not stop.is_set():
                run()
                stream.synchronize()
                count += 1
            counts[number] = count

    running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    try:
        ready.wait()
        begun = time.perf_counter()
        time.sleep(seconds)
    finally:
        stop.set()
        for thread in running:
            thread.join()
    return sum(counts) / (time.perf_counter() - begun)


def rate(make, model, shape, threads, seconds):
    return statistics.median(rate_once(make, model, shape, threads, seconds) for _ in range(ROUNDS))


def matmul_teraflops(seconds):
    """The rate of a large bf16 product, by the device's own clock: on such values and for as long as ours, since both
    decide how much power it draws."""
    a, b = ((torch.randint(-128, 128, (WIDTH, WIDTH), device="cuda") / 128).bfloat16() for _ in range(2))
    repeats = max(1, int(seconds * 7e14 / (2 * WIDTH**3)))
    rates = []
    for _ in range(ROUNDS + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(repeats):
            torch.matmul(a, b)
        end.record()
        end.synchronize()
        rates.append(2 * WIDTH**3 * repeats / (begin.elapsed_time(end) * 1e-3) / 1e12)
    # The first round warms up.
    return statistics.median(rates[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    seconds = 0.15 if options.quick else 0.4

    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = False
    figures = []
    failed = False

    def figure(name, side, threads, measure):
        nonlocal failed
        try:
            value = measure()
        except Exception as error:  # One figure that is not to be had leaves the others.
            failed = True
            print(f"{name}, {side}, {threads} threads: failed: {error}", flush=True)
            return
        figures.append({"name": name, "side": side, "threads": threads, "value": value})
        print(f"{name}, {side}, {threads} threads: {value:.0f}", flush=True)

    figure("matmul", "python", 1, lambda: matmul_teraflops(seconds))
    for name, make_model in (("linear", linear), ("mlp", mlp)):
        model, shape = make_model()
        model = model.to("cuda").eval()
        for side, make in (("python", eager), ("graph", graph)):
            for threads in THREADS:
                figure(name, side, threads, lambda: rate(make, model, shape, threads, seconds))

    with open(options.report, "w", encoding="utf-8") as out:
        json.dump({"torch": torch.__version__, "cuda": torch.version.cuda, "figures": figures}, out, indent=1)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
