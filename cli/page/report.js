// SPDX-License-Identifier: Apache-2.0
// The page of a run: its numbers, curves over its steps, and what the model said. Data: cli/page/page_report.c.

const SMOOTH_FROM = 100;  // steps: a longer run also gets a mean of its losses
const ROWS_SHOWN = 40;    // of steps, as a table
const SAID_FIRST = 2, SAID_LAST = 4;  // answers to a prompt that are not folded
const short = (value, figures = 4) => String(Number(value.toPrecision(figures)));
const milliseconds = (ms) => time(1000 * ms);
const perSecond = (n) => `${count(n)}/s`;
const perplexity = (loss) => loss < 14 ? short(Math.exp(loss), 3) : Math.exp(loss).toExponential(1);
// A tick as short as its neighbours permit.
const plainTick = (value, step) => Math.abs(value) >= 1e5 || (step < 1e-4 && step > 0) ?
  (value ? value.toExponential(1) : "0") :
  value.toFixed(Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));

// The series of a column: its rows that have a number.
function seriesOf({ rows }, name, title, more) {
  const xs = [], ys = [];
  (rows[name] || []).forEach((value, i) => {
    if (value === null) return;
    xs.push(rows.step[i]);
    ys.push(value);
  });
  return { name, title, xs, ys, ...more };
}

// Means over the steps around each one; where a loss is noisy, they show whether it falls.
function smoothed({ name, xs, ys }) {
  const n = Math.max(5, Math.round(ys.length / 50));
  const sums = [0];
  for (const y of ys) sums.push(sums[sums.length - 1] + y);
  const means = ys.map((_, i) => {
    const begin = Math.max(0, i - (n >> 1)), end = Math.min(ys.length, begin + n);
    return (sums[end] - sums[begin]) / (end - begin);
  });
  return { name, title: `mean of ${n} steps`, xs, ys: means };
}

const level = (value) => value > 0 ? [{ name: "predicted", title: "predicted", level: true, ys: [value] }] : [];

// ---- moments ----

const COLUMNS = [
  ["loss", "loss", (x) => x.toFixed(4)],
  ["valid_loss", "held-out loss", (x) => x.toFixed(4)],
  ["valid_perplexity", "perplexity", short],
  ["grad_norm", "gradient norm", short],
  ["lr", "learning rate", short],
  ["step_ms", "time of the step", milliseconds],
  ["tokens_per_s", "tokens", perSecond],
  ["learned_tokens_per_s", "learned tokens", perSecond],
  ["mfu", "model FLOPs utilisation", percent],
];

function momentsOf(data) {
  const { rows, report } = data, moments = new Map();
  const at = (step) => moments.get(step) || moments.set(step, { step, rows: [], said: [] }).get(step);
  rows.step.forEach((step, i) => at(step).rows.push(i));
  for (const save of report.saves) at(save.step).said.push(`saved: ${bytes(save.bytes)} in ${time(save.us)}`);
  for (const step of data.resumes) at(step).said.push("resumed after this step");
  const lines = (moment) =>
    [[moment.step ? `step ${moment.step}` : "before the first step"],
      ...moment.rows.flatMap(
        (i) => COLUMNS.filter(([name]) => rows[name] && rows[name][i] !== null)
                 .map(([name, title, print]) => [`${title}: ${print(rows[name][i])}`])),
      ...moment.said.map((text) => [text, "why"])];
  return [...moments.values()].sort((a, b) => a.step - b.step).map(
    (moment) => ({ step: moment.step, lines: () => lines(moment) }));
}

function marksOf(data) {
  const of = (steps, what) => steps.map((step) => [step, what]);
  return [...of(data.report.evaluations.map(({ step }) => step), "evaluated"),
    ...of(data.report.saves.map(({ step }) => step), "saved"), ...of(data.resumes, "resumed")];
}

// ---- numbers ----

const signed = (share) => `${share < 0 ? "\u2212" : "+"}${Math.abs(100 * share).toFixed(1)}\u00a0%`;

function beside({ predicted, errors }, key, print) {
  if (!predicted || !(predicted[key] > 0)) return "nothing was predicted";
  return `predicted ${print(predicted[key])}${key in errors ? ` (${signed(errors[key])})` : ""}`;
}

function numberTile(key, name, number, note) {
  const element = headlineTile(name, number, note);
  element.dataset.number = key;
  return element;
}

