# SPDX-License-Identifier: Apache-2.0
"""Measures how much GPU memory a program takes as the driver counts it: the arena, the reserve, and what no plan
counts, such as page tables of locked host memory. Also measures how many processors the hypervisor took meanwhile.

    watch = Watch("log.ndjson")
    with watch.of(process):
        process.wait()
    watch.grown_bytes    # None where there is no nvidia-smi, or the program ended before its first step

nvidia-smi holds locks of the driver, so it must not run during a timed step. After its first step, which does not
count, the program is stopped, nvidia-smi is run, and the program continues. The step that was stopped does not count
either (FIRST in parts.py).
"""
import contextlib
import os
import signal
import subprocess
import threading

STAT = "/proc/stat"
STEAL = 8  # field of the first line: ticks given to other guests while processors here had work
WORDS = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")
EVERY_S, ANSWER_S = 0.05, 8


def used_bytes():
    """Returns the used memory of all GPUs; None if it is not known."""
    try:
        found = subprocess.run(WORDS, check=True, text=True, capture_output=True, timeout=ANSWER_S).stdout
        return sum(int(line) for line in found.split()) << 20
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def stolen_s(path=STAT):
    """Returns the processor seconds that the hypervisor took since the machine started; None if they are not known."""
    try:
        with open(path, encoding="utf-8") as file:
            return int(file.readline().split()[STEAL]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


class Watch:
    """Looks once, after the first step in the log."""

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
        with contextlib.suppress(ProcessLookupError):  # the process has just ended
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
