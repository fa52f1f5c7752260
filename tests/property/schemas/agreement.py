#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our reader and Python's jsonschema agree, document for document, on what has the right shape.

    agreement.py DRIVER [--changes N] [--all] [--keep DIR]    --all: every change of every sample, some 70,000 documents

Every field of every sample document is changed in many ways (wrong type, null, removed, unknown field added, out of
range, fraction, huge, wrong word, empty text, ...), and some documents in several places at once. For each, jsonschema
with the committed schema must accept exactly when our reader accepts, or refuses the meaning only: a relation between
fields that a schema cannot say. Without --all a random share of the changes is tried, at least a few for each field.
The seed is printed; AH_TEST_SEED repeats it.
"""
import argparse
import copy
import glob
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import jsonschema

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from scale import scaled  # noqa: E402

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
KINDS = ["model", "machine", "cluster", "plan", "cluster-plan", "inventory", "moves", "runlog", "checkpoint",
         "resume", "status"]
UNKNOWN = "surprise"

REPLACEMENTS = [
    None, True, False, 0, 1, -1, 1.0, 1.5, -0.0, 1e3, 1e-7, 2**53 - 1, 2**53, -(2**53), 2**63, 1e300, -1e300, 1e17,
    "", "x", "X y", "-", "two\nlines", "tab\there", "device", "HOST", "a" * 64, "A" * 64, "a" * 63, "a" * 64 + "\n", "name\n", "n/a", ".n", "é" * 128,
    "é" * 129, "y" * 512, "y" * 513, "y" * 4097, [], {}, [0], [""], ["*", "*"], [1, 1], [1, 1.0], [[]], [{}], [None],
    {"a": "b"}, {"a": 1}, {"": ""}, {"theta": 1},
]


def samples():
    """Yields (kind, document, golden): the golden documents, and the examples that are documents of our own."""
    for path in sorted(glob.glob(os.path.join(ROOT, "tests/golden/schemas/documents/*.json")) +
                       glob.glob(os.path.join(ROOT, "examples/*/*.json"))):
        with open(path, encoding="utf-8") as handle:
            document = json.load(handle)
        if "kind" in document:
            yield document["kind"], document, "golden" in path
    with open(os.path.join(ROOT, "tests/golden/schemas/documents/runlog.ndjson"), encoding="utf-8") as handle:
        lines = [json.loads(line) for line in handle]
    seen = set()
    for line in lines:
        name = line.get("line", "header")
        if name not in seen:
            seen.add(name)
            yield "runlog", line, True


def places(value, path=()):
    """Returns the paths of all values in a document, the document's own path first; of long lists only the first two
    elements."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], path + (key,))
    elif isinstance(value, list):
        for index in range(min(len(value), 2)):
            yield from places(value[index], path + (index,))


def parent_of(document, path):
    for step in path[:-1]:
        document = document[step]
    return document


def value_at(document, path):
    return parent_of(document, path)[path[-1]] if path else document


def replaced(document, path, value):
    changed = copy.deepcopy(document)
    parent_of(changed, path)[path[-1]] = value
    return changed


def changes_at(kind, document, path):
    value = value_at(document, path)
    if path:
        for replacement in REPLACEMENTS:
            yield replaced(document, path, copy.deepcopy(replacement))
    if isinstance(value, list) and value:
        yield replaced(document, path, value + [copy.deepcopy(value[0])])
        yield replaced(document, path, (value * 12)[:12])
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        for other in (-value, value + 0.5, value * 1e6, float(value), value + 1, value - 1):
            yield replaced(document, path, other)
    if isinstance(value, str):
        for other in words_of(kind):
            yield replaced(document, path, other)


def structural_changes(document, path):
    if path:
        changed = copy.deepcopy(document)
        del parent_of(changed, path)[path[-1]]
        yield changed
    if isinstance(value_at(document, path), dict):
        changed = copy.deepcopy(document)
        value_at(changed, path)[UNKNOWN] = 1
        yield changed


def mutations(kind, document, generator, share):
    """Yields documents with one change; at each place a `share` of the changes, or all."""
    for path in places(document):
        yield from structural_changes(document, path)
        changes = list(changes_at(kind, document, path))
        yield from changes if share is None else generator.sample(changes, min(share, len(changes)))


def one_mutation(kind, document, generator):
    path = generator.choice(list(places(document)))
    changes = list(changes_at(kind, document, path)) + list(structural_changes(document, path))
    return generator.choice(changes) if changes else document


