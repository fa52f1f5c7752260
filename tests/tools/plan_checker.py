#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks a plan by its own reading of docs/planning.md, in which no line of the scheduler takes part.

    plan_checker.py PLAN [--model MODEL] [--random N] [--seed S]

It checks the ops and tensors that every config must have, lifetimes, the layout, sums and byte counts. Then it runs the
frozen orders with the plan's times and with N sets of random times: nothing waits for itself, no two live tensors share
a byte, no ring holds more than its slots, a faster op never makes another op later, and the period is the predicted
one. Prints a line for each violation. Exit status: 0 none, 1 some, 2 no plan or model to read.
"""
import argparse
import json
import random
import sys

from plan_graph import LANES, Broken, Graph, period_us
from plan_rules import Rules
from plan_sizes import Sizes

REPLAYED = 5  # iterations of a replay; all but the first are examined, as far as they are complete
RELATIVE = 1e-6


def read(path):
    def pairs_once(pairs):
        if len({key for key, _ in pairs}) < len(pairs):
            raise ValueError(f"{path}: a key stands twice")
        return dict(pairs)
    with open(path, encoding="utf-8") as file:
        return json.load(file, object_pairs_hook=pairs_once)


def wrong_kind(document, path, wanted):
    """Returns a sentence about a document of the wrong kind; None if the kind is right."""
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind == wanted:
        return None
    if isinstance(document, dict) and "model_type" in document and kind is None:
        found = "a Hugging Face config"
    else:
        found = f"a {kind} document" if isinstance(kind, str) else "no document of autohete"
    advice = {"plan": "give a plan: autohete plan MODEL --machine FILE -o plan.json",
              "model": "give the model as a model document, as in examples/models"}[wanted]
    return f"{path} is {found}, not a {wanted} document; {advice}"


def with_defaults(plan):
    """Returns the plan with the defaults of fields that a document may leave out."""
    for op in plan["ops"]:
        op.update({"micro_batch": 0, "tiles": 1, "bytes": 0, **op})
    for lane in LANES:
        plan["lanes"].setdefault(lane, [])
    plan["sharing"].setdefault("resources", [])
    for block in plan["blocks"]:
        block.setdefault("accumulator", "none")
    return plan


def check_lanes(plan, report):
    """Checks that each op occurs `tiles` times on its own lane, and that compute ops are at their stated positions."""
    ops, positions = plan["ops"], len(plan["lanes"]["compute"])
    mentions = [0] * len(ops)
    for lane in LANES:
        for place, index in enumerate(plan["lanes"][lane]):
            if index >= len(ops) or ops[index]["lane"] != lane:
                report(f"lanes.{lane}[{place}]: op {index} is not of this lane")
            else:
                mentions[index] += 1
    for index, op in enumerate(ops):
        if mentions[index] != op["tiles"]:
            report(f"ops[{index}]: {op['op']} has {op['tiles']} tiles and is mentioned {mentions[index]} times")
        for field in ("position",) if op["lane"] == "compute" else ("issue_after", "due_before"):
            if not 0 <= op.get(field, -1) < positions:
                report(f"ops[{index}].{field}: {op.get(field)} is no position")
            elif field == "position" and plan["lanes"]["compute"][op[field]] != index:
                report(f"ops[{index}].position: position {op[field]} is another op's")
    if plan["arena"]["positions"] != positions:
        report(f"arena.positions: {plan['arena']['positions']}; the compute lane has {positions}")


def check_faster(graph, unrolled, rng, report):
    """Checks that with shorter durations nothing is later."""
    slow = [us * rng.uniform(0.5, 2) for us in unrolled.planned_us()]
    fast = [us * rng.choice((1, 1, rng.random())) for us in slow]
    _, slow_finish = unrolled.run(slow)
    _, fast_finish = unrolled.run(fast)
    for v, (a, b) in enumerate(zip(fast_finish, slow_finish)):
        if a > b:
            report(f"{graph.name(unrolled.nodes[v][0])} finishes at {a} us with faster ops, else at {b} us")
            return


def check_rings(unrolled, start, finish, report):
    """Checks that at no time more ops have taken a slot than there are slots and ops that gave one back."""
    for places, take, give in unrolled.ring_nodes:
        take = take[:places + len(give)]  # later ones wait for ops of iterations that are not replayed
        events = [(finish[v], 0, v) for v in give] + [(start[v], 1, v) for v in take]
        held = 0
        for _, taken, v in sorted(events):
            held += 1 if taken else -1
            if held > places:
                report(f"{unrolled.graph.name(unrolled.nodes[v][0])} takes a place of a ring of {places} that is full")
                return


def check_one_at_a_time(graph, unrolled, start, finish, report):
    ends = {}
    for v in sorted(range(len(start)), key=lambda v: (start[v], finish[v])):
        lane = graph.items[unrolled.nodes[v][0]].lane
        if start[v] < ends.get(lane, 0):
            report(f"{graph.name(unrolled.nodes[v][0])} starts while its lane is busy")
            return
        ends[lane] = finish[v]


def live_times(rules, unrolled, start, finish):
    """Returns (first time needed, last time needed, tensor index) of each tensor in each iteration that holds its whole
    life."""
    positions, times = rules.positions, []

    def node(item, iteration):
        return unrolled.index.get((item, iteration))

    def compute(position):
        return node(rules.graph.compute_item(position % positions), position // positions)
    for index, tensor in enumerate(rules.tensors):
        if tensor.length == positions:
            continue
        for iteration in range(1, unrolled.iterations):
            begin = iteration * positions + tensor.first
            writers, readers = [compute(begin)], [compute(begin + tensor.length - 1)]
            for op, is_reader in rules.copies_of(index):
                issue = rules.ops[op]["issue_after"]
                at = begin - 1 if not is_reader else begin + (issue - tensor.first) % positions
                (readers if is_reader else writers).extend(node(i, at // positions) for i in rules.graph.of_op[op])
            if None not in writers + readers:
                times.append((min(start[v] for v in writers), max(finish[v] for v in readers), index))
    return times


def check_apart_in_time(rules, unrolled, start, finish, report):
    """Checks that no two tensors whose bytes overlap hold data at the same time."""
    alive = []
    for begin, end, index in sorted(live_times(rules, unrolled, start, finish)):
        alive = [(e, i) for e, i in alive if e > begin]
        tensor = rules.tensors[index]
        for _, other in alive:
            if tensor.offset < rules.tensors[other].end and rules.tensors[other].offset < tensor.end:
                report(f"'{tensor.name}' and '{rules.tensors[other].name}' share bytes and hold data at {begin:.3f} us")
                return
        alive.append((end, index))


def host_uses(graph):
    """Yields (op that writes a block's vector on the host, op that read its old content) if no ring keeps them apart."""
    staging, last = graph.plan["staging"], graph.plan["training"]["micro_batches"] - 1
    for b in range(len(graph.plan["blocks"])):
        adam, sums = graph.by_kind["host_adam", b], graph.by_kind["accumulate", b]
        for send in graph.by_kind["send_gradients", b] * (not staging["host_gradient_tiles"]):
            before = (graph.ops[send]["micro_batch"] or last + 1) - 1
            yield from ((send, reader) for reader in (graph.of_micro_batch("accumulate", b, before) if sums else adam))
        yield from ((first, reader) for first in graph.of_micro_batch("accumulate", b, 0) for reader in adam)
        yield from ((op, up) for op in adam for up in graph.by_kind["upload", b] * (not staging["host_weight_tiles"]))


def check_host_vectors(graph, unrolled, start, finish, report):
    """Checks that a write to a vector on the host waits, tile by tile, until the last reader of the old content is
    done."""
    for writer, reader in host_uses(graph):
        write, read = graph.of_op[writer], graph.of_op[reader]
        if len(write) != len(read):
            write, read = write[:1], read[-1:]
        for w, r in zip(write, read):
            back = graph.items[r].key >= graph.items[w].key
            for iteration in range(1, unrolled.iterations - 1):
                begin = start[unrolled.index[w, iteration]]
                if iteration > back and finish[unrolled.index[r, iteration - back]] > begin:
                    report(f"{graph.name(w)} writes to the host at {begin:.3f} us what {graph.name(r)} still reads")
                    return


def replay(rules, unrolled, durations, report):
    start, finish = unrolled.run(durations)
    check_rings(unrolled, start, finish, report)
    check_one_at_a_time(rules.graph, unrolled, start, finish, report)
    check_apart_in_time(rules, unrolled, start, finish, report)
    check_host_vectors(rules.graph, unrolled, start, finish, report)


def check_replays(rules, count, seed, report):
    rng = random.Random(seed)
    unrolled = rules.graph.unroll(REPLAYED)
    planned = unrolled.planned_us()
    replay(rules, unrolled, planned, report)
    for _ in range(count):
        spread = rng.choice((0.1, 1, 4))  # from noise to lanes that are predicted entirely wrong
        lanes = {lane: rng.lognormvariate(0, spread) for lane in LANES}
        durations = [us * lanes[rules.graph.items[item].lane] * rng.lognormvariate(0, spread)
                     for us, (item, _) in zip(planned, unrolled.nodes)]
        replay(rules, unrolled, durations, report)
    if count:
        check_faster(rules.graph, unrolled, rng, report)


def is_near(a, b):
    return abs(a - b) <= RELATIVE * max(abs(a), abs(b), 1)


def check_time(plan, graph, report):
    time = plan["time"]
    work = {lane: sum(op["us"] for op in plan["ops"] if op["lane"] == lane) for lane in LANES}
    for lane in LANES:
        told = time[f"{lane}_us"]
        if told < work[lane] * (1 - RELATIVE):
            report(f"time.{lane}_us: {told} is less than the {work[lane]} us of its ops")
        if told > time["step_us"] * (1 + RELATIVE):
            report(f"time.{lane}_us: {told} is more than step_us {time['step_us']}")
    exposed = sum(time["exposed_us"].values())
    if exposed > (time["step_us"] - work["compute"]) * (1 + RELATIVE) + RELATIVE * time["step_us"]:
        report(f"time.exposed_us: {exposed} is more than step_us leaves beside compute")
    if not is_near(time["step_us"], plan["solver"]["objective_us"]):
        report(f"solver.objective_us: {plan['solver']['objective_us']} is not step_us {time['step_us']}")
    period = period_us(graph)
    shared = any(plan["sharing"]["resources"])
    if shared and time["step_us"] < period * (1 - RELATIVE):
        report(f"time.step_us: {time['step_us']} with sharing, {period} without")
    if not shared:
        if not is_near(time["step_us"], period):
            report(f"time.step_us: {time['step_us']}; replayed it is {period}")
        for lane in LANES:
            if not is_near(time[f"{lane}_us"], work[lane]):
                report(f"time.{lane}_us: {time[f'{lane}_us']}; its ops take {work[lane]} us")


def check(plan, model, count, seed):
    lines = []
    try:
        check_lanes(with_defaults(plan), lines.append)
        if lines:
            return lines
        sizes = Sizes(model, plan["training"]) if model else None
        partly = [b for b in range(len(sizes.flat)) if sizes.trained[b] not in (0, sizes.flat[b])] if sizes else []
        rules = Rules(plan, Graph(plan, partly), sizes, lines.append)
        rules.check()
        check_replays(rules, count, seed, lines.append)
        check_time(plan, rules.graph, lines.append)
    except KeyError as missing:
        lines.append(f"there is no {missing}")
    except Broken as broken:
        lines.append(str(broken))
    return lines


def main():
    parser = argparse.ArgumentParser(description="Checks a plan.")
    parser.add_argument("plan", help="a plan document")
    parser.add_argument("--model", help="the model document of the plan: sizes are checked too")
    parser.add_argument("--random", type=int, default=20, metavar="N", help="sets of random durations (20)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    try:
        plan, model = read(args.plan), read(args.model) if args.model else None
    except (OSError, ValueError) as error:
        print(f"plan_checker: {error}", file=sys.stderr)
        return 2
    wrong = wrong_kind(plan, args.plan, "plan") or (args.model and wrong_kind(model, args.model, "model"))
    if wrong:
        print(f"plan_checker: {wrong}", file=sys.stderr)
        return 2
    lines = check(plan, model, args.random, args.seed)
    for line in lines:
        print(f"{args.plan}: {line}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
