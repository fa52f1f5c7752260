# SPDX-License-Identifier: Apache-2.0
"""The ops of a plan as items that wait for each other: rules 1 to 9 of docs/planning.md, unrolled over iterations.

An item is a tile of an op. Its key is 2 x position for items of the compute lane and 2 x issue + 1 for others. A node
is an item of one iteration. Starts and finishes follow from max and + along the edges.
"""
import collections

LANES = ("compute", "h2d", "d2h", "host")
COPIES_AHEAD = ("fetch", "gather")  # these may belong to iteration 0 although they were issued in the round before

Item = collections.namedtuple("Item", "op tile lane issue key")


class Broken(Exception):
    """Raised if a plan is so broken that no further check makes sense."""


class Graph:
    def __init__(self, plan, whole_fetches=()):
        """`whole_fetches`: blocks that are trained only in part, so that tiles of a fetch are not tiles of an update."""
        self.plan, self.ops = plan, plan["ops"]
        self.positions = len(plan["lanes"]["compute"])
        self.whole_fetches = set(whole_fetches)
        self.by_kind = collections.defaultdict(list)
        for index, op in enumerate(self.ops):
            self.by_kind[op["op"], op["block"]].append(index)
        self.head = self.find_head()
        self.items, self.of_op = [], [[] for _ in self.ops]
        self.make_items()
        self.orders = {lane: self.make_order(lane) for lane in LANES}
        self.edges = set()  # (item, item it waits for, iterations back)
        self.rings = []     # (slots, items that take one, items that give one back)
        self.add_rules()

    # ---- items ----

    def find_head(self):
        last = len(self.plan["blocks"]) - 1
        for position, index in enumerate(self.plan["lanes"]["compute"]):
            if self.ops[index]["op"] == "forward" and self.ops[index]["block"] == last:
                return position
        raise Broken("lanes.compute: there is no forward of the head")

    def add_item(self, op, issue, is_compute):
        item = len(self.items)
        self.items.append(Item(op, len(self.of_op[op]), self.ops[op]["lane"], issue, 2 * issue + (not is_compute)))
        self.of_op[op].append(item)

    def make_items(self):
        order = self.plan["lanes"]["compute"]
        for step in range(self.positions):  # tiles of compute ops are counted from the head on
            position = (self.head + step) % self.positions
            self.add_item(order[position], position, True)
        for index, op in enumerate(self.ops):
            if op["lane"] == "compute" or op["op"] == "states_out":
                continue
            for _ in range(op["tiles"]):
                self.add_item(index, op["issue_after"], False)
        for index, op in enumerate(self.ops):
            if op["op"] != "states_out":
                continue
            updates = [i for u in self.by_kind["device_adam", op["block"]] for i in self.of_op[u]]
            if len(updates) != op["tiles"]:
                raise Broken(f"ops[{index}]: states_out has {op['tiles']} tiles and its device_adam {len(updates)}")
            for update in updates:
                self.add_item(index, self.items[update].issue, False)

    def make_order(self, lane):
        """Lists the lane's items in order; a lane lists the tiles of an op in rising order."""
        if lane == "compute":
            return [next(i for i in self.of_op[op] if self.items[i].issue == position)
                    for position, op in enumerate(self.plan["lanes"]["compute"])]
        used, order = collections.Counter(), []
        for op in self.plan["lanes"][lane]:
            order.append(self.of_op[op][used[op]])
            used[op] += 1
        return order

    def compute_item(self, position):
        return self.orders["compute"][position]

    # ---- rules ----

    def edge(self, v, u):
        self.edges.add((v, u, int(self.items[u].key > self.items[v].key)))

    def wait(self, v_ops, u_ops, whole=False):
        """Makes every op of `v_ops` wait for every op of `u_ops`: tile by tile if both have equally many tiles,
        otherwise for all."""
        for v_op in v_ops:
            for u_op in u_ops:
                v_items, u_items = self.of_op[v_op], self.of_op[u_op]
                if len(v_items) == len(u_items) and not whole:
                    for v, u in zip(v_items, u_items):
                        self.edge(v, u)
                else:
                    for u in u_items:  # the other tiles of v come after its first
                        self.edge(v_items[0], u)

    def of_micro_batch(self, kind, block, micro_batch):
        return [op for op in self.by_kind[kind, block] if self.ops[op]["micro_batch"] == micro_batch]

    def add_rules(self):
        for index, op in enumerate(self.ops):
            items = self.of_op[index]
            for before, after in zip(items, items[1:]):
                self.edge(after, before)
            if op["lane"] == "compute":
                continue
            for item in items:
                self.edge(item, self.compute_item(self.items[item].issue))  # 2
                if op["op"] != "states_in":
                    self.edge(self.compute_item(op["due_before"]), item)
        for block in range(len(self.plan["blocks"])):
            self.add_host_update(block)
            self.add_streamed_update(block)
            self.add_fetches(block)
        self.add_norm()
        self.add_states_order()
        self.add_reuse()
        self.add_rings()

    def add_host_update(self, block):  # 3, 4
        last = self.plan["training"]["micro_batches"] - 1
        sums = self.by_kind["accumulate", block]
        adam = self.by_kind["host_adam", block]
        self.wait(self.by_kind["upload", block], adam)
        if sums:
            self.wait(adam, self.of_micro_batch("accumulate", block, last))
        else:
            self.wait(adam, self.by_kind["send_gradients", block])
        for index in sums:
            micro_batch = self.ops[index]["micro_batch"]
            self.wait([index], self.of_micro_batch("send_gradients", block, micro_batch))
            before = self.of_micro_batch("accumulate", block, micro_batch - 1)
            self.wait([index], before)
            if not self.plan["staging"]["host_gradient_tiles"]:
                self.wait(self.of_micro_batch("send_gradients", block, micro_batch), before)

    def add_norm(self):  # 5
        norms = [i for i, op in enumerate(self.ops) if op["op"] == "norm"]
        if not self.plan["training"]["clip"] > 0:
            return
        last = self.plan["training"]["micro_batches"] - 1
        for block in range(len(self.plan["blocks"])):
            self.wait(norms, self.of_micro_batch("accumulate", block, last), whole=True)
            self.wait(self.by_kind["host_adam", block], norms, whole=True)
            self.wait(self.by_kind["device_adam", block], norms, whole=True)

    def add_streamed_update(self, block):  # 6
        come, go = self.by_kind["states_in", block], self.by_kind["states_out", block]
        if come:
            self.wait(self.by_kind["device_adam", block], come)
        self.wait(go, self.by_kind["device_adam", block])
        self.wait(come, go)

    def add_states_order(self):  # 6
        before = None
        for step in range(self.positions):
            item = self.items[self.compute_item((self.head + step) % self.positions)]
            op = self.ops[item.op]
            come = self.by_kind["states_in", op["block"]]
            if op["op"] != "device_adam" or not come:
                continue
            tiles = self.of_op[come[0]]
            if item.tile >= len(tiles):
                raise Broken(f"ops[{come[0]}]: states_in has fewer tiles than its device_adam")
            if before is not None:
                self.edge(tiles[item.tile], before)
            before = tiles[item.tile]

    def is_gathered(self, fetch):
        """True if the fetch gathers rows of the embedding's tables; a tied head needs the whole table."""
        user = self.ops[self.plan["lanes"]["compute"][fetch["due_before"]]]
        return fetch["block"] == 0 and user["block"] == 0

    def add_fetches(self, block):  # 7
        updates = self.by_kind["host_adam", block] + self.by_kind["states_out", block]
        whole = block in self.whole_fetches
        for index in self.by_kind["fetch", block]:
            fetch = self.ops[index]
            if self.is_gathered(fetch):
                self.wait([index], self.of_micro_batch("gather", block, fetch["micro_batch"]))
            else:
                self.wait([index], updates, whole)
        self.wait(self.by_kind["gather", block], updates, whole=True)

    def add_reuse(self):  # 9
        due = collections.defaultdict(list)
        for index, op in enumerate(self.ops):
            if op["op"] == "send_gradients":
                due[op["due_before"]].append(index)
        for index, op in enumerate(self.ops):
            if op["op"] == "fetch":
                self.wait([index], due[(op["issue_after"] + 1) % self.positions], whole=True)

    def add_rings(self):  # 8
        blocks = range(len(self.plan["blocks"]))
        sent = {b for b in blocks if self.by_kind["send_gradients", b]}
        uploaded = {b for b in blocks if self.by_kind["upload", b]}
        summed = {b for b in blocks if self.by_kind["accumulate", b]}
        streamed = {b for b in blocks if self.by_kind["states_in", b]}
        staging = self.plan["staging"]
        self.add_ring(staging["host_gradient_tiles"], ("send_gradients", sent),
                      ("accumulate", summed), ("host_adam", sent - summed))
        self.add_ring(staging["host_weight_tiles"], ("host_adam", uploaded), ("upload", uploaded))
        self.add_ring(staging["device_state_tiles"], ("states_in", streamed), ("states_out", streamed))

    def add_ring(self, places, takes, *gives):
        def items_of(kind, blocks):
            return {i for b in blocks for op in self.by_kind[kind, b] for i in self.of_op[op]}
        takers = items_of(*takes)
        givers = set().union(*(items_of(*give) for give in gives))
        if places and takers:
            self.rings.append((places, takers, givers))

    # ---- unrolled ----

    def exists(self, item, iteration):
        """Rounds begin at the head. Before the head of iteration 0 there are fetches for it, but no updates."""
        it = self.items[item]
        early = it.lane != "compute" and it.issue < self.head and iteration == 0
        return not early or self.ops[it.op]["op"] in COPIES_AHEAD

    def lane_nodes(self, lane, iterations):
        """Yields (item, iteration) in the order of the lane, round by round."""
        nodes = []
        for turn in range(-1, iterations):
            for item in self.orders[lane]:
                before_head = lane != "compute" and self.items[item].issue < self.head
                iteration = turn + (before_head or lane == "compute")
                if 0 <= iteration < iterations and self.exists(item, iteration):
                    nodes.append((item, iteration))
        return nodes

    def unroll(self, iterations):
        return Unrolled(self, iterations)

    def name(self, item):
        it = self.items[item]
        op = self.ops[it.op]
        return f"ops[{it.op}] ({op['op']} of block {op['block']}, tile {it.tile})"


