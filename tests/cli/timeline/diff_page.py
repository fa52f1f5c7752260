#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of `diff --html` in a headless Chromium, against what both plans and `diff --json` say.

diff_page.py --program build/cli/autohete [--shots FOLDER]
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import page
import plans

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples")
FIELDS = ("activations", "weights", "optimizer", "accumulator")

READ = """
const all = (selector) => [...document.querySelectorAll(selector)];
return {
  numbers: Object.fromEntries(all("#headline [data-number]").map((tile) =>
    [tile.dataset.number, tile.querySelector(".small").textContent])),
  cells: all("#strips .cell").map((cell) => [cell.dataset.field, +cell.dataset.block, cell.dataset.value]),
  marks: all("#strips .changed").map((mark) => [mark.dataset.field, +mark.dataset.block,
    mark.getBoundingClientRect().width > 0]),
  title: document.getElementById("blocks-title").textContent,
  ranges: all("#change-table tbody tr").map((row) => [...row.querySelectorAll("td")].map((cell) => cell.textContent)),
  stacks: all("#memory .stack").map((stack) => [...stack.children].map((part) =>
    [part.dataset.class, +part.dataset.bytes, part.getBoundingClientRect().width])),
  signature: !document.getElementById("signature").hidden,
  verdict: document.getElementById("verdict").textContent,
  orders: all("#lane-table tbody tr").map((row) => row.lastElementChild.textContent),
  unnamed: all("svg:not([aria-hidden]):not([aria-label])").length,
  overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
};
"""


def plan(program, path, *options):
    subprocess.run([program, "plan", f"{EXAMPLES}/models/gpt2-355m.json", "--machine",
                    f"{EXAMPLES}/machines/rtx4090-64g.json", "--effort", "quick", *options, "-o", path],
                   check=True, capture_output=True)
    with open(path, encoding="utf-8") as handle:
        return json.load(handle)


def diff(program, a, b, *options):
    return subprocess.run([program, "diff", a, b, *options], check=False, capture_output=True, text=True)


def percents(before, after):
    share = 100 * (after / before - 1)
    return "same" if before == after else f"{'−' if share < 0 else '+'}{abs(share):.1f}\u00a0%"


def check_page(failures, a, b, said, drawn):
    for name, was, now in (
        ("Tokens per second, simulated", a["tokens_per_s"], b["tokens_per_s"]),
        ("Time of a step, simulated", a["time"]["step_us"], b["time"]["step_us"]),
        ("Host memory", a["memory"]["host_bytes"], b["memory"]["host_bytes"]),
    ):
        failures.equal(drawn["numbers"].get(name), percents(was, now), name)
    gain = b["tokens_per_s"] / a["tokens_per_s"]
    verdict = f"{abs(100 * (gain - 1)):.1f}\u00a0% {'more' if gain > 1 else 'fewer'}" if a is not b else "as many"
    failures.check(verdict in drawn["verdict"], f"verdict: {drawn['verdict']}")
    cells = [cell for cell in drawn["cells"] if cell[0] in ("activations", "weights", "optimizer")]
    defaults = {"activations": "keep", "weights": "device", "optimizer": "device"}
    wanted = [[field, i, block.get(field, default)] for field, default in defaults.items() for side in (a, b)
              for i, block in enumerate(side["blocks"])]
    failures.equal(cells, wanted, "cells of blocks")
    changed = {(field, i) for i, (x, y) in enumerate(zip(a["blocks"], b["blocks"]))
               for field in FIELDS if x.get(field) != y.get(field)}
    failures.equal({(field, i) for field, i, shown in drawn["marks"] if shown}, changed, "marks")
    blocks = len({i for _, i in changed})
    failures.equal(drawn["title"], f"{blocks} of {len(a['blocks'])} blocks changed", "title of blocks")
    failures.equal(said["plan"]["blocks_changed"], blocks, "blocks that changed")
    failures.equal([row[1:] for row in drawn["ranges"]], [[row["a"], row["b"]] for row in said["plan"]["blocks"]],
                   "ranges of blocks")
    for side, stack in zip((a, b), drawn["stacks"]):
        memory = side["memory"]
        failures.equal(sum(size for _, size, _ in stack), memory["device_bytes"] + memory["reserved_bytes"],
                       "bytes of the memory's classes")
        for name, size in memory["by_class"].items():
            failures.equal(dict((part[0], part[1]) for part in stack)[name], size, f"bytes of {name}")
    failures.equal(drawn["signature"], not said["plan"]["same_signature"], "warning of another training")
    failures.equal(drawn["orders"],
                   ["same" if same else "changed" for same in said["plan"]["same_order"].values()], "orders")
    failures.equal(drawn["unnamed"], 0, "drawings without a name")


def check(failures, program, folder, browser):
    names = [f"{folder}/{name}.json" for name in ("a", "b", "c")]
    a = plan(program, names[0], "--device-memory", "2GiB")
    b = plan(program, names[1], "--device-memory", "4GiB")
    c = plan(program, names[2], "--device-memory", "4GiB", "--batch", "4")
    for old, new, x, y in ((names[0], names[1], a, b), (names[1], names[2], b, c), (names[0], names[0], a, a)):
        made = diff(program, old, new, "--html", f"{folder}/diff.html")
        failures.equal(made.returncode, int(old != new), "exit status")
        failures.equal(made.stdout, "", "standard output")
        said = json.loads(diff(program, old, new, "--json").stdout)
        if old == new:
            said["plan"] = {**said["plan"], "blocks": []}
        for width in (1280, 390):
            browser.screen(width, 900)
            browser.open(f"{folder}/diff.html")
            drawn = browser.script(READ)
            check_page(failures, x, y, said, drawn)
            failures.equal(drawn["overflow"], 0, f"overflow at {width}")
            browser.shot(f"diff-{os.path.basename(old)}-{os.path.basename(new)}-{width}")
    failures.equal(browser.complaints(), [], "complaints")


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
        browser = page.Browser(folder, options.shots)
        try:
            check(failures, options.program, folder, browser)
        finally:
            browser.driver.quit()
    return failures.finish()


if __name__ == "__main__":
    sys.exit(main())
