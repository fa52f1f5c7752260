#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/tokenize: its output, read back as docs/data.md describes it.

    test_tokenize.py            bytes, which need no library
    test_tokenize.py library    a small tokenizer of the 'tokenizers' package; exit 77 where it is not installed
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "tokenize")


def read(folder, name):
    """Returns (tokens, mask or None, docs) of a shard."""
    path = os.path.join(folder, name)
    with open(path, "rb") as file:
        content = file.read()
    magic, version, width, count, vocabulary, align = struct.unpack_from("<8sIIQQQ", content)
    assert magic == b"AHTOKENS" and version == 1 and content[40:64] == bytes(24)
    assert vocabulary > 1 << 16 if width == 4 else vocabulary <= 1 << 16
    assert not align or count % align == 0
    tokens = struct.unpack(f"<{count}{'H' if width == 2 else 'I'}", content[64:])
    mask = None
    if os.path.exists(path + ".mask"):
        with open(path + ".mask", "rb") as file:
            mask = list(file.read())
        assert len(mask) == count
    with open(path + ".docs", "rb") as file:
        docs = [offset for offset, in struct.iter_unpack("<Q", file.read())]
    return list(tokens), mask, docs


class Case(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.root = self.temporary.name
        self.out = os.path.join(self.root, "out")

    def tearDown(self):
        self.temporary.cleanup()

    WORDS = {"[unk]": 0, "two": 1, "and": 2, "is": 3, "four": 4, "<|endoftext|>": 5}

    def tokenizer(self, **more):
        words = {**self.WORDS, **more}
        return self.put("tokenizer.json", json.dumps({
            "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "added_tokens": [],
            "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
            "model": {"type": "WordLevel", "vocab": words, "unk_token": "[unk]"}}))

    def put(self, name, text):
        path = os.path.join(self.root, name)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        return path

    def lines(self, *records):
        return self.put("data.jsonl", "".join(json.dumps(record) + "\n\n" for record in records))

    def run_script(self, *arguments):
        return subprocess.run([sys.executable, SCRIPT, *arguments, "-o", self.out], capture_output=True, text=True,
                              check=False)

    def make(self, *arguments):
        result = self.run_script(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def refuse(self, text, *arguments):
        result = self.run_script(*arguments)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn(text, result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        left = os.listdir(self.out) if os.path.isdir(self.out) else []
        self.assertEqual([name for name in left if name.endswith(".tmp")], [])


class Plain(Case):
    def test_records(self):
        said = self.make(self.lines(
            {"text": "héy"}, {"prompt": "2+2=", "completion": "4"},
            {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}), "--bytes")
        tokens, mask, docs = read(self.out, "train-00000.bin")
        self.assertEqual(bytes(tokens).decode(), "héy2+2=4user: a\nassistant: b\n")
        self.assertEqual(mask, [1] * 4 + [0] * 4 + [1] + [0] * 19 + [1] * 2)
        self.assertEqual(docs, [0, 4, 9])
        self.assertIn("train: 30 tokens, 7 of them learned, 3 documents, vocabulary 256", said)

    def test_a_file_given_twice(self):
        path = self.put("a.txt", "one")
        self.refuse("is given twice", path, os.path.join(self.root, ".", "a.txt"), "--bytes")

    def test_text_without_masks(self):
        self.make(self.put("a.txt", "one\r\ntwo"), self.put("b.md", "three"), self.put("c.txt", ""), "--bytes")
        tokens, mask, docs = read(self.out, "train-00000.bin")
        self.assertEqual(bytes(tokens).decode(), "one\r\ntwothree")
        self.assertIsNone(mask)
        self.assertEqual(docs, [0, 8])

    def test_end(self):
        self.make(self.lines({"text": "a"}, {"text": "b"}), "--bytes", "--end", "0")
        self.assertEqual(read(self.out, "train-00000.bin")[0], [97, 0, 98, 0])

    def test_shards_end_between_documents(self):
        self.make(self.lines(*({"prompt": "x", "completion": "y" * n} for n in (3, 4, 20, 2, 2))), "--bytes",
                  "--shard-tokens", "10")
        shards = [read(self.out, f"train-0000{i}.bin") for i in range(3)]
        self.assertEqual([docs for _, _, docs in shards], [[0, 4], [0], [0, 3]])
        self.assertEqual([len(tokens) for tokens, _, _ in shards], [9, 21, 6])
        self.assertEqual(shards[2][1], [0, 1, 1, 0, 1, 1])
        self.assertEqual(len(os.listdir(self.out)), 9)

    def test_held_out(self):
        self.make(self.lines(*({"text": str(i)} for i in range(10))), "--bytes", "--val", "0.2")
        self.assertEqual(bytes(read(self.out, "train-00000.bin")[0]).decode(), "01235678")
        self.assertEqual(bytes(read(self.out, "val-00000.bin")[0]).decode(), "49")

    def test_held_out_text(self):
        self.make(self.put("a.txt", "0123\n" * 10), "--bytes", "--val", "0.25")
        self.assertEqual(len(read(self.out, "train-00000.bin")[0]), 35)
        self.assertEqual(len(read(self.out, "val-00000.bin")[0]), 15)

    def test_refusals(self):
        self.refuse("data.jsonl:3: has 'tekst', but neither 'text'", self.lines({"text": "a"}, {"tekst": "b"}), "--bytes")
        self.refuse("data.jsonl:1: 'text' is no text", self.lines({"text": 5}), "--bytes")
        self.refuse("data.jsonl:1: is no JSON object", self.lines(1), "--bytes")
        self.refuse("data.jsonl:1: is an array; each line holds one object: jq -c '.[]' FILE", self.lines([1]), "--bytes")
        self.refuse("data.jsonl:1:2: is no JSON: Expecting property name enclosed in double quotes\n",
                    self.put("data.jsonl", "{text}\n"), "--bytes")
        self.refuse("; each line holds one whole object: jq -c . FILE >FILE.jsonl writes them so",
                    self.put("data.json", "{\n  1"), "--bytes")
        self.refuse("data.json:2:5: is no JSON: ", self.put("data.json", "[\n  1 2"), "--bytes")
        self.refuse("data.json: [1]: 'text' is no text", self.put("data.json", '[{"text": "a"},\n{"text": 1}]'), "--bytes")
        self.refuse("data.jsonl:1: has a message without 'content', but with 'role'; each is",
                    self.lines({"messages": [{"role": "user"}]}), "--bytes")
        self.refuse("data.jsonl:1: 'content' is no text", self.lines({"messages": [{"role": "user", "content": 1}]}),
                    "--bytes")
        self.refuse("absent.txt: no such file or directory\n", os.path.join(self.root, "absent.txt"), "--bytes")
        self.refuse("no text to train on", self.lines({"text": ""}), "--bytes")
        self.refuse("nothing is left to hold out", self.lines({"text": "a"}), "--bytes", "--val", "0.1")
        self.refuse("'256' is no token", self.lines({"text": "a"}), "--bytes", "--end", "256")
        self.assertFalse(os.path.exists(self.out))

    def test_sharegpt(self):
        turns = [{"from": "system", "value": "s"}, {"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]
        self.make(self.put("chats.json", json.dumps([{"id": "1", "conversations": turns}] * 2, indent=1)), "--bytes")
        tokens, mask, docs = read(self.out, "train-00000.bin")
        self.assertEqual(bytes(tokens).decode(), "system: s\nuser: a\nassistant: b\n" * 2)
        self.assertEqual(sum(mask), 4)
        self.assertEqual(docs, [0, 31])
        self.refuse("has a message from 'tool'; known are 'human', 'user', 'gpt', 'assistant', 'system'",
                    self.lines({"conversations": [{"from": "tool", "value": "x"}]}), "--bytes")
        self.refuse("has 'from', 'value', but neither 'text'", self.lines(turns[0]), "--bytes")
        shutil.rmtree(self.out)
        parts = [{"type": "text", "text": "a"}, {"text": "b"}]
        answer = {"role": "assistant", "content": "c"}
        self.make(self.lines({"system": "s", "messages": [{"role": "user", "content": parts}, answer]}), "--bytes")
        self.assertEqual(bytes(read(self.out, "train-00000.bin")[0]).decode(), "system: s\nuser: ab\nassistant: c\n")
        self.refuse("has a content with parts that are no text",
                    self.lines({"messages": [{"role": "user", "content": [{"type": "image"}]}]}), "--bytes")

    def test_alpaca(self):
        self.make(self.put("alpaca.json", json.dumps([{"instruction": "Add.", "input": "1 1", "output": "2"},
                                                      {"instruction": "Greet.", "input": "", "output": "Hi"}])), "--bytes")
        tokens, mask, docs = read(self.out, "train-00000.bin")
        text = bytes(tokens).decode()
        first = ("Below is an instruction that describes a task, paired with an input that provides further context. Write a "
                 "response that appropriately completes the request.\n\n### Instruction:\nAdd.\n\n### Input:\n1 1\n\n"
                 "### Response:\n2")
        second = ("Below is an instruction that describes a task. Write a response that appropriately completes the request."
                  "\n\n### Instruction:\nGreet.\n\n### Response:\nHi")
        self.assertEqual(text, first + second)
        self.assertEqual(docs, [0, len(first)])
        self.assertEqual("".join(c for c, learned in zip(text, mask) if learned), "2Hi")
        for field in ("system", "history"):
            self.refuse(f"has '{field}' beside a prompt, which would be lost",
                        self.lines({"instruction": "a", "output": "b", field: "x"}), "--bytes")

    def test_a_full_disk_leaves_nothing(self):
        data = self.lines({"text": "a" * 200000})
        result = subprocess.run(["bash", "-c", 'ulimit -f 100; exec "$@"', "-", sys.executable, SCRIPT, data, "--bytes",
                                 "-o", self.out], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, f"tokenize: {self.out}: file too large; nothing was written\n")
        self.assertNotIn("Traceback", result.stderr)
        self.assertFalse(os.path.exists(self.out))

    def test_nothing_learned_is_warned_of(self):
        asks, answers = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
        result = self.run_script(self.lines({"messages": [asks, answers]}, {"messages": [asks]}, {"text": ""}), "--bytes")
        self.assertEqual(result.returncode, 0)
        self.assertIn("warning: nothing is learned from 1 of 3 documents: they have no completion, or no message whose "
                      "role is 'assistant'\n", result.stderr)
        self.assertIn("train: 29 tokens, 2 of them learned, 2 documents,", result.stdout)

    def test_tokenizer_that_is_not_there(self):
        for name in "./nowhere", "/nowhere", "a/b/c", "nowhere/":
            self.refuse(f"{name}: does not exist; name a tokenizer.json, its folder, or a model on the hub",
                        self.lines({"text": "a"}), "--tokenizer", name)

    def test_help_says_what_each_option_is(self):
        said = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True, check=True,
                              env={**os.environ, "COLUMNS": "80"}).stdout
        self.assertIn("--bytes               bytes as tokens, for models whose vocabulary is 256", said)
        self.assertIn("the model's folder that has it, or a", said)
        self.assertLessEqual(max(map(len, said.splitlines())), 80)

    def test_input_that_is_not_utf8(self):
        latin, utf16 = os.path.join(self.root, "latin.txt"), os.path.join(self.root, "utf16.jsonl")
        with open(latin, "wb") as file:
            file.write("one\ntwo\ncaf\xe9\n".encode("latin-1"))
        with open(utf16, "wb") as file:
            file.write('{"text": "a"}\n'.encode("utf-16"))
        self.refuse("latin.txt:3: byte 3 of the line is 0xe9, which is not UTF-8; convert the file, for example with "
                    "'iconv -f LATIN1 -t UTF-8'", latin, "--bytes")
        self.refuse("utf16.jsonl:1: byte 0 of the line is 0xff, which is not UTF-8; convert the file, for example with "
                    "'iconv -f UTF-16", utf16, "--bytes")
        half = self.put("data.jsonl", '{"text": "a"}\n{"prompt": "x\\ud83d", "completion": "y"}\n')
        self.refuse("data.jsonl:2: character 1 of 'prompt' is \\ud83d, half of a character", half, "--bytes")
        self.refuse("data.jsonl:1: character 0 of 'content' is \\udc00, half", self.put(
            "data.jsonl", '{"messages": [{"role": "user", "content": "\\udc00"}]}\n'), "--bytes")
        self.make(self.put("data.jsonl", '\ufeff{"text": "\\ud83d\\ude00"}\n'), "--bytes")
        self.assertEqual(bytes(read(self.out, "train-00000.bin")[0]).decode(), "\U0001f600")

    def test_aligned(self):
        said = self.make(self.lines({"prompt": "aaa", "completion": "bb"}, {"prompt": "c", "completion": "d"},
                                    {"prompt": "ee", "completion": "f"}, {"prompt": "g", "completion": "h" * 9},
                                    {"prompt": "i" * 9, "completion": "j"}), "--bytes", "--align", "8")
        tokens, mask, docs = read(self.out, "train-00000.bin")
        self.assertEqual(bytes(tokens), b"ghhhhhhh" b"aaabbcd\0" b"eef" + bytes(5))
        self.assertEqual(mask, [0] + [1] * 7 + [0] * 3 + [1] * 2 + [0, 1] + [0] * 3 + [1] + [0] * 5)
        self.assertEqual(docs, [0, 8, 13, 16])
        self.assertIn("train: aligned to 8: 25.0 % padding; 1 longer example cut, 1 dropped, 3 learned tokens "
                      "lost", said)

    def test_aligned_text_goes_on(self):
        said = self.make(self.lines({"text": "abcdefghij"}), "--bytes", "--align", "4")
        tokens, mask, docs = read(self.out, "train-00000.bin")
        self.assertEqual(bytes(tokens), b"abcd" b"defg" b"ghij")
        self.assertIsNone(mask)
        self.assertEqual(docs, [0, 4, 8])
        self.assertNotIn("lost", said)

    def test_aligned_shards_hold_whole_sequences(self):
        self.make(self.lines(*({"prompt": "a", "completion": "b" * n} for n in (5, 1, 6, 7, 2, 3))), "--bytes",
                  "--align", "8", "--shard-tokens", "20")
        shards = [read(self.out, name) for name in sorted(os.listdir(self.out)) if name.endswith(".bin")]
        self.assertEqual([len(tokens) for tokens, _, _ in shards], [16, 16, 8][:len(shards)])
        self.assertEqual(sum(sum(mask) for _, mask, _ in shards), 24)

    def test_aligned_refusals(self):
        self.refuse("the only example is longer than '--align' 4", self.lines({"prompt": "aaaaa", "completion": "b"}),
                    "--bytes", "--align", "4")

    def test_keeps_what_is_there(self):
        self.make(self.lines({"text": "first"}), "--bytes")
        self.refuse("train-00000.bin: is there already", self.lines({"text": "second"}), "--bytes")
        self.assertEqual(bytes(read(self.out, "train-00000.bin")[0]).decode(), "first")

    def test_library_is_missing(self):
        hidden = self.put("tokenizers.py", "raise ImportError\n")
        result = subprocess.run([sys.executable, SCRIPT, self.lines({"text": "a"}), "-o", self.out, "--tokenizer", "x"],
                                capture_output=True, text=True, check=False,
                                env={**os.environ, "PYTHONPATH": os.path.dirname(hidden), "XDG_DATA_HOME": self.root})
        self.assertEqual(result.returncode, 1)
        self.assertIn("the Python package 'tokenizers' is missing: 'tokenize --setup' installs it, or use '--bytes'\n",
                      result.stderr)

    def test_goes_on_with_the_python_of_setup(self):
        own = os.path.join(self.root, "autohete/python/bin/python")
        os.makedirs(os.path.dirname(own))
        self.put("autohete/python/bin/python", '#!/bin/sh\nshift; echo "own: $*"\n')
        os.chmod(own, 0o755)
        environment = {**os.environ, "XDG_DATA_HOME": self.root}
        command = [sys.executable, "-S", SCRIPT, "in.txt", "-o", self.out]
        said = subprocess.run([*command, "--tokenizer", "x"], capture_output=True, text=True, check=False, env=environment)
        self.assertEqual(said.stdout, f"own: in.txt -o {self.out} --tokenizer x\n", said.stderr)
        said = subprocess.run([*command, "--bytes"], capture_output=True, text=True, check=False, env=environment)
        self.assertEqual(said.stdout, "")

    def test_setup_that_fails(self):
        said = subprocess.run([sys.executable, SCRIPT, "--setup"], capture_output=True, text=True, check=False,
                              env={**os.environ, "XDG_DATA_HOME": self.put("file", "")})
        self.assertEqual(said.returncode, 1)
        self.assertRegex(said.stderr, r"^tokenize: '.* -m venv .*/file/autohete/python' failed: .*; on Debian: apt-get install "
                         r"python3-venv\n$")


class WithLibrary(Case):
    def test_records(self):
        records = self.lines({"prompt": "two and two", "completion": "is four"}, {"text": "two"})
        said = self.make(records, "--tokenizer", self.tokenizer())
        self.assertEqual(read(self.out, "train-00000.bin"),
                         ([1, 2, 1, 3, 4, 5, 1, 5], [0, 0, 0, 1, 1, 1, 1, 1], [0, 6]))
        self.assertIn("vocabulary 6", said)

    def test_folder_end_and_wide_tokens(self):
        self.tokenizer(far=70000)
        self.make(self.lines({"text": "two far"}), "--tokenizer", self.root, "--end", "four")
        self.assertEqual(read(self.out, "train-00000.bin"), ([1, 70000, 4], None, [0]))

    def test_own_ends(self):
        """What the tokenizer puts before a text, and the end that tokenizer_config.json names."""
        path = self.tokenizer()
        with open(path, encoding="utf-8") as file:
            made = json.load(file)
        made["post_processor"] = {
            "type": "TemplateProcessing", "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "single": [{"SpecialToken": {"id": "is", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {"is": {"id": "is", "ids": [3], "tokens": ["is"]}}}
        self.put("tokenizer.json", json.dumps(made))
        self.put("tokenizer_config.json", '{"eos_token": {"content": "four"}}')
        record = self.lines({"prompt": "two", "completion": "and"})
        self.make(record, "--tokenizer", self.root)
        self.assertEqual(read(self.out, "train-00000.bin"), ([3, 1, 2, 4], [0, 0, 1, 1], [0]))
        self.out += "2"
        self.make(record, "--tokenizer", self.root, "--begin", "none", "--end", "none")
        self.assertEqual(read(self.out, "train-00000.bin")[0], [1, 2])

    def test_not_cut_or_padded(self):
        path = self.tokenizer()
        with open(path, encoding="utf-8") as file:
            made = json.load(file)
        made["truncation"] = {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}
        made["padding"] = {"strategy": {"Fixed": 9}, "direction": "Left", "pad_to_multiple_of": None, "pad_id": 0,
                           "pad_type_id": 0, "pad_token": "[unk]"}
        self.put("tokenizer.json", json.dumps(made))
        self.make(self.lines({"text": "two and four"}), "--tokenizer", self.root)
        self.assertEqual(read(self.out, "train-00000.bin")[0], [1, 2, 4, 5])

    def test_no_end(self):
        self.make(self.lines({"text": "two"}), "--tokenizer", self.tokenizer(), "--end", "none")
        self.assertEqual(read(self.out, "train-00000.bin")[0], [1])

    def test_refusals(self):
        self.refuse("cannot be read as a tokenizer", self.lines({"text": "a"}), "--tokenizer",
                    self.put("tokenizer.json", "{}"))
        self.refuse("'five' is no token", self.lines({"text": "a"}), "--tokenizer", self.tokenizer(), "--end", "five")


class WithTemplates(Case):
    """Chats with the template of a model; only if 'transformers' and 'jinja2' are installed, too."""

    def setUp(self):
        super().setUp()
        try:
            import jinja2  # noqa: F401
            import transformers  # noqa: F401
        except ImportError:
            self.skipTest("the Python packages 'transformers' and 'jinja2' are not installed")

    def chat(self, template):
        self.tokenizer()
        self.put("tokenizer_config.json", json.dumps({"tokenizer_class": "PreTrainedTokenizerFast",
                                                      "chat_template": template}))
        return self.lines({"messages": [{"role": "user", "content": "two and two"},
                                        {"role": "assistant", "content": "four"},
                                        {"role": "user", "content": "and"}]})

    def test_chat(self):
        template = ("{% for m in messages %}{{ 'is ' if m.role == 'assistant' }}{{ m.content }} <|endoftext|> "
                    "{% endfor %}{% if add_generation_prompt %}is {% endif %}")
        words = {"<": 6, "|": 7, "endoftext": 8, ">": 9, "<|": 10, "|>": 11}
        records = self.chat(template)
        self.tokenizer(**words)
        self.make(records, "--tokenizer", self.root)
        tokens, mask, docs = read(self.out, "train-00000.bin")
        self.assertEqual(tokens, [1, 2, 1, 10, 8, 11, 3, 4, 10, 8, 11, 2, 10, 8, 11])
        self.assertEqual(mask, [0] * 7 + [1] * 4 + [0] * 4)
        self.assertEqual(docs, [0])

    def test_an_assistant_that_begins(self):
        template = ("two {% for m in messages %}{{ 'is ' if m.role == 'assistant' else 'and ' }}{{ m.content }} "
                    "{% endfor %}{% if add_generation_prompt %}is {% else %}four{% endif %}")
        self.chat(template)
        records = self.lines({"messages": [{"role": "assistant", "content": "and"}, {"role": "user", "content": "two"}]})
        self.tokenizer(x=6)
        self.refuse("writes earlier turns differently", records, "--tokenizer", self.root)
        self.chat(template.replace("{% else %}four", ""))
        records = self.lines({"messages": [{"role": "assistant", "content": "and"}, {"role": "user", "content": "two"}]})
        self.tokenizer(x=6)
        self.make(records, "--tokenizer", self.root)
        tokens, mask, _ = read(self.out, "train-00000.bin")
        self.assertEqual(tokens, [1, 3, 2, 2, 1])
        self.assertEqual(mask, [0, 0, 1, 0, 0])

    def test_a_template_that_rewrites(self):
        records = self.chat("{% for m in messages %}{{ 'two ' if loop.last else 'four ' }}{% endfor %}")
        self.refuse("writes earlier turns differently", records, "--tokenizer", self.root)


def main():
    cases = [Plain]
    if sys.argv[1:] == ["library"]:
        try:
            import tokenizers  # noqa: F401
        except ImportError:
            print("the Python package 'tokenizers' is not installed")
            return 77
        cases = [WithLibrary, WithTemplates]
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(case) for case in cases)
    return not unittest.TextTestRunner().run(suite).wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
