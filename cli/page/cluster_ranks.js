// SPDX-License-Identifier: Apache-2.0
// What the programs of ranks say: memory by class, hosts, and what every rank does. Plans without programs say nothing.

function drawClasses(plan) {
  const most = Math.max(...plan.stages.map((stage) => Math.max(stage.capacity_bytes, classTotal(stage.program))));
  const row = (stage) => html("tr", { "data-classes": `${stage.pipeline}.${stage.index}` },
    html("td", {}, stageName(stage)), html("td", { class: "draw" }, stack(stage.program, most)),
    html("td", { class: "n" }, bytes(classTotal(stage.program))));
  byId("classes").hidden = false;
  byId("class-table").replaceChildren(html("table", { class: "policies memory" },
    html("caption", { class: "hidden" }, "Device memory by class"), html("tbody", {}, ...plan.stages.map(row))));
  byId("class-legend").replaceChildren(classLegend(plan.stages.map((stage) => stage.program)));
}

// Blocks of the stage's configs for which `holds`.
const blocksWhere = (stage, holds) =>
  stage.configs.filter(holds).reduce((sum, config) => sum + config.blocks, 0);

function drawHosts(plan) {
  const stages = plan.stages.filter((stage) => stage.host_bytes);
  byId("hosts").hidden = !stages.length;
  byId("host-table").replaceChildren(table(
    ["node", "stage", ">states updated there", ">states streamed", ">weights", ">host memory", ">a GPU's share of the host"],
    stages.map((stage) => [stage.node, stageName(stage),
      plural(blocksWhere(stage, (config) => config.optimizer === "host"), "block"),
      plural(blocksWhere(stage, (config) => config.optimizer === "streamed"), "block"),
      plural(blocksWhere(stage, (config) => config.weights === "host"), "block"), bytes(stage.host_bytes),
      bytes(stage.program.host_capacity_bytes)]),
    "What lies on hosts"));
}

function drawRanks(plan) {
  const share = (us, program) => us > 0 ? percent(us / program.step_us) : "–";
  const rows = plan.stages.map((stage) => {
    const { program } = stage;
    return [rankRange(stage.ranks), stage.node, stage.gpu, stageName(stage), blockRange(plan, stage),
      ...program.lanes.map(([, busy]) => share(busy, program)),
      share(program.lanes.reduce((sum, [, , exposed]) => sum + exposed, 0), program)];
  });
  if (plan.idle_ranks.length) rows.push([rankRange(plan.idle_ranks), "", "", "without work", ...Array(6).fill("")]);
  byId("ranks").hidden = false;
  byId("rank-table").replaceChildren(table(
    ["ranks", "node", "GPU", "stage", "blocks", ">compute works", ">h2d", ">d2h", ">host", ">compute waits for them"], rows,
    "What ranks do in their own step, simulated"));
}

function drawPrograms(plan) {
  if (!plan.programs.length) return;
  for (const stage of plan.stages) stage.program = plan.programs[stage.program || 0];
  drawClasses(plan);
  drawHosts(plan);
  drawRanks(plan);
}
