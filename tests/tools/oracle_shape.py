# SPDX-License-Identifier: Apache-2.0
"""What a Hugging Face config.json says about a model: its shape, and its tensors under both names; and what the keys
"lora_..." of training.json say about adapters.

Written from the classes of the transformers library, not from the product's reader. Each tensor of the product (named
as for `--freeze`) consists of one or more tensors of the file: qkv has q above k above v, and the matrices of gpt2's
layers are transposed (Conv1D). Adapters have the names of peft, whose A and B are never transposed.
"""
import math
from dataclasses import dataclass, field

import oracle_files as files

LORA_INPUTS = {  # the adapters with a common input, which are stored one above the other
    "attention.qkv": ("attention.q", "attention.k", "attention.v", "attention.qkv"),
    "attention.output": ("attention.output",), "mlp.gate_up": ("mlp.gate", "mlp.up", "mlp.gate_up"),
    "mlp.down": ("mlp.down",)}
LORA_MODULES = {
    "gpt2": {"attention.qkv": "attn.c_attn", "attention.output": "attn.c_proj", "mlp.up": "mlp.c_fc",
             "mlp.down": "mlp.c_proj"},
    "llama": {"attention.q": "self_attn.q_proj", "attention.k": "self_attn.k_proj", "attention.v": "self_attn.v_proj",
              "attention.output": "self_attn.o_proj", "mlp.gate": "mlp.gate_proj", "mlp.up": "mlp.up_proj",
              "mlp.down": "mlp.down_proj"},
    "phi3": {"attention.qkv": "self_attn.qkv_proj", "attention.output": "self_attn.o_proj",
             "mlp.gate_up": "mlp.gate_up_proj", "mlp.down": "mlp.down_proj"}}


@dataclass
class Tensor:
    ours: str      # "layer.0.attention.qkv.weight"
    parts: dict    # name in the file -> (rows, cols), or (rows,) for a vector, as the product has them
    transposed: bool = False

    @property
    def matrix(self):
        return len(next(iter(self.parts.values()))) == 2


@dataclass
class Shape:
    family: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp_width: int
    vocabulary: int
    positions: int
    epsilon: float
    activation: str          # gelu_tanh, gelu, silu_gated, gelu_tanh_gated
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    qk_norm: bool
    tied: bool
    windows: list            # for each layer; 0: none
    rope: dict = field(default_factory=dict)  # empty: learned positions
    padding: int | None = None  # the token whose row of the embedding gets no gradient as an input
    lora_scale: float = 0.0     # the factor of adapters
    norms: str = "before"       # of attention and MLP: before, after, around
    norm_offset: float = 0.0    # gains are this much more than the weights
    qk_whole: bool = False      # the norm of q is of all heads together, and so is that of k
    query_scalar: float = 0.0   # scores are divided by its square root; 0: head_dim
    score_cap: float = 0.0      # 0: none
    logit_cap: float = 0.0
    embedding_scale: float = 1.0
    window_rope: dict = field(default_factory=dict)  # of layers with a window, where it differs
    unrotated: tuple = ()       # layers without rope
    joined: bool = False        # q, k and v are one matrix in the file, and so are gate and up


def _settle(rope, theta, config):
    rope = dict(rope or {})
    rope.setdefault("rope_theta", theta)
    rope["kind"] = rope.get("rope_type") or rope.get("type") or "default"
    rope["max_positions"] = config["max_position_embeddings"]
    rope.setdefault("partial_rotary_factor", config.get("partial_rotary_factor", 1))
    rope.setdefault("original_max_position_embeddings", config["max_position_embeddings"])
    return rope


def _rope(config):
    """Reads rope_parameters (newer) or rope_theta and rope_scaling (older)."""
    theta = config.get("rope_theta") or {"smollm3": 2e6, "gemma3_text": 1e6}.get(config["model_type"], 1e4)
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if config["model_type"] == "gemma3_text":
        rope = rope.get("full_attention", {}) if config.get("rope_parameters") else rope
    if config["model_type"] == "phi3":
        rope = {**rope, "original_max_position_embeddings": config.get("original_max_position_embeddings", 4096)}
    return _settle(rope, theta, config)


def _window_rope(config):
    if config["model_type"] != "gemma3_text":
        return {}
    inside = (config.get("rope_parameters") or {}).get("sliding_attention")
    return _settle(inside, config.get("rope_local_base_freq", 1e4), config)


def _unrotated(config):
    if config["model_type"] != "smollm3":
        return ()
    layers, interval = config["num_hidden_layers"], config.get("no_rope_layer_interval", 4)
    rotated = config.get("no_rope_layers") or [(i + 1) % interval for i in range(layers)]
    return tuple(i for i in range(layers) if not rotated[i])


