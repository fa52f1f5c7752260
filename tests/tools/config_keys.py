#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random small config.json files of every family: `autohete run` has the losses that transformers has, or the file is
refused by the name of a key.

    config_keys.py --program AUTOHETE [--cases N] [--seed S] [--families FAMILY,...]

Half of the files of gemma3_text are inside that of a model that reads images, too.

Keys and their effects come from the table in docs/huggingface.md, in turn, so that enough cases cover all of them.
Weights are made in the class that transformers chooses for the file; then both train three steps. A file that
transformers does not load must be refused. Exit 77 if torch and transformers 5 are not installed; AH_TRANSFORMERS may
name a Python that has them.
"""
import argparse
import collections
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from scale import scaled  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
STEPS, BATCH, SEQ = 3, 2, 24
TRAINING = {"seq": SEQ, "data": "data.u16", "lr": 0.01, "schedule": "constant", "warmup_steps": 0, "beta1": 0.9,
            "beta2": 0.95, "epsilon": 1e-3, "weight_decay": 0.0}
ALLOWED = 2e-5  # relative: ours in fp32 against float64
QUIET = ("computed", "not applied", "no effect", "warning", "the family's class")
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}


def table():
    """Returns family -> key -> effect, from the page."""
    rows = [[cell.strip() for cell in line.strip("| \n").split("|")]
            for line in (ROOT / "docs/huggingface.md").read_text().splitlines() if line.startswith("| ")]
    head = next(i for i, row in enumerate(rows) if row[0] == "key")
    return {family: {row[0].strip("`"): row[column] for row in rows[head + 1:]}
            for column, family in enumerate(rows[head]) if column}


def full(_, config):
    return ["full_attention"] * (config.get("num_hidden_layers") or config["n_layer"])


def layer_types(rng, config):
    whole = full(rng, config)
    return rng.choice((whole, ["sliding_attention"] * len(whole),
                       [["full_attention", "sliding_attention"][rng.getrandbits(1)] for _ in whole]))


def rope(rng, config):
    if config["model_type"] == "phi3" and rng.random() < 0.8:
        return rng.choice((None, {}, {"rope_type": "default", "rope_theta": 900},
                           *[{**scaled, "rope_type": "longrope"} for scaled in scaled_ropes(config)[4:]]))
    return rng.choice((
        None, {}, {"rope_type": "default"}, {"rope_theta": 300.0}, {"rope_type": "default", "rope_theta": 900},
        {"type": "linear", "factor": 2.0}, {"rope_type": "linear", "factor": 3, "rope_theta": 200.0},
        {"rope_type": "linear", "type": "default", "factor": 0.5}, {"rope_type": "default", "factor": 4.0},
        {"rope_type": "linear", "factor": 2.0, "attention_factor": 3.0, "partial_rotary_factor": 1.0},
        LLAMA3, {**LLAMA3, "rope_theta": 700.0, "factor": 8}, *scaled_ropes(config)))


def scaled_ropes(config):
    """Settings of yarn and longrope. Sequences have 24 tokens: more than 16 are long, up to 28 are short."""
    share = config.get("partial_rotary_factor", 1) if config["model_type"] == "phi3" else 1
    pairs = int((config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]) * share) // 2
    lists = {"short_factor": [1 + i / 3 for i in range(pairs)], "long_factor": [2 + i for i in range(pairs)]}
    return (
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8},
        {"type": "yarn", "factor": 3, "rope_theta": 50.0, "beta_fast": 4, "beta_slow": 0.5, "truncate": False},
        {"rope_type": "yarn", "factor": 2.0, "mscale": 2.0, "mscale_all_dim": 0.7, "beta_fast": None},
        {"rope_type": "yarn", "factor": 2.0, "attention_factor": 0.8, "original_max_position_embeddings": 16},
        {"rope_type": "longrope", "original_max_position_embeddings": 16, **lists},
        {"type": "longrope", "original_max_position_embeddings": 28, "factor": 6.0, "rope_theta": 90.0, **lists},
        {"rope_type": "longrope", "attention_factor": 1.3, **lists})


def rope_pair(rng, config):
    """The ropes of gemma3_text."""
    if rng.random() < 0.2:
        return rope(rng, config)
    one, other = rope(rng, config), rope(rng, config)
    return rng.choice(({"full_attention": one, "sliding_attention": other}, {"full_attention": one},
                       {"sliding_attention": other}, None, {}))


def one_of(*values):
    return lambda rng, _: rng.choice(values)


# Values that a file may have. A key without an entry takes ANY.
VALUES = {
    "initializer_range": one_of(0.02, 0.5), "tie_word_embeddings": one_of(True, False), "n_inner": one_of(None, 20, 48),
    "activation_function": one_of("gelu_new", "gelu", "gelu_pytorch_tanh"), "hidden_act": one_of("silu", "swish"),
    "layer_norm_epsilon": one_of(1e-5, 0.1), "rms_norm_eps": one_of(1e-6, 0.1), "resid_pdrop": one_of(0, 0.0, 0.3),
    "embd_pdrop": one_of(0, 0.3), "attn_pdrop": one_of(0, 0.3), "attention_dropout": one_of(0, 0.0, 0.3),
    "rope_theta": one_of(300.0, 900), "rope_scaling": rope, "layer_types": layer_types,
    "rope_parameters": lambda rng, config: (rope_pair if config["model_type"] == "gemma3_text" else rope)(rng, config),
    "rope_local_base_freq": one_of(70.0, 900), "original_max_position_embeddings": one_of(16, 28, 32),
    "partial_rotary_factor": one_of(0.5, 0.75, 0.7, 1.0), "sliding_window_pattern": one_of(1, 2, 3), "no_rope_layer_interval": one_of(1, 2, 3),
    "no_rope_layers": lambda rng, config: rng.choice((None, [rng.getrandbits(1) for _ in full(rng, config)])),
    "query_pre_attn_scalar": one_of(3, 16, 224), "attn_logit_softcapping": one_of(0.7, 5.0, 50.0, None),
    "final_logit_softcapping": one_of(1.5, 30.0, None), "hidden_activation": one_of("gelu_pytorch_tanh", "gelu_new"),
    "attention_bias": one_of(True, False), "mlp_bias": one_of(True, False), "sliding_window": one_of(1, 4, 9, 40, None),
    "use_sliding_window": one_of(True, True, False), "max_window_layers": one_of(0, 1, 2, 28),
    "head_dim": one_of(2, 6, 8, 12), "pad_token_id": one_of(49, -1, None), "architectures": one_of(None, []),
    "num_key_value_heads": one_of(1, 2), "use_cache": one_of(True, False), "return_dict": one_of(True),
    "output_attentions": one_of(True, False), "output_hidden_states": one_of(True, False, None),
    "_attn_implementation": one_of("eager", None), "attn_implementation": one_of("eager", None),
    "torch_dtype": one_of("bfloat16", "float32", None), "dtype": one_of("bfloat16", "float32", None),
    "transformers_version": one_of("4.40.0", None), "id2label": one_of({"0": "a", "1": "b"}, None),
    "label2id": one_of({"a": 0, "b": 1}, None), "num_labels": one_of(2, 3), "problem_type": one_of(None, "regression"),
    "bos_token_id": one_of(0, 3, None), "eos_token_id": one_of(0, 3, [1, 2], None), "chunk_size_feed_forward": one_of(0, 5),
    "pretraining_tp": one_of(1, 2), "reorder_and_upcast_attn": one_of(True, False), "summary_type": one_of("mean", "last"),
    "summary_use_proj": one_of(True, False), "summary_activation": one_of("tanh", None),
    "summary_proj_to_labels": one_of(True, False), "summary_first_dropout": one_of(0.1, 0), "_num_labels": one_of(2, 3),
    "name_or_path": one_of("a/b", ""), "_name_or_path": one_of("a/b", ""),
    **dict.fromkeys(("do_sample", "early_stopping", "output_scores", "remove_invalid_values", "return_dict_in_generate"),
                    one_of(True, False)),
    **dict.fromkeys(("max_length", "max_new_tokens", "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
                     "encoder_no_repeat_ngram_size", "top_k"), one_of(1, 2)),
    **dict.fromkeys(("diversity_penalty", "length_penalty", "repetition_penalty", "temperature", "top_p", "typical_p"),
                    one_of(0.5, 1.0)),
    **dict.fromkeys(("forced_bos_token_id", "forced_eos_token_id", "decoder_start_token_id", "unk_token_id", "sep_token_id"),
                    one_of(1, None)),
    "num_return_sequences": one_of(1), "bad_words_ids": one_of([[1, 2]], None), "begin_suppress_tokens": one_of([2], None), "suppress_tokens": one_of([2], None),
    "exponential_decay_length_penalty": one_of([3, 1.5], None),
}
ANY = one_of(True, False, 3, 0.5, "text", [1], {"a": 1}, None)
# Values that may change the model, or that transformers refuses.
WILD = {
    "head_dim": one_of(None, 7, 3), "sliding_window": one_of(0, None), "hidden_act": one_of("gelu", "relu", None),
    "activation_function": one_of("relu", None), "rope_theta": one_of(None), "num_key_value_heads": one_of(None, 3),
    "rope_parameters": one_of({"rope_type": "yarn"}, {"rope_theta": None}, {"rope_type": None},
                              {"rope_type": "linear"}, {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5},
                              {"full_attention": {"rope_type": "linear", "factor": 2.0}}, {"factor": 2.0}),
    "layer_types": one_of(["full_attention"], [], None, ["linear_attention"] * 2, ["chunked_attention"] * 3),
    "pad_token_id": one_of(77, -77, 1.5), "architectures": one_of(["Other"], "x"), "hidden_size": one_of(48, None),
    "use_sliding_window": one_of(None), "max_window_layers": one_of(None), "model_type": one_of("ministral", "gemma"),
}
WILD["rope_scaling"] = WILD["rope_parameters"]
HARMLESS = {"only empty": one_of({}, None), "only false": one_of(False), "only true": one_of(True), "only 0": one_of(0, None),
            "only 1": one_of(1, 1.0, None), "refused": one_of(None), "refused, null too": one_of(None), "only full attention": full,
            "an object, with a warning": one_of({}, {"AutoConfig": "configuration_x.X", "AutoModelForCausalLM": "modeling_x.X"})}
REFUSED = {"only empty": one_of({"0": [1]}), "only false": one_of(True), "only true": one_of(False, None),
           "only 0": one_of(2), "only 1": one_of(0.5), "refused": one_of(2, 0.5, {"a": 1}), "refused, null too": one_of(2, {"a": 1}), "only full attention": layer_types,
           "an object, with a warning": one_of(None, 3, "modeling_x.X")}
SIZES = {"vocab_size", "n_embd", "n_layer", "n_head", "n_positions", "hidden_size", "num_hidden_layers",
         "num_attention_heads", "max_position_embeddings", "intermediate_size", "model_type"}


def sizes(rng, family):
    heads = rng.choice((2, 4))
    if family == "gpt2":
        return {"model_type": family, "n_embd": heads * rng.choice((6, 7, 8)), "n_layer": rng.randint(1, 3), "n_head": heads,
                "n_positions": 32, "vocab_size": 50}
    config = {"model_type": family, "hidden_size": rng.choice((24, 32)), "num_hidden_layers": rng.randint(1, 3),
              "num_attention_heads": heads, "intermediate_size": rng.choice((20, 40)), "vocab_size": 50,
              "max_position_embeddings": 32, "num_key_value_heads": rng.choice((1, 2)), "head_dim": rng.choice((6, 8, 12))}
    for absent in ("num_key_value_heads", "head_dim"):
        if rng.random() < 0.15 and not (absent == "head_dim" and family in ("gemma2", "gemma3_text")):
            del config[absent]
    if family in ("smollm3", "phi3"):  # their default is beyond a small vocabulary
        config["pad_token_id"] = None
    return config


def inside(config):
    """Returns the config.json of a model that reads images and has this one inside."""
    vision = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28,
              "patch_size": 14}
    return {"model_type": "gemma3", "text_config": config, "vision_config": vision, "mm_tokens_per_image": 4,
            "image_token_index": config["vocab_size"] + 5}


class Deck:
    """Deals keys in a random order, each once before any is repeated."""

    def __init__(self, rng, keys):
        self.rng, self.keys, self.left = rng, keys, []

    def deal(self, count):
        while len(self.left) < count:
            self.left = self.rng.sample(self.keys, len(self.keys)) + self.left
        return [self.left.pop() for _ in range(count)]


class Drawer:
    def __init__(self, rng):
        self.rng, self.table, self.decks = rng, table(), {}
        for family, keys in self.table.items():
            acting = [key for key, what in keys.items() if what.startswith("computed") and key not in SIZES]
            quiet = [key for key, what in keys.items() if what.startswith(QUIET[1:]) and key not in SIZES]
            other = [key for key, what in keys.items() if not what.startswith(QUIET) and key not in SIZES]
            self.decks[family] = Deck(rng, acting), Deck(rng, quiet), Deck(rng, other)

    def draw(self, family):
        rng, config, drawn = self.rng, sizes(self.rng, family), []
        acting, quiet, other = (deck.deal(count) for deck, count in zip(self.decks[family], (4, 10, 1)))
        for key in acting + quiet:
            if rng.random() < 0.9:
                config[key] = VALUES.get(key, ANY)(rng, config)
                drawn.append(key)
        for key in other:
            what = self.table[family][key]
            config[key] = (REFUSED if rng.random() < 0.25 else HARMLESS)[what](rng, config)
            drawn.append(key)
        if rng.random() < 0.3:
            key = rng.choice(sorted(WILD))
            config[key] = WILD[key](rng, config)
            drawn.append(key)
        keys = list(config)
        rng.shuffle(keys)
        return {key: config[key] for key in keys}, drawn


def make_weights(folder, seed):
    """Makes weights in the class that the library chooses: normal numbers, so large that every key matters."""
    config = transformers.AutoConfig.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_config(config).float()
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator) * (0.3 if parameter.dim() > 1 else 0.1)
        values += parameter.dim() == 1 and not name.endswith("bias") and not config.model_type.startswith("gemma")
        weights[name] = (tuple(parameter.shape), values.flatten().tolist())
    files.write_weights(str(folder), weights, "F32")


def their_losses(folder, samples):
    model = oracle_transformers.load(folder).eval()
    data = oracle_train.Data(folder, TRAINING)
    adamw, schedule = oracle_transformers.optimizer_of(dict(model.named_parameters()), TRAINING)
    losses = []
    for step in samples:
        schedule.step()
        tokens, _, targets, _ = data.batch(step, torch.float64)
        with oracle_transformers.double_for_float():
            scores = model(input_ids=tokens, use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())
        adamw.zero_grad()
        loss.backward()
        adamw.step()
        losses.append(loss.item())
    return losses


def theirs(folder, seed, samples):
    """Returns the library's losses, or why there are none."""
    try:
        make_weights(folder, seed)
        return their_losses(folder, samples), None
    except Exception as error:  # pylint: disable=broad-except  # whatever the library does with the file
        return None, f"{type(error).__name__}: {error}".replace("\n", " ")[:160]


