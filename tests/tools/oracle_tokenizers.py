#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes and checks the golden cases of tokenizers: ids of the tokenizers library for the structure of each family.

    oracle_tokenizers.py --write [NAME ...]             makes tests/golden/tokenizers again, or those named
    oracle_tokenizers.py --program autohete [SEED [N]]  compares 'autohete tokenize' on N random texts (default 3000)
        --vocabularies DIR                              also with the real vocabularies in llama.cpp's folder models

In an environment with the Python package tokenizers; no part of the tests. The vocabularies are trained here on texts of
this project and on words of many scripts, with the steps of the real files:

    gpt2        ByteLevel with its own pattern             gpt2-space   the same, with a space before the text
    llama3      Split, ByteLevel, ignore_merges            qwen2        NFC, Split, ByteLevel; tokens that strip and stand alone
    llama2      Prepend and Replace, byte fallback         mistral      Metaspace before the first text only, not split
    metaspace   Metaspace always, split; unknown tokens not fused
    gemma       Gemma 1 to 3: Replace, Split at a space, which no text has then; byte fallback
    phi3        Phi-3 and 3.5: as llama2, with tokens that strip the space after them
    olmo2       OLMo 2: Split of cl100k_base, as its conversions have it: what the pattern leaves is removed
    phi4mini    Phi-4 mini: Split of o200k_base, with tokens that strip the space after them
    merged      of no model: words that end in what is cut out, and texts that are removed

Sources of the last ones. gemma: tokenization_gemma.py of transformers 5. phi3: GGUFPhi3Converter of transformers 4. olmo2:
the pattern of cl100k_base (pull request 7132 of llama.cpp, for DBRX) as some files have it, "Removed" and inverted (pull
request 14626, for Midm); a file with "Isolated" has the same ids, since the pattern leaves nothing. Its tokens are those of
tokenizer_config.json of OLMo-2-1124-13B-Instruct. SmolLM 3 has the tokenizer of Llama 3 with other special tokens. phi4mini:
the pattern of o200k_base in tiktoken; Mistral Nemo's is the same without contractions.

A golden case has the tokenizer.json and cases.txt: a line of hexadecimal UTF-8, a space, and the ids, separated by commas.
Last run: tokenizers 0.23.3; 22,000 random texts of each structure had the library's ids.

The folder models of llama.cpp has the vocabularies of GPT-2, Llama 2, Llama 3, Phi-3 and Qwen2 (ggml-vocab-NAME.gguf), and
45 texts with the ids that their published tokenizers give (.inp, .out). transformers, with its package gguf, makes a
tokenizer.json of each; of Llama 2 and 3 it leaves out what PUBLISHED has. Last run, with those of llama_cpp_python 0.3.36
on PyPI: all 225 texts had the published ids, and 18,463 random texts the library's.
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

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
GOLDEN = os.path.join(ROOT, "tests", "golden", "tokenizers")
PAGES = ("planning", "clusters", "running", "weights", "glossary")
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
CASED = "|".join(f"[^\\r\\n\\p{{L}}\\p{{N}}]?[\\p{{Lu}}\\p{{Lt}}\\p{{Lm}}\\p{{Lo}}\\p{{M}}]{a}[\\p{{Ll}}\\p{{Lm}}\\p{{Lo}}\\p{{M}}]{b}"
                 "(?i:'s|'t|'re|'ve|'m|'ll|'d)?" for a, b in ("*+", "+*")) + "|"
REST = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
WORDS = ["Grüße", "naïve", "Ελληνικά", "привет", "こんにちは", "世界", "안녕하세요", "مرحبا", "שלום", "नमस्ते", "ภาษาไทย", "🙂",
         "👩‍👩‍👧‍👦", "🇩🇪", "e\u0301", "\u212b", "ﬁ", "½", "x²", "①", "\u00a0", "\u2003", "\u3000", "\u200b", "\u200d",
         "\u180e", "\ufeff", "ﷺ", "𝔘𝔫𝔦", "١٢٣", "Ⅷ", "İ", "ſ", "'s", "'LL", "'Re", "can't", "WE'VE", "1234567", "3.14159",
         "\r\n", "\n\n", "\t\t", "   ", "    \n  x", "<|endoftext|>", "<s>", "</s>", "<|im_start|>", "▁", "_", "foo_bar",
         "#$%&", "=>", "…", "—", "\x07", "\x7f", "\u0085", "\u2028", "\u2029", "\u0000"]
