#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a commit of words changes words only.

    same_but.py comments|messages|names [FROM [TO]]    FROM: HEAD^, TO: HEAD; TO '-': the files as they are

comments: no token of C code differs. messages: only string literals differ, and each keeps its format specifiers. names: only
identifiers differ, each old one becomes one new one throughout its file, and includes follow files that moved. Exit status 1 names
what else differs.
"""
import re
import subprocess
import sys

TOKEN = re.compile(r'''//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.])*|\S''', re.DOTALL)
SPECIFIER = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|z|j|t|L)?[a-zA-Z%]")


def git(*words):
    return subprocess.run(("git",) + words, capture_output=True, text=True, check=True).stdout


def text_of(revision, path):
    if revision == "-":
        with open(path, encoding="utf-8") as file:
            return file.read()
    return git("show", f"{revision}:{path}")


def tokens(text):
    """Tokens without comments. Adjacent string literals are joined, so that it does not matter where they are split."""
    found = []
    for token in TOKEN.findall(text):
        if token.startswith(("//", "/*")):
            continue
        if token[0] == '"' and found and found[-1][0] == '"':
            found[-1] = found[-1][:-1] + token[1:]
        else:
            found.append(token)
    return found


def may_differ(kind, old, new, names):
    if kind == "messages":
        return old[0] == new[0] == '"' and SPECIFIER.findall(old) == SPECIFIER.findall(new)
    word = re.compile(r"[A-Za-z_]\w*\Z")
    return kind == "names" and bool(word.match(old) and word.match(new)) and names.setdefault(old, new) == new


INCLUDE = re.compile(r'^#include "([^"]+)"\n', re.MULTILINE)


def check(kind, path, old_text, new_text, gone, added):
    """`gone`, `added`: files that were moved. As in C, tags of types have a name space of their own."""
    old_names, new_names = INCLUDE.findall(old_text), INCLUDE.findall(new_text)
    changed = set(old_names) - set(new_names) - gone or set(new_names) - set(old_names) - added
    if changed or len(old_names) != len(new_names):
        return f"{path}: includes other files: {sorted(changed)}"
    old, new = tokens(INCLUDE.sub("", old_text)), tokens(INCLUDE.sub("", new_text))
    tags, names = {}, {}
    for i, (a, b) in enumerate(zip(old, new)):
        is_tag = i > 1 and (old[i - 1] in ("struct", "union", "enum") or old[i - 2:i] == ["TEST", "("])
        if a != b and not may_differ(kind, a, b, tags if is_tag else names):
            return f"{path}: '{' '.join(old[max(0, i - 4):i + 3])}' became '{' '.join(new[max(0, i - 4):i + 3])}'"
    for renamed in (tags, names):
        if len(set(renamed.values())) < len(renamed):
            return f"{path}: two names became one: {sorted(renamed.items(), key=lambda pair: pair[1])}"
    return None if len(old) == len(new) else f"{path}: has {len(new)} tokens, had {len(old)}"


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in ("comments", "messages", "names"):
        sys.exit(__doc__)
    kind, begin, end = sys.argv[1], *(sys.argv[2:4] + ["HEAD^", "HEAD"][len(sys.argv) - 2:])
    span = (begin, *([end] if end != "-" else []))
    listed = git("diff", "--name-status", "-M30%", "--diff-filter=MR", *span, "--", "*.c", "*.h")
    pairs = [(line.split("\t")[1], line.split("\t")[-1]) for line in listed.split("\n") if line]
    gone, added = (set(git("diff", "--name-only", "--no-renames", f"--diff-filter={what}", *span).split()) for what in "DA")
    wrong = [found for old, new in pairs if (found := check(kind, new, text_of(begin, old), text_of(end, new), gone, added))]
    print("\n".join(wrong) or f"{len(pairs)} files: only {kind} differ")
    sys.exit(bool(wrong))


main()
