"""Makes the seeds of the fuzz targets in `fuzz/corpus`: small models of each operator from the package onnx, and small files of
weights. Run it where onnx, numpy and safetensors are installed, then let the fuzzer minimise: see README.md."""

import io
import pathlib

import numpy as np
import onnx
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


models()
arrays()
weights()
settings()