MORE_WORDS = {  # of the texts of single structures
    "gemma": ["<bos>", "<start_of_turn>user\n", "<end_of_turn>\n", "<table>", "<unused1>", "<unused10>", "▁▁", "▁", "        "],
    "phi3": ["<|user|>", "<|user|>\n", "<|end|> \n\u3000x", "<|assistant|>", "<|endoftext|> ", "</s>\t", "<|system|>"],
    "olmo2": ["|||PHONE_NUMBER|||", "|||", "<|pad|>", "<|endofprompt|>", "<|extra_id_1|>", "<|extra_id_10|>"],
    "phi4mini": ["HTTPServer", "iPhone's", "ǅ", "ʰa", "ª", "//", "/\n", "x/\r\n/", "\u0301A", "<|end|>", "<|user|>", "<|tool|>\n"],
    "merged": ["-", "--", "a--b", "\t", " \t ", "q", "qq"],
}
GEMMA = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>")
RANGES = ((32, 126), (0xA0, 0x24F), (0x370, 0x3FF), (0x4E00, 0x4EFF), (0x300, 0x36F), (0xAC00, 0xAC80), (0x1100, 0x11FF))


def page(name):
    with open(os.path.join(ROOT, "docs", f"{name}.md"), encoding="utf-8") as file:
        return file.read()


def any_character(rng):
    """One that was there when the oldest table was made: newer ones differ between versions of Unicode."""
    code = rng.randint(1, 0x10FFFF)
    return "A" if 0xD800 <= code <= 0xDFFF or unicodedata.category(chr(code)) == "Cn" else chr(code)


def random_text(rng, more=()):
    words, out = WORDS + 4 * list(more), []
    for _ in range(rng.randint(0, 12)):
        kind = rng.random()
        if kind < 0.5:
            out.append(rng.choice(words))
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


def plain(*texts, **flags):
    return [AddedToken(text, normalized=False, **flags) for text in texts]


def on_bytes(texts, size, pre, **settings):
    tokenizer = Tokenizer(models.BPE(ignore_merges=settings.get("ignore_merges", False)))
    tokenizer.pre_tokenizer = pre
    if "normalizer" in settings:
        tokenizer.normalizer = settings["normalizer"]
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<|endoftext|>", "<|im_start|>"], show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def with_fallback(texts, size, normalizer=None, pre=None, fuse=True, specials=("<unk>", "<s>", "</s>"), marked=("<s>", "</s>"),
                  runs=False):
    """`marked`: the special tokens that are added; `runs`: pieces may have several spaces, as where nothing is split."""
    pieces = Tokenizer(models.BPE(unk_token="<unk>"))
    pieces.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    if runs:
        if normalizer:
            pieces.normalizer = normalizer
        pieces.pre_tokenizer = pre_tokenizers.Split(Regex("\u2581+[^\u2581\\n]*|\\n+|[^\u2581\\n]+"), "isolated")
    pieces.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, limit_alphabet=200, show_progress=False))
    model = json.loads(pieces.to_str())["model"]
    vocabulary = {text: i for i, text in enumerate(specials)}
    vocabulary |= {f"<0x{byte:02X}>": len(specials) + byte for byte in range(256)}
    for piece in sorted(model["vocab"], key=model["vocab"].get):
        vocabulary.setdefault(piece, len(vocabulary))
    merges = [tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in model["merges"]]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=fuse, byte_fallback=True))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre:
        tokenizer.pre_tokenizer = pre
    tokenizer.add_special_tokens(plain(*marked))
    return tokenizer


def gemma(texts, size):
    tokenizer = with_fallback(texts, size, normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"),
                              specials=GEMMA, marked=GEMMA, runs=True)
    tokenizer.add_tokens(plain("<2mass>", "[@BOS@]", *(f"<unused{i}>" for i in range(12)), "\n", "\n\n", "\n\n\n", "▁▁", "▁▁▁",
                               "<table>", "</table>"))
    tokenizer.add_special_tokens(plain("<start_of_turn>", "<end_of_turn>"))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.post_processor = processors.TemplateProcessing("<bos> $A", "<bos> $A <bos>:1 $B:1", [("<bos>", 2)])
    return tokenizer


