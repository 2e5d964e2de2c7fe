#!/usr/bin/env python3
"""Measures PyTorch's side of the models that make_encoder.py wrote, on a GPU, and writes one JSON object: the layers alone
and the whole model at batch 1 in f32 from several threads, each with a CUDA graph of its own and the same weights, and at
batch 256 in f16 from one thread. The sequence is 128.

    torch_encoder.py FOLDER [--threads 8] [--seconds S] [--batch 256] [--reference FOLDER]

With --reference, words.npz and states.npz there are some input of the whole model and what comes out in f32. Needs the
package torch. TF32 is off.
"""

import argparse
import json
import pathlib
import threading
import time

import numpy
import torch

HEADS, SEQUENCE, EPSILON = 12, 128, 1e-12
# Runs between two waits where nobody waits for each.
PIPELINE = 32


class Weights:
    """What make_encoder.py put into weights.data."""

    def __init__(self, folder):
        self.index = json.loads((folder / "weights.json").read_text())
        self.data = (folder / "weights.data").read_bytes()

    def get(self, name):
        entry = self.index[name]
        count = int(numpy.prod(entry["shape"]))
        values = numpy.frombuffer(self.data, numpy.float16, count, entry["offset"]).reshape(entry["shape"])
        return torch.from_numpy((values.T if entry["turned"] else values).astype(numpy.float32))

    def layers(self):
        return sum(name.endswith("intermediate.dense.weight") for name in self.index)


def fill(module, weights, name):
    """Gives a module its weight and bias."""
    for part, parameter in module.named_parameters():
        parameter.copy_(weights.get(f"{name}.{part}"))


def encoder(weights):
    """The layers alone."""
    inner, width = weights.get("encoder.layer.0.intermediate.dense.weight").shape
    layer = torch.nn.TransformerEncoderLayer(
        width, HEADS, inner, dropout=0.0, activation="gelu", batch_first=True, layer_norm_eps=EPSILON
    )
    model = torch.nn.TransformerEncoder(layer, weights.layers())
    for number, layer in enumerate(model.layers):
        name = f"encoder.layer.{number}"
        own = layer.self_attn
        for part, parameter in (("weight", own.in_proj_weight), ("bias", own.in_proj_bias)):
            parameter.copy_(torch.cat([weights.get(f"{name}.attention.self.{it}.{part}") for it in ("query", "key", "value")]))
        fill(own.out_proj, weights, f"{name}.attention.output.dense")
        fill(layer.norm1, weights, f"{name}.attention.output.LayerNorm")
        fill(layer.linear1, weights, f"{name}.intermediate.dense")
        fill(layer.linear2, weights, f"{name}.output.dense")
        fill(layer.norm2, weights, f"{name}.output.LayerNorm")
    return model


class Whole(torch.nn.Module):
    """From words to states. All places hold words."""

    def __init__(self, weights):
        super().__init__()
        table = lambda name: torch.nn.Embedding.from_pretrained(weights.get(f"embeddings.{name}_embeddings.weight"))
        self.words, self.positions, self.kinds = table("word"), table("position"), table("token_type")
        self.norm = torch.nn.LayerNorm(self.words.embedding_dim, eps=EPSILON)
        fill(self.norm, weights, "embeddings.LayerNorm")
        self.layers = encoder(weights)

    def forward(self, words):
        places = self.positions.weight[: words.shape[1]]
        return self.layers(self.norm(self.words(words) + places + self.kinds.weight[0]))


def graph(model, x, stream):
    """A call that replays the model on x, and so gives each run's output in the same memory."""
    for _ in range(3):
        model(x)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured, stream=stream, capture_error_mode="thread_local"):
        y = model(x)
    # What it reads and writes has to stay.
    return lambda: captured.replay() or (x, y)


def rate(make, threads, seconds, between_waits):
    """Runs per second of all threads; `make` gives each thread its call."""
    gate, stop, counts, lock = threading.Barrier(threads + 1), threading.Event(), [0] * threads, threading.Lock()

    def work(number):
        stream = torch.cuda.Stream()
        with torch.inference_mode(), torch.cuda.stream(stream):
            with lock:
                call = make(stream)
            call()
            stream.synchronize()
            gate.wait()
            while not stop.is_set():
                for _ in range(between_waits):
                    call()
                stream.synchronize()
                counts[number] += between_waits

    workers = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(threads)]
    for worker in workers:
        worker.start()
    gate.wait()
    begin = time.perf_counter()
    time.sleep(seconds)
    stop.set()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - begin)


def small(found, name, model, x, options):
    """Batch 1 from several threads."""
    calls = {"graph": lambda stream: graph(model, x(1), stream), "eager": lambda _stream: eager(model, x(1))}
    for kind, make in calls.items():
        for waiting, between in (("waited", 1), ("pipelined", PIPELINE)):
            key = f"{name}_batch_1_f32_{kind}_{waiting}_runs_per_s"
            found[key] = rate(make, options.threads, options.seconds, between)


def large(found, name, model, x, options):
    """A large batch from one thread."""
    batch = x(options.batch)
    for kind, make in {"graph": lambda stream: graph(model, batch, stream), "eager": lambda _: eager(model, batch)}.items():
        found[f"{name}_large_f16_{kind}_items_per_s"] = options.batch * rate(make, 1, options.seconds, 4)


def eager(model, x):
    return lambda: model(x)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--reference", metavar="FOLDER", type=pathlib.Path)
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    found = {"torch": torch.__version__, "device": torch.cuda.get_device_name(), "threads": options.threads,
             "batch": options.batch}
    weights = Weights(options.folder)
    layers, whole = (model.to("cuda").eval() for model in (encoder(weights), Whole(weights)))
    width = whole.words.embedding_dim
    words = lambda batch: torch.randint(whole.words.num_embeddings, (batch, SEQUENCE), device="cuda")
    states = lambda batch: torch.randn(batch, SEQUENCE, width, device="cuda", dtype=layers.layers[0].linear1.weight.dtype)
    if options.reference:
        # What is fast about it computes GELU otherwise.
        torch.backends.mha.set_fastpath_enabled(False)
        some = words(2)
        ones = numpy.ones((2, SEQUENCE), numpy.int64)
        numpy.savez(options.reference / "words.npz", input_ids=some.cpu().numpy(), attention_mask=ones)
        numpy.savez(options.reference / "states.npz", last_hidden_state=whole(some).cpu().numpy())
        torch.backends.mha.set_fastpath_enabled(True)
    small(found, "layers", layers, states, options)
    small(found, "whole", whole, words, options)
    large(found, "layers", layers.half(), states, options)
    large(found, "whole", whole.half(), words, options)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
