# SPDX-License-Identifier: Apache-2.0
"""The five families as functions of their weights, from torch primitives; gradients are autograd's.

Weights are a dict from the file's names to tensors of the file's shapes. Nothing here converts, so everything is
computed in the type of the weights.
"""
import math

import torch
import torch.nn.functional as F

import oracle_files as files


def rope_frequencies(shape, dtype):
    """Returns radians per position, one for each pair of elements of a head."""
    rope, head = shape.rope, shape.head_dim
    frequency = rope["rope_theta"] ** (-torch.arange(0, head, 2, dtype=dtype) / head)
    if rope["kind"] == "linear":
        return frequency / rope["factor"]
    if rope["kind"] == "llama3":  # long waves are stretched, short ones stay, those between are blended
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        turns = rope["original_max_position_embeddings"] * frequency / (2 * math.pi)
        kept = ((turns - low) / (high - low)).clamp(0, 1)
        return kept * frequency + (1 - kept) * frequency / rope["factor"]
    assert rope["kind"] == "default"
    return frequency


def rotate(x, positions, frequencies):
    """x: (batch, heads, seq, head_dim); element i rotates with element i + head_dim / 2."""
    angle = positions[:, None, :, None].to(x.dtype) * frequencies
    cos, sin = angle.cos(), angle.sin()
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def rms_norm(x, gain, epsilon):
    return x / (x.square().mean(-1, keepdim=True) + epsilon).sqrt() * gain


def layer_norm(x, gain, bias, epsilon):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + epsilon).sqrt() * gain + bias


def gelu(x, kind):
    if kind == "gelu":
        return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


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
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(shape.head_dim)
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


def llama_layer(shape, w, at, x, seen, positions):
    def linear(name, x):
        y = F.linear(x, w[f"{at}.{name}.weight"], w.get(f"{at}.{name}.bias"))
        return adapted(shape, w, f"{at}.{name}", x, y)

    def norm(name, x):
        return rms_norm(x, w[f"{at}.{name}.weight"], shape.epsilon)
    y = norm("input_layernorm", x)
    q, k, v = (heads_of(linear(f"self_attn.{name}_proj", y), heads)
               for name, heads in (("q", shape.heads), ("k", shape.kv_heads), ("v", shape.kv_heads)))
    if shape.qk_norm:
        q, k = norm("self_attn.q_norm", q), norm("self_attn.k_norm", k)
    frequencies = rope_frequencies(shape, x.dtype)
    q, k = rotate(q, positions, frequencies), rotate(k, positions, frequencies)
    x = x + linear("self_attn.o_proj", attend(shape, q, k, v, seen))
    y = norm("post_attention_layernorm", x)
    gate, up = linear("mlp.gate_proj", y), linear("mlp.up_proj", y)
    return x + linear("mlp.down_proj", gate * torch.sigmoid(gate) * up)


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
        for i in range(shape.layers):
            x = llama_layer(shape, w, f"model.layers.{i}", x, sees(starts, shape.windows[i]), positions)
        x = rms_norm(x, w["model.norm.weight"], shape.epsilon)
    return x @ (table if shape.tied else w["lm_head.weight"]).T


def loss(scores, targets, bears_loss):
    """Returns the sum over the tokens that bear loss, over their number. All arguments describe the whole batch."""
    each = scores.logsumexp(-1) - scores.gather(-1, targets[..., None])[..., 0]
    return (each * bears_loss).sum() / bears_loss.sum()
