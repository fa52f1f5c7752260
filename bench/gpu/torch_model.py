#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens/s of PyTorch training a model on a GPU: what `autohete run` is compared with.

    torch_model.py MODEL.json --batch N --seq N [--warmup 5] [--steps 10] [--eager]

The model's layers from torch primitives, compiled as a whole; attention is scaled_dot_product_attention, the optimizer
fused AdamW, weights fp32 with bf16 autocast, gradients not clipped: the arithmetic of a bf16 plan made with --clip none.
Compilation is in the steps that are not counted. Prints one line of JSON. Exit status 7: PyTorch is not there.
"""
import argparse
import json
import math
import statistics
import sys

from shape import Shape

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError as error:
    if __name__ != "__main__":
        raise
    print(f"torch_model: {error}; install PyTorch", file=sys.stderr)
    sys.exit(7)


class Rms(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return functional.rms_norm(x, (x.shape[-1],), self.weight, 1e-5)


def make_norm(shape):
    return Rms(shape.get("width")) if shape.get("norm") == "rms" else nn.LayerNorm(shape.get("width"))


def turn(x, angles):
    """Rotates elements p and p + half of each head."""
    first, second = x.chunk(2, dim=-1)
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


class Layer(nn.Module):
    def __init__(self, shape, bias):
        super().__init__()
        self.heads = shape.get("heads")
        self.kv_heads = shape.get("kv_heads")
        self.head = shape.get("head_dim")
        self.gated = shape.gated()
        width, hidden = shape.get("width"), shape.get("mlp_width")
        self.norm1, self.norm2 = make_norm(shape), make_norm(shape)
        self.qkv = nn.Linear(width, (self.heads + 2 * self.kv_heads) * self.head, bias=bias)
        self.output = nn.Linear(self.heads * self.head, width, bias=bias)
        self.up = nn.Linear(width, (2 if self.gated else 1) * hidden, bias=bias)
        self.down = nn.Linear(hidden, width, bias=bias)

    def attend(self, x, angles):
        batch, seq, _ = x.shape
        parts = self.qkv(x).split([self.heads * self.head, self.kv_heads * self.head, self.kv_heads * self.head], dim=-1)
        q, k, v = (part.view(batch, seq, -1, self.head).transpose(1, 2) for part in parts)
        if angles is not None:
            q, k = turn(q, angles), turn(k, angles)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        return self.output(mixed.transpose(1, 2).reshape(batch, seq, -1))

    def forward(self, x, angles):
        x = x + self.attend(self.norm1(x), angles)
        hidden = self.up(self.norm2(x))
        if self.gated:
            gate, up = hidden.chunk(2, dim=-1)
            return x + self.down(functional.silu(gate) * up)
        return x + self.down(functional.gelu(hidden, approximate="tanh"))


class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        width = shape.get("width")
        bias = bool(shape.get("mlp_bias"))
        learned = shape.get("position") == "learned"
        self.table = nn.Embedding(shape.get("vocabulary"), width)
        self.positions = nn.Embedding(shape.get("max_positions"), width) if learned else None
        self.layers = nn.ModuleList(Layer(shape, bias) for _ in range(shape.get("layers")))
        self.norm = make_norm(shape)
        self.head = nn.Linear(width, shape.get("vocabulary"), bias=False)
        if shape.get("tied"):
            self.head.weight = self.table.weight
        half = shape.get("head_dim") // 2
        rates = (shape.get("rope") or {}).get("theta", 10000.0) ** (-torch.arange(half, dtype=torch.float32) / half)
        angles = torch.arange(shape.seq, dtype=torch.float32)[:, None] * rates
        self.register_buffer("angles", angles, persistent=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02 / math.sqrt(1 + len(self.layers) / 8))

    def forward(self, tokens, targets):
        x = self.table(tokens)
        angles = self.angles
        if self.positions is not None:
            x, angles = x + self.positions.weight[:tokens.shape[1]], None
        for layer in self.layers:
            x = layer(x, angles)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())


def train(options):
    shape = Shape(options.model, options.batch, options.seq)
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    with torch.device("cuda"):
        model = Model(shape)
    loss_of = model if options.eager else torch.compile(model)
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    tokens = torch.randint(0, 256, (options.batch, options.seq + 1), device="cuda")
    times = []
    for step in range(options.warmup + options.steps):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = loss_of(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        adamw.step()
        adamw.zero_grad(set_to_none=True)
        end.record()
        torch.cuda.synchronize()
        if step >= options.warmup:
            times.append(begin.elapsed_time(end) * 1000)
    middle = statistics.median(times)
    return {"tokens_per_s": round(1e6 * options.batch * options.seq / middle, 1), "step_us": round(middle),
            "mad_us": round(statistics.median(abs(each - middle) for each in times)), "steps": len(times),
            "device_bytes": torch.cuda.max_memory_allocated(), "last_loss": round(loss.item(), 4),
            "versions": f"torch {torch.__version__}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seq", type=int, required=True)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--eager", action="store_true")
    print(json.dumps(train(parser.parse_args())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
