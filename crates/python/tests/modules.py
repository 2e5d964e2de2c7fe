"""Modules that are not ours, compiled by `torch.compile` with Streampool and compared with PyTorch's own results.

    PYTHONPATH=crates/python/python python crates/python/tests/modules.py [NAME...]

prints a line for each: the largest difference from eager, relative to the largest value; whether eight threads at once got the
bits that one got; how many parts went to Streampool; how many stayed with PyTorch, and why. Weights are random, from a fixed
seed. Needs the packages torch, torchvision, transformers and onnxscript. Without names it goes through all, which takes some
minutes.
"""

import concurrent.futures
import contextlib
import sys
import time
import warnings

import torch

import streampool as sp

LIMIT = 1e-4


def picture(size=64, batch=1):
    return torch.randn(batch, 3, size, size)


def classifier(name, size=64, **settings):
    def make():
        import torchvision

        return getattr(torchvision.models, name)(weights=None, **settings), (picture(size),), {}

    return make


def segmenter(name):
    def make():
        import torchvision

        return getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None), (picture(96),), {}

    return make


def detector(name, size=160, **settings):
    def make():
        import torchvision

        module = getattr(torchvision.models.detection, name)(weights=None, weights_backbone=None, **settings)
        return module, ([torch.rand(3, size, size)],), {}

    return make


SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 500}


def encoder(model, config, **settings):
    def make():
        import transformers

        module = getattr(transformers, model)(getattr(transformers, config)(**{**SMALL, **settings}))
        ids = torch.randint(5, 400, (2, 24))
        mask = torch.ones_like(ids)
        mask[1, 17:] = 0
        return module, (), {"input_ids": ids, "attention_mask": mask}

    return make


def vision_transformer():
    import transformers

    settings = {name: value for name, value in SMALL.items() if name != "vocab_size"}
    return transformers.ViTModel(transformers.ViTConfig(image_size=64, patch_size=16, **settings)), (picture(64),), {}


def encoder_of_t5():
    import transformers

    config = transformers.T5Config(vocab_size=500, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4)
    return transformers.T5EncoderModel(config), (), {"input_ids": torch.randint(5, 400, (2, 24))}


def wav2vec2():
    import transformers

    config = transformers.Wav2Vec2Config(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, conv_dim=(32, 32, 32),
        conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
    )  # fmt: skip
    return transformers.Wav2Vec2Model(config), (torch.randn(1, 4000),), {}


def whisper_encoder():
    import transformers
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = transformers.WhisperConfig(
        d_model=64, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=128, max_source_positions=100
    )
    return WhisperEncoder(config), (torch.randn(1, 80, 200),), {}


