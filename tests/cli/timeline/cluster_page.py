#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of a cluster plan in a headless Chromium: what it draws against what the plan says.

cluster_page.py --program build/cli/autohete [--shots FOLDER]      FOLDER gets a picture of every state looked at
"""

import argparse
import json
import os
import re
import shutil
import sys
import tempfile

import page as pages
import plans

GOLDEN = os.path.join(plans.ROOT, "tests/golden/schemas/documents/cluster-plan.json")
PIXELS = 0.7

READ = """
const all = (selector, of) => [...(of || document).querySelectorAll(selector)];
const bar = (rect) => ({ kind: rect.classList[1].slice(2), x: +rect.getAttribute("x"), width: +rect.getAttribute("width"),
  pixels: rect.getBoundingClientRect().width, y: +rect.getAttribute("y") });
const track = document.querySelector("#timeline .track");
return {
  lanes: all("#timeline g.lane").map((lane) => ({ stage: lane.dataset.stage, bars: all("rect", lane).map(bar) })),
  sums: all("#timeline g.sums rect").map(bar),
  update: all("#timeline .bars > rect").map(bar),
  chart: track ? track.getBoundingClientRect().width : 0,
  owners: all(".owner").map((cell) => ({ stage: cell.dataset.stage, width: cell.getBoundingClientRect().width,
    row: cell.parentElement.getBoundingClientRect().width, background: getComputedStyle(cell).backgroundColor,
    runs: all("i", cell).map((run) => run.getBoundingClientRect().width) })),
  memory: all("[data-memory]").map((row) => ({ stage: row.dataset.memory,
    rail: row.querySelector(".rail").getBoundingClientRect().width,
    used: row.querySelector(".used").getBoundingClientRect().width })),
  classes: all("[data-classes]").map((row) => ({ stage: row.dataset.classes,
    parts: Object.fromEntries(all(".stack div", row).map((part) => [part.dataset.class, +part.dataset.bytes])),
    width: row.querySelector(".stack").getBoundingClientRect().width,
    used: all(".stack div", row).reduce((sum, part) => sum + part.getBoundingClientRect().width, 0) })),
  hosts: all("#host-table tbody tr").map((row) => [...row.cells].map((cell) => cell.textContent)),
  ranks: all("#rank-table tbody tr").map((row) => [...row.cells].map((cell) => cell.textContent)),
  text: document.body.innerText, images: all("img, b").length, scripts: all("script").length,
  resources: performance.getEntriesByType("resource").map((entry) => entry.name),
  overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  unnamed: all("svg:not([aria-hidden]):not([aria-label]), button:not([aria-label])").length,
};
"""


def stages_of(plan):
    return {
        f"{p}.{i}": (stage, pipeline)
        for p, pipeline in enumerate(plan["pipelines"])
        for i, stage in enumerate(pipeline["stages"])
    }


def in_flight(bars):
    """Returns the largest number of forwards whose backward has not run."""
    held = most = 0
    for bar in bars:
        held += 1 if bar["kind"] == "forward" else -1
        most = max(most, held)
    return most


def check_timeline(failures, plan, page):
    stages = stages_of(plan)
    failures.equal([lane["stage"] for lane in page["lanes"]], list(stages), "rows of stages")
    scale = page["chart"] / plan["predicted"]["step_us"]
    for lane in page["lanes"]:
        stage, pipeline = stages[lane["stage"]]
        bars, name = lane["bars"], f"stage {lane['stage']}"
        failures.equal([bar["x"] for bar in bars], stage["starts_us"], f"{name}: starts")
        for kind in ("forward", "backward"):
            mine = [bar for bar in bars if bar["kind"] == kind]
            failures.equal(len(mine), pipeline["micro_batches"], f"{name}: passes {kind}")
            for bar in mine:
                failures.near(bar["width"], stage[f"{kind}_us"], 0.002, f"{name}: length of a {kind}")
                failures.near(bar["pixels"], bar["width"] * scale, PIXELS, f"{name}: pixels of a {kind}")
        for before, behind in zip(bars, bars[1:]):
            failures.check(before["x"] + before["width"] <= behind["x"] + 1.01, f"{name}: bars overlap at {behind['x']}")
        failures.equal(in_flight(bars), stage["in_flight"], f"{name}: micro-batches in flight")
    check_sums(failures, plan, page)


def check_sums(failures, plan, page):
    segments = plan.get("segments", [])
    failures.equal(len(page["sums"]), len(segments), "sums")
    for bar, segment in zip(page["sums"], segments):
        failures.near(bar["x"], segment["start_us"], 0.002, "start of a sum")
        failures.near(bar["width"], segment["time_us"], 0.002, "length of a sum")
    for i, a in enumerate(page["sums"]):
        for b in page["sums"][:i]:
            apart = a["x"] + 0.01 >= b["x"] + b["width"] or b["x"] + 0.01 >= a["x"] + a["width"]
            failures.check(apart or a["y"] != b["y"], "sums lie on each other")
    update = sum(bar["width"] for bar in page["update"])
    failures.near(update, plan["predicted"]["update_us"], 0.002, "the update")


def check_owners(failures, plan, page):
    stages = stages_of(plan)
    failures.equal([cell["stage"] for cell in page["owners"]], list(stages), "cells of stages")
    looks = {}
    for cell in page["owners"]:
        stage, _ = stages[cell["stage"]]
        name = f"cell of stage {cell['stage']}"
        failures.near(cell["width"], cell["row"] * stage["blocks"] / plan["blocks"], PIXELS, name)
        failures.equal(len(cell["runs"]), len(stage["configs"]), f"{name}: runs")
        for width, config in zip(cell["runs"], stage["configs"]):
            failures.near(width, sum(cell["runs"]) * config["blocks"] / stage["blocks"], PIXELS, f"{name}: a run")
        looks.setdefault(stage["gpu"], set()).add(cell["background"])
    failures.check(all(len(colours) == 1 for colours in looks.values()), f"one type has several colours: {looks}")
    failures.equal(len({min(colours) for colours in looks.values()}), len(looks), "colours of types")


def check_memory(failures, plan, page):
    stages = stages_of(plan)
    failures.equal([row["stage"] for row in page["memory"]], list(stages), "rows of memory")
    for row in page["memory"]:
        stage, _ = stages[row["stage"]]
        wanted = row["rail"] * stage["memory_bytes"] / stage["capacity_bytes"]
        failures.near(row["used"], wanted, PIXELS, f"memory of stage {row['stage']}")


def names_of(plan, run):
    """Returns names such as 'embedding, layer.0–6' as single names, with ranges expanded."""
    blocks = range(run["first_block"], run["first_block"] + run["blocks"])
    layers = [block - 1 for block in blocks if 0 < block < plan["blocks"] - 1]
    names = ["embedding"] * (0 in blocks)
    if layers:
        names.append(f"layer.{layers[0]}" + f"–{layers[-1]}" * (len(layers) > 1))
    return ", ".join(names + ["head"] * (plan["blocks"] - 1 in blocks))


def check_programs(failures, plan, page):
    stages, programs = stages_of(plan), plan.get("programs", [])
    if not programs:
        failures.equal([page["classes"], page["hosts"], page["ranks"]], [[], [], []], "what programs would say")
        return
    failures.equal([row["stage"] for row in page["classes"]], list(stages), "rows of classes")
    for row in page["classes"]:
        memory = programs[stages[row["stage"]][0].get("program", 0)]["memory"]
        parts, total = row["parts"], memory["device_bytes"] + memory.get("reserved_bytes", 0)
        for name, size in memory["by_class"].items():
            failures.equal(parts[name], size, f"{name} of stage {row['stage']}")
        failures.equal(sum(parts.values()), total, f"all classes of stage {row['stage']}")
        failures.check(0 < row["used"] <= row["width"] + PIXELS, f"bar of stage {row['stage']}")
    on_hosts = [stage["node"] for stage, _ in stages.values() if stage.get("host_bytes")]
    failures.equal([row[0] for row in page["hosts"]], on_hosts, "nodes with something on their hosts")
    wanted = [stage["node"] for stage, _ in stages.values()] + [""] * bool(plan.get("idle_ranks"))
    failures.equal([row[1] for row in page["ranks"]], wanted, "nodes of ranks")
    blocks = [names_of(plan, stage) for stage, _ in stages.values()] + [""] * bool(plan.get("idle_ranks"))
    failures.equal([row[4] for row in page["ranks"]], blocks, "blocks of ranks")


def check_words(failures, plan, page):
    failures.check("simulated" in page["text"].lower()[:60], "the top of the page does not say simulated")
    failures.check(pages.HOSTILE in page["text"], "text of the document is not shown as it is")
    for stage, _ in stages_of(plan).values():
        failures.check(stage["node"] in page["text"], f"the page does not name {stage['node']}")
    failures.equal(page["images"], 0, "elements made from text")
    failures.equal(page["scripts"], 2, "scripts")
    failures.equal(page["resources"], [], "resources")
    failures.equal(page["unnamed"], 0, "drawings and buttons without a name")
    failures.equal(page["overflow"], 0, "pixels wider than the screen")


BAR = """
const rect = document.querySelectorAll("#timeline g.lane rect")[0];
rect.scrollIntoView({ block: "center" });
const box = rect.getBoundingClientRect();
return { x: box.x + box.width / 2, y: box.y + box.height / 2, width: box.width };
"""


def check_use(failures, plan, browser):
    bar = browser.script(BAR)
    browser.settle()
    browser.mouse("mouseMoved", bar["x"], bar["y"])
    tip = browser.script(pages.TIP)
    first = plan["pipelines"][0]["stages"][0]
    failures.check("forward, micro-batch 1" in tip and first["node"] in tip, f"the tooltip says {tip!r}")
    browser.mouse("mouseMoved", 2, 2)
    failures.equal(browser.script(pages.TIP), "", "the tooltip outside")
    for button, factor in ((0, 2), (1, 1), (0, 2), (2, 1)):
        browser.script(f"document.querySelectorAll('#timeline-tools button')[{button}].click()")
        browser.settle()
        failures.near(browser.script(BAR)["width"], factor * bar["width"], 0.1, f"zoom button {button}")
    browser.script("document.querySelector('#timeline svg').focus()")
    pages.press(browser, "+", text="+")
    failures.near(browser.script(BAR)["width"], 2 * bar["width"], 0.1, "the key +")
    pages.press(browser, "0", text="0")
    failures.near(browser.script(BAR)["width"], bar["width"], 0.1, "the key 0")


def check_page(failures, program, folder, browser, name, plan):
    plan = {**plan, "generator": pages.HOSTILE}
    source, target = os.path.join(folder, f"{name}.json"), os.path.join(folder, f"{name}.html")
    with open(source, "w", encoding="utf-8") as handle:
        json.dump(plan, handle)
    plans.run(program, "inspect", source, "--html", target)
    with open(target, encoding="utf-8") as handle:
        text = handle.read()
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", text))
    failures.equal(addresses - {"http://www.w3.org/2000/svg"}, set(), "addresses")
    for width, height, look in ((1280, 900, name), (390, 844, f"{name}-phone")):
        browser.screen(width, height)
        browser.open(target)
        page = browser.script(READ)
        if all("starts_us" in stage for stage, _ in stages_of(plan).values()):
            check_timeline(failures, plan, page)
        else:
            failures.check("does not say when passes start" in page["text"], "the page says nothing of the timeline")
        check_owners(failures, plan, page)
        check_memory(failures, plan, page)
        check_programs(failures, plan, page)
        check_words(failures, plan, page)
        browser.shot(look)
    browser.screen(1280, 900)
    browser.open(target)
    if page["lanes"]:
        check_use(failures, plan, browser)
        pages.check_schemes(failures, browser, target)
    failures.equal(browser.complaints(), [], "complaints")


def made(program, folder, model, cluster, *options):
    path = os.path.join(folder, "made.json")
    plans.run(program, "plan", os.path.join(plans.ROOT, "examples/models", f"{model}.json"), "--cluster",
              os.path.join(plans.ROOT, "examples/clusters", f"{cluster}.json"), "--effort", "quick", "-o", path, *options)
    with open(path, encoding="utf-8") as handle:
        return json.load(handle)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--shots")
    options = parser.parse_args()
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        print("Chromium or its driver is not installed; scripts/setup test installs them")
        return 77
    failures = plans.Failures()
    with tempfile.TemporaryDirectory() as folder, open(GOLDEN, encoding="utf-8") as handle:
        golden = json.load(handle)
        silent = json.loads(json.dumps(golden))
        for stage, _ in stages_of(silent).values():
            del stage["starts_us"]
        several = made(options.program, folder, "tiny", "mix-a100-h800-h20", "--batch", "64")
        failures.check(len(several["pipelines"]) > 1, "the plan has one pipeline: choose another")
        hosts = made(options.program, folder, "llama-2-7b", "desktops-4090-3090", "--batch", "8", "--seq", "512")
        failures.check(any(stage.get("host_bytes") for stage, _ in stages_of(hosts).values()), "nothing is on hosts")
        browser = pages.Browser(folder, options.shots)
        try:
            for name, plan in {"golden": golden, "silent": silent, "several": several, "hosts": hosts}.items():
                before = len(failures.texts)
                check_page(failures, options.program, folder, browser, name, plan)
                failures.texts[before:] = [f"{name}: {text}" for text in failures.texts[before:]]
        finally:
            browser.driver.quit()
    return failures.finish()


if __name__ == "__main__":
    sys.exit(main())
