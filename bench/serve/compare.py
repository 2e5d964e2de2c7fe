"""The figures of the server, beside others where there are others:

    python3 bench/serve/compare.py start --streampool target/release/streampool
    python3 bench/serve/compare.py identity --streampool PROGRAM [--furnace PROGRAM] [--triton FOLDER]
    python3 bench/serve/compare.py large --streampool PROGRAM
    python3 bench/serve/compare.py embeddings --streampool PROGRAM     # built with the feature `text`
    python3 bench/serve/compare.py fairness --streampool PROGRAM

`start` and `fairness` need the packages numpy and onnx; `identity` and `large` the program wrk; `embeddings` also onnxruntime, fastapi, uvicorn and tokenizers.
furnace-server is `cargo build --release --manifest-path bench/serve/furnace/Cargo.toml`; where Triton comes from is in `differential.py`.
Servers and the load share the processors of the machine. Each server is measured alone, one after the other, in several rounds.
"""

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from callers import WORDS, Streampool, wrk, write_tokenizer

HERE = Path(__file__).resolve().parent


def write(path, width, layers=0):
    """y = x, or x times as many matrices."""
    path.parent.mkdir(parents=True, exist_ok=True)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width]) for name in "xy")
    weights = [numpy_helper.from_array(np.eye(width, dtype=np.float32), "w")] if layers else []
    nodes, last = [], "x"
    for layer in range(layers):
        nodes.append(helper.make_node("MatMul", [last, "w"], [last := f"h{layer}"]))
    nodes.append(helper.make_node("Identity", [last], ["y"]))
    graph = helper.make_graph(nodes, path.stem, [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


class Other:
    def __init__(self, command, port, path, environment=None):
        self.port = port
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5).read()
                return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.05)
        raise SystemExit(f"{command[0]} does not start")

    def end(self):
        self.process.terminate()
        self.process.wait(30)


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def request(path, body, headers=()):
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n{lines}\r\n".encode() + body


def binary(width, rows=1, names=("x", "y")):
    head = {"inputs": [{"name": names[0], "datatype": "FP32", "shape": [rows, width], "parameters": {"binary_data_size": 4 * rows * width}}],
            "outputs": [{"name": names[1], "parameters": {"binary_data": True}}]}
    text = json.dumps(head).encode()
    return text + np.ones((rows, width), np.float32).tobytes(), {"Inference-Header-Content-Length": str(len(text))}


async def call(reader, writer, message):
    writer.write(message)
    status = int((await reader.readline()).split()[1])
    length = 0
    while (line := await reader.readline()) != b"\r\n":
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    await reader.readexactly(length)
    return status


async def closed(port, messages, clients, seconds, warm):
    """Callers that ask again as soon as they have an answer. The times of answers, in ms."""
    begun, times = time.monotonic(), []

    async def one(number):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        choose = random.Random(number)
        while (now := time.monotonic()) < begun + warm + seconds:
            status = await call(reader, writer, choose.choice(messages))
            assert status == 200, status
            if now > begun + warm:
                times.append((time.monotonic() - now) * 1e3)
        writer.close()

    await asyncio.gather(*(one(number) for number in range(clients)))
    return times


async def paced(port, message, rate, seconds, connections):
    """So many requests a second, whether there are answers or not; they wait where all connections are in use. Times, and counts by status."""
    times, counts, waiting = [], {}, asyncio.Queue()
    begun = time.monotonic()

    async def clock():
        for number in range(int(rate * seconds)):
            at = begun + number / rate
            if (left := at - time.monotonic()) > 0:
                await asyncio.sleep(left)
            if waiting.qsize() < 4 * connections:
                waiting.put_nowait(at)
            else:
                counts["not sent"] = counts.get("not sent", 0) + 1
        for _ in range(connections):
            waiting.put_nowait(None)

    async def one():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (at := await waiting.get()) is not None:
            status = await call(reader, writer, message)
            counts[status] = counts.get(status, 0) + 1
            if status == 200:
                times.append((time.monotonic() - at) * 1e3)
        writer.close()

    await asyncio.gather(clock(), *(one() for _ in range(connections)))
    return times, counts


def told(times, seconds):
    times = sorted(times)
    at = lambda part: times[min(len(times) - 1, int(len(times) * part))]
    return f"{len(times) / seconds:8.0f}/s, p50 {at(0.5):7.2f} ms, p99 {at(0.99):7.2f} ms"


