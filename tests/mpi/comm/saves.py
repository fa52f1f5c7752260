#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three processes over MPI save. If they share the folder, all write; if one does not see it, only rank 0 writes. The
bytes must be those of one process. If a rank cannot write, or is killed while it writes, the earlier checkpoints stay
whole; if the newest is damaged, the run resumes from the one before.

    saves.py AUTOHETE MACHINE TEXT

Exit status 77: there is no MPI.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SECONDS = 60  # for a command that takes one or two
FILE_MIB = 40  # file size limit of a rank: less than the offset of its states, more than MPI maps
MODEL = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 96, "vocab_size": 65536, "max_position_embeddings": 64, "tie_word_embeddings": False,
         "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000.0}
DATA = ("--data", "text", "--data-format", "bytes", "--schedule", "constant", "--warmup", "0", "-q")


class Saves:
    def __init__(self, autohete, machine, text, folder):
        self.autohete, self.machine, self.folder = autohete, machine, folder
        shutil.copy(text, self.path("text"))
        self.plan("large", MODEL)
        self.plan("small", {**MODEL, "vocab_size": 256})

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def call(self, *words, status=0, folder=None):
        done = subprocess.run(words, cwd=folder or self.folder, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode != status:
            sys.exit(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def plan(self, name, model):
        with open(self.path("model.json"), "w", encoding="utf-8") as file:
            json.dump(model, file)
        self.call(self.autohete, "cluster", f"3x{self.machine}", "--link", "1Gbit", "-o", "cluster.json")
        self.call(self.autohete, "plan", "model.json", "--cluster", "cluster.json", "--tp", "1", "--dtype", "fp32", "--batch", "8",
                  "--micro-batches", "4", "--seq", "16", "-o", f"{name}.json")
        self.call(self.autohete, "plan", "model.json", "--machine", self.machine, "--like", f"{name}.json", "-o", f"{name}-alone.json")

    def launch(self, other, *words):
        """`other`: the command that starts rank 1."""
        run = (*words, *DATA)
        first, second = (self.autohete, "run", self.path(run[0]), *run[1:]), (*other, "run", self.path(run[0]), *run[1:])
        return ("mpirun", "-n", "1", *first, ":", "-n", "1", *second, ":", "-n", "1", *first)

    def same(self, one, two):
        for name in ("checkpoint.json", "model.safetensors", "states.bin"):
            self.call("cmp", os.path.join(one, "step-00000002", name), os.path.join(two, "step-00000002", name))

    def expect(self, said, *sentences):
        for sentence in sentences:
            if not re.search(sentence, said, re.MULTILINE):
                sys.exit(f"not said: {sentence}\n{said}")

    def left(self, folder):
        return sorted(name for name in os.listdir(self.path(folder)) if name != "resume.json")


def check_shared_and_not(saves):
    saves.call(saves.autohete, "run", "small-alone.json", *DATA, "--steps", "2", "--save", "one")
    saves.call(*saves.launch((saves.autohete,), "small.json", "--steps", "2", "--save", "many"))
    saves.same("one", "many")
    os.mkdir(saves.path("elsewhere"))
    shutil.copy(saves.path("text"), saves.path("elsewhere"))
    other = ("sh", "-c", 'cd "$0" && exec "$@"', saves.path("elsewhere"), saves.autohete)
    saves.call(*saves.launch(other, "small.json", "--steps", "2", "--save", "/proc/self/cwd/apart"))
    saves.same("one", "apart")
    if saves.left("elsewhere") != ["text"]:
        sys.exit(f"rank 1 wrote in a folder of its own: {saves.left('elsewhere')}")


def check_full(saves):
    """Limits the size of rank 1's files, as a quota of its host would."""
    limited = ("bash", "-c", f'trap "" XFSZ; ulimit -f {FILE_MIB << 10}; exec "$0" "$@"', saves.autohete)
    said = saves.call(*saves.launch(limited, "large.json", "--steps", "2", "--save-every", "1", "--save", "full"), status=1)
    failed = r"rank 1 on host '[^']+': \S*/full/step-0000000{}\.tmp/states\.bin: cannot be written: File too large"
    saves.expect(said, r"^warning: " + failed.format(1) + "; training continues",
                 r"^error: " + failed.format(2) + r"; the weights of step 2 alone were saved in 'full/weights-only-00000002'")
    if saves.left("full") != ["weights-only-00000002"]:
        sys.exit(f"a save that failed left {saves.left('full')}")


def check_killed(saves):
    """Kills a rank after a few checkpoints, when it sees one that is being written."""
    words = ("--steps", "300", "--save-every", "1", "--keep", "3", "--save", "killed")
    pid = ("sh", "-c", 'echo $$ >pid && exec "$@"', "rank", saves.autohete)
    with subprocess.Popen(saves.launch(pid, "small.json", *words), cwd=saves.folder, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as launched:
        until = time.monotonic() + SECONDS
        while launched.poll() is None and time.monotonic() < until:
            names = saves.left("killed") if os.path.isdir(saves.path("killed")) else []
            if len(names) > 3 and os.path.exists(saves.path("killed", names[-1], "states.bin")) and names[-1].endswith(".tmp"):
                break
        with open(saves.path("pid"), encoding="utf-8") as file:
            os.kill(int(file.read()), signal.SIGKILL)
        launched.communicate(timeout=SECONDS)
    whole = [name for name in saves.left("killed") if not name.endswith(".tmp")]
    if len(whole) < 2 or not launched.returncode:
        sys.exit(f"it ended with {launched.returncode}, and left {saves.left('killed')}")
    said = saves.call(saves.autohete, "run", "small-alone.json", *DATA, *words, "--save-every", "300", "--resume", "killed")
    if "damaged" in said or any(name.endswith((".tmp", ".damaged")) for name in saves.left("killed")):
        sys.exit(f"the newest checkpoint was not whole: {said}{saves.left('killed')}")


def check_damaged(saves):
    """Processes end when loading shows that the newest checkpoint is damaged; then the same command resumes before it."""
    saves.call(*saves.launch((saves.autohete,), "small.json", "--steps", "2", "--save-every", "1", "--save", "hurt"))
    with open(saves.path("hurt/step-00000002/states.bin"), "r+b") as file:
        file.seek(5000)
        file.write(b"x")
    again = saves.launch((saves.autohete,), "small.json", "--steps", "2", "--resume", "hurt")
    saves.expect(saves.call(*again, status=3), r"^error: hurt/step-00000002/states\.bin: .* is damaged, and was renamed; run the "
                 r"same command again to resume from 'hurt/step-00000001'$")
    saves.call(*again)
    saves.same("one", "hurt")


def main():
    autohete, machine, text = sys.argv[1:]
    if not shutil.which("mpirun"):
        print("no mpirun", file=sys.stderr)
        return 77
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                      OMPI_MCA_rmaps_base_oversubscribe="1")
    with tempfile.TemporaryDirectory() as folder:
        saves = Saves(autohete, machine, text, folder)
        check_shared_and_not(saves)
        check_full(saves)
        check_killed(saves)
        check_damaged(saves)
    print("checkpoints of three processes: the bytes of one, whoever wrote them, and whole when one fails or is killed")
    return 0


sys.exit(main())
