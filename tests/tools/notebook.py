#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the code cells of examples/notebook/fine-tune.ipynb in their order, in one namespace, without jupyter, and checks
what they leave: the losses, and the answers of the trained model.

    notebook.py --program build/test/cli/autohete [--write]     --write: measures the machine and keeps what
                                                                  the cells print in the notebook
"""
import argparse
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import types

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
NOTEBOOK = os.path.join(ROOT, "examples", "notebook", "fine-tune.ipynb")


def lines(text):
    return text.splitlines(keepends=True)


def run_cells(book):
    """Runs the cells and gives each its output. Returns their names."""
    names, count = {"__name__": "__main__"}, 0
    for cell in book["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile("".join(cell["source"]), f"{NOTEBOOK}: cell {count}", "exec"), names)
        print(said.getvalue(), end="", flush=True)
        cell["execution_count"] = count
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines(said.getvalue())}] if said.getvalue() else []
    return names


class Plot(types.ModuleType):
    """In the place of matplotlib.pyplot: keeps what is drawn."""
    drawn = []

    def __getattr__(self, name):
        return lambda *given, **_: self.drawn.append((name, given))


def check_plot(book, names):
    """The cell that draws does so where there is matplotlib."""
    cell = next("".join(cell["source"]) for cell in book["cells"] if "matplotlib" in "".join(cell["source"]))
    plot = Plot("matplotlib.pyplot")
    sys.modules.update({"matplotlib": types.ModuleType("matplotlib"), "matplotlib.pyplot": plot})
    sys.modules["matplotlib"].pyplot = plot
    exec(cell, names)
    points = next(given for name, given in plot.drawn if name == "plot")
    assert list(points[0]) == list(range(1, 189)) and points[1] == names["losses"] and plot.drawn[-1][0] == "show", plot.drawn


def check_form(book):
    assert book["nbformat"] == 4 and book["nbformat_minor"] == 5, book["nbformat"]
    ids = [cell["id"] for cell in book["cells"]]
    assert len(set(ids)) == len(ids), ids
    for cell in book["cells"]:
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | (
            {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()), cell["id"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    cache = tempfile.mkdtemp()
    os.environ.update(AUTOHETE=os.path.abspath(options.program), AUTOHETE_EXAMPLES=os.path.join(ROOT, "examples"),
                      XDG_CACHE_HOME=cache)
    if not options.write:
        os.environ["AUTOHETE_MACHINE"] = os.path.join(ROOT, "tests", "cli", "documents", "machine-cpu.json")
    sys.path.insert(0, os.path.join(ROOT, "scripts", "wheel"))
    sys.dont_write_bytecode = True
    with open(NOTEBOOK, encoding="utf-8") as file:
        book = json.load(file)
    check_form(book)
    sys.modules["matplotlib"] = None  # so that what is printed does not depend on it
    names = run_cells(book)
    try:
        check_plot(book, names)
        losses, answers = names["losses"], [answer["text"] for answer in names["answers"]]
        assert len(losses) == 188 and losses[0] > 4 and losses[-1] < 0.3, (len(losses), losses[0], losses[-1])
        assert answers == ["It trains models that do not fit the GPU's memory.", "No. The program is written in C."], answers
        assert answers != [answer["text"] for answer in names["before"]]
        assert names["ends"][-1]["line"] == "end" and names["ends"][-1]["reason"] == "done", names["ends"]
        assert names["report"]["measured"]["step_us"] > 0
    finally:
        shutil.rmtree(names["out"], ignore_errors=True)
        shutil.rmtree(cache, ignore_errors=True)
    if options.write:
        with open(NOTEBOOK, "w", encoding="utf-8") as file:
            json.dump(book, file, indent=1, ensure_ascii=False)
            file.write("\n")
    return 0


sys.exit(main())
