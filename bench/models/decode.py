"""Words per second of a decoder with a cache that grows, beside ONNX Runtime with its IO binding, in alternation.

    PYTHONPATH=crates/python/python python bench/models/decode.py [--layers 12] [--width 768] [--words 24] [--rounds 3]

It takes the packages numpy, onnx and onnxruntime. The words are chosen greedily, and both have to choose the same. Contexts say how
many words the cache holds at first; sequences, how many threads have a cache each.
"""

import argparse
import pathlib
import statistics
import tempfile
import threading
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HEAD = 64


class Maker:
    """A graph in the making."""

    def __init__(self):
        self.random = np.random.default_rng(1)
        self.nodes, self.weights = [], []

    def constant(self, name, values, dtype=np.int64):
        self.weights.append(numpy_helper.from_array(np.array(values, dtype), name))
        return name

    def weight(self, name, *shape):
        values = self.random.standard_normal(shape, dtype=np.float32) * np.float32(0.02)
        return self.constant(name, values, np.float32)

    def node(self, op, inputs, *outputs, **attributes):
        self.nodes.append(helper.make_node(op, inputs, list(outputs), name=outputs[0], **attributes))
        return outputs[0]

    def norm(self, x, name, width):
        scale = self.constant(f"{name}.scale", np.ones(width), np.float32)
        bias = self.constant(f"{name}.bias", np.zeros(width), np.float32)
        return self.node("LayerNormalization", [x, scale, bias], name, axis=-1, epsilon=1e-5)

    def linear(self, x, name, rows, columns):
        made = self.node("MatMul", [x, self.weight(f"{name}.weight", rows, columns)], f"{name}.product")
        return self.node("Add", [made, self.weight(f"{name}.bias", columns)], name)


