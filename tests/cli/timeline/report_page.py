#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of `report --html` in a headless Chromium, against what `report --csv` and `report --json` say of a run.

report_page.py --program build/cli/autohete [--shots FOLDER]
"""

import argparse
import csv
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

import page
import plans

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
DOCUMENTS = os.path.join(ROOT, "tests", "cli", "documents")
MANY = 20000   # steps of the long log
SAID = 1000    # steps between its samples
SPIKE = 12345  # the step whose loss leaps

READ = """
const all = (selector, of) => [...(of || document).querySelectorAll(selector)];
return {
  data: JSON.parse(document.getElementById("data").textContent),
  tiles: Object.fromEntries(all("#headline [data-number]").map((tile) =>
    [tile.dataset.number, [tile.querySelector(".number").textContent, tile.querySelector(".small").textContent]])),
  curves: Object.fromEntries(all(".curve").map((curve) => [curve.dataset.curve, {
    lines: all("[data-series]", curve).map((line) => ({ name: line.dataset.series, points: +line.dataset.points,
      value: line.dataset.value && +line.dataset.value, d: line.getAttribute("d") })),
    circles: all("circle[class^='s-']:not(.legend circle)", curve).length,
    marks: all("[data-mark]", curve).map((mark) => [mark.dataset.mark, +mark.dataset.step]) }])),
  samples: all("#samples article").map((each) => [each.querySelector("h3").textContent,
    all("dt", each).map((when) => [when.textContent, when.nextSibling.textContent])]),
  evaluations: all("#evaluation-table tbody tr").map((row) => row.textContent),
  times: all("#time-table tbody tr").map((row) => [...row.children].map((cell) => cell.textContent)),
  cause: document.getElementById("cause").textContent,
  images: all("img, b").length, scripts: all("script").length,
  unnamed: all("svg:not([aria-hidden]):not([aria-label]), button:not([aria-label])").filter(
    (element) => !element.closest("[aria-hidden]")).length,
  overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
};
"""


def run(program, folder, *arguments, status=0):
    made = subprocess.run([program, *arguments], cwd=folder, check=False, capture_output=True, text=True)
    if made.returncode != status:
        raise RuntimeError(f"{arguments}: {made.returncode}, {made.stderr}")
    return made


def train(program, folder):
    """Makes the log of a run with evaluations and checkpoints, which was resumed once."""
    for name, times in (("text.txt", 300), ("held.txt", 30)):
        with open(f"{folder}/{name}", "w", encoding="ascii") as file:
            file.write("what was said once is said again, and again. " * times)
    shutil.copy(f"{DOCUMENTS}/machine-cpu.json", f"{folder}/machine.json")  # so that the MFU is known
    run(program, folder, "plan", f"{DOCUMENTS}/model-least.json", "--machine", "machine.json",
        "--batch", "4", "--seq", "32", "--effort", "quick", "-o", "plan.json")
    options = ("--valid", "held.txt", "--valid-every", "4", "--save", "out", "--save-every", "6", "--log", "run.ndjson")
    run(program, folder, "run", "plan.json", "--data", "text.txt", "--steps", "12", "--lr", "1e-3", *options)
    shutil.rmtree(f"{folder}/out/step-00000012")
    run(program, folder, "run", "plan.json", "--data", "text.txt", "--resume", "out", *options)


def report(program, folder, log):
    made = run(program, folder, "report", log, "--html", "page.html", "--csv", "rows.csv", "--json", "--force")
    with open(f"{folder}/rows.csv", encoding="ascii", newline="") as file:
        return json.loads(made.stdout), list(csv.DictReader(file))


def check_rows(failures, rows, data):
    """All numbers of the table are in the page, and no others."""
    failures.equal(data["step"], [int(row["step"]) for row in rows], "steps of rows")
    for name in rows[0]:
        wanted = [float(row[name]) if row[name] else None for row in rows]
        if any(value is not None for value in wanted):
            wrong = [pair for pair in zip(data.get(name, []), wanted) if pair[0] != pair[1]]
            failures.equal((len(data.get(name, [])), wrong[:3]), (len(wanted), []), f"numbers of {name}")
        else:
            failures.check(name not in data, f"{name} has no number, and is in the page")


def percents(share):
    return f"{'−' if share < 0 else '+'}{abs(100 * share):.1f}\u00a0%"


def check_numbers(failures, said, drawn):
    tiles, measured, last = drawn["tiles"], said["measured"], said["evaluations"][-1]
    failures.equal(drawn["data"]["report"], said, "the report")
    failures.equal(float(tiles["loss"][0]), float(f"{said['last_loss']:.6g}"), "last loss")
    failures.equal(float(tiles["valid_loss"][0]), float(f"{last['loss']:.6g}"), "held-out loss")
    failures.check(f"perplexity {math.exp(last['loss']):.3g}" in tiles["valid_loss"][1], f"perplexity: {tiles['valid_loss']}")
    for name in ("step_us", "tokens_per_s", "device_bytes", "host_bytes"):
        failures.check(percents(said["errors"][name]) in tiles[name][1], f"error of {name}: {tiles[name]}")
    failures.equal([row[3] for row in drawn["times"][:2]],
                   [percents(said["errors"][name]) for name in ("step_us", "compute_us")], "errors of times")
    failures.equal(len(drawn["evaluations"]), len(said["evaluations"]), "rows of evaluations")
    failures.check(measured["step_us"] > 0 and "than predicted" in drawn["cause"], f"cause: {drawn['cause']}")


def check_curves(failures, rows, said, drawn):
    curves = drawn["curves"]
    count = {name: sum(1 for row in rows if row[name]) for name in rows[0]}
    failures.equal([(line["name"], line["points"]) for line in curves["loss"]["lines"]],
                   [(name, count[name]) for name in ("loss", "valid_loss")], "lines of losses")
    failures.equal(curves["loss"]["circles"], count["valid_loss"], "circles of evaluations")
    for name, predicted in (("grad_norm", None), ("lr", None), ("mfu", None), ("tokens_per_s", said["predicted"]["tokens_per_s"]),
                            ("step_ms", said["predicted"]["step_us"] / 1000)):
        lines = curves[name]["lines"]
        failures.equal((lines[0]["name"], lines[0]["points"]), (name, count[name]), f"line of {name}")
        failures.equal([line["value"] for line in lines[1:]], [predicted] if predicted else [], f"prediction of {name}")
        marks = [["evaluated", each["step"]] for each in said["evaluations"]]
        marks += [["saved", each["step"]] for each in said["saves"]]
        marks += [["resumed", 6]]
        failures.equal(curves[name]["marks"], marks, f"marks of {name}")
    failures.equal(said["resumes"], [6], "resumes")
    failures.equal(drawn["unnamed"], 0, "drawings without a name")


def tip(browser):
    return browser.script("const tip = document.getElementById('tip'); return tip.hidden ? '' : tip.innerText;")


def middle_of(browser, name):
    browser.script("document.querySelector(`[data-curve=${arguments[0]}] > svg`).scrollIntoView({ block: 'center' });",
                   name)
    browser.settle()  # scrolling hides the tooltip
    box = browser.script("const chart = document.querySelector(`[data-curve=${arguments[0]}] > svg`);"
                         "const box = chart.getBoundingClientRect();"
                         "return [box.x, box.y, box.width, box.height];", name)
    return box[0] + box[2] / 2, box[1] + box[3] / 2


def check_use(failures, browser, rows):
    steps = {int(row["step"]): row for row in rows if row["loss"]}
    for name in ("loss", "step_ms"):
        x, y = middle_of(browser, name)
        browser.mouse("mouseMoved", x, y)
        said = tip(browser)
        step = next((step for step in steps if f"step {step}\n" in said), None)
        failures.check(step is not None and f"loss: {float(steps[step]['loss']):.4f}" in said
                       and "tokens: " in said and "learning rate: " in said, f"tooltip of {name}: {said}")
        failures.equal(browser.script("return document.querySelectorAll('.curve .cursor').length"),
                       browser.script("return document.querySelectorAll('.curve').length"), "cursors in all charts")
    middle_of(browser, "loss")  # else the focus scrolls, which hides the tooltip some frames later
    browser.mouse("mouseMoved", 1, 1)
    browser.script("document.querySelector('[data-curve=loss] > svg').focus();")
    browser.settle()
    for key, text in (("End", "step 12\n"), ("Home", "before the first step"), ("ArrowRight", "step 1\n")):
        browser.command("Input.dispatchKeyEvent", type="keyDown", key=key)
        browser.settle()
        failures.check(text in tip(browser), f"after {key}: {tip(browser)}")
    failures.check("step 1." in browser.script("return document.getElementById('live').textContent"), "what is read aloud")
    browser.command("Input.dispatchKeyEvent", type="keyDown", key="+", text="+")
    browser.settle()
    shown = browser.script("return axis.view.to - axis.view.from")
    failures.check(shown < 12, f"steps in view after a zoom: {shown}")


def check_looks(failures, browser, path):
    papers = []
    for dark in (False, True):
        browser.screen(1280, 900, dark=dark)
        browser.open(path)
        papers.append(browser.script("return getComputedStyle(document.body).backgroundColor"))
        browser.shot(f"report-{'dark' if dark else 'light'}")
    failures.check(papers[0] != papers[1], f"light and dark: {papers}")
    browser.screen(390, 900)
    browser.open(path)
    failures.equal(browser.script(READ)["overflow"], 0, "overflow on a small screen")
    browser.shot("report-small")
    browser.screen(800, 1100, media="print")
    browser.open(path)
    failures.equal(browser.script("return getComputedStyle(document.querySelector('.tools')).display"), "none", "tools on paper")
    browser.shot("report-print")
    browser.screen(1280, 900)


def lengthen(folder):
    """Writes a log of many steps, one of whose losses leaps, from a model whose name is hostile."""
    with open(f"{folder}/run.ndjson", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    head, step = lines[0], next(line for line in lines if line.get("line") == "step")
    head["device"] = page.HOSTILE
    sample = {"line": "sample", "prompt": page.HOSTILE, "text": page.HOSTILE + " word" * 200 + "y" * 500}
    with open(f"{folder}/long.ndjson", "w", encoding="utf-8") as file:
        file.write(json.dumps(head) + "\n")
        for number in range(1, MANY + 1):
            loss = 50 if number == SPIKE else 2 + 3 / number
            file.write(json.dumps({**step, "step": number, "loss": loss}) + "\n")
            if number % SAID == 0:
                file.write(json.dumps({**sample, "step": number, "data": "what was said\nagain"}) + "\n")


def check_long(failures, program, folder, browser):
    lengthen(folder)
    _, rows = report(program, folder, "long.ndjson")
    browser.screen(1280, 900)
    browser.open(f"{folder}/page.html")
    browser.settle()
    drawn = browser.script(READ)
    check_rows(failures, rows, drawn["data"]["rows"])
    raw, mean = drawn["curves"]["loss"]["lines"][:2]
    failures.equal(len(drawn["data"]["rows"]["loss"]), MANY, "losses in the page")
    for line in (raw, mean):
        failures.check(100 < line["points"] < 2600, f"points that are drawn of {MANY}: {line['points']}")
    least = [min(float(point.split()[1]) for point in line["d"][1:].split("L")) for line in (raw, mean)]
    failures.check(least[0] < 30 < least[1], f"the leap is drawn, and not in the means: {least}")
    failures.equal((drawn["images"], drawn["scripts"]), (0, 2), "elements made by a hostile name")
    (prompt, said), = drawn["samples"]
    failures.equal(prompt, page.HOSTILE, "prompt")
    failures.equal([when for when, _ in said],
                   [f"after step {step}" for step in range(SAID, MANY + 1, SAID)] + ["in the data"], "moments of samples")
    failures.equal((said[0][1][:len(prompt)], said[-1][1]), (page.HOSTILE, "what was said\nagain"), "what is said")
    browser.shot("report-long")
    browser.screen(390, 900)
    browser.open(f"{folder}/page.html")
    failures.equal(browser.script(READ)["overflow"], 0, "overflow of samples on a small screen")
    browser.shot("report-long-small")


def check(failures, program, folder, browser):
    train(program, folder)
    said, rows = report(program, folder, "run.ndjson")
    browser.screen(1280, 900)
    browser.open(f"{folder}/page.html")
    browser.settle()
    drawn = browser.script(READ)
    check_rows(failures, rows, drawn["data"]["rows"])
    check_numbers(failures, said, drawn)
    check_curves(failures, rows, said, drawn)
    failures.equal((drawn["overflow"], drawn["samples"]), (0, []), "overflow, samples")
    check_use(failures, browser, rows)
    check_looks(failures, browser, f"{folder}/page.html")
    check_long(failures, program, folder, browser)
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
            check(failures, os.path.abspath(options.program), folder, browser)
        finally:
            browser.driver.quit()
    return failures.finish()


if __name__ == "__main__":
    sys.exit(main())
