// SPDX-License-Identifier: Apache-2.0
// A step of a cluster: a row for each stage with its passes, rows for the sums of gradients, and the update.
//
// Bars are drawn once, in µs, inside a group that is stretched when the view changes; texts and ticks for every view.

const ROW = 22, ROW_GAP = 3, PIPELINE_GAP = 24, AXIS = 28, GUTTER = 210, NARROW = 640;

// Rows for sums, so that no two of a row overlap.
function sumRows(segments) {
  const ends = [];
  return segments.map((segment) => {
    let row = ends.findIndex((end) => end <= segment.start_us + 1e-6);
    if (row < 0) row = ends.length;
    ends[row] = segment.start_us + segment.time_us;
    return row;
  });
}

class ClusterTimeline {
  constructor(host, plan) {
    this.host = host;
    this.plan = plan;
    this.to = plan.predicted.step_us;
    this.view = { from: 0, to: this.to };
    this.place();
    this.build();
    this.listen();
    this.resize();
  }

  // Tops of the rows.
  place() {
    const { plan } = this;
    let y = 0;
    this.headings = [];
    for (const pipeline of plan.pipelines) {
      y += PIPELINE_GAP;
      this.headings.push([y - 6, `pipeline ${this.headings.length}: ${plural(pipeline.micro_batches, "micro-batch")} in ` +
        time(pipeline.time_us)]);
      for (const stage of pipeline.stages) {
        stage.top = y;
        y += ROW + ROW_GAP;
      }
    }
    const rows = sumRows(plan.segments);
    if (rows.length) {
      y += PIPELINE_GAP;
      this.headings.push([y - 6, "gradients added up between pipelines"]);
    }
    plan.segments.forEach((segment, i) => {
      segment.top = y + rows[i] * (ROW + ROW_GAP);
    });
    this.rowsEnd = y + (rows.length ? (Math.max(...rows) + 1) * (ROW + ROW_GAP) : 0);
    this.height = this.rowsEnd + AXIS;
  }

  bar(name, start, end, top, lines) {
    const rect = svg("rect", { class: `bar ${name}`, x: start.toFixed(3), y: top, width: (end - start).toFixed(3), height: ROW });
    rect.lines = lines;
    return rect;
  }

  passBar(stage, pass) {
    const word = pass.backward ? "backward" : "forward";
    return this.bar(`k-${word}`, pass.start, pass.end, stage.top, () => [
      [`${word}, micro-batch ${pass.microBatch + 1}`],
      [`${stageName(stage)}: ${gpuName(stage)} of ${stage.node}`],
      [`${time(pass.start)} to ${time(pass.end)}: ${time(pass.end - pass.start)}`]
    ]);
  }

  sumBar(segment) {
    const what = segment.tied ? "the tied table" : blockRange(this.plan, segment);
    return this.bar("k-send_gradients", segment.start_us, segment.start_us + segment.time_us, segment.top, () => [
      [`gradients of ${what}`],
      [`${bytes(segment.bytes)} in ${plural(segment.groups.length, "slice")}, between ` +
        `${segment.groups[0].ranks.length} owners`],
      [`${time(segment.start_us)} to ${time(segment.start_us + segment.time_us)}`]
    ]);
  }

  updateBar() {
    const { step_us: step, update_us: update } = this.plan.predicted;
    const rect = svg("rect", {
      class: "bar k-device_adam", x: (step - update).toFixed(3), y: 8, width: update.toFixed(3), height: this.rowsEnd - 8
    });
    rect.lines = () => [["update"], [`${time(step - update)} to ${time(step)}, of all stages`]];
    return rect;
  }

  build() {
    const { plan } = this;
    const tracks = plan.stages.map((stage) => svg("rect", { class: "track", x: 0, y: stage.top, height: ROW }));
    this.tracks = tracks;
    this.behind = svg("g");
    this.bars = svg("g", { class: "bars" },
      ...plan.stages.map((stage) => svg("g", { class: "lane", "data-stage": `${stage.pipeline}.${stage.index}` },
        ...stage.passes.map((pass) => this.passBar(stage, pass)))),
      svg("g", { class: "sums" }, ...plan.segments.map((segment) => this.sumBar(segment))),
      ...(plan.predicted.update_us > 0 ? [this.updateBar()] : []));
    this.cover = svg("rect", { class: "cover", x: 0, y: 0 });
    this.front = svg("g", { style: "pointer-events: none" });
    this.svg = svg("svg", {
      height: this.height, tabindex: 0, role: "img",
      "aria-label": "Timeline of the stages over one step, simulated. The tables below and above say the same."
    }, ...tracks, this.behind, this.bars, this.cover, this.front);
    this.host.append(this.svg);
    const tools = [["+", "Zoom in", () => this.zoom(0.5)], ["−", "Zoom out", () => this.zoom(2)],
      ["all", "Show the whole step", () => this.show(0, this.to)]];
    byId("timeline-tools").replaceChildren(...tools.map(([text, label, act]) => {
      const button = html("button", { type: "button", "aria-label": label, title: label }, text);
      button.addEventListener("click", act);
      return button;
    }));
  }