class Cached(torch.nn.Module):
    """A decoder that takes a token and what it kept of those before, and gives that for the next."""

    def __init__(self, decoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, ids, *kept):
        import transformers

        cache = transformers.DynamicCache()
        for layer in range(len(kept) // 2):
            cache.update(kept[2 * layer], kept[2 * layer + 1], layer)
        told = self.decoder(input_ids=ids, past_key_values=cache, use_cache=True)
        flat = [kept for layer in told.past_key_values.layers for kept in (layer.keys, layer.values)]
        return told.logits, *flat


def decoder(model, config, **settings):
    def make():
        import transformers

        module = Cached(getattr(transformers, model)(getattr(transformers, config)(**settings)))
        kept = [torch.randn(1, 4, 7, 16) for _ in range(4)]
        return module, (torch.randint(5, 400, (1, 1)), *kept), {}

    return make


class Recurrent(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embedding = torch.nn.Embedding(200, 32)
        self.recurrent = kind(32, 48, num_layers=2, batch_first=True, bidirectional=True)
        self.head = torch.nn.Linear(96, 5)

    def forward(self, ids):
        return self.head(self.recurrent(self.embedding(ids))[0][:, -1])


def recurrent(kind):
    return lambda: (Recurrent(kind), (torch.randint(0, 200, (3, 20)),), {})


MODULES = {
    **{name: classifier(name) for name in (
        "alexnet", "resnet18", "resnet50", "resnext50_32x4d", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0",
        "densenet121",
        "squeezenet1_1", "shufflenet_v2_x0_5", "mnasnet0_5", "regnet_y_400mf", "convnext_tiny", "vgg11_bn", "swin_t",
    )},
    "googlenet": classifier("googlenet", 96, init_weights=True),
    "inception_v3": classifier("inception_v3", 128, init_weights=True),
    "vit_b_16": classifier("vit_b_16", 64, image_size=64),
    **{name: segmenter(name) for name in ("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large")},
    "ssdlite320_mobilenet_v3_large": detector("ssdlite320_mobilenet_v3_large"),
    "fasterrcnn_mobilenet_v3_large_320_fpn": detector("fasterrcnn_mobilenet_v3_large_320_fpn"),
    "bert": encoder("BertModel", "BertConfig"),
    "distilbert": encoder("DistilBertModel", "DistilBertConfig", dim=64, n_layers=2, n_heads=4, hidden_dim=128),
    "roberta": encoder("RobertaModel", "RobertaConfig"),
    "electra": encoder("ElectraModel", "ElectraConfig", embedding_size=64),
    "albert": encoder("AlbertModel", "AlbertConfig", embedding_size=32),
    "mpnet": encoder("MPNetModel", "MPNetConfig"),
    "modernbert": encoder(
        "ModernBertModel", "ModernBertConfig", pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2
    ),
    "clip_text": encoder("CLIPTextModel", "CLIPTextConfig", eos_token_id=2),
    "vit": vision_transformer,
    "t5_encoder": encoder_of_t5,
    "gpt2_cached": decoder("GPT2LMHeadModel", "GPT2Config", vocab_size=500, n_embd=64, n_layer=2, n_head=4),
    "llama_cached": decoder("LlamaForCausalLM", "LlamaConfig", **SMALL),
    "wav2vec2": wav2vec2,
    "whisper_encoder": whisper_encoder,
    "lstm": recurrent(torch.nn.LSTM),
    "gru": recurrent(torch.nn.GRU),
}  # fmt: skip


def tensors(value):
    """All tensors in what a module gave, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [tensor for part in value.values() for tensor in tensors(part)]
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in tensors(part)]
    return []


def difference(ours, theirs):
    """The largest difference, relative to the largest value."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return float("inf")
    if ours.numel() == 0 or torch.equal(ours, theirs):
        return 0.0
    ours, theirs = ours.double(), theirs.double()
    return ((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1e-30)).item()


class Checked:
    """What was seen of one module."""

    def __init__(self, name):
        torch._dynamo.reset()
        torch.manual_seed(7)
        self.taken, self.left = 0, []
        module, args, kwargs = MODULES[name]()
        module.eval()

        def backend(graph, inputs):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                made = sp.torch_backend(graph, inputs)
            why = [str(each.message) for each in told if "leaves a part" in str(each.message)]
            self.left += why
            self.taken += not why
            return made

        compiled = torch.compile(module, backend=backend, dynamic=False)
        if any(isinstance(part, torch.nn.RNNBase) for part in module.modules()):
            # Dynamo leaves these to PyTorch by itself; exported as a whole they are taken.
            compiled = sp.from_torch(module, args, device="host")
            self.taken = 1
        with torch.inference_mode(), contextlib.redirect_stderr(None):
            expected = tensors(module(*args, **kwargs))
            one = tensors(compiled(*args, **kwargs))
            one = tensors(compiled(*args, **kwargs))
        assert expected and len(one) == len(expected), (len(one), len(expected))
        self.difference = max(map(difference, one, expected))

        def run(_):
            with torch.inference_mode():
                return tensors(compiled(*args, **kwargs))

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.is_same = all(all(map(torch.equal, many, one)) for many in pool.map(run, range(16)))

    def __str__(self):
        why = "".join(f"\n    {why}" for why in self.left)
        same = "the same bits" if self.is_same else "OTHER BITS"
        return f"{self.difference:.1e}, {same} from 8 threads, {self.taken} parts here, {len(self.left)} left to PyTorch{why}"


def main():
    bad = []
    for name in sys.argv[1:] or MODULES:
        begun = time.perf_counter()
        try:
            checked = Checked(name)
        except Exception as error:
            bad.append(name)
            print(f"{name}: FAILED: {type(error).__name__}: {str(error).strip().splitlines()[:1]}", flush=True)
            continue
        if checked.difference > LIMIT or not checked.is_same:
            bad.append(name)
        print(f"{name}: {checked}, {time.perf_counter() - begun:.1f} s", flush=True)
    print(f"{len(sys.argv[1:] or MODULES) - len(bad)} good, {len(bad)} bad: {' '.join(bad)}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
