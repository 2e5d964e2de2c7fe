#!/usr/bin/env python3
"""What `streampool simulate` says beside real runs of the server, at three loads on this machine: p50 and p99 have to be within 15 %.

    simulate.py PROGRAM [--device cuda] [--seconds 15] [--json FILE]

For each load, one caller first sends batches of each size in turn to the idle server: `/metrics` tells how much of that the model ran, the rest
is what a request takes beside. Then as many callers as fill two batches ask again and again: what a batch takes longer there than one of one
caller is what it costs to collect requests and to answer them. Then requests come at random times, independently of each other, over kept
connections; the simulation gets the same times. Afterwards batches are timed again: if they take longer or shorter than before by more than
a twentieth, the machine has changed its speed, which no simulation can know, and the load is measured again. Needs onnx and numpy, and two
processors: the server computes with one thread, and the client has the other.
"""

import argparse
import json
import os
import pathlib
import random
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

# One matrix for all layers, which fits in a processor's own cache: what others do to the memory then matters less.
WIDTH, LAYERS, MOST = {"host": 384, "cuda": 2048}, 600, 16
ROUNDS, EACH = 12, 5
LOADS = (0.3, 0.6, 0.85)
ALLOWED = 0.15
# By how much the machine's speed may change during a load, and how often one is tried.
STEADY, TRIES = 0.05, 8


def make(path, width):
    draw = numpy.random.default_rng(1)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width]) for name in "xy")
    names = ["x", *(f"h{n}" for n in range(LAYERS))]
    nodes = [helper.make_node("MatMul", [names[n], "w"], [names[n + 1]]) for n in range(LAYERS)]
    nodes.append(helper.make_node("Relu", [names[-1]], ["y"]))
    weight = numpy_helper.from_array(draw.uniform(-0.05, 0.05, (width, width)).astype("float32"), "w")
    graph = helper.make_graph(nodes, "deep", [x], [y], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


def request(width, rows=1):
    """An inference of some rows, with a binary tensor and a binary answer."""
    head = json.dumps({
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [rows, width], "parameters": {"binary_data_size": 4 * width * rows}}],
        "parameters": {"binary_data_output": True},
    }).encode()
    body = head + numpy.zeros(width * rows, "float32").tobytes()
    return (f"POST /v2/models/deep/infer HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
            f"inference-header-content-length: {len(head)}\r\n\r\n").encode() + body


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def call(connection, bytes):
    """One request and its answer; how long that is."""
    connection.sendall(bytes)
    answer, end = b"", None
    while end is None or len(answer) < end:
        answer += connection.recv(1 << 20)
        head = answer.find(b"\r\n\r\n")
        if end is None and head >= 0:
            assert answer.startswith(b"HTTP/1.1 200"), answer[:300]
            end = head + 4 + int(re.search(rb"\r\ncontent-length: (\d+)", answer[:head], re.I)[1])
    return end


def computed(port):
    """The seconds of all batches, and their number."""
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    return [float(re.search(rf"^streampool_compute_seconds_{what}{{[^}}]*}} (\S+)", text, re.M)[1]) for what in ("sum", "count")]


def probe(port, width, load):
    """For each size of batches how long single ones took, and what a request of one row takes beside. The server computes for this part of the time."""
    connection, bodies = connect(port), {rows: request(width, rows) for rows in range(1, MOST + 1)}
    for body in bodies.values():
        call(connection, body)
    trips, model = {rows: [] for rows in bodies}, {rows: 0.0 for rows in bodies}
    for _ in range(ROUNDS):
        for rows, body in bodies.items():
            before = computed(port)
            for _ in range(EACH):
                begun = time.perf_counter()
                call(connection, body)
                trips[rows].append(time.perf_counter() - begun)
                time.sleep(trips[rows][-1] * (1 / load - 1))
            after = computed(port)
            assert after[1] == before[1] + EACH
            model[rows] += after[0] - before[0]
    # What goes on beside the model takes about the same time for each batch of a size.
    beside = {rows: float(numpy.mean(trips[rows])) - model[rows] / len(trips[rows]) for rows in bodies}
    return {rows: [max(1e-6, trip - beside[rows]) for trip in trips[rows]] for rows in bodies}, beside[1]


def busy(port, bytes, seconds=4):
    """How long a batch takes where requests always wait, from the begin of one to that of the next, and how many rows it has."""
    poll, known = select.epoll(), {}
    for _ in range(2 * MOST):
        connection = connect(port)
        poll.register(connection, select.EPOLLIN)
        known[connection.fileno()] = [connection, 0]
        length = call(connection, bytes)
    for connection, _ in known.values():
        connection.send(bytes)
    answers, begun, from_here = 0, time.perf_counter(), None
    while True:
        for number, _ in poll.poll():
            entry = known[number]
            entry[1] += len(entry[0].recv(1 << 16))
            if entry[1] >= length:
                entry[1] = 0
                answers += 1
                entry[0].send(bytes)
        now = time.perf_counter()
        # The first second is for the queue to learn.
        if from_here is None and now > begun + 1:
            from_here = (now, answers, computed(port)[1])
        if now > begun + 1 + seconds:
            batches = computed(port)[1] - from_here[2]
            break
    for connection, _ in known.values():
        connection.close()
    return (now - from_here[0]) / batches, (answers - from_here[1]) / batches


