#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens/s of PyTorch training a model on a GPU: what `autohete run` is compared with.

    torch_model.py MODEL.json --batch N --seq N [--warmup 5] [--steps 20] [--compile layers|whole|none] [--device cuda]

The model's layers are made of torch primitives. Precision is like that of a bf16 plan made with --clip none: fp32
weights and moments that fused AdamW updates, products and attention of bf16 values summed in fp32, a bf16 residual
stream, norms and loss computed in fp32, nothing recomputed, gradients not clipped. There are two differences. Autocast
rounds the weights to bf16 in each pass; a plan keeps rounded weights. Their gradients become fp32; a plan's stay bf16,
which does not change AdamW's own arithmetic. Both cost PyTorch some percent of a step in memory traffic, and it has no
fused way without them.

`layers` compiles one layer for all of them, and the head with its loss: half a minute. `whole` compiles one graph of
all layers: minutes, and the only gain is that a layer's last sum can be fused with the next norm. Attention is the
fastest implementation in scaled_dot_product_attention (flash, cuDNN) at this shape, forward and backward, tried first.
The steps that are not counted include compilation. Prints one line of JSON. Exit status 7: PyTorch is not installed; 5:
the GPU has too little memory.
"""
import argparse
import json
import math
import statistics
import sys
import time

from shape import Shape

MISSING, NO_MEMORY = 7, 5

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError as error:
    if __name__ != "__main__":
        raise
    print(f"torch_model: {error}; install PyTorch", file=sys.stderr)
    sys.exit(MISSING)


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

    def embed(self, tokens):
        x = self.table(tokens)
        if self.positions is not None:
            x = x + self.positions.weight[:tokens.shape[1]]
        return x.to(torch.bfloat16)

    def loss(self, x, targets):
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())

    def forward(self, tokens, targets):
        x = self.embed(tokens)
        angles = None if self.positions is not None else self.angles
        for layer in self.layers:
            x = layer(x, angles)
        return self.loss(x, targets)


def compile_model(model, way):
    if way == "whole":
        model.compile()
    if way == "layers":
        for layer in model.layers:
            layer.compile()
        model.loss = torch.compile(model.loss)


class Clock:
    """Measures microseconds between begin() and end(), with the device's own clock if it has one."""

    def __init__(self, device):
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if device == "cuda" else None

    def begin(self):
        self.begun = time.perf_counter()
        if self.events:
            self.events[0].record()

    def end(self):
        if not self.events:
            return (time.perf_counter() - self.begun) * 1e6
        self.events[1].record()
        torch.cuda.synchronize()
        return self.events[0].elapsed_time(self.events[1]) * 1e3


def time_attention(shape):
    """Returns the time of forward and backward, the fastest of a few, in microseconds."""
    clock, times = Clock("cuda"), []
    q, k, v = (torch.randn(shape.batch, heads, shape.seq, shape.get("head_dim"), device="cuda", dtype=torch.bfloat16,
                           requires_grad=True) for heads in (shape.get("heads"), shape.get("kv_heads"), shape.get("kv_heads")))
    for _ in range(8):
        clock.begin()
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
        out.backward(out)
        times.append(clock.end())
    return min(times[3:])


def choose_attention(shape):
    """Leaves only the fastest kernel enabled, or all if none supports this shape. Returns its name, and the
    microseconds of each."""
    cuda = torch.backends.cuda
    enable = {"flash": cuda.enable_flash_sdp, "cudnn": cuda.enable_cudnn_sdp}
    times = {}
    for name in enable:
        for each, switch in enable.items():
            switch(each == name)
        cuda.enable_mem_efficient_sdp(False)
        cuda.enable_math_sdp(False)
        try:
            times[name] = time_attention(shape)
        except RuntimeError:  # this kernel does not support the shape, or is not built in
            continue
    best = min(times, key=times.get, default="the default")
    for name, switch in enable.items():
        switch(name == best or not times)
    cuda.enable_mem_efficient_sdp(not times)
    cuda.enable_math_sdp(not times)
    return best, {name: round(us) for name, us in times.items()}


def summary(times, options):
    middle = statistics.median(times)
    return {"tokens_per_s": round(1e6 * options.batch * options.seq / middle, 1), "step_us": round(middle),
            "mad_us": round(statistics.median(abs(each - middle) for each in times)), "steps": len(times)}


def train(options):
    shape = Shape(options.model, options.batch, options.seq)
    torch.manual_seed(1)
    begun = time.monotonic()
    attention, attention_us = choose_attention(shape) if options.device == "cuda" else ("the default", {})
    with torch.device(options.device):
        model = Model(shape)
    compile_model(model, options.compile)
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    tokens = torch.randint(0, 256, (options.batch, options.seq + 1), device=options.device)
    clock, times = Clock(options.device), []
    for step in range(options.warmup + options.steps):
        clock.begin()
        with torch.autocast(options.device, dtype=torch.bfloat16):
            loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        adamw.step()
        adamw.zero_grad(set_to_none=True)
        us = clock.end()
        if step == 0:
            ready = round(time.monotonic() - begun, 1)
        if step >= options.warmup:
            times.append(us)
    return {**summary(times, options), "ready_s": ready, "compiled": options.compile, "attention": attention,
            "attention_us": attention_us, "last_loss": round(loss.item(), 4), "versions": f"torch {torch.__version__}",
            "device_bytes": torch.cuda.max_memory_allocated() if options.device == "cuda" else 0}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seq", type=int, required=True)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--compile", choices=("layers", "whole", "none"), default="layers")
    parser.add_argument("--device", default="cuda")
    try:
        print(json.dumps(train(parser.parse_args())))
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
        print(f"torch_model: {str(error).splitlines()[0]}", file=sys.stderr)
        return NO_MEMORY
    return 0


if __name__ == "__main__":
    sys.exit(main())
