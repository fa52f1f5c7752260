# SPDX-License-Identifier: Apache-2.0
"""Runs that take a second: the model tests/cli/documents/model-least.json, planned for machine-cpu.json and trained on
text.

    runs = Runs(program, folder)
    plan = runs.plan("resident", ["--policy", "resident"], BF16)       # the same plan is made once
    process = runs.start(plan, ["--steps", 20, "--save", "out"])
"""
import hashlib
import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ROOT / "tests/cli/documents"
MANIFEST = "checkpoint.json"


def text(n_bytes):
    """Returns words in an order that repeats late, so that batches differ."""
    words = ("what", "was", "saved", "goes", "on", "as", "if", "nothing", "had", "been", "in", "its", "way")
    state, out = 1, bytearray()
    while len(out) < n_bytes:
        state = state * 1103515245 + 12345 & 0x7fffffff
        out += words[(state >> 16) % len(words)].encode() + (b".\n" if state >> 16 & 7 == 0 else b" ")
    return bytes(out[:n_bytes])


class Runs:
    def __init__(self, program, folder):
        self.program, self.folder = str(Path(program).resolve()), Path(folder)
        self.made, self.names = {}, 0
        self.write("text.txt", text(20000))
        self.write("held-out.txt", text(700)[::-1])

    def write(self, name, content):
        (self.folder / name).write_bytes(content)

    def fresh(self, name):
        self.names += 1
        return f"{name}-{self.names}"

    def plan(self, flags, training):
        """Returns the name of a plan; `training` has the flags that its numeric signature depends on."""
        key = (*flags, *training)
        if key not in self.made:
            self.made[key] = f"plan-{len(self.made)}.json"
            self.call("plan", DOCUMENTS / "model-least.json", "--machine", DOCUMENTS / "machine-cpu.json", "--batch", 4,
                      "--seq", 32, "--effort", "quick", *key, "-o", self.made[key])
        return self.made[key]

    def call(self, *words, status=0):
        done = subprocess.run([self.program, *map(str, words)], cwd=self.folder, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=300, check=False)
        if done.returncode != status:
            raise AssertionError(f"autohete {' '.join(map(str, words))}\n  exit {done.returncode}, not {status}\n"
                                 f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done

    def words(self, plan, flags):
        return ["run", plan, "--data", "text.txt", "--data-format", "bytes", *flags]

    def run(self, plan, flags, status=0):
        return self.call(*self.words(plan, flags), status=status)

    def start(self, plan, flags, **settings):
        return subprocess.Popen([self.program, *map(str, self.words(plan, flags))], cwd=self.folder,
                                stdin=subprocess.DEVNULL, **settings)

    def checkpoints(self, name):
        """Returns the paths of the checkpoints, ascending, without leftovers of saves (step-N.tmp)."""
        return sorted(path for path in (self.folder / name).glob("step-*") if path.suffix != ".tmp")

    def leftovers(self, name):
        return sorted((self.folder / name).glob("step-*.tmp"))

    def digests(self, checkpoint):
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in checkpoint.iterdir()}

    def broken(self, checkpoint):
        """Returns what is wrong with a checkpoint by its manifest; empty: it is whole."""
        manifest, found = json.loads((checkpoint / MANIFEST).read_text()), self.digests(checkpoint)
        wanted = {file["name"]: file["sha256"] for file in manifest["files"]}
        found.pop(MANIFEST)
        return [] if found == wanted else sorted(set(found.items()) ^ set(wanted.items()))

    def steps(self, name):
        """Returns the losses by step from a log that may still be written."""
        path = self.folder / name
        content = path.read_text() if path.exists() else ""
        lines = map(json.loads, content[:content.rfind("\n") + 1].splitlines())
        return {line["step"]: line["loss"] for line in lines if line.get("line") == "step"}

    def log(self, name):
        """Returns the lines of a run log, which must end with a whole line."""
        path = self.folder / name
        content = path.read_text() if path.exists() else ""
        if content and not content.endswith("\n"):
            raise AssertionError(f"{name} ends within a line: {content[-100:]!r}")
        return [json.loads(line) for line in content.splitlines()]
