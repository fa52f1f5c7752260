#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of a host that comes only as it is used.

    memory.py BYTES [--seconds 120]

Some virtual machines begin with a part of their memory and get more when that is in use: what is available at first says
little, programs that look at it refuse, and programs that do not are killed. This takes memory, in steps that are small
beside what is left, until BYTES would be available once it is given back, or no more comes; then it gives all back. Where
BYTES are available it takes nothing.

Invariants: (1) FLOOR of what is available is never taken; (2) a step is at most a quarter of what is above it; (3) it ends
when nothing came for PATIENCE_S. Should the system run out all the same, it is this program that Linux ends.

Prints one line of JSON: available bytes before and after, what was taken, seconds, and why it ended.
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
MOST_FLOOR, LEAST_FLOOR = GIB, GIB // 4  # and a sixteenth of what there is between them
MOST_STEP, LEAST_STEP = 2 * GIB, GIB // 16
PATIENCE_S, LOOK_S = 12, 0.1
THREADS = min(os.cpu_count() or 1, 8)  # pages that the machine under this one has to find come faster to several


def meminfo(root="/"):
    """Bytes by name."""
    with open(os.path.join(root, "proc/meminfo"), encoding="utf-8") as file:
        return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in file}


def number_in(path):
    try:
        with open(path, encoding="utf-8") as file:
            return int(file.read())
    except (OSError, ValueError):  # not there, or 'max'
        return None


def groups_of(root):
    """(limit, what is used of it) of each control group above this process that limits memory."""
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
    """The kernel's total, or the least limit of a control group."""
    return min([meminfo()["MemTotal"], *(most for most, _ in groups_of("/"))])


class Host:
    """What bring() needs of the system."""

    def __init__(self):
        self.regions = []
        self.pool = concurrent.futures.ThreadPoolExecutor(THREADS)

    available_bytes, total_bytes = staticmethod(available_bytes), staticmethod(usable_bytes)
    now = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    def take(self, n_bytes):
        """Memory of this process that is really there: every page is written."""
        region = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with contextlib.suppress(OSError):  # where the kernel has no huge pages
            region.madvise(mmap.MADV_HUGEPAGE)
        begin = ctypes.addressof(ctypes.c_char.from_buffer(region))
        share = -(-n_bytes // THREADS)
        list(self.pool.map(lambda at: ctypes.memset(begin + at, 1, min(share, n_bytes - at)), range(0, n_bytes, share)))
        self.regions.append(region)


def floor_of(total_bytes):
    return max(LEAST_FLOOR, min(MOST_FLOOR, total_bytes // 16))


def bring(host, wanted_bytes, seconds):
    """Takes until `wanted_bytes` would be available; see the invariants above."""
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
    """Where the system runs out of memory, this program and those that it starts end, not what it was started by."""
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
    os._exit(0)  # what was taken goes back at once


if __name__ == "__main__":
    sys.exit(main())
