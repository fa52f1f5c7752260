#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An independent implementation to compare the product's weights with: a safetensors writer and reader, and names and
layouts written again from the transformers library and docs/layout.md.

    weights_oracle.py --program weights_round_trip           tiny checkpoints of every family, made here: the flat
                                                             vectors are right, saving gives the same bytes, and
                                                             damaged ones are refused with a sentence that names them,
                                                             initial weights are those of another generator
    weights_oracle.py --program weights_round_trip FOLDER... the same round trip of checkpoints that are there
"""
import argparse
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

BYTES = {"F32": 4, "BF16": 2, "F16": 2, "U8": 1, "BOOL": 1, "F64": 8}
COMMON = {"hidden_size": 24, "num_hidden_layers": 11, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
          "intermediate_size": 40, "vocab_size": 50, "max_position_embeddings": 32, "rms_norm_eps": 1e-6,
          "initializer_range": 0.02}
TIED = ("gpt2", "smollm3", "gemma2", "gemma3_text")  # unless the file says otherwise
CONFIGS = {
    "gpt2": {"model_type": "gpt2", "n_embd": 24, "n_layer": 11, "n_head": 4, "n_positions": 32, "vocab_size": 50,
             "torch_dtype": "float32"},
    "gpt2-untied": {"model_type": "gpt2", "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 32, "n_inner": 20,
                    "vocab_size": 50, "tie_word_embeddings": False},
    "llama": {"model_type": "llama", **COMMON},
    "llama-bias": {"model_type": "llama", **COMMON, "attention_bias": True, "mlp_bias": True,
                   "tie_word_embeddings": True},
    "mistral": {"model_type": "mistral", **COMMON, "sliding_window": None},
    "qwen2": {"model_type": "qwen2", **COMMON},
    "qwen3": {"model_type": "qwen3", **COMMON, "head_dim": 10, "tie_word_embeddings": True, "dtype": "bfloat16"},
    "olmo2": {"model_type": "olmo2", **COMMON, "attention_bias": True},
    "smollm3": {"model_type": "smollm3", **COMMON, "pad_token_id": None, "mlp_bias": True},
    "phi3": {"model_type": "phi3", **COMMON, "pad_token_id": None},
    "gemma2": {"model_type": "gemma2", **COMMON},
    "gemma3": {"model_type": "gemma3_text", **COMMON, "dtype": "bfloat16"},
}


def write_safetensors(path, tensors):
    """tensors: name -> (dtype, shape, bytes). Sorted by name, header padded to 8 bytes, like the format's own library."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name in sorted(tensors):
        dtype, shape, raw = tensors[name]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    with open(path, "rb") as file:
        raw = file.read()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + length])
    header.pop("__metadata__", None)
    data = raw[8 + length:]
    return {name: (t["dtype"], t["shape"], data[t["data_offsets"][0]:t["data_offsets"][1]])
            for name, t in header.items()}


def read_folder(folder):
    tensors = {}
    for name in os.listdir(folder):
        if name.startswith("model") and name.endswith(".safetensors"):
            tensors.update(read_safetensors(os.path.join(folder, name)))
    return tensors


def write_folder(folder, config, tensors, order, limit=None):
    """`order`: the names in the order of the model; `limit`: bytes of a shard."""
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps(config, indent=2, sort_keys=True) + "\n")
    shards = [[]]
    for name in order:
        size = sum(len(tensors[n][2]) for n in shards[-1])
        if limit and shards[-1] and size + len(tensors[name][2]) > limit:
            shards.append([])
        shards[-1].append(name)
    if len(shards) == 1:
        write_safetensors(os.path.join(folder, "model.safetensors"), tensors)
        return
    where = {}
    for i, names in enumerate(shards):
        file = f"model-{i + 1:05}-of-{len(shards):05}.safetensors"
        write_safetensors(os.path.join(folder, file), {name: tensors[name] for name in names})
        where.update({name: file for name in names})
    index = {"metadata": {"total_size": sum(len(t[2]) for t in tensors.values())}, "weight_map": where}
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps(index, indent=2, sort_keys=True) + "\n")


