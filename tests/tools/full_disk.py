#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A disk that is too small for checkpoints: known before the first step, and nothing that was trained is lost.

    full_disk.py --program AUTOHETE --preload FULL_DISK

Each function below named test_ is one test; full_disk.c simulates the free space.
"""
import argparse
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from small_runs import Runs  # noqa: E402

TRAINING = ["--dtype", "bf16"]
LARGE, WHOLE, NOTHING = 10 ** 12, 1500000, 1000  # room for: many checkpoints, one, not even weights


def require(holds, what):
    if not holds:
        raise AssertionError(what)


class Disk:
    def __init__(self, runs, preload):
        self.runs, self.plan = runs, runs.plan(["--policy", "resident"], TRAINING)
        asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        self.file = runs.folder / "disk"
        self.environment = {**os.environ, "LD_PRELOAD": preload, "AUTOHETE_DISK": str(self.file), "ASAN_OPTIONS": asan}

    def has(self, free):
        new = self.file.with_suffix(".new")
        new.write_text(str(free), encoding="ascii")
        new.rename(self.file)

    def start(self, *flags, **settings):
        settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings}
        return self.runs.start(self.plan, flags, env=self.environment, **settings)

    def run(self, *flags, status=0, **settings):
        process = self.start(*flags, **settings)
        out, err = (text.decode() for text in process.communicate(timeout=300))
        require(process.returncode == status, f"{flags}: ended with {process.returncode}\n{out}{err}")
        return out, err


def size_of(folder):
    return sum(file.stat().st_size for file in folder.iterdir())


def test_known_before_the_first_step(disk):
    """Both sizes are reported, and the run takes exactly what it reported."""
    disk.has(LARGE)
    disk.run("--steps", 8, "--save", "once")
    one = size_of(disk.runs.folder / "once/step-00000008")
    fewer, rarely = "give '--keep 1', ", "save less often, "
    for at_once, has, advice, flags in ((1, 1, "", ("--save-every", 8)), (2, 2, rarely, ("--save-every", 4)),
                                        (3, 3, fewer, ("--save-every", 1)), (3, 2, rarely, ("--save-every", 1)),
                                        (2, 2, rarely, ("--save-every", 1, "--keep", 1)),
                                        (8, 8, fewer, ("--save-every", 1, "--keep", 0)),
                                        (8, 2, rarely, ("--save-every", 1, "--keep", 0)),
                                        (8, 1, "", ("--save-every", 1, "--keep", 0))):
        disk.has(has * one)
        out, err = disk.run("--steps", 8, "--save", "out", *flags, status=1)
        found = re.fullmatch(r"error: out: checkpoints will take ([\d.]+) MiB(?:, (\d) at once of ([\d.]+) MiB)?, and ([\d.]+) "
                             r"[KM]iB are free there; (give '--keep 1', |save less often, )?make room, or name a folder on "
                             r"another disk with '--save'\n", err)
        require(found and out == "" and int(found[2] or 1) == at_once, f"{flags}: {err}")
        require(at_once * one < float(found[1]) * 2 ** 20 < at_once * one * 1.2, f"{flags}: {err} of {one}")
        require((found[5] or "") == advice, f"{flags}: {err}")
        followed = {fewer: (*flags, "--keep", 1), rarely: (*flags, "--save-every", 8)}.get(advice)
        if followed:
            disk.run("--steps", 8, "--save", f"followed{at_once}{has}{len(flags)}", *followed)
            disk.has(has * one)
        require(not (disk.runs.folder / "out").exists(), "a folder was made")
        disk.has(int(float(found[1]) * 2 ** 20 * 1.05))
        disk.run("--steps", 8, "--save", f"out{at_once}{has}{len(flags)}", *flags)
    # what already exists does not count twice
    disk.has(LARGE)
    disk.run("--steps", 8, "--save", "part", "--save-every", 2, "--schedule", "constant")
    disk.has(WHOLE)
    disk.run("--resume", "part", "--steps", 20, "--save-every", 2)


def test_weights_alone(disk):
    """If there is no room for a checkpoint, earlier saves stay, and a run can begin from the weights."""
    disk.has(LARGE)
    disk.run("--steps", 4, "--save", "full", "--schedule", "constant")
    disk.run("--steps", 8, "--save", "whole", "--schedule", "constant")
    before = disk.runs.digests(disk.runs.folder / "full/step-00000004")
    disk.has(f"{LARGE} 1")
    _, err = disk.run("--resume", "full", "--steps", 8, status=1)
    require(re.search(r"^error: full/step-00000008\.tmp/states\.bin: cannot be written: No space left on device; the weights of "
                      r"step 8 alone were saved in 'full/weights-only-00000008'; a new run can begin with them: "
                      r"'--weights'; the checkpoint 'full/step-00000004' is unchanged\n", err, re.M), err)
    names = sorted(path.name for path in (disk.runs.folder / "full").iterdir())
    require(names == ["resume.json", "step-00000004", "weights-only-00000008"], names)
    require(disk.runs.digests(disk.runs.folder / "full/step-00000004") == before, "the checkpoint changed")
    alone, whole = disk.runs.folder / "full/weights-only-00000008", disk.runs.folder / "whole/step-00000008"
    require(sorted(path.name for path in alone.iterdir()) == ["config.json", "model.safetensors"], "other files")
    for name in ("config.json", "model.safetensors"):
        require((alone / name).read_bytes() == (whole / name).read_bytes(), f"{name} differs")
    disk.has(LARGE)
    disk.run("--weights", "full/weights-only-00000008", "--steps", 2, "--no-save")
    _, err = disk.run("--resume", "full/weights-only-00000008", status=1)
    require("has only weights, without the optimizer's states" in err and "--weights full/weights-only-00000008" in err, err)
    _, err = disk.run("--resume", "full", "--steps", 8)
    require("note: 'full/weights-only-00000008' has the weights of step 8 alone; this run resumes from step 4, the newest "
            "complete checkpoint\n" in err, err)
    require(disk.runs.digests(disk.runs.folder / "full/step-00000008") == disk.runs.digests(whole), "other bits")
    (disk.runs.folder / "only").mkdir()
    alone.rename(disk.runs.folder / "only/weights-only-00000008")
    _, err = disk.run("--resume", "only", status=1)
    require(re.fullmatch(r"error: 'only' has no checkpoint, only the weights of step 8; begin a new run from them with "
                         r"'--weights only/weights-only-00000008'\n", err), err)


def test_a_save_before_the_last(disk):
    """A failed save costs no training: it is reported, and the next save tries again."""
    disk.has(f"{LARGE} 3")  # states and weights of the first save, then the states of the second
    _, err = disk.run("--steps", 8, "--save", "later", "--save-every", 2, "--keep", 0)
    require(err == "warning: later/step-00000004.tmp/states.bin: cannot be written: No space left on device; training continues, "
            "and the next save tries again\n", err)
    require([path.name[-1] for path in disk.runs.checkpoints("later")] == ["2", "6", "8"], "other checkpoints")
    # a failed save cannot be the best one kept: held-out losses are 3.64 after step 2, 3.47 after 4, 4.08 after 6
    disk.has(f"{LARGE} 3")
    disk.run("--steps", 6, "--valid", "held-out.txt", "--lr", 0.1, "--warmup", 0, "--schedule", "constant", "--save", "best",
             "--save-every", 2, "--keep", 1, "--keep-best")
    best = json.loads((disk.runs.folder / "best/resume.json").read_text(encoding="utf-8"))["best"]
    require(best["step"] == 2 and [path.name[-1] for path in disk.runs.checkpoints("best")] == ["2", "6"], best)


def wait_on_terminal(disk, name, then):
    disk.has(f"{LARGE} 1 {NOTHING}")
    controller, terminal = pty.openpty()
    process = disk.start("--steps", 8, "--save", name, stdout=subprocess.DEVNULL, stderr=terminal)
    os.close(terminal)
    said = b""
    while b"within 10 minutes" not in b" ".join(said.split()):
        said += os.read(controller, 4096)
    then(process)
    try:
        while more := os.read(controller, 4096):
            said += more
    except OSError:
        pass
    os.close(controller)
    return process.wait(timeout=300), said.decode()


def test_a_terminal_waits(disk):
    """On a terminal, the run waits until there is room, or until an interrupt."""
    status, said = wait_on_terminal(disk, "waited", lambda process: disk.has(WHOLE))
    require(status == 0 and [path.name for path in disk.runs.checkpoints("waited")] == ["step-00000008"], said)
    status, said = wait_on_terminal(disk, "given-up", lambda process: process.send_signal(2))
    require(status == 1 and not disk.runs.checkpoints("given-up"), said)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--preload", required=True)
    options = parser.parse_args()
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            with tempfile.TemporaryDirectory() as folder:
                test(Disk(Runs(options.program, folder), options.preload))
            print(f"{name}: ok", flush=True)


if __name__ == "__main__":
    main()
