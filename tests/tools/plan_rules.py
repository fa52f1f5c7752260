# SPDX-License-Identifier: Apache-2.0
"""What every plan must contain: ops and tensors by config, lifetimes, layout, bytes (docs/planning.md)."""
import collections

ALIGN_BYTES = 256
CLASS_OF = {"weights": "weights", "fetched": "staging", "states": "optimizer", "input": "activations",
            "saved": "activations", "gradient": "gradients", "gradient_sum": "gradients", "scratch": "workspace",
            "residual_gradient": "activations", "state_ring": "staging", "tokens": "staging"}
STAYS = ("weights", "states", "state_ring", "tokens")

Tensor = collections.namedtuple("Tensor", "name block label first length offset end bytes")


def name_of(t, head_block):
    """Returns a name for messages, which is unique: "layer.3.saved.0"; for what is fetched, with its last position."""
    if "block" not in t:
        return t["label"]
    owner = {0: "embedding", head_block: "head"}.get(t["block"], f"layer.{t['block'] - 1}")
    number = t["to"] if t["label"] in ("fetched", "scratch") else t.get("micro_batch", 0)
    return f"{owner}.{t['label']}" + ("" if t["label"] in STAYS else f".{number}")


def rounded(n):
    return -(-n // ALIGN_BYTES) * ALIGN_BYTES


class Rules:
    def __init__(self, plan, graph, sizes, report):
        self.plan, self.graph, self.sizes, self.report = plan, graph, sizes, report
        self.ops, self.blocks = plan["ops"], plan["blocks"]
        self.positions = graph.positions
        self.head_block = len(self.blocks) - 1
        self.micro_batches = plan["training"]["micro_batches"]
        self.clip = plan["training"]["clip"] > 0
        self.trained = [b for b, block in enumerate(self.blocks) if block["optimizer"] != "none"]
        self.lowest = min(self.trained, default=self.head_block)
        self.tensors = [self.tensor(t) for t in plan["arena"]["tensors"]]
        self.by_label = collections.defaultdict(list)
        for index, tensor in enumerate(self.tensors):
            self.by_label[tensor.label, tensor.block].append(index)
        self.at = {}  # position of forward and backward ops
        for op in self.ops:
            if op["op"] in ("forward", "backward"):
                self.at[op["op"], op["block"], op["micro_batch"]] = op["position"]
        self.copies = collections.defaultdict(list)

    def tensor(self, t):
        name = name_of(t, self.head_block)
        if t["label"] not in CLASS_OF:
            self.report(f"arena: '{name}' is no known tensor")
            return Tensor(name, None, "tokens", 0, self.positions, t["offset_bytes"], 0, t["bytes"])
        length = (t["to"] - t["from"]) % self.positions + 1
        return Tensor(name, t.get("block"), t["label"], t["from"], length, t["offset_bytes"],
                      t["offset_bytes"] + rounded(t["bytes"]), t["bytes"])

    def holds(self, tensor, position):
        return (position - tensor.first) % self.positions < tensor.length

    def find(self, label, block, *positions):
        """Returns the tensor of this label that lives at all these positions; reports a violation if there is none."""
        for index in self.by_label[label, block]:
            if all(self.holds(self.tensors[index], p) for p in positions):
                return index
        self.report(f"arena: no '{label}' of block {block} lives at positions {sorted(set(positions))}")
        return None

    def distance(self, a, b):
        """Returns the positions from a to b, going up the circle: 1 to P."""
        return (b - a - 1) % self.positions + 1

    def check_layout(self):
        """Checks that tensors that live at the same time do not overlap, and checks sums and peaks."""
        reserve = collections.defaultdict(list)
        for tensor in self.tensors:
            if tensor.offset % ALIGN_BYTES:
                self.report(f"arena: '{tensor.name}' begins at {tensor.offset}, no multiple of {ALIGN_BYTES}")
            if tensor.label in STAYS and tensor.length != self.positions:
                self.report(f"arena: '{tensor.name}' does not stay")
            for step in range(tensor.length):
                reserve[(tensor.first + step) % self.positions].append(tensor)
        for position in range(self.positions):
            end, under = 0, None
            for tensor in sorted(reserve[position], key=lambda t: t.offset):
                if tensor.offset < end:
                    self.report(f"arena: '{tensor.name}' and '{under.name}' overlap at position {position}")
                    return
                if tensor.end > end:
                    end, under = tensor.end, tensor
        memory = self.plan["memory"]
        highest = max((t.end for t in self.tensors), default=0)
        if memory["device_bytes"] != highest:
            self.report(f"memory.device_bytes: {memory['device_bytes']}; the arena ends at {highest}")
        if memory["device_bytes"] + memory["reserved_bytes"] > memory["device_capacity_bytes"]:
            self.report("memory.device_bytes: with reserved_bytes it is above the capacity")
        if memory["pinned_bytes"] + memory["pageable_bytes"] != memory["host_bytes"]:
            self.report("memory.host_bytes: is not the sum of pinned_bytes and pageable_bytes")
        if memory["host_bytes"] + memory.get("process_bytes", 0) > memory["host_capacity_bytes"]:
            self.report("memory.host_bytes: with process_bytes it is above the capacity")
        sums = [sum(t.end - t.offset for t in reserve[p]) for p in range(self.positions)]
        fullest = sums.index(max(sums))
        for name, told in memory["by_class"].items():
            live = sum(t.end - t.offset for t in reserve[fullest] if CLASS_OF[t.label] == name)
            if told != live:
                self.report(f"memory.by_class.{name}: {told}; at position {fullest} it is {live}")

    def expected_ops(self):
        """Yields (kind, block, micro-batch) of every op except fetches."""
        last = self.micro_batches - 1
        for b, block in enumerate(self.blocks):
            for m in range(self.micro_batches):
                yield "forward", b, m
                if self.lowest <= b < self.head_block:
                    yield "backward", b, m
                if b == 0 and block["weights"] == "host":
                    yield "gather", b, m
            optimizer = block["optimizer"]
            if optimizer == "host":
                sums = self.micro_batches > 1 and block.get("accumulator") == "host"
                for m in range(self.micro_batches) if sums else [last]:
                    yield "send_gradients", b, m
                    if sums:
                        yield "accumulate", b, m
                yield "host_adam", b, 0
                if block["weights"] == "device":
                    yield "upload", b, 0
            if optimizer in ("device", "streamed"):
                yield "device_adam", b, 0
            if optimizer == "streamed":
                yield "states_in", b, 0
                yield "states_out", b, 0
        if self.clip:
            yield "norm", 0, 0

    def check_ops(self):
        expected = collections.Counter(self.expected_ops())
        given = collections.Counter((op["op"], op["block"], op["micro_batch"]) for op in self.ops if op["op"] != "fetch")
        for kind, block, m in (expected - given).elements():
            self.report(f"ops: {kind} of block {block}, micro-batch {m} is missing")
        for kind, block, m in (given - expected).elements():
            self.report(f"ops: {kind} of block {block}, micro-batch {m} has no place in this config")
        for b, block in enumerate(self.blocks):
            if block["weights"] == "host" and block["optimizer"] == "device":
                self.report(f"blocks[{b}]: weights on the host and optimizer on the device")
            if self.micro_batches == 1 and block.get("accumulator", "none") != "none":
                self.report(f"blocks[{b}].accumulator: there is one micro-batch")
        return expected == given

    def check_compute_order(self):
        """Checks that forward goes up and backward down; the outer loop is over micro-batches or over blocks."""
        up, down = range(len(self.blocks)), range(self.head_block - 1, self.lowest - 1, -1)
        batches = range(self.micro_batches)
        if self.plan["micro_batch_order"] == "block_major":
            expected = [("forward", b, m) for b in up for m in batches]
            expected += [("backward", b, m) for b in down for m in batches]
        else:
            expected = [step for m in batches for step in
                        [("forward", b, m) for b in up] + [("backward", b, m) for b in down]]
        if sorted(self.at, key=self.at.get) != expected:
            self.report("lanes.compute: forward and backward are not in the order of an iteration")

    def gradient_at(self, block, m):
        """Returns the position of the op that finishes a block's gradient."""
        return self.at["forward" if block == self.head_block else "backward", block, m]

    def gradient_from(self, block, m):
        tied = self.sizes and self.sizes.tied
        return self.gradient_at(self.head_block if tied and block == 0 else block, m)

    def uses(self, block):
        """Returns the positions at which a block's weights are read; the head reads a tied table, too."""
        found = [p for (_, b, _), p in self.at.items() if b == block]
        if block == 0:
            found = [p for (kind, b, _), p in self.at.items() if b == 0 and kind == "forward"]
            if self.sizes and self.sizes.tied:
                found += [p for (_, b, _), p in self.at.items() if b == self.head_block]
        return sorted(found)

    def check_in_time(self, kind, block, op, made, due):
        """Checks that an op is between the op that makes its input and the first use of its result."""
        issue = op["issue_after"]
        use = min(self.distance(made, p) for p in self.uses(block))
        if (issue - made) % self.positions >= use or (self.distance(issue, due) + (issue - made) % self.positions) > use:
            self.report(f"{kind} of block {block}: issued after {issue}, due before {due}; its gradient is made at {made} "
                        f"and its weights are used {use} positions later")

    def check_updates(self):
        last = self.micro_batches - 1
        all_made = max(self.gradient_at(b, last) for b in self.trained)
        for b in self.trained:
            made = all_made if self.clip else self.gradient_at(b, last)
            for kind in ("host_adam", "upload"):
                for index in self.graph.by_kind[kind, b]:
                    self.check_in_time(kind, b, self.ops[index], made, self.ops[index]["due_before"])
            use = min(self.distance(made, p) for p in self.uses(b))
            for index in self.graph.by_kind["device_adam", b]:
                for item in self.graph.of_op[index]:
                    at = self.graph.items[item].issue
                    if self.distance(made, at) >= use:
                        self.report(f"device_adam of block {b} at position {at} is not between its gradient, {made}, and "
                                    f"the next use of its weights")
            for kind in ("send_gradients", "accumulate"):
                for index in self.graph.by_kind[kind, b]:
                    self.check_after_gradient(kind, b, self.ops[index])
        for index in self.graph.by_kind["norm", 0]:
            if self.ops[index]["issue_after"] != all_made:
                self.report(f"norm is issued after {self.ops[index]['issue_after']}; the last gradient is made at {all_made}")

    def check_after_gradient(self, kind, block, op):
        m, issue = op["micro_batch"], op["issue_after"]
        made = self.gradient_at(block, m)
        following = [self.gradient_from(block, n) for n in range(self.micro_batches)]
        until = min(self.distance(made, p) for p in following)
        if (issue - made) % self.positions >= until:
            self.report(f"{kind} of block {block}, micro-batch {m}: issued after {issue}; its gradient is made at {made}")

    def check_tensors(self):
        for b, block in enumerate(self.blocks):
            self.check_weights(b, block)
            self.check_activations(b)
            if block["optimizer"] == "device":
                self.find("states", b, 0)
            if block["optimizer"] != "none":
                self.check_gradients(b, block)
        if any(block["optimizer"] == "streamed" for block in self.blocks):
            self.find("state_ring", None, 0)
        self.find("tokens", None, 0)
        for m in range(self.micro_batches):
            if self.lowest < self.head_block:
                self.find("residual_gradient", self.head_block, self.at["forward", self.head_block, m],
                          self.at["backward", self.lowest, m])

    def check_weights(self, b, block):
        if block["weights"] == "device":
            self.find("weights", b, 0)
            return
        opened = {}
        for index in self.graph.by_kind["fetch", b]:
            fetch = self.ops[index]
            first = (fetch["issue_after"] + 1) % self.positions
            found = [i for i in self.by_label["fetched", b] if self.tensors[i].first == first and i not in opened]
            if not found or not self.holds(self.tensors[found[0]], fetch["due_before"]):
                self.report(f"ops[{index}]: fetch has no tensor that lives from {first} to its use at {fetch['due_before']}")
                continue
            opened[found[0]] = index
            self.copies[found[0]].append((index, False))
        for position in self.uses(b):
            live = [i for i in opened if self.holds(self.tensors[i], position)]
            good = [i for i in live if self.arrives(self.ops[opened[i]], position) and self.is_fresh(b, i, position)]
            if not good:
                self.report(f"weights of block {b}: nothing fetched is there, and new, at position {position}")

    def arrives(self, fetch, position):
        return self.distance(fetch["issue_after"], fetch["due_before"]) <= self.distance(fetch["issue_after"], position)

    def is_fresh(self, b, tensor, position):
        """True if no update of the block is issued between the fetch and this use."""
        issue = (self.tensors[tensor].first - 1) % self.positions
        ops = self.graph.by_kind["host_adam", b] + self.graph.by_kind["states_out", b]
        for update in (self.graph.items[i].issue for op in ops for i in self.graph.of_op[op]):
            if update != issue and self.distance(issue, update) < self.distance(issue, position):
                return False
        return True

    def check_activations(self, b):
        by_block = self.plan["micro_batch_order"] == "block_major"
        for m in range(self.micro_batches):
            forward = self.at["forward", b, m]
            backward = self.at.get(("backward", b, m), forward)
            if b:
                made = self.at["forward", b - 1, m]
                index = self.find("input", b, made, backward)
                if index is not None and (backward - made) % self.positions >= self.tensors[index].length:
                    self.report(f"'{self.tensors[index].name}' does not live from {made} to {backward}")
                if index is not None and self.sizes:
                    self.check_bytes(index, self.sizes.residual_bytes * (self.micro_batches if by_block else 1))
            for index in self.by_label["saved", b]:
                tensor = self.tensors[index]
                if self.holds(tensor, forward) != self.holds(tensor, backward):
                    self.report(f"'{tensor.name}' lives at one of {forward} and {backward} only")
            if self.by_label["saved", b] and backward != forward:
                self.find("saved", b, forward, backward)

    def check_gradients(self, b, block):
        last = self.micro_batches - 1
        sums = self.micro_batches > 1 and block.get("accumulator") == "device"
        label = "gradient_sum" if sums else "gradient"
        if sums:
            for m in range(self.micro_batches):
                self.find("gradient", b, self.gradient_from(b, m), self.gradient_at(b, m))
        updates = [self.graph.items[i].issue for op in self.graph.by_kind["device_adam", b] for i in self.graph.of_op[op]]
        if updates:
            self.find_whole(label, b, self.gradient_from(b, 0), updates)
        for index in self.graph.by_kind["send_gradients", b]:
            send = self.ops[index]
            begin = self.gradient_from(b, 0 if sums else send["micro_batch"])
            until = (send["due_before"] - 1) % self.positions
            found = self.find_whole(label, b, begin, [send["issue_after"], until])
            if found is not None:
                self.copies[found].append((index, True))

    def find_whole(self, label, b, begin, ends):
        """Returns the tensor that lives without a gap from `begin` to each of `ends`."""
        for index in self.by_label[label, b]:
            tensor = self.tensors[index]
            before = (begin - tensor.first) % self.positions
            if before < tensor.length and all(before + (end - begin) % self.positions < tensor.length for end in ends):
                return index
        self.report(f"arena: no '{label}' of block {b} lives from {begin} to {ends}")
        return None

    def copies_of(self, tensor):
        """Returns [(op, true if it reads the tensor)] for the copies from and to a tensor."""
        return self.copies[tensor]

    def check_bytes(self, index, expected):
        if self.tensors[index].bytes != expected:
            self.report(f"'{self.tensors[index].name}' has {self.tensors[index].bytes} bytes; the model asks for {expected}")

    def expected_bytes(self, op, block):
        s, b = self.sizes, op["block"]
        sums = self.micro_batches > 1 and block.get("accumulator") == "device"
        return {"send_gradients": s.trained[b] * (4 if sums else s.gradient_bytes),
                "upload": s.trained[b] * s.weight_bytes,
                "states_in": s.trained[b] * s.states_in_bytes(block),
                "states_out": s.trained[b] * s.states_out_bytes(block),
                "fetch": s.flat[b] * s.weight_bytes}.get(op["op"], 0)

    def check_sizes(self):
        if not self.sizes:
            return
        s, tile = self.sizes, self.plan["staging"]["tile_elements"]
        if s.n_blocks != len(self.blocks):
            self.report(f"blocks: there are {len(self.blocks)}; the model has {s.n_blocks}")
            return
        for b, block in enumerate(self.blocks):
            if block["parameters"] != s.parameters[b]:
                self.report(f"blocks[{b}].parameters: {block['parameters']}; the model has {s.parameters[b]}")
            if (block["optimizer"] == "none") != (s.trained[b] == 0):
                self.report(f"blocks[{b}].optimizer: '{block['optimizer']}' with {s.trained[b]} trained elements")
            sums = self.micro_batches > 1 and block.get("accumulator") == "device"
            for label, expected in (("weights", s.flat[b] * s.weight_bytes), ("states", s.trained[b] * s.state_bytes),
                                    ("gradient", s.trained[b] * s.gradient_bytes), ("gradient_sum", s.trained[b] * 4)):
                for index in self.by_label[label, b]:
                    self.check_bytes(index, expected)
            if sums and not self.by_label["gradient_sum", b]:
                self.report(f"arena: block {b} has no gradient_sum")
        for index, op in enumerate(self.ops):
            gathered = op["op"] == "fetch" and self.graph.is_gathered(op)
            expected = self.expected_bytes(op, self.blocks[op["block"]])
            elements = s.flat[op["block"]] if op["op"] == "fetch" else s.trained[op["block"]]
            tiles = -(-elements // tile) if op["op"] in ("send_gradients", "accumulate", "host_adam", "upload",
                                                         "states_in", "states_out", "fetch") else op["tiles"]
            if not gathered and op["bytes"] != expected:
                self.report(f"ops[{index}].bytes: {op['op']} of block {op['block']} moves {op['bytes']}; "
                            f"the model asks for {expected}")
            if not gathered and op["tiles"] != tiles:
                self.report(f"ops[{index}].tiles: {op['op']} of block {op['block']} has {op['tiles']}; "
                            f"{elements} elements are {tiles} tiles")
        for tensor, copies in self.copies.items():
            for index, is_reader in copies:
                if self.ops[index]["bytes"] != self.tensors[tensor].bytes:
                    self.report(f"ops[{index}].bytes: {self.ops[index]['bytes']} are copied; '{self.tensors[tensor].name}' "
                                f"has {self.tensors[tensor].bytes}")
        self.check_ring_bytes()

    def check_ring_bytes(self):
        staging, s = self.plan["staging"], self.sizes
        streamed = [b for b in self.blocks if b["optimizer"] == "streamed"]
        element = max((max(s.states_in_bytes(b), s.states_out_bytes(b)) for b in streamed), default=0)
        for index in self.by_label["state_ring", None]:
            self.check_bytes(index, staging["device_state_tiles"] * staging["tile_elements"] * element)

    def check(self):
        if not self.check_ops():
            return
        self.check_compute_order()
        self.check_updates()
        self.check_tensors()
        self.check_layout()
        self.check_sizes()
