# SPDX-License-Identifier: Apache-2.0
"""Files of the training oracle, with nothing but the standard library: safetensors, folders of weights, tokens.

A tensor here is (shape, values): a tuple of sizes and an array('d'), row-major. Doubles hold every value of the types
that files have, so reading loses nothing; writing rounds to nearest even.
"""
import array
import json
import os
import struct
import sys

assert sys.byteorder == "little"
PEFT, HEAD = "base_model.model.", "lm_head.weight"  # what names in an adapter's file begin with; the head's name
MAGIC, HEADER = b"AHTOKENS", 64  # of token files that `autohete tokenize` makes: what they begin with, and bytes before tokens
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}


def _bf16_bits(value):
    bits, = struct.unpack("<I", struct.pack("<f", value))
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _decode(dtype, data):
    if dtype in ("F64", "F32"):
        return array.array("d", array.array("d" if dtype == "F64" else "f", data))
    if dtype == "F16":
        return array.array("d", struct.unpack(f"<{len(data) // 2}e", data))
    halves = array.array("H", data)
    return array.array("d", array.array("f", array.array("I", (half << 16 for half in halves)).tobytes()))


def _encode(dtype, values):
    if dtype in ("F64", "F32"):
        return array.array("d" if dtype == "F64" else "f", values).tobytes()
    if dtype == "F16":
        return struct.pack(f"<{len(values)}e", *values)
    return array.array("H", map(_bf16_bits, values)).tobytes()


def read_tensors(path):
    """name -> (shape, values) of a safetensors file."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = (tuple(entry["shape"]), _decode(entry["dtype"], data[begin:end]))
    return tensors


def write_tensors(path, tensors, dtype):
    """Sorted by name, packed; the header is padded so that the data are aligned to 8 bytes."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name in sorted(tensors):
        shape, values = tensors[name]
        end = at + len(values) * BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(tensors):
            file.write(_encode(dtype, tensors[name][1]))


def read_weights(folder, name="model"):
    """Reads the weights of a Hugging Face folder: one file, or the shards in its index."""
    index = os.path.join(folder, f"{name}.safetensors.index.json")
    if not os.path.exists(index):
        return read_tensors(os.path.join(folder, f"{name}.safetensors"))
    tensors = {}
    for shard in sorted(set(read_json(index)["weight_map"].values())):
        tensors.update(read_tensors(os.path.join(folder, shard)))
    return tensors


def with_adapter(weights, folder, name="adapter_model"):
    """Returns the weights with those of the folder's adapter, if there is one: its matrices under peft's names, and
    what is trained whole under the names of the base. The head's equal copy of a tied table is left out."""
    path = os.path.join(folder, f"{name}.safetensors")
    adapter = {key if ".lora_" in key else key.removeprefix(PEFT): tensor
               for key, tensor in (read_tensors(path) if os.path.exists(path) else {}).items()}
    if HEAD in adapter and HEAD not in weights and list(adapter.values()).count(adapter[HEAD]) > 1:
        del adapter[HEAD]
    return {**weights, **adapter}


def write_weights(folder, tensors, dtype, shards=1):
    """Writes model.safetensors, or `shards` shards of about equally many tensors, and their index."""
    if shards == 1:
        write_tensors(os.path.join(folder, "model.safetensors"), tensors, dtype)
        return
    names, weight_map = sorted(tensors), {}
    for shard in range(shards):
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        chosen = names[shard * len(names) // shards:(shard + 1) * len(names) // shards]
        write_tensors(os.path.join(folder, file), {name: tensors[name] for name in chosen}, dtype)
        weight_map.update(dict.fromkeys(chosen, file))
    total = sum(len(values) for _, values in tensors.values()) * BYTES[dtype]
    write_json(os.path.join(folder, "model.safetensors.index.json"),
               {"metadata": {"total_size": total}, "weight_map": weight_map})


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write_json(path, value):
    """Writes one line for each key."""
    with open(path, "w", encoding="utf-8") as file:
        lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value[key])}" for key in value)
        file.write(f"{{\n{lines}\n}}\n")


def read_numbers(path, code):
    """A raw file of "H" (u16 tokens), "B" (mask) or "Q" (starts of documents)."""
    with open(path, "rb") as file:
        return array.array(code, file.read())


def read_aligned(path):
    """Reads the tokens of a file with a header, and the length of the sequences to which they are aligned."""
    with open(path, "rb") as file:
        header, tokens = file.read(HEADER), array.array("H", file.read())
    magic, version, width, count, _, align = struct.unpack_from("<8sIIQQQ", header)
    assert (magic, version, width, count) == (MAGIC, 1, 2, len(tokens)), path
    return tokens, align


def write_numbers(path, code, numbers):
    with open(path, "wb") as file:
        file.write(array.array(code, numbers).tobytes())
