# SPDX-License-Identifier: Apache-2.0
"""Judges results by what must hold on a GPU: rows of (point, holds, found).

`holds` is yes, no, or open: not measured. Aims are those of the project: without offloading, PyTorch's speed and half
of the peak; under a limit, the AutoHete paper's mean speedups over policies; predictions within 10 %; links and host
Adam at 85 % of what each reached alone.
"""
import statistics

FREE = ", not clipped"  # as in the paper: updates do not wait for the norm
PAPER = (("zero-offload" + FREE, 1.85), ("patrickstar" + FREE, 1.63), ("stronghold" + FREE, 1.32))  # one GPU, means over models
OTHERS = ("stream" + FREE, "autohete-paper" + FREE, "zero-offload", "optimal, fifo")
LEAST_MFU, MOST_ERROR, LEAST_KEPT = 0.5, 0.10, 0.85
CORRECT = (("smoke", "first contact: pins, queues, ops, losses, memcheck"), ("kernels", "rows of each kernel near double"),
           ("operations", "operations within tolerance, losses track the CPU's"), ("identity", "plans bit-identical"),
           ("resume", "resume exact"), ("sanitizer", "compute-sanitizer clean"),
           ("messages", "messages and sums between GPUs right"))


def row(point, holds, found):
    return {"point": point, "holds": {True: "yes", False: "no", None: "open"}[holds], "found": found}


def rows_of(done, begin):
    return [(name, each) for name, result in done.items() if name.startswith(begin) for each in result["rows"]]


def correct(done, name, point):
    result = done.get(name)
    if not result or not result["rows"]:
        return row(point, None, result.get("missing", "") if result else "")
    passed = sum(each["holds"] == "yes" if "holds" in each else each.get("passed", each.get("exit", 0) == 0)
                 for each in result["rows"])
    found = f"{passed} of {len(result['rows'])}" + (f"; not done: {result['missing']}" if result.get("missing") else "")
    return row(point, result["ok"], found)


def resident(done):
    own = [each for _, each in rows_of(done, "resident-") if each.get("who") == "autohete"]
    for each in own:
        ratio, mfu = each.get("times_torch"), each.get("mfu")
        holds = None if ratio is None or mfu is None else ratio >= 1 and mfu >= LEAST_MFU
        yield row(f"resident, {each['model']}, sequence {each['seq']}: PyTorch's speed, MFU of {LEAST_MFU}", holds,
                  f"{each['tokens_per_s']} tokens/s, {ratio} x PyTorch, MFU {mfu}")


def ratios(done, what):
    """Returns for each model how many times as fast as this policy `optimal` is."""
    return [each["optimal_is"] for _, each in rows_of(done, "offload-") if each["what"] == what and "optimal_is" in each]


def against(done, what, aim):
    found = ratios(done, what)
    mean = statistics.mean(found) if found else None
    text = f"mean {mean:.3f} x; {', '.join(str(each) for each in found)}" if found else ""
    return row(f"optimal against {what}, aim {aim}", None if mean is None else mean >= aim, text)


def share_kept(done):
    best = {name: each for name, each in rows_of(done, "offload-") if each["what"] == "optimal"}
    free = {name: each for name, each in rows_of(done, "offload-") if each["what"] == "uncapped"}
    found = [f"{name[8:]}: {best[name]['tokens_per_s'] / free[name]['tokens_per_s']:.3f}" for name in best
             if "tokens_per_s" in best[name] and "tokens_per_s" in free.get(name, {})]
    return {"point": "share of resident speed kept under the limit", "holds": "", "found": ", ".join(found)}


def same_losses(done):
    """Checks at full size that all plans of each model gave the same losses."""
    found = {}
    for name, each in rows_of(done, "offload-"):
        if "losses" in each:
            found.setdefault(name[8:] + FREE * each["what"].endswith(FREE), []).append(each["losses"])
    text = ", ".join(f"{name}: {len(bits)} plans, {len(set(bits))} sequence{'s' if len(set(bits)) > 1 else ''} of losses"
                     for name, bits in found.items())
    return row("losses of all policies identical at size", all(len(set(bits)) == 1 for bits in found.values()) if found else None, text)


def beside_fsdp(done):
    found = [(name, each["times_fsdp"]) for name, each in rows_of(done, "fsdp-") if "times_fsdp" in each]
    return row("optimal faster than PyTorch's FSDP2 with CPU offload", min(ratio for _, ratio in found) > 1 if found else None,
               ", ".join(f"{name[5:]}: {ratio} x" for name, ratio in found))


def beside_deepspeed(done):
    own = [(name, each) for name, each in rows_of(done, "deepspeed-") if "times_deepspeed" in each]
    found = [f"{name[10:]} {each['who'][10:]}: {each['times_deepspeed']} x" for name, each in own]
    best = [each["times_deepspeed"] for _, each in own if each["who"].endswith("optimal")]
    return row("optimal faster than DeepSpeed's ZeRO-Offload", min(best) > 1 if best else None, ", ".join(found))


def trained(done):
    return [each for begin in ("resident-", "offload-") for _, each in rows_of(done, begin) if "error" in each]


def predicted(done):
    errors = [abs(each["error"]) for each in trained(done)]
    near = sum(error <= MOST_ERROR for error in errors)
    found = f"{near} of {len(errors)}, median {statistics.median(errors):.3f}, worst {max(errors):.3f}" if errors else ""
    return row("step time within 10 % of the prediction", near == len(errors) if errors else None, found)


def peaks(done):
    found = [each["peak_as_planned"] for each in trained(done)]
    return row("highest device offset as planned", all(found) if found else None, f"{sum(found)} of {len(found)}")


def taken(done):
    found = [each["gpu_of_planned"] for each in trained(done) if "gpu_of_planned" in each]
    text = f"{min(found)} to {max(found)} of it" if found else ""
    return row("the driver counts no more than arena and reserve", max(found) <= 1 if found else None, text)


def kept(done, what):
    found = [(each[what], f"{name[8:]} {each['what']}") for name, each in rows_of(done, "offload-") if what in each]
    text = f"{sum(share >= LEAST_KEPT for share, _ in found)} of {len(found)}, least {min(found)[0]}: {min(found)[1]}" if found else ""
    alone = "of what was predicted" if what == "host_adam_kept" else "of what was measured alone"
    return row(f"{what[:-5].replace('_', ' ')} at 85 % {alone}", min(found)[0] >= LEAST_KEPT if found else None, text)


def rows(done):
    found = [correct(done, name, point) for name, point in CORRECT] + list(resident(done))
    found += [against(done, what, aim) for what, aim in PAPER] + [against(done, what, 1.0) for what in OTHERS]
    found += [same_losses(done), share_kept(done), beside_fsdp(done), beside_deepspeed(done), predicted(done), peaks(done), taken(done)]
    return found + [kept(done, what) for what in ("h2d_kept", "d2h_kept", "host_adam_kept")]
