# SPDX-License-Identifier: Apache-2.0
"""The parts of gpu-check --run, most valuable first: (name, what it shows, least seconds that must be left to begin it,
function of a Bench).

A part returns {"ok": whether it holds, "rows": [...] for the table, "missing": what could not be done and why}. A part
that does several things keeps each result in bench.kept(name), so that after an interruption it continues there.
"""
import glob
import hashlib
import json
import os
import signal
import statistics
import subprocess
import time

import lanes
from kernels import kernels
from messages import messages
from smoke import NOT_SUPPORTED, sanitizer_program, smoke

FREE = ", not clipped"  # ends the name of a row: updates do not wait for the norm, as in the AutoHete paper
POLICIES = ("optimal", "zero-offload", "stream", "autohete-paper", "stronghold", "patrickstar")
TRACE_STEPS, TRACE_SECONDS = 2, 60
# Policies whose lanes are recorded in a timeline. With 9 steps, `run` records steps 5 to 8, when all lanes are full.
TRACED, STEADY_STEPS = ("optimal" + FREE, "zero-offload" + FREE), 9
OFF, OFF_SHARE = 0.05, 0.01  # of the prediction, and of the step: a row names larger differences
LAYOUT_ALIGN = 256  # AH_LAYOUT_ALIGN: a plan rounds the end of its highest buffer up to it
FIRST, LAST = 3, 1  # steps that fill and empty the lanes are not counted
STEPS = 10
SMALL_HOST_BYTES, PROFILE_HOST_BYTES = 12 << 30, 36 << 30  # PyTorch; arrays of 2 GiB, at most a sixteenth of free memory
# Model, GiB of device memory, most GiB that a policy takes on the host, and orders of lanes to compare.
OFFLOADED = {"2b": ("gpt-2b", 12, 36, ("fifo",)), "4b": ("gpt-4b", 24, 68, ("fifo",)),
             "6b": ("gpt-6b", 40, 104, ())}
# Micro-batch size and recomputing, fastest first. Recomputing costs a third of the GPU's time, which is the smaller part
# of a step; another micro-batch sends and sums all gradients once more.
DEEPSPEED_WAYS = ((8, False), (8, True), (4, True), (2, True))
DEEPSPEED_SECONDS = 220  # for one setting: it compiles, allocates, and trains a few steps
TEST_SECONDS = 30  # for a test program, so that one that hangs leaves time for the others
HANGS_MOST = 2  # after two test programs that hang the part ends, since the GPU may no longer answer
HUNG = 124
SANITIZED = ("attention", "norm", "cross_entropy")  # tests of kernels that use shared memory
# The program itself checks errors that calls return, and libraries make calls that may fail.
SANITIZER_FLAGS = {"memcheck": ("--report-api-errors", "no")}
SANITIZER_SECONDS = 60  # for one of them under compute-sanitizer, which makes kernels much slower

# Dense bf16 products, in operations a second, from the data sheets.
PEAKS = (("H200", 989e12), ("H100 80GB HBM3", 989e12), ("H100", 756e12), ("A100", 312e12), ("RTX 4090", 165e12))


# ---- correctness ----

def operations(bench):
    """Runs every test of the device's interface on the plugin."""
    rows, ok, hangs = [], True, 0
    for name in bench.tests:
        if hangs == HANGS_MOST:
            return {"ok": False, "rows": rows, "missing": f"{name} and what comes after it: {hangs} tests hung"}
        begun = time.monotonic()
        result = bench.call(bench.test(name), seconds=min(bench.seconds_left(), bench.test_seconds), folder=bench.folder)
        passed = result.returncode == 0
        hangs += result.returncode == HUNG
        ok = ok and passed
        rows.append({"test": name, "passed": passed, "seconds": round(time.monotonic() - begun, 1)})
        if not passed:
            rows[-1]["output"] = (result.stdout + result.stderr)[-2000:]
        bench.tell(rows)
    return {"ok": ok and bool(rows), "rows": rows}


