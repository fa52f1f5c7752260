# SPDX-License-Identifier: Apache-2.0
"""How much of the GPU's memory a program takes as the driver counts it: the arena, the reserve, and what nobody plans, such
as page tables of locked host memory. And how many processors the hypervisor took meanwhile.

    watch = Watch("log.ndjson")
    with watch.of(process):
        process.wait()
    watch.grown_bytes    # None where there is no nvidia-smi, or the program ended before its first step

nvidia-smi holds locks of the driver, so it never runs beside a step that is timed: the program is stopped after its first
step, which does not count, asked for, and goes on. The step that is stopped does not count either (FIRST in parts.py).
"""
import contextlib
import os
import signal
import subprocess
import threading

STAT = "/proc/stat"
STEAL = 8  # field of its first line: ticks that the hypervisor gave to others while processors here had work
WORDS = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")
EVERY_S, ANSWER_S = 0.05, 8


def used_bytes():
    """Of all GPUs; None where nobody says."""
    try:
        found = subprocess.run(WORDS, check=True, text=True, capture_output=True, timeout=ANSWER_S).stdout
        return sum(int(line) for line in found.split()) << 20
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def stolen_s(path=STAT):
    """Seconds of processors that the hypervisor took, since the machine began; None where nobody says."""
    try:
        with open(path, encoding="utf-8") as file:
            return int(file.readline().split()[STEAL]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


class Watch:
    """Looks once, after the first step that the log tells of."""

    def __init__(self, log):
        self.log, self.grown_bytes = log, None
        self.before = used_bytes()
        self.over = threading.Event()

    def has_step(self):
        try:
            with open(self.log, encoding="utf-8") as file:
                return any('"line":"step"' in line.replace(" ", "") for line in file)
        except OSError:
            return False

    def look(self, process):
        while not self.over.wait(EVERY_S):
            if self.has_step():
                break
        if self.over.is_set() or process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):  # it ended just now
            os.kill(process.pid, signal.SIGSTOP)
        try:
            now = used_bytes()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
        self.grown_bytes = None if now is None else now - self.before

    @contextlib.contextmanager
    def of(self, process):
        thread = threading.Thread(target=self.look, args=(process,))
        if self.before is not None:
            thread.start()
        try:
            yield
        finally:
            self.over.set()
            if thread.is_alive():
                thread.join()
