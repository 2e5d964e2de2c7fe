"""The server as NVIDIA's clients see it: every type, forms of calls, errors, many clients. `ci/serve.sh` runs it."""

import concurrent.futures
import queue
import os
import re
import sys
import time
import urllib.request

import ml_dtypes
import numpy as np
import tritonclient.grpc as grpc
import tritonclient.http as http
import tritonclient.utils.shared_memory as shm
from onnx import TensorProto, helper, save
from program import Program
from tritonclient.utils import InferenceServerException, np_to_triton_dtype, serialize_byte_tensor

TYPES = {
    "BOOL": (TensorProto.BOOL, np.bool_),
    "UINT8": (TensorProto.UINT8, np.uint8),
    "UINT16": (TensorProto.UINT16, np.uint16),
    "UINT32": (TensorProto.UINT32, np.uint32),
    "UINT64": (TensorProto.UINT64, np.uint64),
    "INT8": (TensorProto.INT8, np.int8),
    "INT16": (TensorProto.INT16, np.int16),
    "INT32": (TensorProto.INT32, np.int32),
    "INT64": (TensorProto.INT64, np.int64),
    "FP16": (TensorProto.FLOAT16, np.float16),
    "BF16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
    "FP32": (TensorProto.FLOAT, np.float32),
    "FP64": (TensorProto.DOUBLE, np.float64),
}


