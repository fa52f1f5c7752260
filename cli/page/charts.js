// SPDX-License-Identifier: Apache-2.0
// Everything but the timeline: headline, blocks, policies, tables.

// ---- headline ----

function meter(used, beside, all, label) {
  const share = (n) => `${Math.min(100, 100 * n / all)}%`;
  return svg("svg", { class: "meter", role: "img", "aria-label": label },
    svg("rect", { class: "all", width: "100%", height: 7 }),
    svg("rect", { class: "beside", width: share(used + beside), height: 7 }),
    svg("rect", { class: "used", width: share(used), height: 7 }));
}

function headlineTile(name, number, note, drawing) {
  return html("div", {}, html("dt", {}, name),
    html("dd", {}, html("div", { class: "number" }, number), ...(drawing ? [drawing] : []),
      html("div", { class: "muted small" }, note)));
}

function memoryTile(name, used, beside, all, note) {
  if (!all) return headlineTile(name, used + beside ? bytes(used + beside) : "none", "no limit was given");
  const share = percent((used + beside) / all);
  return headlineTile(name, bytes(used + beside), `${share} of ${bytes(all)}${note}`,
    all > 0 ? meter(used, beside, all, `${name}: ${share} used`) : null);
}

function boundTile(plan) {
  const name = "Distance from the best possible step";
  if (plan.status === "optimal") return headlineTile(name, "0 %", "proven optimal");
  if (plan.status !== "within_gap" || !(plan.bound_us > 0)) return headlineTile(name, "–", "this plan has no bound");
  const excess = plan.step_us / plan.bound_us - 1;
  return headlineTile(name, `${Math.max(100 * excess, 0.1).toFixed(1)} %`,
    `no plan is faster than ${time(plan.bound_us)}`);
}

function drawHeadline(plan) {
  const memory = plan.memory;
  const reserve = memory.reserved_bytes ? `, ${bytes(memory.reserved_bytes)} of it reserve` : "";
  byId("headline")
    .replaceChildren(
      headlineTile("Time of a step, simulated", time(plan.step_us),
        plan.estimated ? "some costs are estimated, not measured" : "from costs measured on the machine"),
      headlineTile(
        "Tokens per second, simulated", count(plan.tokens_per_s), `${plural(plan.batch, "sequence")} of ${plural(plan.seq, "token")} a step`),
      boundTile(plan),
      memoryTile("Device memory", memory.device_bytes, memory.reserved_bytes, memory.device_capacity_bytes, reserve),
      memoryTile("Host memory", memory.host_bytes, memory.process_bytes,
        memory.host_capacity_bytes > memory.process_bytes ? memory.host_capacity_bytes : 0,
        `, ${bytes(memory.pinned_bytes)} of it pinned`));
  byId("cause").textContent = plan.cause;
  byId("bottleneck").textContent = (plan.bottleneck || "").replaceAll(" %", "\u00a0%");
}

function drawTitle(plan) {
  const title = `${plan.model} on ${plan.machine}`;
  document.title = `${title}: autohete plan`;
  byId("title").textContent = title;
  const parts = [
    ...(plan.what_if ? [plan.what_if] : []),
    `policy ${plan.policy}`, `batch ${plan.batch}`,
    plan.micro_batches > 1 ? `${plan.micro_batches} micro-batches, ${words(plan.micro_batch_order)}` :
                             "one micro-batch",
    `sequence ${plan.seq}`, `${plan.dtype}, states ${plan.state_dtype}`,
    plan.clip > 0 ? `gradients clipped at ${plan.clip}` : "no clipping",
    ...(plan.adapters ? [plan.adapters] : []), `scheduling ${plan.scheduling}`
  ];
  byId("subtitle").textContent = parts.join(" · ");
  byId("footer").textContent =
    `Written by ${plan.generator}. Every time on this page is simulated on a virtual clock ` +
    `from the plan's own costs. Model ${plan.model_sha256.slice(0, 12)}…, machine ${
      plan.machine_sha256.slice(0, 12)}….`;
}

