#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The oracle of training: whole tiny models in float64, from torch primitives, and golden cases made with them.

    oracle.py --write [CASE ...]           writes tests/golden/train/CASE (default: all cases)
    oracle.py --check [CASE ...]           do the goldens follow from their files? (1e-9 relative)
    oracle.py --train FOLDER RUN           trains any folder with config.json, weights, data and training.json, and
              [--dtype float32]            writes what a run writes into RUN; with "valid" in training.json also the
              [--every STEPS]              held-out loss, without "samples" in the order of "seed"
    oracle.py --compare CASE RUN           compares what a run wrote with a golden: a table, exit status 1 where
              [--parts losses,weights]     something differs by more than is allowed (oracle_compare.py says what)

CASE is a name or a folder. Only --compare works without torch (Debian: python3-torch). The goldens in the tree are from

    LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/blas /usr/bin/python3 tests/tools/oracle.py --write

with Debian 12's torch 1.13.1 and the reference BLAS, which the variable chooses where a faster one is installed too.
They give the same bytes again; other libraries differ in the last digits. Cases with adapters and packed
ones are from torch 2.15.0.

No line of the product takes part. oracle_transformers.py compares the models here with transformers' own classes.
"""
import argparse
import json
import os
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
GOLDEN = os.path.join(ROOT, "tests", "golden", "train")
os.environ["ATEN_CPU_CAPABILITY"] = "default"  # the same code on every processor

import oracle_cases
import oracle_compare
import oracle_files as files

CHECKED = 1e-9  # float64 by other libraries, over all steps
ALONE = 1e-12  # float64 of one step, packed and alone


def folder_of(case):
    return case if os.path.isdir(case) else os.path.join(GOLDEN, case)


def train(folder, dtype="float64", every=None):
    import torch
    import oracle_train
    torch.set_num_threads(1)
    return oracle_train.train(folder, getattr(torch, dtype), every)


def plain(tensors):
    return {name: (tuple(value.shape), value.double().flatten().tolist()) for name, value in tensors.items()}


def apart_from_alone(folder):
    """Returns the largest relative difference of loss and gradients of packed examples from those of single ones."""
    import oracle_train
    (loss, gradients), (true_loss, true) = oracle_train.whole(folder), oracle_train.alone(folder)
    assert gradients.keys() == true.keys()
    return max([abs(loss / true_loss - 1),
                *(((gradients[name] - true[name]).norm() / (true[name].norm() or 1.0)).item() for name in true)])


def check_makes_sense(name, folder, result):
    """Checks that a case contains what it is made for."""
    training = files.read_json(os.path.join(folder, "training.json"))
    over = sum(norm > training["clip"] for norm in result["gradient_norms"])
    assert not training["clip"] or 3 <= over <= len(result["losses"]) - 3, f"{name}: clips in {over} steps"
    assert training["trainable"] != ["*"] or result["losses"][-1] < result["losses"][0] - 0.2, f"{name}: learns nothing"
    if "examples" in training:
        difference = apart_from_alone(folder)
        assert difference <= ALONE, f"{name}: packed and single examples differ by {difference:.1e}"


def write(name):
    folder = os.path.join(GOLDEN, name)
    oracle_cases.make_case(name, folder)
    result, gradients, final, logits = train(folder)
    check_makes_sense(name, folder, result)
    result["trained"] = sorted(final)
    files.write_json(os.path.join(folder, "expected.json"), result)
    parts = {"gradients": plain(gradients), "weights": plain(final), "logits": plain({"logits": logits})}
    oracle_compare.write_sketches(folder, parts, oracle_compare.zeros_of(result))
    print(f"{name}: loss {result['losses'][0]:.4f} -> {result['losses'][-1]:.4f}, gradient norm "
          f"{min(result['gradient_norms']):.3f} to {max(result['gradient_norms']):.3f}")


def furthest(folder, result, gradients, final, logits):
    """Returns (relative difference, what) of the largest difference from the golden."""
    expected = files.read_json(os.path.join(folder, "expected.json"))
    apart = [(oracle_compare.apart(result[key], expected[key]), key)
             for key in ("losses", "gradient_norms", "rates", "tokens")]
    sketches, zeros = oracle_compare.read_sketches(folder), oracle_compare.zeros_of(expected)
    for part, tensors in (("gradients", gradients), ("weights", final), ("logits", {"logits": logits})):
        golden, made = sketches[part], plain(tensors)
        for name in golden.keys() | made.keys():
            same = name in golden and name in made and golden[name]["shape"] == list(made[name][0])
            apart.append((oracle_compare.apart_from(made[name][1], golden[name], zeros.get(name, ())) if same
                          else float("inf"), f"{part} of {name}"))
    return max(apart)


def check(name, trained=None):
    """Checks that the golden agrees with a training of it (default: by the models here)."""
    trained = trained or train(folder_of(name))
    difference, what = furthest(folder_of(name), *trained)
    check_makes_sense(name, folder_of(name), trained[0])
    agrees = difference <= CHECKED
    print(f"{name}: {'agrees' if agrees else 'DIFFERS'}, at most by {difference:.1e} ({what})")
    return agrees


def train_into(folder, run, dtype, every=None):
    result, gradients, final, logits = train(folder, dtype, every)
    os.makedirs(run, exist_ok=True)
    with open(os.path.join(run, "log.ndjson"), "w", encoding="utf-8") as file:
        fields = ("loss", "losses"), ("grad_norm", "gradient_norms"), ("lr", "rates"), ("tokens", "tokens")
        for step in range(len(result["losses"])):
            line = {"line": "step", "step": step + 1, **{field: result[key][step] for field, key in fields}}
            file.write(json.dumps(line) + "\n")
        for step, loss in result.get("held_out", {}).items():
            file.write(json.dumps({"line": "evaluation", "step": step, "loss": loss}) + "\n")
    whole = {**{name: (shape, list(values)) for name, (shape, values) in files.read_weights(folder).items()},
             **plain(final)}
    kind = "F64" if dtype == "float64" else "F32"
    for name, tensors in (("gradients", plain(gradients)), ("final", whole), ("logits", plain({"logits": logits}))):
        files.write_tensors(os.path.join(run, f"{name}.safetensors"), tensors, kind)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", nargs="*", metavar="CASE")
    what.add_argument("--check", nargs="*", metavar="CASE")
    what.add_argument("--train", nargs=2, metavar=("FOLDER", "RUN"))
    what.add_argument("--compare", nargs=2, metavar=("CASE", "RUN"))
    parser.add_argument("--dtype", default="float64", choices=("float64", "float32"))
    parser.add_argument("--every", type=int)
    parser.add_argument("--parts", default=",".join(oracle_compare.PARTS))
    options = parser.parse_args()
    if options.compare:
        case, run = options.compare
        return oracle_compare.compare(folder_of(case), run, options.parts.split(",")) > 0
    if options.train:
        train_into(folder_of(options.train[0]), options.train[1], options.dtype, options.every)
        return 0
    if options.check is not None:
        return not all([check(name) for name in options.check or oracle_cases.CASES])
    for name in options.write or oracle_cases.CASES:
        write(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
