#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What gpu-check --run does besides its parts, without a device: memory that comes only on use, limits of control
groups, the verdict on results, the search for the toolkit's libraries, and the settings that are tried with DeepSpeed.

    gpu_parts.py
"""
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../bench/gpu"))

import lanes  # noqa: E402
import memory  # noqa: E402
import parts  # noqa: E402
import results  # noqa: E402
import smoke  # noqa: E402
import verdict  # noqa: E402
import watch  # noqa: E402

GIB = 1 << 30
TILE = {"op": "fetch", "block": "b", "micro_batch": 0}
LONG_S = 200  # that a busy machine may need for anything
FOR_EVER_S = 1000  # that the test would take if the tested function did nothing


class FakeHost:
    """A machine of `total` bytes that gets `growth` more, up to `most`, in each second in which less than `low` is
    free."""

    def __init__(self, total, most, growth, low=2 * GIB, used=GIB):
        self.total, self.most, self.growth, self.low, self.used = total, most, growth, low, used
        self.at, self.least, self.taken = 0.0, total, 0

    def available_bytes(self):
        return self.total - self.used - self.taken

    def total_bytes(self):
        return self.total

    def now(self):
        return self.at

    def pass_time(self, seconds):
        self.at += seconds
        if self.available_bytes() < self.low:
            self.total = min(self.most, self.total + int(self.growth * seconds))

    sleep = pass_time

    def take(self, n_bytes):
        assert 4 * n_bytes <= self.available_bytes() - memory.floor_of(self.total), "a step is small beside what is left"
        self.taken += n_bytes
        self.least = min(self.least, self.available_bytes())
        self.pass_time(n_bytes / (4 * GIB))


def check_lanes():
    """A tile of a copy runs alone for 4 us, then for 6 us beside the host lane: 10 us, where the plan says 5. The
    host's op ends after the step."""
    def slice_of(process, thread, ts, dur, cat, args):
        return {"ph": "X", "pid": process, "tid": thread, "ts": ts, "dur": dur, "cat": cat, "args": args}

    names = [(1, 0, "process_name", "predicted (simulated)"), (2, 0, "process_name", "measured"), (2, 2, "thread_name", "h2d"),
             (2, 4, "thread_name", "host")]
    events = [{"ph": "M", "pid": process, "tid": thread, "name": name, "args": {"name": what}} for process, thread, name, what in names]
    events += [slice_of(2, 0, 0, 10, "iteration", {"step": 5}), slice_of(2, 2, 0, 10, "fetch", TILE), slice_of(2, 4, 4, 9, "data", {})]
    plan = {"blocks": [{"name": "b"}], "ops": [{"op": "fetch", "block": 0, "tiles": 2, "us": 10}]}
    found = lanes.condensed({"traceEvents": events}, plan)
    assert list(found) == ["measured"], found
    assert found["measured"]["lanes"] == {"compute": 0, "h2d": 1, "d2h": 0, "host": 0.6}, found
    assert found["measured"]["ops"] == [
        {"lane": "h2d", "op": "fetch", "beside": "", "us": 4, "kept": 0.5},
        {"lane": "h2d", "op": "fetch", "beside": "host", "us": 6, "kept": 0.5},
        {"lane": "host", "op": "data", "beside": "h2d", "us": 6}], found


def check_off():
    """A row names the differences in a report that matter to the step."""
    report = {"predicted": {"step_us": 100e3, "exposed_us": {"h2d": 10e3}},
              "measured": {"step_us": 120e3, "exposed_us": {"h2d": 29e3, "host": 1e3}},
              "parts": [{"op": "host_adam", "lane": "host", "predicted_us": 80e3, "measured_us": 100e3},
                        {"op": "fetch", "lane": "h2d", "predicted_us": 1e3, "measured_us": 2e3},
                        {"op": "forward", "lane": "compute", "predicted_us": 50e3, "measured_us": 52e3}]}
    found = parts.off_by(report)
    assert found == "host_adam on host 80.0 -> 100.0 ms, waits for h2d 10.0 -> 29.0 ms", found