// ---- blocks ----

const STRIPS = [
  {
    field: "activations",
    name: "Activations",
    prefix: "c-",
    values: { keep: "kept", selective: "cheap operations recomputed", recompute: "recomputed" }
  },
  {
    field: "weights",
    name: "Weights",
    prefix: "c-weights-",
    values: { device: "on the device", host: "fetched from the host" }
  },
  {
    field: "optimizer",
    name: "Optimizer",
    prefix: "c-optimizer-",
    values: { device: "on the device", streamed: "streamed through the device", host: "on the host", none: "frozen" }
  },
  {
    field: "accumulator",
    name: "Sums of gradients",
    prefix: "c-accumulator-",
    values: { device: "on the device", host: "on the host", none: "none" }
  },
];

function blockLines(block) {
  return [
    [block.name], [`group ${block.group}, ${count(block.parameters)} parameters`],
    ...STRIPS.slice(0, 3).map((strip) => [`${strip.name.toLowerCase()}: ${strip.values[block[strip.field]]}`])
  ];
}

function stripCells(plan, strip) {
  return plan.blocks.map((block, i) => {
    const value = block[strip.field];
    const cell = html("div",
      { class: `cell ${strip.prefix}${value}`, "data-block": i, "data-field": strip.field, "data-value": value });
    cell.addEventListener("pointermove", (event) => showTip(blockLines(block), event.pageX, event.pageY));
    cell.addEventListener("pointerleave", hideTip);
    return cell;
  });
}

function drawStrip(plan, strip) {
  const counts =
    Object.keys(strip.values).map((value) => [value, plan.blocks.filter((b) => b[strip.field] === value).length]);
  const legend = counts.filter(([, n]) => n > 0).map(([
    value, n
  ]) => html("li", {}, html("span", { class: `swatch ${strip.prefix}${value}` }), `${strip.values[value]} (${n})`));
  const label =
    `${strip.name}: ${counts.filter(([, n]) => n).map(([value, n]) => `${n} ${strip.values[value]}`).join(", ")}`;
  return html("div", { class: "strip-row" },
    html("div", { class: "strip-head" }, html("h3", {}, strip.name), html("ul", { class: "legend" }, ...legend)),
    html("div", {
      class: `cells${window.innerWidth > 8 * plan.blocks.length ? " wide" : ""}`,
      role: "img",
      "aria-label": label,
      style: `grid-template-columns: repeat(${plan.blocks.length}, minmax(0, 1fr))`
    },
      ...stripCells(plan, strip)));
}

// Names of some blocks below the strips, each under its cell.
function stripNumbers(plan) {
  const n = plan.blocks.length;
  const step = Math.max(1, niceStep(n, Math.min(14, window.innerWidth / 90)));
  const room = Math.max(0.6, n * 90 / window.innerWidth);  // in cells, for the names at both ends
  const shown = [0];
  for (let i = 1; i < n - 1; i += step)
    if (i > room && i < n - 1 - room) shown.push(i);
  if (n > 1) shown.push(n - 1);
  const short = (i) => i === 0 || i === n - 1 ? plan.blocks[i].name : plan.blocks[i].name.replace(/^layer\./, "");
  return html("div", { class: "numbers", "aria-hidden": "true" },
    ...shown.map((i) => html("span",
                   { style: i === 0 ? "left: 0" :
                       i === n - 1  ? "left: 100%" :
                                      `left: ${100 * (i + 0.5) / n}%` },
                   short(i))));
}

function blockRanges(plan) {
  const key = (block) => STRIPS.map((strip) => block[strip.field]).concat(block.group).join(" ");
  const rows = [];
  for (let i = 0, end; i < plan.blocks.length; i = end) {
    for (end = i + 1; end < plan.blocks.length && key(plan.blocks[end]) === key(plan.blocks[i]);) end++;
    const [first, last] = [plan.blocks[i], plan.blocks[end - 1]];
    rows.push([
      end - i > 1 ? `${first.name} to ${last.name}` : first.name, String(end - i), count(first.parameters),
      ...STRIPS.map((strip) => strip.values[first[strip.field]])
    ]);
  }
  return rows;
}