def describe(config):
    """Returns the blocks in order; for each, our tensors in flat order: (rows, cols, [(their name, their shape,
    transposed)])."""
    kind = config["model_type"]
    if kind == "gpt2":
        return describe_gpt2(config)
    width, query = config["hidden_size"], config["num_attention_heads"] * config["head_dim"]
    key, mlp, words = config["num_key_value_heads"] * config["head_dim"], config["intermediate_size"], config["vocab_size"]
    qkv_bias = kind == "qwen2" or config.get("attention_bias", False)
    output_bias = kind != "qwen2" and config.get("attention_bias", False)
    mlp_bias = config.get("mlp_bias", False)

    def vector(name, rows, present=True):
        return [(rows, 1, [(name, [rows], False)])] if present else []

    def matrix(name, rows, cols):
        return [(rows, cols, [(name, [rows, cols], False)])]

    blocks = [matrix("model.embed_tokens.weight", words, width)]
    for i in range(config["num_hidden_layers"]):
        at = f"model.layers.{i}."
        attention = at + "self_attn."
        rows = [("q", query), ("k", key), ("v", key)]
        before, after = kind != "olmo2", kind in ("olmo2", "gemma2", "gemma3_text")
        whole = kind == "olmo2"
        block = vector(at + "input_layernorm.weight", width, before)
        if kind == "phi3":
            rows = [("qkv", query + 2 * key)]
        block += [(query + 2 * key, width, [(f"{attention}{p}_proj.weight", [n, width], False) for p, n in rows])]
        if qkv_bias:
            block += [(query + 2 * key, 1, [(f"{attention}{p}_proj.bias", [n], False) for p, n in rows])]
        normed = kind in ("qwen3", "olmo2", "gemma3_text")
        block += vector(attention + "q_norm.weight", query if whole else config["head_dim"], normed)
        block += vector(attention + "k_norm.weight", key if whole else config["head_dim"], normed)
        block += matrix(attention + "o_proj.weight", width, query)
        block += vector(attention + "o_proj.bias", width, output_bias)
        block += vector(at + "post_attention_layernorm.weight", width)
        block += vector(at + "pre_feedforward_layernorm.weight", width, before and after)
        if kind == "phi3":
            block += matrix(at + "mlp.gate_up_proj.weight", 2 * mlp, width)
        else:
            block += matrix(at + "mlp.gate_proj.weight", mlp, width)
            block += vector(at + "mlp.gate_proj.bias", mlp, mlp_bias)
            block += matrix(at + "mlp.up_proj.weight", mlp, width)
            block += vector(at + "mlp.up_proj.bias", mlp, mlp_bias)
        block += matrix(at + "mlp.down_proj.weight", width, mlp)
        block += vector(at + "mlp.down_proj.bias", width, mlp_bias)
        block += vector(at + "post_feedforward_layernorm.weight", width, after)
        blocks.append(block)
    head = vector("model.norm.weight", width)
    if not config.get("tie_word_embeddings", kind in TIED):
        head += matrix("lm_head.weight", words, width)
    return blocks + [head]


def describe_gpt2(config):
    width = config["n_embd"]
    mlp = config.get("n_inner") or 4 * width

    def both(name, rows, cols=None):
        weight = (rows, cols or 1, [(name + ".weight", [cols, rows] if cols else [rows], bool(cols))])
        return [weight, (rows, 1, [(name + ".bias", [rows], False)])]

    def table(name, rows):
        return [(rows, width, [(name, [rows, width], False)])]

    blocks = [table("transformer.wte.weight", config["vocab_size"]) +
              table("transformer.wpe.weight", config["n_positions"])]
    for i in range(config["n_layer"]):
        at = f"transformer.h.{i}."
        blocks.append(both(at + "ln_1", width) + both(at + "attn.c_attn", 3 * width, width) +
                      both(at + "attn.c_proj", width, width) + both(at + "ln_2", width) +
                      both(at + "mlp.c_fc", mlp, width) + both(at + "mlp.c_proj", width, mlp))
    head = both("transformer.ln_f", width)
    if not config.get("tie_word_embeddings", True):
        head += table("lm_head.weight", config["vocab_size"])
    return blocks + [head]


