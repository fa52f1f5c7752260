# SPDX-License-Identifier: Apache-2.0
"""Compares a run with a golden case; needs no library.

A run's folder holds any of these, and what it does not hold is a failure unless `parts` leaves it out:

    losses      log.ndjson: lines with "line": "step" in the order of steps, each with loss, grad_norm, lr, tokens as
                in a run log; lines of other kinds are passed over
    gradients   gradients.safetensors: of the first step, of the mean loss, before clipping
    weights     final.safetensors, or model.safetensors or its shards: after the last step, frozen tensors included
    logits      logits.safetensors: "logits" (seq, vocabulary) of the first sequence, before the first step

With adapters, gradients_adapter.safetensors and final_adapter.safetensors have what is trained, as peft saves it.

Tensors have the names and shapes of the case's weights, or the product's own names (layer.0.attention.qkv.weight) with
rows as outputs. Differences are relative: of tensors in the 2-norm. Where the true gradient is zero, the gradient is
compared with that of the rest of its tensor, and the weight is not compared: AdamW makes something of its rounding.

Instead of tensors, a case has SKETCHES of them (tensors.json): shape, 2-norm, and the sums of the elements under
PROJECTIONS lists of fixed random signs. The root mean square of the differences of these sums estimates the distance of
two tensors. It is exact if one element differs; otherwise it is right on average, and below a tenth of the distance
once in ten million.
"""
import functools
import itertools
import json
import math
import os
import random

import oracle_files as files
import oracle_shape as shapes

PARTS = ("losses", "gradients", "weights", "logits")
PROJECTIONS = 8
TOLERANCES = {"losses": 1e-5, "gradients": 1e-5, "weights": 1e-4, "logits": 1e-5}


class Table:
    """The compared rows; prints itself."""

    def __init__(self):
        self.rows, self.failed = [], 0

    def add(self, part, name, difference, tolerance, note=""):
        good = difference <= tolerance  # false for a NaN
        self.failed += not good
        self.rows.append((part, name, f"{difference:.2e}", f"{tolerance:.0e}", "ok" if good else "FAILED", note))

    def missing(self, part, name, note):
        self.failed += 1
        self.rows.append((part, name, "-", "-", "FAILED", note))

    def print(self):
        heads = ("part", "what", "difference", "allowed", "", "")
        widths = [max(len(row[i]) for row in [heads, *self.rows]) for i in range(6)]
        for row in [heads, *self.rows]:
            print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())


def norm(values):
    return math.sqrt(math.fsum(x * x for x in values))


def apart(values, expected):
    """Returns the relative distance in the 2-norm; if the expected values are zeros, the norm."""
    distance = norm([a - b for a, b in zip(values, expected)])
    return distance / (norm(expected) or 1.0)


@functools.lru_cache(maxsize=None)
def signs(projection, size):
    """Returns which elements count positive."""
    return bytes(map(int, f"{random.Random(projection).getrandbits(size):0{size}b}"))


def projected(values):
    if not math.isfinite(sum(values)):
        return [math.nan] * PROJECTIONS
    total = math.fsum(values)
    return [2 * math.fsum(itertools.compress(values, signs(i, len(values)))) - total for i in range(PROJECTIONS)]


def without(values, ranges):
    values = list(values)
    for begin, end in ranges:
        values[begin:end] = [0.0] * (end - begin)
    return values


def sketch(shape, values, zeros=()):
    """Returns what a case keeps of a tensor, without its elements of true gradient zero."""
    values = without(values, zeros)
    return {"shape": list(shape), "norm": norm(values), "projections": projected(values)}


def apart_from(values, true, zeros=()):
    """Returns the relative distance of values from the tensor whose sketch is `true`."""
    distance = norm([a - b for a, b in zip(projected(without(values, zeros)), true["projections"])])
    return distance / math.sqrt(PROJECTIONS) / (true["norm"] or 1.0)


def transposed(values, rows, cols):
    return [values[row * cols + col] for col in range(cols) for row in range(rows)]


def as_in_file(tensors, run):
    """Returns the run's tensors under the file's names, in the file's layout."""
    for tensor in tensors:
        if tensor.ours not in run:
            continue
        values, at = run.pop(tensor.ours)[1], 0
        for part, shape in tensor.parts.items():
            size = math.prod(shape)
            piece = values[at:at + size]
            run[part] = (shapes.file_shape(tensor, part), transposed(piece, *shape) if tensor.transposed and
                         len(shape) == 2 else piece)
            at += size
    return run


def shaped(table, part, name, run, shape):
    """True if the tensor exists with the right shape."""
    if name not in run:
        table.missing(part, name, "is not in the run")
    elif list(run[name][0]) != list(shape) or len(run[name][1]) != math.prod(shape):
        table.missing(part, name, f"has shape {run[name][0]}, not {shape}")
    else:
        return True
    return False


