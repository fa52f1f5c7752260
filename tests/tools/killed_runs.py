#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills whole runs with SIGKILL and goes on, mostly under another plan, until they are done.

    killed_runs.py --program AUTOHETE --preload STOP_AFTER [--kills N] [--seed S]

A life is one training: killed a few times, each time gone on with by --resume (from the start where
there is no checkpoint yet), then let finish. The first life is killed in its first save, right behind a save, and in a save
that has a checkpoint before it: the run stops there by itself (stop_after.c), so that no time decides about it. Lives behind
it are killed at random moments: while the run opens, while it saves, anywhere. Attempts differ in
plan, in how often they save and evaluate, and in what they say again of the training. After each kill every checkpoint
is whole by its manifest, the newest is no older than before, and the log is whole lines with the losses of the
undisturbed run. In the end all files of the last checkpoint are the bytes of the undisturbed run's.

Also fails if there was no kill before the first checkpoint, in a save, between steps, or before a change of plan.
Prints its seed.
"""
import argparse
import collections
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from small_runs import Runs  # noqa: E402
from scale import scaled  # noqa: E402

STEPS = 24
DIRECTED = ("mkdir:1", "publish:1", "rename:1")  # for stop_after.c
MOMENTS = ("opening", "saving", "anywhere", "saving", "anywhere")
TRAININGS = (  # flags of the plan, flags of the run
    (["--dtype", "bf16", "--micro-batches", 2], ["--lr", "2e-3"]),
    (["--dtype", "fp32", "--clip", "none"], ["--schedule", "constant", "--seed", 3, "--betas", "0.8,0.99"]),
    (["--dtype", "bf16", "--state-dtype", "bf16", "--clip", "0.5"], ["--weight-decay", "0.3", "--epsilon", "1e-6"]),
    (["--dtype", "fp32", "--micro-batches", 4, "--freeze", "layer.0.*"], ["--warmup", 9]))
PLANS = (["--policy", "resident"], ["--policy", "stream"], ["--device-memory", "3200KiB"],
         ["--policy", "zero-offload", "--device-memory", "3600KiB"],
         ["--without", "keep,device-optimizer,host-optimizer"], ["--scheduling", "fifo", "--without", "device-optimizer"])


class Life:
    def __init__(self, runs, preload, rng, number, seen):
        self.runs, self.preload, self.rng, self.seen = runs, preload, rng, seen
        self.planned, self.settings = TRAININGS[number % len(TRAININGS)]
        self.name, self.attempts, self.plan = f"life-{number}", 0, None
        self.whole, start = f"{self.name}-whole", time.monotonic()
        runs.run(self.next_plan(), self.flags(self.whole, self.whole))
        self.seconds = time.monotonic() - start
        lines = runs.log(f"{self.whole}.ndjson")
        self.losses = {line["step"]: line["loss"] for line in lines if line.get("line") == "step"}
        self.save_seconds = max(line["us"] * 1e-6 for line in lines if line.get("line") == "save")
        if sorted(self.losses) != list(range(1, STEPS + 1)):
            raise AssertionError(f"{self.name}: the undisturbed run's log has other steps than 1 to {STEPS}")

    def next_plan(self):
        """Draws a plan; the first two differ."""
        plans = [self.runs.plan(flags, self.planned) for flags in PLANS]
        plan = self.rng.choice([plan for plan in plans if self.attempts > 2 or plan != self.plan])
        self.seen["changes of plan"] += self.plan not in (None, plan)
        self.plan = plan
        return plan

    def flags(self, log, folder, resume=False):
        rng = self.rng
        flags = ["--steps", STEPS, "--log", f"{log}.ndjson", "--save", folder, "--save-every", rng.choice((2, 5, 9)),
                 "--keep", rng.choice((1, 2, 4))]
        if rng.random() < 0.4:
            flags += ["--valid", "held-out.txt", "--valid-every", rng.choice((2, 11))]
        if not resume or rng.random() < 0.5:
            flags += self.settings
        return flags + (["--resume", folder] if resume else [])

    def next_flags(self):
        self.attempts += 1
        log = f"{self.name}-{self.attempts}"
        return log, self.flags(log, self.name, len(self.runs.checkpoints(self.name)) > 0)

    def environment(self, stop):
        asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        return {**os.environ, "LD_PRELOAD": self.preload, "AUTOHETE_STOP_AFTER": stop, "ASAN_OPTIONS": asan} if stop else None

    def wait(self, process, moment, stop):
        """Returns at the moment to kill, or when the run has ended."""
        most = self.seconds * (0.2 if moment == "opening" else 0.8)
        if stop:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
            most = self.save_seconds * self.rng.choice((0, 0.5)) if moment == "saving" else 0
        if most:
            process.send_signal(signal.SIGCONT)
            end = time.monotonic() + self.rng.uniform(0, most)
            while process.poll() is None and time.monotonic() < end:
                time.sleep(0.0005)

    def kill(self, moment):
        """Returns whether the run was killed before it ended."""
        log, flags = self.next_flags()
        before = self.runs.checkpoints(self.name)
        stop = moment if moment in DIRECTED else None
        if moment == "saving":
            stop = f"{self.rng.choice(('mkdir', 'fsync', 'rename', 'publish'))}:{self.rng.randint(1, 3)}"
        process = self.runs.start(self.next_plan(), flags, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  env=self.environment(stop))
        self.wait(process, moment, stop)
        process.kill()
        status = process.wait()
        if status not in (0, -9):
            raise AssertionError(f"{log} ended with {status}")
        if status:
            self.count(log, before)
        self.check(log, before)
        return status != 0

    def count(self, log, before):
        steps = [line for line in self.runs.log(f"{log}.ndjson") if line.get("line") == "step"]
        self.seen["kills"] += 1
        self.seen["kills before the first checkpoint"] += not before and not self.runs.checkpoints(self.name)
        self.seen["kills in a save"] += len(self.runs.leftovers(self.name)) > 0
        self.seen["kills between steps"] += len(steps) > 0 and not self.runs.leftovers(self.name)

    def check(self, log, before):
        checkpoints = self.runs.checkpoints(self.name)
        for checkpoint in checkpoints:
            wrong = self.runs.broken(checkpoint)
            if wrong:
                raise AssertionError(f"{log}: {checkpoint.name} is not what its manifest says: {wrong}")
        if before and (not checkpoints or checkpoints[-1].name < before[-1].name):
            raise AssertionError(f"{log}: {before[-1].name} is gone, and none is newer")
        for line in self.runs.log(f"{log}.ndjson"):
            if line.get("line") == "step" and line["loss"] != self.losses[line["step"]]:
                raise AssertionError(f"{log}: step {line['step']} has loss {line['loss']}, "
                                     f"undisturbed {self.losses[line['step']]}")

    def finish(self):
        log, flags = self.next_flags()
        before = self.runs.checkpoints(self.name)
        self.runs.run(self.next_plan(), flags)
        self.check(log, before)
        if self.runs.leftovers(self.name):
            raise AssertionError(f"{self.name}: leftovers of killed saves are still there")
        ours, wanted = (self.runs.checkpoints(name)[-1] for name in (self.name, self.whole))
        if self.runs.digests(ours) != self.runs.digests(wanted) or ours.name != wanted.name:
            raise AssertionError(f"{ours} is not {wanted}, after {self.attempts} attempts")


def live(runs, preload, rng, number, seen, moments):
    life = Life(runs, preload, rng, number, seen)
    for moment in moments:
        if not life.kill(moment):
            break
    life.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--preload", required=True)
    parser.add_argument("--kills", type=int, default=scaled(10), help="to try; three at least")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("AH_TEST_SEED", "1")))
    options = parser.parse_args()
    print(f"AH_TEST_SEED={options.seed}")
    wanted = ("kills before the first checkpoint", "kills in a save", "kills between steps", "changes of plan")
    seen, lives = collections.Counter(), [DIRECTED]
    while sum(map(len, lives)) < options.kills:
        lives.append(MOMENTS[:options.kills - sum(map(len, lives))])
    with tempfile.TemporaryDirectory(prefix="autohete-killed-") as folder:
        runs = Runs(options.program, folder)
        for number, moments in enumerate(lives):
            live(runs, options.preload, random.Random(f"{options.seed} {number}"), number, seen, moments)
    for what, n in sorted(seen.items()):
        print(f"{n:4d} {what}")
    missing = [what for what in wanted if not seen[what]]
    if missing:
        print(f"missing: {', '.join(missing)}")
        return 1
    print(f"{seen['kills']} kills in {len(lives)} runs: final weights and states bit-identical to undisturbed runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
