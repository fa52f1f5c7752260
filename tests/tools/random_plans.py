#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans random models on random machines with `autohete plan` and checks every plan with plan_checker, and with
`autohete check` against model and machine.

    random_plans.py --program AUTOHETE [--plans N] [--random N] [--seed S]

Machines are the A100 example, with and without lanes that slow each other, and with a fast or a slow host, so that
every place of optimizer states is worthwhile in some plan. Fails if a plan breaks a rule, or if the plans together lack
a place of states, an accumulator, an op or an order. Prints its seed.
"""
import argparse
import collections
import copy
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import plan_checker  # noqa: E402
from scale import scaled  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
POLICIES = ["optimal"] * 4 + ["zero-offload", "patrickstar", "stronghold", "stream", "autohete-paper", "resident"]
FROZEN = ["embedding.*", "*_norm*", "layer.0.*", "layer.0.mlp*", "head.*", "*.attention.*", "*.mlp.down.weight"]
NO_PLAN = (4, 5)  # exit statuses: infeasible, none found
WANTED = {"device_adam", "host_adam", "upload", "fetch", "gather", "send_gradients", "accumulate", "norm", "states_in",
          "states_out", "backward", "block_major", "micro_batch_major", "accumulator host", "accumulator device",
          "optimizer none"} | {f"{w}/{o}" for w, o in (("device", "device"), ("device", "host"), ("host", "host"),
                                                       ("device", "streamed"), ("host", "streamed"))}


def set_all(metric, value):
    metric.update(median=value, min=value, max=value)


def machines():
    with open(ROOT / "examples/machines/a100-40g-epyc7713.json", encoding="utf-8") as file:
        real = json.load(file)
    real["device"]["reserve_bytes"] = 0
    slow_host = copy.deepcopy(real)
    for adam in slow_host["adam"]:
        if adam["side"] == "host":
            set_all(adam["params_per_s"], 3e8)
    for link in slow_host["links"]:
        set_all(link["bytes_per_s"], 1e11)
    found = [real, slow_host]
    for machine in (real, slow_host):  # a copy in which nothing slows anything, so that the checker knows every time
        alone = copy.deepcopy(machine)
        for beside in alone["beside"]:
            set_all(beside["kept"], 1)
        found += [alone, alone]
    return found


FAMILIES = ("gpt2", "llama", "qwen2", "qwen3", "mistral", "olmo2", "smollm3", "phi3", "gemma2", "gemma3_text")


def draw_model(rng):
    family, heads, large = rng.choice(FAMILIES), rng.choice((2, 4, 8)), rng.random() < 0.5
    model = {"kind": "model", "format_version": "1.0", "generator": "random_plans", "name": "random", "family": family,
             "layers": rng.randint(1, 12), "width": rng.choice((512, 1024) if large else (64, 96, 320)), "heads": heads,
             "kv_heads": heads if family == "gpt2" else rng.choice((1, 2, heads)), "head_dim": rng.choice((32, 64)),
             "mlp_width": rng.choice((1024, 4096) if large else (128, 300)), "vocabulary": rng.choice((200, 1000, 5003)),
             "max_positions": 512, "norm_epsilon": 1e-5, "tied": rng.random() < 0.5}
    if family == "gpt2":
        model.update(position="learned", norm="layer", activation="gelu_tanh", qkv_bias=True, attention_output_bias=True,
                     mlp_bias=True, width=heads * model["head_dim"])
    else:
        model.update(position="rope", rope={"theta": 1e4, "kind": "default"}, norm="rms", activation="silu_gated",
                     qkv_bias=family == "qwen2", qk_norm=family in ("qwen3", "olmo2", "gemma3_text"))
    if family == "olmo2":
        model.update(norm_place="after", qk_norm_whole=True)
    if family == "smollm3":
        model.update(unrotated_layers=[i for i in range(model["layers"]) if rng.random() < 0.3])
    if family in ("gemma2", "gemma3_text"):
        windowed = [i for i in range(model["layers"]) if rng.random() < 0.5]
        model.update(norm_place="around", norm_offset=True, activation="gelu_tanh_gated", embedding_scaled=True,
                     query_scalar=100, **({"window": 20, "window_layers": windowed} if windowed else {}))
        if family == "gemma2":
            model.update(score_cap=50, logit_cap=30)
        elif windowed:
            model.update(window_rope={"theta": 100, "kind": "default"})
    return model


def draw_flags(rng):
    micro_batches = rng.choice((1, 1, 2, 3, 4))
    flags = ["--micro-batches", micro_batches, "--batch", micro_batches * rng.choice((1, 2)),
             "--seq", rng.choice((16, 32, 64, 128)), "--device-memory", f"{int(2 ** rng.uniform(11, 19.5))}KiB",
             "--policy", rng.choice(POLICIES), "--effort", rng.choice(("quick", "quick", "3")),
             "--dtype", rng.choice(("bf16", "bf16", "fp32")), "--state-dtype", rng.choice(("fp32", "fp32", "bf16")),
             "--clip", rng.choice(("none", "1"))]
    scheduling = rng.choice(("priority", "priority", "fifo"))
    if flags[flags.index("--policy") + 1] in ("optimal", "autohete-paper"):  # other policies have their own order
        flags += ["--scheduling", scheduling]
    if rng.random() < 0.3:
        flags += ["--freeze", rng.choice(FROZEN)]
    return [str(flag) for flag in flags]


def what_is_in(plan):
    found = collections.Counter(op["op"] for op in plan["ops"])
    found[plan["micro_batch_order"]] += 1
    for block in plan["blocks"]:
        found[f"{block['weights']}/{block['optimizer']}"] += 1
        found[f"optimizer {block['optimizer']}"] += 1
        found[f"accumulator {block.get('accumulator', 'none')}"] += 1
    return found


def own_check(program, paths):
    """Returns what the program itself finds wrong with its plan."""
    run = subprocess.run([program, "check", paths["plan"], "--model", paths["model"], "--machine", paths["machine"]],
                         capture_output=True, text=True, check=False)
    return run.stderr.splitlines() if run.returncode else []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--plans", type=int, default=scaled(120))
    parser.add_argument("--random", type=int, default=6)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("AH_TEST_SEED", "1")))
    args = parser.parse_args()
    print(f"AH_TEST_SEED={args.seed}")
    rng, seen, made, broken = random.Random(args.seed), collections.Counter(), 0, 0
    known = machines()
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: os.path.join(folder, f"{name}.json") for name in ("model", "machine", "plan")}
        while made < args.plans:
            model, flags = draw_model(rng), draw_flags(rng)
            for name, document in (("model", model), ("machine", rng.choice(known))):
                with open(paths[name], "w", encoding="utf-8") as file:
                    json.dump(document, file)
            run = subprocess.run([args.program, "plan", paths["model"], "--machine", paths["machine"], "-o", paths["plan"], *flags],
                                 capture_output=True, text=True, check=False)
            if run.returncode in NO_PLAN:
                continue
            lines = [f"exit {run.returncode}: {run.stderr.strip()}"]
            made += 1
            if run.returncode == 0:
                plan = plan_checker.read(paths["plan"])
                lines = plan_checker.check(plan, model, args.random, rng.getrandbits(32))
                lines += own_check(args.program, paths)
                seen += what_is_in(plan)
            if lines:
                broken += 1
                print("\n  ".join([f"plan {made}: {' '.join(flags)}", json.dumps(model), *lines[:5]]))
    missing = sorted(WANTED - set(seen)) if args.plans >= 40 else []  # a few plans need not cover everything
    if missing:
        print(f"no plan had: {', '.join(missing)}")
    print(f"{made} plans, {broken} broken")
    return 1 if broken or missing else 0


if __name__ == "__main__":
    sys.exit(main())
