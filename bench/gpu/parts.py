# SPDX-License-Identifier: Apache-2.0
"""The parts of gpu-check --run, most valuable first: (name, what it shows, function of a Bench).

A part returns {"ok": whether it holds, "rows": [...] for the table, "missing": what could not be done and why}. Where it
does several things it keeps what is done in bench.kept(name), so that one that was cut off goes on where it was.
"""
import glob
import hashlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import time

POLICIES = ("optimal", "zero-offload", "stream", "autohete-paper", "stronghold", "patrickstar")
FIRST, LAST = 3, 1  # steps of a run that fill and empty the lanes are not counted
STEPS = 10
OFFLOADED = (("gpt-2b", 12), ("gpt-4b", 24), ("gpt-6b", 40))  # models, and GiB of device memory
# Micro-batches and whether layers are recomputed; later ones are for what does not fit otherwise, or not as fast.
DEEPSPEED_WAYS = ((8, False), (8, True), (4, False), (4, True), (2, False))
DEEPSPEED_SECONDS = 150  # of one setting: it compiles, allocates, and trains a few steps
TEST_SECONDS = 150  # of a test program; one that hangs shall not keep the others from running
SANITIZED = ("attention", "norm", "cross_entropy", "embed", "sums")  # tests of kernels that have shared memory
SANITIZER_SECONDS = 90  # of one of them under compute-sanitizer, which slows kernels much

# Dense bf16 products, from the data sheets, in operations a second.
PEAKS = (("H200", 989e12), ("H100 80GB HBM3", 989e12), ("H100", 756e12), ("A100", 312e12), ("RTX 4090", 165e12))


# ---- correctness ----

def operations(bench):
    """Every test program of the device's interface, on the plugin."""
    rows, ok = [], True
    for name in sorted(os.listdir(bench.path("tests")), key=lambda name: (name == "trainer", name)):
        program = bench.path("tests", name)
        if not os.access(program, os.X_OK) or os.path.isdir(program) or name in bench.left_out:
            continue
        begun = time.monotonic()
        result = bench.call([program], seconds=min(bench.seconds_left(), TEST_SECONDS), folder=bench.folder)
        passed = result.returncode == 0
        ok = ok and passed
        rows.append({"test": name, "passed": passed, "seconds": round(time.monotonic() - begun, 1)})
        if not passed:
            rows[-1]["output"] = (result.stdout + result.stderr)[-2000:]
    return {"ok": ok and bool(rows), "rows": rows}


def weights_digest(folder):
    """Of the weights of the newest checkpoint under a folder."""
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
    """Twenty plans of one signature: policies, budgets and schedulings give the same losses and weights."""
    shape = bench.small()
    rows, cut = [], {}
    flags = shape.flags()
    resident = bench.plan(shape, "identity-resident", "--policy", "resident", *flags)
    if not resident:
        return {"ok": False, "rows": [], "missing": "a tiny model does not fit this device"}
    need = resident["memory"]["device_bytes"] + resident["memory"]["reserved_bytes"]
    wanted = [("resident", 1.0, "priority"), ("optimal", 0.7, "fifo"), ("optimal", 0.7, "dynamic")]
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
    """Those that are complete: what is being written has another name."""
    return [path for path in glob.glob(os.path.join(folder, "*/")) if not path.endswith(".tmp/")]


