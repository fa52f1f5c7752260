#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs by three processes over MPI that must not continue: each ends soon, with one sentence that says why and the exit
status for that reason.

    ends.py AUTOHETE MACHINE TEXT

Exit status 77: there is no MPI.
"""
import argparse
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

SECONDS = 30  # for a run that takes one or two; ranks that wait for a missing rank take 60
TRAINING = ("--dtype", "fp32", "--batch", "8", "--micro-batches", "4", "--seq", "64")


class Runs:
    def __init__(self, options, folder):
        self.autohete, self.folder, self.wrong = options.autohete, folder, []
        shutil.copy(options.text, self.path("text"))
        config = {"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 6, "num_attention_heads": 4,
                  "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64,
                  "tie_word_embeddings": False, "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000.0}
        with open(self.path("model.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        self.call(self.autohete, "cluster", f"3x{options.machine}", "--link", "1Gbit", "-o", "cluster.json")
        self.call(self.autohete, "plan", "model.json", "--cluster", "cluster.json", "--tp", "1", *TRAINING, "-o", "plan.json")
        self.call(self.autohete, "plan", "model.json", "--machine", options.machine, *TRAINING, "-o", "alone.json")

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def call(self, *words):
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, timeout=4 * SECONDS, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")

    def expect(self, name, expected, sentences, *words, plan="plan.json", other=None):
        """`expected`: the launcher's exit status. `other`: the command that starts rank 1 instead of the program; {} is
        its folder."""
        run = ["run", self.path(plan), "--data", "text", "--data-format", "bytes", "--steps", "3", "--no-save", *words]
        first = other or [self.autohete]
        launch = ["mpirun", "-n", "1", self.autohete, *run, ":", "-n", "1", *first, *run, ":", "-n", "1", self.autohete, *run]
        try:
            done = subprocess.run(launch, cwd=self.folder, capture_output=True, text=True, timeout=SECONDS, check=False)
            said, status = done.stdout + done.stderr, done.returncode
        except subprocess.TimeoutExpired as late:
            said, status = str(late), 0
        missing = [sentence for sentence in sentences if not re.search(sentence, said, re.MULTILINE)]
        if missing or status != expected:
            self.wrong.append(f"{name}: exit {status}, not said: {missing}\n{said}")

    def elsewhere(self, setup):
        """Returns a command that starts a rank in its own folder, which `setup` has made different."""
        folder = self.path("elsewhere")
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        setup(folder)
        return ["sh", "-c", 'cd "$0" && exec "$@"', folder, self.autohete]


def check(runs):
    runs.expect("a word that rank 0 alone reads", 2, [r"^error: '--lr' 1e\+30 is above 1000"], "--lr", "1e30")
    runs.expect("data that one has not", 1,
                [r"^error: rank 1 on host '[^']+': text: cannot be read"],
                other=runs.elsewhere(lambda folder: None))


def check_weights(runs):
    """Gives one rank the weights of a later step: the same names and shapes, other values."""
    runs.call(runs.autohete, "run", "alone.json", "--data", "text", "--data-format", "bytes", "--steps", "2", "--save", "saved",
              "--save-every", "1", "-q")

    def copy_later(folder):
        shutil.copy(runs.path("text"), folder)
        shutil.copytree(runs.path("saved", "step-00000002"), os.path.join(folder, "weights"))

    shutil.copytree(runs.path("saved", "step-00000001"), runs.path("weights"))
    runs.expect("weights of which one has others", 6,
                [r"^error: rank 1 on host '[^']+': the weights differ from those of rank 0 on host '[^']+': \w{16}, not \w{16}"],
                "--weights", "weights", other=runs.elsewhere(copy_later))


def check_build(runs):
    """Gives one rank the same program with another build id."""
    note = struct.pack("<III", 4, 20, 3) + b"GNU\0"
    with open(runs.autohete, "rb") as file:
        program = bytearray(file.read())
    program[program.index(note) + len(note)] ^= 1
    with open(runs.path("other"), "wb") as file:
        file.write(program)
    os.chmod(runs.path("other"), 0o755)
    runs.expect("a program of another build", 6,
                [r"^error: rank 1: host '[^']+' has '(autohete [\d.]+, build \w{16})', but host '[^']+' of rank 0 has "
                 r"'(?!\1')autohete [\d.]+, build \w{16}'; install the same build on all hosts$"], other=[runs.path("other")])


def check_memory(runs, machine):
    """Runs a plan for machines with terabytes."""
    with open(machine, encoding="utf-8") as file:
        large = json.load(file)
    large["host"].update(memory_bytes=1 << 45, memlock_bytes=1 << 45)
    large["device"]["memory_bytes"] = 1 << 44
    with open(runs.path("large.json"), "w", encoding="utf-8") as file:
        json.dump(large, file)
    with open(runs.path("model.json"), encoding="utf-8") as file:
        model = json.load(file)
    model.update(hidden_size=16384, intermediate_size=65536, num_hidden_layers=24)
    with open(runs.path("large-model.json"), "w", encoding="utf-8") as file:
        json.dump(model, file)
    runs.call(runs.autohete, "cluster", "3xlarge.json", "--link", "1Gbit", "-o", "large-cluster.json")
    runs.call(runs.autohete, "plan", "large-model.json", "--cluster", "large-cluster.json", "--tp", "1", *TRAINING, "-o",
              "large-plan.json")
    runs.expect("memory that is not there", 6,
                [r"^error: rank 0 and 2 more on host '[^']+': only [\d.]+ [KMGT]iB of host memory is free, but the plan needs "
                 r"[\d.]+ TiB of node 'two-cores-0'; free some, use another host, or plan for what is free$"],
                plan="large-plan.json")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("autohete")
    parser.add_argument("machine")
    parser.add_argument("text")
    options = parser.parse_args()
    if not shutil.which("mpirun"):
        print("no mpirun", file=sys.stderr)
        return 77
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                      OMPI_MCA_rmaps_base_oversubscribe="1")
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(options, folder)
        check(runs)
        check_weights(runs)
        check_build(runs)
        check_memory(runs, options.machine)
    if runs.wrong:
        sys.exit("\n".join(runs.wrong))
    print("runs that must end over MPI: all did, and said why")
    return 0


sys.exit(main())