def parts(config):
    return [part for block in describe(config) for tensor in block for part in tensor[2]]


def raw_numbers(dtype, count, rng):
    """Returns finite numbers with random bits of every kind, denormals included."""
    if dtype == "F32":
        return struct.pack(f"<{count}f", *(rng.gauss(0, 1) * 10 ** rng.randint(-40, 10) for _ in range(count)))
    wide = 0x7F80 if dtype == "BF16" else 0x7C00
    numbers = []
    while len(numbers) < count:
        bits = rng.getrandbits(16)
        if bits & wide != wide:
            numbers.append(bits)
    return struct.pack(f"<{count}H", *numbers)


def to_floats(dtype, raw):
    if dtype == "F32":
        return list(struct.unpack(f"<{len(raw) // 4}f", raw))
    if dtype == "F16":
        return list(struct.unpack(f"<{len(raw) // 2}e", raw))
    halves = struct.unpack(f"<{len(raw) // 2}H", raw)
    return list(struct.unpack(f"<{len(halves)}f", struct.pack(f"<{len(halves)}I", *(h << 16 for h in halves))))


def make(config, dtype, rng):
    tensors = {}
    for name, shape, _ in parts(config):
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        tensors[name] = (dtype, shape, raw_numbers(dtype, count, rng))
    return tensors


def flat(config, tensors):
    """As in docs/layout.md: every tensor begins at a multiple of 128 elements, with zeros between; rows are outputs."""
    out = []
    for block in describe(config):
        for _, _, pieces in block:
            for name, shape, transposed in pieces:
                values = to_floats(tensors[name][0], tensors[name][2])
                if transposed:
                    values = [values[c * shape[1] + r] for r in range(shape[1]) for c in range(shape[0])]
                out += values
            out += [0.0] * (-len(out) % 128)
    return struct.pack(f"<{len(out)}f", *out)


def philox(counter, key):
    """Philox4x32-10 (Salmon, Moraes, Dror, Shaw, 2011)."""
    c, k, mask = list(counter), list(key), 0xFFFFFFFF
    for _ in range(10):
        high, low = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(low >> 32) ^ c[1] ^ k[0], low & mask, (high >> 32) ^ c[3] ^ k[1], high & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


def normals(seed, block, first):
    """Returns the normal numbers of elements `first` to `first` + 3 (base/philox.h: purpose 1)."""
    bits = philox([first & 0xFFFFFFFF, first >> 32 | 1 << 8 | block << 16, 0, 0], [seed & 0xFFFFFFFF, seed >> 32])
    out = []
    for a, b in (bits[:2], bits[2:]):
        radius, angle = math.sqrt(-2 * math.log((a + 0.5) / 2**32)), 2 * math.pi * (b + 0.5) / 2**32
        out += [radius * math.cos(angle), radius * math.sin(angle)]
    return out


def initial(config, seed):
    out = []
    layers = config.get("num_hidden_layers") or config["n_layer"]
    gain = 0.0 if config["model_type"] in ("gemma2", "gemma3_text") else 1.0
    padding = config.get("pad_token_id", {"olmo2": 1, "gemma2": 0, "gemma3_text": 0}.get(config["model_type"]))
    for number, block in enumerate(describe(config)):
        begin = len(out)
        for rows, cols, pieces in block:
            name = pieces[0][0]
            at = len(out) - begin
            if len(pieces[0][1]) == 1:
                out += [0.0 if name.endswith("bias") else gain] * rows
            else:
                scale = 0.02 / math.sqrt(2 * layers) if name.endswith("c_proj.weight") else 0.02
                drawn = [scale * x for i in range(at, at + rows * cols, 4) for x in normals(seed, number, i)]
                if padding is not None and name == "model.embed_tokens.weight":
                    drawn[padding * cols:(padding + 1) * cols] = [0.0] * cols
                out += drawn[:rows * cols]
            out += [0.0] * (-len(out) % 128)
    return out


