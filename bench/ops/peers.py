"""The operators that `streampool-measure ops` measures, as the peers run them: PyTorch, and on the CPU ONNX Runtime.

Each peer is a function that returns for every operator calls without arguments, each of which runs it once in a way of
its own; on a GPU they do not wait. Data is random; what is measured does not depend on it.
"""

import math

# Sizes by device: how often the shapes of one request are repeated to fill it.
BATCH = {"host": 1, "cuda": 256}
# Sequences of the LSTM.
SEQUENCES = {"host": 1, "cuda": 2048}


def torch_calls(device, precision):
    """PyTorch's operators on `device`, in `f32` or `f16`."""
    import torch
    import torch.nn.functional as F

    # Both sides compute f32 as f32.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    where = {"host": "cpu", "cuda": "cuda"}[device]
    kind = {"f32": torch.float32, "f16": torch.float16}[precision]
    batch, sequences = BATCH[device], SEQUENCES[device]

    def random(*shape):
        return torch.randn(shape, device=where, dtype=kind)

    tokens = batch * 128
    x, w = random(tokens, 384), random(384, 1536)
    q, k, v = (random(batch, 12, 128, 32) for _ in range(3))
    scale, bias = random(384), random(384)
    wide = random(tokens, 1536)
    image, kernel = random(batch, 64, 56, 56), random(64, 64, 3, 3)
    lstm = torch.nn.LSTM(128, 128).to(where, kind).eval()
    steps = random(64, sequences, 128)
    scores = random(batch * 12, 128, 128)
    calls = {
        "matmul": lambda: x @ w,
        "attention": lambda: F.scaled_dot_product_attention(q, k, v),
        "layer_norm": lambda: F.layer_norm(x, (384,), scale, bias),
        "gelu": lambda: F.gelu(wide),
        "conv": lambda: F.conv2d(image, kernel, padding=1),
        "lstm": lambda: lstm(steps),
        "softmax": lambda: F.softmax(scores, -1),
    }
    if device == "cuda":
        ql, kl, vl = (random(16, 16, 2048, 64) for _ in range(3))
        calls["attention_long"] = lambda: F.scaled_dot_product_attention(ql, kl, vl)
        calls["copy"] = wide.clone
        other, whole = random(tokens, 1536), wide.float()
        rows = torch.arange(tokens, device=where) * 7919 % tokens
        calls["add"] = lambda: wide + other
        calls["cast"] = whole.half
        calls["embedding"] = lambda: F.embedding(rows, wide)
        calls["cumsum"] = lambda: wide.cumsum(-1)
        calls["max_pool"] = lambda: F.max_pool2d(image, 3, 2, 1)
    return {name: [call] for name, call in calls.items()}


def onnxruntime_calls(threads):
    """ONNX Runtime's, each as a model bound to its data: of one node, or for attention of several and of a fused one."""
    import numpy as np
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)

    def random(*shape):
        return rng.standard_normal(shape, dtype=np.float32)

    def call(nodes, inputs, constants, outputs=("y",)):
        def described(name, value):
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape)

        graph = helper.make_graph(
            nodes,
            "one",
            [described(name, value) for name, value in inputs.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            [numpy_helper.from_array(value, name) for name, value in constants.items()],
        )
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        for name, value in inputs.items():
            binding.bind_cpu_input(name, value)
        for name in outputs:
            binding.bind_output(name)
        return lambda: session.run_with_iobinding(binding)

    def node(kind, inputs, outputs=("y",), **attributes):
        return helper.make_node(kind, inputs, outputs, **attributes)

    q, k, v = (random(1, 12, 128, 32) for _ in range(3))
    packed = {name: random(1, 128, 384) for name in "qkv"}
    pieces = [
        node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "kt"], ["products"]),
        node("Mul", ["products", "scale"], ["scaled"]),
        node("Softmax", ["scaled"], ["weights"], axis=-1),
        node("MatMul", ["weights", "v"]),
    ]
    scale = {"scale": np.float32(1 / math.sqrt(32))}
    fused = [node("MultiHeadAttention", ["q", "k", "v"], num_heads=12, domain="com.microsoft")]
    lstm = {"w": random(1, 512, 128), "r": random(1, 512, 128), "b": random(1, 1024)}
    norm = {"scale": random(384), "bias": random(384)}
    return {
        "matmul": [call([node("MatMul", ["x", "w"])], {"x": random(128, 384)}, {"w": random(384, 1536)})],
        "attention": [call(pieces, {"q": q, "k": k, "v": v}, scale), call(fused, packed, {})],
        "layer_norm": [call([node("LayerNormalization", ["x", "scale", "bias"])], {"x": random(128, 384)}, norm)],
        "gelu": [call([node("Gelu", ["x"])], {"x": random(128, 1536)}, {})],
        "conv": [
            call([node("Conv", ["x", "w"], pads=[1] * 4)], {"x": random(1, 64, 56, 56)}, {"w": random(64, 64, 3, 3)})
        ],
        "lstm": [call([node("LSTM", ["x", "w", "r", "b"], hidden_size=128)], {"x": random(64, 1, 128)}, lstm)],
        "softmax": [call([node("Softmax", ["x"], axis=-1)], {"x": random(12, 128, 128)}, {})],
    }
