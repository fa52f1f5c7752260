#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tests of the CUDA plugin on the PTX machine, which counts what the kernels ask of memory, and checks that they ask
for no more than they need: where there is no GPU to time, a kernel is judged by this.

    kernel_counts.py --code FOLDER --program PROGRAM TEST ...

A kernel for any type and alignment (its template's first argument is -1) accesses single elements and is left out. The
others must access shared memory in as few turns as the words allow. Kernels of bf16, and attention, must touch few more
sectors of 32 bytes than they need. (A kernel of fp32 reads a sector in two pieces of 16 bytes, so the sector is counted
twice.)
"""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile

ANY, FP32 = -1, 0
TURNS_MOST, SECTORS_MOST = 1.01, 1.6


def first_argument(name):
    """Returns the first argument of a kernel's template; None if it has none."""
    found = re.search(r"[a-z_]IL(?:i|j|b)(n?\d+)E", name)
    return int(found.group(1).replace("n", "-")) if found else None


def short(name):
    return re.sub(r"^_ZN?(\d+_GLOBAL__N__[0-9a-f]+_\d+_(\w+?)_cu_[0-9a-f]{8})?\d*", lambda m: f"{m.group(2) or ''} ", name)


def count(words, code, path, counts):
    settings = f"code={code},counts={path}"
    run = subprocess.run(words, env={**os.environ, "AUTOHETE_CUDA_DOUBLE": settings},
                         capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(f"{' '.join(words)} fails:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            name, *words = line.split()
            counts[name].update({key: int(value) for key, value in zip(words[::2], words[1::2])})
    os.remove(path)


def excesses(name, of):
    """Yields what is accessed too often: its name, the count, and the least count that would do."""
    if first_argument(name) == ANY:
        return
    if of["shared_turns"] > TURNS_MOST * of["shared_least"]:
        yield "turns of shared memory", of["shared_turns"], of["shared_least"]
    if first_argument(name) != FP32 and of["global_sectors"] > SECTORS_MOST * of["global_least"]:
        yield "sectors of global memory", of["global_sectors"], of["global_least"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--code", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("tests", nargs="+", metavar="TEST")
    args = parser.parse_args()
    counts, broken = collections.defaultdict(collections.Counter), 0
    with tempfile.TemporaryDirectory() as folder:
        for test in args.tests:
            count([args.program, test], args.code, os.path.join(folder, "counts"), counts)
    judged = [name for name in counts if first_argument(name) != ANY and counts[name]["warps"]]
    for name in judged:
        for word, times, least in excesses(name, counts[name]):
            broken += 1
            print(f"{short(name)}: {times} {word}, and {least} would do")
    print(f"{len(judged)} kernels judged, {broken} ask for more than they need")
    return 1 if broken or not judged else 0


if __name__ == "__main__":
    sys.exit(main())