def _windows(config, layers):
    """layer_types decides; without it: mistral and phi3 have a window everywhere, qwen from max_window_layers on, smollm3
    where it is not rotated, gemma2 in every second layer, gemma3 in all but every sixth."""
    family, window = config["model_type"], config.get("sliding_window", 4096) or 0
    if (family in ("gpt2", "llama", "olmo2") or family == "phi3" and "sliding_window" not in config
            or family in ("qwen2", "qwen3", "smollm3") and not config.get("use_sliding_window")):
        return [0] * layers
    first, nope, pattern = config.get("max_window_layers", 28), _unrotated(config), config.get("sliding_window_pattern", 6)
    slides = {"qwen2": lambda i: i >= first, "qwen3": lambda i: i >= first, "smollm3": lambda i: i in nope,
              "gemma2": lambda i: i % 2 == 0, "gemma3_text": lambda i: (i + 1) % pattern}.get(family, lambda i: True)
    types = config.get("layer_types") or ["sliding_attention" if slides(i) else "full_attention" for i in range(layers)]
    return [window if kind == "sliding_attention" else 0 for kind in types]


def _gpt2(config):
    width, heads = config["n_embd"], config["n_head"]
    activation = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu"}
    return Shape(
        family="gpt2", layers=config["n_layer"], width=width, heads=heads, kv_heads=heads, head_dim=width // heads,
        mlp_width=config.get("n_inner") or 4 * width, vocabulary=config["vocab_size"],
        positions=config["n_positions"], epsilon=config.get("layer_norm_epsilon", 1e-5),
        activation=activation[config.get("activation_function", "gelu_new")], qkv_bias=True, output_bias=True,
        mlp_bias=True, qk_norm=False, tied=config.get("tie_word_embeddings", True), windows=[0] * config["n_layer"])


def lora_scale(training):
    if "lora_rank" not in training:
        return 0.0
    rank = training["lora_rank"]
    return training["lora_alpha"] / {"standard": rank, "rank_stabilized": math.sqrt(rank)}[training["lora_scaling"]]


def read_shape(config):
    family = config["model_type"]
    if family == "gpt2":
        return _gpt2(config)
    width, heads, layers = config["hidden_size"], config["num_attention_heads"], config["num_hidden_layers"]
    bias = bool(config.get("attention_bias")) and family not in ("mistral", "qwen2", "phi3")
    gemma, more = family in ("gemma2", "gemma3_text"), {}
    if gemma:
        first = family == "gemma2"
        more = {"norm_offset": 1.0, "query_scalar": config.get("query_pre_attn_scalar", 256),
                "score_cap": first and config.get("attn_logit_softcapping", 50.0) or 0.0,
                "logit_cap": config.get("final_logit_softcapping", 30.0 if first else None) or 0.0, "embedding_scale": math.sqrt(width),
                "window_rope": _window_rope(config)}
    paddings = {"olmo2": 1, "smollm3": 128004, "phi3": 32000, "gemma2": 0, "gemma3_text": 0}
    return Shape(
        family=family, layers=layers, width=width, heads=heads, kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or width // heads, mlp_width=config["intermediate_size"],
        vocabulary=config["vocab_size"], positions=config["max_position_embeddings"],
        epsilon=config.get("rms_norm_eps", 1e-5 if family in ("olmo2", "phi3") else 1e-6),
        activation="gelu_tanh_gated" if gemma else "silu_gated", qkv_bias=family == "qwen2" or bias, output_bias=bias,
        mlp_bias=family in ("llama", "smollm3") and bool(config.get("mlp_bias")),
        qk_norm=family in ("qwen3", "olmo2", "gemma3_text"),
        tied=bool(config.get("tie_word_embeddings", gemma or family == "smollm3")), windows=_windows(config, layers),
        rope=_rope(config), padding=config.get("pad_token_id", paddings.get(family)),
        norms={"olmo2": "after", "gemma2": "around", "gemma3_text": "around"}.get(family, "before"),
        qk_whole=family == "olmo2", unrotated=_unrotated(config), joined=family == "phi3", **more)


def _gpt2_layer(shape, ours, theirs):
    width, mlp = shape.width, shape.mlp_width

    def norm(name, their):
        return [Tensor(f"{ours}.{name}.{kind}", {f"{theirs}.{their}.{kind}": (width,)}) for kind in ("weight", "bias")]

    def linear(name, their, rows, cols):
        return [Tensor(f"{ours}.{name}.weight", {f"{theirs}.{their}.weight": (rows, cols)}, transposed=True),
                Tensor(f"{ours}.{name}.bias", {f"{theirs}.{their}.bias": (rows,)})]
    return (norm("attention_norm", "ln_1") + linear("attention.qkv", "attn.c_attn", 3 * width, width)
            + linear("attention.output", "attn.c_proj", width, width) + norm("mlp_norm", "ln_2")
            + linear("mlp.up", "mlp.c_fc", mlp, width) + linear("mlp.down", "mlp.c_proj", width, mlp))


