#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of a plan in a headless Chromium: what it draws against what the plan and its simulation say.

page.py --program build/cli/autohete [--shots FOLDER]      FOLDER gets a picture of every state looked at
"""

import argparse
import collections
import json
import os
import re
import shutil
import sys
import tempfile

import plans

SIZE_MAX = 2_000_000
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> \" & ' <b>bold</b>"
STRIPS = ("activations", "weights", "optimizer")
DEFAULTS = {"activations": "keep", "weights": "device", "optimizer": "device"}

# Reads what is drawn from the elements. Widths are in µs (attributes) and pixels (boxes).
READ = """
const all = (selector, of) => [...(of || document).querySelectorAll(selector)];
const chart = document.querySelector("#timeline svg");
return {
  lanes: all("#timeline g.lane").map((lane) => ({ name: lane.dataset.lane, bars: all("rect", lane).map((rect) => ({
    kind: rect.classList[1].slice(2), tiles: +rect.dataset.tiles,
    mine: !rect.classList.contains("beside"), x: +rect.getAttribute("x"),
    width: +rect.getAttribute("width"), pixels: rect.getBoundingClientRect().width })) })),
  chart: chart.getBoundingClientRect().width,
  areas: all("#timeline path.area").map((path) => [path.dataset.part, path.getAttribute("d")]),
  peak_bytes: +document.querySelector("[data-peak-bytes]").dataset.peakBytes,
  capacity: all("#timeline line.capacity").map((line) => [+line.dataset.bytes, +line.getAttribute("y1")]),
  cells: all(".cell").map((cell) => ({ block: +cell.dataset.block, field: cell.dataset.field, value: cell.dataset.value,
    background: getComputedStyle(cell).backgroundImage + getComputedStyle(cell).backgroundColor,
    width: cell.getBoundingClientRect().width })),
  policies: all("#policies tr[data-policy]").map((row) => ({ policy: row.dataset.policy, feasible: row.dataset.feasible,
    rail: row.querySelector(".rail").getBoundingClientRect().width,
    bar: row.querySelector(".step, .limit")?.getBoundingClientRect().width ?? null, text: row.textContent })),
  text: document.body.innerText, title: document.title, images: all("img, b").length, scripts: all("script").length,
  resources: performance.getEntriesByType("resource").map((entry) => entry.name),
  overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  unnamed: all("svg:not([aria-hidden]):not([aria-label]), button:not([aria-label])").filter(
    (element) => !element.closest("[aria-hidden]")).length,
};
"""


class Browser:
    def __init__(self, folder, shots):
        from selenium import webdriver
        from selenium.webdriver.chrome.options import Options
        from selenium.webdriver.chrome.service import Service

        options = Options()
        for argument in (
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            f"--user-data-dir={folder}/chromium",
            "--force-prefers-reduced-motion",
        ):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
        self.driver.set_script_timeout(60)
        self.shots = shots

    def command(self, name, **values):
        return self.driver.execute_cdp_cmd(name, values)

    def screen(self, width, height, dark=False, media=""):
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.command(
            "Emulation.setEmulatedMedia",
            media=media,
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )

    def open(self, path):
        self.driver.get(f"file://{path}")

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def settle(self):
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()));"
        )

    def mouse(self, kind, x, y, **more):
        self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)
        self.settle()

    def shot(self, name):
        if self.shots:
            self.driver.save_screenshot(os.path.join(self.shots, f"{name}.png"))

    def complaints(self):
        """Returns messages of the console, and every request that a page makes for something other than itself."""
        said = [entry["message"] for entry in self.driver.get_log("browser")]
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent" and message["params"]["documentURL"].startswith(
                "file:"
            ):
                url = message["params"]["request"]["url"]
                if not url.startswith("data:") and url != message["params"]["documentURL"]:
                    said.append(f"requested {url}")
        return said



def check_lanes(failures, plan, said, page, joined=False):
    failures.equal([lane["name"] for lane in page["lanes"]], list(plans.LANES), "lanes")
    for lane in page["lanes"]:
        name = lane["name"]
        mine = [bar for bar in lane["bars"] if bar["mine"]]
        if not joined:
            failures.equal({bar["tiles"] for bar in mine} - {1}, set(), f"{name}: bars of several tiles")
        failures.equal(
            sum(bar["tiles"] for bar in mine), 2 * plans.mentions(plan, name), f"{name}: tiles of two iterations"
        )
        wanted = collections.Counter()
        for op in plan["ops"]:
            if op["lane"] == name:
                wanted[op["op"]] += 2 * op.get("tiles", 1)
        found = collections.Counter()
        for bar in mine:
            found[bar["kind"]] += bar["tiles"]
        failures.equal(found, wanted, f"{name}: tiles by kind")
        busy = said["lanes"][name]["busy_us"]
        failures.near(
            sum(bar["width"] for bar in mine), 2 * busy, 0.0011 * (len(mine) + 1) + 1e-6 * busy, f"{name}: widths"
        )
        for before, behind in zip(lane["bars"], lane["bars"][1:]):
            failures.check(
                before["x"] + before["width"] <= behind["x"] + 0.002, f"{name}: bars overlap at {behind['x']}"
            )
        span = max(bar["x"] + bar["width"] for other in page["lanes"] for bar in other["bars"] if bar["mine"])
        for bar in mine[:50]:
            failures.near(bar["pixels"], bar["width"] * page["chart"] / span, 0.6, f"{name}: pixels of a bar")


def upper_edges(path):
    """Returns (end in µs, y) of the steps of an area's upper edge."""
    steps = []
    for y, x in re.findall(r"V([-\d.]+)H([-\d.]+)", path):
        if steps and float(x) <= steps[-1][0]:
            break
        steps.append((float(x), float(y)))
    return steps


