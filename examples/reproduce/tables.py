# SPDX-License-Identifier: Apache-2.0
"""What the reproductions share: plans by `autohete plan --json`, each made once, and tables in Markdown.

    planner = Planner.from_arguments(arguments)
    plan = planner.plan("gpt-4b", "a100-40g-epyc7713", "--clip", "none")
    plan.step_s if plan else "does not fit"
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.dirname(HERE)
EXIT_INFEASIBLE, EXIT_NO_PLAN = 4, 5
GIB = 1 << 30
PLACEMENTS = [("recompute", "activations", "recompute"), ("selective", "activations", "selective"),
              ("gathered weights", "weights", "gathered"), ("host weights", "weights", "host"), ("host optimizer", "optimizer", "host"),
              ("streamed", "optimizer", "streamed")]

A100, RTX4090, H200 = "a100-40g-epyc7713", "rtx4090-64g", "h200-16c-128g"


class Plan:
    """Of a plan document, what tables show. False where there is none."""

    def __init__(self, document):
        self.found = document is not None
        if not self.found:
            return
        self.micro_batches = document["training"]["micro_batches"]
        if "programs" in document:  # of equal GPUs, which all run the same
            self.tokens_per_s = document["predicted"]["tokens_per_s"]
            document = document["programs"][0]
        else:
            self.tokens_per_s = document["tokens_per_s"]
        self.step_s = document["time"]["step_us"] / 1e6
        self.bound_s = document["solver"]["bound_us"] / 1e6
        self.device_bytes = document["memory"]["device_bytes"]
        self.host_bytes = document["memory"]["host_bytes"]
        layers = document["blocks"][1:-1]
        self.placement = {words: sum(layer.get(field) == value for layer in layers)
                          for words, field, value in PLACEMENTS}

    def __bool__(self):
        return self.found

    def placed(self):
        """What is not the default: "recompute 18, host optimizer 13"."""
        return ", ".join(f"{word} {n}" for word, n in self.placement.items() if n) or "all keep, all on the device"


class Planner:
    def __init__(self, program, effort, jobs):
        self.program = program
        self.effort = effort
        self.folder = tempfile.TemporaryDirectory()
        self.pool = concurrent.futures.ThreadPoolExecutor(jobs)
        self.plans = {}

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--autohete", default=os.environ.get("AUTOHETE", "autohete"),
                            help="the program; default: that of the variable AUTOHETE, or of the path")
        parser.add_argument("--effort", default="2", help="how long each plan is searched for; default 2")
        parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="plans at a time; default: all cores")
        parser.add_argument("--quick", action="store_true", help="two models only")
        parser.add_argument("--check", action="store_true", help="exit 1 where an invariant does not hold")
        parser.add_argument("--tolerance", type=float, default=0.005, metavar="SHARE",
                            help="by how much a search may miss what a narrower one finds; default 0.005")
        parser.add_argument("--output", "-o", metavar="FILE", help="write the tables there too")

    @classmethod
    def from_arguments(cls, arguments):
        return cls(arguments.autohete, arguments.effort, arguments.jobs)

    def machine(self, name, changed=None):
        """The path of an example machine; with `changed`, of a copy to which this function was applied."""
        path = os.path.join(EXAMPLES, "machines", f"{name}.json")
        if not changed:
            return path
        with open(path, encoding="utf-8") as handle:
            document = json.load(handle)
        changed(document)
        path = os.path.join(self.folder.name, f"{document['name']}.json")
        with open(path, "w", encoding="utf-8") as handle:
            json.dump(document, handle)
        return path

    def plan(self, model, machine, *flags):
        return self.begin(model, machine, *flags).result()

    def begin(self, model, machine, *flags):
        """Starts a plan unless it was started before; `machine` is an example's name or a path."""
        path = machine if os.sep in machine else self.machine(machine)
        key = (model, path) + flags
        if key not in self.plans:
            self.plans[key] = self.pool.submit(self.run, model, path, flags)
        return self.plans[key]

    def run(self, model, path, flags):
        command = [self.program, "plan", os.path.join(EXAMPLES, "models", f"{model}.json"), "--machine", path,
                   "--effort", self.effort, "--json", *flags]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode in (EXIT_INFEASIBLE, EXIT_NO_PLAN):
            return Plan(None)
        if done.returncode:
            sys.exit(f"{' '.join(command)}\n{done.stderr.decode()}")
        return Plan(json.loads(done.stdout))


def scale(number, factor):
    """A number of a machine document, with its spread, times a factor."""
    for field in ("median", "mad", "min", "max"):
        number[field] *= factor


def with_host_adam(params_per_s):
    def change(machine):
        row = next(row for row in machine["adam"] if row["side"] == "host")
        factor = params_per_s / row["params_per_s"]["median"]
        scale(row["params_per_s"], factor)
        row["bandwidth_share"] *= factor
        machine["name"] += f"-adam-{params_per_s / 1e9:g}g"
    return change


def with_matmul(flops_per_s):
    """The largest bf16 product at this rate, the others as much slower."""
    def change(machine):
        rows = [row for row in machine["matmul"] if row["dtype"] == "bf16"]
        factor = flops_per_s / max(row["flops_per_s"]["median"] for row in rows)
        for row in rows:
            scale(row["flops_per_s"], factor)
        machine["name"] += f"-matmul-{flops_per_s / 1e12:g}t"
    return change


def both(*changes):
    def change(machine):
        for each in changes:
            each(machine)
    return change


# ---- tables ----

class Report:
    def __init__(self, title):
        self.lines = [f"# {title}", ""]
        self.failures = []

    def text(self, *paragraphs):
        for paragraph in paragraphs:
            self.lines += [paragraph, ""]

    def heading(self, words):
        self.lines += [f"## {words}", ""]

    def table(self, columns, rows):
        """Columns that begin with ">" are aligned to the right."""
        self.lines.append("| " + " | ".join(column.lstrip(">") for column in columns) + " |")
        self.lines.append("|" + "|".join("---:" if column.startswith(">") else "---" for column in columns) + "|")
        self.lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
        self.lines.append("")

    def require(self, holds, what):
        if not holds:
            self.failures.append(what)

    def finish(self, arguments):
        """Prints the tables; the exit status."""
        text = "\n".join(self.lines).rstrip() + "\n"
        sys.stdout.write(text)
        if arguments.output:
            with open(arguments.output, "w", encoding="utf-8") as handle:
                handle.write(text)
        for failure in self.failures:
            print(f"does not hold: {failure}", file=sys.stderr)
        return 1 if arguments.check and self.failures else 0


def seconds(plan):
    return f"{plan.step_s:.3f}" if plan else "does not fit"


def ratio(plan, to):
    """How many times slower `plan` is."""
    return f"{plan.step_s / to.step_s:.2f}" if plan and to else "-"


def mean_and_max(plans, to):
    """Ratios over the models where both have a plan: "1.85 / 2.08"."""
    ratios = [a.step_s / b.step_s for a, b in zip(plans, to) if a and b]
    return f"{sum(ratios) / len(ratios):.2f} / {max(ratios):.2f}" if ratios else "-"


def arguments_of(description):
    parser = argparse.ArgumentParser(description=description)
    Planner.add_arguments(parser)
    return parser.parse_args()
