// SPDX-License-Identifier: Apache-2.0
// The timeline in use: tooltips, zoom, and moving by wheel, pointer and keyboard.

const DEEPEST = 4000;  // times the whole
const NEAR = 5;        // pixels

class Timeline extends TimelineDrawing {
  constructor(host, plan) {
    super(host, plan);
    this.pointers = new Map();
    this.buildTools();
    this.listen();
  }

  buildTools() {
    const { plan } = this;
    const middle = () => (this.view.from + this.view.to) / 2;
    const tools = [
      ["+", "Zoom in", () => this.zoom(0.5, middle())],
      ["−", "Zoom out", () => this.zoom(2, middle())],
      ["1st", "Show the first iteration", () => this.show(0, plan.period_us)],
      ["all", "Show both iterations", () => this.show(plan.from, plan.to)],
    ];
    byId("timeline-tools").replaceChildren(...tools.map(([text, label, act]) => {
      const button = html("button", { type: "button", "aria-label": label, title: label }, text);
      button.addEventListener("click", act);
      return button;
    }));
  }

  // The bar, its tooltip, and the same for those who listen.
  focus(bar) {
    if (bar.start < this.view.from || bar.end > this.view.to) {
      const half = Math.max(this.view.to - this.view.from, 1.3 * (bar.end - bar.start)) / 2;
      this.show((bar.start + bar.end) / 2 - half, (bar.start + bar.end) / 2 + half);
    }
    this.choose(bar);
    const box = this.svg.getBoundingClientRect();
    const x = Math.min(this.width, Math.max(0, this.x((bar.start + bar.end) / 2)));
    const lines = barLines(this.plan, bar);
    showTip(lines, box.left + window.scrollX + x, box.top + window.scrollY + this.barTop(bar) + LANE_HEIGHT);
    byId("live").textContent = lines.map(([text]) => text).join(". ");
  }

  // ---- finding bars ----

  // Index of the first bar that ends behind `us`.
  firstBehind(lane, us) {
    let low = 0, high = lane.bars.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lane.bars[middle].end > us) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  nearest(lane, us, reach) {
    const k = this.firstBehind(lane, us);
    const away = (bar) => Math.max(bar.start - us, us - bar.end, 0);
    const candidates = [lane.bars[k - 1], lane.bars[k]].filter((bar) => bar && away(bar) <= reach);
    return candidates.sort((a, b) => away(a) - away(b))[0] || null;
  }

  // The bar at a place of the chart; in a pause, the late one behind it (`pause` tells).
  barAt(x, y) {
    const lane = this.plan.lanes[this.laneTops.findIndex((top) => y >= top && y <= top + LANE_HEIGHT)];
    if (!lane) return { bar: null };
    const us = this.view.from + x / this.scale;
    const bar = this.nearest(lane, us, NEAR / this.scale);
    if (bar) return { bar };
    const next = lane.bars[this.firstBehind(lane, us)];
    return next && next.wait ? { bar: next, pause: true } : { bar: null };
  }

  // ---- the view ----

  show(from, to) {
    const { plan } = this;
    const whole = plan.to - plan.from;
    const span = Math.min(whole, Math.max(whole / DEEPEST, to - from));
    const middle = (from + to) / 2;
    const left = Math.min(Math.max(plan.from, middle - span / 2), plan.to - span);
    this.view = { from: left, to: left + span };
    if (!this.waiting) {
      this.waiting = true;
      requestAnimationFrame(() => {
        this.waiting = false;
        this.draw();
      });
    }
    this.scale = this.width / span;
  }

  zoom(factor, at) {
    this.show(at - (at - this.view.from) * factor, at + (this.view.to - at) * factor);
  }

  move(us) {
    this.show(this.view.from + us, this.view.to + us);
  }

  isWhole() {
    return this.view.to - this.view.from > 0.999 * (this.plan.to - this.plan.from);
  }

  // ---- events ----

  listen() {
    const on = (name, act, options) => this.svg.addEventListener(name, act.bind(this), options);
    on("wheel", this.onWheel, { passive: false });
    on("pointerdown", this.onDown);
    on("pointermove", this.onMove);
    on("pointerup", this.onUp);
    on("pointercancel", this.onUp);
    on("pointerleave", () => {
      if (!this.pointers.size) this.leave();
    });
    on("keydown", this.onKey);
    on("blur", this.leave);
    on("dblclick", () => this.show(this.plan.from, this.plan.to));
  }

  leave() {
    hideTip();
    this.choose(null);
  }

