#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs what pages of documentation show, and compares.

    shown.py [--update] PAGE...

A block that begins with ```console has commands, each after "$ ", and their output: standard error, then standard
output. All blocks of a page run in order in the current folder, which must contain `examples`; `cd` has an effect only
within its block. A line "# exit N" below a command gives its exit status if that is not 0. --update writes the
commands' output into the pages instead. The last line says how many commands ran: none would prove nothing.
"""
import difflib
import re
import subprocess
import sys

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.S | re.M)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.M)
EXIT = re.compile(r"\A# exit (\d+)\n")


def run(folder, command):
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)
    return done.returncode, done.stderr + done.stdout


def play(block, wrong):
    """Returns the block with the output of its commands; differences are added to `wrong`."""
    folder, text = ".", ""
    for command, shown in COMMAND.findall(block):
        told = EXIT.match(shown)
        if command.startswith("cd "):
            folder = command.split()[1]
            text += f"$ {command}\n"
            continue
        status, printed = run(folder, command)
        if status != (int(told.group(1)) if told else 0):
            wrong.append(f"$ {command}\nends with {status}:\n{printed}")
        printed = (told.group(0) if told else "") + printed
        if printed != shown:
            wrong.append(f"$ {command}\n" + "\n".join(difflib.unified_diff(
                shown.split("\n"), printed.split("\n"), "shown", "printed", lineterm="")))
        text += f"$ {command}\n{printed}"
    return text


def main(words):
    update = "--update" in words
    ran, wrong = 0, []
    for page in (word for word in words if word != "--update"):
        with open(page, encoding="utf-8") as file:
            before = file.read()
        for block in BLOCK.findall(before):
            ran += len(COMMAND.findall(block))
            assert not COMMAND.sub("", block), f"{page}: this is no command:\n{COMMAND.sub('', block)}"
        after = BLOCK.sub(lambda match: f"```console\n{play(match.group(1), wrong)}```", before)
        if update and after != before:
            with open(page, "w", encoding="utf-8") as file:
                file.write(after)
    if wrong and not update:
        print("\n".join(wrong))
        sys.exit(1)
    print("ran", ran)


if __name__ == "__main__":
    main(sys.argv[1:])
