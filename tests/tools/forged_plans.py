#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Forges plans, one field at a time and several that fit together, and asks `autohete check` about each.

    forged_plans.py --program AUTOHETE [--plans N] [--each N] [--seed S]

Plans are the examples and N random ones. In each, leaves of the JSON are changed (numbers moved, doubled, made 0; words
replaced by every other one; texts misspelled) and parts of lists left out and repeated: at most --each random forgeries
for each kind of field. Each must be refused, except those in KEPT, which gives the reasons why they cannot be noticed;
fewer are kept if the model and the machine are given. Prints what was not refused, and the seed.
"""
import argparse
import collections
import copy
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from random_plans import NO_PLAN, draw_flags, draw_model, machines  # noqa: E402
from scale import scaled  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = (("gpt-4b", "gpt-4b", "a100-40g-epyc7713"), ("llama-2-7b", "llama-2-7b", "rtx4090-64g"),
            ("tiny", "tiny", "rtx4090-64g"))
FILES_A_CALL = 100

WORDS = {
    "op": ("fetch", "forward", "backward", "send_gradients", "accumulate", "norm", "host_adam", "device_adam", "upload",
           "states_in", "states_out", "gather", "scatter", "all_gather"),
    "lane": ("compute", "h2d", "d2h", "host", "net"), "dtype": ("fp32", "bf16"), "state_dtype": ("fp32", "bf16"),
    "device": ("cpu", "cuda"), "activations": ("keep", "selective", "recompute"), "weights": ("device", "host", "gathered"),
    "optimizer": ("device", "host", "streamed", "none"), "accumulator": ("none", "device", "host"),
    "policy": ("resident", "zero-offload", "patrickstar", "stronghold", "stream", "autohete-paper", "optimal"),
    "scheduling": ("priority", "fifo"), "micro_batch_order": ("micro_batch_major", "block_major"),
    "status": ("optimal", "within_gap", "no_bound"),
    "label": ("weights", "fetched", "states", "input", "saved", "output", "gradient", "gradient_sum", "group_sum", "scratch",
              "residual_gradient", "received", "state_ring", "tokens")}

# Field: why a plan with another value can be right, or who alone knows the value. A field of ALWAYS is not verified even
# if model and machine are given.
ALWAYS = {
    "generator": "says who wrote the plan",
    "inputs.model.name": "a label; the sha256 says which",
    "inputs.machine.name": "a label; the sha256 says which",
    "model.generator": "says who wrote the model",
    "model.name": "a label; the sha256 says which",
    "model.annotations": "free notes",
    "model.annotations.purpose": "free notes",
    "model.annotations.shape": "free notes",
    "policy": "another one that places and orders blocks so; where alternatives are listed, they tell",
    "scheduling": "another word that gives the same orders",
    "without": "techniques that would make no difference", "without[]": "techniques that would make no difference",
    "policy_numbers": "other numbers that give the same blocks",
    "policy_numbers[]": "other numbers that give the same blocks",
    "knobs.fetch_ahead": "another distance that gives the same ops",
    "knobs.send_behind": "another distance that gives the same ops",
    "knobs.updates_after_backward": "another order that gives the same ops",
    "knobs.step_ends": "another order that gives the same ops",
    "staging.tile_elements": "another size that cuts every vector into as many tiles",
    "memory.device_capacity_bytes": "a budget, which the asker chose; the plan fits, and the bound is the same",
    "memory.host_capacity_bytes": "a budget, which the asker chose; the plan fits, and the bound is the same",
    "solver.evaluations": "how long was searched; planning again tells",
    "alternatives": "may be left out",
    "alternatives[].step_us": "planning again tells",
    "arena.tensors[].offset_bytes": "bytes that nobody uses while it lives: another right layout",
}
KEPT = {
    **ALWAYS,
    "inputs.machine.sha256": "of the machine",
    "numeric_signature.device": "of the machine",
    "threads": "of the machine", "threads.compute": "of the machine", "threads.host": "of the machine",
    "sharing.weights.compute": "of the machine", "sharing.weights.h2d": "of the machine",
    "sharing.weights.d2h": "of the machine", "sharing.weights.host": "of the machine",
    "sharing.resources": "of the machine", "sharing.resources[]": "of the machine",
    "sharing.resources[].name": "of the machine", "sharing.resources[].compute": "of the machine",
    "sharing.resources[].h2d": "of the machine", "sharing.resources[].d2h": "of the machine",
    "sharing.resources[].host": "of the machine",
    "memory.reserved_bytes": "of the machine", "memory.process_bytes": "of the machine",
    "time.estimated": "of the machine",
}


def misspelled(text):
    return text[:-1] + ("0" if text[-1] != "0" else "1")


def other_values(key, value):
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, str):
        words = WORDS.get(key, ())
        return [w for w in words if w != value] if value in words else [misspelled(value)]
    near = (value * 0.999, value * 1.001) if isinstance(value, float) else (value - 256, value + 256)
    return [v for v in {0, 1, value - 1, value + 1, value * 2, *near} if v >= 0 and v != value]


def forgeries(node, path=()):
    """Yields (path, action: set, drop or twice, value)."""
    parts = node.items() if isinstance(node, dict) else enumerate(node)
    for key, part in parts:
        here = path + (key,)
        yield here, "drop", None
        if isinstance(node, list):
            yield here, "twice", None
        if isinstance(part, (dict, list)):
            yield from forgeries(part, here)
            continue
        name = next(k for k in reversed(here) if isinstance(k, str))
        for value in other_values(name, part):
            yield here, "set", value


def field_of(path):
    return "".join("[]" if isinstance(key, int) else "." + key for key in path)[1:]


def forge(plan, forgery):
    """Forges the plan in place; returns a function that undoes it."""
    path, what, value = forgery
    for key in path[:-1]:
        plan = plan[key]
    last, kept = path[-1], copy.copy(plan)
    if what == "set":
        plan[last] = value
    elif what == "drop":
        del plan[last]
    else:
        plan.insert(last, plan[last])

    def undo():
        plan.clear()
        plan.update(kept) if isinstance(plan, dict) else plan.extend(kept)
    return undo


def draw(plan, each, rng):
    """Draws at most `each` random forgeries for each kind of field."""
    kinds = collections.defaultdict(list)
    for forgery in forgeries(plan):
        kinds[field_of(forgery[0]), forgery[1]].append(forgery)
    return [f for found in kinds.values() for f in rng.sample(found, min(each, len(found)))]


def faster(plan, factor=0.5):
    """Makes every time shorter, as on a faster machine."""
    def scaled(node, key=""):
        if isinstance(node, dict):
            return {k: scaled(v, key if key == "time" and k == "exposed_us" else k) for k, v in node.items()}
        if isinstance(node, list):
            return [scaled(v, key) for v in node]
        is_time = key.endswith("us") or key in ("h2d", "d2h", "host")
        return node * factor if is_time and not isinstance(node, (bool, str)) else node
    for part in ("ops", "time", "solver", "alternatives"):
        plan[part] = scaled(plan[part], part)
    plan["tokens_per_s"] /= factor


def claim_step(plan):
    """Claims a shorter step, with everything computed from it."""
    step, solver = plan["time"]["step_us"] * 0.99, plan["solver"]
    plan["time"]["step_us"] = solver["objective_us"] = step
    solver["gap"] = (step - solver["bound_us"]) / step
    plan["tokens_per_s"] /= 0.99


def claim_optimality(plan):
    plan["solver"].update(status="optimal", bound_us=plan["solver"]["objective_us"], gap=0)
    for other in plan["alternatives"]:
        if other["feasible"]:
            other["step_us"] = max(other["step_us"], plan["time"]["step_us"])


def grow_a_gradient(plan):
    """Doubles the bytes of sent gradients and halves the tensors of gradients."""
    for op in plan["ops"]:
        if op["op"] == "send_gradients":
            op["bytes"] *= 2
    for tensor in plan["arena"]["tensors"]:
        if tensor["label"].startswith("gradient"):
            tensor["bytes"] = max(256, tensor["bytes"] // 512 * 256)


def slow_others(plan):
    for other in plan["alternatives"]:
        if other["feasible"]:
            other["step_us"] *= 2


# (forgery, is it refused without model and machine, is it refused with them)
TOGETHER = ((faster, False, True), (claim_step, True, True), (claim_optimality, False, True),
            (grow_a_gradient, True, True), (slow_others, False, False))


class Checker:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def verdicts(self, plans, inputs=()):
        """Returns for each plan's text whether it is valid."""
        paths = []
        for number, text in enumerate(plans):
            paths.append(os.path.join(self.folder, f"{number}.json"))
            Path(paths[-1]).write_text(text, encoding="utf-8")
        run = subprocess.run([self.program, "check", "--json", *inputs, *paths], capture_output=True, text=True, check=False)
        if run.returncode not in (0, 3, 6):
            sys.exit(f"check: exit {run.returncode}: {run.stderr[-500:]}")
        return [file["valid"] for file in json.loads(run.stdout)["files"]]

    def survivors(self, plan, found, inputs=()):
        kept = []
        for first in range(0, len(found), FILES_A_CALL):
            part, texts = found[first:first + FILES_A_CALL], []
            for forgery in part:
                undo = forge(plan, forgery)
                texts.append(json.dumps(plan))
                undo()
            kept += [f for f, valid in zip(part, self.verdicts(texts, inputs)) if valid]
        return kept


