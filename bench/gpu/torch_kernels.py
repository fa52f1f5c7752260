#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times of PyTorch's own kernels at the shapes and under the names of bench_kernels, to compare ours with.

    torch_kernels.py [--small] [--device cuda]

Prints a line of JSON for each kernel as soon as it is known, {"kernel": ..., "torch_us": ..., "torch": which}: the
median of the device's own times, after some runs that are not counted. Attention is the faster of flash and cuDNN,
forward alone or backward alone, with both times shown. What cannot run here is left out. Exit status 7: PyTorch is not
installed.
"""
import argparse
import json
import statistics
import sys
import time

MISSING = 7
WARM, TIMES = 3, 11

try:
    import torch
    from torch.nn import functional
except ImportError as error:
    print(f"torch_kernels: {error}; install PyTorch", file=sys.stderr)
    sys.exit(MISSING)

from torch_model import Clock  # noqa: E402

BF16, FP32 = torch.bfloat16, torch.float32


class Bench:
    def __init__(self, device):
        self.device, self.clock = device, Clock(device)

    def random(self, *sizes, dtype=BF16, grad=False):
        return torch.randn(*sizes, device=self.device, dtype=FP32).to(dtype).requires_grad_(grad)

    def time(self, run):
        times = []
        for step in range(WARM + TIMES):
            self.clock.begin()
            run()
            us = self.clock.end()
            if step >= WARM:
                times.append(us)
        return statistics.median(times)

    def show(self, name, run, what, **more):
        print(json.dumps({"kernel": name, "torch_us": round(self.time(run), 1), "torch": what, **more}), flush=True)


def product(bench, name, form, m, n, k):
    a = bench.random(*((k, m) if form == "tn" else (m, k)))
    b = bench.random(*((n, k) if form == "nt" else (k, n)))
    a, b = (a.t() if form == "tn" else a), (b.t() if form == "nt" else b)
    bench.show(name, lambda: a @ b, "matmul")


def kernels_of_attention(device):
    """Returns the switches of attention kernels by name; if there is only one kernel, only that."""
    from torch.nn.attention import SDPBackend

    return {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION} if device == "cuda" \
        else {"math": SDPBackend.MATH}


def attention(bench, name, backward, batch, seq, heads, width):
    from torch.nn.attention import sdpa_kernel

    q, k, v = (bench.random(batch, heads, seq, width, grad=True) for _ in range(3))
    gradient, found = bench.random(batch, heads, seq, width), {}
    for which, switch in kernels_of_attention(bench.device).items():
        try:
            with sdpa_kernel(switch):
                if backward:
                    out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                    found[which] = bench.time(lambda out=out: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True))
                else:
                    with torch.no_grad():
                        found[which] = bench.time(lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        except RuntimeError:  # this kernel does not support the shape, or is not built in
            continue
    if found:
        best = min(found, key=found.get)
        print(json.dumps({"kernel": name, "torch_us": round(found[best], 1), "torch": best,
                          **{f"{which}_us": round(us, 1) for which, us in found.items()}}), flush=True)


def norm(bench, name, kind, backward, rows, width):
    x, gain, bias = bench.random(rows, width, grad=True), bench.random(width, grad=True), bench.random(width, grad=True)
    if kind == "layer":
        make, inputs = (lambda: functional.layer_norm(x, (width,), gain, bias)), (x, gain, bias)
    else:
        make, inputs = (lambda: functional.rms_norm(x, (width,), gain, 1e-5)), (x, gain)
    if backward:
        out, gradient = make(), bench.random(rows, width)
        bench.show(name, lambda: torch.autograd.grad(out, inputs, gradient, retain_graph=True), f"{kind}_norm")
    else:
        with torch.no_grad():
            bench.show(name, make, f"{kind}_norm")


def cross_entropy(bench, name, rows, vocabulary):
    """Loss and gradient, like our op."""
    logits = bench.random(rows, vocabulary, dtype=FP32, grad=True)
    targets = torch.randint(0, vocabulary, (rows,), device=bench.device)
    bench.show(name, lambda: torch.autograd.grad(functional.cross_entropy(logits, targets), logits), "cross_entropy and its gradient")


def adamw(bench, name, count):
    p = bench.random(count, dtype=FP32, grad=True)
    p.grad = bench.random(count, dtype=FP32)
    optimizer = torch.optim.AdamW([p], lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    bench.show(name, optimizer.step, "fused AdamW, fp32 gradients, no bf16 weights")


def others(bench, rows, width, gelu_width, gated_width):
    """Elementwise kernels: (name, function to run, which kernel)."""
    x, y, wide = bench.random(rows, width), bench.random(rows, width), bench.random(rows, width, dtype=FP32)
    table, tokens = bench.random(32000, width), torch.randint(0, 32000, (rows,), device=bench.device)
    tall, gate, up = bench.random(rows, gelu_width), bench.random(rows, gated_width), bench.random(rows, gated_width)
    return (("gelu 8192x6400", lambda: functional.gelu(tall, approximate="tanh"), "gelu"),
            ("silu gated 8192x11008", lambda: functional.silu(gate) * up, "silu and a product"),
            ("embed 8192x4096 of 32000", lambda: functional.embedding(tokens, table), "embedding"),
            ("add 8192x4096", lambda: x + y, "add"), ("cast 8192x4096", lambda: wide.to(BF16), "to"),
            ("column sum 8192x6400", lambda: tall.sum(0, dtype=FP32), "sum"))


def run_real(bench):
    product(bench, "product nn 8192x4800x1600", "nn", 8192, 4800, 1600)
    product(bench, "product nt 8192x4096x11008", "nt", 8192, 4096, 11008)
    product(bench, "product tn 4096x4096x8192", "tn", 4096, 4096, 8192)
    product(bench, "logits 1024x50257x1600", "nt", 1024, 50257, 1600)
    product(bench, "logits backward 1024x1600x50257", "nn", 1024, 1600, 50257)
    product(bench, "logits weight 50257x1600x1024", "tn", 50257, 1600, 1024)
    for backward, word in ((False, ""), (True, " backward")):
        attention(bench, f"attention{word} 8x1024, 25 heads of 64", backward, 8, 1024, 25, 64)
        attention(bench, f"attention{word} 2x4096, 32 heads of 128", backward, 2, 4096, 32, 128)
        norm(bench, f"layer norm{word} 8192x1600", "layer", backward, 8192, 1600)
        norm(bench, f"rms norm{word} 8192x4096", "rms", backward, 8192, 4096)
    cross_entropy(bench, "cross entropy 4096x50257", 4096, 50257)
    adamw(bench, "AdamW 2^26", 1 << 26)
    for name, run, what in others(bench, 8192, 4096, 6400, 11008):
        bench.show(name, run, what)


def run_small(bench):
    product(bench, "product nt small", "nt", 64, 48, 80)
    for backward, word in ((False, ""), (True, " backward")):
        attention(bench, f"attention{word} small", backward, 1, 130, 2, 64)
        norm(bench, f"rms norm{word} small", "rms", backward, 40, 96)
    cross_entropy(bench, "cross entropy small", 30, 257)
    adamw(bench, "AdamW small", 5000)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    begun = time.monotonic()
    (run_small if options.small else run_real)(Bench(options.device))
    print(json.dumps({"versions": f"torch {torch.__version__}", "seconds": round(time.monotonic() - begun, 1)}), flush=True)
    return 0


sys.exit(main())
