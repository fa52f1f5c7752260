#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What models say, by transformers (and peft) in float64, for the golden cases of training.

    oracle_samples.py --write [CASE ...] makes tests/golden/sample/*.txt again
    oracle_samples.py --check            are they what it makes?

A file is one case of tests/golden/train. For each text it has three lines: `prompt` and its tokens; `logits` after the
prompt; `greedy` and pairs of the most probable next token and how far its logit is above the second. The model says
what is most probable, up to its positions. Texts begin with parts of the case's data.
"""
import argparse
import os
import sys

import numpy
import torch
import transformers
from transformers import modeling_rope_utils

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
CASES = os.path.join(ROOT, "tests", "golden", "train")
SAMPLES = os.path.join(ROOT, "tests", "golden", "sample")
PROMPTS = (1, 2, 23, 45)
SAID_MOST = 24


def load(folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")
    rotary = getattr(model.base_model, "rotary_emb", None)
    if rotary and rotary.rope_type == "longrope":  # a speaker chooses the factors once, for all of its positions
        frequencies, _ = modeling_rope_utils.ROPE_INIT_FUNCTIONS["longrope"](
            model.config, None, seq_len=model.config.max_position_embeddings)
        rotary.inv_freq.copy_(frequencies)
        rotary.rope_type = "default"
    if os.path.exists(os.path.join(folder, "adapter_config.json")):
        import peft
        model = peft.PeftModel.from_pretrained(model, folder, torch_dtype=torch.float64)
    return model.double().eval()


def say(model, prompt, most):
    """Returns the logits after the prompt, and the pairs of what is said."""
    text, first, said = list(prompt), None, []
    with torch.no_grad():
        for _ in range(most):
            logits = model(torch.tensor([text]), use_cache=False).logits[0, -1]
            first = logits if first is None else first
            best = torch.topk(logits, 2)
            said.append((int(best.indices[0]), float(best.values[0] - best.values[1])))
            text.append(said[-1][0])
    return first, said


def sample(name):
    folder = os.path.join(CASES, name)
    model = load(folder)
    positions = model.config.max_position_embeddings
    data = numpy.fromfile(os.path.join(folder, "data.bin"), dtype="<u2")
    lines = []
    for n in PROMPTS:
        if n >= positions:
            continue
        prompt = [int(token) for token in data[3 * n:4 * n]]
        logits, said = say(model, prompt, min(SAID_MOST, positions - n))
        lines.append("prompt " + " ".join(map(str, prompt)))
        lines.append("logits " + " ".join(f"{value:.9g}" for value in logits.tolist()))
        lines.append("greedy " + " ".join(f"{token} {margin:.3g}" for token, margin in said))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("cases", nargs="*", help="only these")
    options = parser.parse_args()
    wrong = 0
    for name in options.cases or sorted(os.listdir(CASES)):
        if not os.path.exists(os.path.join(CASES, name, "data.bin")):
            continue
        path, text = os.path.join(SAMPLES, name + ".txt"), sample(name)
        if options.write:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        if options.check:
            with open(path, encoding="utf-8") as file:
                wrong += file.read() != text
        print(name, len(text.split("\n")) // 3, "texts", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
