#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What happens to runs from outside: signals, damaged checkpoints, data that change, a second run, a terminal.

    disturbed_runs.py --program AUTOHETE [--seed S] [NAME ...]

Each function below named test_ is one test. In each, the run prints a sentence and ends with the right status, and what
existed before (checkpoints, logs) is unchanged afterwards, byte for byte.
"""
import argparse
import json
import os
import pty
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from scale import scaled  # noqa: E402
from small_runs import Runs, text  # noqa: E402

BF16 = ["--dtype", "bf16", "--micro-batches", 2]
RESIDENT, STREAM = ["--policy", "resident"], ["--policy", "stream"]
FOREVER = 1000000
BUSY = "other programs or the hypervisor"  # only on a busy machine
FLIPS = scaled(3)  # in each part of a file


def require(holds, what):
    if not holds:
        raise AssertionError(what)


def everything(runs, name):
    return {path: runs.digests(path) for path in runs.checkpoints(name)}


def stopped(runs, signals, flags, plan=RESIDENT):
    """Starts a run and sends the signals, one after another, once its log has some steps. Returns (status, stderr,
    log)."""
    log = runs.fresh("log")
    process = runs.start(runs.plan(plan, BF16), ["--steps", FOREVER, "--log", log, *flags], stdout=subprocess.DEVNULL,
                         stderr=subprocess.PIPE)
    while process.poll() is None and len(runs.steps(log)) < 5:
        time.sleep(0.01)
    for number in signals:
        process.send_signal(number)
    err = process.communicate(timeout=300)[1].decode()
    return process.returncode, err, log


def test_signals__once(runs, _):
    """The run finishes the steps under way, saves them and says so; another run continues from exactly there."""
    for number in (signal.SIGINT, signal.SIGTERM):
        out = runs.fresh("out")
        status, err, log = stopped(runs, [number], ["--save", out])
        step = max(runs.steps(log))
        require(status == 130, f"{number}: ended with {status}")
        require(err == f"note: interrupted after step {step}; saved: run the same command with --resume '{out}' to continue\n", err)
        require([path.name for path in runs.checkpoints(out)] == [f"step-{step:08d}"], "saved something else")
        end = runs.log(log)[-1]
        require((end["line"], end["reason"], end["step"]) == ("end", "interrupted", step), end)
        done = runs.run(runs.plan(STREAM, BF16), ["--resume", out, "--steps", FOREVER, "--valid", "no"], status=1)
        require("no: cannot be read" in done.stderr, done.stderr)


def test_signals__while_evaluating(runs, _):
    """Steps completed before an evaluation are saved, too."""
    runs.write("long.txt", text(60000))
    out = runs.fresh("out")
    status, err, log = stopped(runs, [signal.SIGINT], ["--save", out, "--valid", "long.txt", "--valid-every", 5])
    step = max(runs.steps(log))
    require(status == 130 and f"interrupted after step {step}; saved" in err, (status, err))
    require([path.name for path in runs.checkpoints(out)] == [f"step-{step:08d}"], "saved something else")


def test_signals__without_a_folder(runs, _):
    status, err, log = stopped(runs, [signal.SIGINT], [])
    require(status == 130, f"ended with {status}")
    require(err.endswith(f"\nerror: interrupted after step {max(runs.steps(log))}; nothing was saved (--save DIR would)\n")
            and "nothing is kept" in err and err.count("\n") == 2, err)


def test_signals__twice(runs, rng):
    """The second signal ends the run at once, whichever it is. Checkpoints are whole, and a run continues from the
    newest."""
    for both in ((signal.SIGINT, signal.SIGINT), (signal.SIGINT, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT)):
        out, log = runs.fresh("out"), runs.fresh("log")
        flags = ["--schedule", "constant", "--save", out, "--save-every", 7, "--log", log]
        process = runs.start(runs.plan(RESIDENT, BF16), ["--steps", FOREVER, *flags], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        while process.poll() is None and len(runs.checkpoints(out)) < 2:
            time.sleep(0.01)
        process.send_signal(both[0])
        time.sleep(rng.uniform(0, 0.003))
        process.send_signal(both[1])
        status = process.wait(timeout=300)
        require(status in (-both[1], 130), f"{both}: ended with {status}")
        for checkpoint in runs.checkpoints(out):
            require(not runs.broken(checkpoint), f"{checkpoint} is damaged")
        newest = int(runs.checkpoints(out)[-1].name[5:])
        runs.run(runs.plan(STREAM, BF16), ["--save", out, "--resume", out, "--steps", newest + 1])
        require(not runs.leftovers(out), "a leftover is still there")


def parts(size):
    """Returns places in a file: its ends and some between."""
    return sorted({0, size // 4, size // 2, 3 * size // 4, max(size - 8, 0)})


def damages(content, rng):
    """Yields (what was done, the damaged file)."""
    yield "empty", b""
    yield "one byte short", content[:-1]
    yield "one byte more", content + b"\0"
    yield "cut at half", content[:len(content) // 2]
    for place in parts(len(content)):
        for _ in range(FLIPS):
            at = min(place + rng.randrange(max(len(content) // 5, 1)), len(content) - 1)
            flipped = bytearray(content)
            flipped[at] ^= 1 << rng.randrange(8)
            yield f"a bit flipped at {at}", bytes(flipped)
    yield "zeroes at its end", content[:-max(len(content) // 8, 1)] + bytes(max(len(content) // 8, 1))


def same_manifest(before, after):
    """Returns true if both manifests are the same document: a flipped bit may be in spaces, or in something no reader
    looks at."""
    try:
        return json.loads(before) == json.loads(after)
    except ValueError:
        return False


def refused(runs, out, file, what):
    """Resumes from a damaged checkpoint by name: the run names the damage and the previous checkpoint, and touches
    nothing."""
    log = runs.fresh("log")
    done = subprocess.run([runs.program, *map(str, runs.words(runs.plan(STREAM, BF16), ["--resume", f"{out}/step-00000004",
                           "--save", out, "--log", log]))], cwd=runs.folder, capture_output=True, text=True, check=False)
    told = f"{file}, {what}: exit {done.returncode}, {done.stderr!r}"
    require(done.returncode in (3, 6), told)
    require(done.stderr.startswith("error: ") and done.stderr.count("\n") == 1 and not done.stdout, told)
    require(not (runs.folder / log).exists(), f"{told}: began a log")
    if done.returncode == 3:
        require("step-00000004" in done.stderr and re.search("the newest before it is '.*step-00000002'", done.stderr), told)


def passed_over(runs, out, file, what, wanted):
    """Resumes from a folder whose newest checkpoint is damaged: the run names the damage, continues from the previous
    checkpoint, and ends with the same bits."""
    new = runs.fresh("new")
    done = runs.run(runs.plan(STREAM, BF16), ["--resume", out, "--save", new])
    told = f"{file}, {what}: {done.stderr!r}"
    require(done.stderr.count("\n") == 1 and "step-00000004" in done.stderr, told)
    require(re.search("; resuming from '.*step-00000002', the newest complete one: 2 steps must be trained again", done.stderr), told)
    require(runs.digests(runs.checkpoints(new)[-1])["states.bin"] == wanted, f"{told}: other bits")


def test_damage__every_file(runs, rng):
    out = runs.fresh("out")
    runs.run(runs.plan(RESIDENT, BF16), ["--steps", 4, "--save", out, "--save-every", 2])
    newest, before = runs.checkpoints(out)[-1], everything(runs, out)
    require(sorted(before[newest]) == ["checkpoint.json", "config.json", "model.safetensors", "states.bin"], before)
    tried, wanted = 0, runs.digests(newest)["states.bin"]
    for path in sorted(newest.iterdir()):
        content = path.read_bytes()
        for what, damaged in damages(content, rng):
            if path.name == "checkpoint.json" and same_manifest(content, damaged):
                continue
            path.write_bytes(damaged)
            refused(runs, out, path.name, what)
            passed_over(runs, out, path.name, what, wanted)
            tried += 1
        path.unlink()
        refused(runs, out, path.name, "missing")
        passed_over(runs, out, path.name, "missing", wanted)
        path.write_bytes(content)
    require(everything(runs, out) == before and not runs.leftovers(out), "something was changed")
    runs.run(runs.plan(STREAM, BF16), ["--steps", 4, "--resume", f"{out}/step-00000002", "--save", runs.fresh("out")])
    print(f"  {tried} damages")


def test_data__change_while_they_are_used(runs, _):
    """The run ends and says what happened. The previous checkpoint stays and is named, and a run continues from it when
    the data are back."""
    out, log = runs.fresh("out"), runs.fresh("log")
    before = (runs.folder / "text.txt").read_bytes()
    for name, content in (("cut", before[:5000]), ("other", before[::-1])):
        out, log = runs.fresh("out"), runs.fresh("log")
        flags = ["--schedule", "constant", "--save", out, "--save-every", 3, "--log", log]
        process = runs.start(runs.plan(RESIDENT, BF16), ["--steps", FOREVER, *flags], stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE)
        while process.poll() is None and not runs.checkpoints(out):
            time.sleep(0.01)
        runs.write("text.txt", content)
        err = process.communicate(timeout=300)[1].decode()
        newest = runs.checkpoints(out)[-1]
        runs.write("text.txt", before)
        require(process.returncode == 6, f"{name}: exit {process.returncode}, {err!r}")
        require(re.fullmatch(r"error: text\.txt: changed after it was checked.*; the checkpoint "
                             rf"'{out}/{newest.name}' is unchanged\n", err), err)
        require(not runs.broken(newest) and runs.log(log)[-1]["reason"] == "failed", f"{name}: lost something")
        runs.run(runs.plan(STREAM, BF16), ["--resume", out, "--save", out, "--steps", int(newest.name[5:]) + 1])


def change_while_it_trains(runs, flags, steps):
    """Starts a run of `steps` steps and truncates valid.txt meanwhile. Returns (the ended run, what it said), or None
    if more than half of the steps were done before."""
    log = runs.fresh("log")
    process = runs.start(runs.plan(RESIDENT, BF16), ["--steps", steps, "--log", log, "--valid", "valid.txt", *flags],
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while process.poll() is None and not runs.steps(log):
        time.sleep(0.005)
    process.send_signal(signal.SIGSTOP)
    in_time = process.poll() is None and max(runs.steps(log)) <= steps / 2
    if in_time:
        runs.write("valid.txt", text(5000))
    else:
        process.kill()
    process.send_signal(signal.SIGCONT)
    err = process.communicate(timeout=300)[1].decode()
    return (process, err) if in_time else None


def test_data__held_out_change(runs, _):
    """The steps before the failed evaluation are saved; there are more of them if the machine is faster than this
    script."""
    changed, steps = None, 100
    while not changed:
        out = runs.fresh("out")
        runs.write("valid.txt", text(9000))
        changed = change_while_it_trains(runs, ["--save", out], steps)
        steps *= 1 if changed else 4
    process, err = changed
    require(process.returncode == 6 and "valid.txt: changed after it was checked" in err, (process.returncode, err))
    require([path.name for path in runs.checkpoints(out)] == [f"step-{steps:08d}"], "the last steps were not saved")


def test_folder__of_a_run_that_goes_on(runs, _):
    out, log = runs.fresh("out"), runs.fresh("log")
    process = runs.start(runs.plan(RESIDENT, BF16), ["--steps", FOREVER, "--save", out, "--log", log],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not runs.steps(log):
        time.sleep(0.01)
    done = runs.run(runs.plan(STREAM, BF16), ["--steps", 3, "--save", out], status=1)
    process.kill()
    process.wait()
    require(re.fullmatch(rf"error: {out}: .*another run.*\n", done.stderr), done.stderr)
    runs.run(runs.plan(STREAM, BF16), ["--steps", 3, "--save", out])


def on_terminal(runs, flags):
    """Returns what a run shows on a terminal, from both streams."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(runs.folder)
        os.execv(runs.program, [runs.program, *map(str, runs.words(runs.plan(RESIDENT, BF16), flags))])
    shown = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()


