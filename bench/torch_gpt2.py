#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens/s of PyTorch training GPT-2 124M on this processor: what `autohete run` is compared with.

    torch_gpt2.py [--batch 4] [--seq 256] [--dtype fp32|bf16] [--attention auto|sdpa|plain] [--compile]
                  [--threads N] [--warmup 3] [--steps 10] [--untuned] [--serve]

A step is forward, loss over the whole vocabulary, backward and AdamW, from torch primitives; bf16 is autocast. Prints
one line of JSON: median and spread of the steps, tokens/s of the median, peak resident memory, the last loss, versions.

With --serve each line "N" on standard input runs N steps and answers with such a line, so that another program can
take turns with this one, step by step; nothing spins meanwhile. It ends with its input.

BLAS: Debian's torch multiplies fp32 with whatever library libblas.so.3 is. With the reference BLAS, which is all that
installing python3-torch brings, it is a hundred times slower; that is refused: apt-get install libopenblas0-openmp.

TUNED: the script runs itself again with the settings that make torch fastest here: threads that are bound to cores and
wait passively, and an allocator that keeps memory instead of returning it and faulting it in again with every step.
--untuned leaves the environment as it is.
"""
import argparse
import json
import math
import os
import resource
import statistics
import sys
import time

GPT2 = {"layers": 12, "width": 768, "heads": 12, "vocabulary": 50257, "positions": 1024}
TUNED = {"OMP_WAIT_POLICY": "passive", "OMP_PROC_BIND": "close", "OMP_PLACES": "cores",
         "MALLOC_MMAP_THRESHOLD_": "17179869184", "MALLOC_TRIM_THRESHOLD_": "17179869184",
         "MALLOC_TOP_PAD_": "268435456"}


def tune(threads):
    """Runs this script again in the tuned environment, once."""
    wanted = {"OMP_NUM_THREADS": str(threads), **TUNED}
    if any(os.environ.get(key) != value for key, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})


def blas_of():
    """Returns the library that Debian's torch multiplies with; None if torch has its own."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        paths = {line.split()[-1] for line in file}
    return next((path for name in ("libblas.so", "libopenblas") for path in sorted(paths) if name in path), None)


def make_weights(torch):
    """Returns name -> tensor in the layout of the layers (rows are outputs), with GPT-2's initialisation."""
    width, generator = GPT2["width"], torch.Generator().manual_seed(1)

    def normal(*shape, deviation=0.02):
        return torch.randn(*shape, generator=generator) * deviation
    weights = {"table": normal(GPT2["vocabulary"], width), "positions": normal(GPT2["positions"], width)}
    projection = 0.02 / math.sqrt(2 * GPT2["layers"])
    for i in range(GPT2["layers"]):
        for norm in ("norm1", "norm2"):
            weights[f"{i}.{norm}.weight"], weights[f"{i}.{norm}.bias"] = torch.ones(width), torch.zeros(width)
        for name, rows, cols, deviation in (("qkv", 3 * width, width, 0.02), ("output", width, width, projection),
                                            ("up", 4 * width, width, 0.02), ("down", width, 4 * width, projection)):
            weights[f"{i}.{name}.weight"] = normal(rows, cols, deviation=deviation)
            weights[f"{i}.{name}.bias"] = torch.zeros(rows)
    weights["norm.weight"], weights["norm.bias"] = torch.ones(width), torch.zeros(width)
    return {name: weight.requires_grad_() for name, weight in weights.items()}