def words_of(kind, cache={}):
    if kind not in cache:
        found = set()

        def collect(node):
            if isinstance(node, dict):
                found.update(word for word in node.get("enum", []) if isinstance(word, str))
                for child in node.values():
                    collect(child)
            elif isinstance(node, list):
                for child in node:
                    collect(child)

        collect(schema_of(kind))
        cache[kind] = sorted(found)
    return cache[kind]


def schema_of(kind):
    with open(os.path.join(ROOT, "schemas", kind + ".schema.json"), encoding="utf-8") as handle:
        return json.load(handle)


def optional_removed(document, generator):
    """Returns the document without some optional fields; each is left out with a small probability."""
    changed = copy.deepcopy(document)
    for path in sorted(places(changed), key=len, reverse=True):
        if path and isinstance(path[-1], str) and generator.random() < 0.03:
            try:
                del parent_of(changed, path)[path[-1]]
            except (KeyError, IndexError, TypeError):
                pass
    return changed


def verdicts(driver, paths):
    out = subprocess.run([driver, "verdicts"], input="".join(path + "\n" for path in paths), text=True,
                         capture_output=True, check=True).stdout
    return [line.split("\t", 1) for line in out.splitlines()]


def run_line_document(header, line):
    """Makes a run log whose other line is `line`: our reader reads whole logs, but the schema describes single lines."""
    return json.dumps(header, ensure_ascii=False) + "\n" + json.dumps(line, ensure_ascii=False) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("driver")
    parser.add_argument("--changes", type=int, default=scaled(4), metavar="N",
                        help="of each value of a golden document; of examples 5 N in all")
    parser.add_argument("--all", action="store_true", help="every change, not a random share")
    parser.add_argument("--keep", help="write documents that the two disagree on here")
    options = parser.parse_args()
    seed = int(os.environ.get("AH_TEST_SEED", "20241107"), 0)
    print(f"AH_TEST_SEED={seed}")
    generator = random.Random(seed)

    validators = {}
    for kind in KINDS:
        jsonschema.Draft202012Validator.check_schema(schema_of(kind))
        validators[kind] = jsonschema.Draft202012Validator(schema_of(kind))
    every = list(samples())
    header = next(document for kind, document, _ in every if kind == "runlog" and "kind" in document)

    cases = []  # (kind, document, text)
    for kind, document, golden in every:
        if golden or options.all:
            variants = list(mutations(kind, document, generator, None if options.all else options.changes))
        else:
            variants = [one_mutation(kind, document, generator) for _ in range(5 * options.changes)]
        variants += [optional_removed(document, generator) for _ in range(options.changes)]
        variants += [one_mutation(kind, one_mutation(kind, document, generator), generator) for _ in range(2 * options.changes)]
        for variant in [document] + variants:
            if kind == "runlog" and "line" in document:
                text = run_line_document(header, variant)
            else:
                text = json.dumps(variant, ensure_ascii=False)
            cases.append((kind, variant, text))

    counts = {kind: [0, 0, 0] for kind in KINDS}  # accepted, refused for meaning, refused for shape
    disagreements = 0
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for index, (_, _, text) in enumerate(cases):
            paths.append(os.path.join(folder, f"{index}.json"))
            with open(paths[-1], "w", encoding="utf-8", newline="") as handle:
                handle.write(text)
        for (kind, variant, text), (fault, sentence), path in zip(cases, verdicts(options.driver, paths), paths):
            expected = validators[kind].is_valid(variant)
            accepted = fault in ("none", "meaning")
            counts[kind][{"none": 0, "meaning": 1}.get(fault, 2)] += 1
            if fault != "none" and not sentence.startswith(path):
                print(f"no file in the sentence: {sentence}")
                disagreements += 1
            if expected == accepted:
                continue
            disagreements += 1
            if disagreements <= 20:
                reason = next((error.message for error in validators[kind].iter_errors(variant)), "valid")
                print(f"{kind}: jsonschema says {reason[:160]!r}, the reader says {fault} {sentence[-200:]!r}")
                if options.keep:
                    with open(os.path.join(options.keep, f"disagreement-{disagreements}.json"), "w",
                              encoding="utf-8") as handle:
                        handle.write(text)

    for kind in KINDS:
        good, meaning, shape = counts[kind]
        print(f"{kind:<11} {good:6} good {meaning:6} wrong in meaning {shape:6} wrong in shape")
        if good < 5 * options.changes or shape < 25 * options.changes:
            print(f"{kind}: too few documents to prove anything")
            disagreements += 1
    print(f"{len(cases)} documents, {disagreements} disagreements")
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
