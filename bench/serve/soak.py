"""Mixed models, tenants and faults for as long as you like: every request is accounted for once, and memory stays flat.

    python3 -m pip install numpy onnx
    python3 bench/serve/soak.py --streampool target/release/streampool --seconds 1800

Threads send good requests, wrong ones, late ones, and ones whose client goes away, while one model is loaded again and again, also from a
file that is no model. In the end the client's counts are compared with the server's. The exit code is 1 if they differ, if an answer is
wrong, or if memory grows by more than a tenth after the first fifth of the time.
"""

import argparse
import collections
import http.client
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MODELS = {"plus": 4, "wide": 64, "heavy": 256}
TENANTS = {"ann": "anns-secret-key", "bob": "bobs-secret-key", "greedy": "greedys-secret-key"}


def write(path, width, heavy):
    path.parent.mkdir(parents=True, exist_ok=True)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width]) for name in "xy")
    one = numpy_helper.from_array(np.ones(1, np.float32), "one")
    nodes, last, weights = [], "x", [one]
    if heavy:
        weights.append(numpy_helper.from_array(np.eye(width, dtype=np.float32), "eye"))
        for number in range(20):
            nodes.append(helper.make_node("MatMul", [last, "eye"], [last := f"h{number}"]))
    nodes.append(helper.make_node("Add", [last, "one"], ["y"]))
    graph = helper.make_graph(nodes, path.stem, [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


class Client(threading.Thread):
    """Sends requests until it is told to stop, and counts what became of them."""

    def __init__(self, address, tenant, stop, seed, pause):
        super().__init__()
        self.address, self.tenant, self.stop, self.pause = address, tenant, stop, pause
        self.random = random.Random(seed)
        self.counts, self.wrong = collections.Counter(), []

    def run(self):
        connection = None
        while not self.stop.wait(self.pause):
            connection = connection or http.client.HTTPConnection(self.address, timeout=60)
            try:
                if self.one(connection):
                    connection = None
            except OSError as error:
                self.wrong.append(f"{self.tenant}: {error}")
                connection = None

    def one(self, connection):
        model = self.random.choice(list(MODELS))
        width, rows = MODELS[model], self.random.choice([1, 1, 1, 2, 5, 40])
        array = np.full((rows, width), self.random.randrange(1000), np.float32)
        head = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [rows, width], "parameters": {"binary_data_size": array.nbytes}}],
                "parameters": {"binary_data_output": True, "priority": self.random.randrange(4)}}
        what = self.random.choices(["good", "wrong", "late", "gone"], [90, 4, 3, 3])[0]
        if what == "wrong":
            head["inputs"][0]["datatype"] = "FP64"
        text = json.dumps(head).encode()
        headers = {"Authorization": f"Bearer {TENANTS[self.tenant]}", "Inference-Header-Content-Length": str(len(text))}
        if what == "late":
            headers["X-Request-Timeout-Ms"] = "1"
        connection.request("POST", f"/v2/models/{model}/infer", text + array.tobytes(), headers)
        if what == "gone":
            # The server may have answered already.
            time.sleep(self.random.random() * 0.002)
            connection.close()
            self.counts["gone"] += 1
            return True
        response = connection.getresponse()
        body = response.read()
        self.counts[str(response.status)] += 1
        allowed = {"good": (200, 429, 503), "wrong": (400, 429, 503), "late": (200, 429, 503, 504)}[what]
        if response.status not in allowed:
            self.wrong.append(f"{what}: {response.status} {body[:200]!r}")
        elif response.status == 200:
            length = int(response.headers["Inference-Header-Content-Length"])
            if not np.array_equal(np.frombuffer(body[length:], np.float32).reshape(array.shape), array + 1):
                self.wrong.append(f"{model}: another's numbers")
        if response.status in (429, 503):
            time.sleep(0.01)
        return False


def get(address, path, method="GET"):
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request(method, path, headers={"Authorization": f"Bearer {TENANTS['ann']}"})
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


