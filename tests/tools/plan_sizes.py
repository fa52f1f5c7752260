# SPDX-License-Identifier: Apache-2.0
"""Sizes that follow from a model document: parameters, flat vectors, bytes of an element (docs/layout.md)."""
import re

ALIGN_ELEMENTS = 128  # each tensor of a flat vector begins at a multiple of this, and the vector ends at a multiple


def layer_tensors(model):
    width, gated = model["width"], model["activation"].endswith("_gated")
    query, key = model["heads"] * model["head_dim"], model["kv_heads"] * model["head_dim"]
    qkv, joined, place = query + 2 * key, model["family"] == "phi3", model.get("norm_place", "before")
    layer_norm, mlp, bias = model["norm"] == "layer", model["mlp_width"], model.get("mlp_bias", False)
    before, after = place != "after", place != "before"
    q_norm, k_norm = (query, key) if model.get("qk_norm_whole", False) else (model["head_dim"], model["head_dim"])
    table = [
        ("attention_norm.weight", width, before),
        ("attention_norm.bias", width, before and layer_norm),
        ("attention.qkv.weight", qkv * width, True),
        ("attention.qkv.bias", qkv, model.get("qkv_bias", False)),
        ("attention.q_norm.weight", q_norm, model.get("qk_norm", False)),
        ("attention.k_norm.weight", k_norm, model.get("qk_norm", False)),
        ("attention.output.weight", width * query, True),
        ("attention.output.bias", width, model.get("attention_output_bias", False)),
        ("attention_post_norm.weight", width, after),
        ("mlp_norm.weight", width, before),
        ("mlp_norm.bias", width, before and layer_norm),
        ("mlp.gate_up.weight", 2 * mlp * width, joined),
        ("mlp.gate.weight", mlp * width, gated and not joined),
        ("mlp.gate.bias", mlp, gated and bias),
        ("mlp.up.weight", mlp * width, not joined),
        ("mlp.up.bias", mlp, bias),
        ("mlp.down.weight", width * mlp, True),
        ("mlp.down.bias", width, bias),
        ("mlp_post_norm.weight", width, after),
    ]
    return [(name, elements) for name, elements, present in table if present]


def block_tensors(model, block):
    """Returns [(name, elements)] of a block, in flat order."""
    width = model["width"]
    if block == 0:
        positions = [("position.weight", model["max_positions"] * width)]
        return [("embedding.weight", model["vocabulary"] * width)] + positions * (model["position"] == "learned")
    if block <= model["layers"]:
        return layer_tensors(model)
    tensors = [("norm.weight", width)] + [("norm.bias", width)] * (model["norm"] == "layer")
    return tensors + [("head.weight", model["vocabulary"] * width)] * (not model.get("tied", False))


def matches(pattern, name):
    """`*` matches any text, dots included; `?` matches one character."""
    parts = [".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern]
    return re.fullmatch("".join(parts), name, re.DOTALL) is not None


def is_trained(patterns, name):
    """The last matching pattern counts."""
    for pattern in reversed(patterns):
        excludes = pattern.startswith("!")
        if matches(pattern[1:] if excludes else pattern, name):
            return not excludes
    return False


def padded(elements):
    return -(-elements // ALIGN_ELEMENTS) * ALIGN_ELEMENTS


class Sizes:
    """The sizes that each block of a plan must have, by the model and by what the plan trains."""

    def __init__(self, model, training):
        self.tied = model.get("tied", False)
        self.n_blocks = model["layers"] + 2
        bf16 = training["dtype"] == "bf16"
        self.weight_bytes = self.gradient_bytes = 2 if bf16 else 4
        moment_bytes = 2 if training["state_dtype"] == "bf16" else 4
        self.state_bytes = 2 * moment_bytes + (4 if bf16 else 0)  # m, v, and the master if it is not the weight itself
        self.fp32 = not bf16
        tokens = training["batch"] // training["micro_batches"] * training["seq"]
        self.residual_bytes = tokens * model["width"] * self.weight_bytes
        self.parameters, self.flat, self.trained, self.trained_parameters = [], [], [], []
        for block in range(self.n_blocks):
            owner = "embedding" if block == 0 else "head" if block > model["layers"] else f"layer.{block - 1}"
            tensors = block_tensors(model, block)
            chosen = [n for name, n in tensors if is_trained(training["trainable"], f"{owner}.{name}")]
            self.parameters.append(sum(n for _, n in tensors))
            self.flat.append(sum(padded(n) for _, n in tensors))
            self.trained.append(sum(padded(n) for n in chosen))
            self.trained_parameters.append(sum(chosen))

    def states_in_bytes(self, block):
        """Returns the bytes that a streamed element brings in: its states, and the fp32 weight (which is the master) if
        that is on the host."""
        return self.state_bytes + (4 if self.fp32 and block["weights"] == "host" else 0)

    def states_out_bytes(self, block):
        """Returns the bytes that a streamed element sends out: its states, and the new weight if weights are on the
        host."""
        return self.state_bytes + (self.weight_bytes if block["weights"] == "host" else 0)
