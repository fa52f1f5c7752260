// SPDX-License-Identifier: Apache-2.0
// Draws the page of a cluster plan.

function adaptersName(lora) {
  if (!lora) return "";
  const scaling = lora.scaling === "rank_stabilized" ? " (rank-stabilized)" : "";
  return `; adapters of rank ${lora.rank}, alpha ${lora.alpha}${scaling}, on ${lora.on.join(", ")}`;
}

function drawHead(plan) {
  const { training, predicted, solver } = plan;
  const { model, cluster } = plan.inputs;
  document.title = `${model.name} on ${cluster.name}`;
  byId("title").textContent = document.title;
  byId("subtitle").textContent =
    `${training.batch} sequences of ${training.seq} tokens in ${training.micro_batches} micro-batches, ${training.dtype}, ` +
    `states ${training.state_dtype}${training.clip ? `, clipped at ${training.clip}` : ""}${adaptersName(plan.model?.lora)}; policy ${plan.policy}, ${plan.tp_mode === "symmetric" ? "symmetric" : "asymmetric"} ` +
    `degrees of tensor parallelism${predicted.estimated ? "; some costs are estimates" : ""}`;
  const bounded = solver.bound_us > 0;
  const quality = solver.status === "optimal" ? ["optimal", "proven by enumeration"] :
      bounded ? [`≤ ${percent(predicted.step_us / solver.bound_us - 1)}`, `above the bound, ${time(solver.bound_us)}`] :
                ["no bound", "of this policy"];
  const card = (name, number, about) =>
    html("div", {}, html("dt", {}, name), html("dd", { class: "number" }, number), html("dd", { class: "muted small" }, about));
  const ranks = plan.stages.reduce((n, stage) => n + stage.tp, 0);
  byId("headline").replaceChildren(
    card("step", time(predicted.step_us), `${count(predicted.tokens_per_s)} tokens/s, simulated`),
    card("from the best", ...quality),
    card("GPUs", `${ranks} of ${ranks + plan.idle_ranks.length}`,
      plan.idle_ranks.length ? `without work: ${ranksName(plan.idle_ranks)}` : "all of them work"),
    card("waiting", percent(predicted.bubble), "of the pipelines' time"),
    card("sums", time(predicted.exposed_sync_us), "of gradients, behind the last backward"),
    card("update", time(predicted.update_us), "of the slowest stage"));
  const busiest = plan.pipelines[predicted.bottleneck_pipeline].stages[predicted.bottleneck_stage];
  byId("bottleneck").textContent =
    `Busiest is ${stageName(busiest)}, ${gpuName(busiest)} of ${busiest.node}: it works ` +
    `${percent(busiest.busy_us / predicted.step_us)} of the step.`;
}

// ---- who owns what ----

function configClass(config) {
  const where = config.weights === "host" ? "w" : config.optimizer === "device" || config.optimizer === "none" ? "d" : "s";
  return `run c-${config.activations} on-${where}`;
}

function ownerCell(plan, stage) {
  const cell = html("div", { class: `owner g-${stage.color}`, "data-stage": `${stage.pipeline}.${stage.index}`,
    "data-blocks": stage.blocks, style: `grid-column: span ${stage.blocks}` },
    html("strong", {}, gpuName(stage)), html("span", {}, `${stage.node}, ${plural(stage.blocks, "block")}`),
    html("div", { class: "runs" }, ...stage.configs.map((config) =>
      html("i", { class: configClass(config), style: `flex: ${config.blocks}` }))));
  cell.addEventListener("pointermove", (event) => showTip(stageLines(plan, stage), event.pageX, event.pageY));
  cell.addEventListener("pointerleave", hideTip);
  return cell;
}

