# SPDX-License-Identifier: Apache-2.0
"""What overlap and predictions share: plans that train in turns, probes of the machine, and a lock.

A turn is one `autohete run` of a few steps. Its first steps, which fill the lanes, and its last step, which empties
them, do not count. The sample is the mean time of the steps that count, from end to end.
"""
import contextlib
import fcntl
import json
import os
import statistics
import subprocess
import time

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # numpy reads it when it is loaded
import numpy  # pylint: disable=wrong-import-position

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
FIRST, LAST = 3, 1  # steps that do not count
LANES = ("compute", "h2d", "d2h", "host")


def spread(values):
    middle = statistics.median(values)
    return middle, statistics.median(abs(value - middle) for value in values)


@contextlib.contextmanager
def locked(path, shared=False):
    """Holds the file's lock, if a file is given, so that programs that use this lock do not disturb each other."""
    if not path:
        yield
        return
    with open(path, "w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield


class Program:
    def __init__(self, path):
        self.path = path

    def call(self, *words):
        return subprocess.run([self.path, *map(str, words)], check=False, text=True, capture_output=True)

    def plan(self, output, model, machine, *flags):
        result = self.call("plan", model, "--machine", machine, "-o", output, *flags)
        if result.returncode in (4, 5):
            return None
        if result.returncode:
            raise SystemExit(result.stderr)
        with open(output, encoding="utf-8") as handle:
            return json.load(handle)

    def profile(self, output, emulate, *flags):
        result = self.call("profile", "--quick", "--emulate", emulate, "-o", output, *flags)
        if result.returncode:
            raise SystemExit(result.stderr)
        with open(output, encoding="utf-8") as handle:
            return json.load(handle)

    def turn(self, plan, machine, data, steps):
        """Trains; returns the sample in us, the medians of the lanes' busy times, and the losses."""
        result = self.call("run", plan, "--data", data, "--data-format", "bytes", "--emulate", machine, "--steps",
                           FIRST + steps + LAST, "--json")
        if result.returncode:
            raise SystemExit(result.stderr)
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        rows = [line for line in lines if line.get("line") == "step"]
        counted = rows[FIRST:FIRST + steps]
        busy = {lane: statistics.median(row[lane + "_us"] for row in counted) for lane in LANES}
        return sum(row["step_us"] for row in counted) / steps, busy, [row["loss"] for row in rows]


class Probe:
    """Measures the machine's current speed on each core: a matrix product and a pass over memory, by one thread. If
    there are more than `most` cores, `most` evenly spaced ones are probed."""

    def __init__(self, most=None):
        self.a = numpy.ones((640, 640), numpy.float32)
        self.b = numpy.ones(1 << 22, numpy.float32)
        self.cores = os.sched_getaffinity(0)
        every = -(-len(self.cores) // most) if most else 1
        self.probed = sorted(self.cores)[::every]

    @staticmethod
    def seconds(work, times):
        taken = []
        for _ in range(times):
            start = time.perf_counter()
            work()
            taken.append(time.perf_counter() - start)
        return statistics.median(taken)

    def __call__(self):
        """Returns products and passes per second, by core."""
        def scale():
            self.b *= numpy.float32(1)
        rates = []
        for core in self.probed:
            os.sched_setaffinity(0, {core})
            rates += [1 / self.seconds(lambda: self.a @ self.a, 9), 1 / self.seconds(scale, 9)]
        os.sched_setaffinity(0, self.cores)
        return rates


def device_name():
    with open("/proc/cpuinfo", encoding="utf-8") as handle:
        names = [line.split(":", 1)[1].strip() for line in handle if line.startswith("model name")]
    return f"{names[0]}, {len(names)} processors" if names else "unknown"


def save(path, result):
    with open(path, "w", encoding="utf-8") as handle:
        json.dump(result, handle, indent=1)
        handle.write("\n")
