#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes and checks the golden cases of tokenizers: ids of the tokenizers library for the structure of each family.

    oracle_tokenizers.py --write                        makes tests/golden/tokenizers again
    oracle_tokenizers.py --program autohete [SEED [N]]  compares 'autohete tokenize' on N random texts (default 3000)

In an environment with the Python package tokenizers; no part of the tests. The vocabularies are trained here on texts of
this project and on words of many scripts, with the steps of the real files:

    gpt2        ByteLevel with its own pattern             gpt2-space   the same, with a space before the text
    llama3      Split, ByteLevel, ignore_merges            qwen2        NFC, Split, ByteLevel; tokens that strip and stand alone
    llama2      Prepend and Replace, byte fallback         mistral      Metaspace before the first text only, not split
    metaspace   Metaspace always, split; unknown tokens not fused

A golden case has the tokenizer.json and cases.txt: a line of hexadecimal UTF-8, a space, and the ids, separated by commas.
Last run: tokenizers 0.23.3; 20,000 random texts of each structure and 4 MB of mixed text had the library's ids.
"""
import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
GOLDEN = os.path.join(ROOT, "tests", "golden", "tokenizers")
PAGES = ("planning", "clusters", "running", "weights", "glossary")
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
REST = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
WORDS = ["Grüße", "naïve", "Ελληνικά", "привет", "こんにちは", "世界", "안녕하세요", "مرحبا", "שלום", "नमस्ते", "ภาษาไทย", "🙂",
         "👩‍👩‍👧‍👦", "🇩🇪", "e\u0301", "\u212b", "ﬁ", "½", "x²", "①", "\u00a0", "\u2003", "\u3000", "\u200b", "\u200d",
         "\u180e", "\ufeff", "ﷺ", "𝔘𝔫𝔦", "١٢٣", "Ⅷ", "İ", "ſ", "'s", "'LL", "'Re", "can't", "WE'VE", "1234567", "3.14159",
         "\r\n", "\n\n", "\t\t", "   ", "    \n  x", "<|endoftext|>", "<s>", "</s>", "<|im_start|>", "▁", "_", "foo_bar",
         "#$%&", "=>", "…", "—", "\x07", "\x7f", "\u0085", "\u2028", "\u2029", "\u0000"]
RANGES = ((32, 126), (0xA0, 0x24F), (0x370, 0x3FF), (0x4E00, 0x4EFF), (0x300, 0x36F), (0xAC00, 0xAC80), (0x1100, 0x11FF))


def page(name):
    with open(os.path.join(ROOT, "docs", f"{name}.md"), encoding="utf-8") as file:
        return file.read()


def any_character(rng):
    """One that was there when the oldest table was made: newer ones differ between versions of Unicode."""
    code = rng.randint(1, 0x10FFFF)
    return "A" if 0xD800 <= code <= 0xDFFF or unicodedata.category(chr(code)) == "Cn" else chr(code)


def random_text(rng):
    out = []
    for _ in range(rng.randint(0, 12)):
        kind = rng.random()
        if kind < 0.5:
            out.append(rng.choice(WORDS))
        elif kind < 0.7:
            out.append(rng.choice([" ", "  ", "\n", " \n", "\t"]))
        elif kind < 0.8:
            out += [chr(rng.randint(*rng.choice(RANGES))) for _ in range(rng.randint(1, 6))]
        elif kind < 0.9:
            out.append(any_character(rng))
        else:
            out.append(rng.choice(["Hello", "the", "model", "int main(void)", "for", "2024-11-28"]))
    return "".join(out)


def corpus(rng):
    texts = [page(name) for name in PAGES] + [" ".join(rng.choice(WORDS) for _ in range(30)) for _ in range(300)]
    return [text.replace("\0", "") for text in texts]


def on_bytes(texts, size, pre, **settings):
    tokenizer = Tokenizer(models.BPE(ignore_merges=settings.get("ignore_merges", False)))
    tokenizer.pre_tokenizer = pre
    if "normalizer" in settings:
        tokenizer.normalizer = settings["normalizer"]
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<|endoftext|>", "<|im_start|>"], show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def with_fallback(texts, size, normalizer=None, pre=None, fuse=True):
    pieces = Tokenizer(models.BPE(unk_token="<unk>"))
    pieces.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    pieces.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, limit_alphabet=200, show_progress=False))
    model = json.loads(pieces.to_str())["model"]
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2, **{f"<0x{byte:02X}>": 3 + byte for byte in range(256)}}
    for piece in sorted(model["vocab"], key=model["vocab"].get):
        vocabulary.setdefault(piece, len(vocabulary))
    merges = [tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in model["merges"]]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=fuse, byte_fallback=True))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre:
        tokenizer.pre_tokenizer = pre
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in ("<s>", "</s>")])
    return tokenizer


def split_on(digits):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CONTRACTIONS + digits + REST), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def tokenizers_of(rng, size):
    texts = corpus(rng)
    made = {
        "gpt2": on_bytes(texts, size, pre_tokenizers.ByteLevel(add_prefix_space=False)),
        "gpt2-space": on_bytes(texts, size, pre_tokenizers.ByteLevel(add_prefix_space=True)),
        "llama3": on_bytes(texts, size, split_on("\\p{N}{1,3}"), ignore_merges=True),
        "qwen2": on_bytes(texts, size, split_on("\\p{N}"), normalizer=normalizers.NFC()),
        "llama2": with_fallback(texts, size, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])),
        "mistral": with_fallback(texts, size, None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False)),
        "metaspace": with_fallback(texts, size, None, pre_tokenizers.Metaspace(prepend_scheme="always", split=True), False),
    }
    made["qwen2"].add_tokens([AddedToken("foo_bar", single_word=True, lstrip=True), AddedToken("\u212b", normalized=True),
                              AddedToken("世界", rstrip=True, normalized=True)])
    return made


def write():
    rng = random.Random(20261128)
    texts = [random_text(rng) for _ in range(150)] + [page("glossary")[:1500]]
    for name, tokenizer in tokenizers_of(rng, 700).items():
        os.makedirs(os.path.join(GOLDEN, name), exist_ok=True)
        tokenizer.save(os.path.join(GOLDEN, name, "tokenizer.json"), pretty=False)
        with open(os.path.join(GOLDEN, name, "cases.txt"), "w", encoding="ascii") as file:
            for text in texts:
                ids = tokenizer.encode(text, add_special_tokens=False).ids
                file.write(f"{text.encode().hex() or '-'} {','.join(map(str, ids)) or '-'}\n")


def ids_of(program, folder, texts):
    """What 'tokenize' makes of each text: a document each, without an end."""
    with open(os.path.join(folder, "in.jsonl"), "w", encoding="utf-8") as file:
        for text in texts:
            file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
    subprocess.run([program, "tokenize", os.path.join(folder, "in.jsonl"), "--model", os.path.join(folder, "tokenizer.json"),
                    "-o", os.path.join(folder, "data"), "--end", "none", "-q"], check=True)
    with open(os.path.join(folder, "data", "train-00000.bin"), "rb") as file:
        data = file.read()
    with open(os.path.join(folder, "data", "train-00000.bin.docs"), "rb") as file:
        starts = [start for start, in struct.iter_unpack("<Q", file.read())]
    ids = [token for token, in struct.iter_unpack("<H", data[64:])]
    return [ids[begin:end] for begin, end in zip(starts, starts[1:] + [len(ids)])]


def check(program, seed, n):
    rng, wrong = random.Random(seed), 0
    for name, tokenizer in tokenizers_of(rng, 2000).items():
        texts = [text.replace("\0", "") for text in [page(name) for name in PAGES] + [random_text(rng) for _ in range(n)]]
        with tempfile.TemporaryDirectory() as folder:
            tokenizer.save(os.path.join(folder, "tokenizer.json"))
            expected = [ids for ids in (each.ids for each in tokenizer.encode_batch(texts, add_special_tokens=False)) if ids]
            differ = sum(a != b for a, b in zip(ids_of(program, folder, texts), expected, strict=True))
        print(f"{name}: {differ} of {len(expected)} texts differ")
        wrong += differ
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--program")
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("n", type=int, nargs="?", default=3000)
    options = parser.parse_args()
    if options.write:
        write()
    return bool(options.program and check(options.program, options.seed, options.n))


if __name__ == "__main__":
    sys.exit(main())