def y_at(steps, us):
    return next((y for end, y in steps if us < end), steps[-1][1])


def check_memory(failures, plan, page):
    memory = plan["memory"]
    reserve = memory.get("reserved_bytes", 0)
    failures.equal(page["peak_bytes"], memory["device_bytes"] + reserve, "the peak, with the reserve")
    edges = [(part, upper_edges(path)) for part, path in page["areas"]]
    zero = max(float(y) for _, path in page["areas"] for y in re.findall(r"V([-\d.]+)", path))
    top = min(y for _, steps in edges for _, y in steps)
    per_pixel = memory["device_bytes"] / (zero - top)
    for size, y in page["capacity"]:
        failures.equal(size, memory["device_capacity_bytes"], "the capacity line")
        failures.near((zero - y) * per_pixel, size - reserve, 2e-4 * size, "where the capacity line is")
    compute = [bar for bar in page["lanes"][0]["bars"] if bar["mine"]]
    positions = plan["arena"]["positions"]
    rows = plans.occupancy(plan)
    for k, bar in enumerate(compute):
        below = zero
        for part, steps in edges:
            y = y_at(steps, bar["x"] + bar["width"] / 2)
            failures.near(
                (below - y) * per_pixel, rows[k % positions][part], 0.03 * per_pixel, f"{part} at compute bar {k}"
            )
            below = y


def check_strip(failures, plan, page):
    for field in STRIPS:
        cells = sorted((c for c in page["cells"] if c["field"] == field), key=lambda c: c["block"])
        wanted = [block.get(field, DEFAULTS[field]) for block in plan["blocks"]]
        failures.equal([c["value"] for c in cells], wanted, f"{field} by block")
        looks = {c["value"]: c["background"] for c in cells}
        failures.equal(len(set(looks.values())), len(looks), f"{field}: looks of different values")
        failures.equal(
            len({(c["value"], c["background"]) for c in cells}), len(looks), f"{field}: looks of one value"
        )
        failures.check(min(c["width"] for c in cells) >= 2, f"{field}: cells narrower than two pixels")


def check_policies(failures, plan, page):
    rows = {row["policy"]: row for row in page["policies"]}
    alternatives = plan.get("alternatives", [])
    scale = rows[plan["policy"]]["bar"] / plan["time"]["step_us"]
    failures.near(max(row["bar"] or 0 for row in rows.values()), rows[""]["rail"], 0.7, "the longest bar")
    for alternative in alternatives:
        row = rows.get(alternative["policy"])
        if row is None:
            failures.check(False, f"no row for {alternative['policy']}")
        elif alternative["feasible"]:
            failures.near(row["bar"], alternative["step_us"] * scale, 0.7, f"bar of {alternative['policy']}")
        else:
            failures.check(
                row["bar"] is None and "does not fit" in row["text"],
                f"{alternative['policy']} does not say that it does not fit",
            )
    if plan["solver"].get("bound_us", 0) > 0:
        failures.near(rows[""]["bar"], plan["solver"]["bound_us"] * scale, 0.7, "bar of the bound")


def check_words(failures, page):
    failures.check("simulated" in page["text"].lower()[:60], "the top of the page does not say simulated")
    failures.check(
        "distance from the best possible step" in page["text"].lower(), "the page does not say how far the bound is"
    )
    failures.check(HOSTILE in page["text"], "text of the document is not shown as it is")
    failures.equal(page["images"], 0, "elements made from text")
    failures.equal(page["scripts"], 2, "scripts")
    failures.equal(page["resources"], [], "resources")
    failures.equal(page["unnamed"], 0, "drawings and buttons without a name")
    failures.equal(page["overflow"], 0, "pixels wider than the screen")