def phi3(texts, size):
    tokenizer = with_fallback(texts, size, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
                              marked=("<unk>", "<s>"))
    tokenizer.add_tokens(plain("</s>", rstrip=True))
    tokenizer.add_special_tokens(plain("<|endoftext|>"))
    tokenizer.add_special_tokens(plain("<|assistant|>", *(f"<|placeholder{i}|>" for i in range(1, 5)), "<|system|>", "<|end|>",
                                       "<|placeholder5|>", "<|placeholder6|>", "<|user|>", rstrip=True))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    return tokenizer


def olmo2(texts, size):
    tokenizer = on_bytes(texts, size, split_on("\\p{N}{1,3}", "removed", invert=True))
    tokenizer.add_tokens(plain("<|extra_id_0|>", "|||PHONE_NUMBER|||", "|||EMAIL_ADDRESS|||", "|||IP_ADDRESS|||",
                               *(f"<|extra_id_{i}|>" for i in range(1, 11))))
    tokenizer.add_special_tokens(plain("<|fim_prefix|>", "<|im_end|>", "<|endofprompt|>", "<|pad|>"))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def phi4mini(texts, size):
    tokenizer = on_bytes(texts, size, split_on("\\p{N}{1,3}", "removed", True, CASED, REST.replace("[\\r\\n]*|", "[\\r\\n/]*|")))
    tokenizer.add_special_tokens(plain("<|endofprompt|>"))
    tokenizer.add_special_tokens(plain("<|assistant|>", "<|end|>", "<|user|>", "<|system|>", "<|tool|>", "<|/tool|>", rstrip=True))
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def merged(texts, size):
    steps = [pre_tokenizers.Split("--", "merged_with_previous"), pre_tokenizers.Split(" ", "merged_with_previous"),
             pre_tokenizers.Split("\t", "removed"), pre_tokenizers.Split(Regex("q+"), "merged_with_previous", invert=True)]
    return with_fallback(texts, size, None, pre_tokenizers.Sequence(steps), runs=True)


def split_on(digits, behavior="isolated", invert=False, words=CONTRACTIONS, rest=REST):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(words + digits + rest), behavior, invert),
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
        "gemma": gemma(texts, size),
        "phi3": phi3(texts, size),
        "olmo2": olmo2(texts, size),
        "merged": merged(texts, size),
        "phi4mini": phi4mini(texts, size),
    }
    made["qwen2"].add_tokens([AddedToken("foo_bar", single_word=True, lstrip=True), AddedToken("\u212b", normalized=True),
                              AddedToken("世界", rstrip=True, normalized=True)])
    return made


def write(names):
    rng = random.Random(20261128)
    texts = [random_text(rng) for _ in range(150)] + [page("glossary")[:1500]]
    for name, tokenizer in tokenizers_of(rng, 700).items():
        if names and name not in names:
            continue
        os.makedirs(os.path.join(GOLDEN, name), exist_ok=True)
        tokenizer.save(os.path.join(GOLDEN, name, "tokenizer.json"), pretty=False)
        with open(os.path.join(GOLDEN, name, "cases.txt"), "w", encoding="ascii") as file:
            if name in MORE_WORDS:  # a new structure leaves the cases of the others alone
                more = random.Random(name)
                texts = [random_text(more, MORE_WORDS[name]) for _ in texts]
            for text in texts:
                ids = tokenizer.encode(text, add_special_tokens=False).ids
                file.write(f"{text.encode().hex() or '-'} {','.join(map(str, ids)) or '-'}\n")


