#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one case of the command line: commands, what they must print, and how they must end.

    run.py --program build/cli/autohete tests/cli/cases/check-bad-json.case

A case is a text file, read line by line, in an empty folder of its own:

    # a remark
    file NAME                 a file with the following lines, each after "| "
    | line
    bytes NAME EXPRESSION     a file with the bytes (or text) of a Python expression; example(PATH) reads a JSON
                              example of the repository, dump(VALUE) prints JSON; documents of other kinds are
                              in $ROOT/tests/cli/documents
    $ COMMAND                 bash, goes on in lines after "> "; `autohete` is the program, $ROOT the repository;
                              `interruptible PID` returns when that process has a handler for SIGINT, or has ended
    exit N                    how the command above ends; 0 where not said
    out REGEX                 found in its standard output (lines: ^ and $)
    err REGEX                 found in its standard error
    no-out                    its standard output is empty
    lines N                   its standard error has N lines
    json EXPRESSION           true, where `out` is its standard output read as JSON
    json-err EXPRESSION       the same for standard error
    absent NAME               there is no such file
    true EXPRESSION           true, with out, err (text), path(NAME)
    at-length                 what follows takes long: for AH_TEST_SCALE of 1 and more

A command without err, lines or json-err must leave standard error empty, and none may end by a signal.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
INTERRUPTIBLE = """interruptible() {
    while [ -e /proc/$1 ] && ! grep -q '^State:.Z' /proc/$1/status; do
        [ $((0x$(sed -n 's/^SigCgt:[^0-9a-f]*//p' /proc/$1/status) & 2)) -eq 0 ] || break
        sleep 0.02
    done
}
"""


def example(path):
    with open(os.path.join(ROOT, "examples", path), encoding="utf-8") as handle:
        return json.load(handle)


def dump(value):
    return json.dumps(value, ensure_ascii=False)


class Failure(Exception):
    pass


class Step:
    """A command that ran, and what is expected of it."""

    def __init__(self, command, result):
        self.command = command
        self.status = result.returncode
        self.out = result.stdout.decode("utf-8", "surrogateescape")
        self.err = result.stderr.decode("utf-8", "surrogateescape")
        self.expected_status = 0
        self.err_expected = False

    def require(self, holds, what):
        if not holds:
            raise Failure(f"$ {self.command}\n  {what}\n  exit {self.status}\n  out: {self.out[:3000]!r}\n"
                          f"  err: {self.err[:3000]!r}")

    def finish(self):
        self.require(self.status == self.expected_status, f"expected exit {self.expected_status}")
        self.require(self.err_expected or not self.err, "standard error is not empty")


class Case:
    def __init__(self, program, folder):
        self.folder = folder
        self.step = None
        self.environment = {
            "PATH": os.path.dirname(program) + ":/usr/bin:/bin", "ROOT": ROOT, "HOME": folder, "LANG": "C.UTF-8",
            "TERM": "xterm"}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS", "TMPDIR", "AH_MUTANT"):
            if name in os.environ:
                self.environment[name] = os.environ[name]

    def path(self, name):
        return os.path.join(self.folder, name)

    def names(self):
        return {"example": example, "dump": dump, "json": json, "re": re, "os": os, "path": self.path,
                "root": lambda name: os.path.join(ROOT, name),
                "read": lambda name: open(self.path(name), "rb").read()}

    def write(self, name, content):
        with open(self.path(name), "wb") as handle:
            handle.write(content if isinstance(content, bytes) else content.encode("utf-8"))

    def command(self, text):
        if self.step:
            self.step.finish()
        result = subprocess.run(["bash", "-c", INTERRUPTIBLE + text if "interruptible " in text else text], cwd=self.folder, env=self.environment, capture_output=True,
                                stdin=subprocess.DEVNULL, check=False)
        self.step = Step(text, result)

    def expect(self, word, rest):
        step = self.step
        if word == "exit":
            step.expected_status = int(rest)
        elif word == "out":
            step.require(re.search(rest, step.out, re.M), f"standard output lacks /{rest}/")
        elif word == "err":
            step.err_expected = True
            step.require(re.search(rest, step.err, re.M), f"standard error lacks /{rest}/")
        elif word == "no-out":
            step.require(step.out == "", "standard output is not empty")
        elif word == "lines":
            step.err_expected = True
            step.require(step.err.count("\n") == int(rest), f"standard error has not {rest} lines")
        elif word in ("json", "json-err"):
            step.err_expected = step.err_expected or word == "json-err"
            text = step.err if word == "json-err" else step.out
            try:
                value = json.loads(text)
            except ValueError as error:
                step.require(False, f"not JSON: {error}")
            step.require(eval(rest, {**self.names(), "out": value}), f"does not hold: {rest}")
        elif word == "absent":
            step.require(not os.path.lexists(self.path(rest)), f"{rest} exists")
        elif word == "true":
            step.require(eval(rest, {**self.names(), "out": step.out, "err": step.err}), f"does not hold: {rest}")
        else:
            raise Failure(f"the case says '{word}', which means nothing")


def run(case, lines):
    position = 0
    while position < len(lines):
        line = lines[position]
        position += 1
        word, _, rest = line.partition(" ")
        if not line.strip() or word == "#":
            continue
        if word == "file":
            begin = position
            while position < len(lines) and lines[position].startswith("|"):
                position += 1
            case.write(rest, "".join(text[2:] + "\n" for text in lines[begin:position]))
        elif word == "bytes":
            name, _, expression = rest.partition(" ")
            case.write(name, eval(expression, case.names()))
        elif word == "$":
            begin = position
            while position < len(lines) and lines[position].startswith("> "):
                position += 1
            case.command("\n".join([rest, *(text[2:] for text in lines[begin:position])]))
        elif not case.step:
            raise Failure(f"'{line}' stands before any command")
        else:
            case.expect(word, rest)
    if not case.step:
        raise Failure("the case has no command")
    case.step.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("case")
    options = parser.parse_args()
    with open(options.case, encoding="utf-8") as handle:
        text = handle.read()
    quick, _, rest = text.partition("\nat-length\n")
    at_length = float(os.environ.get("AH_TEST_SCALE", "0.1")) >= 1
    lines = (quick + "\n" + rest if at_length else quick).split("\n")
    with tempfile.TemporaryDirectory(prefix="autohete-cli-") as folder:
        try:
            run(Case(os.path.abspath(options.program), folder), lines)
        except Failure as failure:
            print(f"{options.case}: {failure}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