def resume(bench):
    """Killed between two checkpoints and resumed: the weights of a run that was not."""
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
    """A step of a small model under compute-sanitizer's memcheck; tests of our own kernels under what finds missing barriers."""
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.access(program, os.X_OK):
        return {"ok": True, "rows": [], "missing": "compute-sanitizer is not installed"}
    shape = bench.small()
    bench.plan(shape, "sanitizer", "--policy", "optimal", *shape.flags())
    wanted = [("memcheck", "a training step", bench.training_words("sanitizer", 1))]
    wanted += [("racecheck", name, [bench.path("tests", name)]) for name in SANITIZED if name not in bench.left_out]
    wanted += [("synccheck", name, [bench.path("tests", name)]) for name in SANITIZED[:1] if name not in bench.left_out]
    rows, ok, stopped = [], True, []
    for tool, what, words in wanted:
        result = bench.call([program, "--tool", tool, "--error-exitcode", "99", *words],
                            seconds=min(bench.seconds_left(), SANITIZER_SECONDS), folder=bench.folder)
        if result.returncode == 124:
            stopped.append(f"{tool} of {what}")
        ok = ok and result.returncode in (0, 124)
        lines = (result.stdout + result.stderr).strip().splitlines()
        rows.append({"tool": tool, "of": what, "exit": result.returncode,
                     "says": ([line for line in lines if "SUMMARY" in line] or lines or [""])[-1]})
        if result.returncode not in (0, 124):
            rows[-1]["output"] = "\n".join(lines)[-2000:]
    missing = {"missing": f"stopped, as they took too long: {', '.join(stopped)}"} if stopped else {}
    return {"ok": ok and rows[0]["exit"] == 0, "rows": rows, **missing}


# ---- speed ----

def profile(bench):
    """What the machine can do; other parts plan with it."""
    if bench.quick:
        return {"ok": True, "rows": [], "missing": "--quick plans with a machine that is in the folder"}
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
    return {"ok": True, "rows": rows}


def measured(bench, run):
    """Tokens a second and the step's time, medians of the steps that count, and how far off the prediction was."""
    steps = run["steps"][FIRST:-LAST] or run["steps"]
    us = [step["step_us"] for step in steps]
    middle = statistics.median(us)
    tokens = statistics.median(step["tokens"] for step in steps)
    return {"tokens_per_s": round(1e6 * tokens / middle, 1), "step_us": round(middle),
            "mad_us": round(statistics.median(abs(each - middle) for each in us)),
            "predicted_us": round(run["plan"]["time"]["step_us"]),
            "error": round(run["plan"]["time"]["step_us"] / middle - 1, 4), "steps": len(us),
            "device_bytes": run["plan"]["memory"]["device_bytes"], "host_bytes": run["plan"]["memory"]["host_bytes"]}


def peak_of(device):
    return next((peak for name, peak in PEAKS if name in device), None)


def resident(name, seq, batch):
    def part(bench):
        """Tokens a second of training that needs no offload, beside PyTorch, compiled, with fused attention and AdamW."""
        shape = bench.shape(name, batch, seq, fits=bench.memory_bytes())
        missing, absent = bench.measure_blocks(shape), None
        title = f"resident-{shape.name}-{seq}"
        plan = bench.plan(shape, title, "--policy", "resident", "--clip", "none", *shape.flags())
        if not plan:
            return {"ok": False, "rows": [], "missing": f"{shape.name} does not fit this device"}
        row = {"who": "autohete", "model": shape.name, "batch": shape.batch, "seq": shape.seq,
               **measured(bench, bench.train(title, bench.steps))}
        rows = [row]
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
    """A row of a plan's speed, and whether it is for good; what goes wrong with one plan does not keep the others back."""
    try:
        plan = bench.plan(shape, title, *flags, *shape.flags())
        return (measured(bench, bench.train(title, bench.steps)) if plan else {"no plan": True}), True
    except RuntimeError as error:
        return {"failed": str(error)[-300:]}, False


def compared(kept):
    """Rows of what was measured, with how many times as fast `optimal` is."""
    best = kept.get("optimal", {}).get("tokens_per_s")
    return [{**row, **({"optimal_is": round(best / row["tokens_per_s"], 3)} if best and "tokens_per_s" in row else {})}
            for row in kept.values()]


def offload(name, cap_gib):
    def part(bench):
        """Tokens a second under a limit of device memory, by each policy, and by each way to order lanes."""
        shape = bench.shape(name, 8, 1024)
        title = f"offload-{name}"
        kept = bench.kept(title)
        missing = bench.measure_blocks(shape)
        cap = ["--device-memory", bench.cap(cap_gib)]
        wanted = [(policy, ["--policy", policy, *cap]) for policy in bench.policies] + [("uncapped", ["--policy", "resident"])]
        wanted += [(f"optimal, {way}", ["--policy", "optimal", "--scheduling", way, *cap]) for way in ("fifo", "dynamic")]
        longest, failed = 0, []
        for what, flags in wanted:
            if what in kept:
                continue
            if bench.seconds_left() < 1.3 * longest + 20:
                return {"ok": not failed, "rows": compared(kept) + failed, "again": True, "missing": f"no time for '{what}'"}
            begun = time.monotonic()
            row, for_good = train_under(bench, shape, title, flags)
            if for_good:
                kept[what] = {"what": what, **row}
                bench.keep(title, kept)
            else:
                failed.append({"what": what, **row})
            longest = max(longest, time.monotonic() - begun)
        return {"ok": not failed and "tokens_per_s" in kept.get("optimal", {}), "rows": compared(kept) + failed,
                **({"missing": missing} if missing else {})}
    return part


