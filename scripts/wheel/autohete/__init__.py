# SPDX-License-Identifier: Apache-2.0
"""autohete from Python: every verb of the program, as a function that returns what it prints with --json.

    import autohete
    plan = autohete.plan("Qwen2.5-0.5B/", batch=4, seq=512, device_memory="6GiB", output="plan.json")
    print(plan["time"]["step_us"], plan["solver"]["gap"])
    autohete.run("plan.json", weights="Qwen2.5-0.5B/", data="data/train-*.bin", epochs=1, save="out",
                 on_step=lambda step: print(step["step"], step["loss"]))

Options are those of the command line, with '_' for '-': True gives an option without a value, a list repeats it, None and
False leave it out. A verb that fails raises autohete.Error. Other output of the verb, such as progress, goes to standard
error as on the command line.
"""
from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import Any, Callable, Dict, List, Optional

__all__ = ["Error", "call", "finetune", "main", "plan", "program", "report", "run", "sample"]

_HERE = os.path.dirname(os.path.abspath(__file__))


class Error(Exception):
    """What a verb says when it fails: `code` is a word, such as "usage" or "infeasible", `exit_status` its number."""

    def __init__(self, message: str, code: str = "failed", exit_status: int = 1) -> None:
        super().__init__(message)
        self.code = code
        self.exit_status = exit_status


def program() -> str:
    """The path of the program: AUTOHETE in the environment, or the one that came with this package."""
    return os.environ.get("AUTOHETE") or os.path.join(_HERE, "package", "bin", "autohete")


def _words(options: Dict[str, Any]) -> List[str]:
    words: List[str] = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if item is True:
                words.append(option)
            elif item is not None and item is not False:
                words += [option, os.fspath(item) if isinstance(item, os.PathLike) else str(item)]
    return words


def _fail(status: int, said: List[str]) -> Error:
    """The error object is the last line of standard error that is one; other lines were shown already."""
    for line in reversed(said):
        try:
            error = json.loads(line)["error"]
            return Error(error["message"], error["code"], error["exit_status"])
        except (ValueError, KeyError, TypeError):
            continue
    if status < 0:
        return Error(f"autohete was ended by signal {-status}", "interrupted", 128 - status)
    return Error(said[-1].strip() if said else f"autohete ended with {status}", "failed", status)


def _stream(words: List[str], take: Callable[[str], None], cwd: Optional[str]) -> None:
    said: List[str] = []
    try:
        process = subprocess.Popen([program(), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   encoding="utf-8", errors="replace", cwd=cwd)
    except OSError as reason:
        raise Error(f"{program()}: cannot be run: {reason.strerror}", "missing", 7) from reason

    def hear() -> None:
        for line in process.stderr or ():
            said.append(line)
            del said[:-50]
            if not line.startswith('{"error"'):
                sys.stderr.write(line)

    hearing = threading.Thread(target=hear)
    hearing.start()
    try:
        for line in process.stdout or ():
            take(line)
    except BaseException:
        process.terminate()
        raise
    finally:
        status = process.wait()
        hearing.join()
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()
    if status:
        raise _fail(status, said)


def call(verb: str, *operands: Any, cwd: Optional[str] = None, **options: Any) -> Any:
    """Runs a verb with --json, and returns the value that it prints; None if it prints nothing."""
    lines: List[str] = []
    _stream([verb, *(str(operand) for operand in operands), *_words(options), "--json"], lines.append, cwd)
    text = "".join(lines)
    return json.loads(text) if text.strip() else None


def plan(model: Any, *, output: Any = None, **options: Any) -> Dict[str, Any]:
    """Finds the best plan. Returns the plan's document, and writes it to `output`, if that is given."""
    document = call("plan", model, **options)
    if output is not None:
        with open(output, "w", encoding="utf-8") as file:
            json.dump(document, file)
        call("check", output)
    return document


def run(plan: Any, *, on_step: Optional[Callable[[Dict[str, Any]], None]] = None, cwd: Optional[str] = None,
        **options: Any) -> List[Dict[str, Any]]:
    """Trains. Calls `on_step` with each step's line of the log, and returns all other lines: evaluations, saves, the end.
    An exception from `on_step` ends the run as SIGTERM does: it saves, if it was told where."""
    others: List[Dict[str, Any]] = []

    def take(line: str) -> None:
        event = json.loads(line)
        if event.get("line") != "step":
            others.append(event)
        elif on_step:
            on_step(event)

    _stream(["run", str(plan), *_words(options), "--json"], take, cwd)
    return others


def report(log: Any, **options: Any) -> Dict[str, Any]:
    """Compares a run's measurements with its plan's predictions."""
    return call("report", log, **options)


def sample(model: Any, *prompts: str, **options: Any) -> List[Dict[str, Any]]:
    """Returns what the model says to each prompt."""
    return call("sample", model, *prompts, **options)["answers"]


def finetune(model: Any, *data: Any, output: Any, **options: Any) -> Dict[str, Any]:
    """Trains a model on data in one call; the same call goes on where it was interrupted."""
    return call("finetune", model, *data, output=output, **options)


def main() -> None:
    """The command `autohete`."""
    try:
        os.execv(program(), ["autohete", *sys.argv[1:]])
    except OSError as reason:
        sys.exit(f"{program()}: cannot be run: {reason.strerror}")