function drawBlocks(plan) {
  const strips =
    STRIPS.filter((strip) => strip.field !== "accumulator" || plan.blocks.some((b) => b.accumulator !== "none"));
  byId("strip").replaceChildren(...strips.map((strip) => drawStrip(plan, strip)), stripNumbers(plan));
  byId("block-table")
    .replaceChildren(table(["blocks", ">how many", ">parameters each", ...STRIPS.map((s) => s.name.toLowerCase())],
      blockRanges(plan), "Blocks and their configs"));
}

// ---- policies ----

function policyRow(row, most) {
  const rail = svg("rect", { class: "rail", width: "100%", height: 22, rx: 3 });
  const bar =
    svg("rect", { class: row.limit ? "limit" : "step", width: `${100 * row.us / most}%`, height: 22, rx: 3 });
  const line = svg("line",
    { class: "bound-line", x1: `${100 * row.bound / most}%`, x2: `${100 * row.bound / most}%`, y1: 0, y2: 22 });
  const drawing =
    svg("svg", { "aria-hidden": "true" }, rail, ...(row.feasible ? [bar] : []), ...(row.bound > 0 ? [line] : []));
  const attributes = {
    "data-policy": row.policy,
    "data-feasible": row.feasible,
    ...(row.mine ? { class: "this" } : {})
  };
  return html("tr", attributes, html("td", {}, row.name), html("td", { class: "draw" }, drawing),
    html("td", { class: row.feasible ? "n" : "n none" }, row.feasible ? time(row.us) : "does not fit"),
    html("td", { class: "n" }, row.feasible && row.ratio ? `× ${row.ratio.toFixed(2)}` : ""));
}

function policyRows(plan) {
  const rows = plan.alternatives.map(
    ([policy, feasible, us]) => ({ policy, name: policy, feasible, us, mine: policy === plan.policy }));
  if (!rows.some((row) => row.mine))
    rows.push({ policy: plan.policy, name: plan.policy, feasible: true, us: plan.step_us, mine: true });
  rows.sort((a, b) => Number(b.feasible) - Number(a.feasible) || a.us - b.us);
  for (const row of rows)
    Object.assign(row,
      { ratio: row.us / plan.step_us, bound: plan.bound_us, name: row.mine ? `${row.name} (this plan)` : row.name });
  if (plan.bound_us > 0) {
    rows.unshift({
      policy: "",
      name: "bound: no plan is faster",
      feasible: true,
      limit: true,
      us: plan.bound_us,
      ratio: plan.bound_us / plan.step_us,
      bound: plan.bound_us
    });
  }
  return rows;
}

function drawPolicies(plan) {
  const rows = policyRows(plan);
  const most = rows.reduce((us, row) => row.feasible ? Math.max(us, row.us) : us, plan.step_us);
  const quality = plan.quality ? `${plan.quality.charAt(0).toUpperCase()}${plan.quality.slice(1)}. ` : "";
  byId("policies-about").textContent = quality
    + (plan.alternatives.length ?
        "Time of a step of each policy at its best setting, on the same virtual machine; × is times this plan's." :
        "The plan lists no other policies.");
  const head = html("thead", {},
    html("tr", {}, html("th", {}, "policy"), html("th", {}, "time of a step"), html("th", { class: "n" }, ""),
      html("th", { class: "n" }, "× this")));
  byId("policies")
    .replaceChildren(svg("svg", { width: 0, height: 0, "aria-hidden": "true", style: "position: absolute" },
                       svg("defs", {},
                         svg("pattern", {
                           id: "bound-hatch",
                           width: 6,
                           height: 6,
                           patternUnits: "userSpaceOnUse",
                           patternTransform: "rotate(45)"
                         },
                           svg("rect", { width: 3, height: 6, fill: "var(--warn)", opacity: 0.45 })))),
      html("table", { class: "policies" }, html("caption", { class: "hidden" }, "Policies by time of a step"), head,
        html("tbody", {}, ...rows.map((row) => policyRow(row, most)))));
}