def weights_digest(folder):
    """Returns the digest of the weights in the newest checkpoint under a folder."""
    found = sorted(glob.glob(os.path.join(folder, "**/*.safetensors"), recursive=True), key=os.path.getmtime)
    if not found:
        return None
    newest = os.path.dirname(found[-1])
    digest = hashlib.sha256()
    for path in sorted(glob.glob(os.path.join(newest, "*.safetensors"))):
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def identity(bench):
    """Checks that twenty plans of one signature, which differ in policy, budget and scheduling, give the same losses
    and weights."""
    shape = bench.small()
    rows, cut = [], {}
    flags = shape.flags()
    resident = bench.plan(shape, "identity-resident", "--policy", "resident", *flags)
    if not resident:
        return {"ok": False, "rows": [], "missing": "a tiny model does not fit this device"}
    need = resident["memory"]["device_bytes"] + resident["memory"]["reserved_bytes"]
    wanted = [("resident", 1.0, "priority"), ("optimal", 0.7, "fifo")]
    wanted += [(policy, share, "priority") for share in (0.6, 0.7, 0.8, 1.0) for policy in POLICIES]
    for policy, share, scheduling in wanted:
        if len(rows) == bench.identical_plans:
            break
        if bench.seconds_left() < 20:
            cut = {"again": True, "missing": f"no time for more than {len(rows)} plans"}
            break
        name = f"identity-{policy}-{int(share * 100)}-{scheduling}"
        reserved = resident["memory"]["reserved_bytes"]
        own = ("--scheduling", scheduling) if policy == "optimal" else ()
        plan = bench.plan(shape, name, "--policy", policy, *own, *flags, "--device-memory",
                          int(reserved + share * (need - reserved)))
        if plan:
            run = bench.train(name, 3, "--save", bench.fresh(f"{name}-saved"))
            rows.append({"plan": name[9:], "losses": run["losses"], "weights": weights_digest(bench.out(f"{name}-saved"))})
    bits = {json.dumps([row["losses"], row["weights"]]) for row in rows}
    for row in rows:
        row["losses"], row["weights"] = row["losses"][-1], (row["weights"] or "none")[:16]
    return {"ok": len(bits) == 1 and len(rows) > 3, "rows": rows, **cut}


def checkpoints(folder):
    """Returns the complete checkpoints; an unfinished one has another name."""
    return [path for path in glob.glob(os.path.join(folder, "*/")) if not path.endswith(".tmp/")]


def resume(bench):
    """Checks that a run that is killed after a checkpoint and resumed has the weights of a run that was not killed."""
    shape = bench.small()
    bench.plan(shape, "resume", "--policy", "optimal", *shape.flags())
    words = ("--save-every", "2", "--save")
    bench.train("resume", 8, *words, bench.fresh("resume-whole"))
    saved = bench.fresh("resume-killed")
    process = bench.start_training("resume", 8, *words, saved)
    end = time.monotonic() + bench.seconds_left()
    while process.poll() is None and not checkpoints(saved) and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    bench.train("resume", 8, *words, saved, "--resume", saved)
    whole, killed = (weights_digest(bench.out(name)) for name in ("resume-whole", "resume-killed"))
    return {"ok": whole is not None and whole == killed, "rows": [{"weights": str(whole)[:16], "resumed": str(killed)[:16]}]}


def sanitizer(bench):
    """Runs a training step of a small model under memcheck, and tests of our own kernels under racecheck and synccheck."""
    program = sanitizer_program()
    if not program:
        return {"ok": True, "rows": [], "missing": "compute-sanitizer is not installed"}
    shape = bench.small()
    bench.plan(shape, "sanitizer", "--policy", "optimal", *shape.flags())
    wanted = [("memcheck", "a training step", bench.training_words("sanitizer", 1))]
    wanted += [("racecheck", name, bench.test(name)) for name in SANITIZED if name in bench.tests]
    wanted += [("synccheck", name, bench.test(name)) for name in SANITIZED[:1] if name in bench.tests]
    rows, ok, stopped = [], True, []
    bench.forget_log("sanitizer")
    for tool, what, words in wanted:
        result = bench.call([program, "--tool", tool, "--error-exitcode", "99", *SANITIZER_FLAGS.get(tool, ()), *words],
                            seconds=min(bench.seconds_left(), SANITIZER_SECONDS * (2 if what == "a training step" else 1)),
                            folder=bench.folder)
        if result.returncode not in (0, 99) and NOT_SUPPORTED.search(result.stdout + result.stderr):
            return {"ok": True, "rows": rows, "missing": f"{tool} is not supported here"}
        if result.returncode == 124:
            stopped.append(f"{tool} of {what}")
        ok = ok and result.returncode in (0, 124)
        lines = (result.stdout + result.stderr).strip().splitlines()
        rows.append({"tool": tool, "of": what, "exit": result.returncode,
                     "says": ([line for line in lines if "SUMMARY" in line] or lines or [""])[-1]})
        bench.tell(rows)
        if result.returncode not in (0, 124):
            rows[-1]["output"] = "\n".join(lines)[-2000:]
    missing = {"missing": f"stopped, as they took too long: {', '.join(stopped)}"} if stopped else {}
    trained = bench.trained("sanitizer")  # false if the tool ended well without running anything
    return {"ok": ok and rows[0]["exit"] == 0 and trained, "rows": rows, **missing}


