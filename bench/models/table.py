"""The models that bench/models/exported.py makes: small ones by ONNX's own package, others by PyTorch's exporters.

Each is a function that writes a model and gives its inputs. Weights are random, by a fixed seed. Where ONNX Runtime is not exact
enough, `exact` says what is right.
"""

import numpy as np

import families

TABLE = {}


def model(group, **more):
    """Puts a function into the table. `more` may say how far results may differ (`room`)."""
    def put(make):
        TABLE[make.__name__.replace("_", "-")] = {"make": make, "group": group, **more}
        return make
    return put


# Graphs of one operator: need onnx alone.

def one_node(path, op, inputs, outputs, opset, constants=None, **attributes):
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    constants = constants or {}
    names = [*inputs, *constants]
    # The order of inputs is that of the operator: constants name their place.
    order = attributes.pop("order", names)
    types = {np.dtype("float32"): TensorProto.FLOAT, np.dtype("float64"): TensorProto.DOUBLE,
             np.dtype("int64"): TensorProto.INT64, np.dtype("uint8"): TensorProto.UINT8, np.dtype("int8"): TensorProto.INT8}
    graph = helper.make_graph(
        [helper.make_node(op, order, list(outputs), **attributes)], "graph",
        [helper.make_tensor_value_info(name, types[value.dtype], value.shape) for name, value in inputs.items()],
        [helper.make_tensor_value_info(name, types[np.dtype(dtype)], None) for name, dtype in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in constants.items()])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(proto, path)
    return inputs


def suppression(path, count, classes, most, overlap, least):
    random = np.random.default_rng(0)
    low = random.uniform(0, 640, (1, count, 2))
    boxes = np.concatenate([low, low + random.uniform(4, 120, low.shape)], 2).astype("float32")
    scores = (random.uniform(0, 1, (1, classes, count)) ** 6).astype("float32")
    constants = {"most": np.array([most]), "overlap": np.array([overlap], "float32"), "least": np.array([least], "float32")}
    return one_node(path, "NonMaxSuppression", {"boxes": boxes, "scores": scores}, {"kept": "int64"}, 17, constants)


@model("small")
def nms_8400(path):
    return suppression(path, 8400, 1, 300, 0.45, 0.25)


@model("small")
def nms_8400x80(path):
    return suppression(path, 8400, 80, 300, 0.45, 0.25)


@model("small")
def nms_27000(path):
    return suppression(path, 27000, 1, 1000, 0.5, 0.05)


@model("small")
def nms_all(path):
    return suppression(path, 8400, 1, 8400, 0.5, 0.0)


def regions(path, count, mode, samples):
    random = np.random.default_rng(0)
    low = random.uniform(-20, 700, (count, 2))
    corners = np.concatenate([low, low + random.uniform(1, 300, low.shape)], 1).astype("float32")
    inputs = {"x": random.standard_normal((1, 256, 50, 50)).astype("float32"), "corners": corners,
              "batches": np.zeros(count, "int64")}
    return one_node(path, "RoiAlign", inputs, {"y": "float32"}, 16, mode=mode, output_height=7, output_width=7,
                    sampling_ratio=samples, spatial_scale=0.0625)


@model("small")
def roi_align_1000(path):
    return regions(path, 1000, "avg", 2)


@model("small")
def roi_align_adaptive(path):
    return regions(path, 300, "avg", 0)


@model("small")
def roi_align_max(path):
    return regions(path, 100, "max", 2)


def dft(path, length, parts=1, dtype="float32", **attributes):
    random = np.random.default_rng(0)
    x = random.standard_normal((1, length, parts)).astype(dtype)
    return one_node(path, "DFT", {"x": x}, {"y": dtype}, 17, axis=1, **attributes)


def frequencies(x, inverse=0, onesided=0):
    """What a DFT is, in float64: ONNX Runtime's is off by up to 4e-3 of the largest in float32, for lengths that are prime."""
    given = x.astype("float64")
    numbers = given[..., 0] + 1j * given[..., 1] if given.shape[-1] == 2 else given[..., 0]
    result = (np.fft.ifft if inverse else np.fft.rfft if onesided else np.fft.fft)(numbers, axis=1)
    return np.stack([result.real, result.imag], -1).astype(x.dtype)


