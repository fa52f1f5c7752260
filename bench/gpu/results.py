# SPDX-License-Identifier: Apache-2.0
"""Runs the parts in a packed folder, keeps their results, and prints them as tables."""
import contextlib
import ctypes
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
import threading
import time
import traceback

import deepspeed_model
import memory
import pack
import parts
import smoke
import verdict
from shape import Shape
from watch import Watch, stolen_s

PART_SECONDS, CUT_SECONDS = 460, 5
ITEM_SECONDS = 20  # for an item of the first parts; an item that takes longer hangs
PIPE_SECONDS = 10  # to read the last output of a program that was ended
MISSING, FAILED, HUNG = 7, 1, 124
DOCTOR_ITEMS = 3  # in times of an item: the first program that opens a GPU waits until the driver has woken it
LONG = ("output", "off")  # columns too long for a table; rows printed as they come do have `off`
DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
HOST_MARGIN_BYTES = 3 << 30  # besides a plan's arenas
DEEPSPEED_STATE_BYTES, DEEPSPEED_OTHER_BYTES = 16, 6 << 30  # per parameter, on the host: master, moments, gradient
# Libraries that the plugin opens, and the folder in CUDA_HOME where it looks. The plugin also uses the loader's paths;
# elsewhere, toolkits and PyTorch's packages may have the libraries.
LIBRARIES = {"libcublasLt.so.13": "lib64", "libcupti.so.13": "extras/CUPTI/lib64"}
TOOLKIT = ("/usr/local/cuda", "/usr/local/cuda-*")
IN_TOOLKIT = ("lib", "lib64", "targets/x86_64-linux/lib", "extras/CUPTI/lib64")


def python_folders():
    found = subprocess.run(["python3", "-c", "import sys; print(*sys.path, sep='\\n')"], check=False, text=True,
                           capture_output=True)
    return [place for place in found.stdout.split("\n") if place]


def usual_folder_of(library, toolkits):
    """Returns the folder, in the first two toolkits, where the plugin finds the library itself; or None."""
    places = (os.path.join(place, inside) for place in toolkits[:2] for inside in LIBRARIES.values())
    return next((place for place in places if os.path.exists(os.path.join(place, library))), None)


def folder_of(library, toolkits, packages):
    """Returns the folder of a toolkit's library if the plugin does not find it itself; or None."""
    if usual_folder_of(library, toolkits):
        return None
    places = [os.path.join(place, inside) for place in toolkits for inside in IN_TOOLKIT]
    places += [os.path.join(place, "nvidia/*/lib") for place in packages]
    paths = [path for place in places for path in sorted(glob.glob(os.path.join(place, library)))]
    return os.path.dirname(paths[0]) if paths else None


