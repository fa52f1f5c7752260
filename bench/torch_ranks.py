#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens/s of PyTorch training GPT-2 124M with two processes over gloo: what `autohete run CLUSTER-PLAN --local` is compared
with (compare_ranks).

    torch_ranks.py --split N [--by pipeline|data] [--batch 8] [--micro-batches 4] [--seq 256] [--dtype fp32|bf16] [--steps 5]
                   [--warmup 2]

pipeline: torch.distributed.pipelining, 1F1B. The first process has the embedding and layers 0 to N - 1, the second the
other layers and the head, whose table is its own. data: DistributedDataParallel with one table, which adds up gradients
at the last micro-batch (no_sync before). Each process has one thread, and fused AdamW if available; bf16 is autocast.
Prints one line of JSON. The environment is tuned as in torch_gpt2.py.
"""
import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

from torch_gpt2 import GPT2, make_adamw, tune


def make_stage(torch, first, last, split):
    nn, functional = torch.nn, torch.nn.functional
    width, heads = GPT2["width"], GPT2["heads"]
    begin, end = (0, split) if first else (split, GPT2["layers"])

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, seq, _ = x.shape
            q, k, v = (part.view(batch, seq, heads, -1).transpose(1, 2)
                       for part in self.qkv(self.norm1(x)).split(width, dim=2))
            attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.output(attended.transpose(1, 2).reshape(batch, seq, width))
            return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Stage(nn.Module):
        def __init__(self):
            super().__init__()
            if first:
                self.table, self.positions = nn.Embedding(GPT2["vocabulary"], width), nn.Embedding(1024, width)
            self.layers = nn.ModuleList(Layer() for _ in range(begin, end))
            if last:
                self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, GPT2["vocabulary"], bias=False)
            if first and last:
                self.head.weight = self.table.weight
            for name, weight in self.named_parameters():
                if weight.dim() == 2:
                    deviation = 0.02 / math.sqrt(2 * GPT2["layers"]) if "output" in name or "down" in name else 0.02
                    nn.init.normal_(weight, std=deviation)

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=Stage.bf16):
                if first:
                    x = self.table(x) + self.positions.weight[:x.shape[1]]
                for layer in self.layers:
                    x = layer(x)
                return self.head(self.norm(x)) if last else x

    return Stage


def work_by_data(options, torch, dist):
    stage_type = make_stage(torch, True, True, GPT2["layers"])
    stage_type.bf16 = options.dtype == "bf16"
    model = torch.nn.parallel.DistributedDataParallel(stage_type(), gradient_as_bucket_view=True)
    adamw, optimizer = make_adamw(torch, dict(model.named_parameters()))
    rows, own = options.batch // options.micro_batches, options.micro_batches // 2
    tokens = torch.randint(GPT2["vocabulary"], (options.batch, options.seq + 1),
                           generator=torch.Generator().manual_seed(2))
    parts = tokens.split(rows)[options.rank * own:(options.rank + 1) * own]
    seconds = []
    for _ in range(options.warmup + options.steps):
        dist.barrier()
        begin = time.perf_counter()
        adamw.zero_grad(set_to_none=True)
        loss_sum = 0.0
        for i, part in enumerate(parts):
            with contextlib.nullcontext() if i + 1 == own else model.no_sync():
                logits = model(part[:, :-1])
                loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), part[:, 1:].flatten())
                (loss / own).backward()
            loss_sum += float(loss.detach())
        adamw.step()
        dist.barrier()
        seconds.append(time.perf_counter() - begin)
    if options.rank == 0:
        middle = statistics.median(seconds[options.warmup:])
        print(json.dumps({"version": torch.__version__, "dtype": options.dtype, "optimizer": optimizer,
                          "step_s": middle, "tokens_per_s": options.batch * options.seq / middle, "loss": loss_sum / own}))
    dist.destroy_process_group()


def work(options):
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", init_method=f"file://{options.meet}", rank=options.rank, world_size=2)
    if options.by == "data":
        return work_by_data(options, torch, dist)
    first, last = options.rank == 0, options.rank == 1
    stage_type = make_stage(torch, first, last, options.split)
    stage_type.bf16 = options.dtype == "bf16"
    module = stage_type()
    rows = options.batch // options.micro_batches
    tokens = torch.randint(GPT2["vocabulary"], (options.batch, options.seq + 1),
                           generator=torch.Generator().manual_seed(2))
    shape = tokens[:rows, :-1] if first else torch.zeros(rows, options.seq, GPT2["width"])
    stage = PipelineStage(module, options.rank, 2, torch.device("cpu"), input_args=(shape,))
    loss = lambda logits, targets: torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
    schedule = Schedule1F1B(stage, options.micro_batches, loss_fn=loss)
    adamw, optimizer = make_adamw(torch, dict(module.named_parameters()))
    seconds, losses = [], []
    for _ in range(options.warmup + options.steps):
        dist.barrier()
        begin = time.perf_counter()
        adamw.zero_grad(set_to_none=True)
        losses.clear()
        if first:
            schedule.step(tokens[:, :-1])
        else:
            schedule.step(target=tokens[:, 1:].contiguous(), losses=losses)
        adamw.step()
        dist.barrier()
        seconds.append(time.perf_counter() - begin)
    if last:
        middle = statistics.median(seconds[options.warmup:])
        print(json.dumps({"version": torch.__version__, "dtype": options.dtype, "optimizer": optimizer,
                          "step_s": middle, "tokens_per_s": options.batch * options.seq / middle,
                          "loss": float(torch.stack(losses).mean())}))
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", type=int, required=True)
    parser.add_argument("--by", choices=("pipeline", "data"), default="pipeline")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--micro-batches", type=int, default=4)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--meet", help=argparse.SUPPRESS)
    options = parser.parse_args()
    tune(1)
    if options.rank is not None:
        return work(options)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *sys.argv, "--meet", os.path.join(folder, "meet"), "--rank"]
        processes = [subprocess.Popen([*command, str(rank)]) for rank in range(2)]
        return max(process.wait() for process in processes)


sys.exit(main())