def test_terminal__progress(runs, _):
    """On a terminal there is a progress line, erased before lasting output; in a pipe there are no escape sequences."""
    runs.plan(RESIDENT, BF16)
    os.environ["TERM"] = "xterm"
    status, shown = on_terminal(runs, ["--steps", 30])
    require(status == 0, f"ended with {status}")
    require(re.search(r"\r\x1b\[K\[#+\.*\] +\d+ % .* left .*step +\d+/30", shown), f"no progress in {shown!r}")
    whole = re.sub(r"\r\n +", " ", shown)  # joins sentences that were broken at its width
    stays = [line.split("\x1b[K")[-1] for line in whole.split("\r\n")]
    stays = [line for line in stays if not line.startswith(BUSY)]
    require(len([line for line in stays if re.match(r"step +\d+/30  loss \d\.\d{4}  ", line)]) >= 10, stays)
    require(stays[-1] == "" and "nothing was kept" in stays[-2] and "%" in stays[-3], f"ends with {stays[-3:]}")
    piped = runs.run(runs.plan(RESIDENT, BF16), ["--steps", 30])
    require("\x1b" not in piped.stdout + piped.stderr and "\r" not in piped.stdout, "escape sequences in a pipe")
    lines = [line for line in piped.stdout.splitlines() + piped.stderr.splitlines() if not line.startswith(BUSY)]
    require(len(lines) == len(stays) - 1, "a pipe has other lines than a terminal")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("AH_TEST_SEED", "1")))
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    print(f"AH_TEST_SEED={options.seed}")
    tests = {name: test for name, test in globals().items() if name.startswith("test_")}
    with tempfile.TemporaryDirectory(prefix="autohete-disturbed-") as folder:
        runs = Runs(options.program, folder)
        for name in options.names or tests:
            begin = time.monotonic()
            tests[name](runs, random.Random(options.seed))
            print(f"{name}: {time.monotonic() - begin:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