class Bench:
    """What parts work with: the program, the folder, and the time that is left."""

    def __init__(self, folder, quick, item_seconds=ITEM_SECONDS):
        self.folder, self.quick, self.item_seconds = folder, quick, item_seconds
        self.tell = lambda rows: None  # a part calls it with all its rows whenever it has one more
        self.steps = 2 if quick else parts.STEPS
        self.identical_plans = 4 if quick else 20
        self.policies = parts.POLICIES[:2] if quick else parts.POLICIES
        self.test_seconds = min(parts.TEST_SECONDS, 1.5 * item_seconds)
        self.tests = ("adamw", "cross_entropy") if quick else pack.TESTS
        self.deadline = 0
        self.device = ""
        self.environment = {**os.environ, "AUTOHETE_PLUGIN_DIR": self.path("lib/autohete"), "NO_COLOR": "1",
                            "XDG_CACHE_HOME": self.out("cache"), "AH_TEST_SCALE": "0.1" if quick else "1"}
        self.brought, self.most_bytes = [], float("inf")
        self.remarks = {}  # warnings of trainings, each with the first training that had it
        self.link_toolkit()

    # ---- places ----

    def link_toolkit(self):
        """If the libraries are elsewhere on this machine, makes a toolkit folder as the plugin expects it."""
        shutil.rmtree(self.out("toolkit"), ignore_errors=True)
        packages, toolkits = python_folders(), (os.environ.get("CUDA_HOME") or TOOLKIT[0], *TOOLKIT)
        found = {library: folder_of(library, toolkits, packages) for library in LIBRARIES}
        if not any(found.values()):
            return
        self.environment["CUDA_HOME"] = self.out("toolkit")  # it replaces the machine's toolkit, so it links that, too
        for library, inside in LIBRARIES.items():
            place = found[library] or usual_folder_of(library, toolkits)
            if place:
                os.makedirs(os.path.dirname(self.out(f"toolkit/{inside}")), exist_ok=True)
                os.symlink(place, self.out(f"toolkit/{inside}"))

    def test(self, name):
        return [self.path("bin", pack.TEST_PROGRAM), name]

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def out(self, name):
        place = self.path("results", "quick" if self.quick else "work")
        os.makedirs(place, exist_ok=True)
        return os.path.join(place, name)

    def fresh(self, name):
        shutil.rmtree(self.out(name), ignore_errors=True)
        return self.out(name)

    @staticmethod
    def fresh_file(path):
        if os.path.exists(path):
            os.remove(path)
        return path

    def kept(self, name):
        return read_json(self.out(f"kept-{name}.json"))

    def keep(self, name, what):
        write_json(self.out(f"kept-{name}.json"), what)

    def keep_file(self, name, what):
        """Keeps a file for the archive that no part reads again."""
        write_json(self.out(name), what)

    def read_file(self, name):
        with open(self.out(name), encoding="utf-8") as file:
            return json.load(file)

    def forget(self, part):
        """Forgets what a part kept: files named after the part's first word and a shape whose name contains the second."""
        first, second = (part.split("-") + [""])[:2]
        for path in glob.glob(self.out(f"kept-{first}-*{second}*.json")):
            os.remove(path)

    def state(self):
        return read_json(self.out("state.json"))

    def forget_measurements(self):
        """Removes the profiles, including blocks of models: they were measured with another driver or library."""
        for path in glob.glob(self.out("machine*.json")):
            os.remove(path)

    # ---- the host's memory ----

    def bring(self, wanted_bytes):
        """Makes the host bring memory that it provides only on use (memory.py). Does not wait again for memory that
        never came."""
        wanted_bytes = min(int(wanted_bytes), self.most_bytes)
        if self.quick or memory.available_bytes() >= wanted_bytes:
            return
        seconds = min(120, self.seconds_left() - 20)
        result = self.call(["python3", self.path("gpu/memory.py"), wanted_bytes, "--seconds", seconds], seconds + 60)
        row = json.loads(result.stdout) if result.stdout else {"why": f"it was ended: {last_line(result.stderr)}"}
        if not row.get("complete", False) and row.get("seconds", 0) < seconds:
            self.most_bytes = min(self.most_bytes, row.get("after_bytes") or memory.available_bytes())
        self.brought.append({"wanted_bytes": wanted_bytes, **row})
        print(f"\nhost memory: {gib(wanted_bytes)} wanted, {gib(row.get('before_bytes', 0))} available before, "
              f"{gib(row.get('after_bytes', 0))} after {row.get('seconds', 0)} s: {row['why']}", flush=True)

    # ---- the program ----

    def seconds_left(self):
        return max(self.deadline - time.monotonic(), 1)

    def start(self, words, **more):
        """Starts a program in its own process group; it ends when this program ends."""
        return subprocess.Popen([str(word) for word in words], text=True, start_new_session=True, preexec_fn=end_with_parent,
                                **more)

    def call(self, words, seconds=None, folder=None, environment=None, watch=None):
        """Runs a program. One that takes too long is ended with its process group."""
        seconds = seconds or self.seconds_left()
        with self.start(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder,
                        env=environment or self.environment) as process:
            try:
                with watch.of(process) if watch else contextlib.nullcontext():
                    output, errors = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                try:
                    output, errors = process.communicate(timeout=PIPE_SECONDS)
                except subprocess.TimeoutExpired:  # a process that left the group still holds the pipes
                    output, errors = "", ""
                return subprocess.CompletedProcess(words, HUNG, output, f"{errors}\nwas stopped after {seconds:.0f} s")
        return subprocess.CompletedProcess(words, process.returncode, output, errors)

    def stream(self, words, heard, seconds, silence, environment=None):
        """Runs a program that prints documents, one per line, and passes each to heard() as it comes. Ends a program
        that prints nothing for `silence` seconds or takes longer than `seconds`. Returns (exit status, last line of its
        errors)."""
        end, last, errors = time.monotonic() + seconds, [time.monotonic()], []

        def listen():
            for line in process.stdout:
                last[0] = time.monotonic()
                if line.startswith("{"):
                    heard(json.loads(line))

        with self.start(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment or self.environment) as process:
            threads = [threading.Thread(target=listen, daemon=True),
                       threading.Thread(target=lambda: errors.extend(process.stderr), daemon=True)]
            for thread in threads:
                thread.start()
            while process.poll() is None and time.monotonic() < min(end, last[0] + silence):
                time.sleep(0.05)
            hung = process.poll() is None
            if hung:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for thread in threads:
                thread.join(PIPE_SECONDS)
        return HUNG if hung else process.returncode, last_line("".join(errors))

    def program(self, *words):
        return self.call([self.path("bin/autohete"), *words])

    def plan(self, shape, name, *flags, machine=None):
        output = self.out(f"{name}.json")
        result = self.program("plan", shape.path, "--machine", machine or self.machine(shape), "-o", output, *flags)
        if result.returncode in (4, 5):
            return None
        if result.returncode:
            raise RuntimeError(result.stderr.strip())
        with open(output, encoding="utf-8") as file:
            return json.load(file)

    def training_words(self, name, steps, *flags):
        return [self.path("bin/autohete"), "run", self.out(f"{name}.json"), "--data", self.path("text.txt"), "--data-format", "bytes",
                "--device", "cuda:0", "--steps", steps, "--lr", "1e-4", "--schedule", "constant",
                "--log", self.out(f"{name}.ndjson"), "--force", *flags]

    def forget_log(self, name):
        if os.path.exists(self.out(f"{name}.ndjson")):
            os.remove(self.out(f"{name}.ndjson"))

    def log_of(self, name):
        with open(self.out(f"{name}.ndjson"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def keep_remarks(self, name, header):
        """Prints and keeps each warning in a training's log once: products that cuBLASLt lacks, memory outside the
        arena."""
        for text in header.get("annotations", {}).values():
            if text not in self.remarks:
                self.remarks[text] = name
                print(f"\nwarning: {name}: {text}", flush=True)

    def trained(self, name):
        try:
            return any(line.get("line") == "step" for line in self.log_of(name))
        except (FileNotFoundError, ValueError):  # the training ended before its first step
            return False

    def report(self, name):
        """Returns as JSON what `report` says of a training: measured values and the plan's predictions."""
        result = self.program("report", self.out(f"{name}.ndjson"), "--json")
        self.check(result)
        return json.loads(result.stdout)

    def start_training(self, name, steps, *flags):
        words = self.training_words(name, steps, *flags)
        self.forget_log(name)
        with open(self.out(f"{name}.stderr"), "w", encoding="utf-8") as log:
            return self.start(words, stdout=log, stderr=log, env=self.environment)

    def train(self, name, steps, *flags):
        """Trains. Returns the steps and all lines of the log, losses, the plan, seconds spent outside steps, GPU memory
        as the driver counts it, and the number of processors that the hypervisor took."""
        self.forget_log(name)
        with open(self.out(f"{name}.json"), encoding="utf-8") as file:
            plan = json.load(file)
        self.bring(plan["memory"]["host_bytes"] + HOST_MARGIN_BYTES)
        begun, before = time.monotonic(), stolen_s()
        watch = Watch(self.out(f"{name}.ndjson")) if steps > parts.FIRST else None
        result = self.call(self.training_words(name, steps, *flags), watch=watch)
        if result.returncode:
            raise RuntimeError(f"run {name}: {result.stderr.strip()[-1500:]}")
        stolen = None if before is None else round((stolen_s() - before) / (time.monotonic() - begun), 2)
        lines = self.log_of(name)
        self.keep_remarks(name, lines[0])
        done = [line for line in lines if line.get("line") == "step"]
        other_s = time.monotonic() - begun - sum(line["step_us"] for line in done) / 1e6
        return {"steps": done, "losses": [line["loss"] for line in done], "plan": plan, "log": lines, "other_s": other_s,
                "gpu_bytes": watch.grown_bytes if watch else None, "stolen": stolen}

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
                                   "vocabulary": 261})  # odd as GPT-2's is, and larger than bytes need
            shape.path = self.model_of(shape.document, "tiny")
        return shape

    def cap(self, gib):
        return "900MiB" if self.quick else f"{gib}GiB"

    def machine(self, shape):
        """Returns the profile with the measured blocks of the shape, or the general profile of the machine."""
        if self.quick:
            return self.path("machines/rtx4090-64g.json")
        own = self.out(f"machine-{shape.name}-{shape.batch}-{shape.seq}.json")
        if not os.path.exists(own):
            own = self.out("machine.json")
        if not os.path.exists(own):
            self.check(self.program("profile", "--quick", "--device", "cuda:0", "-o", own))
        self.count_host_memory(own)
        return own

    @staticmethod
    def count_host_memory(path):
        """Raises the host memory in the document if the machine has got more since it was measured."""
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        total_bytes = memory.usable_bytes()
        if document["host"]["memory_bytes"] < total_bytes:
            document["host"]["memory_bytes"] = total_bytes
            write_json(path, document)

    def document(self, shape):
        with open(self.machine(shape), encoding="utf-8") as file:
            return json.load(file)

    def measure_blocks(self, shape):
        """Measures blocks for better predictions; plans without them use the machine's general rates. Returns why there
        are none, or None."""
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

    @staticmethod
    def python_environment():
        return python_environment()

    def memory_bytes(self):
        return self.document(self.small())["device"]["memory_bytes"]

    def torch(self, shape):
        """Returns PyTorch's result, `missing` with a reason, or `absent` if it is not installed."""
        if self.quick:
            return {"missing": "--quick leaves PyTorch out"}
        result = self.call(["python3", self.path("gpu/torch_model.py"), shape.path, "--batch", shape.batch, "--seq", shape.seq],
                           environment=python_environment())
        if result.returncode == MISSING:
            return {"absent": last_line(result.stderr)}
        return last_document(result.stdout) or {"missing": f"PyTorch: {last_line(result.stderr)}"}

    def fsdp(self, shape, *flags):
        """Returns the result of PyTorch's FSDP2 with states on the host, the reason for having none, or `absent`."""
        self.bring(DEEPSPEED_STATE_BYTES * shape.parameters() + DEEPSPEED_OTHER_BYTES)
        words = ["--device", "cpu", "--compile", "none", "--steps", 2, "--warmup", 1] if self.quick else []
        result = self.call(["python3", self.path("gpu/fsdp_model.py"), shape.path, "--batch", shape.batch, "--seq", shape.seq,
                            *flags, *words], min(self.seconds_left(), parts.DEEPSPEED_SECONDS), environment=python_environment())
        if result.returncode == MISSING:
            return {"absent": last_line(result.stderr)}
        if result.returncode == deepspeed_model.NO_MEMORY:
            return {"fits": False}
        return last_document(result.stdout) or {"failed": last_line(result.stderr)}

    def carried_packages(self):
        """Returns the folder of the packed Python packages, which are installed on first use; or None."""
        wheels = sorted(glob.glob(self.path("wheels/*.whl")))
        place = self.out("python")
        if wheels and not os.path.exists(place):
            self.check(self.call(["python3", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target",
                                  place + ".new", *wheels], environment=os.environ))
            os.replace(place + ".new", place)
        return place if wheels else None

    def deepspeed(self, shape, *flags):
        """Returns DeepSpeed's result, the reason for having none, or `absent` if it is not installed."""
        packages = [place for place in (self.carried_packages(), os.environ.get("PYTHONPATH")) if place]
        self.bring(DEEPSPEED_STATE_BYTES * shape.parameters() + DEEPSPEED_OTHER_BYTES)
        for lock in glob.glob(self.out("extensions/*/lock")):
            os.remove(lock)  # a compilation that was ended left it; all others would wait for it
        result = self.call(["python3", self.path("gpu/deepspeed_model.py"), shape.path, "--batch", shape.batch, "--seq",
                            shape.seq, *flags], seconds=min(self.seconds_left(), parts.DEEPSPEED_SECONDS),
                           environment={**python_environment(), "PYTHONPATH": os.pathsep.join(packages),
                                        "TORCH_EXTENSIONS_DIR": self.out("extensions")})
        if result.returncode == deepspeed_model.MISSING:
            return {"absent": last_line(result.stderr)}
        if result.returncode == deepspeed_model.NO_MEMORY:
            return {"fits": False}
        return last_document(result.stdout) or {"failed": last_line(result.stderr)}


