"""Three servers behind HAProxy, Envoy and nginx, as the files in `deploy` set them up: a rolling restart loses no request, and of a server that
is killed only what it held fails, at once. Behind HAProxy, a server whose queue is long gets fewer requests. `ci/balancers.sh` runs it.

    test_balancers.py [haproxy] [envoy] [nginx]
"""

import http.client
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import onnx
import tritonclient.grpc
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[4]
CALLERS = 6
# Each caller rests so long between two requests: the machine is not to be busy.
REST = 0.01
DRAIN = 3


def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def models_in(folder):
    """`plus`: y = x + 1. `slow`: products that take long."""
    made = {"plus": (4, ["Add"], np.ones(1)), "slow": (512, ["MatMul"] * 64, np.eye(512))}
    for name, (width, operators, number) in made.items():
        x, y = (helper.make_tensor_value_info(end, TensorProto.FLOAT, ["batch", width]) for end in "xy")
        between = ["x", *(f"h{place}" for place in range(1, len(operators))), "y"]
        nodes = [helper.make_node(operator, [before, "by"], [after]) for operator, before, after in zip(operators, between, between[1:])]
        graph = helper.make_graph(nodes, name, [x], [y], [numpy_helper.from_array(number.astype(np.float32), "by")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), folder / f"{name}.onnx")


class Server:
    def __init__(self, models, http, grpc):
        self.models, self.http, self.grpc = models, http, grpc
        self.start()

    def start(self):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [os.environ["STREAMPOOL"], "serve", self.models, "--http", f"127.0.0.1:{self.http}", "--grpc", f"127.0.0.1:{self.grpc}",
             "--drain-delay", str(DRAIN), "--drain-time", "10"], stderr=self.log)
        wait_until("a server is ready", lambda: status(self.http, "/v2/health/ready") == 200)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        self.log.seek(0)
        assert code == 0, self.log.read()

    def kill(self):
        self.process.kill()
        self.process.wait(10)


def status(port, path):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except OSError:
        return None


def wait_until(what, condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it never came to this: {what}"
        time.sleep(0.05)


class Balancer:
    """One of the three, with its file's addresses moved to free ports."""

    def __init__(self, name, servers, folder):
        self.name, self.servers, self.folder = name, servers, folder
        self.http, self.grpc, self.admin = free_ports(3)
        file = {"haproxy": "haproxy.cfg", "envoy": "envoy.yaml", "nginx": "nginx.conf"}[name]
        self.text = (ROOT / "deploy" / file).read_text()
        self.moved = {8080: self.http, 8081: self.grpc, 9901: self.admin}
        for number, server in enumerate(servers, 1):
            self.moved |= {8000 + number: server.http, 9000 + number: server.grpc}
        self.file = folder / file
        self.write()
        self.log = open(folder / f"{name}.log", "w+")
        command = {
            "haproxy": ["haproxy", "-db", "-f", self.file],
            "envoy": ["envoy", "-c", self.file, "--concurrency", "1", "-l", "error", "--base-id", str(self.admin)],
            "nginx": ["nginx", "-c", self.file, "-g", "daemon off;"],
        }[name]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        wait_until(f"{name} answers", self.is_up)

    def write(self, down=None):
        text = re.sub(r"\b(80[08][0-9]|900[1-3]|9901)\b", lambda found: str(self.moved.get(int(found[0]), found[0])), self.text)
        text = text.replace("/run/streampool-nginx.pid", str(self.folder / "nginx.pid"))
        if down is not None:
            for port in (down.http, down.grpc):
                text = text.replace(f":{port} max_fails", f":{port} down max_fails")
        if self.name == "haproxy":
            text = text.replace("/etc/haproxy/haproxy.lua", str(ROOT / "deploy/haproxy.lua"))
        self.file.write_text(text)

    def is_up(self):
        assert self.process.poll() is None, self.said()
        return status(self.http, "/v2/health/ready") == 200

    def said(self):
        self.log.seek(0)
        return self.log.read()[-3000:]

    def take_out(self, server):
        """What has to be done before a server is stopped."""
        if self.name == "nginx":
            self.write(down=server)
            subprocess.run(["nginx", "-c", self.file, "-s", "reload"], check=True, stderr=subprocess.DEVNULL)
            time.sleep(1)

    def take_in(self):
        if self.name == "nginx":
            self.write()
            subprocess.run(["nginx", "-c", self.file, "-s", "reload"], check=True, stderr=subprocess.DEVNULL)

    def end(self):
        self.process.terminate()
        self.process.wait(20)


class Load:
    """Callers by HTTP and gRPC. Every request has a value of its own, whose answer is checked."""

    def __init__(self, balancer):
        self.balancer = balancer
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.good, self.failed, self.wrong, self.longest = 0, [], 0, 0.0
        self.threads = [
            threading.Thread(target=self.call, args=(number, self.by_http if number % 2 else self.by_grpc))
            for number in range(CALLERS)
        ]
        for thread in self.threads:
            thread.start()

    def call(self, number, by):
        count, client = 0, None
        while not self.stop.is_set():
            count += 1
            value = float(number * 100_000 + count)
            begun = time.monotonic()
            try:
                client, got = by(client, value)
                failed = None
            except Exception as error:
                client, got, failed = None, None, f"{by.__name__}: {str(error)[:150]}"
            took = time.monotonic() - begun
            with self.lock:
                self.longest = max(self.longest, took)
                if failed:
                    self.failed.append(failed)
                elif got != value + 1:
                    self.wrong += 1
                else:
                    self.good += 1
            time.sleep(REST)

    def by_http(self, client, value):
        # As good clients do: a kept connection that was closed meanwhile is not used.
        if client is None or client.sock is None or select.select([client.sock], [], [], 0)[0]:
            client = http.client.HTTPConnection("127.0.0.1", self.balancer.http, timeout=15)
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [value, 0, 0, 0]}]}
        client.request("POST", "/v2/models/plus/infer", json.dumps(body), {"content-type": "application/json"})
        answer = client.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status} {text[:100]}")
        return client, json.loads(text)["outputs"][0]["data"][0]

    def by_grpc(self, client, value):
        client = client or tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.balancer.grpc}")
        tensor = tritonclient.grpc.InferInput("x", [1, 4], "FP32")
        tensor.set_data_from_numpy(np.array([[value, 0, 0, 0]], np.float32))
        result = client.infer("plus", [tensor], client_timeout=15)
        return client, result.as_numpy("y")[0, 0]

    def counted(self):
        with self.lock:
            return self.good, len(self.failed)

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()