class Failed(Exception):
    pass


def call(program, folder, *words):
    done = subprocess.run([program, *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise Failed(done.returncode, done.stderr.strip())


def our_losses(program, folder):
    flags = "--schedule constant --warmup 0 --weight-decay 0 --betas 0.9,0.95 --clip none".split()
    call(program, folder, "plan", "config.json", "--machine", ROOT / "tests/cli/documents/machine-cpu.json", "--batch", BATCH,
         "--seq", SEQ, "--dtype", "fp32", "--policy", "resident", "--effort", "quick", *flags[-2:], "-o", "plan.json")
    call(program, folder, "run", "plan.json", "--weights", ".", "--data", TRAINING["data"], "--steps", STEPS, "--lr",
         TRAINING["lr"], "--epsilon", TRAINING["epsilon"], "--save", "out", "--log", "log.ndjson", *flags[:-2])
    lines = map(json.loads, (folder / "log.ndjson").read_text().splitlines())
    return [line["loss"] for line in lines if line.get("line") == "step"]


def named(text, config, known):
    """Returns the key that a refusal names."""
    found = re.match(r"error: config\.json: ([\w.]+?)[:.\[]", text)
    return found and (found[1] in config or found[1] in known)


def judge(program, folder, config, known, wanted, why):
    """Returns ("equal" or "refused", None), or ("broken", what is wrong)."""
    try:
        losses = our_losses(program, folder)
    except Failed as failure:
        status, text = failure.args
        if status == 3 and named(text, config, known):
            return "refused", None
        return "broken", f"exit {status}: {text}"
    if why:
        return "broken", f"transformers does not take it ({why}), and it is not refused"
    apart = max(abs(a - b) / b for a, b in zip(losses, wanted))
    return ("equal", None) if apart <= ALLOWED else ("broken", f"losses {losses}, in transformers {wanted}")


def write_data(folder, rng, vocabulary):
    """Writes data. A fifth of the tokens are the last token, which may be the padding token."""
    tokens = [rng.choice((vocabulary - 1, *[rng.randrange(vocabulary) for _ in range(4)])) for _ in range(STEPS * BATCH * SEQ + 1)]
    files.write_numbers(os.path.join(folder, TRAINING["data"]), "H", tokens)
    return [[order.sample_at(0, STEPS * BATCH, step * BATCH + row) for row in range(BATCH)] for step in range(STEPS)]


def compare(options):
    rng = random.Random(options.seed)
    drawer, counts, seen = Drawer(rng), collections.Counter(), collections.defaultdict(set)
    families = options.families.split(",") if options.families else list(drawer.table)
    for case in range(options.cases):
        family = families[case % len(families)]
        config, drawn = drawer.draw(family)
        vocabulary, taken = config["vocab_size"], config["model_type"] in drawer.table
        if config["model_type"] == "gemma3_text" and rng.random() < 0.5:
            config = inside(config)
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "config.json").write_text(json.dumps(config))
            samples = write_data(folder, rng, vocabulary)
            # Without the keys of another family, the library would make a model of full size.
            wanted, why = theirs(folder, case, samples) if taken else (None, "another family")
            verdict, wrong = judge(options.program, folder, config, drawer.table[family], wanted, why)
        counts[verdict] += 1
        counts[f"{verdict} in {family}"] += 1
        counts["not taken by transformers"] += why is not None
        seen[verdict].update((family, key) for key in drawn if key not in SIZES)
        if wrong:
            print(f"case {case}: {json.dumps(config)}\n  {wrong}")
    for name in sorted(counts):
        print(f"{name}: {counts[name]}")
    pairs = sum(len(keys - SIZES.intersection(keys)) for keys in map(set, drawer.table.values()))
    print(f"{options.cases} configurations: {counts['equal']} equal, {counts['refused']} refused by name, "
          f"{counts['broken']} broken; {len(seen['equal'])} of {pairs} keys of families in equal ones, "
          f"{len(seen['refused'] - seen['equal'])} more in refused ones")
    return 1 if counts["broken"] or not counts["equal"] or not counts["refused"] and options.cases >= 20 else 0


def find_library():
    """Imports torch and transformers 5, or runs this script again in the Python that AH_TRANSFORMERS names."""
    try:
        import torch  # noqa: F401
        import transformers
        if int(transformers.__version__.split(".")[0]) == 5:
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
    parser.add_argument("--cases", type=int, default=scaled(200))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("AH_TEST_SEED", "1")))
    parser.add_argument("--families", help="only these")
    options = parser.parse_args()
    print(f"AH_TEST_SEED={options.seed}")
    return compare(options)


if __name__ == "__main__":
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="critical")
    if not find_library():
        print("torch and transformers 5 are not installed; AH_TRANSFORMERS may name a Python that has them")
        sys.exit(77)
    import torch
    import transformers
    import oracle_files as files
    import oracle_order as order
    import oracle_train
    import oracle_transformers
    warnings.simplefilter("ignore")
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    sys.exit(main())