class Failure(Exception):
    pass


def run(program, *arguments):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)


def accept(program, *arguments):
    result = run(program, *arguments)
    if result.returncode:
        raise Failure(f"refused: {result.stderr.strip()}")


def same_bytes(one, other, names=None):
    names = sorted(names or os.listdir(one))
    if names != sorted(n for n in os.listdir(other) if n in names):
        raise Failure(f"{other} has {sorted(os.listdir(other))}, expected {names}")
    for name in names:
        with open(os.path.join(one, name), "rb") as a, open(os.path.join(other, name), "rb") as b:
            if a.read() != b.read():
                raise Failure(f"{name} is not saved as it was")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def check_family(program, root, name, config, rng):
    for dtype in ("F32", "BF16", "F16"):
        if dtype == "F16":
            spoken = config
        else:
            word = "float32" if dtype == "F32" else "bfloat16"
            spoken = {key: word if "dtype" in key else value for key, value in config.items()}
        tensors = make(config, dtype, rng)
        order = [part[0] for part in parts(config)]
        for limit in (None, 6000):
            folder = os.path.join(root, f"{name}-{dtype}-{limit}")
            write_folder(folder, spoken, tensors, order, limit)
            out = folder + "-out"
            os.makedirs(out)
            accept(program, folder, folder + ".flat", out, "bf16" if dtype == "BF16" else "fp32", limit or 0)
            if read(folder + ".flat") != flat(config, tensors):
                raise Failure(f"{name} {dtype}: the flat vectors are not what they should be")
            if dtype != "F16":
                same_bytes(folder, out)
            elif {n: to_floats("F32", t[2]) for n, t in read_folder(out).items()} != \
                    {n: to_floats("F16", t[2]) for n, t in tensors.items()}:
                raise Failure(f"{name}: F16 is not saved as the same numbers")


def check_variants(program, root, rng):
    """Checks spellings of the same weights: no prefix, leftovers of older versions, a tied head's copy."""
    for name, prefix, extra in (("gpt2", "transformer.", ["h.0.attn.bias", "h.3.attn.masked_bias"]),
                                ("llama-bias", "model.", ["layers.0.self_attn.rotary_emb.inv_freq"])):
        config = CONFIGS[name]
        tensors = make(config, "F32", rng)
        expected = flat(config, tensors)
        table = tensors["transformer.wte.weight" if name == "gpt2" else "model.embed_tokens.weight"]
        bare = {n.removeprefix(prefix): t for n, t in tensors.items()}
        leftovers = {n: ("U8", [3], b"\1\2\3") for n in extra}
        prefixed = {prefix + n: t for n, t in leftovers.items()}
        for i, variant in enumerate(({**bare}, {**bare, **leftovers}, {**tensors, **prefixed},
                                     {**tensors, "lm_head.weight": table}, {**bare, "lm_head.weight": table})):
            folder = os.path.join(root, f"{name}-variant-{i}")
            write_folder(folder, config, variant, sorted(variant))
            accept(program, folder, folder + ".flat")
            if read(folder + ".flat") != expected:
                raise Failure(f"{name}: variant {i} does not load as the same weights")


