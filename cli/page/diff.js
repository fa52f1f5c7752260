// SPDX-License-Identifier: Apache-2.0
// The page of two plans: numbers, blocks and memory, before and after. Data: cli/page/page_changes.c.

const SIDES = [["a", "before"], ["b", "after"]];
const BLOCK_FIELDS = ["name", "group", "parameters", "activations", "weights", "optimizer", "accumulator"];

function readDiff(text) {
  const data = JSON.parse(text);
  for (const [side] of SIDES)
    data[side].blocks =
      data[side].blocks.map((row) => Object.fromEntries(BLOCK_FIELDS.map((name, i) => [name, row[i]])));
  return data;
}

// "+12.3 %"; what was nothing has no percentage.
function change(before, after) {
  if (before === after) return "same";
  if (!before) return "new";
  const percents = 100 * (after / before - 1);
  return `${percents < 0 ? "\u2212" : "+"}${Math.abs(percents).toFixed(1)}\u00a0%`;
}

function tile(name, print, before, after) {
  const element = headlineTile(name, `${print(before)} → ${print(after)}`, change(before, after));
  element.dataset.number = name;
  return element;
}

function drawNumbers({ a, b, diff }) {
  const used = (plan) => plan.memory.device_bytes + plan.memory.reserved_bytes;
  const host = (plan) => plan.memory.host_bytes + plan.memory.process_bytes;
  byId("title").textContent = a.model === b.model && a.machine === b.machine ?
    `${b.model} on ${b.machine}` :
    `${a.model} on ${a.machine} → ${b.model} on ${b.machine}`;
  document.title = `${byId("title").textContent}: autohete diff`;
  const training = (plan) => `batch ${plan.batch}, sequence ${plan.seq}, policy ${plan.policy}`;
  byId("subtitle").textContent = `${a.file} (${training(a)}) → ${b.file} (${training(b)})`;
  byId("headline")
    .replaceChildren(tile("Tokens per second, simulated", count, a.tokens_per_s, b.tokens_per_s),
      tile("Time of a step, simulated", time, a.step_us, b.step_us), tile("Device memory", bytes, used(a), used(b)),
      tile("Host memory", bytes, host(a), host(b)));
  const gain = b.tokens_per_s / a.tokens_per_s;
  byId("verdict").textContent = Math.abs(gain - 1) < 0.0005 ?
    "Both plans train as many tokens a second." :
    `The second plan trains ${Math.abs(100 * (gain - 1)).toFixed(1)}\u00a0% ${
      gain > 1 ? "more" : "fewer"} tokens a second.`;
  byId("signature").hidden = diff.same_signature;
  byId("signature").textContent = "Not the same training: the numeric signatures differ.";
  byId("cause-table")
    .replaceChildren(table(["", "what its blocks do", "what limits its speed"],
      SIDES.map(([side, name]) => [name, { a, b }[side].cause, { a, b }[side].bottleneck]),
      "What limits both plans"));
  byId("footer").textContent =
    `Written by ${a.generator} and ${b.generator}. Every time on this page is simulated on a virtual clock.`;
}

// ---- blocks ----

const differs = (a, b) => !a || !b || STRIPS.some((strip) => a[strip.field] !== b[strip.field]);

function marks({ a, b }, field) {
  const n = Math.max(a.blocks.length, b.blocks.length);
  const changed = (i) => !a.blocks[i] || !b.blocks[i] || a.blocks[i][field] !== b.blocks[i][field];
  return html("div",
    { class: "marks", "aria-hidden": "true", style: `grid-template-columns: repeat(${n}, minmax(0, 1fr))` },
    ...Array.from({ length: n },
      (_, i) => html("div", changed(i) ? { class: "changed", "data-field": field, "data-block": i } : {})));
}

function drawStrips(data) {
  const strips = STRIPS.filter((strip) => strip.field !== "accumulator"
      || SIDES.some(([side]) => data[side].blocks.some((block) => block.accumulator !== "none")));
  byId("strips").replaceChildren(...strips.flatMap((strip) => [...SIDES.flatMap(([side,
    name]) => [html("p", { class: "side" }, name), drawStrip(data[side], strip)]),
                                                     marks(data, strip.field)]));
}

function drawChanges(data) {
  const { a, b, diff } = data;
  const all = Math.max(a.blocks.length, b.blocks.length);
  const changed = Array.from({ length: all }).filter((_, i) => differs(a.blocks[i], b.blocks[i])).length;
  byId("blocks-title").textContent = `${changed} of ${plural(all, "block")} changed`;
  drawStrips(data);
  const names = ({ first, last }) => a.blocks[first].name + (last > first ? ` to ${a.blocks[last].name}` : "");
  byId("change-table")
    .replaceChildren(
      ...(diff.blocks.length ? [table(["blocks", "before", "after"],
            diff.blocks.map((range) => [names(range), range.a, range.b]), "Blocks that changed")] :
                               []));
}

// ---- memory and time ----

function drawMemory({ a, b }) {
  const most = Math.max(classTotal(a), classTotal(b), 1);
  const shown = CLASSES.filter((name) => a.classes[name] || b.classes[name]);
  byId("memory").replaceChildren(
    ...[[a, "before"], [b, "after"]].flatMap(
      ([plan, name]) => [html("p", { class: "side" },
                           `${name}: ${bytes(classTotal(plan))} of ${bytes(plan.memory.device_capacity_bytes)}`),
        stack(plan, most)]),
    classLegend([a, b]));
  byId("memory-table")
    .replaceChildren(table(["class", ">before", ">after", ">change"],
      shown.map((name) => [className(name), bytes(a.classes[name]), bytes(b.classes[name]),
                  change(a.classes[name], b.classes[name])]),
      "Device memory by class"));
}

function drawLanes({ a, b, diff }) {
  byId("lane-table")
    .replaceChildren(table(["lane", ">works, before", ">after", ">compute waits for it, before", ">after", "order"],
      a.lanes.map(([name, busy, exposed], i) => [name, time(busy), time(b.lanes[i][1]), i ? time(exposed) : "",
                    i ? time(b.lanes[i][2]) : "", diff.same_order[name] ? "same" : "changed"]),
      "Lanes of both plans, simulated"));
}

const data = readDiff(byId("data").textContent);
drawNumbers(data);
drawChanges(data);
drawMemory(data);
drawLanes(data);
window.addEventListener("resize", () => drawStrips(data));
window.addEventListener("scroll", hideTip, { passive: true });
