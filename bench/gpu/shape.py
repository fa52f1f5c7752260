# SPDX-License-Identifier: Apache-2.0
"""A model with the sizes of a batch, and what follows from them."""
import json

STATE_BYTES = 18  # most per parameter, in PyTorch: fp32 weight, gradient and moments, and a bf16 weight
STATE_SHARE = 0.62  # of the device's memory; activations and logits take the rest


def of_gpt2(config):
    width, heads = config["n_embd"], config["n_head"]
    return {"family": "gpt2", "layers": config["n_layer"], "width": width, "heads": heads, "kv_heads": heads,
            "head_dim": width // heads, "mlp_width": config.get("n_inner") or 4 * width, "vocabulary": config["vocab_size"],
            "max_positions": config["n_positions"], "position": "learned", "norm": "layer",
            "norm_epsilon": config["layer_norm_epsilon"], "activation": "gelu_tanh", "qkv_bias": True,
            "attention_output_bias": True, "mlp_bias": True, "tied": True}


def of_llama(config):
    width, heads = config["hidden_size"], config["num_attention_heads"]
    return {"family": "llama", "layers": config["num_hidden_layers"], "width": width, "heads": heads,
            "kv_heads": config.get("num_key_value_heads") or heads, "head_dim": width // heads,
            "mlp_width": config["intermediate_size"], "vocabulary": config["vocab_size"],
            "max_positions": config["max_position_embeddings"], "position": "rope",
            "rope": {"theta": config.get("rope_theta", 10000.0)}, "norm": "rms", "norm_epsilon": config["rms_norm_eps"],
            "activation": "silu_gated", "tied": bool(config.get("tie_word_embeddings"))}


DOCUMENTS = {"gpt2": of_gpt2, "llama": of_llama}  # by model_type


def read_model(path, name):
    """Reads a model document; a Hugging Face configuration becomes a document with its sizes."""
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    if document.get("kind") == "model":
        return document
    return {"kind": "model", "format_version": "1.0", "generator": "gpu-check", "name": name,
            **DOCUMENTS[document["model_type"]](document)}


class Shape:
    def __init__(self, path, batch, seq):
        self.name = path.rsplit("/", 1)[-1].removesuffix(".json")
        self.document = read_model(path, self.name)
        self.path, self.batch, self.seq = path, batch, seq
        if self.document.get("position") == "learned":  # a sequence longer than the model's needs a larger table
            self.document["max_positions"] = max(self.document["max_positions"], seq)

    def get(self, field):
        return self.document.get(field)

    def gated(self):
        return self.get("activation") == "silu_gated"

    def layer_parameters(self):
        """Counts the parameters of a layer's matrices."""
        attention = self.get("width") * self.get("head_dim") * 2 * (self.get("heads") + self.get("kv_heads"))
        return attention + self.get("width") * self.get("mlp_width") * (3 if self.gated() else 2)

    def parameters(self):
        tables = 1 if self.get("tied") else 2
        return self.get("layers") * self.layer_parameters() + tables * self.get("vocabulary") * self.get("width")

    def flops_per_token(self):
        """Counts forward and backward of the products, and of the visible half of attention."""
        products = self.get("layers") * self.layer_parameters() + self.get("vocabulary") * self.get("width")
        return 6 * products + 6 * self.get("layers") * self.get("heads") * self.get("head_dim") * self.seq

    def fit(self, memory_bytes):
        """Removes layers until all that training keeps fits the device, here and in PyTorch."""
        rest = self.parameters() - self.get("layers") * self.layer_parameters()
        fitting = int((STATE_SHARE * memory_bytes / STATE_BYTES - rest) / self.layer_parameters())
        if fitting < self.get("layers"):
            self.document["layers"] = max(fitting, 1)
            self.name += f"-{max(fitting, 1)}-layers"
        self.document["name"] = self.name

    def flags(self):
        return ["--batch", str(self.batch), "--seq", str(self.seq), "--dtype", "bf16", "--effort", "quick"]