TIP = "const tip = document.getElementById('tip'); return tip.hidden ? '' : tip.innerText;"
WIDEST = """
const rects = [...document.querySelectorAll(`#timeline g[data-lane=${arguments[0]}] rect:not(.beside)`)];
const rect = rects.reduce((a, b) => +b.getAttribute("width") > +a.getAttribute("width") ? b : a);
rect.scrollIntoView({ block: "center" });
const box = rect.getBoundingClientRect();
return { x: box.x + box.width / 2, y: box.y + box.height / 2, width: box.width, kind: rect.classList[1].slice(2) };
"""
GAP = """
const gaps = [...document.querySelectorAll("#timeline g.lane")].flatMap((lane) => {
  const boxes = [...lane.querySelectorAll("rect:not(.beside)")].map((rect) => rect.getBoundingClientRect());
  return boxes.slice(1).map((box, k) => ({ x: (box.left + boxes[k].right) / 2, y: box.top + 12, width: box.left - boxes[k].right }));
});
return gaps.reduce((a, b) => b.width > a.width ? b : a);
"""
CHART = """
const box = document.querySelector("#timeline svg").getBoundingClientRect();
return { x: box.x, y: box.y, width: box.width, height: box.height };
"""


def check_tooltips(failures, plan, browser):
    for lane in plans.LANES:
        if not plans.mentions(plan, lane):
            continue
        bar = browser.script(WIDEST, lane)
        browser.settle()  # scrolling hides tooltips
        browser.mouse("mouseMoved", bar["x"], bar["y"])
        tip = browser.script(TIP)
        failures.check(
            bar["kind"].replace("_", " ") in tip and "iteration" in tip, f"{lane}: the tooltip says {tip!r}"
        )
    browser.shot("tooltip")
    gap = browser.script(GAP)
    browser.settle()
    browser.mouse("mouseMoved", gap["x"], gap["y"])
    tip = browser.script(TIP)
    failures.check(tip.startswith("idle for") and "waits" in tip, f"the widest pause: the tooltip says {tip!r}")
    browser.shot("pause")
    chart = browser.script(CHART)
    browser.mouse("mouseMoved", chart["x"] + chart["width"] / 3, chart["y"] + chart["height"] - 60)
    tip = browser.script(TIP)
    failures.check("weights" in tip or "activations" in tip, f"memory: the tooltip says {tip!r}")
    browser.mouse("mouseMoved", 2, 2)
    failures.equal(browser.script(TIP), "", "the tooltip outside")


def compute_pixels(browser):
    return browser.script(WIDEST, "compute")["width"]


def check_zoom(failures, browser):
    whole = compute_pixels(browser)
    bar = browser.script(WIDEST, "compute")
    browser.mouse("mouseWheel", bar["x"], bar["y"], deltaX=0, deltaY=-400, modifiers=2)
    failures.check(compute_pixels(browser) > 1.5 * whole, "the wheel does not zoom")
    browser.script("document.querySelectorAll('#timeline-tools button')[3].click()")
    browser.settle()
    failures.near(compute_pixels(browser), whole, 0.1, "the button for everything")
    chart = browser.script(CHART)
    left, right, y = chart["x"] + chart["width"] * 0.2, chart["x"] + chart["width"] * 0.4, chart["y"] + 90
    browser.mouse("mousePressed", left, y, button="left", buttons=1, clickCount=1)
    browser.mouse("mouseMoved", right, y, button="left", buttons=1)
    browser.mouse("mouseReleased", right, y, button="left", clickCount=1)
    failures.near(compute_pixels(browser), 5 * whole, 0.05 * whole + 0.1, "dragging a span")
    browser.shot("zoomed")
    browser.script("document.querySelectorAll('#timeline-tools button')[3].click()")
    browser.settle()


def press(browser, key, **more):
    for kind in ("keyDown", "keyUp"):
        browser.command("Input.dispatchKeyEvent", type=kind, key=key, **(more if kind == "keyDown" else {}))
    browser.settle()


def check_keyboard(failures, browser):
    browser.script("document.querySelector('#timeline svg').focus()")
    browser.settle()  # a focus that scrolls hides the tooltip
    said = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        press(browser, key)
        said.append(browser.script(TIP))
        live = browser.script("return document.getElementById('live').textContent")
        failures.check(said[-1].split("\n")[0] in live, f"{key}: said {live!r}, shown {said[-1]!r}")
    failures.check(all(said) and len(set(said)) == 3, f"arrow keys show {said!r}")
    before = compute_pixels(browser)
    press(browser, "+", text="+")
    failures.near(compute_pixels(browser), 2 * before, 0.1, "the key +")
    press(browser, "0", text="0")
    failures.near(compute_pixels(browser), before, 0.1, "the key 0")


