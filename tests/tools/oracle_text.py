#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The golden of learning: a small llama on text of this project's, byte by byte, trained in float64 by the oracle's models.

    oracle_text.py --write      makes all of tests/golden/text but its two texts (python3-torch; a minute)
    oracle_text.py --check      trains again: do the losses follow from the files? (1e-7 relative)

text.txt is docs/*.md, and held-out.txt the beginning of README.md, as they were when the case was made; both stay
fixed, so that the losses do. expected.json has the loss of every step, and the held-out loss at regular intervals.
"""
import argparse
import os
import random
import sys

import oracle
import oracle_cases as cases
import oracle_compare
import oracle_files as files
import oracle_shape as shapes

FOLDER = os.path.join(oracle.ROOT, "tests", "golden", "text")
CONFIG = {"architectures": ["LlamaForCausalLM"], **cases.llama(
    "llama", hidden_size=48, num_attention_heads=4, num_key_value_heads=2, head_dim=12, intermediate_size=128,
    vocab_size=256, max_position_embeddings=64)}
TRAINING = {"batch": 8, "micro_batches": 2, "seq": 64, "steps": 200, "lr": 0.004, "schedule": "cosine",
            "warmup_steps": 20, "floor": 0.1, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.1,
            "clip": 1.0, "trainable": ["*"], "seed": 2026, "data": "text.txt", "valid": "held-out.txt", "every": 50}
CHECKED = 1e-7


def make_files():
    rng = random.Random("autohete text")
    files.write_json(os.path.join(FOLDER, "config.json"), CONFIG)
    files.write_json(os.path.join(FOLDER, "training.json"), TRAINING)
    weights = {}
    for tensor in shapes.tensors_of(shapes.read_shape(CONFIG)):
        for part in tensor.parts:
            size = shapes.file_shape(tensor, part)
            weights[part] = (size, cases.initial(rng, tensor, size, 8))
    files.write_weights(FOLDER, weights, "BF16")


def train():
    result = oracle.train(FOLDER, every=TRAINING["every"])[0]
    return {"losses": result["losses"], "gradient_norms": result["gradient_norms"],
            "held_out": list(result["held_out"].values())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true")
    what.add_argument("--check", action="store_true")
    path = os.path.join(FOLDER, "expected.json")
    if parser.parse_args().write:
        make_files()
        files.write_json(path, train())
        return 0
    expected, made = files.read_json(path), train()
    apart = max(oracle_compare.apart(made[key], expected[key]) for key in expected)
    print(f"text: {'agrees' if apart <= CHECKED else 'DIFFERS'}, at most by {apart:.1e}")
    return apart > CHECKED


if __name__ == "__main__":
    sys.exit(main())