def start(options, folder):
    write(folder / "models/identity.onnx", 16)
    times, memories = [], []
    for _ in range(15):
        server = Streampool(options.streampool, folder / "models")
        memories.append(server.memory())
        times.append(server.ready)
        server.end()
    server = Streampool(options.streampool, folder / "models")
    body, headers = binary(16)
    asyncio.run(closed(server.port, [request("/v2/models/identity/infer", body, headers.items())], 16, 3, 0))
    busy = server.memory()
    server.end()
    print(f"start to ready: median {statistics.median(times):.1f} ms, longest {max(times):.1f} ms")
    print(f"resident memory: {statistics.median(memories):.1f} MiB when ready, {busy:.1f} MiB after three seconds of 16 callers")


def processor_time(parent):
    """How long a process and its children ran, in microseconds: their own code, and the system for them."""
    times = [0, 0]
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if parent in (int(path.parent.name), int(fields[1])):
            times = [time + int(ticks) * 1e6 / os.sysconf("SC_CLK_TCK") for time, ticks in zip(times, fields[11:13])]
    return times


def identity(options, folder):
    write(folder / "models/identity.onnx", 16)
    servers = {"streampool": lambda: Streampool(options.streampool, folder / "models")}
    if options.furnace:
        def furnace():
            port = free_port()
            return Other([options.furnace, str(port)], port, "/v2/health/ready", {**os.environ, "RUST_LOG": "warn"})
        servers["furnace-server"] = furnace
    if options.triton:
        sys.path.insert(0, str(HERE))
        import differential
        version = folder / "triton/identity/1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(differential.PYTHON)
        text = differential.configuration("identity", "FP32", 32, 'backend: "python"').replace("[ 4 ]", "[ 16 ]")
        (version.parent / "config.pbtxt").write_text(text + " dynamic_batching { }")

        def triton():
            return triton_server(options.triton, folder / "triton")
        servers["Triton 2.51, Python"] = triton
    results = {name: [] for name in servers}
    for _ in range(options.rounds):
        for name, begin in servers.items():
            # A model of furnace-server with one tensor has these names.
            body, headers = binary(16, names=("input", "output") if name == "furnace-server" else ("x", "y"))
            server = begin()
            wrk(server.port, "/v2/models/identity/infer", [body], headers, folder, 1)
            before = processor_time(server.process.pid)
            figures = wrk(server.port, "/v2/models/identity/infer", [body], headers, folder, options.seconds)
            took = [after - before for after, before in zip(processor_time(server.process.pid), before)]
            results[name].append([*figures, *(time / figures[0] / options.seconds for time in took)])
            server.end()
    for name, rounds in results.items():
        rate, half, most, own, system = (statistics.median(values) for values in zip(*rounds))
        print(f"{name:>20}: {rate:8.0f}/s, p50 {half:6.2f} ms, p99 {most:6.2f} ms, {own:5.1f} us of its own code and {system:5.1f} us of the system's a request")


def large(options, folder):
    """150,000 numbers as JSON, of which one row of bytes comes back."""
    width = 150_000
    write(folder / "models/large.onnx", width)
    draw = random.Random(0)
    numbers = [round(draw.random(), 6) for _ in range(width)]
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, width], "data": numbers}
    body = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    rounds = []
    for _ in range(options.rounds):
        server = Streampool(options.streampool, folder / "models")
        wrk(server.port, "/v2/models/large/infer", [body], {"Content-Type": "application/json"}, folder, 1)
        rounds.append(wrk(server.port, "/v2/models/large/infer", [body], {"Content-Type": "application/json"}, folder, options.seconds))
        server.end()
    rate, half, most = (statistics.median(values) for values in zip(*rounds))
    print(f"{width:,} numbers of JSON: {rate:.0f}/s, p50 {half:.1f} ms, p99 {most:.1f} ms")


def triton_server(folder, models):
    folder, port = folder.resolve(), free_port()
    libraries = (folder / "external_libs", folder / "lib", folder.parents[1] / "nvidia_pytriton.libs")
    stub = folder / "backends/python/triton_python_backend_stub"
    if not stub.exists():
        shutil.copy(folder / "python_backend_stubs/3.11" / stub.name, stub)
    for program in (stub, folder / "bin/tritonserver"):
        program.chmod(0o755)
    command = [folder / "bin/tritonserver", f"--model-repository={models}", f"--backend-directory={folder / 'backends'}", f"--http-port={port}",
               "--allow-grpc=false", "--allow-metrics=false", "--model-control-mode=none"]
    return Other(command, port, "/v2/health/ready", {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries))})