def gib(n_bytes):
    return f"{n_bytes / 2 ** 30:.1f} GiB"


def python_environment():
    """Adds the folder of python3 to the path, often the only place of ninja, which packages need to compile."""
    found = subprocess.run(["python3", "-c", "import sys; print(sys.executable)"], check=False, text=True, capture_output=True)
    return {**os.environ, "PATH": os.pathsep.join([os.path.dirname(found.stdout.strip()), os.environ.get("PATH", "")])}


def hold_gpus():
    """Opens the GPUs' files: otherwise the driver lets an unused GPU sleep, and waking it takes seconds."""
    held = []
    for path in glob.glob("/dev/nvidia[0-9]*"):
        try:
            held.append(os.open(path, os.O_RDWR))
        except OSError:
            continue
    return held


def last_line(text):
    return (text.strip().splitlines() or ["no output"])[-1]


def last_document(text):
    """Returns the last document that a program printed, even between lines of its libraries; or None."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    return None


def end_with_parent():
    """Runs between fork and exec: makes the kernel end this program when its parent ends, killed or not."""
    ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)


def read_json(path):
    """Returns {} if there is no file, or if an interrupted write left half of it."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (FileNotFoundError, ValueError):
        return {}


def write_json(path, what):
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(what, file, indent=2)
        file.write("\n")
    os.replace(path + ".new", path)