def damages(config):
    """Yields damage to good weights, and what the refusal must name."""
    first = parts(config)[0][0]
    last = parts(config)[-1][0]
    norm = next(name for name, shape, _ in parts(config) if len(shape) == 1)

    def without(tensors):
        del tensors[norm]

    def renamed(tensors):
        tensors[norm + "s"] = tensors.pop(norm)

    def beside(tensors):
        tensors["other.weight"] = ("F32", [1], b"\0\0\0\0")

    def turned(tensors):
        dtype, shape, raw = tensors[first]
        tensors[first] = (dtype, shape[::-1], raw)

    def deeper(tensors):
        dtype, shape, raw = tensors[norm]
        tensors[norm] = (dtype, [1] + shape, raw)

    def double(tensors):
        _, shape, raw = tensors[norm]
        tensors[norm] = ("F64", shape, raw + raw)

    def infinite(tensors):
        dtype, shape, raw = tensors[last]
        tensors[last] = (dtype, shape, raw[:-4] + struct.pack("<f", float("inf")))

    yield without, [norm, "missing"]
    yield renamed, [norm, "missing", f"is it '{norm}s'"]
    yield beside, ["other.weight", "not a tensor of this"]
    yield turned, [first, "shape"]
    yield deeper, [norm, "shape"]
    yield double, [norm, "F64"]
    yield infinite, [last, "not finite"]
    if config.get("tie_word_embeddings", config["model_type"] in TIED):
        def other_head(tensors):
            dtype, shape, raw = tensors[first]
            tensors["lm_head.weight"] = (dtype, shape, bytes([raw[0] ^ 1]) + raw[1:])
        yield other_head, ["lm_head.weight", "tied"]
    else:
        def headless(tensors):
            del tensors["lm_head.weight"]
        yield headless, ["lm_head.weight", "missing", "tied"]


def check_damages(program, root, rng):
    count = 0
    for name, config in CONFIGS.items():
        for damage, words in damages(config):
            tensors = make(config, "F32", rng)
            damage(tensors)
            folder = os.path.join(root, f"{name}-{damage.__name__}")
            write_folder(folder, config, tensors, sorted(tensors))
            result = run(program, folder, folder + ".flat")
            missing = [word for word in words if word not in result.stderr]
            if result.returncode != 1 or missing or result.stderr.count("\n") != 1:
                raise Failure(f"{name} {damage.__name__}: status {result.returncode}: {result.stderr.strip()!r}, "
                              f"without {missing}")
            count += 1
    return count


def check_initial(program, root):
    """Checks that the numbers are equal except for the last bit, which another logarithm may change."""
    for name, config in CONFIGS.items():
        seed = 2**40 + len(name)
        folder = os.path.join(root, name + "-initial")
        write_folder(folder, config, {}, [])
        accept(program, folder, folder + ".flat", seed)
        got, expected = to_floats("F32", read(folder + ".flat")), initial(config, seed)
        if len(got) != len(expected) or any(abs(a - b) > abs(b) * 2**-23 for a, b in zip(got, expected)):
            raise Failure(f"{name}: the initial weights are others")


def check_folder(program, root, folder):
    """Checks a checkpoint from elsewhere: a single file is saved unchanged; of several files, the tensors are equal (a
    writer is free to choose the file of each)."""
    tensors = read_folder(folder)
    single = os.path.isfile(os.path.join(folder, "model.safetensors"))
    out = os.path.join(root, "out-" + os.path.basename(folder.rstrip("/")))
    os.makedirs(out)
    accept(program, folder, out + ".flat", out, "bf16" if {t[0] for t in tensors.values()} == {"BF16"} else "fp32",
           0 if single else 20000)
    if single:
        same_bytes(folder, out, ["model.safetensors"])
    if read_folder(out) != tensors:
        raise Failure(f"{folder}: the tensors are not saved as they were")
    return f"{folder}: {len(tensors)} tensors, {'byte for byte the same file' if single else 'the same'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("folders", nargs="*")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as root:
        try:
            for folder in options.folders:
                print(check_folder(options.program, root, folder))
            if options.folders:
                return 0
            for name, config in CONFIGS.items():
                check_family(options.program, root, name, config, rng)
            check_variants(options.program, root, rng)
            check_initial(options.program, root)
            count = check_damages(options.program, root, rng)
        except Failure as failure:
            print(f"weights_oracle: {failure}", file=sys.stderr)
            return 1
    print(f"{len(CONFIGS)} models, 3 dtypes, one file and several: the same; {count} damaged ones refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
