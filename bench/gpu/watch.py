# SPDX-License-Identifier: Apache-2.0
"""How much of the GPU's memory a program takes as the driver counts it: the arena, the reserve, and what nobody plans, such
as page tables of locked host memory.

    with Watch() as watch:
        run()
    watch.grown_bytes    # None where there is no nvidia-smi
"""
import subprocess
import threading

WORDS = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")
EVERY_S, ANSWER_S = 2, 20


def used_bytes():
    """Of all GPUs; None where nobody says."""
    try:
        found = subprocess.run(WORDS, check=True, text=True, capture_output=True, timeout=ANSWER_S).stdout
        return sum(int(line) for line in found.split()) << 20
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


class Watch:
    """Looks every EVERY_S while it is entered."""

    def __init__(self):
        self.grown_bytes = None
        self.before = used_bytes()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.look)

    def look(self):
        while not self.over.wait(EVERY_S):
            now = used_bytes()
            if now is not None:
                self.grown_bytes = max(self.grown_bytes or 0, now - self.before)

    def __enter__(self):
        if self.before is not None:
            self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        if self.before is not None:
            self.thread.join()