def make_model(torch, weights, attention):
    """Returns a function: (tokens, targets) -> loss."""
    functional = torch.nn.functional
    width, heads = GPT2["width"], GPT2["heads"]

    def norm(name, x):
        return functional.layer_norm(x, (width,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-5)

    def linear(name, x):
        return functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def plain(q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // heads)
        future = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
        return scores.masked_fill(future, -math.inf).softmax(-1).to(v.dtype) @ v

    def sdpa(q, k, v):
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    attend = sdpa if attention == "sdpa" else plain

    def loss(tokens, targets):
        batch, seq = tokens.shape
        x = functional.embedding(tokens, weights["table"]) + weights["positions"][:seq]
        for i in range(GPT2["layers"]):
            q, k, v = (part.view(batch, seq, heads, -1).transpose(1, 2)
                       for part in linear(f"{i}.qkv", norm(f"{i}.norm1", x)).split(width, dim=2))
            x = x + linear(f"{i}.output", attend(q, k, v).transpose(1, 2).reshape(batch, seq, width))
            hidden = functional.gelu(linear(f"{i}.up", norm(f"{i}.norm2", x)), approximate="tanh")
            x = x + linear(f"{i}.down", hidden)
        logits = functional.linear(norm("norm", x), weights["table"])
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
    return loss


def make_adamw(torch, weights):
    """Returns the fastest AdamW: one fused kernel for all tensors, if this version has it on the processor."""
    groups = [{"params": [w for w in weights.values() if w.dim() == 2], "weight_decay": 0.1},
              {"params": [w for w in weights.values() if w.dim() < 2], "weight_decay": 0.0}]
    settings = {"lr": 3e-4, "betas": (0.9, 0.95), "eps": 1e-8}
    try:
        return torch.optim.AdamW(groups, fused=True, **settings), "fused"
    except (TypeError, RuntimeError):
        return torch.optim.AdamW(groups, **settings), "default"


class Trainer:
    def __init__(self, torch, options):
        self.torch, self.options = torch, options
        self.weights = make_weights(torch)
        self.adamw, self.optimizer = make_adamw(torch, self.weights)
        self.attention = options.attention
        if self.attention == "auto":
            has = hasattr(torch.nn.functional, "scaled_dot_product_attention")
            self.attention = "sdpa" if has else "plain"
        self.loss = make_model(torch, self.weights, self.attention)
        if options.compile:
            self.loss = torch.compile(self.loss)
        generator = torch.Generator().manual_seed(2)
        self.tokens = torch.randint(GPT2["vocabulary"], (options.batch, options.seq + 1), generator=generator)

    def step(self):
        """Returns seconds and loss."""
        begin = time.perf_counter()
        self.adamw.zero_grad(set_to_none=True)
        with self.torch.autocast("cpu", dtype=self.torch.bfloat16, enabled=self.options.dtype == "bf16"):
            loss = self.loss(self.tokens[:, :-1], self.tokens[:, 1:])
        loss.backward()
        self.adamw.step()
        value = loss.item()
        return time.perf_counter() - begin, value

    def measure(self, steps):
        seconds, losses = zip(*(self.step() for _ in range(steps)))
        median = statistics.median(seconds)
        return {
            "peer": "torch", "version": self.torch.__version__, "dtype": self.options.dtype,
            "batch": self.options.batch, "seq": self.options.seq, "threads": self.torch.get_num_threads(),
            "blas": blas_of(),
            "tuned": not self.options.untuned, "attention": self.attention, "compiled": self.options.compile,
            "adamw": self.optimizer, "steps": steps, "step_us": round(median * 1e6),
            "step_us_min": round(min(seconds) * 1e6), "step_us_max": round(max(seconds) * 1e6),
            "tokens_per_s": round(self.options.batch * self.options.seq / median, 1),
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "loss": round(losses[-1], 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--attention", choices=("auto", "sdpa", "plain"), default="auto")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--untuned", action="store_true")
    parser.add_argument("--serve", action="store_true")
    options = parser.parse_args()
    if not options.untuned:
        tune(options.threads)
    import torch
    if "/blas/" in (blas_of() or ""):
        sys.exit("torch_gpt2.py: torch would use the reference BLAS, which is no comparison; "
                 "install libopenblas0-openmp")
    torch.set_num_threads(options.threads)
    trainer = Trainer(torch, options)
    if options.warmup:
        trainer.measure(options.warmup)
    if not options.serve:
        print(json.dumps(trainer.measure(options.steps)))
        return
    for line in sys.stdin:
        print(json.dumps(trainer.measure(int(line))), flush=True)


if __name__ == "__main__":
    main()