def identity(path, kind, width=4):
    path.parent.mkdir(parents=True, exist_ok=True)
    x, y = (helper.make_tensor_value_info(name, kind, ["batch", width]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "identity", [x], [y])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


class Server(Program):
    """The program on a folder of models."""

    def prepare(self, models):
        for name, (kind, _) in TYPES.items():
            identity(models / f"{name}.onnx", kind)
        identity(models / "strings.onnx", TensorProto.STRING)
        identity(models / "versions/1/model.onnx", TensorProto.FLOAT)
        identity(models / "versions/2/model.onnx", TensorProto.FLOAT)
        (models / "versions/config.pbtxt").write_text("max_batch_size: 8 version_policy { all {} }")
        self.traces = models.parent / f"{models.name}-traces"
        return [models, "--control", "--max-in-flight", "1", "--shared-memory", "streampool-clients-", "--traces", self.traces, "--trace-rate", "1"]


def values(dtype):
    return (np.arange(8).reshape(2, 4) % 2 if dtype == np.bool_ else np.arange(8).reshape(2, 4)).astype(dtype)


def given(module, name, array, **options):
    tensor = module.InferInput("x", list(array.shape), name)
    tensor.set_data_from_numpy(array, **options)
    return [tensor]


def test_every_type(server):
    with http.InferenceServerClient(server.http) as client, grpc.InferenceServerClient(server.grpc) as other:
        for name, (_, dtype) in TYPES.items():
            assert np_to_triton_dtype(np.dtype(dtype)) == name
            array = values(dtype)
            forms = [True] if name in ("FP16", "BF16") else [True, False]
            for binary in forms:
                inputs = given(http, name, array, binary_data=binary)
                outputs = [http.InferRequestedOutput("y", binary_data=binary)]
                for algorithm in (None, "gzip", "deflate"):
                    result = client.infer(
                        name, inputs, outputs=outputs,
                        request_compression_algorithm=algorithm, response_compression_algorithm=algorithm,
                    )
                    assert np.array_equal(result.as_numpy("y"), array), (name, binary, algorithm)
            for algorithm in (None, "gzip", "deflate"):
                result = other.infer(name, given(grpc, name, array), compression_algorithm=algorithm)
                assert np.array_equal(result.as_numpy("y"), array), (name, algorithm)


def test_strings(server):
    array = np.array([["red", "", "gr\u00fcn", "two words"]] * 2, dtype=object)
    region = shm.create_shared_memory_region("strings", key := f"/streampool-clients-{os.getpid()}-strings", 1024)
    size = shared_memory_size(array)
    shm.set_shared_memory_region(region, [serialize_byte_tensor(array)])
    expected = [[word.encode() for word in row] for row in array]
    for module, address in ((http, server.http), (grpc, server.grpc)):
        with module.InferenceServerClient(address) as client:
            for options in [{}] if module is grpc else [{"binary_data": True}, {"binary_data": False}]:
                result = client.infer("strings", given(module, "BYTES", array, **options), outputs=[module.InferRequestedOutput("y", **options)])
                read = result.as_numpy("y")
                assert [[word if isinstance(word, bytes) else word.encode() for word in row] for row in read.tolist()] == expected, read
            client.register_system_shared_memory("strings", key, 1024)
            tensor = module.InferInput("x", list(array.shape), "BYTES")
            tensor.set_shared_memory("strings", size)
            assert client.infer("strings", [tensor]).as_numpy("y").tolist() == expected
            client.unregister_system_shared_memory()
    shm.destroy_shared_memory_region(region)


def shared_memory_size(array):
    return sum(4 + len(word.encode()) for word in array.flat)


def test_metadata(server):
    for module, address in ((http, server.http), (grpc, server.grpc)):
        with module.InferenceServerClient(address) as client:
            assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("FP32")
            assert not client.is_model_ready("none") and not client.is_model_ready("versions", "3")
            options = {"as_json": True} if module is grpc else {}
            assert client.get_server_metadata(**options)["name"] == "streampool"
            metadata = client.get_model_metadata("versions", **options)
            assert metadata["versions"] == ["1", "2"]
            assert [int(size) for size in metadata["inputs"][0]["shape"]] == [-1, 4]
            config = client.get_model_config("versions", **options)
            config = config.get("config", config)
            assert config["max_batch_size"] == 8 and config["input"][0]["data_type"] == "TYPE_FP32"
            client.infer("versions", given(module, "FP32", values(np.float32)), model_version="1")
            statistics = client.get_inference_statistics("versions", "1", **options)["model_stats"][0]
            assert int(statistics["inference_count"]) >= 2 and int(statistics["inference_stats"]["success"]["count"]) >= 1


def test_asynchronous_and_streaming(server):
    array = values(np.float32)
    with http.InferenceServerClient(server.http, concurrency=8) as client:
        calls = [client.async_infer("FP32", given(http, "FP32", array + number)) for number in range(32)]
        for number, call in enumerate(calls):
            assert np.array_equal(call.get_result().as_numpy("y"), array + number)
    answers = queue.Queue()
    with grpc.InferenceServerClient(server.grpc) as client:
        for number in range(32):
            client.async_infer("FP32", given(grpc, "FP32", array), lambda result, error: answers.put((result, error)))
        for _ in range(32):
            result, error = answers.get(timeout=20)
            assert error is None and np.array_equal(result.as_numpy("y"), array)
        client.start_stream(lambda result, error: answers.put((result, error)))
        for number in range(100):
            client.async_stream_infer("FP32", given(grpc, "FP32", array + number), request_id=str(number))
        client.async_stream_infer("none", given(grpc, "FP32", array))
        for number in range(100):
            result, error = answers.get(timeout=20)
            assert error is None and result.get_response().id == str(number), "answers come in order"
            assert np.array_equal(result.as_numpy("y"), array + number)
        _, error = answers.get(timeout=20)
        assert "not found" in str(error)
        client.stop_stream()


def fails(call, status, text):
    try:
        call()
    except InferenceServerException as error:
        assert status in str(error.status()) and text in error.message(), error
    else:
        raise AssertionError(f"expected {status}")


def test_errors(server):
    for module, address, codes in (
        (http, server.http, {"wrong": "400", "none": "404", "late": "504"}),
        (grpc, server.grpc, {"wrong": "INVALID_ARGUMENT", "none": "NOT_FOUND", "late": "DEADLINE_EXCEEDED"}),
    ):
        with module.InferenceServerClient(address) as client:
            good = given(module, "FP32", values(np.float32))
            wide = given(module, "FP32", np.zeros((1, 5), np.float32))
            rows = given(module, "FP32", np.zeros((9, 4), np.float32))
            fails(lambda: client.infer("none", good), codes["none"], "unknown model")
            fails(lambda: client.infer("versions", good, model_version="9"), codes["none"], "version 9")
            fails(lambda: client.infer("INT32", good), codes["wrong"], "data-type")
            fails(lambda: client.infer("FP32", wide), codes["wrong"], "shape")
            fails(lambda: client.infer("versions", rows), codes["wrong"], "batch-size must be <= 8")
            fails(lambda: client.infer("FP32", []), codes["wrong"], "Missing")
            fails(lambda: client.infer("FP32", good, outputs=[module.InferRequestedOutput("z")]), codes["wrong"], "unexpected")
            fails(lambda: client.infer("FP32", good, sequence_id=7), codes["wrong"], "sequences")


def test_classes(server):
    array = np.array([[0.5, 2, 1, 0]], np.float32)
    for module, address in ((http, server.http), (grpc, server.grpc)):
        with module.InferenceServerClient(address) as client:
            outputs = [module.InferRequestedOutput("y", class_count=2)]
            result = client.infer("FP32", given(module, "FP32", array), outputs=outputs).as_numpy("y")
            assert result.tolist() == [[b"2.000000:1", b"1.000000:2"]], result


def test_repository(server):
    for module, address in ((http, server.http), (grpc, server.grpc)):
        with module.InferenceServerClient(address) as client:
            client.unload_model("UINT8")
            assert not client.is_model_ready("UINT8")
            client.load_model("UINT8")
            assert client.is_model_ready("UINT8")
            options = {"as_json": True} if module is grpc else {}
            index = client.get_model_repository_index(**options)
            index = index["models"] if module is grpc else index
            assert {model["name"] for model in index} == {*TYPES, "strings", "versions"}
            fails(lambda: client.load_model("none"), "", "unknown model")


def test_shared_memory(server):
    array = values(np.float32)
    for module, address in ((http, server.http), (grpc, server.grpc)):
        with module.InferenceServerClient(address) as client:
            keys = [f"/streampool-clients-{os.getpid()}-{name}" for name in ("in", "out")]
            regions = [shm.create_shared_memory_region(name, key, array.nbytes) for name, key in zip(("in", "out"), keys)]
            try:
                shm.set_shared_memory_region(regions[0], [array])
                for name, key in zip(("in", "out"), keys):
                    client.register_system_shared_memory(name, key, array.nbytes)
                tensor = module.InferInput("x", list(array.shape), "FP32")
                tensor.set_shared_memory("in", array.nbytes)
                wanted = module.InferRequestedOutput("y")
                wanted.set_shared_memory("out", array.nbytes)
                result = client.infer("FP32", [tensor], outputs=[wanted])
                assert result.get_output("y") is not None
                assert np.array_equal(shm.get_contents_as_numpy(regions[1], np.float32, list(array.shape)), array)
                # The other way round: the answer comes as bytes.
                assert np.array_equal(client.infer("FP32", [tensor]).as_numpy("y"), array)
                wanted.set_shared_memory("out", 8)
                fails(lambda: client.infer("FP32", [tensor], outputs=[wanted]), "", "should be at least 32 bytes")
                tensor.set_shared_memory("in", array.nbytes, offset=4)
                fails(lambda: client.infer("FP32", [tensor]), "", "are not in the shared memory region")
                fails(lambda: client.register_system_shared_memory("other", "/other-object", 8), "", "begin with")
                options = {"as_json": True} if module is grpc else {}
                status = client.get_system_shared_memory_status(**options)
                assert len(status["regions"] if module is grpc else status) == 2
                client.unregister_system_shared_memory("in")
                client.unregister_system_shared_memory()
                client.unregister_cuda_shared_memory()
                fails(lambda: client.infer("FP32", [tensor]), "", "Unable to find")
            finally:
                for region in regions:
                    shm.destroy_shared_memory_region(region)


def test_settings(server):
    for module, address in ((http, server.http), (grpc, server.grpc)):
        with module.InferenceServerClient(address) as client:
            options = {"as_json": True} if module is grpc else {}

            def log():
                settings = client.get_log_settings(**options)
                if module is http:
                    return settings
                return {name: next(iter(value.values())) for name, value in settings["settings"].items()}

            def traces(model=None):
                settings = client.get_trace_settings(model_name=model, **options)
                if module is http:
                    return settings
                settings = {name: value["value"] for name, value in settings["settings"].items()}
                return {name: value if name == "trace_level" else value[0] for name, value in settings.items()}

            client.update_log_settings({"log_verbose_level": 1, "log_info": False})
            assert int(log()["log_verbose_level"]) == 1 and not log()["log_info"] and log()["log_error"]
            before = len(server.log)
            fails(lambda: client.infer("FP32", []), "", "Missing")
            for _ in range(400):
                if any("Missing" in line for line in server.log[before:]):
                    break
                time.sleep(0.05)
            else:
                raise AssertionError("the log does not show a request that failed")
            client.update_log_settings({"log_verbose_level": 0, "log_info": True})
            fails(lambda: client.update_log_settings({"log_file": "/tmp/log"}), "", "standard error")
            client.update_trace_settings(model_name="FP32", settings={"trace_level": "OFF", "trace_rate": "9"})
            assert traces("FP32")["trace_level"] == ["OFF"] and traces("FP32")["trace_rate"] == "9"
            assert traces()["trace_level"] == ["TIMESTAMPS"] and traces()["trace_rate"] == "1"
            client.update_trace_settings(model_name="FP32", settings={"trace_level": None, "trace_rate": None})
            assert traces("FP32") == traces()
            fails(lambda: client.update_trace_settings(settings={"trace_file": "/tmp/traces"}), "", "--traces")
    for _ in range(400):
        # They leave each second.
        if server.traces.exists() and "infer FP32" in server.traces.read_text():
            break
        time.sleep(0.05)
    else:
        raise AssertionError("there is no trace")


def test_many_clients(server):
    def client(number):
        module, address = ((http, server.http), (grpc, server.grpc))[number % 2]
        with module.InferenceServerClient(address) as client:
            for call in range(50):
                array = values(np.float32) + number * 1000 + call
                result = client.infer("INT64", given(module, "INT64", array.astype(np.int64)), timeout=5_000_000)
                assert np.array_equal(result.as_numpy("y"), array)

    def count(name):
        page = urllib.request.urlopen(f"http://{server.http}/metrics").read().decode()
        return int(re.search(rf'^{name}{{model="INT64",version="1"}} (\d+)', page, re.M)[1])

    before = count("nv_inference_request_success")
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        list(threads.map(client, range(16)))
    assert count("nv_inference_request_success") - before == 16 * 50


if __name__ == "__main__":
    with Server() as running:
        for name, test in list(globals().items()):
            if name.startswith("test_"):
                test(running)
                print(name, "ok", flush=True)
    sys.exit()