def decoder(layers, width, words, longest):
    """A decoder as GPT-2 is, with inputs past… and outputs present…."""
    on, heads = Maker(), width // HEAD
    for name, value in [("i0", 0), ("i1", 1), ("i2", 2)]:
        on.constant(name, value)
    on.constant("a0", [0])
    on.constant("a1", [1])
    on.constant("split", [0, 0, heads, HEAD])
    on.constant("join", [0, 0, width])
    past = on.node("Gather", [on.node("Shape", ["past_k_0"], "past.shape"), "i2"], "past.length")
    new = on.node("Gather", [on.node("Shape", ["input_ids"], "new.shape"), "i1"], "new.length")
    total = on.node("Add", [past, new], "total")
    own = on.node("Range", [past, total, "i1"], "own")
    every = on.node("Range", ["i0", total, "i1"], "every")
    own_column = on.node("Unsqueeze", [own, "a1"], "own.column")
    seen = on.node("LessOrEqual", [on.node("Unsqueeze", [every, "a0"], "every.row"), own_column], "seen")
    zero, lowest = (on.constant(name, value, np.float32) for name, value in [("zero", 0), ("lowest", np.finfo(np.float32).min)])
    mask = on.node("Where", [seen, zero, lowest], "mask")
    x = on.node("Gather", [on.weight("table", words, width), "input_ids"], "words")
    x = on.node("Add", [x, on.node("Gather", [on.weight("places", longest, width), own], "place")], "x")
    scale = on.constant("scale", HEAD**0.5, np.float32)
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "new"])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, "new", words])]
    for layer in range(layers):
        at = f"layer{layer}"
        packed = on.linear(on.norm(x, f"{at}.norm1", width), f"{at}.qkv", width, 3 * width)
        parts = [f"{at}.{one}" for one in "qkv"]
        on.node("Split", [packed], *parts, axis=-1, num_outputs=3)
        q, *new = [
            on.node("Transpose", [on.node("Reshape", [part, "split"], f"{part}.heads")], f"{part}.turned", perm=[0, 2, 1, 3])
            for part in parts
        ]
        cache = []
        for kind, part in zip("kv", new, strict=True):
            before, now = f"past_{kind}_{layer}", f"present_{kind}_{layer}"
            cache.append(on.node("Concat", [before, part], now, axis=2))
            inputs.append(helper.make_tensor_value_info(before, TensorProto.FLOAT, [1, heads, "past", HEAD]))
            outputs.append(helper.make_tensor_value_info(now, TensorProto.FLOAT, [1, heads, "total", HEAD]))
        scores = on.node("MatMul", [q, on.node("Transpose", [cache[0]], f"{at}.kt", perm=[0, 1, 3, 2])], f"{at}.scores")
        scores = on.node("Add", [on.node("Div", [scores, scale], f"{at}.scaled"), mask], f"{at}.masked")
        mixed = on.node("MatMul", [on.node("Softmax", [scores], f"{at}.weights", axis=-1), cache[1]], f"{at}.mixed")
        mixed = on.node("Transpose", [mixed], f"{at}.mixed.turned", perm=[0, 2, 1, 3])
        mixed = on.node("Reshape", [mixed, "join"], f"{at}.mixed.joined")
        x = on.node("Add", [x, on.linear(mixed, f"{at}.out", width, width)], f"{at}.x1")
        wide = on.linear(on.norm(x, f"{at}.norm2", width), f"{at}.wide", width, 4 * width)
        wide = on.node("Gelu", [wide], f"{at}.gelu", approximate="tanh")
        x = on.node("Add", [x, on.linear(wide, f"{at}.narrow", 4 * width, width)], f"{at}.x2")
    on.node("MatMul", [on.norm(x, "norm", width), on.weight("head", width, words)], "logits")
    graph = helper.make_graph(on.nodes, "decoder", inputs, outputs, on.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


class Ours:
    """Streampool with a binding."""

    def __init__(self, path, sequences):
        import streampool as sp

        self.session = sp.Session(path, "host")

    def sequence(self, context):
        binding = self.session.bind()
        binding.carry_caches()
        binding.set_zeros(past=context)
        return lambda word: binding.run({"input_ids": np.array([[word]])})["logits"]


class Theirs:
    """ONNX Runtime with its IO binding."""

    def __init__(self, path, sequences):
        import onnxruntime as ort

        self.ort, options = ort, ort.SessionOptions()
        options.log_severity_level = 3
        if sequences > 1:
            options.intra_op_num_threads = 1
        self.session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def sequence(self, context):
        past = {}
        for port in self.session.get_inputs()[1:]:
            zeros = np.zeros([size if isinstance(size, int) else context for size in port.shape], np.float32)
            past[port.name] = self.ort.OrtValue.ortvalue_from_numpy(zeros)
        names = [port.name for port in self.session.get_outputs()]

        def step(word):
            binding = self.session.io_binding()
            binding.bind_cpu_input("input_ids", np.array([[word]]))
            for name, value in past.items():
                binding.bind_ortvalue_input(name, value)
            for name in names:
                binding.bind_output(name)
            self.session.run_with_iobinding(binding)
            logits, *present = binding.get_outputs()
            past.update(zip((name.replace("present", "past") for name in names[1:]), present, strict=True))
            return logits.numpy()

        return step


def words_of(step, count):
    word, chosen = 1, []
    for _ in range(count):
        word = int(step(word)[0, -1].argmax())
        chosen.append(word)
    return chosen


def rate(one, context, sequences, count):
    """Words per second, and the words of each sequence."""
    chosen = []
    steps = [one.sequence(context) for _ in range(sequences)]
    threads = [threading.Thread(target=lambda step=step: chosen.append(words_of(step, count))) for step in steps]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sequences * count / (time.perf_counter() - begin), chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in [("layers", 12), ("width", 768), ("vocabulary", 50257), ("words", 24), ("rounds", 3)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--contexts", type=int, nargs="+", default=[0, 500, 950])
    parser.add_argument("--sequences", type=int, nargs="+", default=[1, 8])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "decoder.onnx"
        onnx.save(decoder(asked.layers, asked.width, asked.vocabulary, 1024), path)
        print(
            f"{'context':>8} {'sequences':>9} {'ours, first':>12} {'ours':>8} {'ONNX Runtime':>13} {'ratio':>6}   words per second"
        )
        for sequences in asked.sequences:
            ours, theirs = Ours(str(path), sequences), Theirs(str(path), sequences)
            for context in asked.contexts:
                first, chosen = rate(ours, context, sequences, asked.words)
                rates = {ours: [], theirs: []}
                for _ in range(asked.rounds):
                    for one, taken in rates.items():
                        taken.append(rate(one, context, sequences, asked.words))
                        assert taken[-1][1] == chosen, "other words were chosen"
                own, other = (statistics.median(taken[0] for taken in rates[one]) for one in (ours, theirs))
                print(f"{context:8} {sequences:9} {first:12.1f} {own:8.1f} {other:13.1f} {own / other:6.2f}", flush=True)


if __name__ == "__main__":
    main()
