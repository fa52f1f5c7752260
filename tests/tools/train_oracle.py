#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the golden cases with the trainer and compares each run with the results in float64.

    train_oracle.py --program build/tests/golden.train
"""
import argparse
import os
import subprocess
import sys
import tempfile

import oracle_compare

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "train")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as runs:
        environment = {**os.environ, "AH_TRAIN_RUNS": runs}
        done = subprocess.run([os.path.abspath(options.program), "cases"], env=environment, check=False,
                              cwd=os.path.join(GOLDEN, "..", "..", ".."), capture_output=True, text=True)
        if done.returncode:
            print(done.stdout + done.stderr)
            return 1
        failed = 0
        for name in sorted(os.listdir(GOLDEN)):
            case = os.path.join(GOLDEN, name)
            if os.path.isdir(case):
                failed += oracle_compare.compare(case, os.path.join(runs, name), quiet=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
