"""The server as operators set it up: keys, TLS, text, reflection, health, and the files in `deploy`. `ci/serve.sh` runs it."""

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import grpc
import manifest
import numpy as np
import onnx
import openai
import tritonclient.grpc
import tritonclient.http
import yaml
from google.protobuf import descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from onnx import TensorProto, helper, numpy_helper
from program import Program

HERE = Path(__file__).resolve().parent
TLS = HERE.parent / "server/tls"
ROOT = HERE.parents[3]
KEY = "anns-secret-key"
WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "red", "green", "blue", "grey"]


def identity(path):
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "identity", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


def encoder(folder):
    """The vector of a token is its number, and 1; that of a text is their mean."""
    table = np.array([[number, 1] for number in range(len(WORDS))], np.float32)
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in ("input_ids", "attention_mask")]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "length", 2])
    node = helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])
    graph = helper.make_graph([node], "encoder", inputs, [output], [numpy_helper.from_array(table, "table")])
    (folder / "1").mkdir(parents=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), folder / "1/model.onnx")
    mark = lambda id: {"SpecialToken": {"id": WORDS[id], "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"}, "decoder": None,
        "post_processor": {
            "type": "TemplateProcessing", "single": [mark(1), text, mark(2)], "pair": [mark(1), text, mark(2), {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {WORDS[id]: {"id": WORDS[id], "ids": [id], "tokens": [WORDS[id]]} for id in (1, 2)},
        },
        "model": {"type": "WordLevel", "vocab": {word: id for id, word in enumerate(WORDS)}, "unk_token": "[UNK]"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


class Server(Program):
    """The program with keys and TLS."""

    def prepare(self, folder):
        self.models = folder / "models"
        self.models.mkdir()
        identity(self.models / "same.onnx")
        encoder(self.models / "words")
        keys = folder / "keys.json"
        keys.write_text(json.dumps({"ann": {"keys": [KEY], "weight": 2}}))
        self.context = ssl.create_default_context(cafile=TLS / "root.pem")
        files = ["--tls-cert", TLS / "server.pem", "--tls-key", TLS / "server.key"]
        return [self.models, "--keys", keys, *files, "--watch", "0.2", "--drain-delay", "1"]

    def channel(self):
        return grpc.secure_channel(self.grpc, grpc.ssl_channel_credentials((TLS / "root.pem").read_bytes()))

    def get(self, path, key=KEY):
        request = urllib.request.Request(f"https://{self.http}{path}", headers={"Authorization": f"Bearer {key}"})
        return urllib.request.urlopen(request, context=self.context, timeout=20).read()


def given(module):
    tensor = module.InferInput("x", [2, 4], "FP32")
    tensor.set_data_from_numpy(np.arange(8, dtype=np.float32).reshape(2, 4))
    return [tensor]


def test_keys_and_tls(server):
    for module, address, options in (
        (tritonclient.http, server.http, {"ssl": True, "ssl_options": {"ca_certs": str(TLS / "root.pem")}}),
        (tritonclient.grpc, server.grpc, {"ssl": True, "root_certificates": str(TLS / "root.pem")}),
    ):
        with module.InferenceServerClient(address, **options) as client:
            assert client.is_server_ready()
            result = client.infer("same", given(module), headers={"authorization": f"Bearer {KEY}"})
            assert result.as_numpy("y").tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
            try:
                client.infer("same", given(module), headers={"authorization": "Bearer other"})
            except Exception as error:
                assert "key" in str(error), error
            else:
                raise AssertionError("another key is refused")
    try:
        server.get("/metrics", "other")
    except urllib.error.HTTPError as error:
        assert error.code == 401
    else:
        raise AssertionError("another key is refused")
    assert b'streampool_tenant_requests{tenant="ann",outcome="SUCCESS"} 2' in server.get("/metrics")


def test_openai(server):
    transport = openai.DefaultHttpxClient(verify=server.context)
    client = openai.OpenAI(base_url=f"https://{server.http}/v1", api_key=KEY, http_client=transport)
    assert [model.id for model in client.models.list()] == ["words"]
    for options in ({}, {"encoding_format": "float"}):
        answer = client.embeddings.create(model="words", input=["red", "green blue grey"], **options)
        assert answer.usage.prompt_tokens == 8
        for one, tokens in zip(answer.data, ([1, 4, 2], [1, 5, 6, 7, 2])):
            vector = np.array([np.mean(tokens), 1])
            assert np.allclose(one.embedding, vector / np.linalg.norm(vector), atol=1e-6), one
    for model, status in (("none", openai.NotFoundError), ("same", openai.BadRequestError)):
        try:
            client.embeddings.create(model=model, input="red")
        except status as error:
            assert model in error.message
        else:
            raise AssertionError(status)


def test_reflection(server):
    """A client that knows only the address calls the model."""
    with server.channel() as channel:
        keyed = grpc.intercept_channel(channel, Keyed())
        database = ProtoReflectionDescriptorDatabase(keyed)
        assert set(database.get_services()) == {"inference.GRPCInferenceService", "grpc.health.v1.Health"}
        pool = descriptor_pool.DescriptorPool(database)
        for name in database.get_services():
            service = pool.FindServiceByName(name)
            assert service.methods
        method = pool.FindServiceByName("inference.GRPCInferenceService").FindMethodByName("ModelInfer")
        request = message_factory.GetMessageClass(method.input_type)(model_name="same", id="7")
        request.inputs.add(name="x", datatype="FP32", shape=[1, 4]).contents.fp32_contents.extend([1, 2, 3, 4])
        request.parameters["timeout"].int64_param = 5_000_000
        call = keyed.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer", request_serializer=lambda of: of.SerializeToString(),
            response_deserializer=message_factory.GetMessageClass(method.output_type).FromString,
        )
        response = call(request, timeout=20)
        assert response.id == "7" and np.frombuffer(response.raw_output_contents[0], np.float32).tolist() == [1, 2, 3, 4]


class Keyed(grpc.UnaryUnaryClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Adds the key to calls."""

    def intercept_unary_unary(self, proceed, details, request):
        return proceed(details._replace(metadata=[("authorization", f"Bearer {KEY}")]), request)

    intercept_stream_stream = intercept_unary_unary


def test_watched_folder(server):
    identity(server.models / "late.onnx")
    with tritonclient.grpc.InferenceServerClient(server.grpc, ssl=True, root_certificates=str(TLS / "root.pem")) as client:
        for _ in range(200):
            if client.is_model_ready("late", headers={"authorization": f"Bearer {KEY}"}):
                return
            threading.Event().wait(0.1)
    raise AssertionError("the model is not loaded")


def test_events(server):
    request = urllib.request.Request(f"https://{server.http}/events", headers={"Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(request, context=server.context, timeout=20) as stream:
        told = json.loads(stream.readline().removeprefix(b"data: "))
    assert told["ready"] and {model["name"] for model in told["models"]} >= {"same", "words"}


def test_deploy(server):
    """Options and variables in `deploy` are ones that the program knows."""
    help = subprocess.run([os.environ["STREAMPOOL"], "serve", "--help"], capture_output=True, text=True, check=True).stdout
    unit = (ROOT / "deploy/streampool.service").read_text()
    runtime = yaml.safe_load((ROOT / "deploy/kserve.yaml").read_text())
    spec = runtime["spec"]
    assert runtime["kind"] == "ClusterServingRuntime" and runtime["apiVersion"] == "serving.kserve.io/v1alpha1"
    manifest.check("V1alpha1ClusterServingRuntime", runtime)
    for kind, wrong in (
        ("V1alpha1ServingRuntimeSpec", {**spec, "protocolVersion": ["v2"]}),
        ("V1alpha1SupportedModelFormat", {"name": "onnx", "version": 1}),
        ("V1HTTPGetAction", {"path": "/v2/health/ready"}),
    ):
        try:
            manifest.check(kind, wrong)
        except ValueError:
            continue
        raise AssertionError(f"{wrong} is no {kind}")
    [container] = spec["containers"]
    assert container["name"] == "kserve-container" and {port["containerPort"] for port in container["ports"]} == {8080, 9000}
    start = re.search(r"^ExecStart=(.*)$", unit, re.M)[1]
    options = set(re.findall(r"--[a-z-]+", " ".join(container["args"]) + start))
    assert options and all(option in help for option in options), options
    for name in set(re.findall(r"STREAMPOOL_SERVE_([A-Z_]+)", unit)) - {"MODELS"}:
        assert "--" + name.lower().replace("_", "-") in help, name


def test_health_is_told_when_it_changes(server):
    """The last: it ends the server."""
    with server.channel() as channel:
        database = ProtoReflectionDescriptorDatabase(grpc.intercept_channel(channel, Keyed()))
        pool = descriptor_pool.DescriptorPool(database)
        method = pool.FindServiceByName("grpc.health.v1.Health").FindMethodByName("Watch")
        request = message_factory.GetMessageClass(method.input_type)()
        watch = channel.unary_stream(
            "/grpc.health.v1.Health/Watch", request_serializer=lambda of: of.SerializeToString(),
            response_deserializer=message_factory.GetMessageClass(method.output_type).FromString,
        )
        answers = watch(request, timeout=60)
        assert next(answers).status == 1
        server.process.send_signal(signal.SIGTERM)
        assert next(answers).status == 2
        assert [answer.status for answer in answers] == []
    assert server.process.wait(30) == 0, "".join(server.log)


if __name__ == "__main__":
    with Server() as running:
        for name, test in list(globals().items()):
            if name.startswith("test_"):
                test(running)
                print(name, "ok", flush=True)
    sys.exit()