# ---- speed ----

def profile(bench):
    """Profiles the machine; other parts plan with the result."""
    if bench.quick:
        return {"ok": True, "rows": [], "missing": "--quick plans with a machine that is in the folder"}
    bench.bring(PROFILE_HOST_BYTES)
    result = bench.program("profile", "--device", "cuda:0", "-o", bench.out("machine.json"), "--json")
    if result.returncode:
        return {"ok": False, "rows": [{"says": result.stderr.strip()}]}
    machine = json.loads(result.stdout)
    rows = [{"what": f"copies {link['direction']}", "GB/s": round(link["bytes_per_s"]["median"] / 1e9, 1)}
            for link in machine.get("links", [])]
    rows += [{"what": f"{it['dtype']} {it['form']} {it['m']}x{it['n']}x{it['k']}",
              "TFLOP/s": round(it["flops_per_s"]["median"] / 1e12, 1)} for it in machine.get("matmul", [])]
    rows += [{"what": f"AdamW, {it['side']}, {it['threads']} threads, {it['weight_dtype']}",
              "G params/s": round(it["params_per_s"]["median"] / 1e9, 2)} for it in machine.get("adam", [])]
    rows += [{"what": f"{it['part']} beside {it['beside']}", "kept": round(it["kept"]["median"], 3)}
             for it in machine.get("beside", [])]
    rows += [{"what": sentence} for sentence in machine.get("noise", []) if "hypervisor took" in sentence]
    return {"ok": True, "rows": rows}


def measured(bench, run):
    """Returns tokens/s and step time, as medians of the steps that count, and the error of the prediction."""
    steps = run["steps"][FIRST:-LAST] or run["steps"]
    us = [step["step_us"] for step in steps]
    middle = statistics.median(us)
    planned = run["plan"]["memory"]["device_bytes"] + run["plan"]["memory"]["reserved_bytes"]
    taken = {} if run["gpu_bytes"] is None else {"gpu_bytes": run["gpu_bytes"], "gpu_of_planned": round(run["gpu_bytes"] / planned, 4)}
    stolen = {} if run["stolen"] is None else {"stolen": run["stolen"]}  # processors that the hypervisor took
    tokens = statistics.median(step["tokens"] for step in steps)
    return {"tokens_per_s": round(1e6 * tokens / middle, 1), "step_us": round(middle),
            "mad_us": round(statistics.median(abs(each - middle) for each in us)),
            "predicted_us": round(run["plan"]["time"]["step_us"]),
            "error": round(run["plan"]["time"]["step_us"] / middle - 1, 4), "steps": len(us), "other_s": round(run["other_s"], 1),
            "device_bytes": run["plan"]["memory"]["device_bytes"], "host_bytes": run["plan"]["memory"]["host_bytes"],
            "peak_as_planned": all(0 <= run["plan"]["memory"]["device_bytes"] - step["device_peak_bytes"] < LAYOUT_ALIGN for step in steps),
            **taken, **stolen}


LONG_COPIES_BYTES = 1 << 28  # of a step; shorter copies mainly show latency


def kept_rates(machine, run):
    """Returns the share of its profiled rate that each link kept, and of its predicted speed that host Adam kept."""
    steps = run["steps"][FIRST:-LAST] or run["steps"]
    alone = {link["direction"]: link["bytes_per_s"]["median"] for link in machine.get("links", [])}
    kept = {}
    for way in ("h2d", "d2h"):
        us = statistics.median(step[f"{way}_us"] for step in steps)
        n_bytes = statistics.median(step[f"{way}_bytes"] for step in steps)
        if way in alone and us and n_bytes >= LONG_COPIES_BYTES:
            kept[f"{way}_kept"] = round(n_bytes / us * 1e6 / alone[way], 3)
    begin, end = run["log"][0].get("predicted", {}), run["log"][-1]
    predicted, took = (sum(part["us"] for part in line.get("parts", []) if part["op"] == "host_adam") for line in (begin, end))
    return {**kept, **({"host_adam_kept": round(predicted / took, 3)} if predicted and took else {})}


