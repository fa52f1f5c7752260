// SPDX-License-Identifier: Apache-2.0
// Charts over the steps of a run. All share one axis: what is zoomed or pointed at in one is so in all.
//
// A series is { name, title, xs, ys, points, pale, level }: `xs` ascend; `points` draws circles too; `level` is a
// constant over all steps. Charts draw into pixels of their own width, so that texts keep their size.

const CURVE_HEIGHT = 190, CURVE_TOP = 16, CURVE_BOTTOM = 28, CURVE_LEFT = 62, CURVE_RIGHT = 14, CURVE_RIGHT_AXIS = 64;
const CURVE_DEEPEST = 4;  // steps: the shortest view

// Index of the first of the ascending `xs` that is at least `x`.
function firstAt(xs, x) {
  let low = 0, high = xs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] >= x) high = middle;
    else low = middle + 1;
  }
  return low;
}

// Indices of the points to draw in a view, with one beside it on each side, to which lines lead. A column of pixels
// shows at most two points, its lowest and its highest, so that thousands of steps draw quickly and no spike is lost.
function thinned({ xs, ys }, view, width) {
  const begin = Math.max(0, firstAt(xs, view.from) - 1), end = Math.min(xs.length, firstAt(xs, view.to) + 2);
  const all = Array.from({ length: Math.max(0, end - begin) }, (_, i) => begin + i);
  if (all.length <= 2 * width) return all;
  const kept = [];
  let column = NaN, low = 0, high = 0;
  const close = () => kept.push(...(low === high ? [low] : [Math.min(low, high), Math.max(low, high)]));
  for (const i of all) {
    const at = Math.floor(width * (xs[i] - view.from) / (view.to - view.from));
    if (at !== column) {
      if (!Number.isNaN(column)) close();
      column = at;
      low = high = i;
    }
    if (ys[i] < ys[low]) low = i;
    if (ys[i] > ys[high]) high = i;
  }
  close();
  return kept;
}

// The axis of steps: `moments` ascend, each { step, lines() }; `marks` are [step, "saved" | "evaluated" | "resumed"].
class StepAxis {
  constructor(moments, marks) {
    this.moments = moments;
    this.steps = moments.map((moment) => moment.step);
    this.marks = marks;
    this.from = this.steps[0] ?? 0;
    this.to = Math.max(this.steps[this.steps.length - 1] ?? 1, this.from + 1);
    this.view = { from: this.from, to: this.to };
    this.chosen = null;  // index of a moment
    this.curves = [];
  }

  show(from, to) {
    const whole = this.to - this.from;
    const span = Math.min(whole, Math.max(Math.min(CURVE_DEEPEST, whole), to - from));
    const left = Math.min(Math.max(this.from, (from + to - span) / 2), this.to - span);
    this.view = { from: left, to: left + span };
    this.draw();
  }

  zoom(factor, at) {
    this.show(at - (at - this.view.from) * factor, at + (this.view.to - at) * factor);
  }

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      for (const curve of this.curves) curve.resize();
    });
  }

  nearest(step) {
    const i = firstAt(this.steps, step);
    if (i === this.steps.length) return i - 1;
    return i && step - this.steps[i - 1] < this.steps[i] - step ? i - 1 : i;
  }

  choose(index) {
    this.chosen = index;
    for (const curve of this.curves) curve.drawChosen();
  }
}

class Curve {
  constructor(host, axis, { title, series, low, tick, right }) {
    Object.assign(this, { axis, title, series, low, tick, right });
    this.marks = svg("g");
    this.lines = svg("g");
    this.overlay = svg("g");
    this.behind = svg("g");
    this.svg = svg("svg",
      {
        height: CURVE_HEIGHT,
        tabindex: 0,
        role: "application",
        "aria-label": `${title} over the steps. Arrows go from step to step and say their numbers.`
      },
      this.behind, this.lines, this.marks, this.overlay);
    this.element = html("div", { class: "panel curve", "data-curve": series[0].name }, html("h3", {}, title),
      html("ul", { class: "legend" }, ...series.map((one) => this.legend(one))), this.svg);
    host.append(this.element);
    axis.curves.push(this);
    this.listen();
  }

  legend(one) {
    const drawing = svg("svg", { "aria-hidden": "true" },
      svg("line", { class: `line ${this.classOf(one)}`, x1: 0, x2: 22, y1: 7, y2: 7 }),
      ...(one.points ? [svg("circle", { class: this.classOf(one), cx: 11, cy: 7, r: 3.5 })] : []));
    return html("li", {}, drawing, one.title);
  }

  classOf(one) {
    return `s-${one.name}${one.pale ? " pale" : ""}`;
  }

  // ---- drawing ----

  x(step) {
    return CURVE_LEFT + (step - this.axis.view.from) * this.scale;
  }

