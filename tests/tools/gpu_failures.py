#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What gpu-check's first minutes leave when something fails: on the plugin's double, one failure at a time.

    gpu_failures.py --check SCRIPT --build FOLDER --plugins FOLDER [NAME ...]

For every failure, the run ends in time with the expected exit status. Its results are a complete document with every
row that was printed. Each item holds, or is named as wrong or open; items that the failure does not affect hold. With
AH_TEST_SCALE of 1 all failures are tried, otherwise a few of different kinds.
"""
import argparse
import concurrent.futures
import contextlib
import glob
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from scale import scaled  # noqa: E402

ITEMS = ("driver", "host", "packages", "device", "pin 1 GiB", "operations", "attention", "queue", "training", "pin 8 GiB", "pin 32 GiB",
         "memcheck of attention")
KERNELS = 19  # in bench_kernels --small
SECONDS = 600  # for a run, far more than any takes
ITEM_SECONDS = 100  # for an item, more than any takes
HANG_SECONDS = (5, 30)  # if an item hangs; the second is for a repetition, if a busy machine may have been too slow
NO_TIME = "no time left"
DEVICE = ("pin 1 GiB", "operations", "attention", "queue", "training", "pin 8 GiB", "pin 32 GiB")
WORKERS = 3
LATER = "cuBLASLt 13.2.0"
NO_TORCH = "raise ImportError('none here')\n"


class Case:
    """A failure: settings of the double, changes to the folder, and what the results must contain.

    `holds`: what the rows of items, or of 'kernels', must say; other items must hold as without a failure, unless they
    are in `free`. Kernels in `wrong` must be found wrong."""

    def __init__(self, name, double="", prepare=None, status=0, free=(), usual=False, hangs=False, wrong=(), kernels=True,
                 words=(), path="", after=None, **holds):
        self.name, self.double, self.prepare, self.status, self.free = name, double, prepare, status, free
        self.usual, self.hangs, self.wrong, self.kernels, self.words = usual, hangs, wrong, kernels, words
        self.path, self.after = path, after
        self.holds = {name.replace("_", " "): holds for name, holds in holds.items()}


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path + ".new", 0o755)
    os.replace(path + ".new", path)  # a new file, since the packed one may be linked into other folders


def removes(pattern):
    def prepare(folder):
        for path in glob.glob(os.path.join(folder, pattern)):
            os.remove(path)
    return prepare


def breaks(soname):
    """Puts a file of that name, which cannot be loaded, in front of the library."""
    return lambda folder: write(os.path.join(folder, "libraries", soname), "no library")


def no_recorder(results):
    assert "recorder" not in results["versions"] and results["versions"]["library"], results["versions"]


def program(name, text):
    return lambda folder: write(os.path.join(folder, "path", name), "#!/bin/sh\n" + text)


def full_disk(folder):
    os.makedirs(os.path.join(folder, "results/quick"))
    os.symlink("/dev/full", os.path.join(folder, "results/quick/state.json.new"))


def half_a_state(folder):
    write(os.path.join(folder, "results/quick/state.json"), '{"device": "Double of a GPU", "parts": {"smo')


def an_earlier_run(folder):
    """Leaves the results of a run with another cuBLASLt, among them its profile."""
    state = {"device": "Double of a GPU", "quick": True, "versions": {"library": "cuBLASLt 13.1.0"},
             "parts": {"profile": {"ok": True, "rows": [], "seconds": 1}}}
    write(os.path.join(folder, "results/quick/state.json"), json.dumps(state))
    write(os.path.join(folder, "results/quick/machine.json"), "{}")


def measures_again(folder, results):
    assert results["versions"]["library"] == LATER and len(results["changes"]) == 1, results
    assert "profile" not in results["parts"], "a profile of another library is gone on with"
    assert not os.path.exists(os.path.join(folder, "results/quick/machine.json"))


def says(part, text):
    def after(_, results):
        assert text in json.dumps(results["parts"][part]), (part, text, results["parts"][part])
    return after


ENDLESS = "1000000000"
HANGS = {"hangs": True, "status": 1, "free": ("device", *DEVICE), "kernels": False}
NOTHING = {"status": 7, "kernels": False, "free": (), "device": "no", **{name.replace(" ", "_"): "no" for name in DEVICE}}

CASES = (
    Case("nothing fails", usual=True),
    # Waits that never end.
    Case("kernels never end", f"kernel_delay_us={ENDLESS}", usual=True, queue="no", training="no", **HANGS),
    Case("copies never end", f"copy_delay_us={ENDLESS}", pin_1_GiB="no", queue="no", training="no", **HANGS),
    Case("waiting for the host hangs", "hang=cuStreamWaitValue64:1", usual=True, queue="no", after=says("smoke", "hangs: after"),
         **HANGS),
    Case("waiting for a lane hangs", "hang=cudaStreamWaitEvent:1", queue="no", training="no", **HANGS),
    Case("looking at an event hangs", "hang=cudaEventQuery:1", queue="no", training="no", device="no",
         **{**HANGS, "status": 7}),
    Case("synchronizing hangs", "hang=cudaDeviceSynchronize:1", queue="no", training="no", device="no", **HANGS),
    Case("locking hangs", "hang=cudaHostRegister:1", pin_1_GiB="no", pin_32_GiB="no", **HANGS),
    Case("taking memory hangs", "hang=cudaMalloc:1", pin_1_GiB="no", queue="no", device="no", **{**HANGS, "status": 7}),
    Case("launching hangs", "hang=cudaLaunchKernel:1", queue="no", training="no", **HANGS),
    Case("products hang", "hang=cublasLtMatmul:1", training="no", **HANGS),
    Case("counting devices hangs", "hang=cudaGetDeviceCount:1", usual=True, hangs=True, **NOTHING),
    Case("nvidia-smi hangs", prepare=program("nvidia-smi", "sleep 100\n"), path="path", status=1, free=(), driver="no"),
    # Calls and kernels that fail or give wrong results.
    Case("locking is refused", "fail=cudaHostRegister:1:2,fail=cudaHostRegister:3:2", usual=True, status=1, pin_1_GiB="no",
         pin_8_GiB="no", operations="no", device="no", free=("pin 32 GiB", "queue", "training", "attention"), kernels=False),
    Case("a kernel breaks the device", "fail=cudaLaunchKernel:3:700", status=1, device="no", training="no",
         free=("operations", "attention", "queue"), kernels=False),
    Case("memory has errors", "fail=cudaMemcpyAsync:2:214", status=1, training="no", pin_1_GiB="no", free=DEVICE, kernels=False),
    Case("kernels leave wrong results", "skip=kernel", usual=True, status=1, operations="no", free=("training", "attention"),
         wrong=("rms norm small", "AdamW small")),
    Case("attention alone is wrong", "skip=attend", status=1, attention="no", free=("training",),
         wrong=("attention small", "attention backward small")),
    Case("others use the memory", "others=1020MiB", status=1, device="no", pin_1_GiB="no", training="no", free=DEVICE, kernels=False),
    # Missing components, and other versions.
    Case("the driver is too old", "driver=11000", usual=True, after=says("smoke", "driver"), **NOTHING),
    Case("there is no driver", "driver=0", **NOTHING),
    Case("the driver lacks a function", "missing=cuStreamWaitValue64", after=says("smoke", "cuStreamWaitValue64"), **NOTHING),
    Case("there is no plugin", prepare=removes("lib/autohete/libautohete_cuda.so"), after=says("smoke", "libautohete_cuda.so"), **NOTHING),
    Case("there is no cuBLASLt", prepare=breaks("libcublasLt.so.13"), usual=True, after=says("smoke", "ublas"), **NOTHING),
    Case("there is no CUPTI", prepare=breaks("libcupti.so.13"), after=lambda _, results: no_recorder(results)),
    Case("another cuBLASLt", "cublaslt=130200", usual=True, prepare=an_earlier_run, after=measures_again),
    Case("no PyTorch", usual=True, after=says("kernels", "PyTorch is not there")),
    Case("the sanitizer refuses the device", prepare=program("compute-sanitizer", "echo '= Device not supported'; exit 1\n"),
         path="path", usual=True, after=says("smoke", "not supported"), memcheck_of_attention="open"),
    Case("the sanitizer finds an error", prepare=program("compute-sanitizer", "echo '= ERROR SUMMARY: 1 error'; exit 99\n"),
         path="path", status=1, memcheck_of_attention="no"),
    # The rest of the machine.
    Case("the disk is full", prepare=full_disk, usual=True, words=("-o", "out.json")),
    Case("the results cannot be written", prepare=full_disk, words=("-o", "/dev/full/out.json"), after=None),
    Case("the state is cut in half", prepare=half_a_state),
)


def environment_of(case, folder):
    own = {name: value for name, value in os.environ.items() if name not in ("AUTOHETE_PLUGIN_DIR", "CUDA_HOME")}
    path = os.path.join(folder, case.path) + os.pathsep + os.environ["PATH"] if case.path else os.environ["PATH"]
    return {**own, "PATH": path, "AUTOHETE_CUDA_DOUBLE": case.double, "PYTHONPATH": os.path.join(folder, "python"),
            "LD_LIBRARY_PATH": os.path.join(folder, "libraries"),
            "CUDA_HOME": os.path.join(folder, "none")}


def words_of(case, folder, seconds=ITEM_SECONDS):
    return [os.path.join(folder, "gpu-check"), "--run", "--quick", "--item-seconds", str(seconds), *case.words, "smoke", "kernels"]


def results_of(folder):
    paths = glob.glob(os.path.join(folder, "out.json")) + glob.glob(os.path.join(folder, "results/*.json"))
    with open(paths[0], encoding="utf-8") as file:
        return json.load(file)


def printed(output):
    """Returns the items and kernels that were printed during the run."""
    lines = [line[3:] for line in output.splitlines() if line.startswith("   ")]
    items = [item for line in lines for item in ITEMS if line.startswith(f"{item}: ")]
    return items, [json.loads(line)["kernel"] for line in lines if line.startswith('{"kernel"')]


def check_printed(output, results):
    items, kernels = printed(output)
    rows = {name: part["rows"] for name, part in results["parts"].items()}
    assert {row["item"] for row in rows.get("smoke", [])} >= set(items), "items were printed that are not kept"
    assert {row["kernel"] for row in rows.get("kernels", [])} >= set(kernels), "kernels were printed that are not kept"
    return items, kernels


def check_items(case, results, usual):
    found = {row["item"]: row for row in results["parts"]["smoke"]["rows"]}
    assert tuple(found) == ITEMS, f"not all items: {list(found)}"
    assert not case.hangs or any(row["holds"] == "no" and row["says"].startswith("hangs") for row in found.values()), found
    for item, row in found.items():
        if case.hangs and row["says"] == NO_TIME:
            continue
        if item in case.holds:
            assert row["holds"] == case.holds[item] and (row["says"] or row["holds"] == "yes"), (item, row)
        elif item not in case.free and item not in ("packages", "driver"):
            assert row["holds"] == usual.get(item, row["holds"]), (item, row)


def check_kernels(case, results):
    rows = {row["kernel"]: row for row in results["parts"].get("kernels", {"rows": []})["rows"]}
    if case.kernels:
        assert len(rows) == KERNELS, list(rows)
        for name, row in rows.items():
            if name in case.wrong:
                assert row["holds"] == "no", row
            elif not case.wrong and not case.hangs:
                assert row["holds"] == "yes", row


def check_case(case, packed, place, usual):
    for seconds in HANG_SECONDS if case.hangs else (ITEM_SECONDS,):
        took, wrong = check_case_within(case, copy_of(packed, place, f"{case.name} {seconds}"), usual, seconds)
        if not wrong:
            break
    return took, wrong


def check_case_within(case, folder, usual, seconds):
    write(os.path.join(folder, "python/torch.py"), NO_TORCH)
    if case.prepare:
        case.prepare(folder)
    begun = time.monotonic()
    result = subprocess.run(words_of(case, folder, seconds), check=False, text=True, capture_output=True, timeout=SECONDS,
                            cwd=folder, env=environment_of(case, folder))
    try:
        assert result.returncode == case.status, f"exit {result.returncode}, expected {case.status}"
        if "/dev/full/out.json" in case.words:  # the results were printed, too
            items, kernels = printed(result.stdout)
            assert tuple(items) == ITEMS and len(kernels) == KERNELS and "was not written" in result.stderr, (items, kernels)
        else:
            results = results_of(folder)
            check_printed(result.stdout, results)
            check_items(case, results, usual)
            check_kernels(case, results)
            if case.after:
                case.after(folder, results)
        return time.monotonic() - begun, None
    except (AssertionError, OSError, ValueError, KeyError) as error:
        return time.monotonic() - begun, f"{type(error).__name__}: {error}\n{result.stdout}\n{result.stderr}"


def check_cut(folder, seconds, goes_on):
    """Kills the run without warning after some time: what it had printed is kept, and the next run continues."""
    case, begun = Case("cut"), time.monotonic()
    write(os.path.join(folder, "python/torch.py"), NO_TORCH)
    output = os.path.join(folder, "output")
    with open(output, "w", encoding="utf-8") as file, \
            subprocess.Popen(words_of(case, folder), stdout=file, stderr=file, cwd=folder, env=environment_of(case, folder)) as process:
        with contextlib.suppress(subprocess.TimeoutExpired):  # the run may be over before
            process.wait(seconds)
        process.kill()
    with open(output, encoding="utf-8") as file:
        said = file.read()
    try:
        items, kernels = printed(said)
        if goes_on:
            again = subprocess.run(words_of(case, folder), check=False, text=True, capture_output=True, timeout=SECONDS, cwd=folder,
                                   env=environment_of(case, folder))
            assert again.returncode == 0 and len(results_of(folder)["parts"]["smoke"]["rows"]) == len(ITEMS), again.stdout
        if items or kernels:
            items, kernels = check_printed(said, results_of(folder))
            parts = results_of(folder)["parts"]
            assert all(part.get("again") or part["rows"] for part in parts.values()), parts
        return time.monotonic() - begun, None, f"after {seconds:.1f} s: {len(items)} items, {len(kernels)} kernels"
    except (AssertionError, OSError, ValueError, KeyError, IndexError) as error:
        return time.monotonic() - begun, f"{type(error).__name__}: {error}\n{said}", ""


def copy_of(packed, place, name):
    folder = os.path.join(place, "".join(c if c.isalnum() else "-" for c in name))
    subprocess.run(["cp", "-al", packed, folder], check=True)
    return folder


def usual_items(packed, place):
    """Returns the items of a run without a failure, which must stay as they are."""
    folder = copy_of(packed, place, "usual")
    seconds, wrong = check_case_within(CASES[0], folder, {}, ITEM_SECONDS)
    if wrong:
        sys.exit(f"without a failure: {wrong}")
    parts = results_of(folder)["parts"]
    assert all(row["holds"] == "yes" for row in parts["smoke"]["rows"] if row["item"] in ("host", "device", *DEVICE)), parts["smoke"]
    print(f"{CASES[0].name}: {seconds:.1f} s", flush=True)
    return {row["item"]: row["holds"] for row in parts["smoke"]["rows"]}, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--plugins", required=True)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    seed = int(os.environ.get("AH_TEST_SEED", "1"))
    random.seed(seed)
    print(f"AH_TEST_SEED={seed}")
    whole, usual_cases = scaled(10) >= 10, [case for case in CASES[1:] if case.usual]
    wanted = [case for case in CASES if case.name in options.names] or (CASES[1:] if whole else usual_cases[::5])
    failed = []
    with tempfile.TemporaryDirectory() as place:
        packed = os.path.join(place, "packed")
        subprocess.run([options.check, "--pack", "-o", packed, "--build", options.build, "--plugins", options.plugins], check=True,
                       stdout=subprocess.DEVNULL)
        usual, seconds = usual_items(packed, place)
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            runs = {pool.submit(check_case, case, packed, place, usual): case.name for case in wanted}
            for i in range(0 if options.names else scaled(10)):
                name = f"cut {i + 1}"
                runs[pool.submit(check_cut, copy_of(packed, place, name), random.uniform(0.2, 2 * seconds), i == 0)] = name
            for run in concurrent.futures.as_completed(runs):
                took, wrong, *more = run.result()
                print(f"{runs[run]}: {took:.1f} s{' ' if more else ''}{' '.join(more)}{' FAILED' if wrong else ''}", flush=True)
                failed += [f"{runs[run]}: {wrong}"] if wrong else []
    print(f"{len(runs) + 1 - len(failed)} of {len(runs) + 1} failures leave what could be shown")
    if failed:
        print("\n\n".join(failed), file=sys.stderr)
    return 1 if failed else 0


sys.exit(main())