def find_device(bench):
    """Returns the name of cuda:0 or None, and the versions that results depend on. doctor also tries the recorder; if
    only that fails, the device itself may still work."""
    seconds = DOCTOR_ITEMS * bench.item_seconds
    bench.deadline = time.monotonic() + seconds
    result = bench.program("doctor", "--json")
    try:
        checks = {check["what"]: check for check in json.loads(result.stdout)["checks"]}
    except ValueError:
        checks = {}
    cuda = checks.get("device cuda", {"state": "absent", "detail": f"doctor: {last_line(result.stderr)}"})
    found = re.search(r"cuda:0 (.+?), [0-9.]+ [KMGT]iB", cuda["detail"])
    name = found.group(1) if cuda["state"] == "ok" and found else None
    ok, about = smoke.contact(bench, bench.item_seconds, "about")
    if not name:
        print(f"gpu-check: {cuda['detail']}; {cuda.get('fix', 'see autohete doctor')}", file=sys.stderr)
    if not name and not ok:
        print(f"gpu-check: {about['says']}", file=sys.stderr)
    recorder = re.search(r"recorded by ([^;]+)", cuda["detail"])
    module = re.search(r"Kernel Module\s+(?:for \S+\s+)?([0-9.]+)", smoke.read("/proc/driver/nvidia/version"))
    versions = {"driver": module and module.group(1), "library": about.get("library"),
                "recorder": recorder and recorder.group(1)}
    return name or about.get("device"), {what: version for what, version in versions.items() if version}


