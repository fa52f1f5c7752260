#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Brings memory to a virtual machine that gets it only when it is used.

    memory.py BYTES [--seconds 120]

Some virtual machines start with part of their memory and get more once that part is in use. Then the memory available
at first says little: programs that check it refuse to run, and programs that do not check it are killed. This program
takes memory in steps that are small compared with what is left. It stops when BYTES would be available after it gives
all back, or when no more memory comes; then it gives all back. If BYTES are available at once, it takes nothing.

Invariants: (1) FLOOR of the available memory is never taken; (2) a step is at most a quarter of what exceeds FLOOR; (3)
it ends when nothing came for PATIENCE_S. If the system runs out of memory anyway, Linux ends this program first.

Prints one line of JSON: available bytes before and after, bytes taken, seconds, and why it ended.
"""
import argparse
import concurrent.futures
import contextlib
import ctypes
import json
import mmap
import os
import sys
import time

GIB = 1 << 30
MOST_FLOOR, LEAST_FLOOR = GIB, GIB // 4  # in between, a sixteenth of the memory
MOST_STEP, LEAST_STEP = 2 * GIB, GIB // 16
PATIENCE_S, LOOK_S = 12, 0.1
THREADS = min(os.cpu_count() or 1, 8)  # several threads speed up the machine below, which must find the pages


def meminfo(root="/"):
    with open(os.path.join(root, "proc/meminfo"), encoding="utf-8") as file:
        return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in file}


def number_in(path):
    try:
        with open(path, encoding="utf-8") as file:
            return int(file.read())
    except (OSError, ValueError):  # no such file, or 'max'
        return None


def groups_of(root):
    """Returns (limit, used bytes) of each control group above this process that limits memory."""
    try:
        with open(os.path.join(root, "proc/self/cgroup"), encoding="utf-8") as file:
            groups = [line.strip().split(":", 2) for line in file]
    except OSError:
        return []
    found = []
    for _, controllers, group in groups:
        place, names = "sys/fs/cgroup", ("memory.max", "memory.current")
        if controllers:
            place, names = "sys/fs/cgroup/memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")
        while group and (not controllers or "memory" in controllers.split(",")):
            most, now = (number_in(os.path.join(root, place, group.lstrip("/"), name)) for name in names)
            if most is not None and now is not None:
                found.append((most, now))
            group = os.path.dirname(group) if group != "/" else ""
    return found


def available_bytes(root="/"):
    kernel = meminfo(root)
    free = [max(most - now, 0) for most, now in groups_of(root)]
    return min([kernel.get("MemAvailable", kernel["MemTotal"]), *free])


def usable_bytes():
    return min([meminfo()["MemTotal"], *(most for most, _ in groups_of("/"))])


class Host:
    """The system as bring() needs it."""

    def __init__(self):
        self.regions = []
        self.pool = concurrent.futures.ThreadPoolExecutor(THREADS)

    available_bytes, total_bytes = staticmethod(available_bytes), staticmethod(usable_bytes)
    now = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    def take(self, n_bytes):
        """Allocates memory for this process and writes every page, so that all of it is resident."""
        region = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with contextlib.suppress(OSError):  # the kernel may have no huge pages
            region.madvise(mmap.MADV_HUGEPAGE)
        begin = ctypes.addressof(ctypes.c_char.from_buffer(region))
        share = -(-n_bytes // THREADS)
        list(self.pool.map(lambda at: ctypes.memset(begin + at, 1, min(share, n_bytes - at)), range(0, n_bytes, share)))
        self.regions.append(region)


def floor_of(total_bytes):
    return max(LEAST_FLOOR, min(MOST_FLOOR, total_bytes // 16))


def bring(host, wanted_bytes, seconds):
    """Takes memory until `wanted_bytes` would be available; see the invariants above."""
    begun = moved = host.now()
    first, taken, why = host.available_bytes(), 0, ""
    while not why:
        room = host.available_bytes() - floor_of(host.total_bytes())
        if room + floor_of(host.total_bytes()) + taken >= wanted_bytes:
            why = "it is there" if taken == 0 else "it came"
        elif host.now() - begun > seconds:
            why = f"{seconds:.0f} s were over"
        elif room >= 4 * LEAST_STEP:
            step = min(room // 4, MOST_STEP)
            host.take(step)
            taken, moved = taken + step, host.now()
        elif host.now() - moved > PATIENCE_S:
            why = f"no more came for {PATIENCE_S} s"
        else:
            host.sleep(LOOK_S)
    return {"before_bytes": first, "after_bytes": host.available_bytes() + taken, "taken_bytes": taken,
            "seconds": round(host.now() - begun, 1), "complete": why.startswith("it "), "why": why}


def be_ended_first(score):
    """If the system runs out of memory, this program and its children end before the program that started it."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="utf-8") as file:
            file.write(str(score))
    except OSError:
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bytes", type=int)
    parser.add_argument("--seconds", type=float, default=120)
    options = parser.parse_args()
    be_ended_first(1000)
    print(json.dumps(bring(Host(), options.bytes, options.seconds)), flush=True)
    os._exit(0)  # gives back all memory at once


if __name__ == "__main__":
    sys.exit(main())
