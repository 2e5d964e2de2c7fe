#!/usr/bin/env python3
"""Tensors of PyTorch on a GPU through Streampool, beside PyTorch: ours and theirs in turn, in one process.

    gpu.py [--json REPORT.json] [--seconds 0.4] [--rounds 3] [--only linear,mlp,encoder,compile,asyncio]

Each thread has a stream of PyTorch's, and synchronises it after each run. "graph" is a CUDA graph of PyTorch's for each thread,
replayed; "bound" is a session bound to tensors, "run" is `session.run` with new outputs each time. Needs the packages streampool,
torch (2.10 or later), onnx, onnxscript and numpy.
"""

import argparse
import asyncio
import json
import statistics
import threading
import time
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import streampool as sp

CAPTURING = threading.Lock()


def rate_once(prepare, threads, seconds, flow=False):
    """Runs per second of all threads together. `prepare` makes what a thread calls, on its stream."""
    stop, made = threading.Event(), threading.Barrier(threads, timeout=300)
    ready, counts, failed = threading.Barrier(threads + 1, timeout=300), [0] * threads, []

    def work(place):
        stream = torch.cuda.Stream()
        try:
            with torch.inference_mode(), torch.cuda.stream(stream):
                run = prepare(stream)
                run()
                stream.synchronize()
                made.wait()
                run()
                stream.synchronize()
                ready.wait()
                count = 0
                while not stop.is_set():
                    run()
                    if not flow or count % 64 == 63:
                        stream.synchronize()
                    count += 1
                stream.synchronize()
                counts[place] = count
        except Exception as why:
            failed.append(why)
            made.abort()
            ready.abort()

    workers = [threading.Thread(target=work, args=(place,)) for place in range(threads)]
    for worker in workers:
        worker.start()
    begun = time.perf_counter()
    try:
        ready.wait()
        begun = time.perf_counter()
        time.sleep(seconds)
    except threading.BrokenBarrierError:
        pass
    stop.set()
    for worker in workers:
        worker.join()
    if failed:
        raise failed[0]
    return sum(counts) / (time.perf_counter() - begun)


def graph(module, shape):
    def prepare(stream):
        with CAPTURING:
            x = torch.randn(shape, device="cuda")
            for _ in range(3):
                module(x)
            torch.cuda.synchronize()
            captured = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured, stream=stream, capture_error_mode="thread_local"):
                module(x)
        return captured.replay

    return prepare


def eager(module, shape):
    def prepare(_):
        x = torch.randn(shape, device="cuda")
        return lambda: module(x)

    return prepare


def ours(module, shape, bound=False):
    session = sp.from_torch(module, (torch.randn(shape, device="cuda"),), device="cuda:0").session
    name = session.inputs[0].name

    def prepare(_):
        with CAPTURING:
            inputs = {name: torch.randn(shape, device="cuda")}
            return session.bind(inputs) if bound else lambda: session.run(inputs)

    return prepare


class Layer(nn.Module):
    def __init__(self, width=384, heads=12, inner=1536):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)
        self.wide, self.narrow = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
        x = self.first(x + self.out(mixed))
        return self.second(x + self.narrow(functional.gelu(self.wide(x))))


def models():
    mlp = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 256))
    return {
        "linear": (nn.Linear(256, 128), (4, 256)),
        "mlp": (mlp, (1, 512)),
        "encoder": (nn.Sequential(*(Layer() for _ in range(6))), (1, 128, 384)),
    }