def memory(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--streampool", type=Path, required=True)
    options.add_argument("--seconds", type=float, default=1800)
    options.add_argument("--clients", type=int, default=12)
    options.add_argument("--pause", type=float, default=0, help="seconds that a client waits before each request")
    options = options.parse_args()
    folder = Path(tempfile.mkdtemp())
    for name, width in MODELS.items():
        write(folder / "models" / f"{name}.onnx", width, name == "heavy")
    spare = folder / "spare.onnx"
    shutil.copy(folder / "models/wide.onnx", spare)
    keys = {name: {"keys": [key], "control": name == "ann"} for name, key in TENANTS.items()}
    keys["greedy"]["max_requests"] = 4
    (folder / "keys.json").write_text(json.dumps(keys))
    process = subprocess.Popen([options.streampool, "serve", folder / "models", "--http", "127.0.0.1:0", "--keys", folder / "keys.json", "--control",
                                "--queue-capacity", "8"], stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "ready" in line:
            break
    else:
        raise SystemExit("the server does not start")
    threading.Thread(target=process.stderr.read, daemon=True).start()
    address = re.search('http="([^"]*)"', line)[1]
    stop = threading.Event()
    tenants = ["ann", "bob"] + ["greedy"] * max(1, options.clients - 2)
    clients = [Client(address, tenant, stop, number, options.pause) for number, tenant in enumerate(tenants)]
    for client in clients:
        client.start()
    problems, samples, loads, begun = [], [], collections.Counter(), time.monotonic()
    while time.monotonic() - begun < options.seconds:
        time.sleep(1)
        garbage = random.random() < 0.3
        target = folder / "models/wide.onnx"
        fresh = folder / "fresh.onnx"
        fresh.write_bytes(b"no model") if garbage else shutil.copy(spare, fresh)
        fresh.replace(target)
        status, body = get(address, "/v2/repository/models/wide/load", "POST")
        loads[status] += 1
        if status != (400 if garbage else 200):
            problems.append(f"a load: {status} {body}")
        samples.append((time.monotonic() - begun, memory(process)))
    stop.set()
    for client in clients:
        client.join()
    # Requests whose clients have gone are over soon.
    for _ in range(100):
        page = get(address, "/metrics")[1]
        pending = sum(int(count) for count in re.findall(r"^nv_inference_pending_request_count{[^}]*} (\d+)", page, re.M))
        if pending == 0:
            break
        time.sleep(0.1)
    told = collections.Counter()
    for outcome, count in re.findall(r'^streampool_tenant_requests{tenant="[^"]*",outcome="([A-Z]+)"} (\d+)', page, re.M):
        told[outcome] += int(count)
    by_model = sum(int(count) for count in re.findall(r"^nv_inference_request_(?:success|failure){[^}]*} (\d+)", page, re.M))
    sent = sum((client.counts for client in clients), collections.Counter())
    problems += [problem for client in clients for problem in client.wrong]
    unseen = sum(sent.values()) - sum(told.values())
    print(f"{options.seconds:.0f} s, {sum(sent.values())} requests, by status {dict(sent)}")
    print(f"the server's counts {dict(told)}; loads {dict(loads)}")
    if not 0 <= unseen <= sent["gone"]:
        problems.append(f"{unseen} requests are not accounted for, and {sent['gone']} clients have gone")
    for status, outcome in (("400", "CLIENT"), ("504", "DEADLINE")):
        if not sent[status] <= told[outcome] <= sent[status] + sent["gone"]:
            problems.append(f"{sent[status]} answers with {status}, and the server counts {told[outcome]} {outcome}")
    rejected = sent["429"] + sent["503"]
    if not rejected <= told["REJECTED"] <= rejected + sent["gone"]:
        problems.append(f"{rejected} refused, and the server counts {told['REJECTED']}")
    if not sent["200"] <= told["SUCCESS"] <= sent["200"] + sent["gone"]:
        problems.append(f"{sent['200']} answered, and the server counts {told['SUCCESS']}")
    if told["BACKEND"]:
        problems.append(f"{told['BACKEND']} failures of models")
    if by_model != sum(told.values()):
        problems.append(f"models count {by_model} requests, tenants {sum(told.values())}")
    settled = [mib for at, mib in samples if at > options.seconds / 5] or [0]
    print(f"memory {settled[0]:.0f} MiB after a fifth of the time, {settled[-1]:.0f} MiB at the end, {max(settled):.0f} MiB at most; "
          f"a client that went away before its request was read is seen by nobody: {unseen}")
    if max(settled) > settled[0] * 1.1 + 8:
        problems.append("memory grows")
    process.send_signal(signal.SIGTERM)
    if process.wait(60):
        problems.append(f"the server ended with {process.returncode}")
    shutil.rmtree(folder)
    print("\n".join(problems[:20]) or "everything is accounted for")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
