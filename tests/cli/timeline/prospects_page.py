#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `plan --explain --sweep --html` draws, in a headless Chromium, against what the same command prints as JSON; and
the page of the plan alone, which has the cause but no tables.

prospects_page.py --program build/cli/autohete [--shots FOLDER]
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
REQUEST = ["--device-memory", "2GiB", "--effort", "quick", "--explain", "--sweep", "batch=4,8,512"]

READ = """
const rows = (id) => [...document.querySelectorAll(`#${id} tbody tr`)].map((row) => ({ change: row.dataset.change,
  feasible: row.dataset.feasible, asked: row.className === "this",
  cells: [...row.querySelectorAll("td")].map((cell) => cell.textContent) }));
return { explain: rows("explain-table"), sweep: rows("sweep-table"), cause: document.getElementById("cause").textContent,
  shown: ["explain", "sweep"].map((id) => document.getElementById(id).getBoundingClientRect().height > 0),
  overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth };
"""


def plan(program, folder, output):
    command = [program, "plan", f"{EXAMPLES}/models/gpt2-355m.json", "--machine",
               f"{EXAMPLES}/machines/rtx4090-64g.json", *REQUEST, "--html", f"{folder}/found.html", "-o", output]
    said = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout
    subprocess.run([program, "inspect", output, "--html", f"{folder}/alone.html"], check=True, capture_output=True)
    return json.loads(said)


def check_found(failures, said, drawn):
    failures.equal(drawn["shown"], [True, True], "sections are shown")
    failures.equal([row["change"] for row in drawn["explain"]], [row["change"] for row in said["explain"]["changes"]],
                   "changes")
    for row, wanted in zip(drawn["explain"][1:], said["explain"]["changes"][1:]):
        gain = f"{wanted['gain']:.2f}\u00a0×" if wanted["gain"] > 1.005 else "none"
        failures.equal(row["cells"][3], gain, f"gain of {wanted['change']}")
    failures.equal([row["feasible"] for row in drawn["sweep"]], ["true", "true", "false"], "what fits")
    failures.equal([row["asked"] for row in drawn["sweep"]], [False, True, False], "as asked")
    failures.check("device memory is short by" in drawn["sweep"][2]["cells"][5], f"shortage: {drawn['sweep'][2]}")


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
            said = plan(options.program, folder, f"{folder}/plan.json")
            for width in (1280, 390):
                browser.screen(width, 900)
                browser.open(f"{folder}/found.html")
                drawn = browser.script(READ)
                check_found(failures, said, drawn)
                failures.check(said["explain"]["limits"].startswith(drawn["cause"]), f"cause: {drawn['cause']}")
                failures.equal(drawn["overflow"], 0, f"overflow at {width}")
                browser.script("document.getElementById('explain').scrollIntoView()")
                browser.shot(f"prospects-{width}")
            browser.open(f"{folder}/alone.html")
            drawn = browser.script(READ)
            failures.equal(drawn["shown"], [False, False], "sections of the plan alone")
            failures.check("blocks" in drawn["cause"], f"cause of the plan alone: {drawn['cause']}")
            failures.equal(browser.complaints(), [], "complaints")
        finally:
            browser.driver.quit()
    return failures.finish()


if __name__ == "__main__":
    sys.exit(main())
