# SPDX-License-Identifier: Apache-2.0
"""Plans to draw, and facts about them that are read from the document alone."""

import json
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
LANES = ("compute", "h2d", "d2h", "host")

# name: model, machine, options of `autohete plan`
REQUESTS = {
    "every-lane": ("gpt-4b", "a100-40g-epyc7713", ["--batch", "8", "--seq", "1024", "--effort", "quick"]),
    "micro-batches": (
        "gpt-2b",
        "rtx4090-64g",
        ["--batch", "8", "--micro-batches", "4", "--seq", "512", "--effort", "quick"],
    ),
    "small": ("tiny", "rtx4090-64g", ["--batch", "4", "--seq", "128", "--clip", "0", "--effort", "quick"]),
    "deep": ("deep", "h200-16c-128g", ["--batch", "16", "--micro-batches", "2", "--seq", "512", "--effort", "quick"]),
}


# More tiles than a page draws one by one.
MANY_TILES = {
    "many-tiles": (
        "gpt-22b",
        "a100-40g-epyc7713",
        ["--policy", "stream", "--batch", "12", "--micro-batches", "12", "--seq", "512", "--effort", "quick"],
    ),
}


class Failures:
    def __init__(self):
        self.texts = []

    def check(self, holds, text):
        if not holds:
            self.texts.append(text)

    def equal(self, got, wanted, what):
        self.check(got == wanted, f"{what}: {got!r}, not {wanted!r}")

    def near(self, got, wanted, tolerance, what):
        self.check(abs(got - wanted) <= tolerance, f"{what}: {got!r}, not {wanted!r} (within {tolerance!r})")

    def finish(self):
        for text in self.texts[:40]:
            print(text, file=sys.stderr)
        if len(self.texts) > 40:
            print(f"and {len(self.texts) - 40} more", file=sys.stderr)
        return 1 if self.texts else 0


def run(program, *arguments):
    result = subprocess.run([program, *arguments], capture_output=True, check=False)
    if result.returncode:
        raise SystemExit(f"autohete {' '.join(arguments)}: exit {result.returncode}\n{result.stderr.decode()}")
    return result.stdout


def deep_model(folder):
    """Makes a model of 96 blocks with 120M parameters each."""
    with open(os.path.join(ROOT, "examples/models/gpt-4b.json"), encoding="utf-8") as handle:
        model = json.load(handle)
    model.update(name="deep", layers=96, width=3072, heads=24, kv_heads=24, mlp_width=12288)
    path = os.path.join(folder, "deep.json")
    with open(path, "w", encoding="utf-8") as handle:
        json.dump(model, handle)
    return path


def make(program, folder, name):
    """Returns a plan's path and document. "example" is a plan of the repository, with the alternatives that quick plans
    lack."""
    path = os.path.join(folder, f"{name}.plan.json")
    if name == "example":
        shutil.copy(os.path.join(ROOT, "examples/plans/tiny.json"), path)
    else:
        make_quickly(program, folder, name, path)
    with open(path, encoding="utf-8") as handle:
        return path, json.load(handle)


def make_quickly(program, folder, name, path):
    model, machine, options = (REQUESTS | MANY_TILES)[name]
    model = deep_model(folder) if model == "deep" else os.path.join(ROOT, f"examples/models/{model}.json")
    run(
        program,
        "plan",
        model,
        "--machine",
        os.path.join(ROOT, f"examples/machines/{machine}.json"),
        *options,
        "-o",
        path,
    )


CLASSES = {
    "weights": "weights",
    "states": "optimizer",
    "fetched": "staging",
    "state_ring": "staging",
    "tokens": "staging",
    "input": "activations",
    "saved": "activations",
    "residual_gradient": "activations",
    "gradient": "gradients",
    "gradient_sum": "gradients",
    "scratch": "workspace",
}
PARTS = ("weights", "gradients", "optimizer", "activations", "staging", "workspace", "gaps")


def live(tensor, position):
    first, last = tensor["from"], tensor["to"]
    return first <= position <= last if first <= last else position >= first or position <= last


def occupancy(plan):
    """Counts the bytes by part at every position, without any cleverness."""
    rows = []
    for position in range(plan["arena"]["positions"]):
        there = [tensor for tensor in plan["arena"]["tensors"] if live(tensor, position)]
        row = dict.fromkeys(PARTS, 0)
        for tensor in there:
            row[CLASSES[tensor["label"]]] += -(-tensor["bytes"] // 256) * 256
        top = max((tensor["offset_bytes"] + tensor["bytes"] for tensor in there), default=0)
        row["gaps"] = max(0, top - sum(row.values()))
        rows.append(row)
    return rows


def mentions(plan, lane):
    return len(plan["lanes"].get(lane, []))
