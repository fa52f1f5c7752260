#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The trace of a run: measured and predicted timelines together, compared with the plan and the run log."""

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
ACTIVITIES = ("compute: kernels", "h2d: copies", "d2h: copies")  # in the order of lanes
CLOCK_US = 2000
TRAINING = ("--micro-batches", "2", "--dtype", "fp32")
KINDS = {"fetch", "forward", "backward", "send_gradients", "norm", "host_adam", "upload", "data"}


def ns(us):
    return round(us * 1000)


def named(events, what):
    """Returns names by process, or by process and track."""
    key = (lambda e: e["pid"]) if what == "process_name" else (lambda e: (e["pid"], e["tid"]))
    return {key(e): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == what}


def tracks(failures, events, recorded):
    """Returns the slices by the names of their process and track. Slices of a track do not overlap, and none starts
    before 0."""
    processes, threads = named(events, "process_name"), named(events, "thread_name")
    failures.equal(sorted(processes.values()), [MEASURED, PREDICTED], "processes")
    for process, first in ((PREDICTED, "iterations"), (MEASURED, "steps")):
        mine = sorted(name for (pid, _), name in threads.items() if processes[pid] == process)
        rows = ACTIVITIES if recorded and process == MEASURED else ()
        failures.equal(mine, sorted((first,) + plans.LANES + rows), f"{process}: tracks")
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
    """Checks that steps are consecutive, without gaps, and that the first one begins at 0."""
    mine = slices[process, track]
    failures.equal([e["args"][key] for e in mine][1:], [mine[0]["args"][key] + i for i in range(1, steps)], process)
    failures.equal(ns(mine[0]["ts"]), 0, f"{process}: where the first step begins")
    for before, behind in zip(mine, mine[1:]):
        failures.near(before["ts"] + before["dur"], behind["ts"], 0.0015, f"{process}: {behind['name']} begins")
    return mine


def check_lane(failures, plan, slices, process, key, step, lane):
    """Checks that every tile of every op occurs once, with its name; in a measured trace, data as well."""
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


def less_than_logged(slices, log, steps, times):
    """Names lanes that show less than half of the logged work or, if `times` is false, as on a busy machine, none at
    all. A slice also spans the gaps between its primitive ops."""
    logged = {line["step"]: line for line in log if line.get("line") == "step"}
    less = []
    for lane in plans.LANES:
        drawn = sum(e["dur"] for e in slices[MEASURED, lane] if steps[0] < e["args"]["step"] < steps[-1])
        worked = min(logged[step][f"{lane}_us"] for step in steps)
        if drawn <= (0.5 * worked if times else 0):
            less.append(f"{lane}: {drawn} us are drawn, {worked} were worked in a step")
    return less


def check_activities(failures, slices, times):
    """Checks that every kernel and copy belongs to an op and lies within its slice, as closely as two clocks agree
    (only if `times`), and that copies have bytes."""
    for lane, row in zip(plans.LANES, ACTIVITIES):
        owners = collections.defaultdict(list)
        for event in slices[MEASURED, lane]:
            owners[event["name"], event["args"].get("tile"), event["args"]["step"]].append(event)
        track = slices[MEASURED, row]
        for event in track:
            failures.equal(event["cat"], "kernel" if lane == "compute" else "copy", f"{row}: kind")
            failures.check(lane == "compute" or event["args"]["bytes"] > 0, f"{row}: a copy of nothing")
            mine = owners[event["args"].get("of"), event["args"].get("tile"), event["args"].get("step")]
            inside = (e for e in mine if not times or e["ts"] - CLOCK_US <= event["ts"]
                      and event["ts"] + event["dur"] <= e["ts"] + e["dur"] + CLOCK_US)
            failures.check(any(inside), f"{row}: {event} is in no slice of its op")
        seen = {(e["args"]["of"], e["args"].get("tile"), e["args"]["step"]) for e in track if "of" in e["args"]}
        failures.equal(set(owners) - seen, set(), f"{row}: ops without any")


def check_overlap(failures, log, first, steps, recorded):
    overlap = log[-1]["overlap"]
    failures.equal((overlap["first_step"], overlap["steps"]), (first, steps), "overlap: steps")
    failures.equal(overlap["source"], "hardware" if recorded else "lanes", "overlap: source")
    shares = sum(overlap[key] for key in ("compute_us", "copy_us", "host_us", "idle_us"))
    failures.near(shares, overlap["total_us"], 0.01, "overlap: shares")
    lanes = {lane["lane"]: lane for lane in overlap["lanes"]}
    failures.equal(sorted(lanes), sorted(plans.LANES), "overlap: lanes")
    failures.near(lanes["compute"]["busy_us"], overlap["compute_us"], 0.001, "overlap: compute")
    failures.check(all(lane["busy_us"] > 0 for lane in lanes.values()), f"overlap: a lane does nothing: {lanes}")
    alone = sum(lanes[lane]["exposed_us"] for lane in ("h2d", "d2h", "host"))
    failures.check(overlap["copy_us"] + overlap["host_us"] <= alone + 0.01, "overlap: more is exposed than lanes say")
    failures.equal(overlap["records"] > 0, recorded, "overlap: records")
    failures.equal(overlap["lost"], 0, "overlap: lost")


