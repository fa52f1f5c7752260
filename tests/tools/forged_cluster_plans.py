#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Forges cluster plans, one field at a time, and asks `autohete check --model --cluster` about each.

    forged_cluster_plans.py --program AUTOHETE [--cases N] [--each N] [--most N] [--seed S]

Plans are made first: with and without hosts, of several degrees, of other systems, recovered. Each must be valid. Then
leaves of its JSON are changed and parts of lists left out and repeated, as in forged_plans.py: at most --each forgeries
for each kind of field. Each must be refused, except those in KEPT, which gives the reasons why they cannot be noticed.
"""
import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from forged_plans import ROOT, WORDS, Checker, draw, field_of  # noqa: E402
from scale import scaled  # noqa: E402

WORDS.update(tp_mode=("symmetric", "asym"), policy=("optimal", "megatron", "whale", "hexiscale", "metis", "autohet"))

EXAMPLES = ROOT / "examples"
PROGRAM_FORGERIES = 60  # for each plan; forged_plans.py has more
# (model, cluster, flags)
CASES = (
    ("llama-2-7b", "desktops-4090-3090", "--batch 8 --seq 512"),
    ("llama-2-7b", "mix-a100-h800-h20", "--batch 16 --micro-batches 8 --seq 512 --policy hexiscale"),
    ("gpt-2b", "cluster-b", "--batch 16 --seq 512 --tp asym"),
    ("tiny", "desktops-4090-3090", "--batch 4 --seq 64 --freeze layer.0.*"),
    ("gpt-2b", "desktops-4090-3090", "--batch 8 --seq 512 --without streamed"),
)

KEPT = {
    "generator": "says who wrote the plan",
    "inputs.model.name": "a label; the sha256 says which",
    "inputs.cluster.name": "a label; the sha256 says which",
    "model": "may be left out; the sha256 says which",
    "model.generator": "says who wrote the model",
    "model.name": "a label; the sha256 says which",
    "training.trainable": "may be left out where it is all",
    "training.trainable[]": "the same",
    "pipelines[].stages[].starts_us": "may be left out",
    "pipelines[].stages[].configs[].activations": "of a block that keeps as much either way",
    "policy": "whose search found it; planning again tells",
    "tp_mode": "what was allowed; planning again tells",
    "programs": "may be left out",
    "programs[]": "the same, of the only one",
}
# Facts that only the writer knows, and facts that could be checked only by planning again.
KEPT_UNDER = ("annotations", "solver", "model.annotations", "programs[].model.annotations")
LABELS = ("generator", "name", "model.name", "inputs.model.name", "inputs.machine.name", "model.generator")


def is_kept(field):
    program = field.removeprefix("programs[].")
    return field in KEPT or field.startswith(KEPT_UNDER) or (program != field and program in LABELS)


def make_plan(program, folder, case):
    model, cluster, flags = case
    paths = Path(folder) / "plan.json", EXAMPLES / f"models/{model}.json", EXAMPLES / f"clusters/{cluster}.json"
    command = [program, "plan", paths[1], "--cluster", paths[2], "--effort", "quick", "-o", paths[0], *flags.split()]
    subprocess.run(command, check=True, capture_output=True)
    return paths


def recover_plan(program, folder):
    recovery = EXAMPLES / "recovery"
    paths = Path(folder) / "plan.json", EXAMPLES / "models/gpt2-774m.json", recovery / "cluster-now.json"
    command = [program, "recover", "--plan", recovery / "old-plan.json", "--cluster", paths[2], "--inventory",
               recovery / "inventory.json", "-o", paths[0], "--moves", os.path.join(folder, "moves.json")]
    subprocess.run([*command, "--effort", "quick"], check=True, capture_output=True)
    return paths


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--cases", type=int, default=min(len(CASES), scaled(3)))
    parser.add_argument("--each", type=int, default=1)
    parser.add_argument("--most", type=int, default=max(30, scaled(60)), help="forgeries of a plan, drawn by chance")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("AH_TEST_SEED", "1")))
    args = parser.parse_args()
    print(f"AH_TEST_SEED={args.seed}")
    rng, tried, lines, kept = random.Random(args.seed), 0, [], collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        checker = Checker(args.program, folder)
        for number in range(args.cases + 1):
            paths = make_plan(args.program, folder, CASES[number]) if number < args.cases else recover_plan(args.program, folder)
            plan = json.loads(paths[0].read_text(encoding="utf-8"))
            inputs = ("--model", str(paths[1]), "--cluster", str(paths[2]))
            if not checker.verdicts([json.dumps(plan)], inputs)[0]:
                lines.append(f"plan {number} is refused as it is")
                continue
            found = draw({**plan, "programs": []}, args.each, rng)
            found += rng.sample(draw({"programs": plan["programs"]}, 1, rng), PROGRAM_FORGERIES)
            found = rng.sample(found, min(args.most, len(found)))
            tried += len(found)
            for path, what, value in checker.survivors(plan, found, inputs):
                field = field_of(path)
                kept[field] += 1
                if not is_kept(field):
                    lines.append(f"plan {number}: {what} {path} {value}")
    for field, count in sorted(kept.items()):
        print(f"  {count:4} {field}: {'' if is_kept(field) else 'NOT REFUSED'}")
    print("\n".join(["", *lines[:40], f"{tried} forgeries, {len(lines)} broken"]))
    return 1 if lines or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