class Unrolled:
    """Nodes of several iterations, sorted so that each comes after all that it waits for."""

    def __init__(self, graph, iterations):
        self.graph, self.iterations = graph, iterations
        self.index, self.nodes = {}, []
        lanes = [graph.lane_nodes(lane, iterations) for lane in LANES]
        for nodes in lanes:
            for node in nodes:
                self.index[node] = len(self.nodes)
                self.nodes.append(node)
        self.before = [[] for _ in self.nodes]
        for nodes in lanes:
            for u, v in zip(nodes, nodes[1:]):
                self.before[self.index[v]].append(self.index[u])
        for v, u, back in graph.edges:
            for iteration in range(back, iterations):
                a, b = self.index.get((v, iteration)), self.index.get((u, iteration - back))
                if a is not None and b is not None:
                    self.before[a].append(b)
        self.add_rings(lanes)
        self.order = self.sort()

    def add_rings(self, lanes):
        self.ring_nodes = []
        for places, takers, givers in self.graph.rings:
            take = [self.index[n] for nodes in lanes for n in nodes if n[0] in takers]
            give = [self.index[n] for nodes in lanes for n in nodes if n[0] in givers]
            self.ring_nodes.append((places, take, give))
            for n in range(places, len(take)):
                if n - places < len(give):
                    self.before[take[n]].append(give[n - places])

    def sort(self):
        """Topological order; raises Broken with an item that waits for itself."""
        after = [[] for _ in self.nodes]
        missing = [len(b) for b in self.before]
        for v, befores in enumerate(self.before):
            for u in befores:
                after[u].append(v)
        order = [v for v, n in enumerate(missing) if n == 0]
        for v in order:
            for w in after[v]:
                missing[w] -= 1
                if missing[w] == 0:
                    order.append(w)
        if len(order) < len(self.nodes):
            v = next(v for v, n in enumerate(missing) if n > 0)
            for _ in self.nodes:  # walks back to a node on the cycle
                v = next(u for u in self.before[v] if missing[u] > 0)
            raise Broken(f"orders and dependencies can never run: {self.graph.name(self.nodes[v][0])} waits for itself")
        return order

    def run(self, duration_us):
        """Returns (start, finish) by node; `duration_us` is by node."""
        start, finish = [0.0] * len(self.nodes), [0.0] * len(self.nodes)
        before = self.before
        for v in self.order:
            begin = 0.0
            for u in before[v]:
                if finish[u] > begin:
                    begin = finish[u]
            start[v] = begin
            finish[v] = begin + duration_us[v]
        return start, finish

    def planned_us(self):
        ops, items = self.graph.ops, self.graph.items
        return [ops[items[i].op]["us"] / ops[items[i].op]["tiles"] for i, _ in self.nodes]


def period_us(graph, iterations=24):
    """Returns the steady time of an iteration: once times repeat after some iterations, else the mean of the second
    half."""
    unrolled = graph.unroll(iterations)
    _, finish = unrolled.run(unrolled.planned_us())
    ends = [finish[unrolled.index[graph.compute_item(graph.positions - 1), i]] for i in range(iterations)]
    steps = [b - a for a, b in zip(ends, ends[1:])]
    for cycle in range(1, 7):
        tail = steps[-3 * cycle:]
        if all(abs(tail[i] - tail[i - cycle]) <= 1e-9 * ends[-1] for i in range(cycle, len(tail))):
            return sum(steps[-cycle:]) / cycle
    half = iterations // 2
    return (ends[-1] - ends[half]) / (iterations - 1 - half)