for name, more in {
    "dft-512": {"length": 512}, "dft-4096": {"length": 4096}, "dft-16000": {"length": 16000},
    "dft-16384": {"length": 16384}, "dft-15991-prime": {"length": 15991},
    "dft-16000-inverse": {"length": 16000, "parts": 2, "inverse": 1},
    "dft-16000-one-sided": {"length": 16000, "onesided": 1},
    "dft-16000-f64": {"length": 16000, "dtype": "float64"}, "dft-160000": {"length": 160000},
}.items():
    how = {key: value for key, value in more.items() if key in ("inverse", "onesided")}
    TABLE[name] = {"make": lambda path, more=more: dft(path, **more), "group": "small",
                   "exact": lambda inputs, how=how: {"y": frequencies(inputs["x"], **how)}}


def stft(path, rank):
    random = np.random.default_rng(0)
    signal = random.standard_normal((1, 16000) + (1,) * (rank - 2)).astype("float32")
    constants = {"step": np.array(160), "window": np.hanning(400).astype("float32"), "length": np.array(400)}
    return one_node(path, "STFT", {"signal": signal}, {"y": "float32"}, 17, constants,
                    order=["signal", "step", "window", "length"])


@model("small", room=1e-4)
def stft_1s(path):
    return stft(path, 3)


@model("small")
def scatter_nd_20000x64(path):
    random = np.random.default_rng(0)
    inputs = {"x": random.standard_normal((20000, 64)).astype("float32"),
              "places": random.permutation(20000)[:, None].astype("int64"),
              "updates": random.standard_normal((20000, 64)).astype("float32")}
    return one_node(path, "ScatterND", inputs, {"y": "float32"}, 16)


@model("small", room=1e-4)
def conv_dilated(path):
    random = np.random.default_rng(0)
    inputs = {"x": random.standard_normal((1, 512, 14, 14)).astype("float32")}
    constants = {"w": (random.standard_normal((128, 512, 3, 3)) / 70).astype("float32")}
    return one_node(path, "Conv", inputs, {"y": "float32"}, 17, constants, dilations=[24, 24], pads=[24] * 4)


@model("small", room=1e-4)
def conv_dilated_12(path):
    random = np.random.default_rng(0)
    inputs = {"x": random.standard_normal((1, 512, 28, 28)).astype("float32")}
    constants = {"w": (random.standard_normal((128, 512, 3, 3)) / 70).astype("float32")}
    return one_node(path, "Conv", inputs, {"y": "float32"}, 17, constants, dilations=[12, 12], pads=[12] * 4)


# What PyTorch's exporters make.

def wrapped(module, call):
    """A module whose results are what `call` makes of another."""
    import torch

    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, *given):
            return call(self.inner, *given)

    return Wrapped()


def export(path, module, inputs, names=None, dynamo=False, opset=17):
    import torch
    module = module.eval()
    names = names or [f"x{place}" for place in range(len(inputs))]
    with torch.no_grad():
        torch.onnx.export(module, tuple(inputs), path, input_names=names, dynamo=dynamo,
                          **({} if dynamo else {"opset_version": opset}))
    return {name: value.numpy() for name, value in zip(names, inputs)}


def detector(name, layers, **options):
    """One of torchvision's, whose scores are spread by larger weights of its last layers, so that boxes are found."""
    def make(path):
        import torch
        import torchvision
        torch.manual_seed(0)
        module = getattr(torchvision.models.detection, name)(weights=None, weights_backbone=None, **options).eval()
        with torch.no_grad():
            # As if trained: what layers make has a usual size.
            norms = [layer for layer in module.modules() if isinstance(layer, torch.nn.BatchNorm2d)]
            for layer in norms:
                layer.momentum = 1.0
                layer.train()
            module([torch.rand(3, 320, 320), torch.rand(3, 320, 320)])
            module.eval()
            for part, factor in layers.items():
                for layer in module.get_submodule(part).modules():
                    # The last layers, whose results are the scores.
                    if isinstance(layer, (torch.nn.Conv2d, torch.nn.Linear)) and layer.bias is not None:
                        layer.weight.mul_(factor)
                        layer.bias.zero_()

        plain = wrapped(module, lambda inner, x: tuple(inner([x])[0].values()))
        return export(path, plain, [torch.rand(3, 320, 320)], ["x"])

    return make


