#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run by three processes over MPI, one of which is stopped for a while: its status names that one, and goes on with it.

    status.py AUTOHETE MACHINE TEXT

Nothing is timed: the test waits for each state, at most SECONDS. Exit status 77: there is no MPI.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SECONDS = 120
TRAINING = ("--dtype", "fp32", "--batch", "8", "--micro-batches", "4", "--seq", "64")
MODEL = {"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 6, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64,
         "tie_word_embeddings": False, "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000.0}


def make(autohete, machine, folder):
    with open(os.path.join(folder, "model.json"), "w", encoding="utf-8") as file:
        json.dump(MODEL, file)
    for words in (("cluster", f"3x{machine}", "--link", "1Gbit", "-o", "cluster.json"),
                  ("plan", "model.json", "--cluster", "cluster.json", "--tp", "1", *TRAINING, "-o", "plan.json")):
        subprocess.run([autohete, *words], cwd=folder, check=True, capture_output=True, timeout=SECONDS)


def launch(autohete, folder):
    """Returns the command; each rank leaves its process id in a file."""
    run = ["sh", "-c", 'echo $$ >pid.$OMPI_COMM_WORLD_RANK && exec "$@"', "rank", autohete, "run", "plan.json", "--data", "text",
           "--data-format", "bytes", "--steps", "1000000", "--schedule", "constant", "--warmup", "0", "--no-save", "--log", "log",
           "--stall-after", "0", "-q"]
    return subprocess.Popen(["mpirun", "-n", "3", *run], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def await_status(folder, what, holds):
    """Waits for a status that satisfies the condition."""
    until = time.monotonic() + SECONDS
    status = None
    while time.monotonic() < until:
        try:
            with open(os.path.join(folder, "log.status"), encoding="utf-8") as file:
                status = json.load(file)
        except FileNotFoundError:
            status = None
        if status and holds(status):
            return status
        time.sleep(0.05)
    sys.exit(f"{what}: not within {SECONDS} s; the last status is {status}")


def pid_of(folder, rank):
    with open(os.path.join(folder, f"pid.{rank}"), encoding="utf-8") as file:
        return int(file.read())


def check(autohete, folder):
    before = await_status(folder, "all ranks train", lambda status: min(rank["step"] for rank in status["ranks"]) > 0)
    if [rank["rank"] for rank in before["ranks"]] != [0, 1, 2]:
        sys.exit(f"ranks are missing: {before}")
    os.kill(pid_of(folder, 1), signal.SIGSTOP)
    try:
        await_status(folder, "rank 1 is silent, alone",
                     lambda status: [rank["rank"] for rank in status["ranks"] if "silent_us" in rank] == [1])
        shown = subprocess.run([autohete, "status", "log"], cwd=folder, capture_output=True, text=True, check=True,
                               timeout=SECONDS).stdout
    finally:
        os.kill(pid_of(folder, 1), signal.SIGCONT)
    if "\nrank 1 on host " not in shown or " has not answered for " not in shown:
        sys.exit(f"it does not name rank 1:\n{shown}")
    stopped = await_status(folder, "rank 1 answers again",
                           lambda status: not any("silent_us" in rank for rank in status["ranks"]))["step"]
    await_status(folder, "training goes on", lambda status: min(rank["step"] for rank in status["ranks"]) > stopped)
    os.kill(pid_of(folder, 0), signal.SIGUSR1)
    await_status(folder, "it ended", lambda status: status.get("ended") == "interrupted")


def main():
    autohete, machine, text = sys.argv[1:]
    if not shutil.which("mpirun"):
        print("no mpirun", file=sys.stderr)
        return 77
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                      OMPI_MCA_rmaps_base_oversubscribe="1")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(text, os.path.join(folder, "text"))
        make(autohete, machine, folder)
        launched = launch(autohete, folder)
        try:
            check(autohete, folder)
            launched.wait(SECONDS)
        finally:
            launched.terminate()
            launched.wait(SECONDS)
    print("the status of a run over MPI names the rank that is stopped")
    return 0


sys.exit(main())