def peak_of(device):
    return next((peak for name, peak in PEAKS if name in device), None)


def traced(bench, title, steps=TRACE_STEPS):
    """Trains some more steps with a timeline, since timed steps have none."""
    path = bench.out(f"trace-{title}.json")
    if bench.seconds_left() < TRACE_SECONDS and not bench.quick:
        return {"trace": "no time"}
    try:
        bench.train(title, steps, "--trace", bench.fresh_file(path))
    except RuntimeError as error:
        return {"trace": str(error)[-200:]}
    return {"trace": os.path.relpath(path, bench.folder)}


def off_by(report):
    """Names the ops and waits of compute whose measured time differs from the prediction by enough to matter to the
    step."""
    sides = [{f"waits for {lane}": us for lane, us in report[side].get("exposed_us", {}).items()} for side in ("predicted", "measured")]
    pairs = [(f"{part['op']} on {part['lane']}", part.get("predicted_us", 0), part.get("measured_us", 0)) for part in report["parts"]]
    pairs += [(what, sides[0].get(what, 0), us) for what, us in sides[1].items()]
    step_us = report["measured"]["step_us"]
    return ", ".join(f"{what} {before / 1e3:.1f} -> {us / 1e3:.1f} ms" for what, before, us in pairs
                     if abs(us - before) > max(OFF * before, OFF_SHARE * step_us))


def reported(bench, title):
    """Keeps the report of a training that was just timed. Returns the differences that its row shows."""
    try:
        report = bench.report(title)
        bench.keep_file(f"report-{title}.json", report)
        return {"off": off_by(report)}
    except Exception as error:  # the row is useful without them
        return {"off": f"{type(error).__name__}: {error}"[-200:]}


def watched(bench, title):
    """Repeats a timed plan with a timeline. Keeps its log, trace, report and condensed trace, each in a file."""
    own, plan = f"{title}-traced", bench.read_file(f"{title}.json")
    bench.keep_file(f"{own}.json", plan)
    found = traced(bench, own, STEADY_STEPS)
    if not os.path.exists(bench.path(found["trace"])):
        return found
    try:
        bench.keep_file(f"report-{own}.json", bench.report(own))
        bench.keep_file(f"lanes-{own}.json", lanes.condensed(bench.read_file(f"trace-{own}.json"), plan))
    except Exception as error:  # the trace is kept, and can be condensed elsewhere
        found["lanes"] = f"{type(error).__name__}: {error}"[-200:]
    return found


def resident(name, seq, batch):
    def part(bench):
        """Measures tokens/s without offloading, next to PyTorch (compiled, fused attention and AdamW)."""
        shape = bench.shape(name, batch, seq, fits=bench.memory_bytes())
        missing, absent = bench.measure_blocks(shape), None
        title = f"resident-{shape.name}-{seq}"
        plan = bench.plan(shape, title, "--policy", "resident", "--clip", "none", *shape.flags())
        if not plan:
            return {"ok": False, "rows": [], "missing": f"{shape.name} does not fit this device"}
        row = {"who": "autohete", "model": shape.name, "batch": shape.batch, "seq": shape.seq,
               **measured(bench, bench.train(title, bench.steps))}
        rows = [row]
        bench.tell(rows)
        row.update(traced(bench, title))
        bench.bring(SMALL_HOST_BYTES)
        torch = bench.kept(title) or bench.torch(shape)
        if "tokens_per_s" in torch:
            bench.keep(title, torch)
            rows.append({"who": "PyTorch", "model": shape.name, "batch": shape.batch, "seq": shape.seq, **torch})
            row["times_torch"] = round(row["tokens_per_s"] / torch["tokens_per_s"], 3)
        elif "absent" in torch:
            absent = f"PyTorch is not there: {torch['absent']}"
        else:
            missing = torch["missing"]
        for each in rows:
            if peak_of(bench.device):
                each["mfu"] = round(each["tokens_per_s"] * shape.flops_per_token() / peak_of(bench.device), 3)
        not_done = missing or absent
        return {"ok": bench.quick or not missing, "rows": rows, **({"missing": not_done} if not_done else {})}
    return part


