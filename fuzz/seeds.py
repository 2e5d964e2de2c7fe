"""Makes the seeds of the fuzz targets in `fuzz/corpus`: small models of each operator from the package onnx, and small files of
weights; and the model that the targets of the server serve. Run it where onnx, numpy and safetensors are installed, then let the
fuzzer minimise: see README.md."""

import io
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.backend.test.loader import load_model_tests

CORPUS = pathlib.Path(__file__).parent / "corpus"
LARGEST = 1200


def put(kind, name, data):
    folder = CORPUS / kind
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def models():
    """The smallest model of each set of operators."""
    smallest = {}
    for case in load_model_tests(kind="node"):
        path = pathlib.Path(case.model_dir or "") / "model.onnx"
        model = case.model or onnx.load(path)
        key = tuple(sorted({node.op_type for node in model.graph.node}))
        data = model.SerializeToString()
        if len(data) < min(LARGEST, len(smallest.get(key, (b"x" * LARGEST, ""))[0])):
            smallest[key] = (data, case.name)
    for data, name in smallest.values():
        put("onnx", name.removeprefix("test_"), data)


def arrays():
    values = {
        "f32": np.array([[1, -2, 3]], np.float32),
        "i64": np.arange(4),
        "f16": np.zeros((2, 0), np.float16),
        "bool": np.array(True),
        "u8_turned": np.asfortranarray(np.arange(6, dtype=np.uint8).reshape(2, 3)),
        "big_endian": np.arange(3, dtype=">i4"),
        "complex": np.zeros(2, np.complex64),
    }
    for name, array in values.items():
        file = io.BytesIO()
        np.save(file, array)
        put("numpy", name, file.getvalue())
    for save in np.savez, np.savez_compressed:
        file = io.BytesIO()
        save(file, **values)
        put("numpy", save.__name__, file.getvalue())


def weights():
    def file(header, data=b""):
        text = header.encode()
        return len(text).to_bytes(8, "little") + text + data

    tensor = '"%s":{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}'
    one = tensor % ("a", "F32", "[2]", 0, 8)
    put("safetensors", "one", file("{" + one + "}", b"\0" * 8))
    two = tensor % ("b", "I64", "[1,1]", 8, 16)
    put("safetensors", "two", file("{" + one + "," + two + "}", b"\0" * 16))
    put("safetensors", "metadata", file('{"__metadata__":{"format":"pt"},' + one + "}", b"\0" * 8))
    for name, kind, size in ("f16", "F16", 2), ("bf16", "BF16", 2), ("bool", "BOOL", 1), ("u8", "U8", 1), ("f64", "F64", 8):
        put("safetensors", name, file("{" + tensor % ("x", kind, "[1]", 0, size) + "}", b"\0" * size))
    put("safetensors", "scalar", file("{" + tensor % ("x", "F32", "[]", 0, 4) + "}", b"\0" * 4))
    put("safetensors", "empty", file("{" + tensor % ("x", "F32", "[0,3]", 0, 0) + "}"))
    put("safetensors", "gap", file("{" + tensor % ("x", "F32", "[1]", 4, 8) + "}", b"\0" * 8))
    put("safetensors", "huge", file("{" + tensor % ("x", "F32", "[4294967296,4294967296]", 0, 4) + "}", b"\0" * 4))
    put("safetensors", "long_header", (1 << 62).to_bytes(8, "little") + b"{}")


def settings():
    lines = {
        "streams": "STREAMPOOL_STREAMS=8",
        "policy": "STREAMPOOL_EXHAUSTION=wait\nSTREAMPOOL_WAIT_TIMEOUT_MS=100",
        "share": "STREAMPOOL_EXHAUSTION=share",
        "memory": "STREAMPOOL_MEMORY_LIMIT=2GiB\nSTREAMPOOL_HIGH_WATERMARK=0.9\nSTREAMPOOL_LOW_WATERMARK=0.5",
        "mitigations": "STREAMPOOL_MITIGATIONS=all",
        "unknown": "STREAMPOOL_STREAM=8",
        "device": "STREAMPOOL_HOST_THREADS=2",
        "not_finite": "STREAMPOOL_LOW_WATERMARK=nan",
        "large": "STREAMPOOL_MEMORY_LIMIT=99999999999999TiB",
    }
    for name, text in lines.items():
        put("settings", name, text.encode())


