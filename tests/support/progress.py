#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows how far a run of CTest is: reads its output, keeps all of it in a file, and prints what failed.

    ctest --output-on-failure ... | progress.py PART LOG

A line tells how many tests are done: one that is rewritten on a terminal, else one every half a minute.
"""
import re
import sys
import time

DONE = re.compile(r" *(\d+)/(\d+) Test +#\d+: (\S+) .*?(Passed|\*\*\*\S+|Not Run)")
EVERY_S = 30


def main():
    part, path = sys.argv[1:]
    terminal, begun, told, failed, shows = sys.stdout.isatty(), time.monotonic(), 0, 0, False
    with open(path, "w", encoding="utf-8") as log:
        for line in sys.stdin:
            log.write(line)
            done = DONE.match(line)
            if not done:
                if shows and not re.match(r" *(Start +\d+:|\d+% tests passed|Total Test time|$)", line):
                    print(line, end="")
                continue
            now = time.monotonic()
            shows = done.group(4) not in ("Passed", "***Skipped")
            failed += shows
            if shows:
                print(f"{done.group(4).strip('*')}: {part} {done.group(3)}" + " " * 30, flush=True)
            if terminal or now - told > EVERY_S or done.group(1) == done.group(2):
                print(f"{part}: {done.group(1)} of {done.group(2)} tests, {failed} failed, {now - begun:.0f} s",
                      end="\r" if terminal else "\n", flush=True)
                told = now
    if terminal:
        print()


if __name__ == "__main__":
    main()