def offered(port, bytes, dues):
    """The times of requests that come when they are due, each from then on."""
    idle, poll, known = [], select.epoll(), {}

    def another():
        connection = connect(port)
        poll.register(connection, select.EPOLLIN)
        known[connection.fileno()] = [connection, 0, 0.0]
        idle.append(connection.fileno())
        return connection

    length = call(another(), bytes)
    for _ in range(100):
        another()
    times, place, running, begun = [], 0, 0, time.perf_counter()
    while place < len(dues) or running:
        now = time.perf_counter() - begun
        while place < len(dues) and dues[place] <= now:
            if not idle:
                another()
            entry = known[idle.pop()]
            entry[1:] = [0, dues[place]]
            entry[0].send(bytes)
            place, running = place + 1, running + 1
        wait = max(0.0, dues[place] - (time.perf_counter() - begun)) if place < len(dues) else 1.0
        for number, _ in poll.poll(wait):
            entry = known[number]
            part = entry[0].recv(1 << 16)
            if not part or (entry[1] == 0 and not part.startswith(b"HTTP/1.1 200")):
                raise SystemExit(f"the server refused a request, so this machine is too busy for these loads: {part[:300]}")
            entry[1] += len(part)
            if entry[1] >= length:
                idle.append(number)
                running -= 1
                if entry[2] > dues[-1] / 10:
                    times.append(time.perf_counter() - begun - entry[2])
    return numpy.array(times)


def measured(port, width, load, seconds, draw):
    """What a load's requests took, and all that the simulation is to know of it."""
    bytes = request(width)
    samples, beside = probe(port, width, load)
    cycle, filled = busy(port, bytes)
    alone = numpy.interp(filled, list(samples), [numpy.median(times) for times in samples.values()])
    shared = max(0.0, float(cycle - alone) / filled)
    rate = load * max(rows / (numpy.mean(times) + rows * shared) for rows, times in samples.items())
    dues, due = [], 0.0
    while due < seconds:
        due += draw.expovariate(rate)
        dues.append(due)
    times = offered(port, bytes, dues)
    after, _ = probe(port, width, load)
    changed = float(numpy.mean([numpy.median(after[rows]) / numpy.median(samples[rows]) for rows in samples])) - 1
    samples = {rows: [each + rows * shared for each in samples[rows] + after[rows]] for rows in samples}
    told = {rows: f"{1e3 * numpy.median(times):.2f} ({1e3 * max(times):.2f})" for rows, times in samples.items() if rows & (rows - 1) == 0}
    print(f"median and longest of batches in ms: {told}, of that for each request: {1e3 * shared:.3f} ms, beside: {1e3 * beside:.2f} ms, "
          f"changed by {changed:+.1%}", flush=True)
    real = {f"p{part}": float(numpy.percentile(times, part)) for part in (50, 99)}
    return {"load": load, "rate": rate, "requests": len(times), "real": real, "changed": changed}, samples, dues, beside


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("program")
    arguments.add_argument("--device", choices=list(WIDTH), default="host")
    arguments.add_argument("--seconds", type=float, default=15)
    arguments.add_argument("--json")
    given = arguments.parse_args()
    environment = {**os.environ, "STREAMPOOL_HOST_THREADS": "1"}
    width = WIDTH[given.device]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "models").mkdir()
        make(folder / "models/deep.onnx", width)
        options = ["--max-batch-size", str(MOST), "--max-in-flight", "1"]
        server = subprocess.Popen([given.program, "serve", folder / "models", "--http", "127.0.0.1:0", "--device", given.device, *options],
                                  env=environment, stderr=subprocess.PIPE, text=True)
        try:
            line = next(line for line in server.stderr if "ready" in line)
            port = int(re.search(r'http="[^"]*:(\d+)"', line)[1])
            found, draw = [], random.Random(3)
            for load in LOADS:
                for _ in range(TRIES):
                    row, samples, dues, beside = measured(port, width, load, given.seconds, draw)
                    if abs(row["changed"]) <= STEADY:
                        break
                cost, trace = folder / "cost.json", folder / "trace"
                cost.write_text(json.dumps({"points": [{"via": "threads", "threads": 1, "rows": rows, "samples": times} for rows, times in samples.items()]}))
                trace.write_text("\n".join(map(str, dues)))
                told = subprocess.run([given.program, "simulate", "--cost", cost, "--trace", trace, "--overhead", str(round(1e6 * beside)),
                                       *options, "--json"], check=True, stdout=subprocess.PIPE).stdout
                told, real = json.loads(told), row["real"]
                row["simulated"] = {part: told[part] for part in real}
                row["off"] = {part: told[part] / real[part] - 1 for part in real}
                found.append(row)
                print(f"load {load:.0%}, {row['rate']:.0f}/s, {row['requests']} requests: " + ", ".join(
                    f"{part} {1e3 * real[part]:.2f} ms, simulated {1e3 * told[part]:.2f} ms ({row['off'][part]:+.0%})" for part in real), flush=True)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(30)
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(found, indent=1))
    steady = all(abs(row["changed"]) <= STEADY for row in found)
    return 0 if steady and all(abs(off) <= ALLOWED for row in found for off in row["off"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
