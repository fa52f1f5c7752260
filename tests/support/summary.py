#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up CTest's JUnit files: the slowest tests, every failure and skip, and the closing line.

A skip is fine only when a line of the allowed file, "PART TEST: reason" (PART or TEST may be *), names it; any
other skip is a failure: a test that quietly does nothing proves nothing.
"""
import argparse
import fnmatch
import os
import sys
import xml.etree.ElementTree as ElementTree


def allowed_skips(path):
    rules = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            line = line.split("#")[0].strip()
            if line:
                names, reason = line.split(":", 1)
                part, test = names.split()
                rules.append((part, test, reason.strip()))
    return rules


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--allowed", required=True)
    parser.add_argument("--broken-parts", type=int, default=0)
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    rules = allowed_skips(options.allowed)
    passed, failed, skipped, times = 0, options.broken_parts, 0, []
    for path in options.files:
        if not os.path.exists(path):
            continue
        part = os.path.basename(path).removesuffix(".xml")
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            name = case.get("name")
            times.append((float(case.get("time") or 0), part, name))
            if case.find("failure") is not None or case.get("status") == "fail":
                failed += 1
                print(f"failed: {part} {name}")
            elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
                reason = next((r for p, t, r in rules
                               if fnmatch.fnmatch(part, p) and fnmatch.fnmatch(name, t)), None)
                if reason is None:
                    failed += 1
                    print(f"failed: {part} {name}: skipped, and {options.allowed} does not allow it")
                else:
                    skipped += 1
                    print(f"skipped: {part} {name}: {reason}")
            else:
                passed += 1
    print("\nThe slowest tests")
    for seconds, part, name in sorted(times, reverse=True)[:20]:
        print(f"{part + ': ' + name:<48} {seconds:8.1f} s")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