def rolling_restart(balancer, servers):
    load = Load(balancer)
    time.sleep(1)
    for server in servers:
        balancer.take_out(server)
        server.stop()
        server.start()
        balancer.take_in()
        time.sleep(2)
    load.end()
    print(f"{balancer.name}: rolling restart of three: {load.good} answered, {len(load.failed)} failed, {load.wrong} wrong, "
          f"longest {load.longest:.2f} s", flush=True)
    assert load.good > 300 and not load.wrong and not load.failed, load.failed[:5]


def speaks_http2(balancer):
    """A request to REST by HTTP/2, in the clear."""
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]})
    url = f"http://127.0.0.1:{balancer.http}/v2/models/plus/infer"
    command = ["curl", "-s", "-m", "10", "--http2-prior-knowledge", "-w", "\n%{http_version} %{http_code}", "-d", body, url]
    answer, how = subprocess.run(command, check=True, capture_output=True, text=True).stdout.rsplit("\n", 1)
    assert how == "2 200" and json.loads(answer)["outputs"][0]["data"] == [2, 3, 4, 5], (how, answer)


def answered(server):
    """How many requests for `plus` the server has answered."""
    text = urllib.request.urlopen(f"http://127.0.0.1:{server.http}/metrics", timeout=10).read().decode()
    return int(re.search(r'^nv_inference_request_success{[^}]*"plus"[^}]*} (\d+)', text, re.M)[1])


def kill_one(balancer, servers):
    counts = [answered(server) for server in servers]
    load = Load(balancer)
    time.sleep(2)
    before = load.counted()[0]
    by_killed = answered(servers[0]) - counts[0]
    servers[0].kill()
    time.sleep(4)
    after = load.counted()[0]
    load.end()
    by_others = sum(answered(server) - count for server, count in zip(servers[1:], counts[1:]))
    servers[0].start()
    wait_until("all servers answer again", balancer.is_up)
    print(f"{balancer.name}: one of three killed: {load.good} answered, {len(load.failed)} failed, {load.wrong} wrong, longest {load.longest:.2f} s; "
          f"{load.failed[:2]}", flush=True)
    # What it held: no more than there are callers. And nothing hangs.
    assert len(load.failed) <= CALLERS and not load.wrong, load.failed
    # No request ran twice.
    assert by_killed + by_others <= load.good + len(load.failed), (by_killed, by_others)
    assert load.longest < 5 and after > before + 100, (load.longest, before, after)


def shares(servers, seconds):
    """Which part of the requests for `plus` each server answers."""
    before = [answered(server) for server in servers]
    time.sleep(seconds)
    counts = [answered(server) - count for server, count in zip(servers, before)]
    return [count / sum(counts) for count in counts]


def avoid_a_long_queue(balancer, servers):
    """Somebody else keeps forty requests at the first server, of which the balancer sees nothing but the length of the queue."""
    rows = 32
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [rows, 512], "data": [0] * rows * 512}]})
    stop = threading.Event()

    def fill():
        client = http.client.HTTPConnection("127.0.0.1", servers[0].http, timeout=60)
        while not stop.is_set():
            client.request("POST", "/v2/models/slow/infer", body)
            client.getresponse().read()

    load = Load(balancer)
    fillers = [threading.Thread(target=fill) for _ in range(40)]
    for filler in fillers:
        filler.start()
    time.sleep(3)
    beside = shares(servers, 4)
    stop.set()
    for filler in fillers:
        filler.join()
    time.sleep(2)
    after = shares(servers, 4)
    load.end()
    told = [", ".join(f"{part:.0%}" for part in parts) for parts in (beside, after)]
    print(f"{balancer.name}: beside a queue at the first: {told[0]}; after it: {told[1]}; {len(load.failed)} failed, {load.wrong} wrong", flush=True)
    assert beside[0] < 0.15 and after[0] > 0.2 and not load.failed and not load.wrong, load.failed[:5]


def main():
    chosen = sys.argv[1:] or ["haproxy", "envoy", "nginx"]
    missing = [name for name in chosen if not shutil.which(name)]
    if missing:
        raise SystemExit(f"{', '.join(missing)}: not installed")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        models = folder / "models"
        models.mkdir()
        models_in(models)
        ports = free_ports(6)
        servers = [Server(models, *ports[2 * number:2 * number + 2]) for number in range(3)]
        try:
            for name in chosen:
                balancer = Balancer(name, servers, folder)
                try:
                    if name != "nginx":
                        speaks_http2(balancer)
                    rolling_restart(balancer, servers)
                    kill_one(balancer, servers)
                    if name == "haproxy":
                        avoid_a_long_queue(balancer, servers)
                finally:
                    balancer.end()
        finally:
            for server in servers:
                server.kill()


if __name__ == "__main__":
    main()
