#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules that hold the house together, checked on the tracked files.

    style.py CHECK [--build DIR]      one check; exit 0 when it holds
    style.py --list                   the checks

Each check returns a list of findings, "file:line: what is wrong"; an empty list is a pass.
"""
import argparse
import os
import re
import subprocess
import sys
import types

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

# Room -> rooms whose headers it may include besides its own (DESIGN: the direction of the house).
ROOMS = {
    "base": [],
    "schemas": ["base"],
    "runtime/device": ["base", "schemas"],
    "runtime/device/host": ["base", "schemas", "runtime/device"],
    "runtime/device/tile": ["base", "schemas", "runtime/device", "runtime/device/host"],
    "runtime/device/math": ["base", "schemas", "runtime/device", "runtime/device/host", "runtime/device/tile"],
    "runtime/device/cpu": ["base", "schemas", "runtime/device", "runtime/device/host", "runtime/device/tile",
                           "runtime/device/math"],
    "runtime/device/virtual": ["base", "schemas", "runtime/device"],
    "runtime/device/cuda": ["base", "schemas", "runtime/device", "runtime/device/host", "runtime/device/tile",
                            "runtime/device/math", "runtime/comm"],
    "runtime/schedule": ["base", "schemas", "runtime/device", "runtime/device/tile", "runtime/device/math",
                         "runtime/device/virtual"],
    "runtime/text": ["base", "schemas"],
    "runtime/model": ["base", "schemas", "runtime/device", "runtime/schedule"],
    "runtime/comm": ["base"],
    "runtime/comm/loop": ["base", "runtime/comm"],
    "runtime/comm/mpi": ["base", "runtime/comm"],
    "runtime/train/data": ["base", "schemas"],
    "runtime/train/checkpoint": ["base", "schemas", "runtime/schedule", "runtime/model"],
    "runtime/train": ["base", "schemas", "runtime/schedule", "runtime/device", "runtime/model", "runtime/comm",
                      "runtime/train/data", "runtime/train/checkpoint"],
    "profiler": ["base", "schemas", "runtime/schedule", "runtime/device", "runtime/device/host", "runtime/device/cpu",
                 "runtime/model", "runtime/comm"],
    "planner": ["base", "schemas", "runtime/schedule", "runtime/device", "runtime/device/virtual", "runtime/model"],
    "planner/cluster": ["base", "schemas", "runtime/schedule", "runtime/device", "planner"],
    "planner/recovery": ["base", "schemas", "runtime/schedule", "runtime/device", "planner", "planner/cluster"],
    "runtime/run": ["base", "schemas", "runtime/schedule", "runtime/device", "runtime/device/cpu", "runtime/model", "runtime/comm",
                    "runtime/comm/loop", "runtime/train", "runtime/train/data", "runtime/train/checkpoint", "profiler", "planner",
                    "planner/cluster"],
    "runtime/sample": ["base", "schemas", "runtime/schedule", "runtime/device", "runtime/model", "runtime/train"],
    "cli": None,  # may use every room
}

# A library's header -> the only place, or places, that may include it.
VENDORS = {
    r"hwloc": "base/topology.c",
    r"cjson/|cJSON": "schemas/",
    r"oneapi/dnnl|dnnl": "bench/",
    r"cuda|cublas|cupti|nccl": "runtime/device/cuda/",
    r"glpk": "planner/",
    r"pcre2|utf8proc": "runtime/text/",
    r"mpi\.h": ("runtime/comm/mpi/", "bench/bench_messages.c"),
}

FUNCTION_LINES = 60
FILE_LINES = 600
BANNED_NAMES = re.compile(r"(^|[_/])(util|utils|misc|common|helper|helpers)[_.]")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|not implemented|placeholder|for now", re.I)
# A library may not call these: it never prints, exits or aborts.
FORBIDDEN_CALLS = {"printf", "puts", "putchar", "fprintf", "vfprintf", "perror", "exit", "_exit", "abort",
                   "__printf_chk", "__fprintf_chk", "__vfprintf_chk"}


def tracked(*suffixes):
    out = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    files = out.split("\n")
    if not out:  # an exported tree without git
        files = [os.path.relpath(os.path.join(d, f), ROOT) for d, _, names in os.walk(ROOT) for f in names]
        files = [f for f in files if not f.startswith(("build", ".git/"))]
    return sorted(f for f in files if f.endswith(suffixes) and os.path.isfile(os.path.join(ROOT, f)))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as handle:
        return handle.read()


def room_of(path):
    rooms = [room for room in ROOMS if path.startswith(room + "/")]
    return max(rooms, key=len) if rooms else None


def check_direction(_):
    """A room includes only rooms before it; a vendor's header is included in one room."""
    findings = []
    for path in tracked(".c", ".h", ".cu", ".cuh"):
        room = room_of(path)
        if room is None:
            continue
        allowed = ROOMS[room]
        for number, line in enumerate(read(path).split("\n"), 1):
            local = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            vendor = re.match(r"\s*#\s*include\s+<([^>]+)>", line)
            if local:
                target = room_of(local.group(1))
                if target is None:
                    findings.append(f"{path}:{number}: \"{local.group(1)}\" is not a path from the root of the tree")
                elif allowed is not None and target != room and target not in allowed:
                    findings.append(f"{path}:{number}: {room} may not include {target}")
            if vendor:
                for pattern, home in VENDORS.items():
                    if re.match(pattern, vendor.group(1)) and not path.startswith(home):
                        findings.append(f"{path}:{number}: <{vendor.group(1)}> belongs in {home}")
    return findings


