#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Algorithms of matrix products, from a machine document through a plan into a run, on the double of the CUDA plugin.
The plan has the algorithms of its own products and their digest. The run uses them, which changes its bits. It refuses
a library of another version, and algorithm words that this version does not accept (exit 6).

    algorithms_in_plans.py --program AUTOHETE --plugins FOLDER
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
LIBRARY = "cuBLASLt 13.1.0"
SIZES = {"width": 64, "heads": 1, "kv_heads": 1, "head_dim": 64, "mlp_width": 96, "layers": 2, "vocabulary": 256}
# How the double writes its second algorithm for a product of form nt in fp32 (tests/double/cuda/cublaslt/api.c).
MARK, SECOND, KIND = 0x48414e44 + 4, 1, 1 << 16 | 69 << 24


def entry(words, m, k, n):
    """Returns the entry of a dense product c = a b^T, with a (m, k) and b (n, k)."""
    return {"form": "nt", "m": m, "n": n, "k": k, "dtype": "fp32", "c_dtype": "fp32", "a_stride": k, "b_stride": k,
            "c_stride": n, "bias": False, "accumulate": False, "words": "".join(f"{word:016x}" for word in words)}


class Trial:
    def __init__(self, program, place):
        self.program, self.place = program, place
        with open(os.path.join(ROOT, "examples/machines/rtx4090-64g.json"), encoding="utf-8") as file:
            self.machine = json.load(file)
        with open(os.path.join(ROOT, "examples/models/tiny.json"), encoding="utf-8") as file:
            self.model = {**json.load(file), **SIZES}
        self.write("model.json", self.model)
        with open(os.path.join(place, "text.txt"), "w", encoding="ascii") as file:
            file.write("a text to train on, as long as it must be. " * 100)

    def write(self, name, document):
        with open(os.path.join(self.place, name), "w", encoding="utf-8") as file:
            json.dump(document, file)

    def call(self, expected, *words):
        result = subprocess.run([self.program, *words], cwd=self.place, check=False, text=True, capture_output=True)
        if result.returncode != expected:
            sys.exit(f"{' '.join(words)}: exit {result.returncode}, expected {expected}\n{result.stderr}")
        return result

    def plan(self, algorithms):
        machine = {**self.machine, **({"algorithms": algorithms} if algorithms else {})}
        self.write("machine.json", machine)
        self.call(0, "plan", "model.json", "--machine", "machine.json", "--batch", "2", "--micro-batches", "1", "--seq", "32",
                  "--dtype", "fp32", "--policy", "resident", "--effort", "quick", "-o", "plan.json")
        with open(os.path.join(self.place, "plan.json"), encoding="utf-8") as file:
            return json.load(file)

    def run(self, expected):
        """Returns the gradient norms, whose bits depend on every product."""
        log = os.path.join(self.place, "log.ndjson")
        if os.path.exists(log):
            os.remove(log)
        result = self.call(expected, "run", "plan.json", "--data", "text.txt", "--steps", "4", "--seed", "1", "--log", log)
        if expected:
            return result.stderr
        with open(log, encoding="utf-8") as file:
            return [line["grad_norm"] for line in map(json.loads, file) if line.get("line") == "step"]


def check(trial):
    tokens, width = 64, SIZES["width"]
    qkv = (tokens, width, 3 * width)
    plan = trial.plan(None)
    assert "algorithms" not in plan and "matmul_sha256" not in plan["numeric_signature"]
    bare = trial.run(0)

    plan = trial.plan({"library": LIBRARY, "products": [entry([9] * 8, 1, 2, 3)]})
    assert plan["algorithms"] == {"library": LIBRARY}, plan["algorithms"]
    first = plan["numeric_signature"]["matmul_sha256"]
    assert trial.run(0) == bare

    words = [MARK, SECOND, KIND | 1 << 32, 0, 0, 0, 0, 0]
    plan = trial.plan({"library": LIBRARY, "products": [entry([9] * 8, 1, 2, 3), entry(words, *qkv)]})
    assert plan["algorithms"]["products"] == [entry(words, *qkv)], plan["algorithms"]
    assert plan["numeric_signature"]["matmul_sha256"] != first
    other = trial.run(0)
    assert other != bare and abs(other[0] - bare[0]) < 1e-2, (other, bare)
    assert trial.run(0) == other

    trial.plan({"library": LIBRARY, "products": [entry([9] * 8, *qkv)]})
    assert "measure again" in trial.run(6)
    trial.plan({"library": "cuBLASLt 12.0.0"})
    assert "'cuBLASLt 12.0.0'" in trial.run(6)

    plan["numeric_signature"]["matmul_sha256"] = first
    trial.write("plan.json", plan)
    assert "matmul_sha256" in trial.run(3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--plugins", required=True)
    options = parser.parse_args()
    os.environ["AUTOHETE_PLUGIN_DIR"] = options.plugins
    with tempfile.TemporaryDirectory() as place:
        check(Trial(options.program, place))
    return 0


sys.exit(main())
