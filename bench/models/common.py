#!/usr/bin/env python3
"""Makes common models with PyTorch, runs them by ours and as CUDA graphs of PyTorch, one graph a thread, and compares.

    common.py STREAMPOOL [NAME...] [--batch 1,32] [--threads 1,8] [--precision f16,f32] [--seconds S] [--json FILE]

STREAMPOOL is the program `streampool`. Needs a GPU, torch, torchvision and onnx. Weights are random by a fixed seed, pictures have 224² pixels,
inputs and outputs stay on the GPU. TF32 is off, cuDNN searches for its fastest kernels, and PyTorch's pictures are channels last. A result that
differs from PyTorch's in f32 on the CPU by more than the table allows is an error, and the exit code is 3.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings

import numpy
import torch
import torchvision

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch_encoder

WRONG = 3
SEED = 0
# What outputs may differ by, of the largest of them.
ROOM = {"f32": 1e-3, "f16": 3e-2}
nn = torch.nn


class Recurrent(nn.Module):
    """Two LSTMs of 512."""

    def __init__(self):
        super().__init__()
        self.layers, self.out = nn.LSTM(256, 512, 2, batch_first=True), nn.Linear(512, 64)

    def forward(self, x):
        return self.out(self.layers(x)[0])


def pair(inputs, outputs):
    """Two convolutions of a U-Net, each with its norm."""
    parts = []
    for channels in (inputs, outputs):
        parts += [nn.Conv2d(channels, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.SiLU()]
    return nn.Sequential(*parts)


class UNet(nn.Module):
    """Three steps down and two up."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([pair(3, 32), pair(32, 64), pair(64, 128)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(128, 64, 2, 2), nn.ConvTranspose2d(64, 32, 2, 2)])
        self.join, self.out = nn.ModuleList([pair(128, 64), pair(64, 32)]), nn.Conv2d(32, 1, 1)

    def forward(self, x):
        high = self.down[0](x)
        middle = self.down[1](nn.functional.max_pool2d(high, 2))
        x = self.down[2](nn.functional.max_pool2d(middle, 2))
        x = self.join[0](torch.cat([self.up[0](x), middle], 1))
        return self.out(self.join[1](torch.cat([self.up[1](x), high], 1)))


def bert_base():
    layer = nn.TransformerEncoderLayer(768, 12, 3072, 0.0, "gelu", batch_first=True)
    return nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)


class Speech(nn.Module):
    """The convolutions that wav2vec 2.0 begins with, on a second of sound."""

    def __init__(self, channels=512):
        super().__init__()
        windows = [(10, 5)] + [(3, 2)] * 4 + [(2, 2)] * 2
        self.layers = nn.ModuleList([nn.Conv1d(channels if at else 1, channels, *window, bias=False) for at, window in enumerate(windows)])
        self.norm = nn.GroupNorm(channels, channels)

    def forward(self, x):
        x = nn.functional.gelu(self.norm(self.layers[0](x)))
        for layer in self.layers[1:]:
            x = nn.functional.gelu(layer(x))
        return x


class Norm(nn.Module):
    """Root mean square norm, as Llama's modules compute it."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


class LlamaLayer(nn.Module):
    """A layer of a decoder: 12 heads of queries, 4 of keys and values, turned by their positions."""

    def __init__(self, width=768, middle=2048, heads=12, groups=4):
        super().__init__()
        self.heads, self.groups, self.head = heads, groups, width // heads
        linear = lambda rows, columns: nn.Linear(rows, columns, bias=False)
        self.q, self.k, self.v = linear(width, width), *(linear(width, groups * self.head) for _ in "kv")
        self.o, self.gate, self.up, self.down = linear(width, width), linear(width, middle), linear(width, middle), linear(middle, width)
        self.before, self.between = Norm(width), Norm(width)

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        normed = self.before(x)
        by_head = lambda y: y.view(batch, length, -1, self.head).transpose(1, 2)
        q, k, v = (by_head(one(normed)) for one in (self.q, self.k, self.v))
        half = self.head // 2
        turn = lambda y: y * cos + torch.cat([-y[..., half:], y[..., :half]], -1) * sin
        each = lambda y: y[:, :, None].expand(-1, -1, self.heads // self.groups, -1, -1).reshape(batch, self.heads, length, self.head)
        mixed = nn.functional.scaled_dot_product_attention(turn(q), each(turn(k)), each(v), is_causal=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(batch, length, width))
        normed = self.between(x)
        return x + self.down(nn.functional.silu(self.gate(normed)) * self.up(normed))


class Llama(nn.Module):
    """Twelve of them, on rows that stand for words already."""

    def __init__(self, layers=12, length=128, head=64):
        super().__init__()
        self.layers = nn.ModuleList([LlamaLayer() for _ in range(layers)])
        angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, head, 2) / head)
        self.register_buffer("cos", torch.cat([angles.cos()] * 2, -1))
        self.register_buffer("sin", torch.cat([angles.sin()] * 2, -1))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return x


def vision(name):
    return lambda: getattr(torchvision.models, name)(weights=None)


PICTURE = (3, 224, 224)
# Each model, and the shape of one item. The second half was chosen after the first was tuned.
MODELS = {
    "lstm": (Recurrent, (64, 256)),
    "vit_b_16": (vision("vit_b_16"), PICTURE),
    "bert_base": (bert_base, (128, 768)),
    "convnext_tiny": (vision("convnext_tiny"), PICTURE),
    "resnet18": (vision("resnet18"), PICTURE),
    "efficientnet_b0": (vision("efficientnet_b0"), PICTURE),
    "resnet50": (vision("resnet50"), PICTURE),
    "mobilenet_v3_small": (vision("mobilenet_v3_small"), PICTURE),
    "unet": (UNet, (3, 128, 128)),
    "densenet121": (vision("densenet121"), PICTURE),
    "swin_t": (vision("swin_t"), PICTURE),
    "regnet_y_800mf": (vision("regnet_y_800mf"), PICTURE),
    "shufflenet_v2_x1_0": (vision("shufflenet_v2_x1_0"), PICTURE),
    "mnasnet1_0": (vision("mnasnet1_0"), PICTURE),
    "llama": (Llama, (128, 768)),
    "speech": (Speech, (1, 16000)),
}


def settle(model, x):
    """Numbers that are not trained yet, but of the size that training gives them: no head of zeros, and norms that norm."""
    for parameter in model.parameters():
        if parameter.dim() > 1 and not parameter.any():
            nn.init.normal_(parameter, std=0.02)
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
    if norms:
        model.train()(x)


def made(name, batch, folder):
    """The model, its input and its file; beside it, the input and what comes out in f32 on the CPU."""
    make, shape = MODELS[name]
    torch.manual_seed(SEED)
    model, x = make(), torch.randn(batch, *shape)
    settle(model, torch.randn(8, *shape))
    model.eval()
    path = os.path.join(folder, f"{name}_{batch}")
    torch.onnx.export(model, (x,), f"{path}.onnx", opset_version=17, dynamo=False, input_names=["x"], output_names=["y"])
    numpy.savez(f"{path}.input.npz", x=x.numpy())
    numpy.savez(f"{path}.output.npz", y=model(x).numpy())
    return model, x, path


def program(*words):
    """What the program says in JSON."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError((done.stderr or done.stdout).strip()[-300:])
    return json.loads(done.stdout)


