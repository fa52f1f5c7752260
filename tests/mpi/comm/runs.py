#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random plans, in turn of one pipeline, of several, and of ranks that share all states. Each is run by processes over
MPI and by one process with a plan that is made `--like` it: losses, norms, weights and states are the same bytes.

    runs.py AUTOHETE MACHINE TEXT [--plans N] [--seed S] [--threads]

With --threads, ranks are threads of one process instead, and all plans share states.

About half of the runs that can be paced are. Plans differ in model, pipelines, stages, types, batch, micro-batches,
clipping, frozen tensors, and in what may be stored where. Exit status 77: there is no MPI.
"""
import argparse
import filecmp
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

SECONDS = 120  # for a command that takes one or two


def call(*words, folder):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def model(draw, folder):
    """Writes a llama that reads bytes; in every other one the head shares the embedding's table."""
    width, tied = draw.choice((32, 64)), draw.choice((False, True))
    config = {"model_type": "llama", "hidden_size": width, "num_hidden_layers": draw.randint(2, 6),
              "num_attention_heads": 4, "num_key_value_heads": draw.choice((2, 4)), "intermediate_size": 3 * width,
              "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": tied, "rms_norm_eps": 1e-5,
              "hidden_act": "silu", "rope_theta": 10000.0}
    with open(os.path.join(folder, "model.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)


def training(draw, least):
    micro_batches = draw.choice([n for n in (1, 2, 4, 8) if n >= least])
    words = ["--batch", "8", "--micro-batches", str(micro_batches), "--seq", draw.choice(("16", "31", "64"))]
    words += draw.choice(([], ["--clip", "none"], ["--clip", "0.5"], ["--clip", "1000"]))
    words += draw.choice(([], [], ["--freeze", "embedding.*"], ["--freeze", "layer.0.*"], ["--freeze", "head.*"]))
    return words + draw.choice((["--dtype", "fp32"], ["--dtype", "bf16"], ["--dtype", "bf16", "--state-dtype", "bf16"]))


def shards(draw, autohete, machine, folder):
    """Does what plans() does, with ranks that share all states."""
    model(draw, folder)
    ranks = draw.randint(2, 4)
    without = draw.choice(([], ["--without", "device-weights"], ["--without", "device-optimizer"]))
    call(autohete, "plan", "model.json", "--machine", machine, "--gpus", str(ranks), "--fabric",
         draw.choice(("1GB/s", "20GB/s")), "--effort", "quick", "--device-memory", "64MiB", *training(draw, ranks), *without,
         "-o", "ranks.json", folder=folder)
    call(autohete, "plan", "model.json", "--machine", machine, "--like", "ranks.json", "-o", "alone.json", folder=folder)
    return [1] * ranks


def plans(draw, autohete, machine, several, folder):
    """Writes a plan for several processes and one for a single process, with one signature. Returns the number of
    stages of each pipeline; None if the plan does not have one pipeline, or several, as `several` asks."""
    model(draw, folder)
    ranks, words = draw.randint(2, 4), training(draw, 1)
    links = ("100Gbit", "10Gbit") if several else ("1Gbit", "100Mbit")
    call(autohete, "cluster", f"{ranks}x{machine}", "--link", draw.choice(links), "-o", "cluster.json", folder=folder)
    without = draw.choice(([], ["--without", "host-weights,host-optimizer,streamed"]))
    call(autohete, "plan", "model.json", "--cluster", "cluster.json", "--tp", "1", *words, *without, "-o", "ranks.json",
         folder=folder)
    with open(os.path.join(folder, "ranks.json"), encoding="utf-8") as file:
        plan = json.load(file)
    if (len(plan["pipelines"]) > 1) != several or plan.get("idle_ranks"):
        return None
    call(autohete, "plan", "model.json", "--machine", machine, "--like", "ranks.json", "-o", "alone.json", folder=folder)
    return [len(pipeline["stages"]) for pipeline in plan["pipelines"]]


def steps_of(path):
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [(line["loss"], line.get("grad_norm")) for line in lines if "loss" in line and "step" in line]


def check_seen(ranks, folder):
    """Checks that every rank is in the log's last line and has two of three steps in the trace, on one clock."""
    with open(os.path.join(folder, "many.jsonl"), encoding="utf-8") as file:
        end = json.loads(file.readlines()[-1])
    with open(os.path.join(folder, "many.trace"), encoding="utf-8") as file:
        trace = json.load(file)
    events = trace["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    measured = {pid for pid, name in names.items() if name.startswith("pipeline ")}
    steps = [(e["pid"], e["name"]) for e in events if e.get("cat") == "iteration" and e["pid"] in measured]
    sends = {e["id"]: e["ts"] for e in events if e["ph"] == "s"}
    late = [e["ts"] - sends[e["id"]] for e in events if e["ph"] == "f"]
    if [rank["rank"] for rank in end["ranks"]] != list(range(ranks)) or len(measured) != ranks:
        sys.exit(f"not all of {ranks} ranks are there: {end['ranks']}, {names}")
    if sorted(steps) != sorted((pid, f"step {step}") for pid in measured for step in (2, 3)):
        sys.exit(f"steps that are shown: {steps}")
    within = trace["otherData"]["clocks_within_us"]  # error of each clock; a message involves two
    if len(trace["otherData"]["clocks_ahead_us"]) != ranks or (late and min(late) < -1 - 2 * max(within)):
        sys.exit(f"clocks differ: {trace['otherData']}, messages arrive {min(late)} us after they leave")


def compare(draw, autohete, text, ranks, threads, paces, folder):
    data = ("--data", text, "--data-format", "bytes", "--steps", "3", "--lr", "0.01", "--seed",
            str(draw.randint(0, 1 << 30)))
    launch = ("mpirun", "-n", str(ranks)) if not threads else ()
    call(*launch, autohete, "run", "ranks.json", *(("--local",) if threads else ()), *data, "--save", "many",
         "--log", "many.jsonl", "--trace", "many.trace", "--force", *draw.choice(([], paces)), folder=folder)
    check_seen(ranks, folder)
    call(autohete, "run", "alone.json", *data, "--save", "one", "--log", "one.jsonl", folder=folder)
    wrong = [name for name in ("model.safetensors", "states.bin")
             if not filecmp.cmp(os.path.join(folder, "many/step-00000003", name),
                                os.path.join(folder, "one/step-00000003", name), shallow=False)]
    if steps_of(os.path.join(folder, "many.jsonl")) != steps_of(os.path.join(folder, "one.jsonl")):
        wrong.append("losses or norms")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("autohete")
    parser.add_argument("machine")
    parser.add_argument("text")
    parser.add_argument("--plans", type=int, default=3)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--threads", action="store_true")
    options = parser.parse_args()
    if not options.threads and not shutil.which("mpirun"):
        print("no mpirun", file=sys.stderr)
        return 77
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                      OMPI_MCA_rmaps_base_oversubscribe="1")
    draw, done = random.Random(options.seed), 0
    while done < options.plans:
        with tempfile.TemporaryDirectory() as folder:
            share = options.threads or done % 3 == 2
            stages = (shards(draw, options.autohete, options.machine, folder) if share
                      else plans(draw, options.autohete, options.machine, done % 3 == 1, folder))
            if not stages:
                continue
            paces = [] if share else ["--pace"]
            wrong = compare(draw, options.autohete, options.text, sum(stages), options.threads, paces, folder)
            if wrong:
                with open(os.path.join(folder, "ranks.json"), encoding="utf-8") as file:
                    training_of = json.load(file)["training"]
                sys.exit(f"plan {done} of seed {options.seed}, stages {stages}, {training_of}: {wrong} differ")
            print(f"{len(stages)} ranks share states" if share else f"stages by pipeline: {stages}")
            done += 1
    print(f"{done} plans {'of threads' if options.threads else 'over MPI'}: the bytes of one process")
    return 0


sys.exit(main())
