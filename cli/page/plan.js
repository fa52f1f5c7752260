// SPDX-License-Identifier: Apache-2.0
// Draws the page.

const plan = readPlan(byId("data").textContent);
drawTitle(plan);
drawHeadline(plan);
const timeline = new Timeline(byId("timeline"), plan);
drawGlossary(plan);
drawLaneTable(plan);
drawWaitTable(plan);
drawMemoryTable(plan, timeline.peak);
drawBlocks(plan);
drawPolicies(plan);
drawProspects(plan);
window.addEventListener("resize", () => {
  timeline.resize();
  drawBlocks(plan);
});
window.addEventListener("scroll", hideTip, { passive: true });
