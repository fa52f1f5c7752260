// SPDX-License-Identifier: Apache-2.0
// Lanes and memory over time on one axis of time, and what held a bar up.
//
// Bars and areas are drawn once, in µs, inside groups that are stretched when the view changes; what must not be
// stretched (texts, ticks, outlines) is drawn again for every view.

const LANE_HEIGHT = 40, LANE_STEP = 64, LANES_TOP = 46, MEMORY_HEIGHT = 210;
const SHIFT = 4;  // by which every second iteration is lower
const TEXT_ON_DARK = new Set(["backward", "device_adam", "fetch", "states_out", "host_adam", "norm", "scatter", "all_gather"]);

class TimelineDrawing {
  constructor(host, plan) {
    this.host = host;
    this.plan = plan;
    this.view = { from: plan.from, to: plan.to };
    this.chosen = null;
    this.laneTops = plan.lanes.map((_, i) => LANES_TOP + i * LANE_STEP);
    this.axisTop = LANES_TOP + plan.lanes.length * LANE_STEP - 18;
    this.memoryTop = this.axisTop + 52;
    this.height = this.memoryTop + MEMORY_HEIGHT + 10;
    this.measureMemory();
    this.build();
    this.resize();
  }

  // ---- memory ----

  measureMemory() {
    const { plan } = this;
    const last = plan.steps[plan.positions - 1];
    this.steps = [...plan.steps];
    if (this.steps[0].start > plan.from) {
      this.steps.unshift({ start: plan.from, end: this.steps[0].start, position: plan.positions - 1, bar: last.bar });
    }
    this.steps.push({...this.steps.pop(), end: plan.to });
    const total = (step) => plan.parts.reduce((sum, part) => sum + plan.occupancy[part][step.position], 0);
    const gaps = (step) => plan.occupancy.gaps[step.position];
    const fuller = (a, b) => total(b) - total(a) || gaps(a) - gaps(b);
    this.peak = plan.steps.slice(0, plan.positions).reduce((a, b) => fuller(a, b) > 0 ? b : a);
    this.reserve = plan.memory.reserved_bytes;
    this.peakBytes = this.reserve + total(this.peak);
    this.capacity = plan.memory.device_capacity_bytes;
    this.tall = this.peakBytes >= 0.3 * this.capacity;
    this.topBytes = this.tall ? this.capacity * 1.06 : this.peakBytes * 1.35 || 1;
  }

  memoryY(n) {
    return this.memoryTop + MEMORY_HEIGHT * (1 - n / this.topBytes);
  }

  areas() {
    const { plan, steps } = this;
    const lower = steps.map(() => this.reserve);
    return plan.parts.map((part) => {
      const runs = [];
      steps.forEach((step, i) => {
        const from = lower[i], to = lower[i] += plan.occupancy[part][step.position];
        const last = runs[runs.length - 1];
        if (last && last.from === from && last.to === to) last.end = step.end;
        else runs.push({ start: step.start, end: step.end, from, to });
      });
      const y = (n) => this.memoryY(n).toFixed(2), x = (us) => us.toFixed(3);
      const there = runs.map((run) => `V${y(run.to)}H${x(run.end)}`).join("");
      const back = runs.reverse().map((run) => `V${y(run.from)}H${x(run.start)}`).join("");
      const d = `M${x(steps[0].start)} ${y(this.reserve)}${there}${back}Z`;
      return svg("path", { class: `area m-${part}`, d, "data-part": part });
    });
  }

  // ---- drawn once ----

  build() {
    const { plan } = this;
    this.bands = svg("g");
    this.bars = svg("g", { class: "bars" },
      ...plan.lanes.map(
        (lane) => svg("g", { class: "lane", "data-lane": lane.name }, ...lane.bars.map((bar) => this.bar(bar)))));
    this.areaGroup = svg("g", { "data-peak-bytes": this.peakBytes }, ...this.areas());
    this.behind = svg("g", { class: "behind" });
    this.front = svg("g", { class: "front" });
    this.overlay = svg("g", { class: "overlay" });
    this.tracks =
      plan.lanes.map((_, i) => svg("rect", { class: "track", x: 0, y: this.laneTops[i], height: LANE_HEIGHT }));
    this.veils = svg("g");
    this.svg = svg("svg", {
      height: this.height,
      tabindex: 0,
      role: "application",
      "aria-label":
        "Timeline of the lanes and of device memory over two iterations, simulated. The tables below say the same."
    },
      this.defs(), this.bands, ...this.tracks, this.behind, this.bars, this.areaGroup, this.veils, this.front,
      this.overlay);
    this.host.append(this.svg);
    this.buildAround();
  }