def check_headers(_):
    """Every header compiles alone, in C11, and begins with prose."""
    findings = []
    for path in tracked(".h"):
        if path.startswith("tests/") or "runtime/device/cuda/" in path:
            continue
        result = subprocess.run(
            ["gcc", "-std=c11", "-D_GNU_SOURCE", "-I.", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c", "-"],
            cwd=ROOT, input=f'#include "{path}"\n', capture_output=True, text=True, check=False)
        if result.returncode:
            findings.append(f"{path}:1: does not compile alone: {result.stderr.splitlines()[0]}")
        first = read(path).split("\n", 3)
        if len(first) < 3 or not first[2].startswith(" * "):
            findings.append(f"{path}:3: a header begins with what the module does (after the SPDX line)")
    return findings


def check_licence(_):
    """The first lines name the licence."""
    names = tracked(".c", ".h", ".cu", ".cuh", ".py", ".cmake", "CMakeLists.txt")
    names += [f for f in tracked("") if f.startswith("scripts/") or f == ".ci/run"]
    return [f"{path}:1: no SPDX-License-Identifier in its first two lines" for path in sorted(set(names))
            if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(read(path).split("\n")[:2])]


def check_finished(_):
    """No marks of unfinished work on main."""
    findings = []
    for path in tracked(".c", ".h", ".cu", ".cuh", ".sh", ".cmake"):
        for number, line in enumerate(read(path).split("\n"), 1):
            if UNFINISHED.search(line):
                findings.append(f"{path}:{number}: {line.strip()[:80]}")
    return findings


# Private words of this tree, and habits of a translation; docs/glossary.md has the words to use.
FORBIDDEN_WORDS = re.compile(r"concert|rehears|freight|\bhunt|\bshelf\b|\bdesk\b|so many|so much\b|\bas what\b|\bis of\b|that which|gone on with"
                             r"|\bhardly\b|one to all", re.IGNORECASE)
COMMENT = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|(/\*.*?\*/|//[^\n]*)", re.DOTALL)


def comments(path):
    """(first line, text) of each."""
    text = read(path)
    for match in COMMENT.finditer(text):
        if match.group(1):
            yield text.count("\n", 0, match.start()) + 1, match.group(1)


def check_words(_):
    """Comments and docs avoid private words; no comment begins with "Of": who does something comes first."""
    findings = []
    for path in tracked(".c", ".h", ".cu", ".cuh", ".inc"):
        for number, text in comments(path):
            for offset, line in enumerate(text.split("\n")):
                if re.search(r"(/\*+|//|^ \*) Of ", line) or FORBIDDEN_WORDS.search(line):
                    findings.append(f"{path}:{number + offset}: {line.strip()[:80]}")
    for path in tracked(".md"):
        if not path.startswith(("docs/decisions/", "bench/results/")):
            plain = re.sub(r"(?ms)^( {4}|```.*?^```)[^\n]*$|`[^`\n]*`", "", read(path))
            findings += [f"{path}: {match.group()}" for match in FORBIDDEN_WORDS.finditer(plain)]
    return findings


def check_columns(_):
    """Comments end before column 121. clang-format sees to code, and leaves comments alone."""
    findings = []
    for path in tracked(".c", ".h", ".cu", ".cuh", ".inc"):
        lines = read(path).split("\n")
        for number, text in comments(path):
            findings += [f"{path}:{at}: {len(lines[at - 1])} columns" for at in range(number, number + text.count("\n") + 1)
                         if len(lines[at - 1]) > 120]
    return findings


def has_head(path):
    return read(path).split("\n", 3)[2:3] not in ([], [""]) and read(path).split("\n", 3)[2].startswith(" * ")


def check_heads(_):
    """Each file of the product says what it is for, itself or in its header."""
    product = [path for path in tracked(".c", ".h", ".cu", ".cuh") if not path.startswith(("tests/", "bench/"))]
    return [f"{path}:3: no purpose after the licence, and no header of its own" for path in product
            if not has_head(path) and not any(os.path.exists(os.path.join(ROOT, re.sub(r"\.\w+$", end, path)))
                                              for end in (".h", "_internal.h"))]


def check_contracts(_):
    """Each function in a header stands under a comment that says what it does, alone or with its neighbours; whoever
    releases memory, or is written out right there, needs none."""
    findings = []
    for path in tracked(".h"):
        if path.startswith(("tests/", "bench/")):
            continue
        line, below_comment = 1, False
        for paragraph in re.split(r"(\n\n+)", read(path)):
            declares = re.search(r"(?m)^(?!typedef|static inline)[a-z][\w \*]*\b(ah_\w+(?<!_release)(?<!_free))\(", paragraph)
            has_comment = "/*" in paragraph
            if declares and not has_comment and not below_comment:
                findings.append(f"{path}:{line}: {declares.group(1)}() has no contract")
            if paragraph.strip():
                below_comment = has_comment
            line += paragraph.count("\n")
    return findings


def check_twins(_):
    """No two files of the product have one name, and no two types in headers, so that naming one is enough."""
    seen = {}
    for path in tracked(".c", ".h"):
        if not path.startswith(("tests/", "bench/")):
            seen.setdefault(os.path.basename(path), []).append(path)
            for tag in re.findall(r"(?m)^(?:struct|union|enum) (ah_\w+) ?\{", read(path) if path.endswith(".h") else ""):
                seen.setdefault(tag, []).append(path)
    return [f"{paths[1]}:1: {name} is in {paths[0]}, too" for name, paths in seen.items() if len(paths) > 1]


def check_names(_):
    """Files are named for what they hold; private headers end in _internal.h."""
    return [f"{path}:1: a name that says nothing" for path in tracked(".c", ".h", ".py", ".cmake")
            if BANNED_NAMES.search(path)]


def functions(path):
    """(name, first line, number of lines) of each function, by the brace in the first column."""
    name, begin = None, 0
    lines = read(path).split("\n")
    for number, line in enumerate(lines, 1):
        if line == "{" and number > 1:
            head = next((lines[i] for i in range(number - 2, max(number - 8, -1), -1)
                         if re.match(r"[A-Za-z_].*\(", lines[i])), None)
            match = re.search(r"([A-Za-z_0-9]+)\s*\(", head) if head else None
            name, begin = (match.group(1) if match else None), number
        elif line == "}" and name:
            yield name, begin, number - begin
            name = None


def check_length(_):
    """Files and functions stay readable in one go."""
    findings = []
    for path in tracked(".c", ".h"):
        count = read(path).count("\n")
        if count > FILE_LINES and not path.startswith("tests/"):
            findings.append(f"{path}:{count}: longer than {FILE_LINES} lines")
        if path.endswith(".c") and not path.startswith("tests/"):
            for name, begin, length in functions(path):
                if length > FUNCTION_LINES:
                    findings.append(f"{path}:{begin}: {name} has {length} lines, more than {FUNCTION_LINES}")
    return findings


def check_format(_):
    """clang-format would change nothing."""
    files = tracked(".c", ".h")
    result = subprocess.run(["clang-format-14", "--dry-run", "-Werror", "--ferror-limit=3", *files], cwd=ROOT,
                            capture_output=True, text=True, check=False)
    return [line for line in result.stderr.split("\n") if "error:" in line]


def check_scripts(_):
    """shellcheck is content with every shell script."""
    files = []
    for path in tracked(""):
        if path.startswith(("scripts/", "bench/", "tests/", "examples/", ".ci/")) and not path.endswith(".py"):
            with open(os.path.join(ROOT, path), "rb") as handle:
                first = handle.readline()
            if first.startswith(b"#!") and (b"bash" in first or first.strip().endswith(b"sh")):
                files.append(path)
    result = subprocess.run(["shellcheck", "-f", "gcc", *files], cwd=ROOT, capture_output=True, text=True, check=False)
    return [line for line in result.stdout.split("\n") if line]


def room_objects(build):
    """(room, object file) of the libraries and the plugin's C, not of cli, tests and benchmarks."""
    for directory, _, names in os.walk(build):
        match = re.search(r"/CMakeFiles/(?:ah|autohete)_([a-z_]+)\.dir", directory)
        if match and not match.group(1).startswith("cli") and not os.path.relpath(directory, build).startswith("tests"):
            for name in names:
                if name.endswith(".c.o"):
                    yield match.group(1), os.path.join(directory, name)


def nm(objects, *flags):
    return subprocess.run(["nm", "-A", *flags, *objects], capture_output=True, text=True, check=False).stdout


def check_symbols(build):
    """Symbols that leave a library are ah_<module>_<verb>; libraries never print, exit or abort."""
    findings = []
    objects = [path for _, path in room_objects(build)]
    if not objects:
        return [f"{build}: no objects of rooms found; build first"]
    for line in nm(objects, "-g", "--defined-only").split("\n"):
        match = re.match(r"(.*):[0-9a-f]* (\w) (\S+)$", line)
        if match and not match.group(3).startswith("ah_"):
            findings.append(f"{os.path.basename(match.group(1))}: {match.group(3)} leaves its file without ah_")
    for line in nm(objects, "-u").split("\n"):
        match = re.match(r"(.*):\s+U (\S+)$", line)
        if match and match.group(2) in FORBIDDEN_CALLS:
            findings.append(f"{os.path.basename(match.group(1))}: a library calls {match.group(2)}")
    return findings


# Mutable globals that must be: (room, object file, name): why.
GLOBALS = {
    ("cuda", "recorder.c.o", "recording"): "CUPTI's callbacks have no context to find the recorder by",
}


def check_globals(build):
    """No mutable globals outside cli/: no object has writable data but for relocated constants and what GLOBALS lists."""
    findings = []
    for room, path in room_objects(build):
        out = subprocess.run(["nm", "-S", "--defined-only", path], capture_output=True, text=True, check=False).stdout
        sections = subprocess.run(["objdump", "-t", path], capture_output=True, text=True, check=False).stdout
        constant = {line.split()[-1] for line in sections.split("\n") if ".data.rel.ro" in line and line.split()}
        for line in out.split("\n"):
            match = re.match(r"[0-9a-f]+ [0-9a-f]+ ([bBdDC]) (\S+)$", line)
            known = match and (room, os.path.basename(path), match.group(2)) in GLOBALS
            if match and match.group(2) not in constant and not known:
                findings.append(f"{room}: {os.path.basename(path)}: '{match.group(2)}' is a mutable global")
    return findings


def check_links(_):
    """Documentation names only files that exist."""
    findings = []
    for path in tracked(".md"):
        for number, line in enumerate(read(path).split("\n"), 1):
            for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", line):
                if not os.path.exists(os.path.join(ROOT, os.path.dirname(path), target)):
                    findings.append(f"{path}:{number}: the link to {target} leads nowhere")
    return findings


def check_mutants(_):
    """Each mutant's expression stands once in its function, and apart from the others'."""
    path = os.path.join(ROOT, "scripts/test-mutants")
    tool = types.ModuleType("test_mutants")
    tool.__file__ = path
    exec(compile(read("scripts/test-mutants"), path, "exec"), tool.__dict__)
    by_file, findings = {}, []
    for mutant in tool.read():
        by_file.setdefault(mutant.file, []).append(mutant)
    for file, mutants in by_file.items():
        exists = os.path.isfile(os.path.join(ROOT, file))
        problems = tool.broken_source(read(file), mutants)[1] if exists else [(m, f"there is no '{file}'") for m in mutants]
        findings += [f"tests/mutants/mutants.txt: '{mutant.name}': {what}" for mutant, what in problems]
    return findings


CHECKS = {
    "direction": check_direction, "headers": check_headers, "licence": check_licence, "finished": check_finished,
    "names": check_names, "length": check_length, "format": check_format, "scripts": check_scripts,
    "symbols": check_symbols, "globals": check_globals, "links": check_links, "words": check_words,
    "columns": check_columns, "heads": check_heads, "contracts": check_contracts, "twins": check_twins,
    "mutants": check_mutants,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", nargs="?", choices=sorted(CHECKS))
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "test"))
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list or not options.check:
        print("\n".join(f"{name:<10} {check.__doc__}" for name, check in CHECKS.items()))
        return 0
    findings = CHECKS[options.check](options.build)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