def _llama_layer(shape, ours, theirs):
    width, mlp, head = shape.width, shape.mlp_width, shape.head_dim
    query, key = shape.heads * head, shape.kv_heads * head

    def norm(name, their, size):
        return [Tensor(f"{ours}.{name}.weight", {f"{theirs}.{their}.weight": (size,)})]

    def linear(name, their, cols, bias):
        """`their`: name in the file -> rows."""
        made = [Tensor(f"{ours}.{name}.weight", {f"{theirs}.{part}.weight": (n, cols) for part, n in their.items()})]
        if bias:
            made += [Tensor(f"{ours}.{name}.bias", {f"{theirs}.{part}.bias": (n,) for part, n in their.items()})]
        return made
    before, after = shape.norms != "after", shape.norms != "before"
    qkv = ({"self_attn.qkv_proj": query + 2 * key} if shape.joined else
           {"self_attn.q_proj": query, "self_attn.k_proj": key, "self_attn.v_proj": key})
    tensors = norm("attention_norm", "input_layernorm", width) if before else []
    tensors += linear("attention.qkv", qkv, width, shape.qkv_bias)
    if shape.qk_norm:
        tensors += norm("attention.q_norm", "self_attn.q_norm", query if shape.qk_whole else head)
        tensors += norm("attention.k_norm", "self_attn.k_norm", key if shape.qk_whole else head)
    tensors += linear("attention.output", {"self_attn.o_proj": width}, query, shape.output_bias)
    if after:
        tensors += norm("attention_post_norm", "post_attention_layernorm", width)
    if before:
        tensors += norm("mlp_norm", "pre_feedforward_layernorm" if after else "post_attention_layernorm", width)
    if shape.joined:
        tensors += linear("mlp.gate_up", {"mlp.gate_up_proj": 2 * mlp}, width, False)
    else:
        tensors += linear("mlp.gate", {"mlp.gate_proj": mlp}, width, shape.mlp_bias)
        tensors += linear("mlp.up", {"mlp.up_proj": mlp}, width, shape.mlp_bias)
    tensors += linear("mlp.down", {"mlp.down_proj": width}, mlp, shape.mlp_bias)
    return tensors + (norm("mlp_post_norm", "post_feedforward_layernorm", width) if after else [])


def tensors_of(shape):
    """All tensors, in the product's order."""
    table = (shape.vocabulary, shape.width)
    if shape.family == "gpt2":
        tensors = [Tensor("embedding.embedding.weight", {"transformer.wte.weight": table}),
                   Tensor("embedding.position.weight", {"transformer.wpe.weight": (shape.positions, shape.width)})]
        for i in range(shape.layers):
            tensors += _gpt2_layer(shape, f"layer.{i}", f"transformer.h.{i}")
        tensors += [Tensor(f"head.norm.{kind}", {f"transformer.ln_f.{kind}": (shape.width,)})
                    for kind in ("weight", "bias")]
    else:
        tensors = [Tensor("embedding.embedding.weight", {"model.embed_tokens.weight": table})]
        for i in range(shape.layers):
            tensors += _llama_layer(shape, f"layer.{i}", f"model.layers.{i}")
        tensors += [Tensor("head.norm.weight", {"model.norm.weight": (shape.width,)})]
    return tensors if shape.tied else tensors + [Tensor("head.head.weight", {"lm_head.weight": table})]


def lora_module(shape, word, layer):
    """The file's name of a matrix with an adapter, without "weight"."""
    if shape.family == "gpt2":
        return f"transformer.h.{layer}.{LORA_MODULES['gpt2'][word]}"
    return f"model.layers.{layer}.{LORA_MODULES['phi3' if shape.joined else 'llama'][word]}"


def adapters_of(shape, training):
    """The adapters that are trained, A and B of each, in the product's order."""
    tensors, rank, on = [], training.get("lora_rank"), training.get("lora_on", ())
    sizes = {part: size for tensor in tensors_of(shape) for part, size in tensor.parts.items()}
    for layer in range(shape.layers):
        for ours, words in LORA_INPUTS.items():
            modules = [lora_module(shape, word, layer) for word in words if word in on]
            if modules:
                tensors += [Tensor(f"layer.{layer}.{ours}.lora_a", {
                    f"{files.PEFT}{module}.lora_A.weight": (rank, sizes[f"{module}.weight"][1]) for module in modules}),
                            Tensor(f"layer.{layer}.{ours}.lora_b", {
                    f"{files.PEFT}{module}.lora_B.weight": (sizes[f"{module}.weight"][0], rank) for module in modules})]
    return [tensor for tensor in tensors if is_trained(training["trainable"], tensor.ours)]


def file_shape(tensor, part):
    """The shape of a part in the file."""
    shape = tensor.parts[part]
    return shape[::-1] if tensor.transposed else shape


def _matches(pattern, name):
    """`*` matches any text, `?` one character, everything else itself."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return _matches(pattern[1:], name) or (name != "" and _matches(pattern, name[1:]))
    return name != "" and pattern[0] in ("?", name[0]) and _matches(pattern[1:], name[1:])


def is_trained(patterns, name):
    """The last matching pattern counts; `!` excludes; a tensor that matches none is not trained."""
    trained = False
    for pattern in patterns:
        if _matches(pattern.lstrip("!"), name):
            trained = not pattern.startswith("!")
    return trained