def show_line(row):
    """Prints a row that says more than a table's column holds."""
    print(f"   {row['item']}: {row['holds']}, {row['seconds']} s {row['says']}".rstrip())
    if row["found"]:
        print(f"      {json.dumps(row['found'])}")
    sys.stdout.flush()


def show_rows(title, rows):
    print(title)
    if rows and "found" in rows[0] and "item" in rows[0]:
        for row in rows:
            show_line(row)
        return
    columns = list(dict.fromkeys(column for row in rows for column in row if column not in LONG))
    cells = [columns] + [[str(row.get(column, "")) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    for line in cells if rows else []:
        print("   " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    sys.stdout.flush()


def show(name, what, result, told=False):
    """Prints a part's result, without the items that were printed as they came."""
    title = f"\n## {name}: {what}: {'ok' if result['ok'] else 'FAILED'}, {result['seconds']} s"
    if result.get("missing"):
        title += f"\n   not done: {result['missing']}"
    show_rows(title, [] if told and all("item" in row for row in result["rows"]) else result["rows"])
    for row in result["rows"]:
        if row.get("output"):
            print(row["output"], file=sys.stderr)


def do_part(bench, function, end):
    begun = time.monotonic()
    bench.deadline = min(begun + PART_SECONDS, end)
    try:
        result = function(bench)
    except Exception as error:  # whatever happens in a part, the others run
        result = {"ok": False, "rows": [], "missing": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
    result["seconds"] = round(time.monotonic() - begun, 1)
    if not result["ok"] and time.monotonic() > end - CUT_SECONDS:
        result["again"] = True  # the end of the run may be the only thing that went wrong
    return result


def about_machine(seconds):
    """Returns facts that results depend on, besides the device's name."""
    words = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,memory.used,clocks.sm,pcie.link.gen.max,"
             "pcie.link.width.max", "--format=csv,noheader"]
    gpu = ""
    if shutil.which(words[0]):
        try:
            gpu = subprocess.run(words, check=False, text=True, capture_output=True, timeout=seconds).stdout.strip()
        except subprocess.TimeoutExpired:
            gpu = f"{words[0]} did not answer"
    return {"gpu": gpu, "kernel": os.uname().release, "host_kib": memory.meminfo()["MemTotal"] >> 10,
            "processors": os.cpu_count()}


def write_archive(bench, path):
    """Writes what another folder of the same packing needs to continue: results, plans, measurements."""
    with tarfile.open(path + ".new", "w:gz") as archive:
        for found in glob.glob(bench.path("results/**/*json"), recursive=True):
            if "saved" not in found:
                archive.add(found, os.path.relpath(found, bench.folder))
    os.replace(path + ".new", path)


def try_to_write(what, path, function, *arguments):
    """Writes a file. If that fails, as on a full disk, the run continues, since results are printed, too."""
    try:
        function(*arguments)
    except OSError as error:
        print(f"gpu-check: {what} '{path}' was not written: {error.strerror}", file=sys.stderr, flush=True)


def write_state(bench, state, options):
    """Writes the results so far, so that an interrupted run keeps them. Returns the path."""
    slug = re.sub(r"[^a-z0-9]+", "-", bench.device.lower()).strip("-")
    output = options.output or bench.path("results", f"{slug}-{datetime.date.today().isoformat()}.json")
    for path in (bench.out("state.json"), output):
        try_to_write("file", path, write_json, path, state)
    return output


def write(bench, state, options):
    """Writes the results, and the archive with which another folder continues."""
    output = write_state(bench, state, options)
    if options.archive:
        try_to_write("archive", options.archive, write_archive, bench, options.archive)
    return output


def to_do(done, name):
    return name not in done or not done[name]["ok"] or bool(done[name].get("again"))


def failed(done, name):
    return name in done and not done[name]["ok"] and not done[name].get("again")


def note_versions(bench, state, versions):
    """If the driver or a library has changed, discards earlier measurements, since plans may no longer be made from
    them."""
    before = state.get("versions", {})
    changed = [f"{what} {before[what]} -> {now}" for what, now in versions.items() if before.get(what, now) != now]
    if changed:
        print(f"changed: {', '.join(changed)}; the profile is measured again", flush=True)
        state.setdefault("changes", []).extend(changed)
        state["parts"].pop("profile", None)
        bench.forget_measurements()
    state["versions"] = {**before, **versions}


def run_part(bench, state, part, options, end):
    """Runs a part; each of its rows is kept as soon as it is known."""
    name, what, _, function = part
    done, shown = state["parts"], []

    def tell(rows):
        done[name] = {"ok": False, "again": True, "rows": rows, "missing": "it was cut off", "seconds": 0}
        write_state(bench, state, options)
        for row in rows[len(shown):]:
            shown.append(row)
            if "item" in row:
                show_line(row)
            else:
                print(f"   {json.dumps({name: value for name, value in row.items() if name != 'output'})}")
        sys.stdout.flush()

    bench.tell = tell
    done[name] = do_part(bench, function, end)
    state.setdefault("host_memory", []).extend(bench.brought)
    bench.brought = []
    state.setdefault("remarks", {}).update(bench.remarks)
    write(bench, state, options)
    show(name, what, done[name], told=bool(shown))


def check_parts(options):
    unknown = set(options.parts) - {name for name, _ in parts.listed()}
    if unknown:
        raise SystemExit(f"gpu-check: there is no part '{sorted(unknown)[0]}'; --list names them")
    unknown = set(options.policies or ()) - set(parts.POLICIES)
    if unknown:
        raise SystemExit(f"gpu-check: there is no policy '{sorted(unknown)[0]}'; there are {', '.join(parts.POLICIES)}")


def begin(bench, options):
    """Returns the state to continue from, and whether there is a device."""
    state = bench.state()
    name, versions = find_device(bench)
    bench.device = name or state.get("device", "no device")
    if name and state.setdefault("device", name) != name:
        raise SystemExit(f"gpu-check: '{bench.path('results')}' is of '{state['device']}', this is '{bench.device}'; move it away")
    state.setdefault("quick", options.quick)
    done = state.setdefault("parts", {})
    state["machine"] = about_machine(min(smoke.SMI_SECONDS, bench.item_seconds))
    note_versions(bench, state, versions)
    print(f"{bench.device}; host memory: {gib(memory.available_bytes())} of {gib(memory.usable_bytes())} available", flush=True)
    for part in (options.parts or list(done)) if options.again else []:
        done.pop(part, None)
        bench.forget(part)
    return state, name is not None


def in_order(done, options):
    """Returns the wanted parts, in the order of the command line, else of the list. Parts that failed before come last,
    so that they take no time from parts that were never tried; a part that was cut off keeps its place."""
    listed = {part[0]: part for part in parts.PARTS}
    wanted = [listed[name] for name in dict.fromkeys(options.parts or listed)]
    return sorted(wanted, key=lambda part: failed(done, part[0]))


def run(folder, options):
    check_parts(options)
    bench = Bench(folder, options.quick, options.item_seconds)
    bench.policies = options.policies or bench.policies
    end = time.monotonic() + 60 * options.minutes
    held = hold_gpus()
    memory.be_ended_first(500)
    state, there = begin(bench, options)
    done = state["parts"]
    if not there:  # the first part says what it can about the machine, which shows the reason
        run_part(bench, state, parts.PARTS[0], options, end)
        return MISSING
    for part in in_order(done, options):
        name, what, least_s, _ = part
        if to_do(done, name) and end - time.monotonic() < least_s:
            print(f"\n## {name}: {what}: no time left")
        elif to_do(done, name):
            run_part(bench, state, part, options, end)
        else:
            show(name, what, done[name])
    state["verdict"] = verdict.rows(done)
    show_rows(f"\n## what must hold{' (--quick: these speeds mean nothing)' if bench.quick else ''}", state["verdict"])
    print(f"\nwritten to {write(bench, state, options)}")
    for file in held:
        os.close(file)
    return 0 if all(result["ok"] for result in done.values()) else FAILED