def check_order():
    """Parts come in the order of the command line, those that failed last."""
    class Options:
        parts = ["sanitizer", "smoke", "sanitizer", "profile"]

    done = {"sanitizer": {"ok": False}, "smoke": {"ok": True}}
    assert [part[0] for part in results.in_order({}, Options)] == ["sanitizer", "smoke", "profile"]
    assert [part[0] for part in results.in_order(done, Options)] == ["smoke", "profile", "sanitizer"]
    Options.parts = []
    assert results.in_order({}, Options) == list(parts.PARTS)


def check_bring():
    there = FakeHost(128 * GIB, 128 * GIB, 0)
    found = memory.bring(there, 100 * GIB, 120)
    assert there.taken == 0 and found["complete"] and found["why"] == "it is there", found
    for growth in (8 * GIB, GIB):  # a second
        grows = FakeHost(8 * GIB, 128 * GIB, growth)
        found = memory.bring(grows, 64 * GIB, 240)
        assert found["complete"] and found["after_bytes"] >= 64 * GIB and found["before_bytes"] == 7 * GIB, found
        assert grows.least >= GIB // 4, grows.least
    stays = FakeHost(24 * GIB, 24 * GIB, 0)
    found = memory.bring(stays, 64 * GIB, 120)
    assert not found["complete"] and found["why"].startswith("no more came") and found["seconds"] < 30, found
    assert stays.least >= memory.floor_of(24 * GIB) and abs(found["after_bytes"] - 23 * GIB) < GIB, found
    little = FakeHost(GIB, GIB, 0, used=GIB // 2)
    memory.bring(little, 64 * GIB, 120)
    assert little.least >= GIB // 4
    slow = memory.bring(FakeHost(8 * GIB, 128 * GIB, GIB // 8), 64 * GIB, 60)
    assert not slow["complete"] and slow["why"] == "60 s were over", slow


def check_take():
    """What is taken is resident, and is given back when the program ends."""
    code = ("import memory; host = memory.Host(); host.take(3 << 26); "
            "print(int(open('/proc/self/statm').read().split()[1]) * 4096 > 3 << 26)")
    words = [sys.executable, "-c", code]
    assert subprocess.run(words, check=True, text=True, capture_output=True,
                          env={**os.environ, "PYTHONPATH": sys.path[0]}).stdout.strip() == "True"
    result = subprocess.run([sys.executable, memory.__file__, "1000000"], check=True, text=True, capture_output=True)
    assert '"why": "it is there"' in result.stdout, result.stdout


def write(root, path, text):
    os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
    with open(os.path.join(root, path), "w", encoding="utf-8") as file:
        file.write(text)


def check_groups(root):
    write(root, "proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 800000 kB\n")
    assert memory.available_bytes(root) == 800000 * 1024
    write(root, "proc/self/cgroup", "0::/a/b\n")
    write(root, "sys/fs/cgroup/a/b/memory.max", "max\n")
    write(root, "sys/fs/cgroup/a/b/memory.current", "5\n")
    write(root, "sys/fs/cgroup/a/memory.max", "1000\n")
    write(root, "sys/fs/cgroup/a/memory.current", "300\n")
    assert memory.available_bytes(root) == 700
    write(root, "proc/self/cgroup", "9:memory,cpu:/c\n0::/\n")
    write(root, "sys/fs/cgroup/memory/c/memory.limit_in_bytes", "900\n")
    write(root, "sys/fs/cgroup/memory/c/memory.usage_in_bytes", "850\n")
    assert memory.available_bytes(root) == 50


def check_toolkit(root):
    """Libraries that the plugin does not find itself are searched in toolkits, then in Python's packages."""
    blas, cupti = "libcublasLt.so.13", "libcupti.so.13"
    toolkits, packages = [os.path.join(root, name) for name in ("home", "usual", "usual-13.0")], [os.path.join(root, "packages")]
    assert results.folder_of(blas, toolkits, packages) is None
    write(root, f"packages/nvidia/cu13/lib/{blas}", "")
    assert results.folder_of(blas, toolkits, packages) == os.path.join(root, "packages/nvidia/cu13/lib")
    write(root, f"usual-13.0/targets/x86_64-linux/lib/{blas}", "")
    assert results.folder_of(blas, toolkits, packages) == os.path.join(root, "usual-13.0/targets/x86_64-linux/lib")
    write(root, f"usual/extras/CUPTI/lib64/{cupti}", "")
    assert results.folder_of(cupti, toolkits, packages) is None, "the plugin looks there itself"


def check_links(root):
    """A toolkit folder that replaces the machine's has the machine's libraries, too."""
    blas, cupti = "libcublasLt.so.13", "libcupti.so.13"
    write(root, f"home/lib64/{blas}", "")
    write(root, f"packages/nvidia/cu13/lib/{cupti}", "")
    before, folders, os.environ["CUDA_HOME"] = os.environ.get("CUDA_HOME"), results.python_folders, os.path.join(root, "home")
    results.python_folders, results.TOOLKIT = lambda: [os.path.join(root, "packages")], (os.path.join(root, "usual"),)
    home = results.Bench(root, True).environment["CUDA_HOME"]
    assert os.path.exists(os.path.join(home, "lib64", blas)), home
    assert os.path.exists(os.path.join(home, "extras/CUPTI/lib64", cupti)), home
    results.python_folders = folders
    os.environ.pop("CUDA_HOME")
    if before:
        os.environ["CUDA_HOME"] = before


class Sanitized(results.Bench):
    """A bench whose trainings and tests are programs of the system."""

    step = "true"

    def plan(self, *_):
        return {}

    def training_words(self, name, *_):
        return ["sh", "-c", f"{self.step} >{self.out(name)}.ndjson"]


def check_sanitizer(root):
    """The sanitizer has passed if it ended well and a step was trained; it does not report errors that calls return."""
    write(root, "bin/compute-sanitizer", '#!/bin/sh\necho "$@" >>' + root + '/asked\n'
          'while [ "$1" != sh ]; do [ $# -gt 1 ] || exit 0; shift; done\nexec "$@"\n')
    os.chmod(os.path.join(root, "bin/compute-sanitizer"), 0o755)
    os.symlink(os.path.join(HERE, "../../examples/models"), os.path.join(root, "models"))
    before, os.environ["PATH"] = os.environ["PATH"], os.path.join(root, "bin") + os.pathsep + os.environ["PATH"]
    bench = Sanitized(root, True)
    bench.deadline = time.monotonic() + LONG_S
    for bench.step, passes in (('echo \'{"line": "step"}\'', True), ("true", False), ('echo \'{"line"\'', False)):
        result = parts.sanitizer(bench)
        assert result["ok"] == passes, (bench.step, result)
    with open(os.path.join(root, "asked"), encoding="utf-8") as file:
        asked = file.read().splitlines()
    assert all(("--report-api-errors no" in line) == ("memcheck" in line) for line in asked), asked
    os.environ["PATH"] = before


def check_watch(root):
    """nvidia-smi runs once after the first step, while the program is stopped. Memory used before does not count;
    without nvidia-smi the result is None."""
    log, before = os.path.join(root, "log"), os.environ["PATH"]
    write(root, "nvidia-smi", f"#!/bin/sh\necho asked >>{root}/asked\nif [ -e {log} ]; then\n"
          f"for i in $(seq 60); do state=$(ps -o state= -p $(cat {root}/pid)); [ $state = T ] && break; sleep 0.05; done\n"
          f"echo $state >>{root}/states; fi\n"
          f"cat {root}/used\n")
    os.chmod(os.path.join(root, "nvidia-smi"), 0o755)
    asked = f"until [ $(cat {root}/asked | wc -l) -ge 2 ]; do sleep 0.05; done"
    program = f"echo $$ >{root}/pid; printf '1000\\n9\\n' >{root}/used; echo '{{\"line\": \"step\"}}' >{log}; "
    for path, expected, then in ((root + os.pathsep + before, 700 << 20, asked), (root + "/none", None, "true")):
        os.environ["PATH"] = path
        write(root, "used", "300\n9\n")
        seen = watch.Watch(log)
        os.environ["PATH"] = path if expected else before
        bench = results.Bench(root, True)
        assert bench.call(["sh", "-c", program + then], watch=seen, seconds=LONG_S).returncode == 0
        assert seen.grown_bytes == expected, seen.grown_bytes
        os.remove(log)
    os.environ["PATH"] = before
    with open(os.path.join(root, "states"), encoding="utf-8") as file:
        assert [line.strip() for line in file] == ["T"], "nvidia-smi ran beside a step"
    with open(os.path.join(root, "asked"), encoding="utf-8") as file:
        assert len(file.readlines()) == 2, "once before, once after the first step"


def check_stolen(root):
    """The ticks that a hypervisor took; None if the system does not report them."""
    write(root, "stat", "cpu  1 2 3 4 5 6 7 250 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
    write(root, "short", "cpu  1 2 3\n")
    assert watch.stolen_s(os.path.join(root, "stat")) == 250 / os.sysconf("SC_CLK_TCK")
    assert watch.stolen_s(os.path.join(root, "short")) is watch.stolen_s(os.path.join(root, "none")) is None


def check_stream(root):
    """Lines come as they are printed; a program that prints nothing for long is ended, and one whose parent ends."""
    bench, heard = results.Bench(root, True), []
    status, _ = bench.stream(["sh", "-c", f"echo '{{\"a\": 1}}'; echo no document; sleep {FOR_EVER_S}"], heard.append, LONG_S, 5)
    assert status == results.HUNG and heard == [{"a": 1}], (status, heard)
    status, why = bench.stream(["sh", "-c", "echo broken >&2; exit 3"], heard.append, LONG_S, LONG_S)
    assert (status, why) == (3, "broken"), (status, why)
    code = f"import results; results.Bench('{root}', True).start(['sh', '-c', 'echo $$ >{root}/child; exec sleep {FOR_EVER_S}']); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE,
                          env={**os.environ, "PYTHONPATH": sys.path[0]}) as parent:
        child = ""
        while not child.strip():
            time.sleep(0.05)
            child = smoke.read(os.path.join(root, "child"))
        parent.kill()
    end = time.monotonic() + LONG_S
    while os.path.exists(f"/proc/{child.strip()}") and " Z " not in smoke.read(f"/proc/{child.strip()}/stat"):
        assert time.monotonic() < end, "it runs on"
        time.sleep(0.05)


class Hanging(results.Bench):
    """A bench whose test programs hang."""

    def call(self, words, *_, **__):
        return subprocess.CompletedProcess(words, results.HUNG, "", "was stopped")


def check_hangs(root):
    """After two tests that hang the part ends, and names what it left out."""
    bench, told = Hanging(root, True), []
    bench.tests, bench.deadline, bench.tell = ("a", "b", "c", "d"), time.monotonic() + LONG_S, lambda rows: told.append(len(rows))
    found = parts.operations(bench)
    assert not found["ok"] and len(found["rows"]) == parts.HANGS_MOST == 2 and "c" in found["missing"], found
    assert told == [1, 2], told
    assert parts.TEST_SECONDS <= 30


def check_versions(root):
    """If the driver or a library has changed, measurements are repeated; an unknown version changes nothing."""
    bench = results.Bench(root, True)
    state = {"parts": {"profile": {"ok": True}, "smoke": {"ok": True}}}
    for versions, profiled in (({"driver": "580.1", "library": "cuBLASLt 13.1.0"}, True), ({"driver": "580.1"}, True),
                               ({"driver": "580.1", "library": "cuBLASLt 13.2.0"}, False)):
        write(root, "results/quick/machine.json", "{}")
        results.note_versions(bench, state, versions)
        assert ("profile" in state["parts"]) == os.path.exists(bench.out("machine.json")) == profiled, (versions, state)
    assert state["versions"]["library"] == "cuBLASLt 13.2.0" and "smoke" in state["parts"], state
    assert state["changes"] == ["library cuBLASLt 13.1.0 -> cuBLASLt 13.2.0"], state


def check_losses():
    assert parts.same_losses([{"what": "x", "losses": "a"}, {"what": "y", "losses": "a"}, {"no plan": True}]) and parts.same_losses([])
    assert not parts.same_losses([{"what": "x", "losses": "a"}, {"what": "y", "losses": "b"}])


def check_ended(root):
    """A program that takes too long is ended, even if a process that it started in another session holds its output."""
    bench, results.PIPE_SECONDS, usual = results.Bench(root, True), 1, results.PIPE_SECONDS
    result = bench.call(["sh", "-c", f"setsid sleep {FOR_EVER_S} & exec sleep {FOR_EVER_S}"], seconds=1)
    assert result.returncode == 124 and "was stopped after 1 s" in result.stderr, result
    results.PIPE_SECONDS = usual


def check_ways():
    tried = [what for what, _, _ in parts.ways_of({})]
    assert tried[0] == "micro-batch 8" and len(tried) == len(parts.DEEPSPEED_WAYS), tried
    kept = {}
    for what, _, _ in parts.ways_of(kept):
        kept[what] = {"tokens_per_s": 1.0} if "recompute" in what else {"fits": False}
    assert list(kept) == ["micro-batch 8", "micro-batch 8, recompute"], kept
    assert not list(parts.ways_of(kept))


def trained(what, tokens_per_s, **more):
    return {"what": what, "tokens_per_s": tokens_per_s, "error": 0.05, "peak_as_planned": True, "h2d_kept": 0.9, **more}


def check_clipping():
    """Plans that clip are compared with each other, and so are plans that do not."""
    rows = [{"what": "optimal", "tokens_per_s": 8, "losses": "a"}, {"what": "stream", "tokens_per_s": 4, "losses": "a"},
            {"what": "optimal" + parts.FREE, "tokens_per_s": 12, "losses": "b"},
            {"what": "stream" + parts.FREE, "tokens_per_s": 4, "losses": "b"}]
    found = parts.compared({row["what"]: row for row in rows})
    assert [row["optimal_is"] for row in found] == [1, 2, 1, 3], found
    assert parts.same_losses(rows) and not parts.same_losses([*rows, {"what": "x", "losses": "b"}])


def check_verdict():
    free = parts.FREE
    speeds = (("optimal" + free, 200, 1.0), ("zero-offload" + free, 100, 2.0), ("stronghold" + free, 160, 1.25),
              ("optimal", 200, 1.0), ("uncapped", 400, 0.5))
    done = {"operations": {"ok": True, "rows": [{"test": "ops", "passed": True}]},
            "sanitizer": {"ok": True, "rows": [], "missing": "compute-sanitizer is not installed"},
            "resident-1.5b": {"ok": True, "rows": [{"who": "autohete", "model": "gpt2", "seq": 1024, "tokens_per_s": 5, "error": -0.2,
                                                    "peak_as_planned": True, "times_torch": 1.1, "mfu": 0.49}]},
            "offload-2b": {"ok": True, "rows": [trained(what, speed, optimal_is=ratio, gpu_of_planned=1.01)
                                               for what, speed, ratio in speeds]},
            "deepspeed-2b": {"ok": True, "rows": [{"who": "autohete, optimal", "times_deepspeed": 2.5}]}}
    found = {row["point"]: (row["holds"], row["found"]) for row in verdict.rows(done)}
    holds = {point: holds for point, (holds, _) in found.items()}
    assert holds["operations within tolerance, losses track the CPU's"] == "yes", found
    assert holds["plans bit-identical"] == holds["compute-sanitizer clean"] == "open", found
    assert holds["resident, gpt2, sequence 1024: PyTorch's speed, MFU of 0.5"] == "no", found
    assert holds["optimal against zero-offload, not clipped, aim 1.85"] == "yes", found
    assert holds["optimal against stronghold, not clipped, aim 1.32"] == "no", found
    assert holds["optimal against patrickstar, not clipped, aim 1.63"] == "open", found
    assert found["share of resident speed kept under the limit"][1] == "2b: 0.500", found
    assert holds["optimal faster than DeepSpeed's ZeRO-Offload"] == "yes", found
    assert holds["step time within 10 % of the prediction"] == "no", found
    assert found["step time within 10 % of the prediction"][1].startswith("5 of 6"), found
    assert holds["h2d at 85 % of what was measured alone"] == "yes", found
    assert holds["d2h at 85 % of what was measured alone"] == "open", found
    assert holds["the driver counts no more than arena and reserve"] == "no", found


def main():
    check_bring()
    check_take()
    check_lanes()
    check_off()
    check_order()
    check_ways()
    check_clipping()
    check_verdict()
    check_losses()
    with tempfile.TemporaryDirectory() as root:
        check_groups(root)
    with tempfile.TemporaryDirectory() as root:
        check_toolkit(root)
    with tempfile.TemporaryDirectory() as root:
        check_links(root)
    with tempfile.TemporaryDirectory() as root:
        check_sanitizer(root)
    for check in (check_watch, check_stolen, check_ended, check_stream, check_hangs, check_versions):
        with tempfile.TemporaryDirectory() as root:
            check(root)
    return 0


sys.exit(main())
