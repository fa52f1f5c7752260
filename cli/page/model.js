// SPDX-License-Identifier: Apache-2.0
// The data of the page (cli/page/page_facts.c, cli/page/page_timeline.c) as objects: bars with absolute times in µs, steps of
// memory over time, and what a bar says about itself.

const MEMORY_PARTS = ["weights", "optimizer", "gradients", "activations", "staging", "workspace", "gaps"];
const REASONS = ["", "what it needs was not there", "there was no room"];

function readBars(data) {
  const bars = [];
  data.lanes.forEach((lane, laneIndex) => {
    let ns = 0;
    lane.first = bars.length;
    lane.bars = lane.op.map((op, k) => {
      const [kind, block, microBatch, tiles, size] = data.ops[op];
      const start = ns + lane.pause[k];
      ns = start + lane.length[k];
      return {
        index: lane.first + k,
        lane: laneIndex,
        op,
        kind: data.op_kinds[kind],
        block: data.blocks[block].name,
        microBatch,
        tiles,
        bytes: size / tiles * lane.tiles[k],
        tile: lane.tile[k],
        n: lane.tiles[k],
        iteration: lane.iteration[k],
        start: start / 1000,
        end: ns / 1000,
        wait: null,
        slowed: null,
      };
    });
    bars.push(...lane.bars);
  });
  for (const [bar, reason, cause, ns] of data.waits) bars[bar].wait = { reason, cause, us: ns / 1000 };
  for (const [bar, ns, resource] of data.slowed) bars[bar].slowed = { us: ns / 1000, resource };
  return bars;
}

// Steps [start, end, position, iteration]: what is live from the beginning of one compute position to the next.
function readSteps(data) {
  const steps = [];
  const counted = {};
  for (const bar of data.lanes[0].bars) {
    if (bar.iteration < 0) continue;
    for (let j = 0; j < bar.n; j++) {
      const position = counted[bar.iteration] = (counted[bar.iteration] ?? -1) + 1;
      steps.push({ start: bar.start + (bar.end - bar.start) * j / bar.n, end: 0, position, bar });
    }
  }
  steps.forEach((step, i) => {
    step.end = i + 1 < steps.length ? steps[i + 1].start : step.bar.end;
  });
  return steps;
}

function readPlan(text) {
  const data = JSON.parse(text);
  const names = ["name", "group", "parameters", "activations", "weights", "optimizer", "accumulator"];
  data.blocks = data.blocks.map((row) => Object.fromEntries(names.map((name, i) => [name, row[i]])));
  data.bars = readBars(data);
  data.steps = readSteps(data);
  data.mine = data.bars.filter((bar) => bar.iteration === 0 || bar.iteration === 1);
  data.from = data.mine.reduce((least, bar) => Math.min(least, bar.start), 0);
  data.to = data.mine.reduce((most, bar) => Math.max(most, bar.end), 2 * data.period_us);
  data.parts = MEMORY_PARTS.filter((part) => data.occupancy[part].some((n) => n > 0));
  return data;
}

// ---- what a bar says ----

// "backward layer.3"; the norm is of all blocks.
function opName(kind, block) {
  return kind === "norm" ? kind : `${words(kind)} ${block}`;
}

function barName(bar) {
  return opName(bar.kind, bar.block);
}

function causeName(plan, cause) {
  if (cause === null) return "";
  if (cause >= 0) return barName(plan.bars[cause]);
  const [kind, block] = plan.ops[-1 - cause];
  return opName(plan.op_kinds[kind], plan.blocks[block].name);
}

function barLines(plan, bar) {
  const length = bar.end - bar.start;
  const lines = [[barName(bar)]];
  const parts = [];
  if (bar.tiles > 1)
    parts.push(bar.n > 1 ? `tiles ${bar.tile + 1} to ${bar.tile + bar.n} of ${bar.tiles}` :
                           `tile ${bar.tile + 1} of ${bar.tiles}`);
  if (plan.micro_batches > 1) parts.push(`micro-batch ${bar.microBatch + 1}`);
  parts.push(bar.iteration === 0 || bar.iteration === 1 ? `iteration ${bar.iteration + 1}` :
      bar.iteration < 0 ? "of the iteration before" :
                          "of the iteration after");
  lines.push([parts.join(", ")]);
  lines.push([`${time(bar.start)} to ${time(bar.end)}: ${time(length)}`]);
  if (bar.bytes > 0) lines.push([`${bytes(bar.bytes)}, ${(bar.bytes / length / 1000).toFixed(1)} GB/s`]);
  if (bar.wait) {
    const cause = causeName(plan, bar.wait.cause);
    lines.push([`began ${time(bar.wait.us)} late: ${REASONS[bar.wait.reason]}${cause && ` (${cause})`}`, "why"]);
  }
  if (bar.slowed) {
    const resource = bar.slowed.resource === null ? "" : `, shared ${words(plan.resources[bar.slowed.resource])}`;
    lines.push([`slowed by ${time(bar.slowed.us)}${resource}`, "why"]);
  }
  return lines;
}

// What the pause before a late bar says.
function pauseLines(plan, bar) {
  const cause = causeName(plan, bar.wait.cause);
  return [
    [`idle for ${time(bar.wait.us)}`],
    [`${barName(bar)} waits${cause && ` for ${cause}`}: ${REASONS[bar.wait.reason]}`, "why"]
  ];
}

// The bars that held this one up, nearest first.
function causesOf(plan, bar) {
  const chain = [];
  for (let at = bar; at.wait && at.wait.cause !== null && at.wait.cause >= 0 && chain.length < 12;) {
    at = plan.bars[at.wait.cause];
    if (chain.includes(at)) break;
    chain.push(at);
  }
  return chain;
}
