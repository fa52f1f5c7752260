# SPDX-License-Identifier: Apache-2.0
"""Condenses a trace of `run --trace`, predicted and measured: how long each kind of op works in a step, which other
lanes work at the same time, and which share of its planned speed it then keeps.

    found = lanes.condensed(trace, plan)     # both as JSON
    found["measured"]["lanes"]               # share of the step in which each lane works
    found["measured"]["ops"]                 # rows of lane, op, the lanes beside it, us of a step, `kept`

`kept` is the planned time of the tiles, each by itself, over the time they took. A tile that ran beside several sets of
lanes counts for each set with the time they shared, at the tile's average speed. The predicted rows show the model of
shared resources. A measured row that keeps less than its predicted row shows what this model leaves out.
"""
LANES = ("compute", "h2d", "d2h", "host")
LEAST_SHARE = 1e-3  # of a step; rows with less are left out
PROCESSES = ("predicted", "measured")


def named(events, what):
    """Returns names by (process, thread) from "process_name" or "thread_name" events; for a process, thread is 0."""
    return {(each["pid"], each["tid"] if what == "thread_name" else 0): each["args"]["name"] for each in events
            if each["ph"] == "M" and each["name"] == what}


def alone_us(plan):
    """Returns the planned us of a tile of each op by itself, by what a slice says of its op."""
    blocks = [block["name"] for block in plan["blocks"]]
    return {(op["op"], blocks[op["block"]], op.get("micro_batch", 0)): op["us"] / op.get("tiles", 1) for op in plan["ops"]}


def slices_of(events, alone):
    """Returns for each process its steps as (start, end), and slices as (start, end, lane, op, speed). Times are in us;
    speed is None if the plan has no time for the op."""
    processes, threads = named(events, "process_name"), named(events, "thread_name")
    found = {name: ([], []) for name in PROCESSES}
    for each in events:
        process = processes.get((each["pid"], 0), "").split(" ")[0]
        if each["ph"] != "X" or process not in found or each["dur"] <= 0:
            continue
        start, end = each["ts"], each["ts"] + each["dur"]
        lane, args = threads.get((each["pid"], each["tid"])), each.get("args", {})
        if each["cat"] == "iteration":
            found[process][0].append((start, end))
        elif lane in LANES:
            us = alone.get((args.get("op"), args.get("block"), args.get("micro_batch")))
            found[process][1].append((start, end, lane, each["cat"], us / each["dur"] if us else None))
    return found


def ops_of(slices, window):
    """Returns [us, us at the planned speed] of each (lane, op, lanes beside it) in a window."""
    marks = sorted((at, is_start, slot) for slot, (start, end, *_) in enumerate(slices) if end > window[0] and start < window[1]
                   for at, is_start in ((max(start, window[0]), 1), (min(end, window[1]), 0)))
    running, ops, before = {}, {}, window[0]
    for at, is_start, slot in marks:
        lanes = {slices[each][2] for each in running}
        for each in running if at > before else ():
            _, _, lane, op, speed = slices[each]
            row = ops.setdefault((lane, op, " ".join(name for name in LANES if name in lanes - {lane})), [0, 0])
            row[0] += at - before
            row[1] += (at - before) * speed if speed else 0
        before = at
        if is_start:
            running[slot] = True
        else:
            running.pop(slot, None)
    return ops


def of_process(steps, slices):
    window = (min(start for start, _ in steps), max(end for _, end in steps))
    ops, step_us = ops_of(slices, window), (window[1] - window[0]) / len(steps)
    works = {lane: sum(us for (name, *_), (us, _) in ops.items() if name == lane) for lane in LANES}
    rows = [{"lane": lane, "op": op, "beside": beside, "us": round(us / len(steps)), **({"kept": round(alone / us, 3)} if alone else {})}
            for (lane, op, beside), (us, alone) in sorted(ops.items(), key=lambda row: (LANES.index(row[0][0]), row[0][1:]))
            if us / len(steps) >= LEAST_SHARE * step_us]
    return {"steps": len(steps), "step_us": round(step_us),
            "lanes": {lane: round(us / len(steps) / step_us, 4) for lane, us in works.items()}, "ops": rows}


def condensed(trace, plan):
    """Condenses each process that has a step."""
    found = slices_of(trace["traceEvents"], alone_us(plan))
    return {name: of_process(*found[name]) for name in PROCESSES if found[name][0]}
