"""The same requests to a real Triton and to `streampool serve`: status, JSON and tensors are compared.

    python3 -m pip download --no-deps -d /tmp/triton nvidia-pytriton==0.7.0 && (cd /tmp/triton && unzip -q *.whl)
    python3 -m pip install 'numpy<2' onnx            # Triton's backend knows no newer numpy
    python3 bench/serve/differential.py --triton /tmp/triton/pytriton/tritonserver --streampool target/release/streampool

Triton's Python backend needs Debian's own Python 3.11; Triton itself runs on the CPU. The exit code is 1 if there is a difference that the
table ALLOWED does not explain.
"""

import argparse
import collections
import http.client
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

# Name of the model, its type, and how many rows a batch has.
MODELS = [("floats", "FP32", 8), ("ints", "INT32", 4), ("longs", "INT64", 8), ("doubles", "FP64", 8), ("bytes", "UINT8", 8), ("flags", "BOOL", 8), ("halves", "FP16", 8)]
TYPES = {"FP32": np.float32, "INT32": np.int32, "INT64": np.int64, "FP64": np.float64, "UINT8": np.uint8, "BOOL": np.bool_, "FP16": np.float16}
ONNX = {"FP32": "FLOAT", "INT32": "INT32", "INT64": "INT64", "FP64": "DOUBLE", "UINT8": "UINT8", "BOOL": "BOOL", "FP16": "FLOAT16"}

# What may differ: a name, when it applies, and why.
ALLOWED = [
    ("a fault of the client is 400", lambda one, two: one.status == 500 and two.status == 400,
     "Triton answers malformed JSON and wrong counts of elements with 500"),
    ("an unknown model is 404", lambda one, two: one.status == 400 and two.status == 404 and one.kind in ("metadata", "settings"),
     "for statistics and settings Triton answers with 400, for metadata with 404"),
    ("other text of an error", lambda one, two: one.status == two.status >= 400, "the texts are not part of the protocol"),
    ("more about the server or the model", lambda one, two: one.status == two.status == 200 and one.kind in ("metadata", "config", "index", "statistics"),
     "names, versions, platforms, and fields that only one of them has; what both have is compared by hand below"),
    ("a setting that cannot be is refused", lambda one, two: one.status in (200, 501) and two.status == 400 and one.kind == "settings",
     "Triton ignores names and values that it does not know, and answers 501 for files"),
    ("settings in force", lambda one, two: one.status == two.status == 200 and one.kind == "settings",
     "modes and files of traces and logs that only one of them has"),
    ("classes", lambda one, two: one.kind == "classes" and one.status == two.status == 200, "floating point digits of `value:index`"),
    ("stricter about what the request says", lambda one, two: one.status == 200 and two.status == 400 and one.kind == "strict",
     "an input that is given twice, and bytes that belong to no input, are refused here"),
]

PYTHON = f"""
import sys
sys.path.insert(0, {str(Path(np.__file__).parents[1])!r})
import triton_python_backend_utils as utils
class TritonPythonModel:
    def execute(self, requests):
        return [utils.InferenceResponse([utils.Tensor("y", utils.get_input_tensor_by_name(of, "x").as_numpy())]) for of in requests]
"""

Answer = collections.namedtuple("Answer", "kind status headers body")


def configuration(name, kind, rows, backend):
    return (f'name: "{name}" {backend} max_batch_size: {rows} input [ {{ name: "x" data_type: TYPE_{kind} dims: [ 4 ] }} ] '
            f'output [ {{ name: "y" data_type: TYPE_{kind} dims: [ 4 ] }} ]')


def write(folder):
    for name, kind, rows in MODELS:
        for side, backend in (("triton", 'backend: "python"'), ("streampool", "")):
            version = folder / side / name / "1"
            version.mkdir(parents=True)
            (version.parent / "config.pbtxt").write_text(configuration(name, kind, rows, backend))
        (folder / "triton" / name / "1/model.py").write_text(PYTHON)
        number = getattr(TensorProto, ONNX[kind])
        x, y = (helper.make_tensor_value_info(port, number, ["batch", 4]) for port in "xy")
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], name, [x], [y])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), folder / "streampool" / name / "1/model.onnx")


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def start(command, port, environment=None):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    for _ in range(600):
        if process.poll() is not None:
            raise SystemExit(f"{command[0]} ended with {process.returncode}")
        try:
            if ask(port, ("health", "GET", "/v2/health/ready", {}, b"")).status == 200:
                return process
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"{command[0]} is not ready after a minute")