def ours(streampool, path, half, threads, seconds):
    """Runs a second from so many threads."""
    words = [streampool, "run", f"{path}.onnx", "--device", "cuda", "--repeat", "--resident", "--json"]
    words += ["--threads", str(threads), "--seconds", str(seconds)] + (["--half"] if half else [])
    return program(*words)["runs_per_second"]


def error(streampool, path, half):
    """The largest difference, of the largest value."""
    out = f"{path}.ours.npz"
    words = [streampool, "run", f"{path}.onnx", "--device", "cuda", "--input", f"{path}.input.npz", "--output", out, "--json"]
    program(*words, *(["--half"] if half else []))
    with numpy.load(out) as found, numpy.load(f"{path}.output.npz") as expected:
        expected = expected["y"].astype(numpy.float64)
        return float(numpy.abs(found["y"].astype(numpy.float64) - expected).max() / numpy.abs(expected).max())


def theirs(model, x, half, threads, seconds):
    """PyTorch's side."""
    dtype = torch.half if half else torch.float
    form = torch.channels_last if x.dim() == 4 else torch.contiguous_format
    model, x = (it.to("cuda", dtype, memory_format=form) for it in (model, x))
    return torch_encoder.rate(lambda stream: torch_encoder.graph(model, x, stream), threads, seconds, 1)


def words(text, kind=str):
    return [kind(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("streampool")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(MODELS)}; all of them by default")
    parser.add_argument("--batch", default="1,32", type=lambda text: words(text, int))
    parser.add_argument("--threads", default="1,8", type=lambda text: words(text, int))
    parser.add_argument("--precision", default="f16,f32", type=words)
    parser.add_argument("--seconds", default=0.5, type=float)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if unknown := set(options.names) - set(MODELS):
        parser.error(f"unknown models: {', '.join(sorted(unknown))}")
    warnings.filterwarnings("ignore")
    torch.set_grad_enabled(False)
    torch.backends.mha.set_fastpath_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    device = torch.cuda.get_device_name()
    print(f"{device}, PyTorch {torch.__version__}: items a second\n\n| model | batch | precision | threads | ours | PyTorch | ratio | error |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    rows, wrong = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names or MODELS:
            for batch in options.batch:
                model, x, path = made(name, batch, folder)
                for precision in options.precision:
                    half = precision == "f16"
                    row = {"model": name, "batch": batch, "precision": precision, "device": device}
                    try:
                        off = error(options.streampool, path, half)
                    except RuntimeError as failure:
                        wrong.append(f"{name}, batch {batch}, {precision}: {failure}")
                        continue
                    if not off <= ROOM[precision]:
                        wrong.append(f"{name}, batch {batch}, {precision}: off by {off:.1e} of the largest value")
                    for threads in options.threads:
                        peer = theirs(model, x, half, threads, options.seconds) * batch
                        rate = ours(options.streampool, path, half, threads, options.seconds) * batch
                        rows.append(row | {"threads": threads, "ours": rate, "torch": peer, "error": off})
                        cells = (name, batch, precision, threads, f"{rate:,.0f}", f"{peer:,.0f}", f"{rate / peer:.2f}", f"{off:.0e}")
                        print("|", " | ".join(map(str, cells)), "|", flush=True)
                os.remove(f"{path}.onnx")
                torch.cuda.empty_cache()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"rows": rows, "wrong": wrong}, file, indent=1)
    for line in wrong:
        print("wrong:", line, file=sys.stderr)
    sys.exit(WRONG if wrong else 0)


if __name__ == "__main__":
    main()