def served():
    """`y = x + 1`, rows of four numbers."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy")
    one = helper.make_tensor("c", TensorProto.FLOAT, [1], np.ones(1, "<f4").tobytes(), raw=True)
    graph = helper.make_graph([helper.make_node("Add", ["x", "c"], ["y"])], "g", [x], [y], [one])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    (CORPUS.parent / "served.onnx").write_bytes(model.SerializeToString())


def requests():
    infer = "POST /v2/models/m/infer\n"
    row = '{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}]}'
    head = '{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"parameters":{"binary_data_size":16}}],"outputs":[{"name":"y","parameters":{"binary_data":true}}]}'
    length = f"inference-header-content-length:{len(head)}\n"
    texts = {
        "infer": infer + "\n" + row,
        "infer_nested": infer + "\n" + row.replace("[1,2,3,4]", "[[1,2.5e3,-3,null]]"),
        "infer_id": infer + "\n" + row[:-1] + ',"id":"7","parameters":{"timeout":100,"priority":1}}',
        "infer_binary": infer + length + "\n" + head + "0123456789abcdef",
        "infer_raw": infer + "inference-header-content-length:0\n\n0123456789abcdef",
        "infer_version": "POST /v2/models/m/versions/1/infer\n\n" + row,
        "infer_types": infer + "\n" + row.replace("FP32", "BYTES"),
        "index": "POST /v2/repository/index\n\n{\"ready\":true}",
        "load": "POST /v2/repository/models/m/load\n\n{}",
        "trace": "POST /v2/trace/setting\n\n{\"trace_level\":[\"TIMESTAMPS\"],\"trace_rate\":\"500\"}",
        "logging": "POST /v2/logging\n\n{\"log_verbose_level\":1}",
        "shared": "POST /v2/systemsharedmemory/region/a/register\n\n{\"key\":\"/a\",\"offset\":0,\"byte_size\":64}",
        "gzip": infer + "content-encoding:gzip\n\n\x1f",
        "traceparent": infer + "traceparent:00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n\n" + row,
    }
    for path in ("", "/", "/models/m", "/models/m/config", "/models/m/stats", "/models/m/versions/1/ready", "/health/live", "/models/%ff"):
        texts["get" + path.replace("/", "_").replace("%", "")] = f"GET /v2{path}\n\n"
    texts["metrics"] = "GET /metrics\naccept:application/openmetrics-text\n\n"
    texts["openapi"] = "GET /openapi.json\n\n"
    for name, text in texts.items():
        put("http", name, text.encode("latin-1"))


def configs():
    texts = {
        "names": 'name: "m"\nplatform: "onnxruntime_onnx"\ndefault_model_filename: "model.onnx"\n# none\n',
        "batching": "max_batch_size: 8\ndynamic_batching { preferred_batch_size: [4, 8] max_queue_delay_microseconds: 100 }",
        "queue": "max_batch_size: 4 dynamic_batching { priority_levels: 3 default_priority_level: 2 preserve_ordering: false "
        "default_queue_policy { max_queue_size: 9 default_timeout_microseconds: 1000 allow_timeout_override: true } }",
        "ports": 'max_batch_size: 2 input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ] output { name: "y" data_type: TYPE_FP32 dims: 4 }',
        "versions": "version_policy: { specific { versions: [1, 2] } }",
        "latest": "version_policy { latest { num_versions: 1 } }",
        "all": "version_policy { all { } }",
        "instances": "instance_group [ { kind: KIND_CPU count: 2 } ]",
        "warm": 'model_warmup { name: "w" batch_size: 1 inputs { key: "x" value: { data_type: TYPE_FP32 dims: 4 zero_data: true } } }',
        "parameters": "parameters { key: 'a' value: { string_value: \"\\n\\x41\" } }",
        "deep": "a { " * 40,
        "large": "max_batch_size: 99999999999999999999",
    }
    for name, text in texts.items():
        put("config", name, text.encode())


def reports():
    point = '{"via":"threads","threads":2,"rows":%s,"latency_seconds":{"p50":%s,"p99":%s}}'
    texts = {
        "report": '{"points":[%s,%s]}' % (point % (1, 0.001, 0.002), point % (8, 0.004, 0.005)),
        "report_null": '{"points":[%s]}' % (point % (1, "null", 1)),
        "report_large": '{"points":[%s]}' % (point % (1 << 63, 1e308, 1e308)),
        "report_small": '{"points":[%s]}' % (point % (1, 5e-324, 0)),
        "none": '{"points":[]}',
        "keys": '{"ann":{"keys":["0123456789abcdef"],"weight":2.5,"max_requests":3,"control":true}}',
        "keys_two": '{"a":{"keys":["0123456789abcdef"]},"b":{"keys":["0123456789abcdef"]}}',
        "keys_weight": '{"a":{"keys":[],"weight":0}}',
        "keys_name": '{"":{"keys":["x"]}}',
    }
    for name, text in texts.items():
        put("reports", name, text.encode())


models()
arrays()
weights()
settings()
served()
requests()
configs()
reports()