  defs() {
    return svg("defs", {},
      svg("pattern",
        { id: "hatch", width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
        svg("rect", { width: 2, height: 7, fill: "var(--muted)", opacity: 0.5 })),
      svg("marker",
        { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
        svg("path", { class: "arrow-head", d: "M0 0L8 4L0 8Z" })));
  }

  bar(bar) {
    const mine = bar.iteration === 0 || bar.iteration === 1;
    return svg("rect", {
      class: `bar k-${bar.kind}${mine ? "" : " beside"}`,
      x: bar.start.toFixed(3),
      y: this.barTop(bar),
      width: (bar.end - bar.start).toFixed(3),
      height: LANE_HEIGHT - SHIFT - 2,
      "data-bar": bar.index,
      "data-tiles": bar.n
    });
  }

  barTop(bar) {
    return this.laneTops[bar.lane] + 1 + (bar.iteration % 2 ? SHIFT : 0);
  }

  buildAround() {
    const { plan } = this;
    const kinds = plan.op_kinds.filter((kind) => plan.mine.some((bar) => bar.kind === kind));
    byId("op-legend").replaceChildren(...kinds.map((kind) => legendItem(`k-${kind}`, words(kind))));
    byId("memory-legend")
      .replaceChildren(
        ...plan.parts.map((part) => legendItem(`m-${part}`, part === "gaps" ? "between tensors" : part)),
        ...(this.reserve ? [legendItem("m-reserve", `reserve: ${bytes(this.reserve)} that the device keeps`)] : []));
    const joined = plan.joined ? " Tiles of one op that follow each other without a pause are drawn as one." : "";
    byId("timeline-about").textContent =
      `A steady iteration takes ${time(plan.period_us)}. Bars of the second iteration lie a little lower; ` +
      `pale ones belong to the iterations before and after.${joined}`;
    byId("timeline-keys").textContent =
      "Zoom: Ctrl and wheel, pinch, or drag a span; then drag to move. With the keyboard, in the chart: " +
      "arrows go from bar to bar and lane to lane, Enter zooms to the bar, + − 0 zoom, Shift and arrows move.";
  }

  // ---- drawn for every view ----

  x(us) {
    return (us - this.view.from) * this.scale;
  }

  resize() {
    this.width = Math.max(200, this.host.clientWidth);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);  // so that paper shows what the screen does
    for (const track of this.tracks) track.setAttribute("width", this.width);
    this.draw();
  }

  draw() {
    this.scale = this.width / (this.view.to - this.view.from);
    const transform = `matrix(${this.scale} 0 0 1 ${- this.view.from * this.scale} 0)`;
    this.bars.setAttribute("transform", transform);
    this.areaGroup.setAttribute("transform", transform);
    this.plan.lanes.forEach((lane, i) => this.bars.children[i].classList.toggle("split", this.hasRoom(lane)));
    this.bands.replaceChildren(...this.iterationBands());
    this.behind.replaceChildren(...this.ticks());
    this.veils.replaceChildren(...this.veil());
    this.front.replaceChildren(
      ...this.iterationNames(), ...this.laneNames(), ...this.barNames(), ...this.memoryNames());
    this.drawChosen();
  }

  // Is there room for gaps between the bars of a lane?
  hasRoom(lane) {
    const inView = lane.bars.filter((bar) => bar.end > this.view.from && bar.start < this.view.to);
    const pixels = inView.reduce((sum, bar) => sum + bar.end - bar.start, 0) * this.scale;
    return pixels > 6 * inView.length;
  }

  iterationBands() {
    const left = this.x(this.plan.period_us), right = this.x(2 * this.plan.period_us);
    return [svg("rect", { class: "band", x: left, y: 0, width: right - left, height: this.height })];
  }

  veil() {
    const end = this.x(this.plan.steps[2 * this.plan.positions - 1].end);
    const more = this.x(this.plan.to) - end;
    return more > 0.5 ?
      [svg("rect",
        { x: end, y: this.memoryTop, width: more, height: MEMORY_HEIGHT, fill: "var(--panel)", opacity: 0.65 })] :
      [];
  }

  iterationNames() {
    const { period_us: period } = this.plan;
    const parts = [0, 1, 2].map(
      (i) =>
        svg("line", { class: "boundary", x1: this.x(i * period), x2: this.x(i * period), y1: 0, y2: this.height }));
    for (const i of [0, 1]) {
      const left = Math.max(0, this.x(i * period)), right = Math.min(this.width, this.x((i + 1) * period));
      if (right - left > 70)
        parts.push(svg("text", { x: (left + right) / 2, y: 16, "text-anchor": "middle" }, `iteration ${i + 1}`));
    }
    return parts;
  }

  laneNames() {
    const narrow = this.width < 560;
    return this.plan.lanes.map((lane, i) => {
      const share = percent(lane.busy_us / this.plan.period_us);
      const waits = i && lane.exposed_us / this.plan.period_us >= 0.001 ?
        `, compute waits ${percent(lane.exposed_us / this.plan.period_us)} for it` :
        "";
      return svg("text", { class: "lane-name halo", x: 10, y: this.laneTops[i] - 6 }, lane.name,
        svg("tspan", { style: "font-weight: 400; fill: var(--muted)", dx: 8 },
          narrow ? `${share} busy` : `works ${share} of the step${waits}`));
    });
  }

  barNames() {
    const texts = [];
    for (const lane of this.plan.lanes) {
      for (let k = this.firstBehind(lane, this.view.from);
           k < lane.bars.length && lane.bars[k].start < this.view.to && texts.length < 400; k++) {
        const bar = lane.bars[k];
        const left = Math.max(0, this.x(bar.start)), right = Math.min(this.width, this.x(bar.end));
        const text = this.fitting(bar, right - left - 6);
        if (text)
          texts.push(svg("text", {
            class: `on-bar ${TEXT_ON_DARK.has(bar.kind) ? "dark-bar" : "light-bar"}`,
            "text-anchor": "middle",
            x: (left + right) / 2,
            y: this.barTop(bar) + 21
          },
            text));
      }
    }
    return texts;
  }

  fitting(bar, room) {
    if (room < 14) return "";
    const tile = bar.tiles > 1 && bar.n === 1 ? ` ${bar.tile + 1}/${bar.tiles}` : "";
    return [barName(bar) + tile, barName(bar), bar.block, bar.block.replace(/^.*\./, "")].find(
             (text) => text.length * 6.3 < room)
      || "";
  }

  ticks() {
    const parts = [];
    for (const [at, text] of timeTicks(this.view, this.width)) {
      const x = this.x(at);
      parts.push(svg("line", { class: "grid", x1: x, x2: x, y1: LANES_TOP, y2: this.height }));
      if (x > 16 && x < this.width - 24) {
        parts.push(svg(
          "text", { x, y: this.axisTop + 14, "text-anchor": "middle" }, text));
      }
    }
    return parts;
  }

  memoryNames() {
    const parts = [svg("text", { class: "lane-name halo", x: 10, y: this.memoryTop - 8 }, "device memory")];
    const step = niceStep(this.topBytes, 4, 2, 2 ** 20);
    for (let n = 0; n <= this.topBytes * 0.97; n += step) {
      const y = this.memoryY(n);
      parts.push(svg("line", { class: "grid", x1: 0, x2: this.width, y1: y, y2: y, opacity: 0.6 }));
      if (n) parts.push(svg("text", { class: "halo", x: 10, y: y + 4 }, bytes(n).replace(/\.0+ /, " ")));
    }
    return [...parts, ...this.capacityMarks(), ...this.peakMark()];
  }

  capacityMarks() {
    const right = { class: "capacity-name halo", x: this.width - 8, "text-anchor": "end" };
    const low = this.memoryY(this.reserve), y = this.memoryY(this.capacity);
    const reserve = svg(
      "rect", { class: "m-reserve", x: 0, y: low, width: this.width, height: this.memoryY(0) - low });
    if (!this.tall) {
      const above = `capacity ${bytes(this.capacity)}, above this scale ↑`;
      return [reserve, svg("text", {...right, y: this.memoryTop + 4 }, above)];
    }
    return [
      reserve, svg("line", { class: "capacity", x1: 0, x2: this.width, y1: y, y2: y, "data-bytes": this.capacity }),
      svg("text", {...right, y: this.memoryTop - 8 }, `capacity ${bytes(this.capacity)}`)
    ];
  }

  peakMark() {
    const marks = [];
    for (const iteration of [0, 1]) {
      const step = this.plan.steps[this.peak.position + iteration * this.plan.positions];
      const x = this.x((step.start + step.end) / 2), y = this.memoryY(this.peakBytes);
      if (x < 0 || x > this.width) continue;
      marks.push(svg("circle", { cx: x, cy: y, r: 3.5, fill: "var(--ink)", "data-bytes": this.peakBytes }));
      const left = x > this.width * 0.7;
      if (marks.length === 1)
        marks.push(svg("text",
          { class: "peak-name halo", x: x + (left ? -8 : 8), y: y + 15, "text-anchor": left ? "end" : "start" },
          `peak ${bytes(this.peakBytes)}`));
    }
    return marks;
  }

  // ---- what is chosen, and why it is late ----

  drawChosen() {
    const bar = this.chosen;
    if (!bar) return this.overlay.replaceChildren();
    const parts = [];
    let to = bar;
    causesOf(this.plan, bar).forEach((from, hop) => {
      parts.push(this.outline(from, "chosen", 1.2), this.arrow(from, to, hop));
      to = from;
    });
    return this.overlay.replaceChildren(this.outline(bar, "chosen", 2.4), ...parts);
  }

  outline(bar, name, width) {
    const left = Math.max(-4, this.x(bar.start)), right = Math.min(this.width + 4, this.x(bar.end));
    return svg("rect", {
      class: name,
      x: left,
      y: this.barTop(bar),
      width: Math.max(1.5, right - left),
      height: LANE_HEIGHT - SHIFT - 2,
      "stroke-width": width,
      rx: 2
    });
  }

  arrow(from, to, hop) {
    const x1 = this.x(from.end), x2 = this.x(to.start);
    const y1 = this.barTop(from) + 17, y2 = this.barTop(to) + 17;
    const bend = Math.max(18, Math.abs(x2 - x1) / 3);
    return svg("path", {
      class: hop ? "cause far" : "cause",
      "marker-end": "url(#arrow)",
      d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`
    });
  }

  choose(bar) {
    if (this.chosen === bar) return;
    this.chosen = bar;
    this.drawChosen();
  }
}
