#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the golden cases with the transformers library's own models, torch's AdamW, clipping and cross-entropy.

    oracle_transformers.py [CASE ...]      in an environment with torch, transformers and peft; no part of the tests

Every case is trained as its files say: losses, norms, gradients, weights and logits must agree to 1e-9. Last run: all
cases agree with transformers 5.24.0 and peft 0.21.2 on torch 2.15.0.

transformers computes norms, softmax and rope in fp32 even if the weights are doubles. While it computes, its names for
fp32 mean float64 here, so that the comparison is not limited by rounding.
"""
import contextlib
import os
import shutil
import sys
import tempfile
from unittest import mock

import torch
import transformers

import oracle
import oracle_cases
import oracle_files as files
import oracle_shape as shapes
import oracle_train


@contextlib.contextmanager
def double_for_float():
    with contextlib.ExitStack() as patches:
        for owner, name, value in ((torch, "float32", torch.float64), (torch, "float", torch.float64),
                                   (torch.Tensor, "float", torch.Tensor.double)):
            patches.enter_context(mock.patch.object(owner, name, value))
        yield


def load(folder):
    """Loads the family's class from the folder's unchanged files; an adapter's files are left out."""
    with tempfile.TemporaryDirectory() as base:
        shutil.copytree(folder, base, dirs_exist_ok=True, ignore=shutil.ignore_patterns("adapter_*"))
        model = transformers.AutoModelForCausalLM.from_pretrained(
            base, dtype=torch.float64, attn_implementation="eager", local_files_only=True)
    text = getattr(model.base_model, "language_model", model.base_model)
    if hasattr(text, "rotary_emb"):  # computes its frequencies again, in double
        with double_for_float():
            text.rotary_emb = type(text.rotary_emb)(text.config)
    return model.train()


def load_adapter(model, folder):
    """Loads the folder's adapter with peft. Returns the model, and what is trained under the names of the oracle."""
    import peft
    model = peft.PeftModel.from_pretrained(model, folder, is_trainable=True, autocast_adapter_dtype=False)
    names = {name: name.replace(".default.", ".") if ".lora_" in name else
             name.replace(".modules_to_save.default.", ".").removeprefix(files.PEFT)
             for name, parameter in model.named_parameters() if parameter.requires_grad}
    return model, {names[name]: parameter for name, parameter in model.named_parameters() if name in names}


def optimizer_of(parameters, training):
    """torch's AdamW, with decay of matrices only, and the library's cosine schedule one step ahead: rates of step t,
    from 1."""
    kinds = {True: [], False: []}
    for parameter in parameters.values():
        if parameter.requires_grad:
            kinds[parameter.dim() == 2].append(parameter)
    groups = [{"params": kinds[True], "weight_decay": training["weight_decay"]},
              {"params": kinds[False], "weight_decay": 0.0}]
    adamw = torch.optim.AdamW([group for group in groups if group["params"]], lr=training["lr"],
                              betas=(training["beta1"], training["beta2"]), eps=training["epsilon"])
    if training["schedule"] == "constant":
        return adamw, transformers.get_constant_schedule_with_warmup(adamw, training["warmup_steps"])
    return adamw, transformers.get_cosine_with_min_lr_schedule_with_warmup(
        adamw, training["warmup_steps"], training["steps"], min_lr_rate=training["floor"])


def train(folder):
    training = files.read_json(os.path.join(folder, "training.json"))
    shape = shapes.read_shape(files.read_json(os.path.join(folder, "config.json")))
    data = oracle_train.Data(folder, training)
    model = load(folder)
    if "lora_rank" in training:
        model, parameters = load_adapter(model, folder)
    else:
        parameters = dict(model.named_parameters())
        for tensor in shapes.tensors_of(shape):
            for part in tensor.parts:
                parameters[part].requires_grad_(shapes.is_trained(training["trainable"], tensor.ours))
    trained = {name: parameter for name, parameter in parameters.items() if parameter.requires_grad}
    adamw, schedule = optimizer_of(parameters, training)
    result, first = {"losses": [], "gradient_norms": [], "rates": [], "tokens": []}, None
    for samples in training["samples"]:
        schedule.step()
        tokens, starts, targets, bears_loss = data.batch(samples, torch.float64)
        positions = torch.arange(tokens.shape[1]) - starts  # the library begins a document where positions restart
        with double_for_float():
            scores = model(input_ids=tokens, position_ids=positions, use_cache=False).logits
        targets = torch.where(bears_loss.bool(), targets, -100)
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=-100)
        adamw.zero_grad()
        loss.backward()
        first = first or ({name: p.grad.clone() for name, p in trained.items()}, scores[0].detach())
        norm = torch.nn.utils.clip_grad_norm_(trained.values(), training["clip"] or float("inf"))
        result["rates"].append(schedule.get_last_lr()[0])
        adamw.step()
        result["losses"].append(loss.item())
        result["gradient_norms"].append(norm.item())
        result["tokens"].append(int(bears_loss.sum().item()))
    return result, first[0], {name: p.detach() for name, p in trained.items()}, first[1]


def main():
    torch.set_num_threads(1)
    names = sys.argv[1:] or oracle_cases.CASES
    return not all([oracle.check(name, train(oracle.folder_of(name))) for name in names])


if __name__ == "__main__":
    sys.exit(main())