def train_under(bench, shape, title, flags):
    """Returns a plan's row, and whether it is final. A plan that fails does not prevent others from running."""
    try:
        plan = bench.plan(shape, title, *flags, *shape.flags())
        if not plan:
            return {"no plan": True}, True
        run = bench.train(title, bench.steps)
        bits = hashlib.sha256(json.dumps(run["losses"]).encode()).hexdigest()[:12]
        return {**measured(bench, run), **kept_rates(bench.document(shape), run), "losses": bits,
                "last_loss": run["losses"][-1], **reported(bench, title)}, True
    except RuntimeError as error:
        return {"failed": str(error)[-300:]}, False


def compared(kept):
    """Returns all measured rows, each with the speed of `optimal` (with the same clipping) relative to it."""
    rows = []
    for row in kept.values():
        best = kept.get("optimal" + FREE * row["what"].endswith(FREE), {}).get("tokens_per_s")
        rows.append({**row, **({"optimal_is": round(best / row["tokens_per_s"], 3)} if best and "tokens_per_s" in row else {})})
    return rows


def same_losses(rows):
    """True if all plans that clip gave the same losses, to the last bit, and so did all that do not clip. Each of these
    sets has one numeric signature."""
    bits = {(row["what"].endswith(FREE), row["losses"]) for row in rows if "losses" in row}
    return len(bits) == len({free for free, _ in bits})


def offload(name, cap_gib, host_gib, ways):
    def part(bench):
        """Measures tokens/s under a limit of device memory: each policy, clipped and not, and each order of lanes."""
        bench.bring(host_gib << 30)
        shape = bench.shape(name, 8, 1024)
        title = f"offload-{name}"
        kept = bench.kept(title)
        missing = bench.measure_blocks(shape)
        cap = ["--device-memory", bench.cap(cap_gib)]
        wanted = [(policy + FREE, ["--policy", policy, "--clip", "none", *cap]) for policy in bench.policies]
        wanted += [("optimal", ["--policy", "optimal", *cap]), ("uncapped", ["--policy", "resident"])]
        wanted += [(policy, ["--policy", policy, *cap]) for policy in bench.policies if policy != "optimal"]
        wanted += [(f"optimal, {way}", ["--policy", "optimal", "--scheduling", way, *cap]) for way in ways]
        longest, failed = 0, []
        for what, flags in wanted:
            if what in kept:
                continue
            if bench.seconds_left() < 1.3 * longest + 20:
                return {"ok": not failed, "rows": compared(kept) + failed, "again": True, "missing": f"no time for '{what}'"}
            begun = time.monotonic()
            own = f"{title}-{what.replace(',', '').replace(' ', '-')}"
            row, for_good = train_under(bench, shape, own, flags)
            longest = max(longest, time.monotonic() - begun)
            if for_good:
                kept[what] = {"what": what, **row}
                bench.keep(title, kept)
            else:
                failed.append({"what": what, **row})
            if what in TRACED and "tokens_per_s" in row:
                kept[what].update(watched(bench, own))
                bench.keep(title, kept)
            bench.tell(compared(kept) + failed)
        same = same_losses(kept.values())
        missing = missing if same else "losses differ between plans: see the column 'losses'"
        return {"ok": same and not failed and "tokens_per_s" in kept.get("optimal", {}), "rows": compared(kept) + failed,
                **({"missing": missing} if missing else {})}
    return part


def beside_deepspeed(kept, own):
    """Returns rows of one model: DeepSpeed at its fastest, then the plan of the same kind and the best plan, with
    ratios."""
    fitting = [row for row in kept.values() if "tokens_per_s" in row]
    rows = [max(fitting, key=lambda row: row["tokens_per_s"])] if fitting else list(kept.values())[-1:]
    for what in ("zero-offload", "optimal"):
        if "tokens_per_s" in own.get(what, {}):
            rows.append({"who": f"autohete, {what}", **{name: own[what][name] for name in ("tokens_per_s", "step_us")}})
            if fitting:
                rows[-1]["times_deepspeed"] = round(rows[-1]["tokens_per_s"] / rows[0]["tokens_per_s"], 3)
    return rows


def ways_of(kept):
    """Yields the settings to try, until one has fit."""
    for micro_batch, recomputed in DEEPSPEED_WAYS:
        what = f"micro-batch {micro_batch}{', recompute' if recomputed else ''}"
        if any("tokens_per_s" in row for row in kept.values()):
            return
        if what not in kept:
            yield what, micro_batch, ["--recompute"] if recomputed else []


