#!/usr/bin/env python3
"""What `streampool simulate` says beside real runs of the server, at three loads on this machine: p50 and p99 have to be within 15 %.

    simulate.py PROGRAM [--seconds 20] [--json FILE]

Measures how long batches take (`bench model`), what a request takes beside (one caller at an idle server), and then sends requests to
`serve` at random times, independently of each other, by binary tensors over kept connections. Needs onnx and numpy, and a quiet machine:
the server computes with one thread, and the clients have the other processor.
"""

import argparse
import asyncio
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, LAYERS, MOST = 1024, 32, 16
LOADS = (0.3, 0.6, 0.85)
ALLOWED = 0.15


def make(path):
    draw = numpy.random.default_rng(1)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH]) for name in ("x", "y"))
    weights = [numpy_helper.from_array(draw.uniform(-0.05, 0.05, (WIDTH, WIDTH)).astype("float32"), f"w{n}") for n in range(LAYERS)]
    names = ["x", *(f"h{n}" for n in range(LAYERS))]
    nodes = [helper.make_node("MatMul", [names[n], f"w{n}"], [names[n + 1]]) for n in range(LAYERS)]
    nodes.append(helper.make_node("Relu", [names[-1]], ["y"]))
    graph = helper.make_graph(nodes, "wide", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


def request(rows=1):
    """An inference of some rows, with a binary tensor and a binary answer."""
    head = json.dumps({
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [rows, WIDTH], "parameters": {"binary_data_size": 4 * WIDTH * rows}}],
        "parameters": {"binary_data_output": True},
    }).encode()
    body = head + numpy.zeros(WIDTH * rows, "float32").tobytes()
    return (f"POST /v2/models/wide/infer HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
            f"inference-header-content-length: {len(head)}\r\n\r\n").encode() + body


class Client:
    """Connections that are kept, as many as are used at once."""

    def __init__(self, port):
        self.port, self.idle, self.bytes = port, [], request()

    async def send(self, rows=None):
        pair = self.idle.pop() if self.idle else await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = pair
        writer.write(request(rows) if rows else self.bytes)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head[:200]
        await reader.readexactly(int(re.search(rb"\r\ncontent-length: (\d+)", head, re.I)[1]))
        self.idle.append(pair)


async def warm_up(port):
    """Batches of every size, so that no plan is made while it counts."""
    client = Client(port)
    for _ in range(3):
        for rows in range(1, MOST + 1):
            await client.send(rows)


async def alone(port, seconds):
    """The times of one caller, one request after the other."""
    client, times, end = Client(port), [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        begun = time.perf_counter()
        await client.send()
        times.append(time.perf_counter() - begun)
        await asyncio.sleep(0.002)
    return times[len(times) // 4:]


async def offered(port, rate, seconds, seed):
    """The times of requests that come at this rate, each from when it was to be sent."""
    draw, client, times, running = random.Random(seed), Client(port), [], set()
    begun = time.perf_counter()
    due = begun

    async def one(due):
        await client.send()
        if due - begun > seconds / 10:
            times.append(time.perf_counter() - due)

    while due < begun + seconds:
        due += draw.expovariate(rate)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        task = asyncio.ensure_future(one(due))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    return times


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("program")
    arguments.add_argument("--seconds", type=float, default=20)
    arguments.add_argument("--json")
    given = arguments.parse_args()
    environment = {**os.environ, "STREAMPOOL_HOST_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "models").mkdir()
        model = folder / "models/wide.onnx"
        make(model)
        sizes = ",".join(str(rows) for rows in range(1, MOST + 1))
        cost = folder / "cost.json"
        command = [given.program, "bench", "model", model, "--threads", "1", "--shape", f"x=1,{WIDTH}", "--batch", sizes, "--seconds", "0.4", "--json"]
        cost.write_bytes(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)
        points = {point["rows"]: point["latency_seconds"]["p50"] for point in json.loads(cost.read_text())["points"]}
        best = max(rows / seconds for rows, seconds in points.items())
        options = ["--max-batch-size", str(MOST), "--max-in-flight", "1"]
        server = subprocess.Popen([given.program, "serve", folder / "models", "--http", "127.0.0.1:0", *options],
                                  env=environment, stderr=subprocess.PIPE, text=True)
        try:
            line = next(line for line in server.stderr if "ready" in line)
            port = int(re.search(r'http="[^"]*:(\d+)"', line)[1])
            asyncio.run(warm_up(port))
            single = sorted(asyncio.run(alone(port, 3)))
            overhead = max(0.0, single[len(single) // 2] - points[1])
            found = []
            for load in LOADS:
                rate = load * best
                times = numpy.array(asyncio.run(offered(port, rate, given.seconds, 3)))
                told = subprocess.run([given.program, "simulate", "--cost", cost, "--rate", str(rate), "--seconds", "600", "--overhead",
                                       str(round(1e6 * overhead)), *options, "--json"], check=True, stdout=subprocess.PIPE).stdout
                told = json.loads(told)
                real = {f"p{part}": float(numpy.percentile(times, part)) for part in (50, 99)}
                row = {"load": load, "rate": rate, "requests": len(times), "real": real, "simulated": {part: told[part] for part in real}}
                row["off"] = {part: told[part] / real[part] - 1 for part in real}
                found.append(row)
                print(f"load {load:.0%}, {rate:.0f}/s, {len(times)} requests: " + ", ".join(
                    f"{part} {1e3 * real[part]:.2f} ms, simulated {1e3 * told[part]:.2f} ms ({row['off'][part]:+.0%})" for part in real), flush=True)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(30)
    print("batches:", {rows: f"{1e3 * seconds:.2f} ms" for rows, seconds in points.items()}, f"beside: {1e3 * overhead:.2f} ms")
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps({"points": points, "overhead": overhead, "loads": found}, indent=1))
    return 0 if all(abs(off) <= ALLOWED for row in found for off in row["off"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
