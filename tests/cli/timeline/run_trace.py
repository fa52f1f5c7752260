#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The trace of a run: measured and predicted timelines beside each other, against the plan and the run log."""

import argparse
import collections
import json
import os
import sys
import tempfile

import plans

sys.path.insert(0, os.path.join(plans.ROOT, "tests/tools"))
from small_runs import Runs  # noqa: E402

PREDICTED, MEASURED = "predicted (simulated)", "measured"
TRAINING = ("--micro-batches", "2", "--dtype", "fp32")
KINDS = {"fetch", "forward", "backward", "send_gradients", "norm", "host_adam", "upload", "data"}


def ns(us):
    return round(us * 1000)


def named(events, what):
    """Names by process, or by process and track."""
    key = (lambda e: e["pid"]) if what == "process_name" else (lambda e: (e["pid"], e["tid"]))
    return {key(e): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == what}


def tracks(failures, events):
    """Slices by the names of their process and track; no two of a track at one time, none before 0."""
    processes, threads = named(events, "process_name"), named(events, "thread_name")
    failures.equal(sorted(processes.values()), [MEASURED, PREDICTED], "processes")
    for process, first in ((PREDICTED, "iterations"), (MEASURED, "steps")):
        mine = sorted(name for (pid, _), name in threads.items() if processes[pid] == process)
        failures.equal(mine, sorted((first,) + plans.LANES), f"{process}: tracks")
    slices = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            slices[processes[event["pid"]], threads[event["pid"], event["tid"]]].append(event)
    for (process, name), track in slices.items():
        failures.check(ns(track[0]["ts"]) >= 0, f"{process}, {name}: begins before 0")
        for before, behind in zip(track, track[1:]):
            failures.check(
                ns(before["ts"]) + ns(before["dur"]) <= ns(behind["ts"]),
                f"{process}, {name}: {before['name']} and {behind['name']} overlap at {behind['ts']}",
            )
    return slices


def check_steps(failures, slices, process, track, key, steps):
    """Consecutive, one begins where the one before it ends, the first one at 0."""
    mine = slices[process, track]
    failures.equal([e["args"][key] for e in mine][1:], [mine[0]["args"][key] + i for i in range(1, steps)], process)
    failures.equal(ns(mine[0]["ts"]), 0, f"{process}: where the first step begins")
    for before, behind in zip(mine, mine[1:]):
        failures.near(before["ts"] + before["dur"], behind["ts"], 0.0015, f"{process}: {behind['name']} begins")
    return mine


def check_lane(failures, plan, slices, process, key, step, lane):
    """Every tile of every op once, with its name; data beside them where it is measured."""
    mine = [e for e in slices[process, lane] if e["args"][key] == step and e["cat"] != "data"]
    what = [(e["args"]["op"], e["args"]["block"], e["args"]["micro_batch"], e["args"]["tile"]) for e in mine]
    wanted = collections.Counter(
        (op["op"], plan["blocks"][op.get("block", 0)]["name"], op.get("micro_batch", 0), tile)
        for op in plan["ops"]
        if op["lane"] == lane
        for tile in range(op.get("tiles", 1))
    )
    failures.equal(collections.Counter(what) - wanted, collections.Counter(), f"{process}, {lane}: more than the plan")
    failures.equal(wanted - collections.Counter(what), collections.Counter(), f"{process}, {lane}: less than the plan")
    for event, (op, block, _, _) in zip(mine, what):
        failures.equal(event["name"], "norm" if op == "norm" else f"{op} {block}", "the name of a slice")


def check_log(failures, slices, log, steps):
    """Slices span their primitive ops and what is between them, so a lane has no less than the log says it worked."""
    logged = {line["step"]: line for line in log if line.get("line") == "step"}
    for lane in plans.LANES:
        drawn = sum(e["dur"] for e in slices[MEASURED, lane] if steps[0] < e["args"]["step"] < steps[-1])
        worked = min(logged[step][f"{lane}_us"] for step in steps)
        failures.check(drawn > 0.5 * worked, f"{lane}: {drawn} us are drawn, {worked} were worked in a step")


def check_whole(failures, folder, plan, name, first, steps):
    with open(os.path.join(folder, name), encoding="utf-8") as handle:
        trace = json.load(handle)
    events = trace["traceEvents"]
    failures.equal(trace["otherData"]["simulated"], False, "otherData.simulated")
    times = [ns(e["ts"]) for e in events if e["ph"] != "M"]
    failures.check(times == sorted(times), "events are not in the order of time")
    slices = tracks(failures, events)
    check_steps(failures, slices, PREDICTED, "iterations", "iteration", steps)
    measured = check_steps(failures, slices, MEASURED, "steps", "step", steps)
    failures.equal([e["args"]["step"] for e in measured], list(range(first, first + steps)), "the steps")
    if steps > 2:
        for lane in plans.LANES:
            check_lane(failures, plan, slices, MEASURED, "step", first + 1, lane)
            iteration = slices[PREDICTED, "iterations"][1]["args"]["iteration"]
            check_lane(failures, plan, slices, PREDICTED, "iteration", iteration, lane)
    return slices


def check_run(failures, runs, folder, steps, first, shown):
    """A run of so many steps, whose trace has so many from the first on."""
    plan = runs.plan(("--policy", "stream"), TRAINING)
    with open(os.path.join(folder, plan), encoding="utf-8") as handle:
        document = json.load(handle)
    runs.run(plan, ["--steps", steps, "--trace", "trace.json", "--log", "log.ndjson"])
    slices = check_whole(failures, folder, document, "trace.json", first, shown)
    log = runs.log("log.ndjson")
    os.remove(os.path.join(folder, "log.ndjson"))
    if shown > 2:
        check_log(failures, slices, log, list(range(first, first + shown)))
    return {e["cat"] for (process, _), track in slices.items() for e in track if process == MEASURED}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    program = parser.parse_args().program
    failures = plans.Failures()
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(program, folder)
        kinds = check_run(failures, runs, folder, 12, 5, 4)
        failures.equal(KINDS - kinds, set(), "kinds of ops that the run lacks")
        check_run(failures, runs, folder, 3, 1, 3)
        check_run(failures, runs, folder, 1, 1, 1)
    return failures.finish()


if __name__ == "__main__":
    sys.exit(main())