class Conv(nn.Module):
    """A residual network of a few layers."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, 2, 1)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(32, 32, 3, 1, 1), nn.BatchNorm2d(32), nn.ReLU()) for _ in range(6))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x.mean((2, 3)))


def compiled_models():
    made = models()
    yield "mlp", *made["mlp"]
    yield "encoder", *made["encoder"]
    yield "conv", Conv(), (1, 3, 64, 64)
    try:
        import torchvision

        yield "resnet18", torchvision.models.resnet18(weights=None), (1, 3, 224, 224)
        yield "mobilenet_v3_small", torchvision.models.mobilenet_v3_small(weights=None), (1, 3, 224, 224)
    except ImportError:
        print("torchvision is not installed: two modules fewer", flush=True)


class Report:
    def __init__(self, options):
        self.options, self.figures = options, []

    def one(self, what, side, threads, measure):
        try:
            value = statistics.median(measure() for _ in range(self.options.rounds))
        except Exception as why:  # A figure that is not to be had leaves the others.
            print(f"{what}, {side}, {threads} threads: failed: {type(why).__name__}: {str(why)[:300]}", flush=True)
            self.figures.append({"what": what, "side": side, "threads": threads, "failed": str(why)[:300]})
            return
        print(f"{what}, {side}, {threads} threads: {value:.0f}", flush=True)
        self.figures.append({"what": what, "side": side, "threads": threads, "value": value})


def replays(report, what):
    module, shape = models()[what]
    module = module.cuda().eval().requires_grad_(False)
    seconds = report.options.seconds
    sides = {
        "graph": graph(module, shape),
        "eager": eager(module, shape),
        "run": ours(module, shape),
        "bound": ours(module, shape, bound=True),
    }
    x = torch.randn(shape, device="cuda")
    with torch.inference_mode():
        expected = module(x)
        got = next(iter(sp.from_torch(module, (x,), device="cuda:0").session.run([x]).values()))
    print(f"{what}: largest difference from eager {(got - expected).abs().max().item():.2e}", flush=True)
    for threads in (1, 8):
        for side, prepare in sides.items():
            report.one(what, side, threads, lambda p=prepare, t=threads: rate_once(p, t, seconds))
        for side in ("graph", "run", "bound"):
            report.one(
                what, f"{side}, 64 under way", threads, lambda p=sides[side], t=threads: rate_once(p, t, seconds, flow=True)
            )


def compiles(report):
    from streampool import _torch

    seconds = report.options.seconds
    for what, module, shape in compiled_models():
        module = module.cuda().eval().requires_grad_(False)

        def prepared(compiled, shape=shape):
            def prepare(_):
                x = torch.randn(shape, device="cuda")
                with CAPTURING:
                    compiled(x)
                    compiled(x)
                    torch.cuda.synchronize()
                return lambda: compiled(x)

            return prepare

        for threads in (1, 8):
            report.one(f"compile {what}", "eager", threads, lambda t=threads: rate_once(eager(module, shape), t, seconds))
            for side, settings in (
                ("streampool", {"backend": _torch.compile_graph, "dynamic": False}),
                ("reduce-overhead", {"mode": "reduce-overhead", "dynamic": False}),
            ):
                torch._dynamo.reset()
                with torch.inference_mode():
                    compiled = torch.compile(module, **settings)
                report.one(f"compile {what}", side, threads, lambda c=compiled, t=threads: rate_once(prepared(c), t, seconds))


def tasks(report):
    module, shape = models()["mlp"]
    session = sp.from_torch(module.eval(), (torch.randn(2, 512),), device="cuda:0", dynamic_shapes=({0: "batch"},)).session
    row = {session.inputs[0].name: np.zeros((1, 512), np.float32)}
    longest = 0.0

    async def watch(stop):
        nonlocal longest
        while not stop.is_set():
            before = time.perf_counter()
            await asyncio.sleep(0)
            longest = max(longest, time.perf_counter() - before)

    async def all_of_them(queue, count):
        stop = asyncio.Event()
        watcher = asyncio.ensure_future(watch(stop))
        begun = time.perf_counter()
        await asyncio.gather(*(queue.infer_async(row) for _ in range(count)))
        took = time.perf_counter() - begun
        stop.set()
        await watcher
        return count / took

    with sp.BatchQueue(session, max_batch_size=64, capacity=4096) as queue:
        asyncio.run(all_of_them(queue, 1000))
        report.one("asyncio mlp, rows", "queue, 1000 tasks", 1, lambda: asyncio.run(all_of_them(queue, 1000)))
    print(f"asyncio: the loop's longest round {longest * 1e3:.1f} ms", flush=True)
    report.figures.append(
        {
            "what": "asyncio mlp, longest round of the loop, ms",
            "side": "queue, 1000 tasks",
            "threads": 1,
            "value": longest * 1e3,
        }
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="linear,mlp,encoder,asyncio,compile")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="torch")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, Streampool {sp.__version__}", flush=True)
    report = Report(options)
    for what in options.only.split(","):
        begun = time.perf_counter()
        if what == "compile":
            compiles(report)
        elif what == "asyncio":
            tasks(report)
        else:
            replays(report, what)
        print(f"{what} took {time.perf_counter() - begun:.0f} s", flush=True)
        if options.json:
            with open(options.json, "w") as file:
                json.dump(
                    {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "figures": report.figures}, file, indent=1
                )
    print("\n| | side | 1 thread | 8 threads |\n|---|---|---|---|")
    rows = {}
    for figure in report.figures:
        told = "failed" if "failed" in figure else f"{figure['value']:.0f}"
        rows.setdefault((figure["what"], figure["side"]), {})[figure["threads"]] = told
    for (what, side), by in rows.items():
        print(f"| {what} | {side} | {by.get(1, '')} | {by.get(8, '')} |")


if __name__ == "__main__":
    main()
