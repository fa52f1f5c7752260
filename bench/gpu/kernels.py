# SPDX-License-Identifier: Apache-2.0
"""Part `kernels` of gpu-check: each kernel and product at the shapes of real models. Some rows are checked against
double, and its time is compared with PyTorch's at the same shape.

bench_kernels prints a line before and a line after each kernel. If it prints nothing for 8 s, the kernel hangs or has
broken the device: the process is ended, and another process continues with the next kernel. After two such kernels the
part ends.
"""
import time

PART_ITEMS, OWN_SHARE, SILENCE_ITEMS = 3, 0.6, 0.4  # in times of an item: a minute for the part, and 8 s of silence
HANGS_MOST, HUNG = 2, 124


def names_of(bench):
    words = [bench.path("bin/bench_kernels"), "--list", *(["--small"] if bench.quick else [])]
    return bench.call(words, bench.item_seconds).stdout.splitlines()


def measure(bench, names, rows, end):
    """Measures our kernels and fills `rows`. Returns what could not be done, or None."""
    hangs, why = 0, ""
    while names and time.monotonic() < end:
        now = []

        def heard(line):
            if "begins" in line:
                now[:] = [line["begins"]]
            elif "kernel" in line:
                now.clear()
                names.remove(line["kernel"])
                rows.append(line)
                bench.tell(rows)

        status, why = bench.stream([bench.path("bin/bench_kernels"), *names], heard, end - time.monotonic(),
                                   SILENCE_ITEMS * bench.item_seconds)
        if not now:  # all are done, or the first one did not even begin
            return None if not names else f"{', '.join(names)}: {why}"
        hung = status == HUNG and time.monotonic() < end
        if status == HUNG and not hung:
            break
        names.remove(now[0])
        rows.append({"kernel": now[0], "holds": "no", "says": "hangs" if hung else why})
        bench.tell(rows)
        hangs += 1
        if hangs == HANGS_MOST:
            return f"{', '.join(names)}: {hangs} kernels hung or failed" if names else None
    return f"{', '.join(names)}: no time" if names else None


def compare(bench, rows, seconds):
    """Adds PyTorch's times to the rows. Returns why there are none, or None."""
    own = {row["kernel"]: row for row in rows if "us" in row}

    def heard(line):
        row = own.get(line.get("kernel"))
        if row:
            row.update({name: value for name, value in line.items() if name != "kernel"})
            row["times_torch"] = round(line["torch_us"] / row["us"], 3) if row["us"] else None
            bench.tell(rows)

    words = ["python3", bench.path("gpu/torch_kernels.py"), *(["--small", "--device", "cpu"] if bench.quick else [])]
    status, why = bench.stream(words, heard, seconds, seconds, bench.python_environment())
    if status == 7:
        return f"PyTorch is not there: {why}"
    return None if status == 0 else f"PyTorch: {'was ended after its time' if status == HUNG else why}"


def kernels(bench):
    begun = time.monotonic()
    bench.deadline = min(bench.deadline, begun + PART_ITEMS * bench.item_seconds)
    rows, names = [], names_of(bench)
    if not names:
        return {"ok": False, "rows": [], "missing": "bench_kernels names no kernels"}
    missing = [measure(bench, names, rows, begun + OWN_SHARE * (bench.deadline - begun))]
    if any("us" in row for row in rows):
        missing.append(compare(bench, rows, bench.seconds_left()))
    said = "; ".join(why for why in missing if why)
    return {"ok": all(row["holds"] == "yes" for row in rows) and not missing[0], "rows": rows, **({"missing": said} if said else {})}
