#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every example model has its true number of parameters.

    parameters.py DRIVER

Three sources must agree: the published number where there is one, a formula written here from the fields of the file
(not from our table of tensors), and our own count. Each Hugging Face config must also give the same count when rope and
defaults are spelled in an equivalent way.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))

# As published with the weights (sums over the tensors of the released files, with tied weights counted once).
PUBLISHED = {
    "gpt2-124m": 124439808, "gpt2-355m": 354823168, "gpt2-774m": 774030080, "gpt2-1.5b": 1557611200,
    "llama-2-7b": 6738415616, "llama-2-13b": 13015864320, "llama-2-70b": 68976648192,
    "llama-30b": 32528943616, "llama-3-8b": 8030261248, "mistral-7b": 7241732096,
    "qwen2.5-0.5b": 494032768, "qwen2.5-7b": 7615616512, "qwen3-0.6b": 596049920, "qwen3-8b": 8190735360,
    "olmo-2-7b": 7298617344, "smollm3-3b": 3075098624, "phi-3-mini-4k": 3821079552, "gemma-2-2b": 2614341888,
    "gemma-3-1b": 999885952, "gemma-3-4b": 4300079472 - 419816304,  # without what reads images
    "phi-4-mini": 3836021760,
}
# Our own models: within 5 percent of the number in the name; None: the name has no size.
NAMED = {"gpt-2b": 2e9, "gpt-4b": 4e9, "gpt-6b": 6e9, "gpt-8b": 8e9, "gpt-10b": 10e9, "gpt-12b": 12e9,
         "gpt-16b": 16e9, "gpt-22b": 22e9, "tiny": None}


def ours(m):
    d, kv, q = m["width"], m["kv_heads"] * m["head_dim"], m["heads"] * m["head_dim"]
    norm = d * (2 if m["norm"] == "layer" else 1)
    gates = 2 if m["activation"].endswith("_gated") else 1
    layer = (4 if m.get("norm_place") == "around" else 2) * norm
    layer += d * (q + 2 * kv) + q * d + (gates + 1) * d * m["mlp_width"]
    layer += (q + 2 * kv) * m.get("qkv_bias", False) + d * m.get("attention_output_bias", False)
    layer += (gates * m["mlp_width"] + d) * m.get("mlp_bias", False)
    if m.get("qk_norm"):
        layer += q + kv if m.get("qk_norm_whole") else 2 * m["head_dim"]
    total = m["vocabulary"] * d + m["layers"] * layer + norm
    total += m["max_positions"] * d if m["position"] == "learned" else 0
    return total + (0 if m.get("tied", False) else m["vocabulary"] * d)


def gpt2(c):
    d, inner = c["n_embd"], c.get("n_inner") or 4 * c["n_embd"]
    layer = 4 * d + (d * 3 * d + 3 * d) + (d * d + d) + (d * inner + inner) + (inner * d + d)
    return c["vocab_size"] * d + c["n_positions"] * d + c["n_layer"] * layer + 2 * d


# What the text part of gemma3 has if its file leaves it out.
GEMMA3 = {"hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8,
          "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208}


def llama_like(c):
    d, heads = c["hidden_size"], c["num_attention_heads"]
    head = c.get("head_dim") or d // heads
    kv = (c.get("num_key_value_heads") or heads) * head
    q, inner, kind = heads * head, c["intermediate_size"], c["model_type"]
    layer = 2 * d + d * q + 2 * d * kv + q * d + 3 * d * inner
    layer += q + 2 * kv if kind == "qwen2" else 0
    layer += 2 * head if kind in ("qwen3", "gemma3_text") else q + kv if kind == "olmo2" else 0
    layer += 2 * d if kind.startswith("gemma") else 0
    layer += q + 2 * kv + d if c.get("attention_bias") and kind in ("llama", "qwen3") else 0
    total = c["vocab_size"] * d + c["num_hidden_layers"] * layer + d
    return total + (0 if c.get("tie_word_embeddings", kind.startswith("gemma")) else c["vocab_size"] * d)


def formula(document):
    if "kind" in document:
        return ours(document)
    if document["model_type"] == "gemma3":
        return llama_like(GEMMA3 | document["text_config"])
    return gpt2(document) if document["model_type"] == "gpt2" else llama_like(document)


def counted(driver, path):
    """Returns what our reader counts: (parameters, sum over groups)."""
    lines = subprocess.run([driver, "model", path], text=True, capture_output=True, check=True).stdout.splitlines()
    groups = [line.split() for line in lines[1:]]
    return int(lines[0].split()[1]), sum(int(blocks) * int(parameters) for _, blocks, parameters in groups)


def printed(driver, path):
    return subprocess.run([driver, "print", path], text=True, capture_output=True, check=True).stdout


def respelled(config):
    """Returns the same config in the newer spelling: rope in one group, defaults written out, nulls left out."""
    changed = {key: value for key, value in config.items() if value is not None}
    if config["model_type"] == "gemma3":
        text = {"rope_theta": 1e6, "rope_local_base_freq": 1e4} | config["text_config"]
        return changed | {"text_config": respelled(text) | {key: GEMMA3[key] for key in GEMMA3.keys() - text.keys()}}
    if config["model_type"] == "gpt2":
        return changed | {"n_inner": None, "tie_word_embeddings": True, "activation_function": "gelu_pytorch_tanh"}
    rope = config.get("rope_scaling") or {"rope_type": "default"}
    rope = {("rope_type" if key == "type" else key): value for key, value in rope.items()}
    changed.pop("rope_scaling", None)
    changed["rope_parameters"] = rope | {"rope_theta": changed.pop("rope_theta", 10000.0)}
    if config["model_type"] == "gemma3_text":
        local = {"rope_type": "default", "rope_theta": changed.pop("rope_local_base_freq")}
        changed["rope_parameters"] = {"full_attention": changed["rope_parameters"], "sliding_attention": local}
    if config["model_type"] == "mistral":
        changed["sliding_window"] = config["sliding_window"]
    return changed


def main():
    driver, wrong = sys.argv[1], 0
    seen = set()
    for path in sorted(glob.glob(os.path.join(ROOT, "examples/models/*.json"))):
        name = os.path.basename(path)[:-len(".json")]
        with open(path, encoding="utf-8") as handle:
            document = json.load(handle)
        seen.add(name)
        own, grouped = counted(driver, path)
        expected = PUBLISHED.get(name, formula(document))
        problems = []
        if not own == grouped == expected == formula(document):
            problems.append(f"counted {own}, groups {grouped}, formula {formula(document)}, expected {expected}")
        if name not in PUBLISHED and name not in NAMED:
            problems.append("is in neither list of this test")
        if NAMED.get(name) and abs(own / NAMED[name] - 1) > 0.05:
            problems.append("is not what its name says")
        if name == "gpt-4b" and document["layers"] != 21:
            problems.append("has not 21 blocks")
        if "kind" not in document:
            with tempfile.TemporaryDirectory() as folder:
                other = os.path.join(folder, name + ".json")
                with open(other, "w", encoding="utf-8") as handle:
                    json.dump(respelled(document), handle)
                if printed(driver, other) != printed(driver, path):
                    problems.append("differs in the newer spelling")
        for problem in problems:
            print(f"{name}: {problem}")
        wrong += len(problems)
        print(f"{name:<14} {own:>12}")
    for name in sorted((set(PUBLISHED) | set(NAMED)) - seen):
        print(f"{name}: there is no such example")
        wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
