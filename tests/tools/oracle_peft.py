#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares trained adapters with peft: its loader, its losses, its merged weights.

    oracle_peft.py --program build/test/cli/autohete [FAMILY ...]      with torch, transformers and peft; no part of the tests

Makes a small model of each family with transformers, trains adapters beside it for 12 steps, and loads what was saved with
PeftModel.from_pretrained(). The held-out loss must agree to 1e-6, and what 'autohete merge' writes with merge_and_unload()
to 1e-7. Adapters are on all matrices (rank-stabilized), on some of them with embedding and head trained whole, on one matrix,
and in one layer. Last run: all agree with peft 0.21.2, transformers 5.24.0, torch 2.15.0: losses to 3e-7, weights to 2e-8.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import torch
import transformers
from peft import PeftModel

VOCABULARY, SEQ, HELD_OUT = 256, 64, 8
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256}
FAMILIES = {
    "llama": lambda: transformers.LlamaConfig(**SIZES, tie_word_embeddings=False),
    "llama-biases": lambda: transformers.LlamaConfig(**SIZES, tie_word_embeddings=True, mlp_bias=True, attention_bias=True),
    "qwen2": lambda: transformers.Qwen2Config(**SIZES, tie_word_embeddings=True),
    "qwen3": lambda: transformers.Qwen3Config(**SIZES, head_dim=16, tie_word_embeddings=True),
    "mistral": lambda: transformers.MistralConfig(**SIZES, sliding_window=24),
    "olmo2": lambda: transformers.Olmo2Config(**SIZES, pad_token_id=None),
    "smollm3": lambda: transformers.SmolLM3Config(**SIZES, pad_token_id=None, no_rope_layer_interval=2),
    "phi3": lambda: transformers.Phi3Config(**SIZES, pad_token_id=None, sliding_window=40),
    "phi4": lambda: transformers.Phi3Config(**SIZES, pad_token_id=None, partial_rotary_factor=0.75, tie_word_embeddings=True),
    "gemma2": lambda: transformers.Gemma2Config(**SIZES, head_dim=16, query_pre_attn_scalar=20, sliding_window=24),
    "gemma3": lambda: transformers.Gemma3TextConfig(**SIZES, head_dim=16, query_pre_attn_scalar=16, sliding_window=24,
                                                    sliding_window_pattern=2),
    "gemma3-images": lambda: transformers.Gemma3Config(
        text_config={**SIZES, "head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 24, "sliding_window_pattern": 2},
        vision_config={"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
                       "image_size": 28, "patch_size": 14}, mm_tokens_per_image=4, image_token_index=255),
    "gpt2": lambda: transformers.GPT2Config(vocab_size=VOCABULARY, n_embd=64, n_layer=3, n_head=4, n_positions=256,
                                            bos_token_id=None, eos_token_id=None),
}


def adapters_of(family):
    """Yields options of 'plan'."""
    some, one = {"gpt2": ("c_attn", "mlp.c_proj"), "phi3": ("qkv_proj", "gate_up_proj"),
                 "phi4": ("qkv_proj", "gate_up_proj")}.get(family, ("q_proj,v_proj", "up_proj"))
    yield ["--lora", "rank=4,alpha=8,scaling=rank_stabilized"]
    yield ["--lora", "rank=4,alpha=8", "--lora-on", some, "--train", "embedding.*,head.*"]
    yield ["--lora", "rank=3,alpha=8", "--lora-on", one]
    yield ["--lora", "rank=4,alpha=8", "--lora-on", "layer.1.*"]


class Checked:
    def __init__(self, program, family):
        self.program, self.family = os.path.abspath(program), family

    def run(self, *arguments):
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"autohete {' '.join(arguments)}\n{done.stderr}")

    def make_inputs(self):
        """Text of a few words, a base model that is far from its initial values, and a profile of this machine."""
        words = [bytes(torch.randint(97, 123, (n,)).tolist()) for n in (3, 5, 2, 7, 4)] * 3
        order = torch.randint(0, len(words), (20000,)).tolist()
        text = b" ".join(words[i] for i in order)
        for name, part in (("train.txt", text[:60000]), ("valid.txt", text[60000:60001 + HELD_OUT * SEQ])):
            with open(name, "wb") as file:
                file.write(part)
        base = transformers.AutoModelForCausalLM.from_config(FAMILIES[self.family]()).float()
        with torch.no_grad():
            for parameter in base.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.03)
        base.save_pretrained("base")
        self.run("profile", "--quick", "-o", "machine.json")

    def train(self, options, number):
        """Returns the checkpoint's folder and the held-out loss after the last step."""
        plan, out, log = f"plan{number}.json", f"out{number}", f"log{number}.ndjson"
        self.run("plan", "base", "--machine", "machine.json", "--batch", "4", "--micro-batches", "2", "--seq", str(SEQ),
                 "--dtype", "fp32", *options, "-o", plan)
        self.run("run", plan, "--data", "train.txt", "--valid", "valid.txt", "--weights", "base", "--steps", "12", "--lr",
                 "1e-2", "--save", out, "--log", log)
        with open(log, encoding="utf-8") as file:
            losses = [line["loss"] for line in map(json.loads, file) if line.get("line") == "evaluation"]
        return os.path.join(out, "step-00000012"), losses[-1]

    def compare(self, options, number):
        folder, loss = self.train(options, number)
        base = transformers.AutoModelForCausalLM.from_pretrained("base", dtype=torch.float32)
        model = PeftModel.from_pretrained(base, folder)
        with open("valid.txt", "rb") as file:
            tokens = torch.tensor(list(file.read()))
        with torch.no_grad():
            scores = model.eval()(input_ids=tokens[:-1].view(HELD_OUT, SEQ)).logits.flatten(0, 1).double()
        apart = abs(torch.nn.functional.cross_entropy(scores, tokens[1:]).item() - loss)
        self.run("merge", "base", folder, "-o", f"merged{number}")
        ours = transformers.AutoModelForCausalLM.from_pretrained(f"merged{number}", dtype=torch.float32).state_dict()
        theirs = model.merge_and_unload().state_dict()
        worst = max((ours[name] - theirs[name]).abs().max().item() for name in theirs)
        agrees = apart <= 1e-6 and worst <= 1e-7 and ours.keys() == theirs.keys()
        print(f"{self.family} {' '.join(options)}: {'agrees' if agrees else 'DIFFERS'}, loss by {apart:.1e}, "
              f"merged by {worst:.1e}")
        return agrees

    def check(self):
        self.make_inputs()
        return all([self.compare(options, number) for number, options in enumerate(adapters_of(self.family))])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("families", nargs="*", metavar="FAMILY", default=list(FAMILIES))
    options = parser.parse_args()
    torch.manual_seed(0)
    transformers.utils.logging.disable_progress_bar()
    good = True
    for family in options.families:
        checked = Checked(options.program, family)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            good &= checked.check()
            os.chdir("/")
    return not good


if __name__ == "__main__":
    sys.exit(main())
