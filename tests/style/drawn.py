#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws comments, messages and paragraphs of docs at random, for someone with fresh eyes to read.

    drawn.py [--comments N] [--messages N] [--paragraphs N] [COMMIT]

The seed is the hash of the commit (HEAD), so nobody chooses what is read. Each item is one block: its place, then its text.
"""
import argparse
import random
import re
import subprocess

COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|(/\*.*?\*/)', re.DOTALL)
LITERALS = re.compile(r'"(?:[^"\\\n]|\\.)*"(?:\s*(?:PRI\w+\s*)?"(?:[^"\\\n]|\\.)*")*')


def git(*words):
    return subprocess.run(("git",) + words, capture_output=True, text=True, check=True).stdout


def comments(path, text):
    """Yields whole comments of at least two words, with the line of code that each is about."""
    for match in COMMENT.finditer(text):
        comment = match.group(1)
        if comment and "SPDX" not in comment.split("\n")[0] and len(comment.split()) > 4:
            line = text.count("\n", 0, match.start()) + 1
            lines = text.split("\n")
            end = line + comment.count("\n")
            code = lines[line - 1] if not lines[line - 1].lstrip().startswith("/*") else (lines[end] if end < len(lines) else "")
            yield f"{path}:{line}", comment + "\n" + code.strip()
    head = re.match(r"/\* SPDX[^\n]*\n \*\n(.*?)\*/", text, re.DOTALL)
    if head:
        yield f"{path}:3", head.group(1)


def messages(path, text):
    """Yields string literals of at least four words that people see."""
    text = re.sub(r"(?m)^#include.*$", "", text)
    code = re.sub(r"/\*.*?\*/", lambda match: re.sub(r"[^\n]", " ", match.group()), text, flags=re.DOTALL)
    for match in LITERALS.finditer(code):
        literal = re.sub(r'"\s*(?:PRI(\w+)\s*)?"', lambda part: part.group(1) or "", match.group())
        if len(re.findall(r"[a-z]{2,}", literal)) > 4:
            yield f"{path}:{code.count(chr(10), 0, match.start()) + 1}", literal


def paragraphs(path, text):
    plain = re.sub(r"(?ms)^```.*?^```$|^( {4}|\|)[^\n]*$", "", text)
    for block in re.split(r"\n\s*\n", plain):
        if len(block.split()) > 15 and not block.startswith("#"):
            yield path, block.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for what, number in (("comments", 60), ("messages", 30), ("paragraphs", 10)):
        parser.add_argument(f"--{what}", type=int, default=number)
    parser.add_argument("commit", nargs="?", default="HEAD")
    options = parser.parse_args()
    commit = git("rev-parse", options.commit).strip()
    draw = random.Random(commit)
    found = {"comments": [], "messages": [], "paragraphs": []}
    for path in git("ls-tree", "-r", "--name-only", commit).split("\n"):
        product = not path.startswith(("tests/", "bench/"))
        kinds = [comments] * bool(re.search(r"\.(c|h|cu|cuh|inc)$", path)) + [messages] * bool(product and path.endswith(".c"))
        kinds += [paragraphs] * bool(path.endswith(".md") and not path.startswith(("docs/decisions/", "bench/")))
        for kind in kinds:
            found[kind.__name__] += kind(path, git("show", f"{commit}:{path}"))
    print(f"Drawn from {commit}.")
    for kind, items in found.items():
        for place, text in draw.sample(items, getattr(options, kind)):
            print(f"\n## {kind[:-1]}, {place}\n\n{text}")


main()
