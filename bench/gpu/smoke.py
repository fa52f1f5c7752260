# SPDX-License-Identifier: Apache-2.0
"""Part `smoke` of gpu-check: finds in the first minute what could waste the rest of the time.

Each item has its own time limit and is ended if it hangs; its row is written before the next item begins. After one
that hung, the others get less time, so that all are tried within the part's minute. An item that cannot be shown on
this machine is `open`; the part fails only if something is shown to be wrong.

    ITEMS    (item, function of a Bench and the seconds it has; returns (ok, dict of what was found))

`ok` is True, False, or None for open.
"""
import glob
import json
import os
import re
import resource
import shutil
import time

import memory

PART_ITEMS = 3  # in times of an item: a minute for the part
AFTER_HANG, LEAST_SECONDS = 0.4, 1
SMI_SECONDS = 8
STEPS, NEAR = 3, 4e-3  # of the training; largest difference of its losses from the CPU's, which adds in another order
SMI = (("name", "driver_version", "memory.total", "memory.used", "ecc.mode.current", "mig.mode.current", "persistence_mode"),
       ("pcie.link.gen.current", "pcie.link.gen.max", "pcie.link.width.current", "pcie.link.width.max"),
       ("clocks.sm", "clocks.mem", "clocks.max.sm", "clocks.max.mem", "temperature.gpu", "power.draw", "power.limit"),
       ("clocks_event_reasons.active",), ("clocks_throttle_reasons.active",))
NOT_SUPPORTED = re.compile(r"not supported|unsupported|unable to|failed to initialize|insufficient permission", re.IGNORECASE)


def sanitizer_program():
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    return program if os.access(program, os.X_OK) else None


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def said(result):
    """Returns why a program failed: the end of its output."""
    lines = (result.stdout + "\n" + result.stderr).strip().splitlines()
    return lines[-1][-400:] if lines else f"exit {result.returncode}"


# ---- what there is ----

