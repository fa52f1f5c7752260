#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens/s of PyTorch's FSDP2 with CPU offload training a model on one GPU: a peer of plans under a limit that needs
only PyTorch.

    fsdp_model.py MODEL.json --batch N --seq N [--memory-gib X] [--warmup 2] [--steps 4] [--compile layers|none] [--device cuda]

The model of torch_model.py. Each layer is its own shard. fully_shard() with CPUOffloadPolicy keeps fp32 weights,
gradients and moments on the host; weights and gradients are copied in bf16, and fused AdamW runs on the host. Layers
are recomputed from their inputs if the GPU has too little memory otherwise: both ways are tried, the faster one first.
--memory-gib limits what PyTorch may allocate on the GPU. There is only one process.

Prints one line of JSON. Exit status 7: PyTorch is not installed; 5: the GPU has too little memory.
"""
import argparse
import json
import sys
import tempfile

from shape import Shape

MISSING, NO_MEMORY = 7, 5


def open_group(torch, device):
    place = tempfile.NamedTemporaryFile(prefix="autohete-fsdp-", delete=False).name
    torch.distributed.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo", init_method=f"file://{place}",
                                         rank=0, world_size=1)
    return torch.distributed.device_mesh.init_device_mesh(device, (1,))


def make_model(torch, options, mesh, recompute):
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
    from torch.utils.checkpoint import checkpoint
    from torch_model import Model

    torch.manual_seed(1)
    model = Model(Shape(options.model, options.batch, options.seq))
    # If the device is the CPU itself, there is nothing to offload to.
    offload = {"offload_policy": CPUOffloadPolicy(pin_memory=True)} if options.device == "cuda" else {}
    policy = {"mesh": mesh, "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16), **offload}
    for layer in model.layers:
        if recompute:
            forward = layer.forward
            layer.forward = lambda x, angles, forward=forward: checkpoint(forward, x, angles, use_reentrant=False)
        fully_shard(layer, **policy)
        if options.compile == "layers":
            layer.compile()
    return fully_shard(model, **policy)


def train(options, torch, mesh, recompute):
    from torch_model import Clock, choose_attention, summary

    if options.device == "cuda":
        choose_attention(Shape(options.model, options.batch, options.seq))
    model = make_model(torch, options, mesh, recompute)
    model.angles = model.angles.to(options.device)
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    tokens = torch.randint(0, 256, (options.batch, options.seq + 1), device=options.device)
    clock, times = Clock(options.device), []
    for step in range(options.warmup + options.steps):
        clock.begin()
        loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()
        adamw.zero_grad(set_to_none=True)
        us = clock.end()
        if step >= options.warmup:
            times.append(us)
    return {**summary(times, options), "compiled": options.compile, "recomputed": recompute, "last_loss": round(loss.item(), 4),
            "versions": f"torch {torch.__version__}",
            "device_bytes": torch.cuda.max_memory_reserved() if options.device == "cuda" else 0}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seq", type=int, required=True)
    parser.add_argument("--memory-gib", type=float)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--compile", choices=("layers", "none"), default="layers")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    try:
        import torch
        import torch.distributed
        from torch.distributed.fsdp import fully_shard as _
    except ImportError as error:
        print(f"fsdp_model: {error}; install PyTorch 2.6 or later", file=sys.stderr)
        return MISSING
    if options.device == "cuda" and options.memory_gib:
        whole = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, options.memory_gib * 2 ** 30 / whole), 0)
    mesh, why = open_group(torch, options.device), None
    for recompute in (False, True):
        try:
            print(json.dumps(train(options, torch, mesh, recompute)), flush=True)
            why = None
            break
        except RuntimeError as error:  # or the compiler's wrapper of an allocation failure
            if "out of memory" not in str(error):
                raise
            why = str(error).splitlines()[0]
        torch.cuda.empty_cache()
    torch.distributed.destroy_process_group()
    if why:
        print(f"fsdp_model: {why}", file=sys.stderr)
    return NO_MEMORY if why else 0


if __name__ == "__main__":
    sys.exit(main())