SMALL_PICTURES = {"min_size": 320, "max_size": 320}
DETECTORS = {
    "ssdlite": ("ssdlite320_mobilenet_v3_large", {"head.classification_head": 3.0}, {"score_thresh": 0.02}),
    "fasterrcnn": ("fasterrcnn_mobilenet_v3_large_320_fpn", {"roi_heads.box_predictor.cls_score": 60.0},
                   {"box_score_thresh": 0.02}),
    "fasterrcnn-resnet50": ("fasterrcnn_resnet50_fpn", {"roi_heads.box_predictor.cls_score": 20.0},
                            {**SMALL_PICTURES, "box_score_thresh": 0.02}),
    "maskrcnn": ("maskrcnn_resnet50_fpn", {"roi_heads.box_predictor.cls_score": 20.0},
                 {**SMALL_PICTURES, "box_score_thresh": 0.02, "box_detections_per_img": 20}),
    "keypointrcnn": ("keypointrcnn_resnet50_fpn", {"roi_heads.box_predictor.cls_score": 5.0},
                     {**SMALL_PICTURES, "box_score_thresh": 0.0, "box_detections_per_img": 10}),
    "retinanet": ("retinanet_resnet50_fpn", {"head.classification_head.cls_logits": 100.0},
                  {**SMALL_PICTURES, "score_thresh": 0.02}),
    "fcos": ("fcos_resnet50_fpn", {"head.classification_head.cls_logits": 100.0},
             {**SMALL_PICTURES, "score_thresh": 0.02}),
}
for name, (build, layers, options) in DETECTORS.items():
    TABLE[name] = {"make": detector(build, layers, **options), "group": "detection", "room": 1e-2}


def classifier(name, size=96, **options):
    def make(path):
        import torch
        import torchvision
        torch.manual_seed(0)
        module = getattr(torchvision.models, name)(weights=None, **options)
        return export(path, module, [torch.rand(1, 3, size, size)], ["x"])
    return make


for name, options in {
    "resnet18": {}, "mobilenet_v3_small": {}, "efficientnet_b0": {}, "convnext_tiny": {}, "swin_t": {"size": 224},
    "vit_b_16": {"size": 224}, "squeezenet1_1": {}, "shufflenet_v2_x0_5": {}, "densenet121": {}, "regnet_y_400mf": {},
    "mnasnet0_5": {}, "googlenet": {"aux_logits": False, "init_weights": False}, "maxvit_t": {"size": 224},
}.items():
    TABLE[name.replace("_", "-")] = {"make": classifier(name, **options), "group": "pictures", "room": 1e-3}


# The same at the size they were made for, to measure how fast they are.
for name, options in {
    "mobilenet_v3_small": {}, "mobilenet_v2": {}, "mnasnet0_5": {}, "efficientnet_b0": {}, "shufflenet_v2_x0_5": {},
    "regnet_y_400mf": {}, "squeezenet1_1": {}, "resnet18": {}, "densenet121": {},
    "googlenet": {"aux_logits": False, "init_weights": False}, "convnext_tiny": {}, "swin_t": {},
}.items():
    TABLE[name.replace("_", "-") + "-224"] = {"make": classifier(name, 224, **options), "group": "cnn", "room": 1e-3}


@model("cnn", room=1e-3)
def vit_small_224(path):
    import torch
    import torchvision
    torch.manual_seed(0)
    # The exporter does not know the fast path.
    torch.backends.mha.set_fastpath_enabled(False)
    module = torchvision.models.VisionTransformer(image_size=224, patch_size=16, num_layers=12, num_heads=3, hidden_dim=192,
                                                  mlp_dim=768)
    # It begins with zeros, which would hide everything before it.
    torch.nn.init.normal_(module.heads.head.weight, std=0.05)
    return export(path, module, [torch.rand(1, 3, 224, 224)], ["x"])


def segmenter(name, size=128):
    def make(path):
        import torch
        import torchvision
        torch.manual_seed(0)
        module = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None).eval()

        plain = wrapped(module, lambda inner, x: inner(x)["out"])
        return export(path, plain, [torch.rand(1, 3, size, size)], ["x"])
    return make


TABLE["deeplabv3-224"] = {"make": segmenter("deeplabv3_mobilenet_v3_large", 224), "group": "cnn", "room": 1e-3}


for name in ["deeplabv3_mobilenet_v3_large", "deeplabv3_resnet50", "fcn_resnet50", "lraspp_mobilenet_v3_large"]:
    TABLE[name.replace("_", "-")] = {"make": segmenter(name), "group": "pictures", "room": 1e-3}


