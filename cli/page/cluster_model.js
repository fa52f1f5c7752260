// SPDX-License-Identifier: Apache-2.0
// The cluster plan, which is the page's data as it is, as stages with their passes.

const GPU_COLORS = 6;  // of cluster.css; types beyond begin again

// What stage i of n does as its k-th pass of m micro-batches: one forward, one backward, in turn, after as many forwards
// as there are stages behind it.
function turnOf(i, n, m, k) {
  const warm = Math.min(n - 1 - i, m);
  if (k < warm) return { backward: false, microBatch: k };
  const at = k - warm;
  if (at < 2 * (m - warm)) return { backward: at % 2 === 1, microBatch: at % 2 ? (at - 1) / 2 : warm + at / 2 };
  return { backward: true, microBatch: at - (m - warm) };
}

function readPasses(stage, pipeline) {
  const { index } = stage, { length } = pipeline.stages, m = pipeline.micro_batches;
  return (stage.starts_us || []).map((start, k) => {
    const turn = turnOf(index, length, m, k);
    return {...turn, start, end: start + (turn.backward ? stage.backward_us : stage.forward_us) };
  });
}

const lastBlock = (run) => run.first_block + run.blocks - 1;

// "embedding, layer.0–6": blocks are named as in plans of machines.
function blockRange(plan, run) {
  const head = plan.blocks - 1, last = lastBlock(run);
  const first = Math.max(run.first_block, 1), end = Math.min(last, head - 1);
  const names = run.first_block === 0 ? ["embedding"] : [];
  if (first <= end) names.push(first < end ? `layer.${first - 1}–${end - 1}` : `layer.${first - 1}`);
  return [...names, ...(last === head ? ["head"] : [])].join(", ");
}

// "0–3, 8"
function rankRange(ranks) {
  const runs = [];
  for (const rank of ranks) {
    const last = runs[runs.length - 1];
    if (last && last[1] === rank - 1) last[1] = rank;
    else runs.push([rank, rank]);
  }
  return runs.map(([a, b]) => a === b ? `${a}` : `${a}–${b}`).join(", ");
}

const ranksName = (ranks) => `${ranks.length === 1 ? "rank" : "ranks"} ${rankRange(ranks)}`;

function readCluster(text) {
  const data = JSON.parse(text);
  const plan = { segments: [], idle_ranks: [], ...data.plan, programs: data.programs };  // empty lists are left out
  plan.gpus = [];
  plan.stages = [];
  plan.pipelines.forEach((pipeline, p) => pipeline.stages.forEach((stage, index) => {
    if (!plan.gpus.includes(stage.gpu)) plan.gpus.push(stage.gpu);
    Object.assign(stage, { pipeline: p, index, color: plan.gpus.indexOf(stage.gpu) % GPU_COLORS });
    stage.passes = readPasses(stage, pipeline);
    plan.stages.push(stage);
  }));
  plan.timed = plan.stages.every((stage) => stage.passes.length);
  return plan;
}

const stageName = (stage) => `pipeline ${stage.pipeline}, stage ${stage.index}`;
const gpuName = (stage) => stage.tp > 1 ? `${stage.tp} × ${stage.gpu}` : stage.gpu;

// "30 keep; 2 recompute, states on the host"
function configWords(config) {
  const words = [config.activations];
  if (config.weights === "host") words.push("weights on the host");
  if (config.optimizer === "host") words.push("states on the host");
  if (config.optimizer === "streamed") words.push("states streamed");
  return words.join(", ");
}

function stageLines(plan, stage) {
  return [
    [`${gpuName(stage)} of ${stage.node}`],
    [`${stageName(stage)}: ${blockRange(plan, stage)}, ${ranksName(stage.ranks)}`],
    [`${time(stage.forward_us)} forward, ${time(stage.backward_us)} backward of a micro-batch`],
    [`works ${percent(stage.busy_us / plan.predicted.step_us)} of the step`],
    ...stage.configs.map((config) => [`${blockRange(plan, config)}: ${configWords(config)}`]),
    [`${bytes(stage.memory_bytes)} of ${bytes(stage.capacity_bytes)} of each GPU`]
  ];
}
