#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens/s of DeepSpeed's ZeRO-Offload training a model on one GPU: a peer of our plans under a memory limit.

    deepspeed_model.py MODEL.json --batch N --seq N [--micro-batch N] [--recompute] [--memory-gib X] [--warmup 3] [--steps 5]
                       [--compile layers|none] [--device cuda]
    deepspeed_model.py MODEL.json --batch N --seq N --config

The model of torch_model.py in bf16, with compiled layers. ZeRO stage 2 keeps bf16 weights and activations on the GPU
and fp32 masters and moments on the host, which gets the gradients and runs DeepSpeed's own AdamW. Gradients are clipped
to norm 1, as in our plans, so the precision is that of a bf16 plan. With --micro-batch, the batch is cut and gradients
are accumulated. With --recompute, only the input of each layer is kept. --memory-gib limits what PyTorch may allocate
on the GPU (without its context, which the limit of a plan includes). --config prints the configuration for DeepSpeed;
this needs neither DeepSpeed nor a GPU.

DeepSpeed compiles its AdamW on first use, with g++ and ninja; this needs neither nvcc nor a network. There is only one
process, but its collectives need a port of this machine.

Prints one line of JSON. Exit status 7: DeepSpeed is not installed; 5: the GPU has too little memory.
"""
import argparse
import json
import os
import socket
import sys

from shape import Shape

MISSING, NO_MEMORY = 7, 5


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seq", type=int, required=True)
    parser.add_argument("--micro-batch", type=int)
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--memory-gib", type=float)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--compile", choices=("layers", "none"), default="layers")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--config", action="store_true")
    options = parser.parse_args()
    options.micro_batch = options.micro_batch or options.batch
    if options.micro_batch < 1 or options.batch % options.micro_batch:
        parser.error(f"--micro-batch {options.micro_batch} does not divide the batch of {options.batch}")
    return options


def config_of(options):
    return {"train_batch_size": options.batch, "train_micro_batch_size_per_gpu": options.micro_batch,
            "gradient_accumulation_steps": options.batch // options.micro_batch, "gradient_clipping": 1.0,
            "bf16": {"enabled": True}, "steps_per_print": 1 << 30,
            "zero_optimization": {"stage": 2, "overlap_comm": True, "contiguous_gradients": True,
                                  "offload_optimizer": {"device": "cpu", "pin_memory": True}}}


def wrap_layers(model, options, torch):
    """Compiles one function for all layers, and recomputes each layer from its input if asked."""
    from torch.utils.checkpoint import checkpoint

    for layer in model.layers:
        forward = torch.compile(layer.forward) if options.compile == "layers" else layer.forward
        if options.recompute:
            layer.forward = lambda x, angles, forward=forward: checkpoint(forward, x, angles, use_reentrant=False)
        else:
            layer.forward = forward
    if options.compile == "layers":
        model.loss = torch.compile(model.loss)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def make_engine(options, deepspeed, torch):
    """Sets up DeepSpeed for one process, whose collectives have no peers."""
    from deepspeed.ops.adam import DeepSpeedCPUAdam
    from torch_model import Model, choose_attention

    for name, value in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1"),
                        ("MASTER_PORT", free_port())):
        os.environ.setdefault(name, value)
    shape = Shape(options.model, options.micro_batch, options.seq)
    if options.device == "cuda":
        choose_attention(shape)
        if options.memory_gib:
            whole = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, options.memory_gib * 2 ** 30 / whole), 0)
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(options.device):
        model = Model(shape)
    torch.set_default_dtype(torch.float32)
    wrap_layers(model, options, torch)
    adamw = DeepSpeedCPUAdam(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, adamw_mode=True)
    engine, *_ = deepspeed.initialize(model=model, optimizer=adamw, config=config_of(options))
    return engine


def train(options, deepspeed, torch):
    from torch_model import Clock, summary

    engine = make_engine(options, deepspeed, torch)
    tokens = torch.randint(0, 256, (options.batch, options.seq + 1), device=options.device)
    clock, times = Clock(options.device), []
    for step in range(options.warmup + options.steps):
        clock.begin()
        for part in tokens.split(options.micro_batch):
            loss = engine(part[:, :-1], part[:, 1:])
            engine.backward(loss)
            engine.step()
        us = clock.end()
        if step >= options.warmup:
            times.append(us)
    return {**summary(times, options), "compiled": options.compile, "last_loss": round(loss.item(), 4),
            "versions": f"torch {torch.__version__}, deepspeed {deepspeed.__version__}",
            "device_bytes": torch.cuda.max_memory_reserved() if options.device == "cuda" else 0}


def main():
    options = read_options()
    if options.config:
        print(json.dumps(config_of(options)))
        return 0
    try:
        import deepspeed
        import torch
    except ImportError as error:
        print(f"deepspeed_model: {error}; install DeepSpeed and PyTorch", file=sys.stderr)
        return MISSING
    try:
        print(json.dumps(train(options, deepspeed, torch)))
    except RuntimeError as error:  # or the compiler's wrapper of an allocation failure
        if "out of memory" not in str(error):
            raise
        print(f"deepspeed_model: {str(error).splitlines()[0]}", file=sys.stderr)
        return NO_MEMORY
    return 0


if __name__ == "__main__":
    sys.exit(main())