@model("sequences", room=1e-3)
def lstm(path):
    import torch
    torch.manual_seed(0)

    class Tagger(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(500, 64)
            self.lstm = torch.nn.LSTM(64, 96, 2, bidirectional=True, batch_first=True)
            self.out = torch.nn.Linear(192, 17)

        def forward(self, ids):
            return self.out(self.lstm(self.embed(ids))[0])

    return export(path, Tagger(), [torch.randint(0, 500, (2, 40))], ["ids"])


@model("sequences", room=1e-3)
def transformer(path):
    import torch
    torch.manual_seed(0)
    # The exporter does not know the fast path.
    torch.backends.mha.set_fastpath_enabled(False)
    layer = torch.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    return export(path, torch.nn.TransformerEncoder(layer, 3, enable_nested_tensor=False), [torch.randn(2, 50, 128)])


def transformers_model(build, inputs):
    def make(path):
        import torch
        import transformers
        torch.manual_seed(0)
        module = build(transformers).eval()
        names = list(inputs)
        # By name: not all of them take these inputs first.
        plain = wrapped(module, lambda inner, *given: inner(**dict(zip(names, given)), return_dict=False)[0])
        return export(path, plain, [value(torch) for value in inputs.values()], names, dynamo=True)
    return make


def ids(torch):
    return torch.randint(3, 200, (1, 24))


def ones(torch):
    return torch.ones(1, 24, dtype=torch.int64)


SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 256}
TRANSFORMERS = {
    "bert": (lambda t: t.BertModel(t.BertConfig(**SMALL)), {"input_ids": ids, "attention_mask": ones}),
    "distilbert": (lambda t: t.DistilBertModel(t.DistilBertConfig(dim=64, n_layers=2, n_heads=4, hidden_dim=128,
                                                                  vocab_size=256)), {"input_ids": ids}),
    "gpt2": (lambda t: t.GPT2LMHeadModel(t.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=256, use_cache=False)),
             {"input_ids": ids}),
    "llama": (lambda t: t.LlamaForCausalLM(t.LlamaConfig(**SMALL, num_key_value_heads=2, use_cache=False)),
              {"input_ids": ids}),
    "qwen2": (lambda t: t.Qwen2ForCausalLM(t.Qwen2Config(**SMALL, num_key_value_heads=2, use_cache=False)),
              {"input_ids": ids}),
    "vit": (lambda t: t.ViTModel(t.ViTConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                                             intermediate_size=128, image_size=64)),
            {"pixel_values": lambda torch: torch.rand(1, 3, 64, 64)}),
    "wav2vec2": (lambda t: t.Wav2Vec2Model(t.Wav2Vec2Config(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                                                            intermediate_size=128, num_conv_pos_embedding_groups=4)),
                 {"input_values": lambda torch: torch.randn(1, 8000)}),
    "clip-text": (lambda t: t.CLIPTextModel(t.CLIPTextConfig(**SMALL, bos_token_id=1, eos_token_id=2)), {"input_ids": ids}),
}
for name, (build, inputs) in TRANSFORMERS.items():
    TABLE[name] = {"make": transformers_model(build, inputs), "group": "transformers", "room": 1e-3}


def family(name):
    def make(path):
        import torch
        import transformers
        torch.manual_seed(0)
        build, values = families.parts(name, transformers)
        inputs = values(torch)

        def first(inner, *given):
            results = inner(**dict(zip(inputs, given)), return_dict=True)
            named = [results.get(name) for name in ("last_hidden_state", "logits")]
            return next(value for value in [*named, *results.to_tuple()] if torch.is_tensor(value))

        return export(path, wrapped(build().eval(), first), list(inputs.values()), list(inputs), dynamo=True)
    return make


for name in families.FAMILIES:
    TABLE[f"family-{name}"] = {"make": family(name), "group": "families", "room": 1e-4}


def calibrated(path, inputs, **options):
    """Quantises the floats beside `path` by ONNX Runtime's tools, for the ranges that these inputs give."""
    import onnxruntime.quantization as quantization

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self.left = [inputs] * 4

        def get_next(self):
            return self.left.pop() if self.left else None

    quantization.quantize_static(path + ".float", path, Reader(), **options)
    return inputs


def quantised(kind):
    """A small network of convolutions, quantised by ONNX Runtime's tools."""
    def make(path):
        import onnxruntime.quantization as quantization
        import torch
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, 2, 1), torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 3, 2, 1),
                                     torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                                     torch.nn.Linear(32, 10))
        inputs = export(path + ".float", module, [torch.rand(1, 3, 32, 32)], ["x"])
        formats = {"qdq": quantization.QuantFormat.QDQ, "qoperator": quantization.QuantFormat.QOperator}
        return calibrated(path, inputs, quant_format=formats[kind])
    return make


for kind in ["qdq", "qoperator"]:
    # Where rounding falls on the other side, a step of the last scale.
    TABLE[f"{kind}-convolutions"] = {"make": quantised(kind), "group": "quantised", "room": 5e-2}


