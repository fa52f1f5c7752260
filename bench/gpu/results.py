# SPDX-License-Identifier: Apache-2.0
"""Runs the parts in a packed folder, keeps what they say, and prints it as tables."""
import datetime
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import traceback

import deepspeed_model
import pack
import parts
from shape import Shape

PART_SECONDS, LEAST_SECONDS, CUT_SECONDS = 460, 90, 5
MISSING, FAILED = 7, 1
# Where the toolkit's libraries may lie besides where the loader and the plugin look; PyTorch brings them, too.
LOOKED_AT = (os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "lib64"), "/usr/local/cuda/lib64")
TOOLKIT = ("/usr/local/cuda/lib", "/usr/local/cuda/targets/x86_64-linux/lib", "/usr/local/cuda-*/lib64")
LIBRARY = "libcublasLt.so.13"


def folder_of_libraries():
    """Where the toolkit's libraries are if not where they are looked for anyway; or None."""
    if any(os.path.exists(os.path.join(place, LIBRARY)) for place in LOOKED_AT):
        return None
    found = subprocess.run(["python3", "-c", "import sys; print(*sys.path, sep='\\n')"], check=False, text=True,
                           capture_output=True).stdout.split("\n")
    places = [*TOOLKIT, *(os.path.join(place, "nvidia/*/lib") for place in found if place)]
    paths = [path for place in places for path in sorted(glob.glob(os.path.join(place, LIBRARY)))]
    return os.path.dirname(paths[0]) if paths else None


