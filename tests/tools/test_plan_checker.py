#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The plan checker on a plan written by hand: it finds nothing, and when the plan is broken it finds that.

Five blocks on 14 compute positions, clipped, with updates of every kind; compute is the bottleneck but for the norm,
which it waits for:

     0  1  2  3   4   5   6  7  8  9   10  11  12  13
     F0 F1 F2 A3c F3  H   B3 B2 B1 B0  A0  A4  A3a A3b        F1: forward of block 1, H: of the head; A: update on the device

Block 1 has weights and optimizer on the host, block 2 only its optimizer. The states of block 3 are streamed in three
tiles; the last tile is updated in the next iteration, just before its weights are used.
"""
import copy
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import plan_checker  # noqa: E402
from plan_rules import name_of  # noqa: E402

MODEL = {"family": "llama", "layers": 3, "width": 128, "heads": 2, "kv_heads": 2, "head_dim": 64, "mlp_width": 256,
         "vocabulary": 512, "max_positions": 64, "position": "rope", "norm": "rms", "activation": "silu_gated"}
FLAT = {0: 65536, 1: 164096, 2: 164096, 3: 164096, 4: 65664}
LAYER = FLAT[1]
F0, F1, F2, A3, F3, H, B3, B2, B1, B0, A0, A4 = range(12)
NORM, SEND2, SEND1, ADAM1, ADAM2, UPLOAD2, FETCH_F, FETCH_B, IN3, OUT3 = range(12, 22)
CONFIGS = [("device", "device"), ("host", "host"), ("device", "host"), ("device", "streamed"), ("device", "device")]


def compute(op, block, position, us, tiles=1):
    return {"op": op, "lane": "compute", "block": block, "position": position, "us": us, "tiles": tiles}


def beside(op, lane, block, issue_after, due_before, us, tiles=1, size=0):
    return {"op": op, "lane": lane, "block": block, "issue_after": issue_after, "due_before": due_before, "us": us,
            "tiles": tiles, "bytes": size}


def ops():
    return [
        compute("forward", 0, 0, 1000), compute("forward", 1, 1, 1000), compute("forward", 2, 2, 1000),
        compute("device_adam", 3, 12, 300, 3), compute("forward", 3, 4, 1000), compute("forward", 4, 5, 2000),
        compute("backward", 3, 6, 1500), compute("backward", 2, 7, 1500), compute("backward", 1, 8, 1500),
        compute("backward", 0, 9, 1500), compute("device_adam", 0, 10, 100), compute("device_adam", 4, 11, 100),
        beside("norm", "host", 0, 9, 10, 10),
        beside("send_gradients", "d2h", 2, 7, 9, 30, 3, LAYER * 2),
        beside("send_gradients", "d2h", 1, 8, 10, 30, 3, LAYER * 2),
        beside("host_adam", "host", 1, 9, 1, 60, 3), beside("host_adam", "host", 2, 9, 2, 60, 3),
        beside("upload", "h2d", 2, 9, 2, 30, 3, LAYER * 2),
        beside("fetch", "h2d", 1, 13, 1, 30, 3, LAYER * 2), beside("fetch", "h2d", 1, 4, 8, 30, 3, LAYER * 2),
        beside("states_in", "h2d", 3, 5, 12, 90, 3, LAYER * 12), beside("states_out", "d2h", 3, 12, 12, 90, 3, LAYER * 12),
    ]


def tensors():
    """Rows: name, units of 256 bytes, from, to; laid out by hand in three columns above the persistent ones."""
    unit, layer, head = 256, LAYER * 2 // 256, FLAT[4] * 2 // 256
    residual = 32 * 128 * 2 // unit
    stays = [("embedding.weights", 512), ("layer.1.weights", layer), ("layer.2.weights", layer), ("head.weights", head),
             ("embedding.states", FLAT[0] * 12 // unit), ("head.states", FLAT[4] * 12 // unit),
             ("state_ring", 2 * 65536 * 12 // unit), ("tokens", 1)]
    placed, at = [], 0
    for name, units in stays:
        placed.append((name, at, units, 0, 13))
        at += units
    stack = at
    for block in range(1, 5):
        name = "head" if block == 4 else f"layer.{block - 1}"
        first = (0, 0, 1, 2, 4)[block]
        placed.append((f"{name}.input.0", at, residual, first, 13 - [0, 5, 6, 7, 8][block] if block < 4 else 5))
        at += residual
    placed.append(("layer.1.saved.0", at, 40, 2, 7))
    at += 40
    gradients = at
    return placed + [
        ("layer.0.fetched.1", gradients, layer, 0, 1), ("layer.0.fetched.8", gradients, layer, 5, 8),
        ("embedding.gradient.0", gradients, 512, 9, 10),
        ("layer.1.gradient.0", gradients + layer, layer, 7, 8), ("layer.0.gradient.0", gradients + 2 * layer, layer, 8, 9),
        ("layer.2.gradient.0", gradients + 3 * layer, layer, 6, 3), ("head.gradient.0", gradients + 4 * layer, head, 5, 11),
        ("head.residual_gradient.0", gradients + 4 * layer + head, residual, 5, 9),
        ("layer.0.scratch.1", gradients + 4 * layer, 7, 1, 1), ("layer.0.scratch.8", stack + 3 * residual, 7, 8, 8),
    ]


def by_class(placed, position):
    """Counts what lives at the position, by the last word of its name that is not a number."""
    words = {"weights": "weights", "states": "optimizer", "gradient": "gradients", "scratch": "workspace",
             "input": "activations", "saved": "activations", "residual_gradient": "activations"}
    sums = dict.fromkeys(("weights", "gradients", "optimizer", "activations", "staging", "workspace"), 0)
    for name, _, units, first, last in placed:
        if first <= position <= last or (first > last and not last < position < first):
            word = [w for w in name.split(".") if not w.isdigit()][-1]
            sums[words.get(word, "staging")] += units * 256
    return sums


def fields(name):
    """Returns label, block and micro-batch of a tensor with this name; the number of a fetched one is a position."""
    *owner, label, number = name.split(".") if name[-1].isdigit() else (*name.split("."), "0")
    blocks = {"embedding": 0, "head": len(CONFIGS) - 1}
    return {"label": label, **({"block": blocks.get(owner[0], int(owner[-1]) + 1 if len(owner) > 1 else 0)} if owner else {}),
            "micro_batch": 0 if label in ("fetched", "scratch") else int(number)}


def right_plan():
    placed = tensors()
    device_bytes = max(at + units for _, at, units, _, _ in placed) * 256
    return {
        "training": {"batch": 1, "micro_batches": 1, "seq": 32, "dtype": "bf16", "state_dtype": "fp32", "clip": 1.0,
                     "trainable": ["*"]},
        "scheduling": "priority", "micro_batch_order": "micro_batch_major",
        "staging": {"tile_elements": 65536, "host_gradient_tiles": 0, "host_weight_tiles": 2, "device_state_tiles": 2},
        "sharing": {"weights": {}, "resources": []},
        "blocks": [{"parameters": FLAT[b], "weights": weights, "optimizer": optimizer, "activations": "recompute"}
                   for b, (weights, optimizer) in enumerate(CONFIGS)],
        "memory": {"device_bytes": device_bytes, "device_capacity_bytes": 1 << 30, "reserved_bytes": 0,
                   "host_bytes": 3000, "host_capacity_bytes": 1 << 30, "pinned_bytes": 1000, "pageable_bytes": 2000,
                   "by_class": by_class(placed, 8)},
        "time": {"step_us": 12510.0, "compute_us": 12500.0, "h2d_us": 180.0, "d2h_us": 150.0, "host_us": 130.0,
                 "exposed_us": {"h2d": 0.0, "d2h": 0.0, "host": 10.0}},
        "solver": {"objective_us": 12510.0},
        "ops": ops(),
        "lanes": {"compute": [F0, F1, F2, A3, F3, H, B3, B2, B1, B0, A0, A4, A3, A3],
                  "h2d": [IN3] * 2 + [UPLOAD2] * 3 + [IN3] + [FETCH_F] * 3 + [FETCH_B] * 3,
                  "d2h": [SEND2] * 3 + [SEND1] * 3 + [OUT3] * 3,
                  "host": [NORM] + [ADAM1] * 3 + [ADAM2] * 3},
        "arena": {"positions": 14, "tensors": [
            {**fields(name), "offset_bytes": at * 256, "bytes": units * 256, "from": first, "to": last}
            for name, at, units, first, last in placed]},
    }


def tensor(plan, name):
    return next(t for t in plan["arena"]["tensors"] if name_of(t, len(CONFIGS) - 1) == name)


def swap(order, a, b):
    order[a], order[b] = order[b], order[a]


def drop_op(plan, index):
    del plan["ops"][index]
    for lane, order in plan["lanes"].items():
        plan["lanes"][lane] = [i - (i > index) for i in order if i != index]


def change(*path_and_value):
    """Returns a break: sets the value at a path."""
    *path, last, value = path_and_value

    def apply(plan):
        for step in path:
            plan = plan[step]
        plan[last] = value
    return apply


def move_tensor(name, **fields):
    return lambda plan: tensor(plan, name).update(fields)


BREAKS = {
    "a tile is missing in a lane": (lambda p: p["lanes"]["h2d"].pop(0), "3 tiles and is mentioned 2 times"),
    "an op on another lane": (change("ops", UPLOAD2, "lane", "d2h"), "is not of this lane"),
    "an op without position": (lambda p: p["ops"][F1].pop("position"), "None is no position"),
    "an update before its gradient is there": (lambda p: p["lanes"].update(host=[ADAM1] * 3 + [NORM] + [ADAM2] * 3),
                                               "waits for itself"),
    "states in the wrong order": (lambda p: p["lanes"].update(d2h=[OUT3] + [SEND2] * 3 + [SEND1] * 3 + [OUT3] * 2),
                                  "waits for itself"),
    "a ring that makes others wait": (change("staging", "device_state_tiles", 1), "replayed it is 12570"),
    "a ring too small for its order": (
        lambda p: (p["ops"][UPLOAD2].update(due_before=10),
                   p["lanes"].update(h2d=[IN3] * 3 + [UPLOAD2] * 3 + [FETCH_F] * 3 + [FETCH_B] * 3)), "waits for itself"),
    "a copy ahead of what it waits for": (
        lambda p: p["lanes"].update(h2d=[FETCH_F] * 3 + [IN3] * 3 + [UPLOAD2] * 3 + [FETCH_B] * 3), "waits for itself"),
    "no norm": (lambda p: drop_op(p, NORM), "norm of block 0, micro-batch 0 is missing"),
    "a norm that nobody needs": (change("training", "clip", 0.0), "norm of block 0, micro-batch 0 has no place"),
    "no upload": (lambda p: drop_op(p, UPLOAD2), "upload of block 2, micro-batch 0 is missing"),
    "no gradient sent": (lambda p: drop_op(p, SEND1), "send_gradients of block 1"),
    "no fetch for backward": (lambda p: drop_op(p, FETCH_B), "nothing fetched is there, and new, at position 8"),
    "a fetch before the update": (change("ops", FETCH_F, "issue_after", 8), "fetch has no tensor"),
    "a fetch that keeps old weights": (
        lambda p: (p["ops"][FETCH_F].update(issue_after=8), tensor(p, "layer.0.fetched.1").update({"from": 9})),
        "nothing fetched is there, and new, at position 1"),
    "an upload due too late": (change("ops", UPLOAD2, "due_before", 7), "upload of block 2: issued after 9, due before 7"),
    "an update before the norm": (change("ops", ADAM2, "issue_after", 7), "host_adam of block 2"),
    "forward out of order": (lambda p: (swap(p["lanes"]["compute"], 0, 1), p["ops"][F0].update(position=1),
                                        p["ops"][F1].update(position=0)), "not in the order of an iteration"),
    "a block without backward": (lambda p: p["ops"][B2].update(op="forward"), "backward of block 2"),
    "a gradient gone before it is sent": (move_tensor("layer.1.gradient.0", to=7), "no 'gradient' of block 2 lives from 7"),
    "a gradient gone before its update": (move_tensor("layer.2.gradient.0", to=13), "no 'gradient' of block 3"),
    "an input gone before backward": (move_tensor("layer.1.input.0", to=6), "no 'input' of block 2"),
    "saved tensors gone before backward": (move_tensor("layer.1.saved.0", to=6), "lives at one of 2 and 7 only"),
    "no weights": (lambda p: p["arena"]["tensors"].remove(tensor(p, "layer.1.weights")), "no 'weights' of block 2"),
    "two tensors at one place": (lambda p: move_tensor("layer.1.gradient.0",
                                                       offset_bytes=tensor(p, "layer.0.gradient.0")["offset_bytes"])(p),
                                 "overlap at position 8"),
    "a tensor off its alignment": (lambda p: move_tensor("tokens", offset_bytes=tensor(p, "tokens")["offset_bytes"] + 1)(p),
                                   "no multiple of 256"),
    "a peak that is too low": (change("memory", "device_bytes", 1 << 20), "the arena ends at"),
    "classes that do not add up": (change("memory", "by_class", "gradients", 0), "by_class.gradients: 0"),
    "more than the device has": (change("memory", "device_capacity_bytes", 1 << 20), "above the capacity"),
    "host bytes that do not add up": (change("memory", "pageable_bytes", 1), "not the sum"),
    "a step that is too short": (lambda p: (change("time", "step_us", 12500.0)(p), change("solver", "objective_us", 12500.0)(p)),
                                 "replayed it is 12510"),
    "a lane that works more": (change("time", "host_us", 99.0), "less than the 130"),
    "fewer bytes than the model has": (change("ops", UPLOAD2, "bytes", LAYER), "the model asks for 328192"),
    "fewer parameters": (change("blocks", 1, "parameters", 7), "the model has 164096"),
    "a gradient of another size": (move_tensor("head.gradient.0", bytes=256), "the model asks for"),
    "a frozen block that is updated": (change("training", "trainable", ["*", "!embedding.*"]), "with 0 trained elements"),
}


def found(check, *args):
    lines = []
    check(*args, lines.append)
    return "\n".join(lines)


class PlanChecker(unittest.TestCase):
    def replay(self, plan, unwaited=None, slow_lane=None, waiting=None):
        """Returns rules, unrolled nodes, starts and finishes, without the edges by which `waiting` (all ops) waits for
        `unwaited`."""
        lines, plan = [], plan_checker.with_defaults(plan)
        rules = plan_checker.Rules(plan, plan_checker.Graph(plan), None, lines.append)
        rules.check()
        self.assertEqual(lines, [])
        graph = rules.graph
        graph.edges = {(v, u, back) for v, u, back in graph.edges
                       if graph.items[u].op != unwaited or waiting not in (None, graph.items[v].op)}
        unrolled = graph.unroll(4)
        durations = [us * (1000 if graph.items[item].lane == slow_lane else 1)
                     for us, (item, _) in zip(unrolled.planned_us(), unrolled.nodes)]
        return rules, unrolled, *unrolled.run(durations)

    def test_bytes_that_are_shared_too_early(self):
        """The copy of a gradient is slow, and nothing waits for it before its memory is used again."""
        plan = right_plan()
        tensor(plan, "embedding.gradient.0")["offset_bytes"] = tensor(plan, "layer.1.gradient.0")["offset_bytes"]
        self.assertEqual(found(plan_checker.check_apart_in_time, *self.replay(plan, slow_lane="d2h")), "")
        shared = found(plan_checker.check_apart_in_time, *self.replay(plan, SEND2, "d2h"))
        self.assertIn("'embedding.gradient.0' and 'layer.1.gradient.0' share bytes", shared)

    def test_a_fetch_onto_a_gradient_that_is_still_sent(self):
        """Both happen between the compute ops at 13 and 0: the fetch waits for the copy."""
        plan = right_plan()
        plan["ops"][SEND1]["due_before"] = 0
        plan["lanes"]["h2d"] = [IN3] * 2 + [FETCH_F] * 3 + [UPLOAD2] * 3 + [IN3] + [FETCH_B] * 3
        tensor(plan, "layer.0.gradient.0").update(to=13, offset_bytes=tensor(plan, "layer.0.fetched.1")["offset_bytes"])
        tensor(plan, "embedding.gradient.0")["offset_bytes"] = tensor(plan, "layer.1.gradient.0")["offset_bytes"]
        tensor(plan, "layer.0.fetched.8")["offset_bytes"] = plan["memory"]["device_bytes"]
        plan["memory"]["device_bytes"] += LAYER * 2
        plan["memory"]["by_class"] = by_class([(name_of(t, len(CONFIGS) - 1), 0, t["bytes"] // 256, t["from"], t["to"])
                                               for t in plan["arena"]["tensors"]], 8)
        self.assertEqual(found(plan_checker.check_apart_in_time, *self.replay(plan, slow_lane="d2h")), "")
        shared = found(plan_checker.check_apart_in_time, *self.replay(plan, SEND1, "d2h", FETCH_F))
        self.assertIn("'layer.0.fetched.1' and 'layer.0.gradient.0' share bytes", shared)

    def test_weights_overwritten_before_they_are_uploaded(self):
        plan = right_plan()
        plan["staging"]["host_weight_tiles"] = 0
        rules, *times = self.replay(plan, slow_lane="h2d")
        self.assertEqual(found(plan_checker.check_host_vectors, rules.graph, *times), "")
        plan["lanes"]["h2d"] = [IN3] * 3 + [FETCH_F] * 3 + [FETCH_B] * 3 + [UPLOAD2] * 3
        rules, *times = self.replay(plan, UPLOAD2, "h2d")
        self.assertIn("ops[16] (host_adam of block 2, tile 0) writes to the host",
                      found(plan_checker.check_host_vectors, rules.graph, *times))

    def test_a_ring_that_is_overfull(self):
        _, unrolled, start, finish = self.replay(right_plan())
        self.assertEqual(found(plan_checker.check_rings, unrolled, start, finish), "")
        unrolled.ring_nodes = [(places - 1, take, give) for places, take, give in unrolled.ring_nodes]
        self.assertIn("that is full", found(plan_checker.check_rings, unrolled, start, finish))

    def test_a_lane_that_does_two_things(self):
        rules, unrolled, start, finish = self.replay(right_plan())
        self.assertEqual(found(plan_checker.check_one_at_a_time, rules.graph, unrolled, start, finish), "")
        late = [t + 1 for t in finish]
        self.assertIn("its lane is busy", found(plan_checker.check_one_at_a_time, rules.graph, unrolled, start, late))

    def test_the_right_plan_is_right(self):
        self.assertEqual(plan_checker.check(right_plan(), MODEL, 50, 3), [])
        self.assertEqual(plan_checker.check(right_plan(), None, 5, 4), [])

    def test_other_documents_are_named(self):
        for document, wanted, text in (
                ({"model_type": "gpt2"}, "plan", "x.json is a Hugging Face config, not a plan document; give a plan"),
                ({"model_type": "gpt2"}, "model", "a Hugging Face config, not a model document; give the model"),
                ({"kind": "machine"}, "plan", "a machine document, not a plan"),
                ([], "plan", "no document of autohete, not a plan")):
            self.assertIn(text, plan_checker.wrong_kind(document, "x.json", wanted))
        self.assertIsNone(plan_checker.wrong_kind({"kind": "plan"}, "x.json", "plan"))

    def test_each_break_is_found(self):
        for name, (breaks, text) in BREAKS.items():
            plan = copy.deepcopy(right_plan())
            breaks(plan)
            lines = plan_checker.check(plan, MODEL, 20, 5)
            with self.subTest(name):
                self.assertTrue(lines)
                self.assertIn(text or "", "\n".join(lines))


if __name__ == "__main__":
    unittest.main()