def beside_deepspeed(kept, own):
    """Of one model: DeepSpeed at its fastest, the plan of the same kind, and the best plan, with ratios."""
    fitting = [row for row in kept.values() if "tokens_per_s" in row]
    rows = [max(fitting, key=lambda row: row["tokens_per_s"])] if fitting else list(kept.values())[-1:]
    for what in ("zero-offload", "optimal"):
        if "tokens_per_s" in own.get(what, {}):
            rows.append({"who": f"autohete, {what}", **{name: own[what][name] for name in ("tokens_per_s", "step_us")}})
            if fitting:
                rows[-1]["times_deepspeed"] = round(rows[-1]["tokens_per_s"] / rows[0]["tokens_per_s"], 3)
    return rows


def deepspeed(bench):
    """DeepSpeed's own ZeRO-Offload under the same limits, at each setting until one needs nothing cut or recomputed."""
    rows, failed = [], []
    for name, cap_gib in OFFLOADED:
        shape = bench.shape(name, 8, 1024)
        title = f"deepspeed-{name}"
        kept = bench.kept(title)
        for micro_batch, recomputed in DEEPSPEED_WAYS:
            what = f"micro-batch {micro_batch}{', recompute' if recomputed else ''}"
            if what in kept or "tokens_per_s" in next(iter(kept.values()), {}):
                continue
            if bench.seconds_left() < DEEPSPEED_SECONDS and not bench.quick:
                return {"ok": True, "rows": rows + failed, "again": True, "missing": f"no time for {name}, {what}"}
            row = bench.deepspeed(shape, "--micro-batch", min(micro_batch, shape.batch), "--memory-gib", cap_gib,
                                  *(["--recompute"] if recomputed else []))
            if "absent" in row:
                return {"ok": True, "rows": rows, "missing": f"DeepSpeed is not there: {row['absent']}"}
            row = {"who": "DeepSpeed", "model": name, "GiB": cap_gib, "setting": what, **row}
            if "failed" in row:
                failed.append(row)
            else:
                kept[what] = row
                bench.keep(title, kept)
        rows += beside_deepspeed(kept, bench.kept(f"offload-{name}"))
    return {"ok": not failed, "rows": rows + failed}


PARTS = (
    ("operations", "every op against the references, lanes, a trainer beside the CPU's", operations),
    ("identity", "twenty plans give the same bits", identity),
    ("resume", "killed and resumed", resume),
    ("profile", "links, products, AdamW, and each beside the others", profile),
    ("resident-1.5b", "GPT-2 1.5B, sequence 1024, beside PyTorch", resident("gpt2-1.5b", 1024, 8)),
    ("offload-2b", "2B in 12 GiB, by each policy", offload(*OFFLOADED[0])),
    ("resident-7b", "Llama-2 7B's layers, sequence 4096, beside PyTorch", resident("llama-2-7b", 4096, 2)),
    ("offload-4b", "4B in 24 GiB, by each policy", offload(*OFFLOADED[1])),
    ("sanitizer", "compute-sanitizer on a small case", sanitizer),
    ("offload-6b", "6B in 40 GiB, by each policy", offload(*OFFLOADED[2])),
    ("resident-7b-1024", "Llama-2 7B's layers, sequence 1024, beside PyTorch", resident("llama-2-7b", 1024, 8)),
    ("deepspeed", "ZeRO-Offload by DeepSpeed, beside plans under the same limits", deepspeed),
)


def listed():
    return [(name, what) for name, what, _ in PARTS]