  // ---- drawn for every view ----

  x(us) {
    return this.left + (us - this.view.from) * this.scale;
  }

  resize() {
    this.width = Math.max(200, this.host.clientWidth);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.left = this.width < NARROW ? 34 : GUTTER;
    fill(this.cover, { width: this.left, height: this.height });
    for (const track of this.tracks) fill(track, { x: this.left, width: this.width - this.left });
    this.draw();
  }

  draw() {
    this.scale = (this.width - this.left) / (this.view.to - this.view.from);
    this.bars.setAttribute("transform", `matrix(${this.scale} 0 0 1 ${this.x(0)} 0)`);
    this.behind.replaceChildren(...this.ticks());
    const narrow = this.left < GUTTER;
    this.front.replaceChildren(
      ...this.headings.map(([y, text]) => svg("text", { class: "lane-name halo", x: 10, y }, text)),
      ...this.plan.stages.map((stage) => svg("text", { class: "row-name", x: 10, y: stage.top + 15 },
        narrow ? `${stage.index}` : this.rowName(stage))));
  }

  // What has room beside the bars.
  rowName(stage) {
    const room = 32, names = [`${stage.index}  ${gpuName(stage)} of ${stage.node}`, `${stage.index}  ${gpuName(stage)}`];
    return names.find((name) => name.length <= room) || names[1].slice(0, room);
  }

  ticks() {
    const parts = [];
    for (const [at, text] of timeTicks(this.view, this.width)) {
      const x = this.x(at);
      parts.push(svg("line", { class: "grid", x1: x, x2: x, y1: 8, y2: this.rowsEnd }));
      if (x > this.left + 16 && x < this.width - 24)
        parts.push(svg("text", { x, y: this.height - 9, "text-anchor": "middle" }, text));
    }
    return parts;
  }

  // ---- the view ----

  show(from, to) {
    const span = Math.min(this.to, Math.max(this.to / 2000, to - from));
    const left = Math.min(Math.max(0, (from + to) / 2 - span / 2), this.to - span);
    this.view = { from: left, to: left + span };
    this.draw();
  }

  zoom(factor, at = (this.view.from + this.view.to) / 2) {
    this.show(at - (at - this.view.from) * factor, at + (this.view.to - at) * factor);
  }

  move(us) {
    this.show(this.view.from + us, this.view.to + us);
  }

  listen() {
    const on = (name, act, options) => this.svg.addEventListener(name, act, options);
    on("pointermove", (event) => {
      if (this.dragged !== undefined) {
        this.move((this.dragged - event.clientX) / this.scale);
        this.dragged = event.clientX;
        hideTip();
      } else if (event.target.lines) showTip(event.target.lines(), event.pageX, event.pageY);
      else hideTip();
    });
    on("pointerdown", (event) => {
      this.dragged = event.clientX;
      this.svg.setPointerCapture(event.pointerId);
    });
    on("pointerup", () => delete this.dragged);
    on("pointercancel", () => delete this.dragged);
    on("pointerleave", hideTip);
    on("dblclick", () => this.show(0, this.to));
    on("wheel", (event) => {
      if (!(event.ctrlKey || event.metaKey || document.activeElement === this.svg)) return;
      event.preventDefault();
      const at = this.view.from + (event.clientX - this.svg.getBoundingClientRect().left - this.left) / this.scale;
      this.zoom(Math.exp(event.deltaY * 0.0016), at);
    }, { passive: false });
    on("keydown", (event) => {
      const span = this.view.to - this.view.from;
      const acts = { "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
        "0": () => this.show(0, this.to), ArrowLeft: () => this.move(-span / 5), ArrowRight: () => this.move(span / 5) };
      if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      acts[event.key]();
    });
  }
}
