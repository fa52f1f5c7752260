# SPDX-License-Identifier: Apache-2.0
"""The families as functions of their weights, from torch primitives; gradients are autograd's.

Weights are a dict from the file's names to tensors of the file's shapes. Nothing here converts, so everything is
computed in the type of the weights.
"""
import math

import torch
import torch.nn.functional as F

import oracle_files as files


def yarn_kept(rope, head, dtype):
    """How much of each frequency stays: all before the pair that turns beta_fast times within the original positions,
    nothing after the one that turns beta_slow times."""
    def pair(turns):
        return head * math.log(rope["original_max_position_embeddings"] / (turns * 2 * math.pi)) / (
            2 * math.log(rope["rope_theta"]))
    low, high = pair(rope.get("beta_fast") or 32), pair(rope.get("beta_slow") or 1)
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head - 1)
    return 1 - ((torch.arange(head // 2, dtype=dtype) - low) / (high - low or 0.001)).clamp(0, 1)


def rope_factor(rope):
    """Returns what cosines and sines are multiplied by."""
    if rope.get("attention_factor") is not None:
        return rope["attention_factor"]
    original = rope["original_max_position_embeddings"]
    if rope["kind"] == "yarn":
        def grown(mscale):
            return 0.1 * mscale * math.log(rope["factor"]) + 1 if rope["factor"] > 1 else 1.0
        one, other = rope.get("mscale"), rope.get("mscale_all_dim")
        return grown(one) / grown(other) if one and other else grown(1)
    factor = rope.get("factor") or rope["max_positions"] / original
    return math.sqrt(1 + math.log(factor) / math.log(original)) if rope["kind"] == "longrope" and factor > 1 else 1.0


def rope_frequencies(rope, head, seq, dtype):
    """Returns radians per position, one for each pair of elements of a head."""
    frequency = rope["rope_theta"] ** (-torch.arange(0, head, 2, dtype=dtype) / head)
    if rope["kind"] == "linear":
        return frequency / rope["factor"]
    if rope["kind"] == "yarn":
        kept = yarn_kept(rope, head, dtype)
        return kept * frequency + (1 - kept) * frequency / rope["factor"]
    if rope["kind"] == "longrope":
        which = "long_factor" if seq > rope["original_max_position_embeddings"] else "short_factor"
        return frequency / torch.tensor(rope[which], dtype=dtype)
    if rope["kind"] == "llama3":  # long waves are stretched, short ones stay, those between are blended
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        turns = rope["original_max_position_embeddings"] * frequency / (2 * math.pi)
        kept = ((turns - low) / (high - low)).clamp(0, 1)
        return kept * frequency + (1 - kept) * frequency / rope["factor"]
    assert rope["kind"] == "default"
    return frequency


def rotate(x, positions, frequencies, factor):
    """x: (batch, heads, seq, head_dim); of the elements that turn, i rotates with i + half of them. The rest stay."""
    angle = positions[:, None, :, None].to(x.dtype) * frequencies
    cos, sin = factor * angle.cos(), factor * angle.sin()
    first, second, rest = x.split([len(frequencies)] * 2 + [x.shape[-1] - 2 * len(frequencies)], dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin, rest), dim=-1)


def rms_norm(x, gain, epsilon):
    return x / (x.square().mean(-1, keepdim=True) + epsilon).sqrt() * gain


def layer_norm(x, gain, bias, epsilon):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + epsilon).sqrt() * gain + bias


def gelu(x, kind):
    if kind == "gelu":
        return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def capped(x, cap):
    return cap * torch.tanh(x / cap) if cap else x


def sees(starts, window):
    """Returns (batch, 1, seq, seq): a token sees itself and earlier tokens of its document, at most `window` tokens."""
    seq = starts.shape[1]
    query, key = torch.arange(seq)[:, None], torch.arange(seq)[None, :]
    seen = (key <= query) & (key >= starts[:, :, None])
    return (seen & (query - key < window) if window else seen)[:, None]


def attend(shape, q, k, v, seen):
    """q, k, v: (batch, heads or kv_heads, seq, head_dim). Returns (batch, seq, heads * head_dim)."""
    group = shape.heads // shape.kv_heads
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(
        shape.query_scalar or shape.head_dim)
    scores = capped(scores, shape.score_cap)
    weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
    return torch.einsum("bhqk,bhkd->bqhd", weights, v).flatten(2)


def heads_of(x, heads):
    """(batch, seq, heads * head_dim) -> (batch, heads, seq, head_dim)"""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def adapted(shape, w, module, x, y):
    """Returns y, the module's output for x, plus what its adapter makes of x, if it has one."""
    a, b = (w.get(f"{files.PEFT}{module}.lora_{part}.weight") for part in "AB")
    return y if a is None else y + shape.lora_scale * (x @ a.T) @ b.T


def gpt2_layer(shape, w, at, x, seen):
    def conv1d(name, x):
        y = x @ w[f"{at}.{name}.weight"] + w[f"{at}.{name}.bias"]
        return adapted(shape, w, f"{at}.{name}", x, y)

    def norm(name, x):
        return layer_norm(x, w[f"{at}.{name}.weight"], w[f"{at}.{name}.bias"], shape.epsilon)
    q, k, v = (heads_of(part, shape.heads) for part in conv1d("attn.c_attn", norm("ln_1", x)).chunk(3, dim=-1))
    x = x + conv1d("attn.c_proj", attend(shape, q, k, v, seen))
    return x + conv1d("mlp.c_proj", gelu(conv1d("mlp.c_fc", norm("ln_2", x)), shape.activation))


def llama_layer(shape, w, number, x, starts):
    at, window = f"model.layers.{number}", shape.windows[number]
    rope = shape.window_rope if shape.window_rope and window else shape.rope
    positions = torch.arange(x.shape[1]) - starts

    def linear(name, x):
        y = F.linear(x, w[f"{at}.{name}.weight"], w.get(f"{at}.{name}.bias"))
        return adapted(shape, w, f"{at}.{name}", x, y)

    def norm(name, x):
        return rms_norm(x, w[f"{at}.{name}.weight"] + shape.norm_offset, shape.epsilon)

    def attention(x):
        sizes = [shape.heads * shape.head_dim] + 2 * [shape.kv_heads * shape.head_dim]
        q, k, v = (linear("self_attn.qkv_proj", x).split(sizes, dim=-1) if shape.joined else
                   (linear(f"self_attn.{name}_proj", x) for name in "qkv"))
        if shape.qk_whole:
            q, k = norm("self_attn.q_norm", q), norm("self_attn.k_norm", k)
        q, k, v = heads_of(q, shape.heads), heads_of(k, shape.kv_heads), heads_of(v, shape.kv_heads)
        if shape.qk_norm and not shape.qk_whole:
            q, k = norm("self_attn.q_norm", q), norm("self_attn.k_norm", k)
        if number not in shape.unrotated:
            turning = int(shape.head_dim * rope["partial_rotary_factor"])
            frequencies, factor = rope_frequencies(rope, turning, x.shape[1], x.dtype), rope_factor(rope)
            q, k = rotate(q, positions, frequencies, factor), rotate(k, positions, frequencies, factor)
        return linear("self_attn.o_proj", attend(shape, q, k, v, sees(starts, window)))

    def mlp(x):
        gate, up = (linear("mlp.gate_up_proj", x).chunk(2, dim=-1) if shape.joined else
                    (linear("mlp.gate_proj", x), linear("mlp.up_proj", x)))
        gate = gelu(gate, "gelu_tanh") if shape.activation == "gelu_tanh_gated" else gate * torch.sigmoid(gate)
        return linear("mlp.down_proj", gate * up)
    if shape.norms == "before":
        x = x + attention(norm("input_layernorm", x))
        return x + mlp(norm("post_attention_layernorm", x))
    if shape.norms == "after":
        x = x + norm("post_attention_layernorm", attention(x))
        return x + norm("post_feedforward_layernorm", mlp(x))
    x = x + norm("post_attention_layernorm", attention(norm("input_layernorm", x)))
    return x + norm("post_feedforward_layernorm", mlp(norm("pre_feedforward_layernorm", x)))


def logits(shape, w, tokens, starts):
    """tokens, starts: (batch, seq); starts: where in its sequence each token's document begins."""
    positions = torch.arange(tokens.shape[1]) - starts
    if shape.family == "gpt2":
        table = w["transformer.wte.weight"]
        x = table[tokens] + w["transformer.wpe.weight"][positions]
        for i in range(shape.layers):
            x = gpt2_layer(shape, w, f"transformer.h.{i}", x, sees(starts, 0))
        x = layer_norm(x, w["transformer.ln_f.weight"], w["transformer.ln_f.bias"], shape.epsilon)
    else:
        table = w["model.embed_tokens.weight"]
        x = table[tokens]
        if shape.padding is not None:
            x = torch.where((tokens == shape.padding)[..., None], x.detach(), x)
        x = x * shape.embedding_scale
        for i in range(shape.layers):
            x = llama_layer(shape, w, i, x, starts)
        x = rms_norm(x, w["model.norm.weight"] + shape.norm_offset, shape.epsilon)
    return capped(x @ (table if shape.tied else w["lm_head.weight"]).T, shape.logit_cap)


def loss(scores, targets, bears_loss):
    """Returns the sum over the tokens that bear loss, over their number. All arguments describe the whole batch."""
    each = scores.logsumexp(-1) - scores.gather(-1, targets[..., None])[..., 0]
    return (each * bears_loss).sum() / bears_loss.sum()
