#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The archive that scripts/release makes from a build folder: its contents, that it runs after unpacking, that the same
inputs give the same bytes, and what is refused.

    release.py --release SCRIPT --build FOLDER [--plugin]
"""
import argparse
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile

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
    said = call(0, options.release, "-o", place, "--build", options.build, SOURCE_DATE_EPOCH=str(DATED)).stdout
    archive = said.split(":")[0]
    with open(archive, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    with open(archive + ".sha256", encoding="utf-8") as file:
        assert file.read() == f"{digest}  {os.path.basename(archive)}\n"
    return archive, digest


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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--release", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--plugin", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        archive, digest = package(options, os.path.join(place, "first"), 0o022)
        top = os.path.basename(archive).removesuffix(".tar.gz")
        assert re.fullmatch(r"autohete-\d+\.\d+\.\d+-linux-\w+", top), top
        again, other = package(options, os.path.join(place, "second"), 0o077)
        assert digest == other, f"{archive} and {again} differ"
        check_members(archive, top)
        unpacked = os.path.join(place, "unpacked")
        os.mkdir(unpacked)
        with tarfile.open(archive) as file:
            file.extractall(unpacked)
        check_unpacked(os.path.join(unpacked, top), options.plugin)
        assert "--build" in call(1, options.release, "-o", place, "--build", place).stderr
        call(2, options.release, "-o", place, "--build", place, "--architectures", "80")
    return 0


sys.exit(main())