class Bench:
    """What parts work with: the program, the folder, the time that is left."""

    def __init__(self, folder, quick):
        self.folder, self.quick = folder, quick
        self.steps = 2 if quick else parts.STEPS
        self.identical_plans = 4 if quick else 20
        self.policies = parts.POLICIES[:2] if quick else parts.POLICIES
        self.left_out = set(pack.TESTS) - {"adamw", "cross_entropy"} if quick else set()
        self.deadline = 0
        self.device = ""
        self.environment = {**os.environ, "AUTOHETE_PLUGIN_DIR": self.path("lib/autohete"), "NO_COLOR": "1",
                            "XDG_CACHE_HOME": self.out("cache")}
        libraries = folder_of_libraries()
        if libraries:
            os.makedirs(self.fresh("toolkit"))
            os.symlink(libraries, self.out("toolkit/lib64"))
            self.environment["CUDA_HOME"] = self.out("toolkit")

    # ---- places ----

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def out(self, name):
        place = self.path("results", "quick" if self.quick else "work")
        os.makedirs(place, exist_ok=True)
        return os.path.join(place, name)

    def fresh(self, name):
        shutil.rmtree(self.out(name), ignore_errors=True)
        return self.out(name)

    def kept(self, name):
        try:
            with open(self.out(f"kept-{name}.json"), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return {}

    def keep(self, name, what):
        write_json(self.out(f"kept-{name}.json"), what)

    # ---- the program ----

    def seconds_left(self):
        return max(self.deadline - time.monotonic(), 1)

    def call(self, words, seconds=None, folder=None, environment=None):
        """Runs a program; one that takes too long is ended, with all that it started."""
        seconds = seconds or self.seconds_left()
        words = [str(word) for word in words]
        with subprocess.Popen(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder,
                              env=environment or self.environment, start_new_session=True) as process:
            try:
                output, errors = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, errors = process.communicate()
                return subprocess.CompletedProcess(words, 124, output, f"{errors}\nwas stopped after {seconds:.0f} s")
        return subprocess.CompletedProcess(words, process.returncode, output, errors)

    def program(self, *words):
        return self.call([self.path("bin/autohete"), *words])

    def plan(self, shape, name, *flags):
        """The plan as JSON, or None where there is none."""
        output = self.out(f"{name}.json")
        result = self.program("plan", shape.path, "--machine", self.machine(shape), "-o", output, *flags)
        if result.returncode in (4, 5):
            return None
        if result.returncode:
            raise RuntimeError(result.stderr.strip())
        with open(output, encoding="utf-8") as file:
            return json.load(file)

    def training_words(self, name, steps, *flags):
        return [self.path("bin/autohete"), "run", self.out(f"{name}.json"), "--data", self.path("text.txt"), "--device", "cuda:0",
                "--steps", steps, "--lr", "1e-4", "--schedule", "constant", "--log", self.out(f"{name}.ndjson"), *flags]

    def forget_log(self, name):
        if os.path.exists(self.out(f"{name}.ndjson")):
            os.remove(self.out(f"{name}.ndjson"))

    def start_training(self, name, steps, *flags):
        words = [str(word) for word in self.training_words(name, steps, *flags)]
        self.forget_log(name)
        with open(self.out(f"{name}.stderr"), "w", encoding="utf-8") as log:
            return subprocess.Popen(words, stdout=log, stderr=log, env=self.environment)

    def train(self, name, steps, *flags):
        """Steps of the log, their losses, and the plan."""
        self.forget_log(name)
        result = self.call(self.training_words(name, steps, *flags))
        if result.returncode:
            raise RuntimeError(f"run {name}: {result.stderr.strip()[-1500:]}")
        with open(self.out(f"{name}.ndjson"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        with open(self.out(f"{name}.json"), encoding="utf-8") as file:
            plan = json.load(file)
        done = [line for line in lines if line.get("line") == "step"]
        return {"steps": done, "losses": [line["loss"] for line in done], "plan": plan}

    # ---- shapes and machines ----

    def model_of(self, document, name):
        path = self.out(f"{name}.model.json")
        write_json(path, document)
        return path

    def shape(self, name, batch, seq, fits=None):
        if self.quick:
            return self.small()
        shape = Shape(self.path(f"models/{name}.json"), batch, seq)
        if fits:
            shape.fit(fits)
        shape.path = self.model_of(shape.document, shape.name)
        return shape

    def small(self):
        shape = Shape(self.path("models/tiny.json"), 2, 32 if self.quick else 256)
        if self.quick:
            shape.document.update({"width": 64, "heads": 1, "kv_heads": 1, "head_dim": 64, "mlp_width": 96, "layers": 2,
                                   "vocabulary": 256})
            shape.path = self.model_of(shape.document, "tiny")
        return shape

    def cap(self, gib):
        return "900MiB" if self.quick else f"{gib}GiB"

    def machine(self, shape):
        """Where blocks of the shape were measured, else the machine alone."""
        if self.quick:
            return self.path("machines/rtx4090-64g.json")
        own = self.out(f"machine-{shape.name}-{shape.batch}-{shape.seq}.json")
        if os.path.exists(own):
            return own
        if not os.path.exists(self.out("machine.json")):
            self.check(self.program("profile", "--quick", "--device", "cuda:0", "-o", self.out("machine.json")))
        return self.out("machine.json")

    def measure_blocks(self, shape):
        """For predictions; without them plans are made from what the machine does alone. Returns why there are none, or None."""
        own = self.out(f"machine-{shape.name}-{shape.batch}-{shape.seq}.json")
        if self.quick or os.path.exists(own):
            return None
        shutil.copy(self.machine(shape), own + ".new")
        result = self.program("profile", "--quick", "--device", "cuda:0", "--onto", own + ".new", "--model", shape.path,
                              *shape.flags()[:6])
        if result.returncode:
            return f"blocks were not measured: {result.stderr.strip()[-300:]}"
        os.replace(own + ".new", own)
        return None

    @staticmethod
    def check(result):
        if result.returncode:
            raise RuntimeError(result.stderr.strip())

    def memory_bytes(self):
        with open(self.machine(self.small()), encoding="utf-8") as file:
            return json.load(file)["device"]["memory_bytes"]

    def torch(self, shape):
        """What PyTorch reaches; why there is no number; or `absent`: it is not there."""
        if self.quick:
            return {"missing": "--quick leaves PyTorch out"}
        result = self.call(["python3", self.path("gpu/torch_model.py"), shape.path, "--batch", shape.batch, "--seq", shape.seq],
                           environment=os.environ)
        lines = result.stdout.strip().splitlines()
        if result.returncode == MISSING:
            return {"absent": last_line(result.stderr)}
        if result.returncode or not lines:
            return {"missing": f"PyTorch: {last_line(result.stderr)}"}
        return json.loads(lines[-1])

    def carried_packages(self):
        """The folder of the Python packages that were packed, installed on first use; or None."""
        wheels = sorted(glob.glob(self.path("wheels/*.whl")))
        place = self.out("python")
        if wheels and not os.path.exists(place):
            self.check(self.call(["python3", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target",
                                  place + ".new", *wheels], environment=os.environ))
            os.replace(place + ".new", place)
        return place if wheels else None

    def deepspeed(self, shape, *flags):
        """What DeepSpeed reaches; why there is no number; or `absent`: it is not there."""
        packages = [place for place in (self.carried_packages(), os.environ.get("PYTHONPATH")) if place]
        result = self.call(["python3", self.path("gpu/deepspeed_model.py"), shape.path, "--batch", shape.batch, "--seq",
                            shape.seq, *flags], environment={**os.environ, "PYTHONPATH": os.pathsep.join(packages)})
        lines = result.stdout.strip().splitlines()
        if result.returncode == deepspeed_model.MISSING:
            return {"absent": last_line(result.stderr)}
        if result.returncode == deepspeed_model.NO_MEMORY:
            return {"fits": False}
        return json.loads(lines[-1]) if lines and not result.returncode else {"failed": last_line(result.stderr)}


def last_line(text):
    return (text.strip().splitlines() or ["no output"])[-1]


def write_json(path, what):
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(what, file, indent=2)
        file.write("\n")
    os.replace(path + ".new", path)


def find_device(bench):
    """The name of cuda:0; what keeps it from being used ends the run."""
    bench.deadline = time.monotonic() + 60
    result = bench.program("doctor", "--json")
    checks = {check["what"]: check for check in json.loads(result.stdout)["checks"]} if result.stdout else {}
    cuda = checks.get("device cuda", {"state": "absent", "detail": result.stderr.strip()})
    found = re.search(r"cuda:0 (.+?), [0-9.]+ [KMGT]iB", cuda["detail"])
    if cuda["state"] != "ok" or not found:
        print(f"gpu-check: {cuda['detail']}; {cuda.get('fix', 'see autohete doctor')}", file=sys.stderr)
        sys.exit(MISSING)
    return found.group(1)


def show(name, what, result):
    rows = result["rows"]
    print(f"\n## {name}: {what}: {'ok' if result['ok'] else 'FAILED'}, {result['seconds']} s")
    if result.get("missing"):
        print(f"   not done: {result['missing']}")
    columns = list(dict.fromkeys(column for row in rows for column in row if column != "output"))
    cells = [columns] + [[str(row.get(column, "")) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    for line in cells if rows else []:
        print("   " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    for row in rows:
        if row.get("output"):
            print(row["output"], file=sys.stderr)
    sys.stdout.flush()


def do_part(bench, function, end):
    begun = time.monotonic()
    bench.deadline = min(begun + PART_SECONDS, end)
    try:
        result = function(bench)
    except Exception as error:  # whatever a part does, the others are done
        result = {"ok": False, "rows": [], "missing": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
    result["seconds"] = round(time.monotonic() - begun, 1)
    if not result["ok"] and time.monotonic() > end - CUT_SECONDS:
        result["again"] = True  # the end of the run may be all that went wrong
    return result


def about_machine():
    """What results are of, besides the device's name."""
    words = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,memory.used,clocks.sm,pcie.link.gen.max,"
             "pcie.link.width.max", "--format=csv,noheader"]
    program = shutil.which(words[0])
    gpu = subprocess.run(words, check=False, text=True, capture_output=True, timeout=30).stdout.strip() if program else ""
    with open("/proc/meminfo", encoding="utf-8") as file:
        memory = file.readline().split()[1]
    return {"gpu": gpu, "kernel": os.uname().release, "host_kib": int(memory), "processors": os.cpu_count()}


def write_archive(bench, path):
    """What another folder of the same packing goes on with: results, plans, measurements."""
    with tarfile.open(path + ".new", "w:gz") as archive:
        for found in glob.glob(bench.path("results/**/*json"), recursive=True):
            if "saved" not in found:
                archive.add(found, os.path.relpath(found, bench.folder))
    os.replace(path + ".new", path)


def write(bench, state, options):
    """The results so far, so that a run that is ended keeps what was done. Returns where."""
    slug = re.sub(r"[^a-z0-9]+", "-", bench.device.lower()).strip("-")
    output = options.output or bench.path("results", f"{slug}-{datetime.date.today().isoformat()}.json")
    write_json(bench.out("state.json"), state)
    write_json(output, state)
    if options.archive:
        write_archive(bench, options.archive)
    return output


def to_do(done, name):
    return name not in done or not done[name]["ok"] or bool(done[name].get("again"))


def failed(done, name):
    return name in done and not done[name]["ok"] and not done[name].get("again")


def run(folder, options):
    bench = Bench(folder, options.quick)
    end = time.monotonic() + 60 * options.minutes
    unknown = set(options.parts) - {name for name, _ in parts.listed()}
    if unknown:
        raise SystemExit(f"gpu-check: there is no part '{sorted(unknown)[0]}'; --list names them")
    bench.device = find_device(bench)
    state_path = bench.out("state.json")
    state = {} if options.again or not os.path.exists(state_path) else json.load(open(state_path, encoding="utf-8"))
    if state.setdefault("device", bench.device) != bench.device:
        raise SystemExit(f"gpu-check: '{bench.path('results')}' is of '{state['device']}', this is '{bench.device}'; move it away")
    state.setdefault("quick", options.quick)
    state["machine"] = about_machine()
    done = state.setdefault("parts", {})
    # Those that failed before come last, so that they take no time from what was never tried; one that was cut off does not.
    for name, what, function in sorted(parts.PARTS, key=lambda part: failed(done, part[0])):
        if options.parts and name not in options.parts:
            continue
        if to_do(done, name):
            if end - time.monotonic() < LEAST_SECONDS:
                print(f"\n## {name}: {what}: no time left")
                continue
            done[name] = do_part(bench, function, end)
            write(bench, state, options)
        show(name, what, done[name])
    print(f"\nwritten to {write(bench, state, options)}")
    return 0 if all(result["ok"] for result in done.values()) else FAILED