  y(value) {
    const height = CURVE_HEIGHT - CURVE_TOP - CURVE_BOTTOM;
    return CURVE_TOP + height * (1 - (value - this.least) / (this.most - this.least));
  }

  resize() {
    this.width = Math.max(200, this.element.clientWidth - 28);
    this.end = this.width - (this.right ? CURVE_RIGHT_AXIS : CURVE_RIGHT);
    this.scale = (this.end - CURVE_LEFT) / (this.axis.view.to - this.axis.view.from);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${CURVE_HEIGHT}`);  // so that paper shows what the screen does
    const kept = this.series.map((one) => one.level ? [] : thinned(one, this.axis.view, this.end - CURVE_LEFT));
    this.fit(kept);
    this.behind.replaceChildren(...this.levels(), ...this.steps());
    this.lines.replaceChildren(...this.series.flatMap((one, i) => this.drawn(one, kept[i])));
    this.marks.replaceChildren(...this.markers());
    this.drawChosen();
  }

  // Fits the values in view; those that begin at 0 keep it.
  fit(kept) {
    let least = Infinity, most = -Infinity;
    this.series.forEach((one, i) => {
      for (const y of one.level ? one.ys : kept[i].map((k) => one.ys[k])) {
        least = Math.min(least, y);
        most = Math.max(most, y);
      }
    });
    if (!(least <= most)) [least, most] = [0, 1];
    if (this.low !== undefined) least = Math.min(least, this.low);
    const room = most - least || Math.abs(most) || 1;
    this.least = this.low !== undefined && least >= this.low ? least : least - 0.05 * room;
    this.most = most + 0.05 * room;
  }

  drawn(one, kept) {
    const name = { class: `line ${this.classOf(one)}`, "data-series": one.name };
    if (one.level) {
      const y = this.y(one.ys[0]);
      return [svg("line", {...name, x1: CURVE_LEFT, x2: this.end, y1: y, y2: y, "data-value": one.ys[0] })];
    }
    const clip = (step) => Math.min(Math.max(step, this.axis.view.from), this.axis.view.to);
    const at = (k, i) => {
      const step = one.xs[k], inside = clip(step), other = kept[i ? i - 1 : i + 1];
      if (inside === step || other === undefined) return `${this.x(inside).toFixed(1)} ${this.y(one.ys[k]).toFixed(1)}`;
      const share = (inside - one.xs[other]) / (step - one.xs[other]);  // where the line leaves the view
      return `${this.x(inside).toFixed(1)} ${this.y(one.ys[other] + share * (one.ys[k] - one.ys[other])).toFixed(1)}`;
    };
    const inView = kept.filter((k) => clip(one.xs[k]) === one.xs[k]);
    const path = svg("path", {...name, d: kept.length ? `M${kept.map(at).join("L")}` : "", "data-points": kept.length });
    const dots = one.points || kept.length === 1 ? inView : [];
    return [path, ...dots.map((k) => svg("circle",
                        { class: this.classOf(one), cx: this.x(one.xs[k]), cy: this.y(one.ys[k]), r: 3.5 }))];
  }

  levels() {
    const parts = [], step = niceStep(this.most - this.least, 5);
    for (let at = Math.ceil(this.least / step - 1e-9) * step; at <= this.most; at += step) {
      const y = this.y(at);
      parts.push(svg("line", { class: "grid", x1: CURVE_LEFT, x2: this.end, y1: y, y2: y }),
        svg("text", { x: CURVE_LEFT - 8, y: y + 4, "text-anchor": "end" }, this.tick(at, step)));
      if (this.right && y > CURVE_TOP + 8) parts.push(svg("text", { x: this.end + 8, y: y + 4 }, this.right.print(at)));
    }
    if (this.right)
      parts.push(svg("text", { x: this.width - 2, y: CURVE_TOP - 4, "text-anchor": "end" }, this.right.title));
    return parts;
  }

  steps() {
    const { from, to } = this.axis.view;
    const step = Math.max(1, niceStep(to - from, Math.max(2, this.width / 110)));
    const parts = [], y = CURVE_HEIGHT - 4;
    for (let at = Math.ceil(from / step) * step; at <= to; at += step)
      parts.push(svg("text", { x: this.x(at), y, "text-anchor": "middle" }, String(at)));
    parts.push(svg("text", { x: CURVE_LEFT - 8, y, "text-anchor": "end" }, "step"));
    return parts;
  }

  // What happened between steps. Of marks that would cover each other, the first is drawn.
  markers() {
    const { from, to } = this.axis.view, parts = [], last = {};
    const y = CURVE_HEIGHT - CURVE_BOTTOM;
    for (const [step, what] of this.axis.marks) {
      const x = this.x(step);
      if (step < from || step > to || x - (last[what] ?? -Infinity) < 5) continue;
      last[what] = x;
      const about = { "data-mark": what, "data-step": step };
      if (what === "resumed")
        parts.push(svg("line", {...about, class: what, x1: x, x2: x, y1: CURVE_TOP, y2: y }),
          svg("text", { class: "halo", x: x + 4, y: CURVE_TOP + 10 }, "resumed"));
      else if (what === "saved")
        parts.push(svg("path", {...about, class: "mark-saved", d: `M${x} ${y + 1}l4 7h-8z` }));
      else
        parts.push(svg("circle", {...about, class: "mark-evaluated", cx: x, cy: y, r: 3 }));
    }
    return parts;
  }

  drawChosen() {
    const moment = this.axis.moments[this.axis.chosen];
    if (!moment || this.scale === undefined) return this.overlay.replaceChildren();
    const x = this.x(moment.step);
    const parts = [svg("line", { class: "cursor", x1: x, x2: x, y1: CURVE_TOP, y2: CURVE_HEIGHT - CURVE_BOTTOM })];
    for (const one of this.series) {
      const k = one.level ? -1 : firstAt(one.xs, moment.step);
      if (one.xs?.[k] === moment.step) parts.push(svg("circle", { class: "here", cx: x, cy: this.y(one.ys[k]), r: 3 }));
    }
    return this.overlay.replaceChildren(...parts);
  }

  // ---- in use ----

  listen() {
    const on = (name, act) => this.svg.addEventListener(name, act.bind(this));
    on("pointerdown", this.onDown);
    on("pointermove", this.onMove);
    on("pointerup", this.onUp);
    on("pointercancel", this.onUp);
    on("pointerleave", this.leave);
    on("keydown", this.onKey);
    on("blur", this.leave);
    on("dblclick", () => this.axis.show(this.axis.from, this.axis.to));
  }

  leave() {
    hideTip();
    this.axis.choose(null);
  }

  stepAt(event) {
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    return this.axis.view.from + (x - CURVE_LEFT) / this.scale;
  }

  onDown(event) {
    if (event.pointerType === "mouse") this.brush = this.stepAt(event);
    this.onMove(event);
  }

  onMove(event) {
    const step = this.stepAt(event);
    if (this.brush !== undefined && event.buttons && Math.abs(step - this.brush) * this.scale > 5) {
      const [from, to] = [Math.min(step, this.brush), Math.max(step, this.brush)].map((at) => this.x(at));
      hideTip();
      return this.overlay.replaceChildren(svg("rect",
        { class: "brush", x: from, width: to - from, y: CURVE_TOP, height: CURVE_HEIGHT - CURVE_TOP - CURVE_BOTTOM }));
    }
    const { from, to } = this.axis.view;
    this.axis.choose(this.axis.nearest(Math.min(Math.max(step, from), to)));
    return this.tell(event.pageX, event.pageY);
  }

  onUp(event) {
    const step = this.stepAt(event), from = this.brush;
    this.brush = undefined;
    if (from !== undefined && Math.abs(step - from) * this.scale > 5)
      this.axis.show(Math.min(step, from), Math.max(step, from));
  }

  tell(pageX, pageY) {
    const moment = this.axis.moments[this.axis.chosen];
    if (!moment) return hideTip();
    return showTip(moment.lines(), pageX, pageY);
  }

  go(index) {
    const { axis } = this, chosen = Math.min(Math.max(index, 0), axis.moments.length - 1);
    const moment = axis.moments[chosen];
    if (!moment) return;
    const half = (axis.view.to - axis.view.from) / 2;
    if (moment.step < axis.view.from || moment.step > axis.view.to) axis.show(moment.step - half, moment.step + half);
    axis.choose(chosen);
    const box = this.svg.getBoundingClientRect();
    const x = Math.min(this.end, Math.max(CURVE_LEFT, this.x(moment.step)));
    this.tell(box.left + window.scrollX + x, box.top + window.scrollY + CURVE_TOP);
    byId("live").textContent = moment.lines().map(([text]) => text).join(". ");
  }

  onKey(event) {
    const { axis } = this, { from, to } = axis.view;
    const index = axis.chosen ?? axis.nearest(from) - 1, at = axis.steps[axis.chosen] ?? (from + to) / 2;
    const page = Math.max(1, Math.round((firstAt(axis.steps, to) - firstAt(axis.steps, from)) / 10));
    const acts = {
      ArrowLeft: () => event.shiftKey ? axis.show(from - (to - from) / 5, to - (to - from) / 5) : this.go(index - 1),
      ArrowRight: () => event.shiftKey ? axis.show(from + (to - from) / 5, to + (to - from) / 5) : this.go(index + 1),
      PageUp: () => this.go(index - page),
      PageDown: () => this.go(index + page),
      Home: () => this.go(0),
      End: () => this.go(axis.moments.length - 1),
      "+": () => axis.zoom(0.5, at),
      "=": () => axis.zoom(0.5, at),
      "-": () => axis.zoom(2, at),
      "0": () => axis.show(axis.from, axis.to),
      Escape: () => this.leave(),
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[event.key]();
  }
}