function drawNumbers(data) {
  const { report } = data, { measured, evaluations } = report, last = evaluations[evaluations.length - 1];
  const pair = (key, name, print) =>
    measured && key in measured ? [numberTile(key, name, print(measured[key]), beside(report, key, print))] : [];
  const tiles = [];
  if ("last_loss" in report)
    tiles.push(numberTile("loss", "Training loss", short(report.last_loss, 6), `first ${short(report.first_loss, 6)}`));
  if (last)
    tiles.push(numberTile("valid_loss", "Held-out loss", short(last.loss, 6),
      `perplexity ${perplexity(last.loss)}; first ${short(evaluations[0].loss, 6)}`));
  tiles.push(...pair("step_us", "Time of a step, median", time), ...pair("tokens_per_s", "Tokens per second, median", count));
  if (measured && "mfu" in measured)
    tiles.push(numberTile("mfu", "Model FLOPs utilisation", percent(measured.mfu),
      "of the fastest matrix product in the profile"));
  tiles.push(...pair("device_bytes", "Device memory, highest", bytes), ...pair("host_bytes", "Host memory, highest", bytes));
  byId("headline").replaceChildren(...tiles);
  byId("cause").textContent = data.sentence || "";
  byId("failure").hidden = !report.failure;
  byId("failure").textContent = report.failure ? `The run failed: ${report.failure}` : "";
}

function drawTitle({ report, file, generator, plan_sha256: plan }) {
  const title = `${report.model} on ${report.device}`;
  document.title = `${title}: autohete report`;
  byId("title").textContent = title;
  byId("subtitle").textContent = [
    `${plural(report.steps, "step")} from ${report.first_step}`, report.end || "cut off, or still running",
    ...(report.policy ? [`policy ${report.policy}`] : []),
    ...(report.paced ? ["paced: ops and messages were held to their planned times"] : []),
    ...(report.emulates ? [`emulates ${report.emulates}: lanes were slowed to match its ratios`] : []), file
  ].join(" · ");
  byId("footer").textContent = `Run by ${generator}, with the plan ${plan.slice(0, 12)}…. Medians are over ${
    plural(report.median_of_steps, "step")}: at most the last 1024, without those after a start, an evaluation or a save.${
    report.estimated ? " Some predicted costs were estimated, not measured." : ""}`;
}

// ---- tables ----

function drawTables(data) {
  const { report, rows } = data, { measured, predicted, errors } = report;
  const row = (key, name) => [name, measured ? time(measured[key]) : "–", predicted ? time(predicted[key]) : "–",
                               key in errors ? signed(errors[key]) : ""];
  const side = measured || predicted || {};
  const lanes = ["compute", "h2d", "d2h", "host", "net"].filter((lane) => `${lane}_us` in side);
  const times = [row("step_us", "step"), ...lanes.map((lane) => row(`${lane}_us`, `${lane} works`))];
  byId("time-table").replaceChildren(...(measured || predicted ?
    [table(["", ">measured", ">predicted", ">error"], times, "A step and the work of each lane in it")] : []));
  byId("evaluation-table").replaceChildren(report.evaluations.length ?
    table([">after step", ">held-out loss", ">perplexity", ">tokens"], report.evaluations.map(
      (each) => [String(each.step), short(each.loss, 6), perplexity(each.loss), String(each.tokens)]),
      "Evaluations on held-out data") : html("p", {}, "No held-out loss was measured."));
  const steps = rows.step.map((_, i) => i).filter((i) => rows.loss && rows.loss[i] !== null);
  const every = Math.max(1, Math.ceil(steps.length / ROWS_SHOWN));
  const shown = steps.filter((_, i) => i % every === 0 || i === steps.length - 1);
  const columns = COLUMNS.filter(([name]) => rows[name] && !name.startsWith("valid_"));
  byId("step-table").replaceChildren(table([">step", ...columns.map(([, title]) => `>${title}`)],
    shown.map((i) => [String(rows.step[i]),
                ...columns.map(([name, , print]) => rows[name][i] === null ? "" : print(rows[name][i]))]),
    "Some steps and their numbers"));
}

// ---- samples ----

// A list of moments and what was said then.
const answersOf = (said) => html("dl", {}, ...said.flatMap(([when, text]) =>
  [html("dt", {}, when), html("dd", { dir: "auto" }, text || "(nothing)")]));

