// SPDX-License-Identifier: Apache-2.0
// What other machines, batches and sequences would bring, where the plan was made with --explain or --sweep.

const SWEPT = {
  device_memory: "device memory",
  batch: "batch",
  seq: "sequence length"
};

// A row of a table that says which change it is, for what reads the page.
function markRows(host, rows) {
  host.querySelectorAll("tbody tr").forEach((element, i) => {
    element.dataset.change = rows[i].change;
    element.dataset.feasible = rows[i].feasible;
    if (rows[i].as_asked) element.className = "this";
  });
}

function drawExplanation(explain) {
  const rows = explain.changes.map((row, i) => [row.words, row.feasible ? time(row.step_us) : "does not fit",
                                     row.feasible ? count(row.tokens_per_s) : "",
                                     !i                 ? "" :
                                       row.gain > 1.005 ? `${row.gain.toFixed(2)}\u00a0×` :
                                                          "none"]);
  byId("explain").hidden = false;
  byId("explain-table")
    .replaceChildren(
      table(["change", ">step", ">tokens per second", ">gain"], rows, "What would make the plan faster, simulated"));
  markRows(byId("explain-table"), explain.changes);
}

function drawSweep(sweep) {
  const rows = sweep.points.map(
    (row) => [row.as_asked ? `${row.words} (as asked)` : row.words, row.feasible ? time(row.step_us) : "does not fit",
      row.feasible ? count(row.tokens_per_s) : "", row.feasible ? bytes(row.device_bytes) : "",
      row.feasible ? bytes(row.host_bytes) : "", row.feasible ? row.blocks_words : row.shortage_words]);
  const title = `Plans by ${SWEPT[sweep.by]}, simulated`;
  byId("sweep").hidden = false;
  byId("sweep-title").textContent = title;
  byId("sweep-table")
    .replaceChildren(
      table([SWEPT[sweep.by], ">step", ">tokens per second", ">device", ">host", "blocks"], rows, title));
  markRows(byId("sweep-table"), sweep.points);
}

function drawProspects(plan) {
  if (plan.explain) drawExplanation(plan.explain);
  if (plan.sweep) drawSweep(plan.sweep);
}
