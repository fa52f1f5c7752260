#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens/s of DeepSpeed's ZeRO-Offload training a model on one GPU: what plans under a limit are compared with.

    deepspeed_model.py MODEL.json --batch N --seq N [--micro-batch N] [--recompute] [--memory-gib X] [--warmup 3] [--steps 5]
    deepspeed_model.py MODEL.json --batch N --seq N --config

The model of torch_model.py, not compiled, in bf16. ZeRO stage 2: weights and activations on the GPU, gradients sent to the
host, fp32 masters and moments there, DeepSpeed's own AdamW for processors, gradients clipped to norm 1 as plans do.
--micro-batch cuts the batch, gradients are accumulated; --recompute keeps of a layer only its input; --memory-gib is the
most that PyTorch may take of the GPU. --config prints what DeepSpeed is told and needs neither it nor a GPU.

Prints one line of JSON. Exit status 7: DeepSpeed is not there; 5: the GPU's memory does not suffice.
"""
import argparse
import json
import os
import statistics
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


def recompute_layers(model):
    """What torch.utils.checkpoint does to a function, to each layer."""
    from torch.utils.checkpoint import checkpoint

    for layer in model.layers:
        forward = layer.forward
        layer.forward = lambda x, angles, forward=forward: checkpoint(forward, x, angles, use_reentrant=False)


def make_engine(options, deepspeed, torch):
    """One process, whose collectives have nobody to talk to."""
    from deepspeed.ops.adam import DeepSpeedCPUAdam
    from torch_model import Model

    for name, value in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1"),
                        ("MASTER_PORT", "29511")):
        os.environ.setdefault(name, value)
    if options.memory_gib:
        whole = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, options.memory_gib * 2 ** 30 / whole), 0)
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Model(Shape(options.model, options.micro_batch, options.seq))
    torch.set_default_dtype(torch.float32)
    if options.recompute:
        recompute_layers(model)
    adamw = DeepSpeedCPUAdam(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, adamw_mode=True)
    engine, *_ = deepspeed.initialize(model=model, optimizer=adamw, config=config_of(options))
    return engine


def train(options, deepspeed, torch):
    engine = make_engine(options, deepspeed, torch)
    tokens = torch.randint(0, 256, (options.batch, options.seq + 1), device="cuda")
    times = []
    for step in range(options.warmup + options.steps):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for part in tokens.split(options.micro_batch):
            loss = engine(part[:, :-1], part[:, 1:])
            engine.backward(loss)
            engine.step()
        end.record()
        torch.cuda.synchronize()
        if step >= options.warmup:
            times.append(begin.elapsed_time(end) * 1000)
    middle = statistics.median(times)
    return {"tokens_per_s": round(1e6 * options.batch * options.seq / middle, 1), "step_us": round(middle),
            "mad_us": round(statistics.median(abs(each - middle) for each in times)), "steps": len(times),
            "device_bytes": torch.cuda.max_memory_reserved(), "last_loss": round(loss.item(), 4),
            "versions": f"torch {torch.__version__}, deepspeed {deepspeed.__version__}"}


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
    except torch.cuda.OutOfMemoryError as error:
        print(f"deepspeed_model: {str(error).splitlines()[0]}", file=sys.stderr)
        return NO_MEMORY
    return 0


if __name__ == "__main__":
    sys.exit(main())
