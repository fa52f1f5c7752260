# SPDX-License-Identifier: Apache-2.0
"""The golden cases of training, and how their files are made: no library, no randomness but Python's integers.

Weights are small integers times a power of two, so that fp32 (and bf16 or fp16, where the file has that type) holds
them exactly. They are larger than in a real initialisation, so that attention and activations are far from linear,
where mistakes show.
"""
import os
import random

import oracle_files as files
import oracle_order as order
import oracle_packed as packed
import oracle_shape as shapes

TRAINING = {"batch": 4, "micro_batches": 1, "seq": 16, "steps": 20, "lr": 0.01, "schedule": "cosine",
            "warmup_steps": 4, "floor": 0.1, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-5, "weight_decay": 0.0,
            "clip": 0.0, "trainable": ["*"], "seed": 1}
ARCHITECTURE = {"gpt2": "GPT2LMHeadModel", "llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM",
                "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "olmo2": "Olmo2ForCausalLM",
                "smollm3": "SmolLM3ForCausalLM", "phi3": "Phi3ForCausalLM", "gemma2": "Gemma2ForCausalLM",
                "gemma3_text": "Gemma3ForCausalLM"}


def gpt2(**changed):
    return {"model_type": "gpt2", "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 48, "vocab_size": 61,
            "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
            "attn_pdrop": 0.0, **changed}


def llama(family, **changed):
    """A value of None leaves the key out."""
    config = {"model_type": family, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
              "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 40, "vocab_size": 67,
              "max_position_embeddings": 64, "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
              "tie_word_embeddings": False, **changed}
    return {key: value for key, value in config.items() if value is not None}


def lora(scaling, rank, alpha, *on):
    return {"lora_rank": rank, "lora_alpha": alpha, "lora_scaling": scaling, "lora_on": list(on)}


def case(config, adapters=None, data=None, weights=None, **training):
    return {"config": config, "training": {**TRAINING, **training, **(adapters or {})}, "data": data or {},
            "weights": weights or {}}


LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}

LONGROPE = {"type": "longrope", "short_factor": [1.0, 1.5, 2.0, 3.5], "long_factor": [1.25, 2.0, 6.0, 9.5]}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 3.0, "beta_slow": 0.5}


def gemma(family, **changed):
    return llama(family, hidden_act=None, hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=True,
                 query_pre_attn_scalar=12, **changed)


