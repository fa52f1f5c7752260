#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chains: one training by 8, 5, 3, 8 and 1 ranks in turn, each with a plan that is `--like` the first, each resuming what the one
before it saved. Ranks of unequal machines are processes over MPI. Most legs are interrupted or lose a rank at a random moment, and
go on with the same plan or the next one. Weights and states at the end, and the losses and norms of all steps on the way, those
that were lost among them, are the bytes of one process that was never disturbed.

    chains.py AUTOHETE MACHINE TEXT [--chains N] [--seed S]

If the planner finds no plan of the same groups that gives every rank work, another cluster is drawn. Exit status 77:
there is no MPI.
"""
import argparse
import filecmp
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SECONDS = 120  # for a command that takes one or two
LEGS = (8, 5, 3, 8)
LEG_STEPS = 4  # further steps in each leg
STEPS = LEG_STEPS * (len(LEGS) + 1)
NO_PLAN = (4, 5)  # exit statuses: none exists, none was found


class Failure(Exception):
    pass


class Chain:
    def __init__(self, options, draw, folder):
        self.autohete, self.machine, self.draw, self.folder = options.autohete, options.machine, draw, folder
        self.data = ("--data", options.text, "--data-format", "bytes", "--lr", "0.01", "--schedule", "constant", "--warmup", "2",
                     "--seed", str(draw.randint(0, 1 << 30)))
        self.logs, self.story = [], []

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def call(self, *words, allowed=(0,)):
        done = subprocess.run((self.autohete, *words), cwd=self.folder, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode not in allowed:
            raise Failure(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.returncode

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)

    def write(self, name, document):
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump(document, file)


def put_model(chain):
    """Writes a llama that reads bytes. Returns the bytes of its states."""
    draw, width, layers = chain.draw, chain.draw.choice((32, 48, 64)), chain.draw.randint(6, 9)
    chain.write("model.json", {
        "model_type": "llama", "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": 4,
        "num_key_value_heads": draw.choice((2, 4)), "intermediate_size": 3 * width, "vocab_size": 256,
        "max_position_embeddings": 64, "tie_word_embeddings": draw.random() < 0.4, "rms_norm_eps": 1e-5, "hidden_act": "silu",
        "rope_theta": 10000.0})
    return 16 * (13 * layers * width * width + 2 * 256 * width)


def training(draw):
    """Returns the options of a plan that determine bits."""
    micro_batches = draw.choice((4, 6, 8))
    words = ["--batch", str(micro_batches * draw.choice((1, 2))), "--micro-batches", str(micro_batches), "--seq",
             draw.choice(("16", "31", "32"))]
    words += draw.choice(([], ["--clip", "none"], ["--clip", "0.5"]))
    words += draw.choice(([], [], ["--freeze", "layer.0.*"], ["--freeze", "head.*"], ["--freeze", "*.mlp.*"]))
    return words + draw.choice((["--dtype", "fp32"], ["--dtype", "bf16"], ["--dtype", "bf16", "--state-dtype", "bf16"]))


def put_cluster(chain, ranks, states):
    """Writes a cluster of `ranks` nodes with a rank each, of up to three unequal types, with memory for part of the
    model or all of it."""
    draw = chain.draw
    link, least, most = draw.choice((("100MB/s", 0.2, 1.2), ("1GB/s", 0.2, 1.2), ("10GB/s", 0.2, 1.2),
                                     ("10MB/s", 0.8 / ranks, 2 / ranks)))
    chain.call("cluster", f"{ranks}x{chain.machine}", "--link", link, "-o", "cluster.json", "--force", "-q")
    cluster = chain.read("cluster.json")
    gpu = cluster["gpus"][0]
    cluster["gpus"] = []
    for name in ("slow", "middle", "fast"):
        faster = draw.uniform(0.02, 0.06)  # so slow that compute, not messages, limits the speed
        room = int(states * draw.uniform(least, most)) + (6 << 20)
        cluster["gpus"].append({**{key: value * faster if key.endswith("_per_s") else value for key, value in gpu.items()},
                                "name": name, "memory_bytes": room})
    for node in cluster["nodes"]:
        node["gpu"] = draw.choice(("slow", "middle", "fast"))
    used = {node["gpu"] for node in cluster["nodes"]}
    cluster["gpus"] = [kind for kind in cluster["gpus"] if kind["name"] in used]
    chain.write("cluster.json", cluster)


def plan(chain, ranks, states, name, *words):
    """Plans, and returns the pipelines; None if no plan gives every rank work."""
    put_cluster(chain, ranks, states)
    without = chain.draw.choice(([], ["--without", "host-weights,host-optimizer,streamed"]))
    if chain.call("plan", "model.json", "--cluster", "cluster.json", *words, *without, "--effort", "quick", "-o", name, "--force", "-q",
                  allowed=(0, *NO_PLAN)):
        return None
    made = chain.read(name)
    return None if made.get("idle_ranks") else made["pipelines"]


def shape(pipelines):
    return " | ".join("-".join(str(stage["blocks"]) for stage in p["stages"]) + f" x{p['micro_batches']}" for p in pipelines)


def make_plans(chain):
    """Writes a plan for each leg and one for a single process. Returns false if some number of ranks has no plan."""
    states, first = put_model(chain), None
    for leg, ranks in enumerate(LEGS):
        for _ in range(8):
            words = ("--like", "leg-0.json") if leg else ("--tp", "1", *training(chain.draw))
            pipelines = plan(chain, ranks, states, f"leg-{leg}.json", *words)
            if pipelines and (leg or len(pipelines) <= 4):
                break
        else:
            return False
        chain.story.append(shape(pipelines))
        first = first or pipelines
    chain.call("plan", "model.json", "--machine", chain.machine, "--like", "leg-0.json", "-o", "alone.json", "-q")
    return True


def steps_of(path):
    steps = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                continue
            line = json.loads(line)
            if line.get("line") == "step":
                steps[line["step"]] = (line["loss"], line.get("grad_norm"))
    return steps


def saved_step(chain):
    """Returns the step of the newest checkpoint; 0: there is none."""
    names = os.listdir(chain.path("saved")) if os.path.isdir(chain.path("saved")) else []
    return max((int(name[5:]) for name in names if name.startswith("step-") and name[5:].isdigit()), default=0)


def await_step(launched, path, step):
    """Waits until the log has the step, or the run has ended."""
    until = time.monotonic() + SECONDS
    while launched.poll() is None and time.monotonic() < until:
        if os.path.exists(path) and any(done >= step for done in steps_of(path)):
            return
        time.sleep(0.005)


def await_file(launched, path):
    until = time.monotonic() + SECONDS
    while launched.poll() is None and time.monotonic() < until and not os.path.exists(path):
        time.sleep(0.005)


def disturb(chain, launched, how, log, ranks, step):
    """Interrupts rank 0, or kills a rank: during a step, or sometimes while ranks connect."""
    rank, early = 0, False
    if how == signal.SIGKILL:
        rank, early = chain.draw.randrange(ranks), chain.draw.random() < 0.3
    if early:
        await_file(launched, chain.path(f"pid.{rank}"))
    else:
        await_step(launched, log, step)
    time.sleep(chain.draw.uniform(0, 0.5 if early else 0.05))
    chain.story.append(f"{how.name} to rank {rank}, " + ("early" if early else f"about step {step}"))
    try:
        with open(chain.path(f"pid.{rank}"), encoding="utf-8") as file:
            os.kill(int(file.read()), how)
    except (ProcessLookupError, FileNotFoundError):
        pass  # the rank had ended


def run_ranks(chain, plan_name, ranks, steps, how=None):
    """Returns true if the run reached its end. Each rank leaves its process id in a file."""
    before, log = saved_step(chain), f"log-{len(chain.logs)}"
    if before >= steps:
        return True
    chain.logs.append(log)
    for rank in range(max(LEGS)):
        if os.path.exists(chain.path(f"pid.{rank}")):
            os.remove(chain.path(f"pid.{rank}"))
    where = ("--resume", "saved") if before else ("--save", "saved", *chain.data)
    words = ["sh", "-c", 'echo $$ >pid.$OMPI_COMM_WORLD_RANK && exec "$@"', "rank", chain.autohete, "run", plan_name, *where,
             "--steps", str(steps), "--save-every", str(chain.draw.randint(1, 3)), "--log",
             log, "--stall-after", "0", "-q", "--force"]
    with open(chain.path("said"), "w+", encoding="utf-8") as said:
        launched = subprocess.Popen(["mpirun", "-n", str(ranks), *words], cwd=chain.folder, stdout=said, stderr=said)
        try:
            if how:
                disturb(chain, launched, how, chain.path(log), ranks, chain.draw.randint(before, steps - 1))
            status = launched.wait(SECONDS)
        finally:
            launched.kill()
            launched.wait()
        said.seek(0)
        text = said.read()
    allowed = {None: (0,), signal.SIGKILL: None}.get(how, (0, 130))
    if allowed and status not in allowed:
        raise Failure(f"{plan_name} with {ranks} ranks from step {before} to {steps}: exit {status}\n{text}")
    if how in (None, signal.SIGUSR1, signal.SIGINT) and status == 130 and saved_step(chain) <= before and \
            steps_of(chain.path(log)):
        raise Failure(f"{plan_name}: interrupted after {max(steps_of(chain.path(log)))} steps, and the newest checkpoint is of "
                      f"{saved_step(chain)}\n{text}")
    return status == 0


def run_chain(chain):
    for leg, ranks in enumerate(LEGS):
        how = chain.draw.choice((None, signal.SIGUSR1, signal.SIGINT, signal.SIGKILL, signal.SIGKILL))
        steps = LEG_STEPS * (leg + 1)
        ended = run_ranks(chain, f"leg-{leg}.json", ranks, steps, how)
        if not ended and chain.draw.random() < 0.5:
            chain.story.append("once more")
            run_ranks(chain, f"leg-{leg}.json", ranks, steps)
        chain.story.append(f"{ranks} ranks: {saved_step(chain)} steps")
    where = ("--resume", "saved") if saved_step(chain) else ("--save", "saved", "--force", *chain.data)
    chain.logs.append("log-alone")
    chain.call("run", "alone.json", *where, "--steps", str(STEPS), "--log", "log-alone", "-q")


def compare(chain):
    chain.call("run", "alone.json", *chain.data, "--steps", str(STEPS), "--save", "one", "--log", "log-one", "-q")
    name = f"step-{STEPS:08}"
    wrong = [file for file in ("model.safetensors", "states.bin")
             if not filecmp.cmp(chain.path("saved", name, file), chain.path("one", name, file), shallow=False)]
    undisturbed, seen = steps_of(chain.path("log-one")), set()
    for log in (log for log in chain.logs if os.path.exists(chain.path(log))):
        for step, numbers in steps_of(chain.path(log)).items():
            seen.add(step)
            if numbers != undisturbed[step]:
                wrong.append(f"{log}, step {step}: {numbers}, not {undisturbed[step]}")
    if seen != set(range(1, STEPS + 1)):
        wrong.append(f"steps that no log has: {sorted(set(undisturbed) - seen)}")
    if wrong:
        raise Failure("; ".join(wrong))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("autohete")
    parser.add_argument("machine")
    parser.add_argument("text")
    parser.add_argument("--chains", type=int, default=1)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    if not shutil.which("mpirun"):
        print("no mpirun", file=sys.stderr)
        return 77
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                      OMPI_MCA_rmaps_base_oversubscribe="1")
    done = drawn = 0
    while done < options.chains:
        draw = random.Random(f"{options.seed} {drawn}")
        drawn += 1
        with tempfile.TemporaryDirectory() as folder:
            chain = Chain(options, draw, folder)
            try:
                if not make_plans(chain):
                    continue
                run_chain(chain)
                compare(chain)
            except (Failure, subprocess.TimeoutExpired) as failure:
                sys.exit(f"seed {options.seed}, drawn {drawn}, {'; '.join(chain.story)}: {failure}")
            print("; ".join(chain.story), flush=True)
            done += 1
    print(f"{done} chains over MPI ({drawn} drawn): the bytes of one process")
    return 0


if __name__ == "__main__":
    sys.exit(main())
