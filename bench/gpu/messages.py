# SPDX-License-Identifier: Apache-2.0
"""The part `messages` of gpu-check --run: NCCL, which moves messages between GPUs.

A world of one rank opens NCCL and adds on the lane `sums`. Two ranks need two GPUs, or an NCCL that lets them share one
(2.30 and later, if it is told to). Where there are two GPUs, they also train a model whose states they share, and must
give the weights of one.
"""
import json

SHARED = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
SECONDS = 60  # for one world


def world(bench, rows, what, *words, environment=None):
    """Adds rows of one world. Returns why it does not work; None: it works."""
    result = bench.call([bench.path("bin/bench_nccl"), *words], SECONDS, environment={**bench.environment, **(environment or {})})
    said = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    if result.returncode or not said:
        return said[-1]["why"] if said and "why" in said[-1] else (result.stderr.strip() or f"exit {result.returncode}")[-500:]
    rows += [{"what": what, "passed": True, **{name: row[name] for name in ("library", "bytes", "us", "gb_per_s")}} for row in said]
    bench.tell(rows[-len(said):])
    return None


def trained(bench, digest, name, *flags, run=()):
    shape = bench.small()
    if not bench.plan(shape, name, "--policy", "resident", *shape.flags(), "--micro-batches", "2", *flags):
        return None
    bench.check(bench.call(bench.training_words(name, 3, "--save", bench.fresh(f"{name}-saved"), *run)))
    return digest(bench.out(f"{name}-saved"))


def messages(digest):
    def part(bench):
        """Runs worlds of one and two ranks, then a training of two GPUs, as far as this machine has them."""
        rows = []
        why = world(bench, rows, "a world of one", "1")
        if why:
            return {"ok": False, "rows": [{"what": "a world of one", "passed": False, "why": why}]}
        why = world(bench, rows, "two GPUs", "2")
        if why:
            shared = world(bench, rows, "two ranks on one GPU", "2", "one-gpu", environment=SHARED)
            missing = f"two GPUs: {why}" + (f"; two ranks on one GPU: {shared}" if shared else "")
            return {"ok": True, "rows": rows, "missing": missing}
        rate = max(row["gb_per_s"] for row in rows if row["what"] == "two GPUs")
        one = trained(bench, digest, "messages-one")
        two = trained(bench, digest, "messages-two", "--gpus", "2", "--fabric", f"{max(rate, 1):.0f}GB/s", run=("--local",))
        rows.append({"what": "two GPUs train", "passed": one is not None and one == two, "weights": (two or "none")[:16]})
        return {"ok": rows[-1]["passed"], "rows": rows}
    return part