def driver(bench, seconds):
    """Asks nvidia-smi about the first GPU. A driver that does not know one field refuses the whole query, so the fields
    are queried in groups."""
    found = {}
    version = re.search(r"Kernel Module\s+(?:for \S+\s+)?([0-9.]+)", read("/proc/driver/nvidia/version"))
    if version:
        found["driver_module"] = version.group(1)
    if not shutil.which("nvidia-smi"):
        return None, {**found, "says": "nvidia-smi is not installed"}
    for fields in SMI:
        result = bench.call(["nvidia-smi", "--id=0", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"],
                            min(seconds, SMI_SECONDS))
        if result.returncode == 124:
            return False, {**found, "says": "nvidia-smi did not answer"}
        if result.returncode == 0:
            found.update(zip(fields, (value.strip() for value in result.stdout.strip().split(","))))
    return (True if "name" in found else False), found or {"says": "nvidia-smi answers nothing"}


def host(*_):
    """Returns processors, NUMA nodes, and the limits that control groups and the shell set."""
    nodes = {os.path.basename(path): {"cpus": read(os.path.join(path, "cpulist")),
                                      "memory": (re.search(r"MemTotal:\s*(.*)", read(os.path.join(path, "meminfo"))) or [0, ""])[1]}
             for path in sorted(glob.glob("/sys/devices/system/node/node[0-9]*"))}
    limits = [{"limit_bytes": most, "used_bytes": now} for most, now in memory.groups_of("/")]
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return True, {"kernel": os.uname().release, "processors": os.cpu_count(), "may_use": len(os.sched_getaffinity(0)),
                  "memory_bytes": memory.meminfo()["MemTotal"], "available_bytes": memory.available_bytes(),
                  "cgroup_memory": limits, "cgroup_cpu": read("/sys/fs/cgroup/cpu.max") or "none",
                  "numa": nodes, "locked_limit": "none" if locked == resource.RLIM_INFINITY else locked,
                  "huge_pages": read("/sys/kernel/mm/transparent_hugepage/enabled")}


def packages(bench, seconds):
    code = ("import importlib.metadata as m\nfor n in ('torch', 'triton', 'deepspeed', 'nvidia-cublas', 'nvidia-cudnn-cu13',"
            " 'nvidia-cuda-cupti'):\n try: print(n, m.version(n))\n except m.PackageNotFoundError: pass")
    result = bench.call(["python3", "-c", code], seconds)
    if result.returncode:
        return None, {"says": said(result)}
    found = dict(line.split(" ", 1) for line in result.stdout.splitlines())
    return (True if "torch" in found else None), found or {"says": "PyTorch is not there"}


def contact(bench, seconds, *words):
    """Runs bench_contact; keeps what it printed before it hung or failed."""
    result = bench.call([bench.path("bin/bench_contact"), *words], seconds)
    found = {}
    for line in result.stdout.splitlines():
        if line.startswith("{"):
            found.update(json.loads(line))
    why = "hangs: ended after its time" if result.returncode == 124 else found.pop("why", "") or said(result)
    ok = found.pop("ok", False) and result.returncode == 0
    return ok, found if ok else {**found, "says": why}


def device(bench, seconds):
    ok, found = contact(bench, seconds, "about")
    place = f"/sys/bus/pci/devices/{found.get('address', '').lower()}"
    if ok and os.path.isdir(place):
        found.update({name: read(os.path.join(place, name)) for name in
                      ("current_link_speed", "max_link_speed", "current_link_width", "max_link_width", "numa_node", "local_cpulist")})
    return ok, found


# ---- what it does ----

def pinning(gib):
    def item(bench, seconds):
        n_bytes = gib << (20 if bench.quick else 30)
        if memory.available_bytes() < n_bytes + (n_bytes >> 3):
            return None, {"says": f"{memory.available_bytes() >> 30} GiB of the host's memory are available"}
        return contact(bench, seconds, "pin", n_bytes)
    return item


def queue(bench, seconds):
    """Fills all lanes; bench_contact's own watchdog prints before its time is over."""
    return contact(bench, seconds, "queue", 0.75 * seconds)


def tested(name):
    """Returns an item that runs a module of the packed test program."""
    def item(bench, seconds):
        result = bench.call(bench.test(name), seconds, folder=bench.folder)
        output = result.stdout + result.stderr
        if result.returncode == 0:
            return True, {"tests": len(re.findall(r"\[ +OK \]", output))}
        says = "hangs: ended after its time" if result.returncode == 124 else f"exit {result.returncode}"
        return False, {"says": says, "output": output[-1500:]}
    return item


def losses_on(bench, seconds, device_name, *flags):
    words = bench.training_words("smoke", STEPS, *flags)
    words[words.index("--device") + 1] = device_name
    bench.forget_log("smoke")
    result = bench.call(words, seconds)
    if result.returncode:
        return None, "hangs: ended after its time" if result.returncode == 124 else said(result)
    return [line["loss"] for line in bench.log_of("smoke") if line.get("line") == "step"], ""


def training(bench, seconds):
    """Trains three steps with states on the host, and compares the losses with the CPU device's under the same plan."""
    end = time.monotonic() + seconds
    shape = bench.small()
    plan = bench.plan(shape, "smoke", "--policy", "zero-offload", *shape.flags(), machine=bench.path("machines/rtx4090-64g.json"))
    if not plan:
        return False, {"says": "there is no plan of the tiny model"}
    found, why = losses_on(bench, (end - time.monotonic()) * 0.6, "cuda:0")
    if not found:
        return False, {"says": why}
    expected, why = losses_on(bench, max(end - time.monotonic(), 1), "cpu", "--other-device")
    if not expected:
        return None, {"losses": found, "says": f"the CPU's losses are not known: {why}"}
    far = max(abs(a - b) / b for a, b in zip(found, expected))
    near = len(found) == len(expected) == STEPS and far <= NEAR  # false for NaN, too
    return near, {"losses": found, "cpu_losses": expected, "apart": float(f"{far:.3g}"),
                  **({} if near else {"says": f"losses differ from the CPU's by {far:.3g}, more than {NEAR}"})}


def memcheck(bench, seconds):
    program = sanitizer_program()
    if not program:
        return None, {"says": "compute-sanitizer is not installed"}
    result = bench.call([program, "--tool", "memcheck", "--error-exitcode", "99", "--report-api-errors", "no",
                         *bench.test("attention")], seconds, folder=bench.folder)
    output = result.stdout + result.stderr
    summary = ([line for line in output.splitlines() if "SUMMARY" in line] or [said(result)])[-1]
    if result.returncode == 0:
        return True, {"says": summary}
    if result.returncode == 124:
        return None, {"says": "had no time to end"}
    if result.returncode != 99 and NOT_SUPPORTED.search(output):
        return None, {"says": f"not supported here: {said(result)}"}
    return False, {"says": summary, "output": output[-1500:]}


# Runs every kind of op once against the CPU device, and attention on tensor cores, which those ops do not use.
ITEMS = (("driver", driver), ("host", host), ("packages", packages), ("device", device), ("pin 1 GiB", pinning(1)),
         ("operations", tested("ops")), ("attention", tested("attention")), ("queue", queue), ("training", training), ("pin 8 GiB", pinning(8)),
         ("pin 32 GiB", pinning(32)), ("memcheck of attention", memcheck))


def told(item, ok, seconds, found):
    """Makes a row. All that was found is in one column, so that the table stays readable."""
    output = found.pop("output", None)
    row = {"item": item, "holds": {True: "yes", False: "no", None: "open"}[ok], "seconds": round(seconds, 1),
           "says": found.pop("says", ""), "found": found}
    return {**row, **({"output": output} if output else {})}


def smoke(bench):
    bench.deadline = min(bench.deadline, time.monotonic() + PART_ITEMS * bench.item_seconds)
    rows, hangs = [], []
    for item, function in ITEMS:
        begun, left = time.monotonic(), bench.deadline - time.monotonic()
        if left < LEAST_SECONDS:
            rows.append(told(item, None, 0, {"says": "no time left"}))
        else:
            try:
                ok, found = function(bench, min(left, bench.item_seconds * (AFTER_HANG if hangs else 1)))
            except Exception as error:  # whatever happens in an item, the others run
                ok, found = False, {"says": f"{type(error).__name__}: {error}"}
            rows.append(told(item, ok, time.monotonic() - begun, dict(found)))
        if str(rows[-1]["says"]).startswith("hangs"):
            hangs.append(item)
        bench.tell(rows)
    not_done = [row["item"] for row in rows if row["says"] == "no time left"]
    return {"ok": all(row["holds"] != "no" for row in rows), "rows": rows,
            **({"missing": f"no time for {', '.join(not_done)}", "again": True} if not_done else {})}
