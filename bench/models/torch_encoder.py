#!/usr/bin/env python3
"""Measures PyTorch's encoder of six layers (width 384, 12 heads, inner width 1536, sequence 128) on a GPU, and writes one
JSON object: batch 1 in f32 from several threads, each with a CUDA graph of its own and the same weights, and batch 256 in
f16 from one thread.

    torch_encoder.py [--threads 8] [--seconds S] [--batch 256]

Needs the package torch. TF32 is off.
"""

import argparse
import json
import threading
import time

import torch

LAYERS, WIDTH, HEADS, INNER, SEQUENCE = 6, 384, 12, 1536, 128
# Runs between two waits where nobody waits for each.
PIPELINE = 32


def encoder(dtype):
    layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, dropout=0.0, activation="gelu", batch_first=True)
    return torch.nn.TransformerEncoder(layer, LAYERS).to("cuda", dtype).eval()


def graph(model, x, stream):
    """A call that replays the model on x, and so gives each run's output in the same memory."""
    for _ in range(3):
        model(x)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured, stream=stream, capture_error_mode="thread_local"):
        y = model(x)
    # What it reads and writes has to stay.
    return lambda: captured.replay() or (x, y)


def rate(make, threads, seconds, between_waits):
    """Runs per second of all threads; `make` gives each thread its call."""
    gate, stop, counts, lock = threading.Barrier(threads + 1), threading.Event(), [0] * threads, threading.Lock()

    def work(number):
        stream = torch.cuda.Stream()
        with torch.inference_mode(), torch.cuda.stream(stream):
            with lock:
                call = make(stream)
            call()
            stream.synchronize()
            gate.wait()
            while not stop.is_set():
                for _ in range(between_waits):
                    call()
                stream.synchronize()
                counts[number] += between_waits

    workers = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(threads)]
    for worker in workers:
        worker.start()
    gate.wait()
    begin = time.perf_counter()
    time.sleep(seconds)
    stop.set()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    found = {"torch": torch.__version__, "device": torch.cuda.get_device_name(), "threads": options.threads,
             "batch": options.batch}

    def input_of(batch, dtype):
        return torch.randn(batch, SEQUENCE, WIDTH, device="cuda", dtype=dtype)

    model = encoder(torch.float32)

    def replay(stream):
        return graph(model, input_of(1, torch.float32), stream)

    def eager(_stream):
        x = input_of(1, torch.float32)
        return lambda: model(x)

    for name, make in (("graph", replay), ("eager", eager)):
        for kind, between in (("waited", 1), ("pipelined", PIPELINE)):
            found[f"batch_1_f32_{name}_{kind}_runs_per_s"] = rate(make, options.threads, options.seconds, between)
    half = encoder(torch.float16)
    large = input_of(options.batch, torch.float16)
    for name, make in (("graph", lambda stream: graph(half, large, stream)), ("eager", lambda _: lambda: half(large))):
        found[f"large_f16_{name}_items_per_s"] = options.batch * rate(make, 1, options.seconds, 4)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