COLOURS = """
const see = (selector) => getComputedStyle(document.querySelector(selector));
return [see("body").backgroundColor, see("h1").color, see("#subtitle").color, see("#bottleneck").color];
"""


def luminance(colour):
    parts = [int(n) / 255 for n in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def check_schemes(failures, browser, path):
    papers = []
    for dark in (False, True):
        browser.screen(1280, 900, dark)
        browser.open(path)
        paper, *inks = browser.script(COLOURS)
        papers.append(luminance(paper))
        for ink in inks:
            light, low = sorted((luminance(paper), luminance(ink)), reverse=True)
            failures.check((light + 0.05) / (low + 0.05) >= 4.5, f"{ink} on {paper} is hard to read")
        browser.shot("dark" if dark else "light")
    failures.check(papers[0] > 0.8 and papers[1] < 0.1, "light and dark schemes look alike")


def check_small_screen(failures, browser, path, plan, said):
    browser.screen(390, 844)
    browser.open(path)
    page = browser.script(READ)
    check_lanes(failures, plan, said, page)
    failures.equal(page["overflow"], 0, "on a phone: pixels wider than the screen")
    browser.shot("phone")
    browser.screen(1280, 900, media="print")
    browser.open(path)
    failures.check(
        len(browser.command("Page.printToPDF", printBackground=False)["data"]) > 20000, "nothing is printed"
    )
    browser.screen(1280, 900)


def check_joined(failures, program, folder, browser):
    """Checks a plan with more tiles than can be drawn smoothly: consecutive tiles of an op become one bar."""
    path, plan = plans.make(program, folder, "many-tiles")
    said = json.loads(plans.run(program, "simulate", path, "--json"))
    target = os.path.join(folder, "joined.html")
    plans.run(program, "inspect", path, "--html", target)
    failures.check(os.path.getsize(target) < SIZE_MAX, f"joined: {os.path.getsize(target)} bytes")
    browser.open(target)
    page = browser.script(READ)
    check_lanes(failures, plan, said, page, joined=True)
    bars, tiles = (
        sum(f(bar) for lane in page["lanes"] for bar in lane["bars"])
        for f in (lambda bar: 1, lambda bar: bar["tiles"])
    )
    failures.check(bars < 0.95 * tiles, f"joined: {bars} bars of {tiles} tiles")
    failures.check("drawn as one" in page["text"], "joined: the page does not say so")



def write_page(failures, program, folder, name):
    path, plan = plans.make(program, folder, name)
    said = json.loads(plans.run(program, "simulate", path, "--json"))
    plan["generator"] = HOSTILE
    with open(path, "w", encoding="utf-8") as handle:
        json.dump(plan, handle)
    page = os.path.join(folder, f"{name}.html")
    plans.run(program, "inspect", path, "--html", page)
    failures.check(
        plans.run(program, "inspect", path, "--html", "-") == open(page, "rb").read(),
        "standard output differs from the file",
    )
    with open(page, encoding="utf-8") as handle:
        text = handle.read()
    failures.check(len(text) < SIZE_MAX, f"{len(text)} bytes")
    failures.equal(
        set(re.findall(r"https?://[^\s\"'<>)]+", text)) - {"http://www.w3.org/2000/svg"}, set(), "addresses"
    )
    return page, plan, said


def check_plan(failures, program, folder, browser, name):
    path, plan, said = write_page(failures, program, folder, name)
    browser.screen(1280, 900)
    browser.open(path)
    page = browser.script(READ)
    check_lanes(failures, plan, said, page)
    check_memory(failures, plan, page)
    check_strip(failures, plan, page)
    check_policies(failures, plan, page)
    check_words(failures, page)
    if name == "every-lane":
        check_tooltips(failures, plan, browser)
        check_zoom(failures, browser)
        check_keyboard(failures, browser)
        check_schemes(failures, browser, path)
        check_small_screen(failures, browser, path, plan, said)
        check_joined(failures, program, folder, browser)
    if name == "example":
        failures.check(plan.get("alternatives"), "the plan has no alternatives: choose another")
    failures.equal(browser.complaints(), [], "complaints")
    browser.shot(name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--shots")
    options = parser.parse_args()
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        print("Chromium or its driver is not installed; scripts/setup test installs them")
        return 77
    failures = plans.Failures()
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(folder, options.shots)
        try:
            for name in (*plans.REQUESTS, "example"):
                before = len(failures.texts)
                check_plan(failures, options.program, folder, browser, name)
                failures.texts[before:] = [f"{name}: {text}" for text in failures.texts[before:]]
        finally:
            browser.driver.quit()
    return failures.finish()


if __name__ == "__main__":
    sys.exit(main())