# tests/golden/train/README.md says what each case is for.
CASES = {
    "gpt2": case(gpt2(), schedule="constant", warmup_steps=0, beta2=0.999),
    "gpt2-untied-odd": case(
        gpt2(n_embd=30, n_head=2, n_inner=37, vocab_size=97, n_positions=19, activation_function="gelu",
             tie_word_embeddings=False),
        seq=19, batch=6, micro_batches=2, weight_decay=0.1, clip=1.1),
    "gpt2-documents": case(gpt2(), data={"documents": True}, seq=24, micro_batches=4),
    "gpt2-frozen-table": case(gpt2(n_layer=3), trainable=["*", "!embedding.embedding.weight"], weight_decay=0.2),
    "llama": case(llama("llama"), clip=1.4, weight_decay=0.1),
    "llama-biases": case(
        llama("llama", attention_bias=True, mlp_bias=True, num_key_value_heads=4, head_dim=None,
              tie_word_embeddings=True, rms_norm_eps=1e-5),
        data={"samples": 47, "behind": 5}, weights={"dtype": "F16", "bits": 8}, micro_batches=2, seed=3),
    "llama-linear": case(
        llama("llama", rope_scaling={"type": "linear", "factor": 4.0}, hidden_size=27, head_dim=10,
              num_attention_heads=3, num_key_value_heads=1, intermediate_size=37, vocab_size=89),
        weights={"shards": 2}, seq=33, micro_batches=4),
    "llama-llama3": case(
        llama("llama", rope_theta=None, rope_parameters=LLAMA3, hidden_size=32, num_attention_heads=2,
              num_key_value_heads=1, head_dim=16, num_hidden_layers=1),
        seq=40, batch=2, clip=1.3),
    "llama-masked": case(
        llama("llama", vocab_size=71), data={"mask": True}, micro_batches=4, clip=1.9, weight_decay=0.05),
    "llama-frozen-below": case(
        llama("llama", num_hidden_layers=3), trainable=["*", "!embedding.*", "!layer.0.*"], clip=1.2, micro_batches=2,
        weight_decay=0.1),
    "llama-padding": case(
        llama("llama", vocab_size=29, pad_token_id=3, tie_word_embeddings=True), micro_batches=2,
        weight_decay=0.1, clip=2.3),
    "mistral-window": case(llama("mistral", sliding_window=7, head_dim=None, hidden_size=32), seq=24, micro_batches=2),
    "mistral-documents": case(
        llama("mistral", sliding_window=5, num_key_value_heads=1), data={"documents": True, "mask": True}, seq=32,
        batch=2, micro_batches=2, clip=2.1, weight_decay=0.1),
    "qwen2": case(
        llama("qwen2", hidden_size=48, num_attention_heads=6, head_dim=None, num_hidden_layers=1, intermediate_size=56,
              tie_word_embeddings=True),
        weights={"dtype": "BF16", "bits": 8}, weight_decay=0.1, clip=3.4),
    "qwen2-window-above": case(
        llama("qwen2", num_hidden_layers=3, use_sliding_window=True, sliding_window=6, max_window_layers=1), seq=20),
    "qwen2-frozen-tensors": case(
        llama("qwen2"), trainable=["*", "!layer.1.mlp.up.weight", "!layer.?.attention.qkv.bias", "!head.norm.weight"],
        micro_batches=2, clip=1.3),
    "qwen3": case(
        llama("qwen3", head_dim=16, num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=True),
        weight_decay=0.1, micro_batches=2, clip=2.6),
    "qwen3-layer-types": case(
        llama("qwen3", attention_bias=True, num_hidden_layers=3, use_sliding_window=True, sliding_window=9,
              intermediate_size=24, layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
        weights={"dtype": "BF16", "bits": 8}, seq=21),
    "gpt2-lora": case(
        gpt2(), lora("rank_stabilized", 5, 3, "attention.qkv", "attention.output", "mlp.up", "mlp.down"),
        trainable=["layer.1.*.lora_*", "embedding.embedding.weight"], weight_decay=0.1),
    "llama-lora": case(
        llama("llama", attention_bias=True, mlp_bias=True, hidden_size=27, head_dim=10, num_attention_heads=3,
              num_key_value_heads=1, intermediate_size=37),
        lora("standard", 3, 4.5, *shapes.LORA_MODULES["llama"]), data={"documents": True}, seq=24,
        trainable=["*.lora_*"]),
    "qwen3-lora": case(
        llama("qwen3", head_dim=16, num_attention_heads=2, num_key_value_heads=1),
        lora("standard", 4, 8, "attention.q", "attention.v", "mlp.gate", "mlp.down"), trainable=["*.lora_*"],
        micro_batches=2, clip=1.35, weight_decay=0.1),
    "llama-yarn": case(llama("llama", rope_scaling=YARN, rope_theta=100.0, vocab_size=71), seq=40, batch=2, clip=1.2),
    "qwen2-yarn": case(
        llama("qwen2", rope_scaling={**YARN, "truncate": False, "attention_factor": 1.2}, rope_theta=900.0, head_dim=None,
              hidden_size=48, num_attention_heads=3, num_key_value_heads=1), seq=28, micro_batches=2),
    "olmo2": case(llama("olmo2"), clip=1.9, weight_decay=0.1, micro_batches=2),
    "olmo2-odd": case(
        llama("olmo2", attention_bias=True, hidden_size=27, head_dim=10, num_attention_heads=3, num_key_value_heads=3,
              intermediate_size=37, vocab_size=89, rms_norm_eps=1e-6),
        data={"documents": True, "mask": True}, weights={"dtype": "BF16", "bits": 8}, seq=24, micro_batches=4),
    "olmo2-lora": case(
        llama("olmo2"), lora("standard", 4, 2, *shapes.LORA_MODULES["llama"]), trainable=["*.lora_*"],
        clip=0.95),
    "smollm3": case(
        llama("smollm3", num_hidden_layers=4, pad_token_id=66, tie_word_embeddings=None, rope_theta=None), clip=2.1,
        weight_decay=0.1),
    "smollm3-windows": case(
        llama("smollm3", num_hidden_layers=4, pad_token_id=5, attention_bias=True, mlp_bias=True, use_sliding_window=True,
              sliding_window=6, no_rope_layers=[0, 1, 1, 0],
              layer_types=["full_attention", "sliding_attention", "full_attention", "sliding_attention"]),
        data={"documents": True}, seq=20, micro_batches=2),
    "smollm3-lora": case(
        llama("smollm3", pad_token_id=66, no_rope_layer_interval=2),
        lora("rank_stabilized", 2, 3, "attention.k", "attention.output", "mlp.up"),
        trainable=["*.lora_*", "head.norm.weight"], micro_batches=2),
    "phi3": case(
        llama("phi3", pad_token_id=66, head_dim=None, hidden_size=32, sliding_window=9), clip=1.7, weight_decay=0.1),
    "phi3-longrope": case(
        llama("phi3", pad_token_id=66, head_dim=None, hidden_size=24, num_attention_heads=3, num_key_value_heads=1,
              intermediate_size=37, rope_scaling=LONGROPE, original_max_position_embeddings=16),
        weights={"dtype": "BF16", "bits": 8}, seq=21, micro_batches=4),
    "phi3-partial": case(
        llama("phi3", pad_token_id=66, head_dim=None, hidden_size=40, partial_rotary_factor=0.85, tie_word_embeddings=True,
              rope_scaling=LONGROPE, original_max_position_embeddings=16), weight_decay=0.1, micro_batches=2, seq=20),
    "phi3-lora": case(
        llama("phi3", pad_token_id=66, head_dim=None, hidden_size=32, rope_scaling=LONGROPE,
              original_max_position_embeddings=32),
        lora("standard", 4, 2, *shapes.LORA_MODULES["phi3"]), trainable=["*.lora_*"], seq=24, clip=0.75),
    "gemma2": case(
        gemma("gemma2", attn_logit_softcapping=1.5, final_logit_softcapping=4.0, sliding_window=5), weight_decay=0.1,
        micro_batches=2),
    "gemma2-odd": case(
        gemma("gemma2", hidden_size=27, head_dim=10, num_attention_heads=3, num_key_value_heads=1, intermediate_size=37,
              attention_bias=True, num_hidden_layers=3, vocab_size=89, sliding_window=7,
              final_logit_softcapping=None),
        data={"documents": True, "mask": True}, weights={"dtype": "BF16", "bits": 8}, seq=24, micro_batches=4, clip=2.5),
    "gemma2-lora": case(
        gemma("gemma2", attn_logit_softcapping=3.0, sliding_window=5),
        lora("standard", 3, 6, *shapes.LORA_MODULES["llama"]), trainable=["*.lora_*"], micro_batches=2),
    "gemma3": case(
        gemma("gemma3_text", num_hidden_layers=3, sliding_window=5, sliding_window_pattern=3, rope_local_base_freq=80.0,
              rope_theta=900.0, rope_scaling={"rope_type": "linear", "factor": 2.0}), weight_decay=0.1, micro_batches=2),
    "gemma3-odd": case(
        gemma("gemma3_text", num_hidden_layers=3, hidden_size=27, head_dim=10, num_attention_heads=3,
              num_key_value_heads=1, intermediate_size=37, attention_bias=True, vocab_size=89, sliding_window=9,
              rope_theta=None, final_logit_softcapping=5.0,
              layer_types=["full_attention", "sliding_attention", "full_attention"],
              rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 5000.0},
                               "sliding_attention": {**YARN, "rope_theta": 60.0}}),
        data={"documents": True}, weights={"dtype": "BF16", "bits": 8}, seq=24),
    "gemma3-lora": case(
        gemma("gemma3_text", sliding_window=5, sliding_window_pattern=2),
        lora("standard", 4, 8, "attention.q", "attention.v", "mlp.gate", "mlp.down"),
        trainable=["*.lora_*"], micro_batches=2),
    "gpt2-packed": case(gpt2(), data={"packed": 16}, seq=36, batch=12, micro_batches=4, weight_decay=0.1),
    "llama-packed": case(
        llama("llama", vocab_size=47), data={"packed": 18}, seq=40, batch=12, micro_batches=3, weight_decay=0.1,
        clip=0.65),
    "qwen3-norms-only": case(llama("qwen3", head_dim=6), trainable=["layer.*norm.weight"], batch=2, lr=0.03),
}


