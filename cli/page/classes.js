// SPDX-License-Identifier: Apache-2.0
// Device memory by class, as one bar.

const CLASSES = ["weights", "gradients", "optimizer", "activations", "staging", "workspace", "gaps", "reserve"];
const CLASS_WORDS = {
  optimizer: "optimizer states",
  gaps: "between tensors",
  reserve: "reserve of the device"
};

const className = (name) => CLASS_WORDS[name] || name;
const classTotal = (plan) => CLASSES.reduce((sum, name) => sum + plan.classes[name], 0);

// `plan.classes`: bytes of each; `most`: bytes that fill the width.
function stack(plan, most) {
  const share = (n) => `${(100 * n / most).toFixed(3)}%`;
  const label = CLASSES.map((name) => `${className(name)} ${bytes(plan.classes[name])}`).join(", ");
  return html("div", { class: "stack", role: "img", "aria-label": label }, ...CLASSES.map((name) => html("div", {
    class: `f-${name}`,
    style: `width: ${share(plan.classes[name])}`,
    "data-class": name,
    "data-bytes": plan.classes[name]
  })));
}

function classLegend(plans) {
  const shown = CLASSES.filter((name) => plans.some((plan) => plan.classes[name]));
  return html("ul", { class: "legend" },
    ...shown.map((name) => html("li", {}, html("span", { class: `swatch f-${name}` }), className(name))));
}
