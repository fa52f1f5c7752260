# SPDX-License-Identifier: Apache-2.0
"""The folder that gpu-check --pack writes.

    gpu-check, gpu/      this program
    bin/                 autohete, programs that ask the device, and TEST_PROGRAM, which tests it; they find its libraries in ../lib (DT_RPATH) and the plugin in ../lib/autohete
    lib/                 what the program needs beside the C library
    lib/autohete/        the plugin
    tests/               files that tests of the device read
    models/, machines/, text.txt
    wheels/              Python packages, if any were given
"""
import glob
import os
import shutil
import subprocess
import sys

MOST_BYTES = 48 << 20  # it may have to be transferred together with the sources, in 64 MiB
# Part of the C library, or available only on the machine that has it.
LEFT_OUT = ("linux-vdso.", "ld-linux", "libc.so.", "libm.so.", "libdl.so.", "librt.so.", "libpthread.so.", "libgcc_s.so.")
# The program that tests a device needs only a plugin in AUTOHETE_PLUGIN_DIR. Its modules, most informative first.
TEST_PROGRAM = "device.device_cuda"
TESTS = ("ops", "matmul", "attention", "gradients", "norm", "rope", "activation", "embed", "cross_entropy", "sums", "adamw",
         "lanes", "trainer", "recording")
MODELS = ("tiny", "gpt2-1.5b", "llama-2-7b", "gpt-2b", "gpt-4b", "gpt-6b")
MACHINES = ("rtx4090-64g",)
PROGRAMS = ("bench_contact", "bench_kernels", "bench_beside", "bench_nccl")  # they query the device through its interface
# DT_RPATH, not DT_RUNPATH, as it also applies to the dependencies of libraries.
RPATH = ("-DCMAKE_BUILD_RPATH=$ORIGIN/../lib", "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags")


def build(root, folder):
    subprocess.run(["cmake", "-G", "Ninja", "-S", root, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DAUTOHETE_TESTS=ON",
                    "-DAUTOHETE_BENCH=ON", "-DAUTOHETE_CUDA=ON", *RPATH], check=True, stdout=sys.stderr)
    targets = ["autohete", "autohete_cuda", *PROGRAMS, TEST_PROGRAM]
    subprocess.run(["cmake", "--build", folder, "--target", *targets], check=True, stdout=sys.stderr)


def needed(path):
    """Returns the libraries of a program that do not belong to the C library: name -> path."""
    found = {}
    for line in subprocess.run(["ldd", path], check=True, text=True, capture_output=True).stdout.splitlines():
        words = line.split()
        if "=>" in words and not words[0].startswith(LEFT_OUT):
            if words[2] == "not":
                raise SystemExit(f"gpu-check: '{path}' needs '{words[0]}', which is not installed")
            found[words[0]] = words[2]
    return found


def copy(source, target):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy2(source, target)


def copy_programs(build_folder, folder):
    programs = [(os.path.join(build_folder, "cli/autohete"), "bin/autohete")]
    programs += [(os.path.join(build_folder, "bench", name), f"bin/{name}") for name in PROGRAMS]
    programs += [(os.path.join(build_folder, "tests", TEST_PROGRAM), f"bin/{TEST_PROGRAM}")]
    libraries = {}
    for source, target in programs:
        if not os.path.exists(source):
            raise SystemExit(f"gpu-check: there is no '{source}'; build it, or leave out --build")
        copy(source, os.path.join(folder, target))
        subprocess.run(["strip", "--strip-debug", os.path.join(folder, target)], check=True)
        libraries.update(needed(source))
    for name, path in libraries.items():
        copy(path, os.path.join(folder, "lib", name))


def copy_plugins(source, folder):
    for path in sorted(glob.glob(os.path.join(source, "*.so*"))):
        copy(path, os.path.join(folder, "lib/autohete", os.path.basename(path)))
    if not os.path.exists(os.path.join(folder, "lib/autohete/libautohete_cuda.so")):
        raise SystemExit(f"gpu-check: there is no 'libautohete_cuda.so' in '{source}'; nvcc builds it")


def copy_files(root, folder):
    copy(os.path.join(root, "scripts/gpu-check"), os.path.join(folder, "gpu-check"))
    for path in glob.glob(os.path.join(root, "bench/gpu/*.py")):
        copy(path, os.path.join(folder, "gpu", os.path.basename(path)))
    for name in MODELS:
        copy(os.path.join(root, f"examples/models/{name}.json"), os.path.join(folder, f"models/{name}.json"))
    for name in MACHINES:
        copy(os.path.join(root, f"examples/machines/{name}.json"), os.path.join(folder, f"machines/{name}.json"))
    shutil.copytree(os.path.join(root, "tests/golden/train"), os.path.join(folder, "tests/golden/train"),
                    ignore=shutil.ignore_patterns("*.c", "*.h", "*.py", "__pycache__"))


def copy_wheels(source, folder):
    """Copies Python packages for the comparison with DeepSpeed, which are installed on the other machine without a
    network."""
    wheels = sorted(glob.glob(os.path.join(source, "*.whl")))
    if not wheels:
        raise SystemExit(f"gpu-check: there is no wheel in '{source}'; 'python3 -m pip wheel --no-deps deepspeed' makes one")
    for path in wheels:
        copy(path, os.path.join(folder, "wheels", os.path.basename(path)))


def write_text(root, path):
    with open(path, "wb") as to:
        for room in ("base", "schemas", "runtime", "profiler", "planner", "cli", "docs"):
            for source in sorted(glob.glob(os.path.join(root, room, "**/*.[chm]*"), recursive=True)):
                with open(source, "rb") as file:
                    to.write(file.read())


def size_of(folder):
    return sum(os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(folder) for name in names)


def pack(root, options):
    root = os.path.realpath(root)
    folder = os.path.abspath(options.output or os.path.join(root, "build/gpu-check"))
    build_folder = options.build or os.path.join(root, "build/gpu")
    if os.path.exists(folder) and not os.path.exists(os.path.join(folder, "gpu-check")):
        raise SystemExit(f"gpu-check: '{folder}' is there and is no packed folder; name another with -o")
    shutil.rmtree(folder, ignore_errors=True)
    if not options.build:
        build(root, build_folder)
    copy_programs(build_folder, folder)
    copy_plugins(options.plugins or os.path.join(build_folder, "runtime/device/cuda"), folder)
    copy_files(root, folder)
    if options.wheels:
        copy_wheels(options.wheels, folder)
    write_text(root, os.path.join(folder, "text.txt"))
    size = size_of(folder)
    if size > MOST_BYTES:
        raise SystemExit(f"gpu-check: '{folder}' is {size >> 20} MiB, more than the {MOST_BYTES >> 20} MiB that travel")
    print(f"{folder}: {size / (1 << 20):.1f} MiB; there: gpu-check --run")
    return 0