def bell(rng, bits):
    """Returns an integer of at most `bits` bits and a sign, from a bell curve with deviation 2^(bits - 3)."""
    limit = (1 << bits - 1) - 1
    total = sum(rng.getrandbits(16) for _ in range(12)) - 6 * 65535  # deviation 65536
    return max(-limit, min(limit, total >> 19 - bits))


def initial(rng, tensor, shape, bits, offset):
    """Returns values with deviation 1/4 for a table, 1 / sqrt(inputs) (to a power of two) for a matrix, 1/8 around 1
    (less the offset of gains) for a gain or around 0 for a bias."""
    size = 1
    for n in shape:
        size *= n
    if not tensor.matrix:
        centre = 1.0 - offset if tensor.ours.endswith("norm.weight") else 0.0
        return [centre + bell(rng, 5) * 2.0 ** -5 for _ in range(size)]
    inputs = next(iter(tensor.parts.values()))[1]
    scale = -2 if tensor.ours.startswith("embedding") else -((inputs - 1).bit_length() + 1 >> 1)
    return [bell(rng, bits) * 2.0 ** (scale - bits + 3) for _ in range(size)]


def make_tokens(rng, count, vocabulary):
    """Makes tokens that can be learned: mostly the same successor, sometimes any token."""
    tokens = [rng.randrange(vocabulary)]
    while len(tokens) < count:
        follows = (tokens[-1] * 7 + 3) % vocabulary
        tokens.append(follows if rng.getrandbits(2) else rng.randrange(vocabulary))
    return tokens


