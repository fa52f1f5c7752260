#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/wandb/bridge.py with a module `wandb` that records its calls: the log of a real run, afterwards and while it is
written; a log without an end; one that was resumed.

    wandb_bridge.py --program build/test/cli/autohete
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BRIDGE = os.path.join(ROOT, "examples", "wandb", "bridge.py")
# Each call is a line of JSON in the file that CALLS names.
FAKE = """
import json, os
def note(*what):
    with open(os.environ["CALLS"], "a") as file:
        file.write(json.dumps(what) + "\\n")
class Summary(dict):
    def __setitem__(self, key, value):
        note("summary", key, value)
class Run:
    summary = Summary()
    def define_metric(self, name, step_metric):
        note("define_metric", name, step_metric)
    def log(self, values):
        note("log", values)
    def finish(self):
        note("finish")
def init(project, name, config):
    note("init", project, name, config)
    return Run()
"""


def bridge(place, log, *words):
    """Starts the bridge; returns its process and the file with its calls."""
    calls = os.path.join(place, f"calls-{len(os.listdir(place))}")
    with open(calls, "w", encoding="utf-8"):
        pass
    environment = {**os.environ, "PYTHONPATH": place, "CALLS": calls, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen([sys.executable, BRIDGE, log, *words], env=environment), calls


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def wait_for(calls, n):
    begin = time.monotonic()
    while len(read(calls)) < n:
        assert time.monotonic() - begin < 300, f"{calls}: no {n} calls"
        time.sleep(0.05)


def make_log(program, place):
    def call(*words):
        subprocess.run([program, *words], cwd=place, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(os.path.join(place, "text.txt"), "w", encoding="utf-8") as file:
        file.write("one two three " * 400)
    machine = os.path.join(ROOT, "tests", "cli", "documents", "machine-cpu.json")
    call("plan", os.path.join(ROOT, "examples", "models", "tiny.json"), "--machine", machine, "--batch", "2", "--seq", "32",
         "--effort", "quick", "-o", "plan.json")
    call("run", "plan.json", "--data", "text.txt", "--valid", "text.txt", "--valid-every", "2", "--steps", "4", "--no-save",
         "--log", "run.ndjson")
    with open(os.path.join(place, "run.ndjson"), encoding="utf-8") as file:
        return file.read().splitlines(keepends=True)


def expected(lines, project="autohete", name=None):
    header, *rest = map(json.loads, lines)
    calls = [["init", project, name, {key: header[key] for key in ("model", "device", "policy", "numeric_signature")}],
             ["define_metric", "*", "step"]]
    for line in rest:
        if line["line"] == "step":
            calls.append(["log", {"step": line["step"], "loss": line["loss"], "rate": line["lr"], "grad_norm": line["grad_norm"],
                                  "tokens_per_s": line["tokens_per_s"], "step_us": line["step_us"]}])
        elif line["line"] == "evaluation":
            calls.append(["log", {"step": line["step"], "held_out_loss": line["loss"]}])
        elif line["line"] == "end":
            calls.append(["summary", "reason", line["reason"]])
    return [*calls, ["finish"]]


def check(found, wanted):
    assert found == wanted, f"\nfound  {found}\nwanted {wanted}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    program = os.path.abspath(parser.parse_args().program)
    with tempfile.TemporaryDirectory() as place:
        with open(os.path.join(place, "wandb.py"), "w", encoding="utf-8") as file:
            file.write(FAKE)
        lines = make_log(program, place)
        log = os.path.join(place, "run.ndjson")
        wanted = expected(lines, "p", "n")
        assert sum("held_out_loss" in str(call) for call in wanted) >= 2 and sum("rate" in str(call) for call in wanted) == 4, wanted
        # After the run, and a log that was resumed behind its end.
        process, calls = bridge(place, log, "--project", "p", "--name", "n")
        assert process.wait(300) == 0
        check(read(calls), wanted)
        resumed = [*lines, '{"line":"resume","step":2}\n', *(line for line in lines[1:] if json.loads(line)["step"] > 2)]
        with open(log, "w", encoding="utf-8") as file:
            file.writelines(resumed)
        process, calls = bridge(place, log)
        assert process.wait(300) == 0
        check(read(calls), expected(resumed))
        # Begun before the run, and while the log is written, with halves of lines.
        grows = os.path.join(place, "grows.ndjson")
        process, calls = bridge(place, grows)
        time.sleep(0.2)
        with open(grows, "w", encoding="utf-8") as file:
            for at, line in enumerate(lines):
                for half in (line[:7], line[7:]):
                    assert process.poll() is None, "the bridge ended early"
                    file.write(half)
                    file.flush()
                    time.sleep(0.05)
                if at in (1, 4):
                    wait_for(calls, len(expected(lines[:at + 1])) - 1)
        assert process.wait(300) == 0
        check(read(calls), expected(lines))
        # Killed: no last line.
        with open(grows, "w", encoding="utf-8") as file:
            file.writelines([*lines[:3], lines[3][:9]])
        process, calls = bridge(place, grows, "--once")
        assert process.wait(300) == 0
        check(read(calls), expected(lines[:3]))
    return 0


sys.exit(main())
