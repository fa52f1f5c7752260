#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`run --hosts` trains on this machine under two names; each rank runs as the node of that name. `profile --hosts`
names hosts that fail or do not exist, and then writes nothing. With --whole it measures both hosts and their link; the
test plans for the resulting cluster and trains with the same hosts file.

    hosts.py AUTOHETE MACHINE TEXT [--whole]

Exit status 77: there is no MPI.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SECONDS = 1200  # for a command; two quick profiles take under a minute on an idle machine
MODEL = {"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64,
         "tie_word_embeddings": False, "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000.0}


class Scene:
    def __init__(self, autohete, folder):
        self.autohete, self.folder = autohete, folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def call(self, *words, expected=0, environment=None):
        done = subprocess.run([self.autohete, *words], cwd=self.folder, capture_output=True, text=True, timeout=SECONDS,
                              env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL, check=False)
        if done.returncode != expected:
            sys.exit(f"{' '.join(words)}: exit {done.returncode}, not {expected}\n{done.stdout}{done.stderr}")
        return done


def check_refusals(scene):
    """Checks that each mistake is reported before anything is measured, or by the host itself, with its exit status."""
    scene.write("one.txt", "localhost slots=2\n")
    scene.write("bad.txt", "localhost\n127.0.0.1 cores=2\n")
    scene.write("absent.txt", "localhost\nno-such-host.invalid\n")
    scene.write("gpus.txt", "localhost slots=2\n127.0.0.1\n")
    for words, status, said in (
            (("--hosts", "one.txt"), 2, "has 1 host"),
            (("--hosts", "bad.txt"), 2, "line 2: 'cores=2'"),
            (("--hosts", "gpus.txt", "--device", "cuda"), 2, "host 'localhost' has 2 slots"),
            (("--hosts", "hosts.txt", "--model", "tiny"), 2, "leave '--model' out"),
            (("--hosts", "absent.txt"), 7, "host 'no-such-host.invalid' of absent.txt cannot be found"),
            (("--hosts", "hosts.txt", "--device", "cuda:63"), 7, "host 'localhost': ")):
        done = scene.call("profile", "--quick", "-o", "not.json", *words, expected=status)
        if "error: " not in done.stderr or said not in done.stderr:
            sys.exit(f"{words}: '{said}' is not said:\n{done.stderr}")
        if os.path.exists(scene.path("not.json")):
            sys.exit(f"{words}: something was written")


def check_interrupt(scene):
    """Checks that after an interrupt at any moment all processes end and nothing is written."""
    running = subprocess.Popen([scene.autohete, "profile", "--hosts", "hosts.txt", "-o", "not.json"], cwd=scene.folder,
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(3)
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=SECONDS)[1]
    if running.returncode != 130 or "error: interrupted" not in said or os.path.exists(scene.path("not.json")):
        sys.exit(f"interrupted: exit {running.returncode}\n{said}")


def check_cluster(scene):
    with open(scene.path("cluster.json"), encoding="utf-8") as file:
        cluster = json.load(file)
    nodes = cluster["nodes"]
    if [(node["id"], node["gpus"]) for node in nodes] != [("localhost", 1), ("127.0.0.1", 1)]:
        sys.exit(f"other nodes: {nodes}")
    with open("/proc/meminfo", encoding="ascii") as file:
        total = int(file.readline().split()[1]) * 1024
    types = {gpu["name"]: gpu for gpu in cluster["gpus"]}
    taken = sum(types[node["gpu"]]["memory_bytes"] + node["host_memory_bytes"] for node in nodes)
    if taken > total:
        sys.exit(f"the two share {total} bytes, and have {taken}")
    if not all(node["nic_bytes_per_s"] > 1e7 and 0 <= node["nic_latency_us"] < 1e6 for node in nodes):
        sys.exit(f"the link is odd: {nodes}")


def train(scene, text):
    """Plans for cluster.json and trains, each rank on the host of its node, whatever the order of the hosts file."""
    shutil.copyfile(text, scene.path("text"))
    scene.write("model.json", json.dumps(MODEL))
    scene.call("plan", "model.json", "--cluster", "cluster.json", "--tp", "1", "--dtype", "fp32", "--batch", "8",
               "--micro-batches", "4", "--seq", "64", "-o", "plan.json")
    with open(scene.path("plan.json"), encoding="utf-8") as file:
        plan = json.load(file)
    nodes = {stage["node"] for pipeline in plan["pipelines"] for stage in pipeline["stages"]}
    done = scene.call("run", "plan.json", "--hosts", "hosts.txt", "--data", "text", "--data-format", "bytes", "--steps", "2",
                      "--no-save")
    placed = [f" on {os.uname().nodename}, as node {node}" in done.stdout for node in nodes]
    if "step 2/2" not in done.stdout or not all(placed):
        sys.exit(f"it does not train:\n{done.stdout}{done.stderr}")
    print(f"trained on {len(nodes)} nodes")


def check_run(scene, machine, text):
    """Trains on a cluster as it might have been measured. mpirun itself would refuse a hostfile that lists one machine
    twice."""
    scene.call("cluster", f"127.0.0.1={machine}", f"localhost={machine}", "--link", "100Gbit", "-o", "cluster.json")
    train(scene, text)
    os.remove(scene.path("cluster.json"))


def check_whole(scene, text):
    """Checks the whole way from hosts to training."""
    done = scene.call("profile", "--hosts", "hosts.txt", "--quick", "-o", "cluster.json")
    if "wrote cluster.json" not in done.stderr:
        sys.exit(f"it does not say what it wrote:\n{done.stderr}")
    check_cluster(scene)
    train(scene, text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("autohete")
    parser.add_argument("machine")
    parser.add_argument("text")
    parser.add_argument("--whole", action="store_true")
    options = parser.parse_args()
    if not shutil.which("mpirun"):
        print("no mpirun", file=sys.stderr)
        return 77
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(os.path.abspath(options.autohete), folder)
        scene.write("hosts.txt", "localhost slots=1\n127.0.0.1 slots=1\n")
        if options.whole:
            check_whole(scene, os.path.abspath(options.text))
        else:
            check_refusals(scene)
            check_interrupt(scene)
            check_run(scene, os.path.abspath(options.machine), os.path.abspath(options.text))
    return 0


sys.exit(main())