def example_plans():
    for plan, model, machine in EXAMPLES:
        yield (ROOT / f"examples/plans/{plan}.json", ROOT / f"examples/models/{model}.json",
               ROOT / f"examples/machines/{machine}.json")


def random_plans(program, folder, count, rng):
    known = machines()
    paths = [Path(folder) / name for name in ("plan", "model", "machine")]
    while count:
        paths[1].write_text(json.dumps(draw_model(rng)), encoding="utf-8")
        paths[2].write_text(json.dumps(rng.choice(known)), encoding="utf-8")
        run = subprocess.run([program, "plan", paths[1], "--machine", paths[2], "-o", paths[0], *draw_flags(rng)],
                             capture_output=True, text=True, check=False)
        if run.returncode in NO_PLAN:
            continue
        if run.returncode:
            sys.exit(f"plan: exit {run.returncode}: {run.stderr}")
        count -= 1
        yield tuple(paths)


def report_together(checker, plan, inputs, lines):
    for spoil, refused_alone, refused in TOGETHER:
        forged = copy.deepcopy(plan)
        spoil(forged)
        text = json.dumps(forged)
        for given, expected in (((), refused_alone), (inputs, refused)):
            valid = checker.verdicts([text], given)[0]
            if valid == expected and text != json.dumps(plan):
                lines.append(f"{spoil.__name__} is {'not ' if valid else ''}refused {'with inputs' if given else 'alone'}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--plans", type=int, default=scaled(6))
    parser.add_argument("--each", type=int, default=6)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("AH_TEST_SEED", "1")))
    args = parser.parse_args()
    print(f"AH_TEST_SEED={args.seed}")
    rng, tried, lines = random.Random(args.seed), 0, []
    kept = {False: collections.Counter(), True: collections.Counter()}
    with tempfile.TemporaryDirectory() as folder:
        checker = Checker(args.program, folder)
        examples = [paths for paths in example_plans()]
        for number, paths in enumerate([*examples, *[None] * args.plans]):
            paths = paths or next(random_plans(args.program, folder, 1, rng))
            plan = json.loads(paths[0].read_text(encoding="utf-8"))
            inputs = ("--model", str(paths[1]), "--machine", str(paths[2]))
            if not all(checker.verdicts([json.dumps(plan)], given)[0] for given in ((), inputs)):
                lines.append(f"plan {number} is refused as it is")
                continue
            found = draw(plan, args.each, rng)
            tried += len(found)
            alone = checker.survivors(plan, found)
            for given, survivors in ((False, alone), (True, checker.survivors(plan, alone, inputs))):
                for path, what, value in survivors:
                    field = field_of(path)
                    kept[given][field] += 1
                    if field not in (ALWAYS if given else KEPT):
                        lines.append(f"plan {number}{', inputs given' if given else ''}: {what} {path} {value}")
            report_together(checker, plan, inputs, lines) if number < len(examples) else None
    for given, reasons in ((False, KEPT), (True, ALWAYS)):
        print("\nwith model and machine:" if given else "\nalone:")
        for field, count in sorted(kept[given].items()):
            print(f"  {count:4} {field}: {reasons.get(field, 'NOT REFUSED')}")
    print("\n".join(["", *lines[:40], f"{tried} forgeries, {len(lines)} broken"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
