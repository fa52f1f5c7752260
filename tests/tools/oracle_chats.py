#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes and checks the golden cases of chat templates: what transformers renders for random conversations.

    oracle_chats.py --templates DIR --write                 makes tests/golden/chats again
    oracle_chats.py --templates DIR --compare [SEED [N]]    compares runtime/text/chat.c on N conversations of each

In an environment with the Python packages transformers and jinja2, and a C compiler; no part of the tests. DIR has the
real templates, which are not in this repository: NAME.jinja, where a copy of one template in another text is
NAME@ANOTHER.jinja. --compare also says in how many conversations the text before an answer does not begin the text with it.
A golden case is a line of JSON: roles (s, u, a), texts, prompt, date, and the result; null where the template refuses.
"<passage>" stands in it for the long passage that smollm3 reads from the model's own template.
Last run: transformers 5.24.0, jinja2 3.1.6; 3000 conversations of each of 16 texts, and later of olmo-2,
smollm3, phi-4 and phi-4-mini, had the bytes of transformers.
"""
import argparse
import collections
import ctypes
import datetime
import glob
import json
import os
import random
import subprocess
import sys
import tempfile

import jinja2
from transformers.utils import chat_template_utils

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
GOLDEN = os.path.join(ROOT, "tests", "golden", "chats")
SOURCES = ["runtime/text/*.c", "schemas/cursor.c", "schemas/json*.c", "base/*.c"]
ROLES = {"s": "system", "u": "user", "a": "assistant"}
BOS, EOS, TODAY = "<bos>", "<eos>", datetime.datetime(2026, 3, 5)
SPACES = [" ", "\n", "\t", "\r\n", "\u00a0", "\u2003", "\u3000", "\u0085", "\u001f", "\u2028", "\u1680", "\u205f", "\u200b", "\ufeff"]
WORDS = ["Hello", "world", "2 + 2 = 4", "int main(void)", "Grüße", "世界", "🙂", "e\u0301", "{{ x }}", "{% if %}", "'\"\\", "&<>",
         "<think>", "</think>", "<think>\n", "\n</think>\n\n", "</think", "<|im_end|>", "<eos>", "<tool_response>",
         "</tool_response>", "[INST]", "<|eot_id|>"]
MORE_WORDS = {"smollm3": 4 * ["/no_think", "/think", "/system_override", "/no_", "\n\n"], "olmo-2": ["<|user|>", "<|endoftext|>"]}
PASSAGE = "You are a helpful AI assistant named SmolLM, trained by Hugging Face. Your role"  # of smollm3: where it begins


def random_text(rng, more=()):
    kind = rng.random()
    if kind < 0.08:
        return ""
    if kind < 0.14:
        return "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 4)))
    if kind < 0.19:
        return "<tool_response>" + rng.choice(["", "\n4\n", "x"]) + rng.choice(["</tool_response>", "</tool_response>\n", ""])
    if kind < 0.29:
        return f"<think>{rng.choice(['', chr(10)])}because{rng.choice(['', chr(10) * 2])}</think>{rng.choice(['', chr(10) * 2])}so"
    out = [rng.choice(SPACES)] if rng.random() < 0.3 else []
    for _ in range(rng.randint(1, 4)):
        out += [rng.choice([*WORDS, *more]), rng.choice(["", " ", " ", "\n"])]
    return "".join(out) + (rng.choice(SPACES) if rng.random() < 0.3 else "")


def random_conversation(rng, more=()):
    n = rng.randint(1, 6)
    if rng.random() < 0.75:
        roles = rng.choice(["", "s"]) + ("ua" * n)[:n]
    else:
        roles = "".join(rng.choice("suuaa") for _ in range(n))
    return {"roles": roles, "texts": [random_text(rng, more) for _ in roles], "prompt": rng.random() < 0.5}


class Today(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return TODAY


def expected(template, case):
    """What transformers renders; None if the template raises an error."""
    messages = [{"role": ROLES[role], "content": text} for role, text in zip(case["roles"], case["texts"], strict=True)]
    settings = {"date_string": case["date"]} if case["date"] else {}
    try:
        return chat_template_utils.render_jinja_template([messages], chat_template=template, bos_token=BOS, eos_token=EOS,
                                                         add_generation_prompt=case["prompt"], **settings)[0][0]
    except jinja2.exceptions.TemplateError:
        return None


def read_templates(folder):
    """(name, text) of each file."""
    for file in sorted(os.listdir(folder)):
        if file.endswith(".jinja"):
            with open(os.path.join(folder, file), encoding="utf-8", newline="") as handle:
                yield file[:-6].partition("@")[0], handle.read()


def cases_of(rng, name, template, n):
    for _ in range(n):
        case = random_conversation(rng, MORE_WORDS.get(name, ()))
        case["date"] = rng.choice([None, "28 Nov 2026"]) if name in ("llama-3.1", "llama-3.2") else None
        case["result"] = expected(template, case)
        if name in ("llama-3.2", "smollm3") and not case["date"]:
            case["date"] = TODAY.strftime("%d %b %Y")
        yield case


def write(folder):
    for name, template in dict(read_templates(folder)).items():
        rng = random.Random(name)  # a new template leaves the cases of the others alone
        os.makedirs(os.path.join(GOLDEN, name), exist_ok=True)
        with open(os.path.join(GOLDEN, name, "cases.jsonl"), "w", encoding="ascii") as file:
            for case in cases_of(rng, name, template, 60):
                begin, in_template = (case["result"] or "").find(PASSAGE), template.find(PASSAGE)
                if begin >= 0:  # this repository has no copy of the passage
                    size = template.index("\\n", in_template) - in_template
                    case["result"] = case["result"][:begin] + "<passage>" + case["result"][begin + size:]
                file.write(json.dumps(case) + "\n")


class Message(ctypes.Structure):
    _fields_ = [("role", ctypes.c_int), ("text", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class Model(ctypes.Structure):
    _fields_ = [("chat", ctypes.c_void_p), ("bos", ctypes.c_char_p), ("eos", ctypes.c_char_p), ("passage", ctypes.c_char_p)]


class Options(ctypes.Structure):
    _fields_ = [("date", ctypes.c_char_p), ("prompt", ctypes.c_bool), ("spans", ctypes.c_void_p)]


class Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("capacity", ctypes.c_size_t), ("failed", ctypes.c_bool)]


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * 768)]


def build(folder):
    path = os.path.join(folder, "chat.so")
    sources = [source for pattern in SOURCES for source in glob.glob(pattern, root_dir=ROOT)]
    subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-fPIC", "-shared", "-I.", *sources, "-o", path,
                    "-lpcre2-8", "-lutf8proc", "-lhwloc", "-lcjson", "-lm"], cwd=ROOT, check=True)
    library = ctypes.CDLL(path)
    library.ah_chat_named.restype = ctypes.c_void_p
    return library


def open_model(library, template, form):
    """The model of a folder that has the template in one of the places that transformers reads."""
    listed = [{"name": "tool_use", "template": "{{ x }}"}, {"name": "default", "template": template}]
    config = {"bos_token": BOS, "eos_token": {"__type": "AddedToken", "content": EOS, "lstrip": False},
              "chat_template": {"text": template, "list": listed, "jinja": "{{ x }}"}[form]}
    model, err = ctypes.POINTER(Model)(), Error()
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        if form == "jinja":
            with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8", newline="") as file:
                file.write(template)
        if library.ah_chat_open(ctypes.byref(model), folder.encode(), ctypes.byref(err)):
            raise ValueError(err.text.decode())
    return model


def rendered(library, model, case):
    texts = [text.encode() for text in case["texts"]]
    messages = (Message * len(texts))(*(Message("sua".index(role), text, len(text))
                                        for role, text in zip(case["roles"], texts, strict=True)))
    out, err = Buffer(), Error()
    options = Options(case["date"].encode() if case["date"] else None, case["prompt"], None)
    rc = library.ah_chat_render(model, messages, ctypes.c_size_t(len(texts)), ctypes.byref(options), ctypes.byref(out),
                                ctypes.byref(err))
    text = None if rc else ctypes.string_at(out.data, out.size).decode()
    library.ah_buffer_release(ctypes.byref(out))
    return text


def breaks_prefix(library, model, case):
    """Whether the text up to the last answer does not begin the text with it; None if there is no such text."""
    end = case["roles"].rfind("a") + 1
    if end < 2:
        return None
    part = {**case, "roles": case["roles"][:end - 1], "texts": case["texts"][:end - 1], "prompt": True}
    whole = {**case, "roles": case["roles"][:end], "texts": case["texts"][:end], "prompt": False}
    before, after = rendered(library, model, part), rendered(library, model, whole)
    return None if before is None or after is None else not after.startswith(before)


def compare(folder, seed, n):
    rng, wrong = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as temporary:
        library = build(temporary)
        for name, template in read_templates(folder):
            texts = (template.rstrip("\n"), template.rstrip("\n") + "\n")
            models = [open_model(library, text, form) for text in texts for form in ("text", "list", "jinja")]
            if {model.contents.chat for model in models} != {library.ah_chat_named(name.encode())}:
                raise ValueError(f"{name}: is another template")
            differ, refused, prefixes = 0, 0, collections.Counter()
            for case in cases_of(rng, name, template, n):
                model = rng.choice(models)
                got = rendered(library, model, case)
                if got != case["result"]:
                    differ += 1
                    if differ == 1:
                        print(f"{name}: {json.dumps(case)}\n  not {json.dumps(got)}")
                refused += got is None
                prefixes[breaks_prefix(library, model, case), case["roles"].startswith("s")] += 1
            print(f"{name}: {differ} of {n} conversations differ ({refused} refused); the text before an answer does not begin "
                  f"the text with it in {prefixes[True, False]} of {prefixes[True, False] + prefixes[False, False]}, with a "
                  f"system message in {prefixes[True, True]} of {prefixes[True, True] + prefixes[False, True]}")
            wrong += differ
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--templates", required=True)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("n", type=int, nargs="?", default=500)
    options = parser.parse_args()
    chat_template_utils.datetime = Today
    if options.write:
        write(options.templates)
    return bool(options.compare and compare(options.templates, options.seed, options.n))


if __name__ == "__main__":
    sys.exit(main())
