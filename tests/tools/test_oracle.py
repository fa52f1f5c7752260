#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the comparison of runs with golden cases finds mistakes: it makes up gradients, weights and logits of
each case and a run that has them, and changes the run. No torch.

    test_oracle.py
"""
import contextlib
import io
import json
import math
import os
import random
import shutil
import sys
import tempfile
import unittest

import oracle_cases
import oracle_compare
import oracle_files as files
import oracle_order as order
import oracle_shape as shapes

GOLDEN = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "golden", "train"))


def make_up(case, folder):
    """Writes the case with made-up tensors to `folder`; returns its expected.json and the tensors of each part."""
    shutil.copytree(os.path.join(GOLDEN, case), folder, dirs_exist_ok=True)
    expected, rng, parts = files.read_json(os.path.join(folder, "expected.json")), random.Random(case), {}
    zeros = oracle_compare.zeros_of(expected)
    for part, sketches in oracle_compare.read_sketches(folder).items():
        parts[part] = {}
        for name, line in sketches.items():
            values = files.array.array("f", (rng.gauss(0, 1) for _ in range(math.prod(line["shape"]))))
            parts[part][name] = line["shape"], oracle_compare.without(values, zeros.get(name, ()))
    oracle_compare.write_sketches(folder, parts, zeros)
    return expected, parts


def make_run(case, folder, run):
    """Writes what a perfect run of this case writes, in fp32, and nothing else; the made-up case is written to
    `folder`."""
    shutil.rmtree(run)
    os.mkdir(run)
    expected, parts = make_up(case, folder)
    with open(os.path.join(run, "log.ndjson"), "w", encoding="utf-8") as file:
        for step, (loss, norm) in enumerate(zip(expected["losses"], expected["gradient_norms"]), start=1):
            file.write(json.dumps({"line": "step", "step": step, "loss": loss, "grad_norm": norm}) + "\n")
    files.write_weights(run, {**files.read_weights(folder), **parts["weights"]}, "F32", shards=3)
    for kind in ("gradients", "logits"):
        files.write_tensors(os.path.join(run, f"{kind}.safetensors"), parts[kind], "F32")
    return parts


class Compared(unittest.TestCase):
    def setUp(self):
        self.run_folder, self.cases = tempfile.mkdtemp(), tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.run_folder)
        self.addCleanup(shutil.rmtree, self.cases)

    def make_run(self, case):
        return make_run(case, os.path.join(self.cases, case), self.run_folder)

    def failures(self, case, parts=oracle_compare.PARTS):
        self.text = io.StringIO()
        with contextlib.redirect_stdout(self.text):
            return oracle_compare.compare(os.path.join(self.cases, case), self.run_folder, parts)

    def path(self, name):
        return os.path.join(self.run_folder, name)

    def change(self, file, name, edit):
        """Replaces a tensor in the file by edit(shape, values); None removes it."""
        tensors = files.read_tensors(self.path(file))
        changed = edit(*tensors.pop(name))
        if changed:
            tensors[name] = changed
        files.write_tensors(self.path(file), tensors, "F32")

    def test_every_golden_agrees_with_itself(self):
        for case in oracle_cases.CASES:
            self.make_run(case)
            self.assertEqual(self.failures(case), 0, self.text.getvalue())

    def test_one_element_of_any_tensor(self):
        for part, file, relative in (("gradients", "gradients", 2e-5), ("weights", "final", 2e-4),
                                     ("logits", "logits", 2e-5)):
            tensors, path = self.make_run("gpt2")[part], self.path(f"{file}.safetensors")
            for name, (shape, values) in tensors.items():
                changed = [*values[:-1], values[-1] + relative * oracle_compare.norm(values)]
                files.write_tensors(path, {**tensors, name: (shape, changed)}, "F64")
                self.assertEqual(self.failures("gpt2"), 1, self.text.getvalue())
                self.assertRegex(self.text.getvalue(), rf"{part} +{name} .*FAILED")

    def test_a_sign_and_a_swap(self):
        name = "model.layers.0.self_attn.q_proj.weight"
        for edit in (lambda shape, values: (shape, [-values[0], *values[1:]]),
                     lambda shape, values: (shape, [-value for value in values]),
                     lambda shape, values: (shape, [values[1], values[0], *values[2:]]),
                     lambda shape, values: (shape, oracle_compare.transposed(values, *shape))):
            self.make_run("llama")
            self.change("gradients.safetensors", name, edit)
            self.assertEqual(self.failures("llama"), 1)
            self.assertRegex(self.text.getvalue(), rf"gradients +{name} .*FAILED")

    def test_the_tree_has_these_cases_and_each_is_described(self):
        on_disk = {name for name in os.listdir(GOLDEN) if os.path.isdir(os.path.join(GOLDEN, name))}
        self.assertEqual(on_disk, set(oracle_cases.CASES))
        with open(os.path.join(GOLDEN, "README.md"), encoding="utf-8") as file:
            text = file.read()
        for case in oracle_cases.CASES:
            self.assertIn(f"| `{case}` |", text)

    def test_inputs_are_those_that_the_cases_make(self):
        for case in oracle_cases.CASES:
            oracle_cases.make_case(case, self.path(case))
            for name in os.listdir(self.path(case)):
                with open(os.path.join(self.path(case), name), "rb") as made, \
                        open(os.path.join(GOLDEN, case, name), "rb") as golden:
                    self.assertEqual(made.read(), golden.read(), f"{case}/{name}")

    def test_one_weight_a_little_off(self):
        self.make_run("llama")
        self.assertEqual(self.failures("llama"), 0)
        files.write_tensors(self.path("final.safetensors"), files.read_weights(self.run_folder), "F32")
        name = "model.norm.weight"
        self.change("final.safetensors", name, lambda shape, values: (shape, [values[0] * 1.001, *values[1:]]))
        self.assertEqual(self.failures("llama"), 1)
        self.assertRegex(self.text.getvalue(), rf"weights +{name} .* FAILED")

    def test_gradient_missing_misshapen_nan(self):
        name = "model.layers.0.self_attn.q_proj.weight"
        for edit in (lambda shape, values: None, lambda shape, values: (shape[::-1], values),
                     lambda shape, values: (shape, [float("nan"), *values[1:]]),
                     lambda shape, values: (shape, [1.00003 * value for value in values])):
            self.make_run("llama")
            self.change("gradients.safetensors", name, edit)
            self.assertEqual(self.failures("llama"), 1)
            self.assertRegex(self.text.getvalue(), rf"gradients +{name} .*FAILED")

    def test_a_zero_gradient_that_is_not_zero(self):
        name, at = "transformer.h.0.attn.c_attn.bias", 30
        for value, failures in ((1e-7, 0), (1e-3, 1)):
            self.make_run("gpt2")
            self.change("gradients.safetensors", name,
                        lambda shape, values: (shape, [*values[:at], value, *values[at + 1:]]))
            self.assertEqual(self.failures("gpt2"), failures, self.text.getvalue())

    def test_a_frozen_tensor_that_moved_or_has_a_gradient(self):
        self.make_run("llama-frozen-below")
        name = "model.layers.0.mlp.up_proj.weight"
        weights = files.read_weights(self.run_folder)
        shape, values = weights[name]
        weights[name] = (shape, [values[0] + 2.0 ** -20, *values[1:]])
        files.write_tensors(self.path("final.safetensors"), weights, "F32")
        gradients = files.read_tensors(self.path("gradients.safetensors"))
        files.write_tensors(self.path("gradients.safetensors"), {**gradients, name: (shape, values)}, "F32")
        self.assertEqual(self.failures("llama-frozen-below"), 2, self.text.getvalue())

    def test_a_tensor_too_many(self):
        self.make_run("qwen3")
        weights = files.read_weights(self.run_folder)
        files.write_tensors(self.path("final.safetensors"), {**weights, "lm_head.weight": ((1,), [0.0])}, "F32")
        self.assertEqual(self.failures("qwen3"), 1)

    def test_losses_off_short_or_absent(self):
        for edit in (lambda lines: lines[:-1], lambda lines: [], lambda lines: [lines[1], lines[0], *lines[2:]],
                     lambda lines: [line.replace('"loss"', '"other"') for line in lines],
                     lambda lines: [lines[0].replace('"loss": ', '"loss": NaN, "was": '), *lines[1:]]):
            self.make_run("qwen2")
            with open(self.path("log.ndjson"), encoding="utf-8") as file:
                lines = file.readlines()
            with open(self.path("log.ndjson"), "w", encoding="utf-8") as file:
                file.writelines(edit(lines))
            self.assertGreater(self.failures("qwen2", ("losses",)), 0, self.text.getvalue())

    def test_no_run_at_all(self):
        make_up("gpt2", os.path.join(self.cases, "gpt2"))
        self.assertEqual(self.failures("gpt2"), len(oracle_compare.PARTS))
        self.assertEqual(self.failures("gpt2", ("weights",)), 1)

    def test_the_products_own_names(self):
        for case in ("gpt2-untied-odd", "qwen3-layer-types", "llama-lora"):
            self.make_run(case)
            shape = shapes.read_shape(files.read_json(os.path.join(GOLDEN, case, "config.json")))
            training = files.read_json(os.path.join(GOLDEN, case, "training.json"))
            ours, run = {}, files.read_tensors(self.path("gradients.safetensors"))
            for tensor in shapes.tensors_of(shape) + shapes.adapters_of(shape, training):
                if not tensor.parts.keys() <= run.keys():
                    continue  # frozen
                values = []
                for part, size in tensor.parts.items():
                    piece = run[part][1]
                    values += oracle_compare.transposed(piece, *run[part][0]) if len(size) == 2 and \
                        tensor.transposed else piece
                ours[tensor.ours] = ((len(values),), values)
            files.write_tensors(self.path("gradients.safetensors"), ours, "F32")
            self.assertEqual(self.failures(case), 0, self.text.getvalue())

    def test_an_adapters_file(self):
        name, table = "base_model.model.transformer.h.1.mlp.c_fc.lora_B.weight", "transformer.wte.weight"
        for changed, says, failures in ((name, name, 1), (files.PEFT + table, table, 2),
                                        (files.PEFT + files.HEAD, files.HEAD, 1)):
            weights = self.make_run("gpt2-lora")["weights"]
            adapter = {n if ".lora_" in n else files.PEFT + n: value for n, value in weights.items()}
            adapter[files.PEFT + files.HEAD] = adapter[files.PEFT + table]
            files.write_tensors(self.path("final_adapter.safetensors"), adapter, "F32")
            self.assertEqual(self.failures("gpt2-lora"), 0, self.text.getvalue())
            self.change("final_adapter.safetensors", changed, lambda shape, values: (shape, [-values[0], *values[1:]]))
            self.assertEqual(self.failures("gpt2-lora"), failures, self.text.getvalue())
            self.assertRegex(self.text.getvalue(), rf"weights +{says} .*FAILED")

    def test_types_of_files(self):
        values = [0.0, -0.0, 1.0, -2.5, 2.0 ** -14, 1.0 + 2.0 ** -7]
        for dtype in files.BYTES:
            files.write_tensors(self.path("one"), {"x": ((2, 3), values)}, dtype)
            self.assertEqual(list(files.read_tensors(self.path("one"))["x"][1]), values)


class Order(unittest.TestCase):
    def test_values_that_the_product_also_has(self):
        self.assertEqual([order.sample_at(0, 10, i) for i in range(10)], [2, 9, 4, 6, 3, 0, 5, 8, 7, 1])
        self.assertEqual([order.sample_at(42, 1000, 3000 + i) for i in range(5)], [835, 460, 214, 952, 25])

    def test_an_epoch_has_each_sample_once(self):
        for n in (1, 2, 3, 17, 64, 65):
            self.assertEqual({order.sample_at(5, n, 2 * n + i) for i in range(n)}, set(range(n)))


class Patterns(unittest.TestCase):
    def test_last_match_counts(self):
        patterns = ["*", "!layer.?.attention.qkv.bias", "layer.1.*"]
        self.assertTrue(shapes.is_trained(patterns, "layer.0.attention.qkv.weight"))
        self.assertFalse(shapes.is_trained(patterns, "layer.0.attention.qkv.bias"))
        self.assertTrue(shapes.is_trained(patterns, "layer.1.attention.qkv.bias"))
        self.assertTrue(shapes.is_trained(patterns, "layer.10.attention.qkv.bias"))
        self.assertFalse(shapes.is_trained(["layer.*norm.weight"], "head.norm.weight"))


if __name__ == "__main__":
    sys.exit(unittest.main())
