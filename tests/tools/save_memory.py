#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peak resident memory of runs with and without '--save': a save takes what profiles count for it, however wide the model.

    save_memory.py --program AUTOHETE

The models have GPT-2's layout, whose matrices a save transposes. Not for sanitizers, which take memory of their own.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MIB = 1 << 20
SAVE_BYTES = 10 * MIB  # profiler/measure_host.c
DOCUMENTS = Path(__file__).parents[1] / "cli" / "documents"
MODELS = Path(__file__).parents[2] / "examples" / "models"


def peak_bytes(command):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command}: ends with status {status}")
    return usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    program = parser.parse_args().program
    for width in (256, 1024):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            model = json.loads((MODELS / "gpt2-124m.json").read_text(encoding="utf-8"))
            model.update(n_layer=1, n_embd=width, n_head=width // 64, vocab_size=256)
            (path / "config.json").write_text(json.dumps(model), encoding="utf-8")
            (path / "text.txt").write_bytes(bytes(range(32, 127)) * 100)
            plan = path / "plan.json"
            subprocess.run([program, "plan", path / "config.json", "--machine", DOCUMENTS / "machine-cpu.json",
                            "--batch", "1", "--seq", "32", "--effort", "quick", "-o", plan],
                           check=True, capture_output=True)
            run = [program, "run", plan, "--data", path / "text.txt", "--steps", "2"]
            without, saving = peak_bytes(run + ["--no-save"]), peak_bytes(run + ["--save", path / "out"])
            print(f"width {width}: {without / MIB:.1f} MiB, with '--save' {(saving - without) / MIB:.1f} MiB more")
            if saving - without > SAVE_BYTES:
                sys.exit(f"width {width}: a save takes {saving - without} bytes, and profiles count {SAVE_BYTES}")


if __name__ == "__main__":
    main()