  place(event) {
    const box = this.svg.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  // Without Ctrl the wheel zooms only while the chart has the focus, so that pages scroll past it.
  onWheel(event) {
    const active = event.ctrlKey || event.metaKey || document.activeElement === this.svg;
    if (!active || (event.deltaY > 0 && this.isWhole())) return;
    event.preventDefault();
    const { x } = this.place(event);
    if (event.shiftKey) this.move((event.deltaY || event.deltaX) / this.scale);
    else this.zoom(Math.exp(event.deltaY * 0.0016), this.view.from + x / this.scale);
  }

  onDown(event) {
    this.svg.setPointerCapture(event.pointerId);
    const { x, y } = this.place(event);
    this.pointers.set(event.pointerId, x);
    this.brush =
      this.pointers.size === 1 && this.isWhole() && event.pointerType === "mouse" ? { from: x, to: x } : null;
    this.hover(event, x, y);
  }

  onMove(event) {
    const { x, y } = this.place(event);
    const before = this.pointers.get(event.pointerId);
    if (before === undefined) return this.hover(event, x, y);
    if (this.brush) {
      this.brush.to = x;
      return this.drawBrush();
    }
    if (this.pointers.size === 2) this.pinch(event.pointerId, x);
    else this.move((before - x) / this.scale);
    this.pointers.set(event.pointerId, x);
    return hideTip();
  }

  onUp(event) {
    this.pointers.delete(event.pointerId);
    const brush = this.brush;
    this.brush = null;
    if (!brush) return;
    const [left, right] = [Math.min(brush.from, brush.to), Math.max(brush.from, brush.to)];
    this.drawChosen();
    if (right - left > 2 * NEAR) this.show(this.view.from + left / this.scale, this.view.from + right / this.scale);
  }

  pinch(id, x) {
    const other = [...this.pointers].find(([pointer]) => pointer !== id)[1];
    const apart = Math.max(20, Math.abs(x - other)), wasApart = Math.max(20, Math.abs(this.pointers.get(id) - other));
    this.zoom(wasApart / apart, this.view.from + other / this.scale);
  }

  drawBrush() {
    const { from, to } = this.brush;
    hideTip();
    this.overlay.replaceChildren(
      svg("rect", { class: "brush", x: Math.min(from, to), y: 0, width: Math.abs(to - from), height: this.height }));
  }

  hover(event, x, y) {
    const { bar, pause } = this.barAt(x, y);
    this.choose(bar);
    if (bar) return showTip(pause ? pauseLines(this.plan, bar) : barLines(this.plan, bar), event.pageX, event.pageY);
    if (y >= this.memoryTop && y <= this.memoryTop + MEMORY_HEIGHT) return this.hoverMemory(event, x);
    return hideTip();
  }

  hoverMemory(event, x) {
    const us = this.view.from + x / this.scale;
    const step = this.steps.find((each) => us >= each.start && us < each.end);
    if (!step) return hideTip();
    const { occupancy, parts } = this.plan;
    const all = parts.reduce((sum, part) => sum + occupancy[part][step.position], this.reserve);
    const rows =
      [...parts]
        .reverse()
        .filter((part) => occupancy[part][step.position] > 0)
        .map((part) => [`${part === "gaps" ? "between tensors" : part}: ${bytes(occupancy[part][step.position])}`]);
    if (this.reserve) rows.push([`reserve: ${bytes(this.reserve)}`]);
    this.overlay.replaceChildren(svg("line", { class: "cursor", x1: x, x2: x, y1: LANES_TOP, y2: this.height }));
    return showTip(
      [[`${bytes(all)} at ${time(us)}`], [`at ${barName(step.bar)}`], ...rows], event.pageX, event.pageY);
  }

  onKey(event) {
    const at = this.chosen ? (this.chosen.start + this.chosen.end) / 2 : (this.view.from + this.view.to) / 2;
    const span = this.view.to - this.view.from;
    const acts = {
      "+": () => this.zoom(0.5, at),
      "=": () => this.zoom(0.5, at),
      "-": () => this.zoom(2, at),
      "0": () => this.show(this.plan.from, this.plan.to),
      Escape: () => this.leave(),
      ArrowLeft: () => event.shiftKey ? this.move(-span / 5) : this.step(-1),
      ArrowRight: () => event.shiftKey ? this.move(span / 5) : this.step(1),
      ArrowUp: () => this.changeLane(-1),
      ArrowDown: () => this.changeLane(1),
      Enter: () => this.chosen
        && this.show(this.chosen.start - 2 * (this.chosen.end - this.chosen.start),
          this.chosen.end + 2 * (this.chosen.end - this.chosen.start)),
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[event.key]();
  }

  step(by) {
    const start = this.chosen || this.nearest(this.plan.lanes[0], this.view.from, Infinity);
    const next = this.chosen ? this.plan.bars[start.index + by] : start;
    if (next && next.lane === start.lane) this.focus(next);
  }

  changeLane(by) {
    if (!this.chosen) return this.step(0);
    const middle = (this.chosen.start + this.chosen.end) / 2;
    for (let lane = this.chosen.lane + by; this.plan.lanes[lane]; lane += by) {
      const bar = this.nearest(this.plan.lanes[lane], middle, Infinity);
      if (bar) return this.focus(bar);
    }
    return undefined;
  }
}
