#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Edits plans at random and runs them: each is refused, or trains to the bits of the plan as it was.

    edited_plans.py --program AUTOHETE [--edits N] [--seed S]

The plans keep, fetch, stream and recompute, with one micro-batch and several, with and without clipping. An edit changes
one field, now and then two: a number a little or a lot, a word to another legal word or to none, an entry of a list or a
field left out, an entry repeated, two entries swapped, a list shuffled. Edits are drawn from every kind of field in turn,
so that a short run sees all parts of a plan and a long one every field. Of each edited plan:

  1. `run`, `simulate` and `check` agree: all three refuse it with the same exit status (3; 6 where a digest or a device
     does not fit), name the file in one line, and no checkpoint is made; or all three take it.
  2. A plan that is taken trains to the same losses and the same checkpoint as the original plan, byte for byte.

Prints its seed, what was taken, and what is broken.
"""
import argparse
import collections
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from forged_plans import WORDS, field_of  # noqa: E402
from scale import scaled  # noqa: E402
from small_runs import Runs  # noqa: E402

STEPS = 6
REFUSED = (3, 6)
BF16, FP32 = ["--dtype", "bf16"], ["--dtype", "fp32"]
SETTINGS = (
    (["--policy", "resident"], BF16), (["--policy", "stream"], BF16), (["--policy", "zero-offload"], FP32),
    (["--policy", "stream"], [*BF16, "--micro-batches", 2, "--clip", "none"]),
    (["--policy", "patrickstar"], [*BF16, "--micro-batches", 4]),
    (["--device-memory", "2500KiB"], BF16), (["--device-memory", "2500KiB"], [*FP32, "--micro-batches", 2]),
    (["--without", "keep,device-optimizer,host-optimizer"], [*BF16, "--clip", "none"]),
    (["--scheduling", "fifo", "--without", "device-optimizer"], BF16),
    (["--policy", "stronghold"], [*BF16, "--freeze", "layer.0.*"]),
)
WANTED = {"weights device", "weights host", "optimizer device", "optimizer host", "optimizer streamed", "optimizer none",
          "activations keep", "activations recompute", "clipped", "not clipped", "1 micro-batch", "2 micro-batches"}


def other_word(rng, key, value):
    words = [word for word in WORDS.get(key, ()) if word != value]
    if words and rng.random() < 0.9:
        return rng.choice(words)
    return value[:-1] + ("0" if value[-1:] != "0" else "1")


def a_little(rng, value):
    if isinstance(value, float) and value != int(value):
        return value * rng.choice((0.999, 1.001, 1 + 1e-7))
    return int(value) + rng.choice((-256, -64, -1, 1, 64, 256))


def a_lot(rng, value):
    return rng.choice((0, -value, value * 2, value // 2 if isinstance(value, int) else value / 2, value * 1000 + 1,
                       int(rng.random() * 10 ** rng.randint(1, 15))))


def replace(make):
    def edit(rng, box, key):
        name = key if isinstance(key, str) else None
        box[key] = make(rng, name, box[key]) if make is other_word else make(rng, box[key])
    return edit


def drop(rng, box, key):
    del box[key]


def repeat(rng, box, key):
    box.insert(key, copy.deepcopy(box[key]))


def swap(rng, box, key):
    other = rng.randrange(len(box))
    box[key], box[other] = box[other], box[key]


def shuffle(rng, box, key):
    rng.shuffle(box[key])


def edits_of(box, path=()):
    for key, part in box.items() if isinstance(box, dict) else enumerate(box):
        here = path + (key,)
        yield "left out", drop, here
        if isinstance(box, list):
            yield "repeated", repeat, here
            yield "swapped", swap, here
        if isinstance(part, list) and len(part) > 1:
            yield "shuffled", shuffle, here
        if isinstance(part, (dict, list)):
            yield from edits_of(part, here)
        elif isinstance(part, str):
            yield "another word", replace(other_word), here
        elif isinstance(part, bool):
            yield "the other way", replace(lambda _, value: not value), here
        elif part is not None:
            yield "a little", replace(a_little), here
            yield "a lot", replace(a_lot), here


def draw(plans, count, rng):
    """Draws `count` edits, each a plan's name with [(manner, edit, path)]: from each part of a plan in turn, and there
    from each (field, manner) in turn."""
    parts = collections.defaultdict(lambda: collections.defaultdict(list))
    for name, plan in plans.items():
        for manner, edit, path in edits_of(plan):
            parts[path[0]][field_of(path), manner].append((name, (manner, edit, path)))
    queues = [[found for _, found in sorted(kinds.items())] for _, kinds in sorted(parts.items())]
    for queue in queues:
        rng.shuffle(queue)
    total = sum(map(len, queues))
    # parts with many fields get more turns, half of their proportional share, so that small parts are seen early
    turns = [max(1, round(len(queue) * count / (2 * total))) for queue in queues]
    found, at = [], [0] * len(queues)
    while len(found) < count:
        for number, queue in enumerate(queues):
            for _ in range(turns[number]):
                name, edit = rng.choice(queue[at[number] % len(queue)])
                at[number] += 1
                found.append((name, [edit]))
    found = rng.sample(found, count)
    for name, edits in found:
        if rng.random() < 0.15:
            edits.append(rng.choice(list(edits_of(plans[name]))))
    seen = {(field_of(path), manner) for _, edits in found for manner, _, path in edits}
    return found, len(seen), total


def apply(plan, edits, rng):
    """Applies the edits and returns them in words. The second edit is left out if the first one removed its place."""
    said = []
    for manner, edit, path in edits:
        box = plan
        try:
            for key in path[:-1]:
                box = box[key]
            before = json.dumps(box[path[-1]])[:60]
            edit(rng, box, path[-1])
        except (LookupError, TypeError):
            continue
        after = json.dumps((box if isinstance(box, dict) else dict(enumerate(box))).get(path[-1]))[:60]
        said.append(f"{'.'.join(map(str, path))} {manner}: {before} -> {after}")
    return "; ".join(said)


class Judge:
    def __init__(self, runs):
        self.runs, self.bases = runs, {}

    def call(self, *words):
        return subprocess.run([self.runs.program, *map(str, words)], cwd=self.runs.folder, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=120, check=False)

    def train(self, plan, flags=()):
        """Returns exit status, standard error, and the result of training: losses, and the manifest with all digests."""
        done = self.call(*self.runs.words(plan, ["--steps", STEPS, "--save", "out", "--json", *flags]))
        losses = [line["loss"] for line in map(json.loads, done.stdout.splitlines()) if line.get("line") == "step"]
        manifests = [path.read_bytes() for path in sorted((self.runs.folder / "out").glob("step-*/checkpoint.json"))]
        made = (self.runs.folder / "out").exists()
        shutil.rmtree(self.runs.folder / "out", ignore_errors=True)
        return done, (losses, manifests), made

    def base(self, plan):
        if plan not in self.bases:
            done, result, _ = self.train(plan)
            if done.returncode or len(result[0]) != STEPS or len(result[1]) != 1:
                raise AssertionError(f"{plan} does not train as it is: {done.stderr}")
            self.bases[plan] = result
        return self.bases[plan]

    def judge(self, plan, edited, flags, allowed):
        """Returns (taken, what is broken or None)."""
        status = {verb: self.call(verb, edited).returncode for verb in ("check", "simulate")}
        done, result, made = self.train(edited, flags)
        status["run"] = done.returncode
        if done.returncode == 0 and result != self.base(plan):
            return True, "trains otherwise"
        if not any(status.values()):
            return True, None
        if done.returncode in allowed and status["check"] == status["simulate"] == 0:
            return False, None
        if done.returncode not in REFUSED or set(status.values()) != {done.returncode}:
            return False, f"exit {status}: {done.stderr.strip()[:300]}"
        said = json.loads(done.stderr)["error"]["message"] if done.stderr.count("\n") == 1 else ""
        if edited not in said or made:
            return False, f"{'made a folder' if made else 'does not name the file'}: {done.stderr.strip()[:300]}"
        return False, None


def facts(plan):
    training = plan["training"]
    yield "clipped" if training.get("clip") else "not clipped"
    yield f"{training['micro_batches']} micro-batch{'es' if training['micro_batches'] > 1 else ''}"
    for block in plan["blocks"]:
        yield from (f"{field} {block[field]}" for field in ("weights", "optimizer", "activations"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--edits", type=int, default=scaled(1200))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("AH_TEST_SEED", "1")))
    args = parser.parse_args()
    print(f"AH_TEST_SEED={args.seed}")
    rng, lines, taken, refused = random.Random(args.seed), [], collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(args.program, folder)
        judge = Judge(runs)
        plans = {}
        for flags, training in SETTINGS:
            name = runs.plan(flags, training)
            plans[name] = json.loads((runs.folder / name).read_text())
        missing = WANTED - {fact for plan in plans.values() for fact in facts(plan)}
        lines += [f"no plan has: {', '.join(sorted(missing))}"] if missing else []
        found, fields, total = draw(plans, args.edits, rng)
        for name, edits in found:
            plan = copy.deepcopy(plans[name])
            said = apply(plan, edits, rng)
            if plan == plans[name]:
                continue
            runs.write("edited.json", json.dumps(plan).encode())
            flags = rng.choice(((), ("--other-device",)))
            # only `run` refuses a plan for another device, since only it knows the device
            other = plan.get("numeric_signature", {}).get("device") != "cpu"
            was_taken, broken = judge.judge(name, "edited.json", flags, (6, 7) if other else ())
            refused += not was_taken
            taken.update([field_of(path) for _, _, path in edits] if was_taken else [])
            if broken:
                lines.append(f"{name} {' '.join(flags)}: {said}: {broken}")
    for field, count in sorted(taken.items()):
        print(f"  taken, same bits: {count:4} {field}")
    print("\n".join([*lines[:40], f"{args.edits} edits of {fields} of {total} fields and manners: {refused} refused, "
                                  f"{len(lines)} broken"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
