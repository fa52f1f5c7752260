#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The archive and the wheel that scripts/release makes from a build folder: their contents, that they run after unpacking
or pip, that the same inputs give the same bytes, and what is refused.

    release.py --release SCRIPT --build FOLDER [--plugin]
"""
import argparse
import base64
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile

DATED = 1600000000  # date of the archive's files
FILES = ("bin/autohete", "share/man/man1/autohete.1", "share/man/man1/autohete-tokenize.1",
         "share/bash-completion/completions/autohete",
         "share/zsh/site-functions/_autohete", "share/fish/vendor_completions.d/autohete.fish",
         "share/autohete/schemas/plan.schema.json", "share/autohete/examples/models/tiny.json",
         "share/autohete/examples/plans/tiny.json", "share/doc/autohete/LICENSE", "share/doc/autohete/docs/planning.md")


def call(expected, *words, **variables):
    environment = {name: value for name, value in os.environ.items() if name != "AUTOHETE_PLUGIN_DIR"}
    result = subprocess.run(words, check=False, text=True, capture_output=True, env={**environment, **variables})
    if result.returncode != expected:
        sys.exit(f"{' '.join(words)}: exit {result.returncode}, expected {expected}\n{result.stdout}\n{result.stderr}")
    return result


def needed(path):
    names = re.findall(r"\(NEEDED\).*\[(.*)\]", call(0, "readelf", "-dW", path).stdout)
    return {name for name in names if not re.match(r"lib(c|m|dl|rt|pthread)\.so|ld-linux", name)}


def package(options, place, mask):
    """Returns the archive's path and digest, made under another mask of file modes."""
    os.umask(mask)
    said = call(0, options.release, "-o", place, "--build", options.build, "--wheel", SOURCE_DATE_EPOCH=str(DATED)).stdout
    archive, wheel = (line.split(":")[0] for line in said.splitlines())
    with open(archive, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    with open(archive + ".sha256", encoding="utf-8") as file:
        assert file.read() == f"{digest}  {os.path.basename(archive)}\n"
    return archive, digest, wheel


def check_members(archive, top):
    with tarfile.open(archive) as file:
        members = file.getmembers()
    assert [member.name for member in members] == sorted(member.name for member in members)
    for member in members:
        assert member.name.startswith(top + "/") and member.isfile(), member.name
        assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", ""), member.name
        runs = member.name.startswith(f"{top}/bin/")
        assert not runs or member.mode == 0o755, member.name
        assert "__pycache__" not in member.name and ".git" not in member.name
    assert {member.mtime for member in members} == {DATED}


def check_unpacked(folder, with_plugin):
    for name in FILES:
        assert os.path.isfile(os.path.join(folder, name)), name
    program = os.path.join(folder, "bin/autohete")
    missing = needed(program) - set(os.listdir(os.path.join(folder, "lib")))
    assert not missing, missing
    plugin = os.path.join(folder, "lib/autohete/libautohete_cuda.so")
    assert os.path.isfile(plugin) == with_plugin, plugin
    assert call(0, program, "--version").stdout.startswith("autohete ")
    call(0, program, "check", os.path.join(folder, "share/autohete/examples/models/tiny.json"))
    found = call(0, program, "doctor").stdout
    assert (f"there is no plugin '{os.path.realpath(folder)}" in found) != with_plugin, found


# What a user of the module does first; `machine` and `root` are given.
USES = """
import json, os, sys
import autohete
machine, root = sys.argv[1:]
plan = autohete.plan(f"{root}/examples/models/tiny.json", machine=machine, batch=2, seq=32, effort="quick", output="p.json")
assert plan["kind"] == "plan" and plan["tokens_per_s"] > 0, plan
steps = []
with open("text.txt", "w") as file:
    file.write("one two three " * 400)
ends = autohete.run("p.json", data="text.txt", steps=3, save="out", log="run.ndjson", force=True, on_step=steps.append)
assert [step["step"] for step in steps] == [1, 2, 3] and ends[-1]["line"] == "end", (steps, ends)
assert autohete.report("run.ndjson")["measured"]["step_us"] > 0
assert autohete.call("check", ["p.json"][0])
try:
    autohete.run("p.json", data=["text.txt", "none.txt"], steps=3, no_save=True)
    assert False
except autohete.Error as error:
    assert error.code == "io" and error.exit_status == 1 and "none.txt" in str(error), (error.code, str(error))
try:
    autohete.plan(f"{root}/examples/models/tiny.json", machine=machine, batch=0)
    assert False
except autohete.Error as error:
    assert error.exit_status == 2, error.exit_status
def stop(step):
    raise KeyboardInterrupt
try:
    autohete.run("p.json", data="text.txt", steps=100000, no_save=True, on_step=stop)
    assert False
except KeyboardInterrupt:
    pass
"""


def check_record(wheel):
    """Every file has the digest that RECORD says."""
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        record = file.read(next(name for name in names if name.endswith("/RECORD"))).decode()
        for line in record.splitlines():
            name, digest, size = line.rsplit(",", 2)
            data = file.read(name)
            found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert name.endswith("/RECORD") or (digest, size) == (f"sha256={found}", str(len(data))), name
        assert sorted(line.rsplit(",", 2)[0] for line in record.splitlines()) == sorted(names)
        assert any(name.startswith("autohete/package/share/doc/autohete/licenses/libglpk") for name in names), names


def check_wheel(wheel, place, root):
    """Installed by pip into a new environment without a network, or unpacked where there is no pip, it plans and trains."""
    assert re.fullmatch(r"autohete-\d+\.\d+\.\d+-py3-none-manylinux_2_\d+_\w+\.whl", os.path.basename(wheel)), wheel
    check_record(wheel)
    python, variables = os.path.join(place, "bin/python"), {}
    if subprocess.run((sys.executable, "-m", "venv", place), check=False, capture_output=True).returncode == 0:
        call(0, python, "-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check", wheel)
        assert call(0, os.path.join(place, "bin/autohete"), "--version").stdout.startswith("autohete ")
    else:
        with zipfile.ZipFile(wheel) as file:
            file.extractall(place)
        os.chmod(os.path.join(place, "autohete/package/bin/autohete"), 0o755)
        python, variables = sys.executable, {"PYTHONPATH": place}
    assert call(0, python, "-m", "autohete", "--version", **variables).stdout.startswith("autohete ")
    work = os.path.join(place, "work")
    os.mkdir(work)
    uses = subprocess.run((python, "-c", USES, os.path.join(root, "tests/cli/documents/machine-cpu.json"), root), cwd=work,
                          check=False, text=True, capture_output=True, env={**os.environ, **variables})
    assert uses.returncode == 0, uses.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--release", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--plugin", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        archive, digest, wheel = package(options, os.path.join(place, "first"), 0o022)
        top = os.path.basename(archive).removesuffix(".tar.gz")
        assert re.fullmatch(r"autohete-\d+\.\d+\.\d+-linux-\w+", top), top
        again, other, wheel_again = package(options, os.path.join(place, "second"), 0o077)
        assert digest == other, f"{archive} and {again} differ"
        check_members(archive, top)
        with open(wheel, "rb") as first, open(wheel_again, "rb") as second:
            assert first.read() == second.read(), f"{wheel} and {wheel_again} differ"
        check_wheel(wheel, os.path.join(place, "environment"), os.path.dirname(os.path.dirname(options.release)))
        unpacked = os.path.join(place, "unpacked")
        os.mkdir(unpacked)
        with tarfile.open(archive) as file:
            file.extractall(unpacked)
        check_unpacked(os.path.join(unpacked, top), options.plugin)
        assert "--build" in call(1, options.release, "-o", place, "--build", place).stderr
        call(2, options.release, "-o", place, "--build", place, "--architectures", "80")
    return 0


sys.exit(main())