def classifier_of_bytes(name):
    """One of torchvision's at the size it was made for, with activations of `u8` and weights of `i8`, a scale for each channel."""
    def make(path):
        from onnxruntime.quantization import QuantType
        from onnxruntime.quantization.shape_inference import quant_pre_process
        inputs = classifier(name, 224)(path + ".plain")
        quant_pre_process(path + ".plain", path + ".float", skip_symbolic_shape=True)
        return calibrated(path, inputs, per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    return make


for name in ["resnet18", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "shufflenet_v2_x0_5", "densenet121"]:
    TABLE[name.replace("_", "-") + "-u8s8"] = {"make": classifier_of_bytes(name), "group": "quantised", "room": 2e-2}


def small_encoder(path):
    """Three layers of 384."""
    import torch
    from transformers import BertConfig, BertModel
    torch.manual_seed(0)
    config = BertConfig(hidden_size=384, num_hidden_layers=3, num_attention_heads=12, intermediate_size=1536, vocab_size=1000)
    module = wrapped(BertModel(config).eval(), lambda inner, ids, mask: inner(ids, mask).last_hidden_state)
    return export(path, module, [torch.randint(1, 1000, (1, 128)), torch.ones(1, 128, dtype=torch.int64)],
                  ["input_ids", "attention_mask"])


@model("quantised", room=2e-2)
def encoder_of_dynamic_bytes(path):
    from onnxruntime.quantization import QuantType, quantize_dynamic
    inputs = small_encoder(path + ".float")
    quantize_dynamic(path + ".float", path, weight_type=QuantType.QInt8)
    return inputs


@model("quantised", room=5e-2)
def encoder_of_bytes(path):
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization.shape_inference import quant_pre_process
    inputs = small_encoder(path + ".plain")
    quant_pre_process(path + ".plain", path + ".float", skip_symbolic_shape=True)
    return calibrated(path, inputs, per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
                      op_types_to_quantize=["MatMul", "Gemm"])


@model("quantised", room=1e-1)
def int4_convolutions(path):
    """A network whose weights are of four bits, as ONNX Runtime's tools write them."""
    from onnxruntime.quantization import QuantType
    return calibrated(path, classifier("squeezenet1_1")(path + ".float"), weight_type=QuantType.QInt4)


def int4_embeddings(is_symmetric):
    """A decoder whose products and whose table of words are of four bits."""
    def make(path):
        import onnx
        import onnxruntime.quantization as quantization
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
        inputs = TABLE["llama"]["make"](path + ".float")
        quantizer = MatMulNBitsQuantizer(
            onnx.load(path + ".float"), block_size=16, is_symmetric=is_symmetric,
            quant_format=quantization.QuantFormat.QOperator, op_types_to_quantize=("MatMul", "Gather"),
            quant_axes=(("MatMul", 0), ("Gather", 1)))
        quantizer.process()
        quantizer.model.save_model_to_file(path)
        return inputs
    return make


TABLE["int4-embeddings"] = {"make": int4_embeddings(False), "group": "quantised", "room": 1e-3}
TABLE["int4-embeddings-symmetric"] = {"make": int4_embeddings(True), "group": "quantised", "room": 1e-3}


def window_cache(path, length, new):
    """Attention over a cache that holds a window of 16 words and is full, as exporters of decoders write it."""
    import onnx
    from onnx import TensorProto, helper
    random = np.random.default_rng(0)
    heads, shared, width, total = 4, 2, 16, 40
    inputs = {"query": random.standard_normal((1, new, heads * width)), "key": random.standard_normal((1, new, shared * width)),
              "value": random.standard_normal((1, new, shared * width)),
              "past_key": random.standard_normal((1, shared, length, width)),
              "past_value": random.standard_normal((1, shared, length, width))}
    inputs = {name: value.astype("float32") for name, value in inputs.items()}
    inputs |= {"last": np.array([total - 1], "int32"), "total": np.array(total, "int32")}
    types = {np.dtype("float32"): TensorProto.FLOAT, np.dtype("int32"): TensorProto.INT32}
    outputs = ["mixed", "present_key", "present_value"]
    node = helper.make_node("GroupQueryAttention", list(inputs), outputs, domain="com.microsoft", num_heads=heads,
                            kv_num_heads=shared, local_window_size=16, sliding_window_cache=1)
    graph = helper.make_graph(
        [node], "graph",
        [helper.make_tensor_value_info(name, types[value.dtype], value.shape) for name, value in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return inputs


@model("small")
def window_cache_step(path):
    return window_cache(path, 16, 1)


@model("small")
def window_cache_chunk(path):
    return window_cache(path, 16, 7)
