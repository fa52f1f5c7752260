# SPDX-License-Identifier: Apache-2.0
"""Packed examples, from docs/data.md: a model's smallest tokenizer, examples of many lengths as lines of JSON, and the
token files that they are packed into. No library, and no line of the product.

A letter is a token, as are the names of roles and the special tokens, so that encode() needs none of the rules of
byte-pair encoding: no text of make_examples() has two letters that a merge joins.
"""
import json
import os
import re
import shutil
import struct

import oracle_files as files

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
ROLES = ["user", "assistant"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
TEXT = "bcdfghjklmpqvwxz "  # no letter of these begins a role
EXAMPLES, TEMPLATE, DATA = "examples.jsonl", "chat_template.jinja", "train-00000.bin"
CHATML = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "chat", "chatml.jinja")


def pieces():
    """Returns the pieces in the order of their ids: a line break is written as U+010A, a space as U+0120."""
    return [*SPECIAL, "\u010a", "\u0120", *LETTERS, *(role[:n] for role in ROLES for n in range(2, len(role) + 1))]


def write_tokenizer(folder):
    added = [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, text in enumerate(SPECIAL)]
    files.write_json(os.path.join(folder, "tokenizer.json"), {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None, "decoder": None,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {piece: i for i, piece in enumerate(pieces())},
                  "merges": [f"{role[:n]} {role[n]}" for role in ROLES for n in range(1, len(role))]}})
    shutil.copyfile(CHATML, os.path.join(folder, TEMPLATE))


def encode(text):
    ids = {piece.replace("\u010a", "\n").replace("\u0120", " "): i for i, piece in enumerate(pieces())}
    return [ids[piece] for piece in re.findall("|".join(map(re.escape, SPECIAL + ROLES)) + "|[a-z \n]", text)]


def parts_of(example):
    """Yields the parts of an example's text, and whether each bears loss: of a chat, what the assistant says and the
    end of its turn; else the completion and the end of the document."""
    if "messages" not in example:
        yield example["prompt"], False
        yield example["completion"] + SPECIAL[0], True
    for message in example.get("messages", ()):
        yield f"<|im_start|>{message['role']}\n", False
        yield f"{message['content']}<|im_end|>\n", message["role"] == "assistant"


def read_examples(path):
    """Returns (tokens, which bear loss) of each example."""
    examples = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            parts = [(encode(text), bears) for text, bears in parts_of(json.loads(line))]
            examples.append(([token for ids, _ in parts for token in ids],
                             [int(bears) for ids, bears in parts for _ in ids]))
    return examples


def cut(examples, seq):
    """Cuts each example to a sequence; leaves out those of which nothing is learned then."""
    return [(ids[:seq], bears[:seq]) for ids, bears in examples if len(ids) <= seq or any(bears[1:seq])]


def make_examples(rng, seq, short):
    """Makes examples that are exactly as long as a sequence, longer with and without something learned left, and
    `short` shorter ones; in any order."""
    def text(n):
        at = [rng.randrange(len(TEXT))]
        while len(at) < n:
            at.append((at[-1] * 5 + 3) % len(TEXT) if rng.getrandbits(2) else rng.randrange(len(TEXT)))
        return "".join(TEXT[i] for i in at)

    def chat(*sizes):
        return {"messages": [{"role": ROLES[i % 2], "content": text(n)} for i, n in enumerate(sizes)]}

    def pair(prompt, completion):
        return {"prompt": text(prompt), "completion": text(completion)}

    made = [chat(seq // 4, seq - 10 - seq // 4), pair(seq // 2, seq - seq // 2 - 1),  # exactly as long
            chat(seq // 3, seq), pair(3, seq), pair(seq - 1, 5),                      # cut; the last one to one token
            pair(seq, 4), pair(seq + 2, 3), chat(seq, 2)]                             # dropped
    kinds = (lambda: pair(1, 1), lambda: pair(rng.randrange(1, 9), rng.randrange(1, 9)),
             lambda: chat(rng.randrange(1, 6), rng.randrange(1, 8)), lambda: chat(1, 2, 2, 3))
    made += [kinds[i % len(kinds)]() for i in range(short)]
    rng.shuffle(made)
    return made


def write_examples(path, made):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(example) + "\n" for example in made)


def pack(examples, seq):
    """Packs examples, none longer than `seq`: each goes into the fullest open sequence with room for it, and of equally
    full ones into the one that was changed last. Full sequences are closed at once, the others at the end, the fullest
    first. Returns lists of examples."""
    def size(sequence):
        return sum(len(ids) for ids, _ in sequence)
    open_ones, closed = [], []  # the one that was changed last is the first
    for example in examples:
        fits = [sequence for sequence in open_ones if size(sequence) + len(example[0]) <= seq]
        chosen = max(fits, key=size) if fits else []
        open_ones = [sequence for sequence in open_ones if sequence is not chosen]
        chosen.append(example)
        if size(chosen) == seq:
            closed.append(chosen)
        else:
            open_ones.insert(0, chosen)
    return closed + sorted(open_ones, key=size, reverse=True)


def write_packed(folder, packed, seq):
    """Writes token files with header, mask and documents; the rest of a sequence is padding without loss."""
    tokens, mask, docs = [], [], []
    for sequence in packed:
        end = len(tokens) + seq
        for ids, bears in sequence:
            docs.append(len(tokens))
            tokens += ids
            mask += bears
        mask += [0] * (end - len(tokens))
        tokens += [0] * (end - len(tokens))
    path = os.path.join(folder, DATA)
    with open(path, "wb") as file:
        file.write(struct.pack("<8sIIQQQ24x", files.MAGIC, 1, 2, len(tokens), len(pieces()), seq))
        file.write(files.array.array("H", tokens).tobytes())
    files.write_numbers(path + ".mask", "B", mask)
    files.write_numbers(path + ".docs", "Q", docs)


def make_packed(rng, folder, training, short):
    """Makes data of which a batch is all: so what a step computes does not depend on how they were packed."""
    seq = training["seq"]
    made = make_examples(rng, seq, short)
    write_tokenizer(folder)
    write_examples(os.path.join(folder, EXAMPLES), made)
    packed = pack(cut(read_examples(os.path.join(folder, EXAMPLES)), seq), seq)
    assert len(packed) == training["batch"] and any(len(sequence) > 2 for sequence in packed), len(packed)
    write_packed(folder, packed, seq)
    training["data"], training["examples"] = DATA, EXAMPLES