FASTAPI = '''
import os, sys, numpy, onnxruntime, tokenizers, uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
class Body(BaseModel):
    inputs: str
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(sys.argv[3])
session = onnxruntime.InferenceSession(sys.argv[1] + "/1/model.onnx", options)
tokenizer = tokenizers.Tokenizer.from_file(sys.argv[1] + "/tokenizer.json")
tokenizer.enable_truncation(256)
app = FastAPI()
@app.get("/health")
def health():
    return {}
@app.post("/embed")
def embed(body: Body):
    encoded = tokenizer.encode(body.inputs)
    ids = numpy.array([encoded.ids], numpy.int64)
    states = session.run(None, {"input_ids": ids, "attention_mask": numpy.ones_like(ids)})[0]
    vector = states[0].mean(0)
    return [(vector / numpy.linalg.norm(vector)).tolist()]
uvicorn.run(app, port=int(sys.argv[2]), log_level="error", access_log=False)
'''


def embeddings(options, folder):
    made = folder / "made"
    subprocess.run([sys.executable, HERE.parent / "models/make_encoder.py", made], check=True, stdout=subprocess.DEVNULL)
    model = folder / "models/minilm"
    (model / "1").mkdir(parents=True)
    (made / "minilm.onnx").rename(model / "1/model.onnx")
    (made / "weights.data").rename(model / "1/weights.data")
    write_tokenizer(model)
    choose = random.Random(1)
    texts = [" ".join(f"w{choose.randrange(WORDS)}" for _ in range(choose.randint(4, 128))) for _ in range(512)]
    messages = [request("/embed", json.dumps({"inputs": text}).encode(), [("content-type", "application/json")]) for text in texts]

    def peer(threads):
        def begin():
            port = free_port()
            return Other([sys.executable, "-c", FASTAPI, str(model), str(port), str(threads)], port, "/health")
        return begin

    servers = {"streampool": lambda: Streampool(options.streampool, folder / "models"),
               "FastAPI, 1 thread a run": peer(1), "FastAPI, 2 threads a run": peer(2)}
    results = {name: [] for name in servers}
    for _ in range(options.rounds):
        for name, begin in servers.items():
            server = begin()
            results[name] += asyncio.run(closed(server.port, messages, 64, options.seconds, 2))
            server.end()
    for name, times in results.items():
        print(f"{name:>25}: {told(times, options.rounds * options.seconds)}")


def fairness(options, folder):
    width = 512
    write(folder / "models/heavy.onnx", width, options.layers)
    body, headers = binary(width)
    message = lambda tenant: request("/v2/models/heavy/infer", body, {**headers, "X-Tenant": tenant}.items())
    server = Streampool(options.streampool, folder / "models", "--queue-capacity", "64", *options.more)

    def polite():
        times, counts = asyncio.run(paced(server.port, message("polite"), options.rate, options.seconds, 8))
        assert set(counts) == {200}, counts
        return times

    asyncio.run(paced(server.port, message("polite"), options.rate, 2, 8))
    alone = polite()
    # The greedy one in a process of its own.
    child = os.fork()
    if child == 0:
        _, counts = asyncio.run(paced(server.port, message("greedy"), options.rate * options.times, options.seconds + 2, 128))
        print(f"the greedy tenant, {options.times} times as many: {counts}", flush=True)
        os._exit(0)
    time.sleep(1)
    beside = polite()
    os.waitpid(child, 0)
    server.end()
    print(f"polite tenant alone:  {told(alone, options.seconds)}")
    print(f"beside the greedy one: {told(beside, options.seconds)}")
    at = lambda times: sorted(times)[int(len(times) * 0.99)]
    print(f"p99: {at(beside) / at(alone):.2f} times as long; the goal is 2")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=["start", "identity", "large", "embeddings", "fairness"])
    options.add_argument("--streampool", required=True, type=Path)
    options.add_argument("--furnace", type=Path, help="the program of bench/serve/furnace")
    options.add_argument("--triton", type=Path, help="the folder `pytriton/tritonserver` of nvidia-pytriton")
    options.add_argument("--seconds", type=float, default=5)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--rate", type=float, default=10, help="requests a second of the polite tenant")
    options.add_argument("--times", type=int, default=100, help="how many times as many the greedy one sends")
    options.add_argument("--layers", type=int, default=40, help="matrices of the model for fairness")
    options.add_argument("--more", nargs="*", default=[], help="arguments of the server, for fairness")
    options = options.parse_args()
    options.seconds = int(options.seconds) if options.seconds == int(options.seconds) else options.seconds
    with tempfile.TemporaryDirectory() as folder:
        globals()[options.what](options, Path(folder))


if __name__ == "__main__":
    main()