def check_whole(failures, folder, plan, name, first, steps, recorded, times):
    with open(os.path.join(folder, name), encoding="utf-8") as handle:
        trace = json.load(handle)
    events = trace["traceEvents"]
    failures.equal(trace["otherData"]["simulated"], False, "otherData.simulated")
    times = [ns(e["ts"]) for e in events if e["ph"] != "M"]
    failures.check(times == sorted(times), "events are not in the order of time")
    slices = tracks(failures, events, recorded)
    if recorded:
        check_activities(failures, slices, times)
    check_steps(failures, slices, PREDICTED, "iterations", "iteration", steps)
    measured = check_steps(failures, slices, MEASURED, "steps", "step", steps)
    failures.equal([e["args"]["step"] for e in measured], list(range(first, first + steps)), "the steps")
    if steps > 2:
        for lane in plans.LANES:
            check_lane(failures, plan, slices, MEASURED, "step", first + 1, lane)
            iteration = slices[PREDICTED, "iterations"][1]["args"]["iteration"]
            check_lane(failures, plan, slices, PREDICTED, "iteration", iteration, lane)
    return slices


def check_run(failures, runs, folder, steps, first, shown, recorded, times):
    """Checks the trace of a run of `steps` steps, which shows `shown` steps from `first` on."""
    device = ("--device", "cuda", "--other-device") if recorded else ()
    plan = runs.plan(("--policy", "stream"), TRAINING)
    with open(os.path.join(folder, plan), encoding="utf-8") as handle:
        document = json.load(handle)
    runs.run(plan, ["--steps", steps, "--trace", "trace.json", "--force", "--log", "log.ndjson", *device])
    slices = check_whole(failures, folder, document, "trace.json", first, shown, recorded, times)
    log = runs.log("log.ndjson")
    check_overlap(failures, log, first, shown, recorded)
    os.remove(os.path.join(folder, "log.ndjson"))
    if recorded:
        drawn = sum(e["dur"] for e in slices[MEASURED, ACTIVITIES[0]])
        worked = log[-1]["overlap"]["compute_us"]
        failures.check(drawn > 0.9 * worked, f"kernels of {drawn} us are drawn, {worked} were recorded")
    less = less_than_logged(slices, log, list(range(first, first + shown)), times) if shown > 2 else []
    failures.check(not less, "; ".join(less))
    return {e["cat"] for (process, _), track in slices.items() for e in track if process == MEASURED}


def check_unrecorded(failures, runs, folder):
    """Whatever keeps CUPTI from recording is reported, and the trace has only lanes; records that it loses are counted."""
    plan = runs.plan(("--policy", "stream"), TRAINING)
    flags = ["--steps", 3, "--trace", "trace.json", "--force", "--log", "log.ndjson", "--device", "cuda", "--other-device"]
    for setting, source, said in (("profiler=Nsight", "lanes", "'Nsight' already profiles this process"),
                                  ("cupti=120800", "lanes", "libcupti.so.13"),
                                  ("fail=cuptiActivityFlushAll:1:999", "lanes", "cuptiActivityFlushAll"),
                                  ("drop=7", "hardware", "were lost")):
        os.environ["AUTOHETE_CUDA_DOUBLE"] = setting
        done = runs.run(plan, flags)
        log = runs.log("log.ndjson")
        os.remove(os.path.join(folder, "log.ndjson"))
        failures.check(said in " ".join(done.stderr.split()), f"{setting}: {done.stderr}")
        failures.equal(log[-1]["overlap"]["source"], source, setting)
        failures.equal(log[-1]["overlap"]["lost"] > 0, setting == "drop=7", f"{setting}: lost")
        with open(os.path.join(folder, "trace.json"), encoding="utf-8") as handle:
            tracks(failures, json.load(handle)["traceEvents"], source == "hardware")
    del os.environ["AUTOHETE_CUDA_DOUBLE"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--recorded", action="store_true", help="on the device 'cuda', which records kernels and copies")
    parser.add_argument("--times", action="store_true", help="compare times, too, on a machine that does nothing else")
    options = parser.parse_args()
    failures = plans.Failures()
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(options.program, folder)
        kinds = check_run(failures, runs, folder, 12, 5, 4, options.recorded, options.times)
        failures.equal(KINDS - (kinds - {"kernel", "copy"}), set(), "kinds of ops that the run lacks")
        check_run(failures, runs, folder, 3, 1, 3, options.recorded, options.times)
        check_run(failures, runs, folder, 1, 1, 1, options.recorded, options.times)
        if options.recorded:
            check_unrecorded(failures, runs, folder)
    return failures.finish()


if __name__ == "__main__":
    sys.exit(main())
