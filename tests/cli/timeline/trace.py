#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The trace of a simulation, compared with the simulation and the plan."""

import argparse
import collections
import json
import os
import sys
import tempfile

import plans

PHASES = {"M", "X", "C", "s", "f"}


def ns(us):
    return round(us * 1000)


def read(program, folder, path):
    trace = os.path.join(folder, "trace.json")
    said = json.loads(plans.run(program, "simulate", path, "--trace", trace, "--force", "--json"))
    with open(trace, encoding="utf-8") as handle:
        return said, json.load(handle)


def tracks(failures, events):
    """Returns the slices by the name of their track, in the order of the file; slices of a track do not overlap."""
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    failures.equal(sorted(names.values()), sorted(("iterations",) + plans.LANES), "tracks")
    slices = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            slices[names[event["tid"]]].append(event)
    for name, track in slices.items():
        for before, behind in zip(track, track[1:]):
            failures.check(
                ns(before["ts"]) + ns(before["dur"]) <= ns(behind["ts"]),
                f"{name}: {before['name']} and {behind['name']} overlap at {behind['ts']}",
            )
    return slices


def check_order(failures, trace):
    failures.equal(trace["otherData"]["simulated"], True, "otherData.simulated")
    process = [e for e in trace["traceEvents"] if e["name"] == "process_name"]
    failures.check(
        len(process) == 1 and "simulated" in process[0]["args"]["name"], "the process is not called simulated"
    )
    failures.equal({e["ph"] for e in trace["traceEvents"]} - PHASES, set(), "unknown phases")
    times = [ns(e["ts"]) for e in trace["traceEvents"] if e["ph"] != "M"]
    failures.equal(times, sorted(times), "the order of events") if times != sorted(times) else None


def check_iterations(failures, said, iterations):
    failures.equal(len(iterations), said["iterations"], "iterations")
    steady = [e for e in iterations if e["args"]["steady"]]
    failures.check(len(steady) >= 2, "fewer than two steady iterations")
    for event in steady:
        failures.near(event["dur"], said["step_us"], 0.002 + 1e-6 * said["step_us"], f"{event['name']}: its time")
    for before, behind in zip(iterations, iterations[1:]):
        failures.near(before["ts"] + before["dur"], behind["ts"], 0.0015, f"{behind['name']}: where it begins")


def check_lane(failures, plan, said, lane, track, iteration):
    """Checks one steady iteration of a lane: it has every tile of every op once, and the sums of the simulation."""
    mine = [e for e in track if e["args"]["iteration"] == iteration]
    found = collections.Counter(
        (e["args"]["op"], e["args"]["block"], e["args"]["micro_batch"], e["args"]["tile"]) for e in mine
    )
    wanted = collections.Counter(
        (op["op"], plan["blocks"][op.get("block", 0)]["name"], op.get("micro_batch", 0), tile)
        for op in plan["ops"]
        if op["lane"] == lane
        for tile in range(op.get("tiles", 1))
    )
    failures.check(found == wanted, f"{lane}: {sum(found.values())} tiles, not {sum(wanted.values())}, or other ones")
    rounding = 0.0011 * (len(mine) + 1)
    sums = said["lanes"][lane]
    failures.near(sum(e["dur"] for e in mine), sums["busy_us"], rounding, f"{lane}: busy")
    failures.near(sum(e["args"].get("slowed_us", 0) for e in mine), sums["slowed_us"], rounding, f"{lane}: slowed")
    for reason in ("data", "memory"):
        waited = sum(e["args"]["waited_us"] for e in mine if e["args"].get("waited_because_of") == reason)
        failures.near(waited, sums[f"waits_for_{reason}_us"], rounding, f"{lane}: waited for {reason}")
    for event in mine:
        what = event["args"]
        failures.equal(
            event["name"], "norm" if what["op"] == "norm" else f"{what['op']} {what['block']}", "the name of a slice"
        )


def check_arrows(failures, events, slices):
    """Checks that arrows leave within a slice and arrive at the start of one, and that every late compute op has one."""
    leaves = {e["id"]: e for e in events if e["ph"] == "s"}
    arrives = {e["id"]: e for e in events if e["ph"] == "f"}
    failures.equal(sorted(leaves), sorted(arrives), "arrows that leave and arrive")
    failures.equal(len(leaves), sum(e["ph"] == "s" for e in events), "arrows of different names")
    begins = {(e["tid"], ns(e["ts"])): e for track in slices.values() for e in track}
    tids = {track[0]["tid"]: track for track in slices.values()}
    reached = set()
    for name, arrow in arrives.items():
        source = leaves[name]
        failures.check(ns(source["ts"]) <= ns(arrow["ts"]), f"arrow {name} goes back in time")
        failures.check((arrow["tid"], ns(arrow["ts"])) in begins, f"arrow {name} arrives where nothing begins")
        failures.check(
            any(ns(e["ts"]) <= ns(source["ts"]) < ns(e["ts"]) + max(1, ns(e["dur"])) for e in tids[source["tid"]]),
            f"arrow {name} leaves where nothing runs",
        )
        reached.add((arrow["tid"], ns(arrow["ts"])))
    late = [e for e in slices["compute"] if e["args"].get("waited_for")]
    failures.check(all((e["tid"], ns(e["ts"])) in reached for e in late), "a late compute op without an arrow")
    return len(late)


def check_memory(failures, plan, events, compute, iteration):
    """Checks the counter at every compute position against a plain search of the arena."""
    counters = [e for e in events if e["ph"] == "C"]
    at = 0
    mine = [e for e in compute if e["args"]["iteration"] == iteration]
    failures.equal(len(mine), plan["arena"]["positions"], "compute positions")
    rows = plans.occupancy(plan)
    for position, event in enumerate(mine):
        while at + 1 < len(counters) and ns(counters[at + 1]["ts"]) <= ns(event["ts"]):
            at += 1
        failures.equal(counters[at]["args"], rows[position], f"memory at position {position}")
    highest = max(sum(e["args"].values()) for e in counters)
    failures.equal(highest, plan["memory"]["device_bytes"], "the highest memory")
    fullest = max(rows, key=lambda row: sum(row.values()) - row["gaps"])
    for part, size in plan["memory"].get("by_class", {}).items():
        failures.equal(fullest[part], size, f"memory.by_class.{part}")


def check_plan(failures, program, folder, name):
    path, plan = plans.make(program, folder, name)
    said, trace = read(program, folder, path)
    events = trace["traceEvents"]
    check_order(failures, trace)
    slices = tracks(failures, events)
    check_iterations(failures, said, slices["iterations"])
    iteration = said["iterations"] - 2
    for lane in plans.LANES:
        check_lane(failures, plan, said, lane, slices[lane], iteration)
    late = check_arrows(failures, events, slices)
    check_memory(failures, plan, events, slices["compute"], iteration)
    return collections.Counter(e["cat"] for e in events if e["ph"] == "X"), late


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    program = parser.parse_args().program
    failures = plans.Failures()
    kinds, late = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        for name in ("every-lane", "micro-batches", "small"):
            before = len(failures.texts)
            more, more_late = check_plan(failures, program, folder, name)
            failures.texts[before:] = [f"{name}: {text}" for text in failures.texts[before:]]
            kinds += more
            late += more_late
    for kind in ("forward", "backward", "send_gradients", "host_adam", "device_adam", "upload"):
        failures.check(kinds[kind] > 0, f"the plans have no {kind}: choose others")
    failures.check(late > 0, "compute is never late: choose other plans")
    return failures.finish()


if __name__ == "__main__":
    sys.exit(main())
