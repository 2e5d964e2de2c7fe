"""Small models of the families that the package transformers knows: a model each, by the name of its classes there."""

SMALL = {"hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 192}
WORDS = {**SMALL, "vocab_size": 500}
GROUPED = {**WORDS, "num_key_value_heads": 2}
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
BOTH = {"d_model": 96, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 192, "decoder_ffn_dim": 192, "vocab_size": 500}
T5 = {"d_model": 96, "d_kv": 24, "d_ff": 192, "num_layers": 2, "num_heads": 4, "vocab_size": 500}
STAGES = {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]}
WINDOWS = {"image_size": 64, "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4, "patch_size": 4}
SOUND = {**SMALL, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "conv_dim": [32] * 7}

TEXT = ["input_ids", "attention_mask"]
# By family: the start of the classes' names, what the model's ends with, its inputs, and its configuration.
FAMILIES = {
    "albert": ("Albert", "Model", TEXT, {**WORDS, "embedding_size": 48}),
    "bigbird": ("BigBird", "Model", TEXT, {**WORDS, "attention_type": "original_full"}),
    "camembert": ("Camembert", "Model", TEXT, WORDS),
    "convbert": ("ConvBert", "Model", TEXT, {**WORDS, "embedding_size": 96}),
    "deberta-v2": ("DebertaV2", "Model", TEXT, {**WORDS, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 32}),
    "electra": ("Electra", "Model", TEXT, WORDS),
    "esm": ("Esm", "Model", TEXT, {**WORDS, "pad_token_id": 0, "mask_token_id": 3, "position_embedding_type": "rotary"}),
    "fnet": ("FNet", "Model", TEXT[:1], {key: value for key, value in WORDS.items() if key != "num_attention_heads"}),
    "funnel": ("Funnel", "Model", TEXT, {"d_model": 96, "n_head": 4, "d_head": 24, "d_inner": 192, "block_sizes": [1, 1], "vocab_size": 500}),
    "longformer": ("Longformer", "Model", TEXT, {**WORDS, "attention_window": [8, 8]}),
    "mobilebert": ("MobileBert", "Model", TEXT, {**WORDS, "intermediate_size": 96, "embedding_size": 48, "intra_bottleneck_size": 48,
                                                 "num_feedforward_networks": 2}),
    "modernbert": ("ModernBert", "Model", TEXT, {**WORDS, **ENDS, "cls_token_id": 1, "sep_token_id": 2}),
    "mpnet": ("MPNet", "Model", TEXT, WORDS),
    "nomic-bert": ("NomicBert", "Model", TEXT, WORDS),
    "rembert": ("RemBert", "Model", TEXT, {**WORDS, "input_embedding_size": 48, "output_embedding_size": 48}),
    "roberta": ("Roberta", "Model", TEXT, WORDS),
    "roformer": ("RoFormer", "Model", TEXT, {**WORDS, "embedding_size": 96}),
    "squeezebert": ("SqueezeBert", "Model", TEXT, {**WORDS, "embedding_size": 96}),
    "t5-encoder": ("T5", "EncoderModel", TEXT, T5),
    "xlnet": ("XLNet", "Model", TEXT, {"d_model": 96, "n_layer": 2, "n_head": 4, "d_inner": 192, "vocab_size": 500}),
    "bloom": ("Bloom", "Model", TEXT, {"hidden_size": 96, "n_layer": 2, "n_head": 4, "vocab_size": 500}),
    "codegen": ("CodeGen", "Model", TEXT, {"n_embd": 96, "n_layer": 2, "n_head": 4, "rotary_dim": 16, "vocab_size": 500}),
    "cohere": ("Cohere", "Model", TEXT, {**GROUPED, **ENDS}),
    "falcon": ("Falcon", "Model", TEXT, {"hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 500}),
    "gemma2": ("Gemma2", "Model", TEXT, {**GROUPED, "head_dim": 24, "sliding_window": 16}),
    "gemma3": ("Gemma3Text", "Model", TEXT, {**GROUPED, "head_dim": 24, "sliding_window": 16}),
    "glm": ("Glm", "Model", TEXT, {**GROUPED, **ENDS, "head_dim": 24}),
    "gpt-j": ("GPTJ", "Model", TEXT, {"n_embd": 96, "n_layer": 2, "n_head": 4, "rotary_dim": 16, "vocab_size": 500}),
    "gpt-neo": ("GPTNeo", "Model", TEXT, {"hidden_size": 96, "num_layers": 2, "num_heads": 4, "intermediate_size": 192, "vocab_size": 500,
                                          "attention_types": [[["global", "local"], 1]], "window_size": 8}),
    "gpt-neox": ("GPTNeoX", "Model", TEXT, WORDS),
    "granite": ("Granite", "Model", TEXT, GROUPED),
    "mistral": ("Mistral", "Model", TEXT, {**GROUPED, "sliding_window": 16}),
    "mpt": ("Mpt", "Model", TEXT, {"d_model": 96, "n_layers": 2, "n_heads": 4, "vocab_size": 500}),
    "olmo2": ("Olmo2", "Model", TEXT, GROUPED),
    "opt": ("OPT", "Model", TEXT, {"hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 192, "vocab_size": 500,
                                   "word_embed_proj_dim": 96}),
    "phi": ("Phi", "Model", TEXT, WORDS),
    "phi3": ("Phi3", "Model", TEXT, {**GROUPED, **ENDS}),
    "qwen3": ("Qwen3", "Model", TEXT, {**GROUPED, "head_dim": 24}),
    "smollm3": ("SmolLM3", "Model", TEXT, {**GROUPED, **ENDS}),
    "stablelm": ("StableLm", "Model", TEXT, GROUPED),
    "starcoder2": ("Starcoder2", "Model", TEXT, GROUPED),
    "mamba": ("Mamba", "Model", TEXT[:1], {"hidden_size": 96, "num_hidden_layers": 2, "vocab_size": 500, "state_size": 8}),
    "rwkv": ("Rwkv", "Model", TEXT[:1], {"hidden_size": 96, "num_hidden_layers": 2, "attention_hidden_size": 96, "vocab_size": 500,
                                         "context_length": 64}),
    "bart": ("Bart", "Model", [*TEXT, "decoder_input_ids"], BOTH),
    "led": ("LED", "Model", [*TEXT, "decoder_input_ids"], {**BOTH, "attention_window": 8, "max_encoder_position_embeddings": 64,
                                                           "max_decoder_position_embeddings": 64}),
    "m2m": ("M2M100", "Model", [*TEXT, "decoder_input_ids"], BOTH),
    "marian": ("Marian", "Model", [*TEXT, "decoder_input_ids"], {**BOTH, **ENDS}),
    "pegasus": ("Pegasus", "Model", [*TEXT, "decoder_input_ids"], BOTH),
    "t5": ("T5", "Model", [*TEXT, "decoder_input_ids"], T5),
    "beit": ("Beit", "Model", 64, {**SMALL, "image_size": 64}),
    "clip-vision": ("CLIPVision", "Model", 64, {**SMALL, "image_size": 64, "patch_size": 16}),
    "convnextv2": ("ConvNextV2", "Model", 64, {"hidden_sizes": [16, 32, 64, 96], "depths": [1, 1, 2, 1]}),
    "data2vec-vision": ("Data2VecVision", "Model", 64, {**SMALL, "image_size": 64, "use_relative_position_bias": True}),
    "dinov2-registers": ("Dinov2WithRegisters", "Model", 56, {"image_size": 56, "patch_size": 14, "hidden_size": 96,
                                                             "num_hidden_layers": 2, "num_attention_heads": 4}),
    "dinov3": ("DINOv3ViT", "Model", 64, {**SMALL, "image_size": 64}),
    "dpt": ("DPT", "ForDepthEstimation", 64, {**SMALL, "num_hidden_layers": 4, "image_size": 64, "patch_size": 16,
                                              "backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [32] * 4, "fusion_hidden_size": 32}),
    "focalnet": ("FocalNet", "Model", 64, {"image_size": 64, "embed_dim": 24, "depths": [1, 1, 1, 1]}),
    "hiera": ("Hiera", "Model", 64, {"image_size": [64, 64], "embed_dim": 16, "depths": [1, 1, 1, 1], "num_heads": [1, 2, 4, 8]}),
    "levit": ("Levit", "Model", 224, {}),
    "mobilevit": ("MobileViT", "Model", 64, {"image_size": 64, "hidden_sizes": [32, 48, 64], "neck_hidden_sizes": [8, 16, 24, 32, 48, 64, 96]}),
    "mobilevit-v2": ("MobileViTV2", "Model", 64, {"image_size": 64}),
    "poolformer": ("PoolFormer", "Model", 64, STAGES),
    "regnet": ("RegNet", "Model", 64, {**STAGES, "embedding_size": 16, "groups_width": 16}),
    "segformer": ("Segformer", "Model", 128, {}),
    "siglip-vision": ("SiglipVision", "Model", 64, {**SMALL, "image_size": 64, "patch_size": 16}),
    "swin": ("Swin", "Model", 64, WINDOWS),
    "swin-v2": ("Swinv2", "Model", 64, WINDOWS),
    "yolos": ("Yolos", "ForObjectDetection", 64, {**SMALL, "image_size": [64, 64], "patch_size": 16, "num_detection_tokens": 10}),
    "audio-spectrogram": ("AST", "Model", {"input_values": (1, 128, 64)}, {**SMALL, "max_length": 128, "num_mel_bins": 64}),
    "hubert": ("Hubert", "Model", {"input_values": (1, 4000)}, SOUND),
    "sew": ("SEW", "Model", {"input_values": (1, 4000)}, {**{key: value for key, value in SOUND.items() if key != "conv_dim"},
                                                         "squeeze_factor": 2}),
    "unispeech-sat": ("UniSpeechSat", "Model", {"input_values": (1, 4000)}, SOUND),
    "wav2vec2-bert": ("Wav2Vec2Bert", "Model", {"input_features": (1, 50, 160)}, SMALL),
    "wav2vec2-conformer": ("Wav2Vec2Conformer", "Model", {"input_values": (1, 4000)}, {**SOUND, "position_embeddings_type": "rotary"}),
    "wavlm": ("WavLM", "Model", {"input_values": (1, 4000)}, SOUND),
    "patch-tst": ("PatchTST", "Model", {"past_values": (1, 64, 3)}, {"num_input_channels": 3, "context_length": 64, "d_model": 32,
                                                                     "num_hidden_layers": 2}),
    "videomae": ("VideoMAE", "Model", {"pixel_values": (1, 4, 3, 32, 32)}, {**SMALL, "image_size": 32, "patch_size": 16, "num_frames": 4,
                                                                            "tubelet_size": 2}),
    "timesformer": ("Timesformer", "Model", {"pixel_values": (1, 4, 3, 32, 32)}, {**SMALL, "image_size": 32, "patch_size": 16,
                                                                                  "num_frames": 4}),
}


def parts(name, transformers):
    """How a family's model is made, and its inputs by name."""
    start, end, inputs, options = FAMILIES[name]

    def build():
        config = getattr(transformers, start + "Config")(**options)
        if hasattr(config, "use_cache"):
            config.use_cache = False
        return getattr(transformers, start + end)(config)

    def values(torch):
        if isinstance(inputs, int):
            return {"pixel_values": torch.rand(1, 3, inputs, inputs)}
        if isinstance(inputs, dict):
            return {name: torch.randn(*shape) for name, shape in inputs.items()}
        words = torch.randint(3, 499, (1, 32))
        mask = torch.ones(1, 32, dtype=torch.int64)
        mask[:, 28:] = 0
        known = {"input_ids": words, "attention_mask": mask, "decoder_input_ids": words[:, :16]}
        return {name: known[name] for name in inputs}

    return build, values