def ask(port, request):
    kind, method, path, headers, body = request
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    answer = Answer(kind, response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
    connection.close()
    return answer


def requests():
    """Kind, method, path, headers, body."""
    for path in ("/v2/health/live", "/v2/health/ready", "/v2", "/v2/models/none", "/v2/models/none/ready", "/v2/models/none/config",
                 "/v2/models/none/stats", "/v2/models/floats/versions/9", "/v2/models/floats/versions/x", "/v2/none", "/none"):
        yield "metadata", "GET", path, {}, b""
    for name, kind, rows in MODELS:
        for path in ("", "/ready", "/config", "/stats", "/versions/1", "/versions/1/ready"):
            yield "metadata", "GET", f"/v2/models/{name}{path}", {}, b""
        yield from inferences(name, kind, rows)
    yield "metadata", "GET", "/v2/models/floats/infer", {}, b""
    for path in ("/v2/logging", "/v2/trace/setting", "/v2/models/floats/trace/setting", "/v2/models/none/trace/setting",
                 "/v2/systemsharedmemory/status", "/v2/systemsharedmemory/region/none/status", "/v2/cudasharedmemory/status"):
        yield "settings", "GET", path, {}, b""
    for path, value in (("/v2/logging", {"log_verbose_level": 1}), ("/v2/logging", {"log_info": False}), ("/v2/logging", {"log_info": True, "log_verbose_level": 0}),
                        ("/v2/logging", {"log_info": 3}), ("/v2/logging", {"log_verbose_level": "high"}), ("/v2/logging", {"none": 1}),
                        ("/v2/logging", {"log_format": "ISO8601"}), ("/v2/logging", {"log_file": "/tmp/none"}),
                        ("/v2/trace/setting", {"trace_rate": "5"}), ("/v2/trace/setting", {"trace_rate": "-1"}), ("/v2/trace/setting", {"none": "1"}),
                        ("/v2/trace/setting", {"trace_level": ["HIGH"]}), ("/v2/trace/setting", {"trace_file": "/tmp/none"}),
                        ("/v2/models/floats/trace/setting", {"trace_count": "3"}), ("/v2/models/floats/trace/setting", {"trace_count": None}),
                        ("/v2/models/none/trace/setting", {"trace_count": "3"}),
                        ("/v2/systemsharedmemory/region/one/register", {"key": "/none", "offset": 0, "byte_size": 64}),
                        ("/v2/systemsharedmemory/region/one/register", {"offset": 0, "byte_size": 64}),
                        ("/v2/systemsharedmemory/region/none/unregister", {}), ("/v2/systemsharedmemory/unregister", {}),
                        ("/v2/cudasharedmemory/unregister", {}), ("/v2/cudasharedmemory/region/none/unregister", {})):
        yield "settings", "POST", path, {}, json.dumps(value).encode()
    yield "index", "POST", "/v2/repository/index", {}, b""
    yield "index", "POST", "/v2/repository/index", {}, b'{"ready": true}'
    yield "infer", "POST", "/v2/models/none/infer", {}, b"{}"


def inferences(name, kind, most):
    path, dtype = f"/v2/models/{name}/infer", np.dtype(TYPES[kind])
    rng = np.random.default_rng(len(name))

    def post(what, value, headers=None, rest=b"", at=path):
        text = value if isinstance(value, bytes) else json.dumps(value).encode()
        headers = dict(headers or {})
        if rest:
            headers["Inference-Header-Content-Length"] = str(len(text))
        return what, "POST", at, headers, text + rest

    def tensor(array, **more):
        return {"name": "x", "datatype": kind, "shape": list(array.shape), **more}

    for rows in (1, 2, most):
        array = rng.integers(0, 2, (rows, 4)).astype(dtype) if kind == "BOOL" else rng.integers(0, 100, (rows, 4)).astype(dtype)
        raw, size = array.tobytes(), {"binary_data_size": array.nbytes}
        for output in (None, {"binary_data": True}, {"binary_data": False}):
            outputs = {} if output is None else {"outputs": [{"name": "y", "parameters": output}]}
            yield post("infer", {"inputs": [tensor(array, parameters=size)], **outputs, "id": "an id"}, rest=raw)
            if kind != "FP16":
                yield post("infer", {"inputs": [tensor(array, data=array.tolist())], **outputs})
                yield post("infer", {"inputs": [tensor(array, data=array.ravel().tolist())], **outputs, "id": "7"})
        yield post("infer", {"inputs": [tensor(array, parameters=size)], "parameters": {"binary_data_output": True}}, rest=raw)
        yield post("infer", {"inputs": [tensor(array, parameters=size)], "parameters": {"priority": 0, "timeout": 5_000_000}}, rest=raw)
        yield post("infer", {"inputs": [tensor(array, parameters=size)]}, rest=raw, at=f"/v2/models/{name}/versions/1/infer")
        # Wrong in one way each.
        yield post("infer", {"inputs": [tensor(array, parameters={"binary_data_size": array.nbytes - 1})]}, rest=raw[:-1])
        yield post("infer", {"inputs": [tensor(array, parameters={"binary_data_size": array.nbytes + 9})]}, rest=raw)
        yield post("strict", {"inputs": [tensor(array, parameters=size)]}, rest=raw + b"more")
        yield post("infer", {"inputs": [tensor(array)]})
    good = np.zeros((1, 4), dtype)
    data = {"data": good.tolist()}
    for wrong in (
        {}, {"inputs": []}, {"inputs": {}}, {"inputs": [{}]}, {"inputs": [tensor(good, **data)], "outputs": [{"name": "z"}]},
        {"inputs": [{**tensor(good, **data), "name": "z"}]}, {"inputs": [{**tensor(good, **data), "datatype": "FP33"}]},
        {"inputs": [{**tensor(good, **data), "datatype": "INT16" }]}, {"inputs": [{**tensor(good, **data), "shape": [1, 5]}]},
        {"inputs": [{**tensor(good, **data), "shape": [4]}]}, {"inputs": [{**tensor(good, **data), "shape": [1, -4]}]},
        {"inputs": [{**tensor(good, **data), "shape": ["1", 4]}]}, {"inputs": [tensor(good, data=[[0, 0, 0]])]},
        {"inputs": [tensor(good, data=[[0, 0, 0, 0, 0]])]}, {"inputs": [tensor(good, data="text")]}, {"inputs": [tensor(good, data=[["a", 0, 0, 0]])]},
        {"inputs": [tensor(np.zeros((most + 1, 4), dtype), data=np.zeros((most + 1, 4), dtype).tolist())]},
    ):
        yield post("infer", wrong)
    yield post("strict", {"inputs": [tensor(good, **data), tensor(good, **data)]})
    for text in (b"", b"{", b"[]", b"null", b'{"inputs": [', b"\xff\xfe", b'{"inputs": 3}'):
        yield post("infer", text)
    yield post("infer", b"{}", {"Inference-Header-Content-Length": "99"})
    yield post("infer", b"{}", {"Inference-Header-Content-Length": "-1"})
    if kind in ("FP32", "INT32"):
        array = np.array([[3, 1, 2, 0]], dtype)
        yield post("classes", {"inputs": [tensor(array, data=array.tolist())], "outputs": [{"name": "y", "parameters": {"classification": 2}}]})


def parts(answer):
    """The JSON of an answer, with the bytes of tensors in it."""
    length = answer.headers.get("inference-header-content-length")
    head = answer.body if length is None else answer.body[:int(length)]
    try:
        value = json.loads(head) if head else None
    except ValueError:
        return head
    if length is not None:
        rest = answer.body[int(length):]
        for output in value.get("outputs", []):
            size = output.get("parameters", {}).get("binary_data_size", 0)
            output["bytes"], rest = rest[:size].hex(), rest[size:]
    return value


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--triton", type=Path, required=True, help="the folder `tritonserver` of the wheel nvidia-pytriton")
    options.add_argument("--streampool", type=Path, required=True)
    options = options.parse_args()
    folder = Path(tempfile.mkdtemp())
    write(folder)
    one, two = free_port(), free_port()
    triton = options.triton.resolve()
    environment = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(map(str, (triton / "external_libs", triton / "lib", triton.parents[1] / "nvidia_pytriton.libs")))}
    # The Python backend starts this; the wheel has one for each version of Python.
    if not (stub := triton / "backends/python/triton_python_backend_stub").exists():
        shutil.copy(triton / "python_backend_stubs/3.11" / stub.name, stub)
    for program in itertools.chain(triton.rglob("triton_python_backend_stub"), triton.glob("bin/*")):
        program.chmod(0o755)
    running = []
    try:
        running.append(start([triton / "bin/tritonserver", f"--model-repository={folder / 'triton'}", f"--backend-directory={triton / 'backends'}",
                              f"--http-port={one}", "--allow-grpc=false", "--allow-metrics=false", "--model-control-mode=none"], one, environment))
        running.append(start([options.streampool, "serve", folder / "streampool", "--http", f"127.0.0.1:{two}", "--control", "--shared-memory", "",
                              "--traces", folder / "traces"], two))
        counts, unexplained, total = collections.Counter(), [], 0
        for request in requests():
            total += 1
            theirs, ours = ask(one, request), ask(two, request)
            if ours.status >= 500 and ours.status not in (503, 504):
                unexplained.append((request, theirs, ours))
            elif theirs.status == ours.status and parts(theirs) == parts(ours):
                counts["the same"] += 1
            else:
                names = [name for name, applies, _ in ALLOWED if applies(theirs, ours)]
                if names:
                    counts[names[0]] += 1
                else:
                    unexplained.append((request, theirs, ours))
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            process.wait(60)
        shutil.rmtree(folder)
    for name, count in counts.most_common():
        print(f"{count:5} {name}")
    print(f"{len(unexplained):5} not explained, of {total}")
    for (kind, method, path, headers, body), theirs, ours in unexplained[:40]:
        print(f"\n{kind} {method} {path} {headers} {body[:200]!r}\n  Triton:     {theirs.status} {theirs.body[:300]!r}\n  Streampool: {ours.status} {ours.body[:300]!r}")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
