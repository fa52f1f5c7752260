#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a commit of words changes words only.

    same_but.py comments|messages|names [FROM [TO]]    FROM: HEAD^, TO: HEAD; TO '-': the files as they are

comments: no token of C code differs. messages: only string literals differ, and each keeps its format specifiers. names: only
identifiers differ, and each old one becomes one new one, everywhere. Exit status 1 names what else differs.
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
    """Without comments; literals that stand beside each other are one, however they were broken."""
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
    if kind == "names":
        word = re.compile(r"[A-Za-z_]\w*\Z")
        return bool(word.match(old) and word.match(new)) and names.setdefault(old, new) == new
    return False


def check(kind, path, old_text, new_text, names):
    old, new = tokens(old_text), tokens(new_text)
    for i, (a, b) in enumerate(zip(old, new)):
        if a != b and not may_differ(kind, a, b, names):
            return f"{path}: '{' '.join(old[max(0, i - 4):i + 3])}' became '{' '.join(new[max(0, i - 4):i + 3])}'"
    return None if len(old) == len(new) else f"{path}: has {len(new)} tokens, had {len(old)}"


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in ("comments", "messages", "names"):
        sys.exit(__doc__)
    kind, begin, end = sys.argv[1], *(sys.argv[2:4] + ["HEAD^", "HEAD"][len(sys.argv) - 2:])
    changed = git("diff", "--name-only", "--diff-filter=M", begin, *([end] if end != "-" else []), "--", "*.c", "*.h")
    names, wrong = {}, []
    for path in changed.split():
        found = check(kind, path, text_of(begin, path), text_of(end, path), names)
        wrong += [found] if found else []
    if len(set(names.values())) < len(names):
        wrong.append(f"two names became one: {sorted(names.items(), key=lambda pair: pair[1])}")
    print("\n".join(wrong) or f"{len(changed.split())} files: only {kind} differ")
    sys.exit(bool(wrong))


main()
