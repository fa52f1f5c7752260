// SPDX-License-Identifier: Apache-2.0
// Elements, and numbers for people. Text of documents becomes text nodes and attributes, never markup.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  element.append(...(children || []));
  return element;
}

const html = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
const byId = (id) => document.getElementById(id);

// Three digits: 4.83, 48.3, 483.
function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : 2);
}

function scaled(value, base, units) {
  let i = 0;
  while (Math.abs(value) >= base * 0.9995 && i + 1 < units.length) {
    value /= base;
    i++;
  }
  return `${digits(value)} ${units[i]}`;
}

const time = (us) => scaled(us, 1000, ["µs", "ms", "s"]);
const bytes = (n) => scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
const count = (n) => scaled(n, 1000, ["", "k", "M", "B"]).trim();
// One decimal where none would say 0 or 100 of what is neither, or little of what is small.
function percent(share) {
  const near = (share > 0 && share < 0.0995) || (share >= 0.995 && share < 1);
  return `${(100 * share).toFixed(near ? 1 : 0)} %`;
}
const words = (name) => name.replaceAll("_", " ");
const plural = (n, word) => n === 1 ? `1 ${word}` : `${n} ${word}${word.endsWith("ch") ? "es" : "s"}`;

// A step of 1, 2 or 5 times a power of `base` (in units of `unit`) of which about `wanted` fit into `span`.
function niceStep(span, wanted, base = 10, unit = 1) {
  const rough = span / wanted / unit;
  const power = base ** Math.floor(Math.log(rough) / Math.log(base) + 1e-9);
  const factors = base === 10 ? [1, 2, 5, 10] : [1, 2];
  return unit * power * factors.find((f) => f * power >= rough * 0.999);
}

// [µs, "20 ms"] of the marks on an axis of time that shows `view` in so many pixels.
function timeTicks(view, width) {
  const step = niceStep(view.to - view.from, Math.max(2, width / 120));
  const [unit, name] = step >= 1e5 ? [1e6, "s"] : step >= 100 ? [1e3, "ms"] : [1, "µs"];
  const decimals = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
  const ticks = [];
  for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step)
    ticks.push([at, `${(at / unit).toFixed(decimals)} ${name}`]);
  return ticks;
}

// heads: texts, ">" first aligns to the right. rows: lists of texts.
function table(heads, rows, caption) {
  const right = heads.map((head) => head.startsWith(">"));
  const cells = (name, row) => row.map((text, i) => html(name, right[i] ? { class: "n" } : {}, text));
  return html("table", {}, html("caption", { class: "hidden" }, caption),
    html("thead", {}, html("tr", {}, ...cells("th", heads.map((head) => head.replace(">", ""))))),
    html("tbody", {}, ...rows.map((row) => html("tr", {}, ...cells("td", row)))));
}

function legendItem(className, ...text) {
  return html("li", {},
    svg("svg", { "aria-hidden": "true" }, svg("rect", { width: 13, height: 13, rx: 2, class: className })), ...text);
}

// ---- the tooltip ----

function showTip(lines, pageX, pageY) {
  const tip = byId("tip");
  tip.replaceChildren(
    ...lines.map(([text, name], i) => html(i ? "div" : "strong", name ? { class: name } : {}, text)));
  tip.hidden = false;
  const room = document.documentElement.clientWidth;
  const left = Math.min(pageX + 14, window.scrollX + room - tip.offsetWidth - 6);
  const above = pageY - tip.offsetHeight - 14;
  const fits = pageY + 18 + tip.offsetHeight < window.scrollY + window.innerHeight;
  tip.style.left = `${Math.max(window.scrollX + 6, left)}px`;
  tip.style.top = `${fits ? pageY + 18 : Math.max(window.scrollY, above)}px`;
}

function hideTip() {
  byId("tip").hidden = true;
}