def make_documents(rng, count, seq):
    """Makes starts of documents: of a token, of a few, of more than a sample; some start with a sample, some right
    after that."""
    starts, at = [], 0
    while at < count:
        starts.append(at)
        at += (1, 3, seq // 2, seq, seq - at % seq, seq + seq // 3)[rng.randrange(6)]
    return starts


def make_mask(rng, count, training):
    """Masks a third of all tokens and the second sequence of each batch, so that a micro-batch may have no loss."""
    mask = [int(rng.randrange(3) > 0) for _ in range(count)]
    for _, sample, *_ in training["samples"]:
        for at in range(sample * training["seq"] + 1, (sample + 1) * training["seq"] + 1):
            mask[at] = 0
    return mask


def make_data(rng, folder, made, training, vocabulary):
    """Makes data with each sample once, or with fewer samples and some tokens after the last one, so that epochs change
    within a batch."""
    batch, seq, steps = training["batch"], training["seq"], training["steps"]
    if made["data"].get("packed"):
        packed.make_packed(rng, folder, training, made["data"]["packed"])
        training["samples"] = [[order.sample_at(training["seed"], batch, step * batch + row) for row in range(batch)]
                               for step in range(steps)]
        return
    samples = made["data"].get("samples", steps * batch)
    tokens = make_tokens(rng, samples * seq + 1 + made["data"].get("behind", 0), vocabulary)
    training["data"] = "data.bin"
    files.write_numbers(os.path.join(folder, training["data"]), "H", tokens)
    training["samples"] = [[order.sample_at(training["seed"], samples, step * batch + row) for row in range(batch)]
                           for step in range(steps)]
    if made["data"].get("documents"):
        files.write_numbers(os.path.join(folder, "data.bin.docs"), "Q", make_documents(rng, len(tokens), seq))
    if made["data"].get("mask"):
        files.write_numbers(os.path.join(folder, "data.bin.mask"), "B", make_mask(rng, len(tokens), training))


def make_weights(rng, tensors, bits, offset=0.0):
    weights = {}
    for tensor in tensors:
        for part in tensor.parts:
            size = shapes.file_shape(tensor, part)
            weights[part] = (size, initial(rng, tensor, size, bits, offset))
    return weights


def make_adapter(rng, folder, shape, training, bits):
    """Makes an adapter's files. Tensors that are trained whole get other values than in the base."""
    tensors, adapters = shapes.tensors_of(shape), shapes.adapters_of(shape, training)
    whole = make_weights(rng, [t for t in tensors if shapes.is_trained(training["trainable"], t.ours)], bits,
                         shape.norm_offset)
    modules = [name.removesuffix(".weight") for name in whole]
    table, = tensors[0].parts
    ties = shape.tied and table in whole
    if ties:
        whole[files.HEAD] = whole[table]
        modules.append("lm_head")
    files.write_tensors(
        os.path.join(folder, "adapter_model.safetensors"),
        {**{files.PEFT + name: value for name, value in whole.items()}, **make_weights(rng, adapters, bits)}, "F32")
    layers = sorted({int(tensor.ours.split(".")[1]) for tensor in adapters})
    names = [shapes.lora_module(shape, word, 0).split(".0.")[1] for word in training["lora_on"]]
    files.write_json(os.path.join(folder, "adapter_config.json"), {
        "base_model_name_or_path": None, "bias": "none", "ensure_weight_tying": ties,
        "fan_in_fan_out": shape.family == "gpt2", "inference_mode": True,
        "layers_to_transform": None if len(layers) == shape.layers else layers, "lora_alpha": training["lora_alpha"],
        "lora_dropout": 0.0, "modules_to_save": modules, "peft_type": "LORA", "r": training["lora_rank"],
        "target_modules": names if shape.family == "gpt2" else [name.split(".")[1] for name in names],
        "task_type": "CAUSAL_LM", "use_rslora": training["lora_scaling"] == "rank_stabilized"})


def make_case(name, folder):
    """Makes all files except the expected results."""
    made = CASES[name]
    rng = random.Random(f"autohete {name}")
    os.makedirs(folder, exist_ok=True)
    config = {"architectures": [ARCHITECTURE[made["config"]["model_type"]]], **made["config"]}
    dtype, bits = made["weights"].get("dtype", "F32"), made["weights"].get("bits", 12)
    files.write_json(os.path.join(folder, "config.json"), config)
    shape = shapes.read_shape(config)
    weights = make_weights(rng, shapes.tensors_of(shape), bits, shape.norm_offset)
    files.write_weights(folder, weights, dtype, made["weights"].get("shards", 1))
    assert files.read_weights(folder) == {
        part: (size, files.array.array("d", values)) for part, (size, values) in weights.items()}, "rounded"
    training = dict(made["training"])
    make_data(rng, folder, made, training, shape.vocabulary)
    if "lora_rank" in training:
        make_adapter(rng, folder, shape, training, bits)
    files.write_json(os.path.join(folder, "training.json"), training)
