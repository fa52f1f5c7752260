#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`autohete tokenize --align` packs examples, and what is learned of them is what each would teach alone.

    packed_oracle.py --program AUTOHETE           the packed golden cases have the bytes of its files; in these and those
                                                  of random examples, every token with loss follows its whole prompt
    packed_oracle.py --program AUTOHETE --alone   loss and gradients of random examples that it packed, in float64, are
                                                  those of each example alone, without padding, with positions from 0.
                                                  Exit 77 without torch; AH_TRANSFORMERS may name a Python that has it

The models are those of tests/tools/oracle.py. --seed and --cases: random examples.
"""
import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile

import oracle
import oracle_cases
import oracle_files as files
import oracle_packed as packed
from scale import scaled

CASES = [name for name, case in oracle_cases.CASES.items() if "packed" in case["data"]]


def tokenize(program, case, path, seq, out):
    """Packs the examples with the tokenizer and the chat template of the case. Returns what it says."""
    done = subprocess.run([program, "tokenize", path, "--model", case, "--align", str(seq), "-o", out],
                          capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_packed(folder):
    """Returns tokens, mask, documents and sequence length of the files."""
    path = os.path.join(folder, packed.DATA)
    tokens, seq = files.read_aligned(path)
    mask, docs = (files.read_numbers(path + ending, code) for ending, code in ((".mask", "B"), (".docs", "Q")))
    assert len(mask) == len(tokens)
    return tokens, mask, docs, seq


def check_documents(folder, path):
    """Each example is there once, cut to a sequence, in one sequence, with its mask; the rest bears no loss. So each
    token that bears loss has its prompt before it."""
    tokens, mask, docs, seq = read_packed(folder)
    wanted = sorted((tuple(ids), tuple(bears)) for ids, bears in packed.cut(packed.read_examples(path), seq))
    found = []
    for begin, end in zip(docs, [*docs[1:], len(tokens)]):
        assert begin // seq == (end - 1) // seq, f"the document at {begin} is in two sequences"
        last = max((at + 1 for at in range(begin + 1, end) if mask[at]), default=begin)
        assert any(ids[:last - begin] == tuple(tokens[begin:last]) for ids, _ in wanted), \
            f"tokens with loss in {begin} to {last} do not follow the prompt of an example"
        while not tokens[end - 1] and not mask[end - 1]:  # padding
            end -= 1
        found.append((tuple(tokens[begin:end]), tuple(mask[begin:end])))
    assert sorted(found) == wanted, "the documents are not the examples"


def check_golden(program, name, out):
    """The case has the files that the program makes of its examples."""
    case = oracle.folder_of(name)
    seq, path = files.read_json(os.path.join(case, "training.json"))["seq"], os.path.join(case, packed.EXAMPLES)
    said = tokenize(program, case, path, seq, out)
    assert " 3 longer examples cut, 3 dropped" in said, said
    made = sorted(os.listdir(out))
    assert made == [packed.DATA, packed.DATA + ".docs", packed.DATA + ".mask"], made
    for file in made:
        with open(os.path.join(out, file), "rb") as ours, open(os.path.join(case, file), "rb") as golden:
            assert ours.read() == golden.read(), f"{name}/{file} is not what 'tokenize' makes"
    check_documents(out, path)
    print(f"{name}: equal files", flush=True)


def check_random(program, name, rng, folder, alone):
    """Packs random examples for the model of a case."""
    case, seq = oracle.folder_of(name), rng.randrange(24, 48)
    shutil.copytree(case, folder, ignore=shutil.ignore_patterns(f"{packed.DATA}*"))
    path = os.path.join(folder, packed.EXAMPLES)
    packed.write_examples(path, packed.make_examples(rng, seq, rng.randrange(0, 40)))
    tokenize(program, case, path, seq, os.path.join(folder, "made"))
    check_documents(os.path.join(folder, "made"), path)
    if not alone:
        return 0.0
    for file in os.listdir(os.path.join(folder, "made")):
        os.rename(os.path.join(folder, "made", file), os.path.join(folder, file))
    training = files.read_json(os.path.join(folder, "training.json"))
    files.write_json(os.path.join(folder, "training.json"), {**training, "seq": seq})
    difference = oracle.apart_from_alone(folder)
    assert difference <= oracle.ALONE, f"{name}, sequences of {seq}: {difference:.1e} from single examples"
    docs = os.path.join(folder, packed.DATA + ".docs")
    places = files.read_numbers(docs, "Q")
    inside = [at for at in places if at % seq]
    if inside:
        places.remove(rng.choice(inside))
        files.write_numbers(docs, "Q", places)
        assert oracle.apart_from_alone(folder) > 1e-4, f"{name}: a lost document changes nothing"
    return difference


def find_torch():
    """Imports torch, or runs this script again in the Python that AH_TRANSFORMERS names."""
    try:
        import torch
        torch.set_num_threads(1)
        return True
    except ImportError:
        pass
    other = os.environ.pop("AH_TRANSFORMERS", None)
    if other:
        os.execv(other, [other, *sys.argv])
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=os.path.abspath)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--cases", type=int, default=scaled(100))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("AH_TEST_SEED", "1")))
    options = parser.parse_args()
    if options.alone and not find_torch():
        print("torch is not installed; AH_TRANSFORMERS may name a Python that has it")
        return 77
    print(f"AH_TEST_SEED={options.seed}")
    rng, worst = random.Random(options.seed), 0.0
    with tempfile.TemporaryDirectory() as folder:
        for name in CASES if not options.alone else ():
            check_golden(options.program, name, os.path.join(folder, name))
        for case in range(options.cases):
            worst = max(worst, check_random(options.program, CASES[case % len(CASES)], rng,
                                            os.path.join(folder, str(case)), options.alone))
    print(f"{options.cases} sets of random examples", f"at most {worst:.1e} from single ones" if options.alone else "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
