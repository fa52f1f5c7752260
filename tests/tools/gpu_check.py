#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Both halves of scripts/gpu-check, on the double of CUDA. A folder is packed, and every part runs and passes there;
finished parts are not repeated; a folder without a plugin says so. Trainings run once more with the code that nvcc
made.

    gpu_check.py --check SCRIPT --build FOLDER --plugins FOLDER [--code FOLDER]
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile


def call(expected, *words, **variables):
    environment = {name: value for name, value in os.environ.items() if name != "AUTOHETE_PLUGIN_DIR"}
    result = subprocess.run(words, check=False, text=True, capture_output=True, env={**environment, **variables})
    if result.returncode != expected:
        sys.exit(f"{' '.join(words)}: exit {result.returncode}, expected {expected}\n{result.stdout}\n{result.stderr}")
    return result


def check_results(folder, listed):
    with open(glob.glob(os.path.join(folder, "results/*.json"))[0], encoding="utf-8") as file:
        results = json.load(file)
    assert results["device"] == "Double of a GPU", results["device"]
    assert list(results["parts"]) == listed, list(results["parts"])
    for name, part in results["parts"].items():
        assert part["ok"], (name, part)
    holds = {row["point"]: row["holds"] for row in results["verdict"]}
    assert holds["operations within tolerance, losses track the CPU's"] == "yes", holds
    assert holds["highest device offset as planned"] == holds["plans bit-identical"] == holds["resume exact"] == "yes", holds
    assert holds["first contact: pins, queues, ops, losses, memcheck"] == "yes", holds
    assert holds["rows of each kernel near double"] == holds["losses of all policies identical at size"] == "yes", holds
    trace = results["parts"]["resident-1.5b-4096"]["rows"][0]["trace"]
    assert os.path.exists(os.path.join(folder, trace)), trace
    for row in results["parts"]["offload-2b"]["rows"][:2]:
        own = os.path.join(folder, os.path.dirname(row["trace"]), os.path.basename(row["trace"]).replace("trace-", "lanes-"))
        with open(own, encoding="utf-8") as file:
            lanes = json.load(file)
        assert row["off"] and list(lanes) == ["predicted", "measured"], row
        assert all(lanes[name]["ops"] and lanes[name]["steps"] == 4 for name in lanes), lanes
    assert len({row["weights"] for row in results["parts"]["identity"]["rows"]}) == 1
    return {name: part["seconds"] for name, part in results["parts"].items()}


def check_peers(folder, place):
    """Checks comparisons without DeepSpeed and PyTorch: they show DeepSpeed's configuration and report what is missing."""
    words = (sys.executable, os.path.join(folder, "gpu/deepspeed_model.py"), os.path.join(folder, "models/gpt-2b.json"),
             "--batch", "8", "--seq", "1024")
    config = json.loads(call(0, *words, "--micro-batch", "2", "--config").stdout)
    assert config["train_batch_size"] == 8 and config["gradient_accumulation_steps"] == 4, config
    assert config["zero_optimization"]["offload_optimizer"]["device"] == "cpu", config
    assert "does not divide" in call(2, *words, "--micro-batch", "3", "--config").stderr
    with open(os.path.join(place, "deepspeed.py"), "w", encoding="utf-8") as file:
        file.write("raise ImportError('none here')\n")
    assert "none here" in call(7, *words, PYTHONPATH=place).stderr
    with open(os.path.join(place, "torch.py"), "w", encoding="utf-8") as file:
        file.write("raise ImportError('no torch either')\n")
    words = (words[0], os.path.join(folder, "gpu/torch_model.py"), *words[2:])
    assert "no torch either" in call(7, *words, PYTHONPATH=place).stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--plugins", required=True)
    parser.add_argument("--code", help="what nvcc made of the kernels, for the double's PTX machine")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = os.path.join(place, "packed")
        call(0, options.check, "--pack", "-o", folder, "--build", options.build, "--plugins", options.plugins)
        check = os.path.join(folder, "gpu-check")
        call(1, options.check, "--pack", "-o", os.path.join(place, "other"), "--build", options.build, "--plugins",
             options.plugins, "--wheels", place)
        check_peers(folder, place)
        listed = [line.split()[0] for line in call(0, check, "--list").stdout.splitlines()]
        assert "no time left" in call(0, check, "--run", "--quick", "--minutes", "1").stdout
        lock = os.path.join(folder, "results/quick/extensions/cpu_adam/lock")
        os.makedirs(os.path.dirname(lock))
        with open(lock, "w", encoding="utf-8"):
            pass
        call(0, check, "--run", "--quick")
        assert not os.path.exists(lock), "the lock of a compilation that was ended would be waited for"
        first = check_results(folder, listed)
        call(0, check, "--run", "--quick")
        assert check_results(folder, listed) == first, "parts were done again"
        kept = os.path.join(folder, "results/quick/kept-offload-gpt-2b.json")
        before = os.path.getmtime(kept)
        call(0, check, "--run", "--quick", "--again", "offload-2b")
        again = [name for name in listed if name != "offload-2b"] + ["offload-2b"]
        second = check_results(folder, again)
        assert before < os.path.getmtime(kept), "what a part kept was not measured again"
        assert {**second, "offload-2b": 0} == {**first, "offload-2b": 0}, "other parts were done again, or forgotten"
        if options.code:
            counts = os.path.join(place, "counts")
            call(0, check, "--run", "--quick", "--again", "identity", "resume",
                 AUTOHETE_CUDA_DOUBLE=f"code={options.code},counts={counts}")
            with open(counts, encoding="utf-8") as file:
                assert "attend" in file.read(), "nvcc's code did not run"
            check_results(folder, [part for part in again if part not in ("identity", "resume")] + ["identity", "resume"])
        call(1, check, "--run", "--quick", "nonsense")
        for path in glob.glob(os.path.join(folder, "lib/autohete/libautohete_cuda.so")):
            os.remove(path)
        assert "libautohete_cuda.so" in call(7, check, "--run", "--quick").stderr
    return 0


sys.exit(main())