def compare_losses(table, case, expected, folder):
    with open(os.path.join(folder, "log.ndjson"), encoding="utf-8") as file:
        steps = [line for line in map(json.loads, file) if line.get("line") == "step"]
    if len(steps) != len(expected["losses"]):
        table.missing("losses", "steps", f"{len(steps)} of {len(expected['losses'])}")
    for field, key in (("loss", "losses"), ("grad_norm", "gradient_norms"), ("lr", "rates"), ("tokens", "tokens")):
        differences = [(abs(step[field] / true - 1), number) if math.isfinite(step[field]) else (math.inf, number)
                       for number, (step, true) in enumerate(zip(steps, expected[key]), start=1) if field in step]
        if differences:
            difference, number = max(differences)
            table.add("losses", field, difference, TOLERANCES["losses"], f"worst at step {number}")
        elif field == "loss":
            table.missing("losses", field, "is in no line")


def compare_gradients(table, case, expected, folder):
    run = files.read_tensors(os.path.join(folder, "gradients.safetensors"))
    run = as_in_file(case["tensors"], files.with_adapter(run, folder, "gradients_adapter"))
    for name, true in case["sketches"]["gradients"].items():
        if not shaped(table, "gradients", name, run, true["shape"]):
            continue
        values, zeros = run[name][1], case["zeros"].get(name, [])
        for begin, end in zeros:
            table.add("gradients", f"{name}[{begin}:{end}]", norm(values[begin:end]) / (true["norm"] or 1.0),
                      TOLERANCES["gradients"], "zero, relative to the rest")
        table.add("gradients", name, apart_from(values, true, zeros), TOLERANCES["gradients"])
    for name in sorted(set(run) & set(case["frozen"])):
        if any(run[name][1]):
            table.missing("gradients", name, "is frozen and has a gradient")


def compare_weights(table, case, expected, folder):
    alone = os.path.join(folder, "final.safetensors")
    run = files.read_tensors(alone) if os.path.exists(alone) else files.read_weights(folder)
    run = as_in_file(case["tensors"], files.with_adapter(run, folder, "final_adapter"))
    for name, true in case["sketches"]["weights"].items():
        if shaped(table, "weights", name, run, true["shape"]):
            table.add("weights", name, apart_from(run[name][1], true, case["zeros"].get(name, [])),
                      TOLERANCES["weights"])
    for name, true in case["frozen"].items():
        if shaped(table, "weights", name, run, true[0]):
            table.add("weights", name, apart(run[name][1], true[1]), 0.0, "frozen")
    for name in sorted(set(run) - set(case["names"])):
        table.missing("weights", name, "is not a tensor of this model")


def compare_logits(table, case, expected, folder):
    true = case["sketches"]["logits"]["logits"]
    run = files.read_tensors(os.path.join(folder, "logits.safetensors"))
    if shaped(table, "logits", "logits", run, true["shape"]):
        table.add("logits", "logits", apart_from(run["logits"][1], true), TOLERANCES["logits"])


def zeros_of(expected):
    """Returns the ranges of true gradient zero, by tensor."""
    zeros = {}
    for entry in expected["zero_gradients"]:
        zeros.setdefault(entry["name"], []).append((entry["begin"], entry["end"]))
    return zeros


def write_sketches(folder, parts, zeros):
    """Writes tensors.json, one line for each tensor; `parts`: name -> (shape, values), by part."""
    lines = {f"{part} {name}": sketch(*tensor, zeros.get(name, ()))
             for part, tensors in parts.items() for name, tensor in sorted(tensors.items())}
    files.write_json(os.path.join(folder, "tensors.json"), lines)


def read_sketches(folder):
    """Reads what write_sketches() wrote: sketches by name, by part."""
    parts = {"gradients": {}, "weights": {}, "logits": {}}
    for key, line in files.read_json(os.path.join(folder, "tensors.json")).items():
        part, name = key.split(" ")
        parts[part][name] = line
    return parts


def read_case(folder):
    expected = files.read_json(os.path.join(folder, "expected.json"))
    shape = shapes.read_shape(files.read_json(os.path.join(folder, "config.json")))
    training = files.read_json(os.path.join(folder, "training.json"))
    tensors = shapes.tensors_of(shape) + shapes.adapters_of(shape, training)
    trained = set(expected["trained"])
    initial = files.with_adapter(files.read_weights(folder), folder)
    return {"tensors": tensors, "sketches": read_sketches(folder), "zeros": zeros_of(expected), "names": list(initial),
            "frozen": {name: value for name, value in initial.items() if name not in trained}}, expected


def compare(case_folder, folder, parts=PARTS, quiet=False):
    """Prints a table; returns the number of failed rows."""
    case, expected = read_case(case_folder)
    table = Table()
    compares = {"losses": compare_losses, "gradients": compare_gradients, "weights": compare_weights,
                "logits": compare_logits}
    for part in parts:
        try:
            compares[part](table, case, expected, folder)
        except OSError as error:
            table.missing(part, os.path.basename(error.filename or folder), error.strerror or str(error))
    if not quiet or table.failed:
        table.print()
    print(f"{os.path.basename(case_folder)}: {len(table.rows) - table.failed} agree, {table.failed} do not")
    return table.failed