def ids_of(program, folder, texts):
    """What 'tokenize' makes of each text: a document each, without an end."""
    with open(os.path.join(folder, "in.jsonl"), "w", encoding="utf-8") as file:
        for text in texts:
            file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
    subprocess.run([program, "tokenize", os.path.join(folder, "in.jsonl"), "--model", os.path.join(folder, "tokenizer.json"),
                    "-o", os.path.join(folder, "data"), "--begin", "none", "--end", "none", "-q"], check=True)
    with open(os.path.join(folder, "data", "train-00000.bin"), "rb") as file:
        data = file.read()
    with open(os.path.join(folder, "data", "train-00000.bin.docs"), "rb") as file:
        starts = [start for start, in struct.iter_unpack("<Q", file.read())]
    token_bytes, = struct.unpack("<I", data[12:16])
    ids = [token for token, in struct.iter_unpack("<I" if token_bytes == 4 else "<H", data[64:])]
    return [ids[begin:end] for begin, end in zip(starts, starts[1:] + [len(ids)])]


def check(program, seed, n):
    rng, wrong = random.Random(seed), 0
    for name, tokenizer in tokenizers_of(rng, 2000).items():
        texts = [text.replace("\0", "") for text in [page(name) for name in PAGES] + [random_text(rng, MORE_WORDS.get(name, ())) for _ in range(n)]]
        with tempfile.TemporaryDirectory() as folder:
            tokenizer.save(os.path.join(folder, "tokenizer.json"))
            expected = [ids for ids in (each.ids for each in tokenizer.encode_batch(texts, add_special_tokens=False)) if ids]
            differ = sum(a != b for a, b in zip(ids_of(program, folder, texts), expected, strict=True))
        print(f"{name}: {differ} of {len(expected)} texts differ")
        wrong += differ
    return wrong


# What published files have and conversions from GGUF lack.
PUBLISHED = {
    "gpt-2": {}, "phi-3": {}, "qwen2": {}, "llama-bpe": {"model": {"ignore_merges": True}},
    "llama-spm": {"pre_tokenizer": None, "normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}}}


def published_file(folder, name, into):
    """Makes the tokenizer.json of a vocabulary."""
    from transformers import AutoTokenizer
    AutoTokenizer.from_pretrained(folder, gguf_file=f"ggml-vocab-{name}.gguf").save_pretrained(into)
    path = os.path.join(into, "tokenizer.json")
    with open(path, encoding="utf-8") as file:
        made = json.load(file)
    for key, value in PUBLISHED[name].items():
        made[key] = {**made[key], **value} if key == "model" else value
    with open(path, "w", encoding="utf-8") as file:
        json.dump(made, file)
    return Tokenizer.from_file(path)


def published_texts(folder, name):
    """(text, ids) each."""
    with open(os.path.join(folder, f"ggml-vocab-{name}.gguf.inp"), encoding="utf-8", newline="") as file:
        texts = file.read().split("\n__ggml_vocab_test__\n")
    with open(os.path.join(folder, f"ggml-vocab-{name}.gguf.out"), encoding="utf-8") as file:
        return [(text, [int(word) for word in line.split()]) for text, line in zip(texts, file) if text]


def check_published(program, vocabularies, seed, n):
    rng, wrong = random.Random(seed), 0
    for name in PUBLISHED:
        with tempfile.TemporaryDirectory() as folder:
            tokenizer = published_file(vocabularies, name, folder)
            known = published_texts(vocabularies, name)
            differ = sum(a != b for a, (_, b) in zip(ids_of(program, folder, [text for text, _ in known]), known, strict=True))
            texts = [text for text in (random_text(rng).replace("\0", "") for _ in range(n)) if text]
            expected = [each.ids for each in tokenizer.encode_batch(texts, add_special_tokens=False)]
            os.rename(os.path.join(folder, "data"), os.path.join(folder, "known"))
            others = sum(a != b for a, b in zip(ids_of(program, folder, texts), expected, strict=True))
        print(f"{name}, its vocabulary: {differ} of {len(known)} texts with published ids differ, {others} of {len(texts)} others")
        wrong += differ + others
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", nargs="*", metavar="NAME")
    parser.add_argument("--program")
    parser.add_argument("--vocabularies", metavar="DIR")
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("n", type=int, nargs="?", default=3000)
    options = parser.parse_args()
    if options.write is not None:
        write(options.write)
    if not options.program:
        return 0
    wrong = check(options.program, options.seed, options.n)
    if options.vocabularies:
        wrong += check_published(options.program, options.vocabularies, options.seed, options.n)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