function drawSamples({ report }) {
  const prompts = new Map();
  for (const sample of report.samples)
    (prompts.get(sample.prompt) || prompts.set(sample.prompt, []).get(sample.prompt)).push(sample);
  byId("samples-section").hidden = !prompts.size;
  byId("samples").replaceChildren(...[...prompts].map(([prompt, samples]) => {
    const said = samples.map(({ step, text }) => [step ? `after step ${step}` : "before the first step", text]);
    const middle = said.slice(SAID_FIRST, -SAID_LAST), { data } = samples[0];
    const answers = middle.length > 1 ? [answersOf(said.slice(0, SAID_FIRST)),
      html("details", {}, html("summary", {}, `${middle.length} answers between`), answersOf(middle)),
      answersOf(said.slice(-SAID_LAST))] : [answersOf(said)];
    return html("article", { class: "panel said" }, html("h3", { dir: "auto" }, prompt), ...answers,
      ...(data ? [answersOf([["in the data", data]])] : []));
  }));
}

// ---- charts ----

function drawCurves(data, axis) {
  const { predicted } = data.report;
  const add = (host, options) =>
    options.series.some((one) => !one.level && one.xs.length) && new Curve(byId(host), axis, options);
  const loss = seriesOf(data, "loss", "training loss"), many = loss.xs.length >= SMOOTH_FROM;
  const held = seriesOf(data, "valid_loss", "held-out loss", { points: true });
  add("learning", {
    title: "Loss, and its perplexity",
    series: [{...loss, pale: many }, ...(many ? [smoothed(loss)] : []), ...(held.xs.length ? [held] : [])],
    tick: plainTick,
    right: { title: "perplexity", print: perplexity }
  });
  add("updates", {
    title: "Norm of the gradient, before clipping",
    series: [seriesOf(data, "grad_norm", "gradient norm")],
    low: 0,
    tick: plainTick
  });
  add("updates", {
    title: "Learning rate",
    series: [seriesOf(data, "lr", "learning rate")],
    low: 0,
    tick: (x) => x ? short(x, 3) : "0"
  });
  const learned = seriesOf(data, "learned_tokens_per_s", "with a loss");
  const masked = data.report.predicted && data.report.predicted.tokens_share < 1;
  add("speed", {
    title: "Tokens per second",
    series: [seriesOf(data, "tokens_per_s", "measured"), ...(masked && learned.xs.length ? [learned] : []),
      ...level(predicted && predicted.tokens_per_s)],
    low: 0,
    tick: count
  });
  add("speed", {
    title: "Time of a step",
    series: [seriesOf(data, "step_ms", "measured"), ...level(predicted && predicted.step_us / 1000)],
    low: 0,
    tick: (ms) => ms ? milliseconds(ms) : "0"
  });
  add("speed", {
    title: "Model FLOPs utilisation",
    series: [seriesOf(data, "mfu", "of the fastest matrix product in the profile")],
    low: 0,
    tick: percent
  });
}

function drawTools(axis) {
  const middle = () => (axis.view.from + axis.view.to) / 2;
  const tools = [["+", "Zoom in", () => axis.zoom(0.5, middle())], ["−", "Zoom out", () => axis.zoom(2, middle())],
    ["all", "Show all steps", () => axis.show(axis.from, axis.to)]];
  byId("curve-tools").replaceChildren(...tools.map(([text, label, act]) => {
    const button = html("button", { type: "button", "aria-label": label, title: label }, text);
    button.addEventListener("click", act);
    return button;
  }));
  byId("curve-keys").textContent =
    "Circles on the axis are evaluations, triangles checkpoints. Point at a step for its numbers; drag a span to zoom " +
    "all charts. With the keyboard, in a chart: arrows, Page Up and Page Down, Home and End go to steps; + − 0 zoom; " +
    "Shift and arrows move.";
}

const data = JSON.parse(byId("data").textContent);
const axis = new StepAxis(momentsOf(data), marksOf(data));
drawTitle(data);
drawNumbers(data);
drawCurves(data, axis);
drawTools(axis);
drawTables(data);
drawSamples(data);
for (const curve of axis.curves) curve.resize();
window.addEventListener("resize", () => axis.draw());
window.addEventListener("scroll", hideTip, { passive: true });