// ---- tables of the timeline ----

const LANE_WORDS = [
  ["compute", "the device's cores: forward, backward, updates of what lives on the device"],
  ["h2d", "copies from the host to the device"], ["d2h", "copies from the device to the host"],
  ["host", "the host's cores: updates and sums of gradients"], ["net", "messages between ranks that share states"]
];
const OP_WORDS = {
  forward: "a block's forward pass; of the head also the loss and its backward pass",
  backward: "a block's backward pass, with what it computes again",
  device_adam: "the optimizer's update on the device",
  fetch: "weights that live on the host come to the device before a block uses them",
  upload: "updated weights go from the host to the device, where they stay",
  send_gradients: "gradients go to the host",
  accumulate: "the host adds the gradients of a micro-batch to those before",
  host_adam: "the optimizer's update on the host",
  states_in: "optimizer states come to the device for the update",
  states_out: "optimizer states go back to the host",
  norm: "the norm of all gradients, for which clipped updates wait",
  gather: "the host picks the rows of the embedding that a batch uses",
  scatter: "each rank sends parts of its gradients to the ranks that own them, and adds what it gets",
  all_gather: "ranks put the weights of a block together"
};

function drawGlossary(plan) {
  const kinds = plan.op_kinds.filter((kind) => plan.mine.some((bar) => bar.kind === kind));
  const lanes = LANE_WORDS.filter(([name]) => plan.lanes.some((lane) => lane.name === name));
  const rows = [...lanes.map(([name, text]) => [`lane ${name}`, text]),
    ...kinds.map((kind) => [words(kind), OP_WORDS[kind] || ""])];
  byId("glossary").replaceChildren(table(["what", "is"], rows, "Lanes and ops"));
}

function drawLaneTable(plan) {
  const share = (us) => us > 0 ? `${time(us)} (${percent(us / plan.period_us)})` : "–";
  const rows =
    plan.lanes.map((lane, i) => [lane.name, share(lane.busy_us), share(lane.slowed_us), share(lane.waited_data_us),
                     share(lane.waited_memory_us), i ? share(lane.exposed_us) : ""]);
  byId("lane-table")
    .replaceChildren(table(
      ["lane", ">works", ">of that slowed by sharing", ">waits for data", ">waits for room", ">compute waits for it"],
      rows, "Lanes in one steady iteration, simulated"));
}

function drawWaitTable(plan) {
  const waits = plan.lanes[0].bars.filter((bar) => bar.wait && bar.iteration === 0);
  waits.sort((a, b) => b.wait.us - a.wait.us);
  const rows = waits.slice(0, 12).map((bar) => {
    const chain = causesOf(plan, bar).map(barName);
    return [
      barName(bar), time(bar.wait.us), REASONS[bar.wait.reason],
      (chain.length ? chain : [causeName(plan, bar.wait.cause)]).join(" ← ")
    ];
  });
  byId("wait-table")
    .replaceChildren(rows.length ? table(["compute op", ">begins late by", "because", "held up by"], rows,
                       "The longest waits of compute in one iteration") :
                                   html("p", {}, "Compute waits for nothing."));
}

function drawMemoryTable(plan, peak) {
  const all = plan.memory.device_bytes + plan.memory.reserved_bytes;
  const rows =
    plan.parts.map((part) => [part === "gaps" ? "between tensors" : part, bytes(plan.occupancy[part][peak.position]),
                     percent(plan.occupancy[part][peak.position] / all)]);
  if (plan.memory.reserved_bytes)
    rows.push(["reserve of the device", bytes(plan.memory.reserved_bytes), percent(plan.memory.reserved_bytes / all)]);
  rows.push(["all", bytes(all), "100 %"]);
  byId("memory-table")
    .replaceChildren(table(["class", ">bytes", ">share"], rows, `Device memory at ${barName(peak.bar)}`));
}