def deepspeed(name, cap_gib, *_):
    def part(bench):
        """Measures DeepSpeed's own ZeRO-Offload under the same limit, at the first setting that fits."""
        shape = bench.shape(name, 8, 1024)
        kept, failed, cut = bench.kept(f"deepspeed-{name}"), [], {}
        for what, micro_batch, flags in ways_of(kept):
            if bench.seconds_left() < DEEPSPEED_SECONDS / 2 and not bench.quick:
                cut = {"again": True, "missing": f"no time for {what}"}
                break
            row = bench.deepspeed(shape, "--micro-batch", min(micro_batch, shape.batch), "--memory-gib", cap_gib, *flags)
            if "absent" in row:
                cut = {"missing": f"DeepSpeed is not there: {row['absent']}"}
                break
            row = {"who": "DeepSpeed", "model": name, "GiB": cap_gib, "setting": what, **row}
            if "failed" in row:
                failed.append(row)
                break
            kept[what] = row
            bench.keep(f"deepspeed-{name}", kept)
        return {"ok": not failed, "rows": beside_deepspeed(kept, bench.kept(f"offload-{name}")) + failed, **cut}
    return part


def fsdp(name, cap_gib, *_):
    def part(bench):
        """Measures PyTorch's FSDP2 with CPU offload under the same limit: a peer that needs only PyTorch."""
        shape = bench.shape(name, 8, 1024)
        row = bench.fsdp(shape, "--memory-gib", cap_gib)
        if "absent" in row:
            return {"ok": True, "rows": [], "missing": f"PyTorch is not there: {row['absent']}"}
        rows = [{"who": "PyTorch FSDP2, CPU offload", "model": name, "GiB": cap_gib, **row}]
        own = bench.kept(f"offload-{shape.name}").get("optimal", {}) or bench.kept(f"offload-{name}").get("optimal", {})
        if "tokens_per_s" in own:
            rows.append({"who": "autohete, optimal", "tokens_per_s": own["tokens_per_s"], "step_us": own["step_us"]})
        if "tokens_per_s" in own and "tokens_per_s" in row:
            rows[-1]["times_fsdp"] = round(own["tokens_per_s"] / row["tokens_per_s"], 3)
        return {"ok": "failed" not in row, "rows": rows}
    return part


PARTS = (
    ("smoke", "in the first minute, whatever could waste the rest", 20, smoke),
    ("kernels", "each kernel and product at real shapes, beside PyTorch's, rows against fp64", 20, kernels),
    ("resident-1.5b", "GPT-2 1.5B, sequence 1024, beside PyTorch, with a trace", 200, resident("gpt2-1.5b", 1024, 8)),
    ("resident-1.5b-4096", "the same at sequence 4096", 200, resident("gpt2-1.5b", 4096, 2)),
    ("operations", "every op against the references, lanes, a trainer beside the CPU's", 90, operations),
    ("profile", "links, products, AdamW, and each beside the others", 180, profile),
    ("offload-2b", "2B in 12 GiB, by each policy, losses compared", 60, offload(*OFFLOADED["2b"])),
    ("identity", "twenty plans give the same bits", 60, identity),
    ("resume", "killed and resumed", 60, resume),
    ("messages", "NCCL: a world of one; two GPUs, or two ranks on one", 60, messages(weights_digest)),
    ("fsdp-2b", "FSDP2 with CPU offload, 2B in 12 GiB", 150, fsdp(*OFFLOADED["2b"])),
    ("resident-7b", "Llama-2 7B's layers, sequence 4096, beside PyTorch", 200, resident("llama-2-7b", 4096, 2)),
    ("deepspeed-2b", "ZeRO-Offload by DeepSpeed, 2B in 12 GiB", 150, deepspeed(*OFFLOADED["2b"])),
    ("offload-4b", "4B in 24 GiB, by each policy", 60, offload(*OFFLOADED["4b"])),
    ("sanitizer", "compute-sanitizer on a small case", 90, sanitizer),
    ("resident-7b-1024", "Llama-2 7B's layers, sequence 1024, beside PyTorch", 200, resident("llama-2-7b", 1024, 8)),
    ("offload-6b", "6B in 40 GiB, by each policy", 60, offload(*OFFLOADED["6b"])),
    ("deepspeed-4b", "ZeRO-Offload by DeepSpeed, 4B in 24 GiB", 150, deepspeed(*OFFLOADED["4b"])),
    ("deepspeed-6b", "ZeRO-Offload by DeepSpeed, 6B in 40 GiB", 150, deepspeed(*OFFLOADED["6b"])),
)


def listed():
    return [(name, what) for name, what, *_ in PARTS]