function drawOwners(plan) {
  byId("gpu-legend").replaceChildren(...plan.gpus.map((gpu, i) => legendItem(`g-${i % GPU_COLORS}`, gpu)));
  byId("owners").replaceChildren(...plan.pipelines.map((pipeline, p) => html("div", { class: "owner-row" },
    html("h3", {}, `pipeline ${p}: ${plural(pipeline.micro_batches, "micro-batch")}, ${time(pipeline.time_us)}`),
    html("div", { class: "owner-cells", style: `grid-template-columns: repeat(${plan.blocks}, minmax(0, 1fr))` },
      ...pipeline.stages.map((stage) => ownerCell(plan, stage))))));
  const configs = new Map(plan.stages.flatMap((stage) => stage.configs).map((config) => [configWords(config), config]));
  byId("config-legend").replaceChildren(...[...configs].map(([words, config]) =>
    html("li", {}, html("i", { class: `swatch ${configClass(config)}` }), words)));
  byId("stage-table").replaceChildren(table(
    [">pipeline", ">stage", "node", "GPUs", "ranks", "blocks", "configs", ">memory", ">forward", ">backward", ">busy"],
    plan.stages.map((stage) => [`${stage.pipeline}`, `${stage.index}`, stage.node, gpuName(stage), rankRange(stage.ranks),
      blockRange(plan, stage),
      stage.configs.map((config) => `${config.blocks} ${configWords(config)}`).join("; "),
      `${bytes(stage.memory_bytes)} of ${bytes(stage.capacity_bytes)}`, time(stage.forward_us), time(stage.backward_us),
      percent(stage.busy_us / plan.predicted.step_us)]), "Stages"));
}

// ---- the step ----

function drawTimeline(plan) {
  byId("timeline-about").textContent = plan.timed ?
    "Between its passes a stage sends, or waits for what others send. Zoom: Ctrl and wheel; drag to move; in the chart " +
      "+ − 0 and arrows." :
    "This plan does not say when passes start.";
  byId("pass-legend").replaceChildren(legendItem("k-forward", "forward"), legendItem("k-backward", "backward"),
    legendItem("k-send_gradients", "gradients added up"), legendItem("k-device_adam", "update"));
  byId("sum-table").replaceChildren(plan.segments.length ?
    table(["blocks", ">gradients", ">start", ">time alone", ">slices", "ranks of the first"],
      plan.segments.map((segment) => [segment.tied ? "tied table" : blockRange(plan, segment),
        bytes(segment.bytes), time(segment.start_us), time(segment.time_us), `${segment.groups.length}`,
        rankRange([...segment.groups[0].ranks].sort((a, b) => a - b))]), "Sums") :
    html("p", { class: "muted" }, "One pipeline: nothing is added up."));
  return plan.timed ? new ClusterTimeline(byId("timeline"), plan) : { resize() {} };
}

// ---- memory ----

function drawMemory(plan) {
  const most = Math.max(...plan.stages.map((stage) => stage.capacity_bytes));
  const row = (stage) => {
    const share = (n) => `${(100 * n / most).toFixed(3)}%`;
    return html("tr", { "data-memory": `${stage.pipeline}.${stage.index}` },
      html("td", {}, stageName(stage)), html("td", {}, `${gpuName(stage)} of ${stage.node}`),
      html("td", { class: "draw" }, svg("svg", { role: "img",
        "aria-label": `${bytes(stage.memory_bytes)} of ${bytes(stage.capacity_bytes)}` },
        svg("rect", { class: "rail", width: share(stage.capacity_bytes), height: 18, y: 2, rx: 3 }),
        svg("rect", { class: `used g-${stage.color}`, width: share(stage.memory_bytes), height: 18, y: 2, rx: 3 }))),
      html("td", { class: "n" }, `${bytes(stage.memory_bytes)} of ${bytes(stage.capacity_bytes)}`));
  };
  byId("memory").replaceChildren(html("table", { class: "policies memory" }, html("caption", { class: "hidden" }, "Memory"),
    html("tbody", {}, ...plan.stages.map(row))));
}

const plan = readCluster(byId("data").textContent);
drawHead(plan);
drawOwners(plan);
const timeline = drawTimeline(plan);
drawMemory(plan);
drawPrograms(plan);
byId("footer").textContent = `${plan.generator}; model ${plan.inputs.model.sha256.slice(0, 12)}, cluster ` +
  `${plan.inputs.cluster.sha256.slice(0, 12)}. Every time on this page is simulated; none was measured on this cluster.`;
window.addEventListener("resize", () => timeline.resize());
window.addEventListener("scroll", hideTip, { passive: true });
