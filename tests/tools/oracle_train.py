# SPDX-License-Identifier: Apache-2.0
"""Training of a case, in the type asked for: data, schedule, clipping and AdamW by their textbook definitions.

Rate of step t, from 1, of `steps` (schedule "cosine"; "constant" is its first two lines):

    t <= warmup_steps:  lr t / warmup_steps
    constant:           lr
    cosine:             lr (floor + (1 - floor) (1 + cos(pi (t - warmup_steps) / (steps - warmup_steps))) / 2)

so that the first step has lr / warmup_steps, step warmup_steps has lr and the last one floor lr.

The gradient is that of the mean loss over the whole batch; micro-batches are sums of its parts and do not exist here.
Norm: the root of the sum of squares of the gradients of all trained tensors. With a limit, gradients are multiplied by
min(1, limit / (norm + 1e-6)). Then, with beta^t etc. in double:

    m = beta1 m + (1 - beta1) g        v = beta2 v + (1 - beta2) g^2
    p = p (1 - rate decay) - rate (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)

where decay is weight_decay for matrices, tables and adapters among them, and 0 for vectors.
"""
import math
import os

import torch

import oracle_files as files
import oracle_model as model
import oracle_order as order
import oracle_packed as packed
import oracle_shape as shapes


def learning_rate(training, step):
    lr, warmup, steps = training["lr"], training["warmup_steps"], training["steps"]
    if step <= warmup:
        return lr * step / warmup
    if training["schedule"] == "constant":
        return lr
    floor = training["floor"]
    return lr * (floor + (1 - floor) * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2)


class Data:
    """Data: u16 tokens, the bytes of a .txt, or a file with a header, whose examples are aligned to sequences. Sample i is tokens [i seq, (i + 1) seq), with the next token of each as
    its target. Documents begin at the u64 places in .docs. A sample that begins inside a document sees nothing before
    itself, and its positions begin at 0. A target bears no loss if the mask (a u8 for each token) is 0 there, or if it
    is the first token of a document."""

    def __init__(self, folder, training, name="data"):
        path = os.path.join(folder, training[name])

        def numbers(code, ending=""):
            return files.read_numbers(path + ending, code) if os.path.exists(path + ending) else None
        self.seq = training["seq"]
        self.aligned = os.path.basename(path) == packed.DATA
        tokens = files.read_aligned(path)[0] if self.aligned else numbers("B" if path.endswith(".txt") else "H")
        self.tokens = torch.tensor(tokens.tolist())
        mask, self.docs = numbers("B", ".mask"), numbers("Q", ".docs") or []
        self.bears = torch.ones(len(self.tokens)) if mask is None else torch.tensor(mask.tolist())
        self.bears[list(self.docs)] = 0
        if self.aligned:  # nothing follows the last sequence, so its last token predicts nothing
            self.tokens, self.bears = (torch.cat((values, values.new_zeros(1))) for values in (self.tokens, self.bears))
        self.samples = (len(self.tokens) - 1) // self.seq

    def batch(self, samples, dtype):
        """Returns tokens, starts, targets, bears_loss of these samples: (batch, seq) each. The sample after the last
        one is shorter."""
        seq = min(self.seq, len(self.tokens) - 1 - samples[-1] * self.seq)

        def rows(values, ahead):
            return torch.stack([values[i * self.seq + ahead:i * self.seq + seq + ahead] for i in samples])
        starts = torch.zeros(len(samples), seq, dtype=torch.long)
        for row, sample in enumerate(samples):
            for start in self.docs:
                if sample * self.seq < start < sample * self.seq + seq:
                    starts[row, start - sample * self.seq:] = start - sample * self.seq
        return rows(self.tokens, 0), starts, rows(self.tokens, 1), rows(self.bears, 1).to(dtype)


def samples_of_steps(training, data):
    """Yields the samples of each step, as listed or in the order of the seed."""
    for step in range(training["steps"]):
        cursor = step * training["batch"]
        yield training["samples"][step] if "samples" in training else [
            order.sample_at(training["seed"], data.samples, cursor + row) for row in range(training["batch"])]


@torch.no_grad()
def held_out_loss(shape, weights, data, batch, dtype):
    """Returns the loss of every token but the first, in order: whole samples, then the rest."""
    groups = [range(first, min(first + batch, data.samples)) for first in range(0, data.samples, batch)]
    if data.samples * data.seq < len(data.tokens) - 1:
        groups.append([data.samples])
    total, count = 0.0, 0
    for group in groups:
        tokens, starts, targets, bears = data.batch(group, dtype)
        number = int(bears.sum().item())
        if number:
            total += model.loss(model.logits(shape, weights, tokens, starts), targets, bears).item() * number
        count += number
    return total / count


class AdamW:
    def __init__(self, weights, trained, decayed, training):
        self.weights, self.trained, self.decayed, self.training = weights, trained, decayed, training
        self.m = {name: torch.zeros_like(weights[name]) for name in trained}
        self.v = {name: torch.zeros_like(weights[name]) for name in trained}

    @torch.no_grad()
    def step(self, t, gradients):
        beta1, beta2, epsilon = (self.training[key] for key in ("beta1", "beta2", "epsilon"))
        rate = learning_rate(self.training, t)
        for name in self.trained:
            p, g, m, v = self.weights[name], gradients[name], self.m[name], self.v[name]
            m.mul_(beta1).add_(g, alpha=1 - beta1)
            v.mul_(beta2).add_(g * g, alpha=1 - beta2)
            if name in self.decayed:
                p.mul_(1 - rate * self.training["weight_decay"])
            p.sub_(rate * (m / (1 - beta1 ** t)) / ((v / (1 - beta2 ** t)).sqrt() + epsilon))


def load(folder, training, dtype):
    """Returns shape, tensors and weights, with adapters if there are any."""
    shape = shapes.read_shape(files.read_json(os.path.join(folder, "config.json")))
    shape.lora_scale = shapes.lora_scale(training)
    weights = {name: torch.tensor(values, dtype=dtype).reshape(size)
               for name, (size, values) in files.with_adapter(files.read_weights(folder), folder).items()}
    tensors = shapes.tensors_of(shape) + shapes.adapters_of(shape, training)
    wanted = {part: shapes.file_shape(tensor, part) for tensor in tensors for part in tensor.parts}
    assert wanted == {name: tuple(value.shape) for name, value in weights.items()}, folder
    return shape, tensors, weights


def zero_gradients(shape, tensors):
    """Returns the biases of keys that are not rotated: they add the same to all scores of a query. Element ranges by
    name."""
    if shape.rope:
        return [{"name": f"model.layers.{i}.self_attn.k_proj.bias", "begin": 0, "end": shape.kv_heads * shape.head_dim}
                for i in shape.unrotated if shape.qkv_bias]
    return [{"name": part, "begin": shape.width, "end": 2 * shape.width}
            for tensor in tensors if tensor.ours.endswith("attention.qkv.bias") for part in tensor.parts]


def clipped(gradients, limit):
    """Returns the norm before and the gradients after clipping."""
    norm = math.sqrt(sum(g.double().square().sum().item() for g in gradients.values()))
    factor = min(1.0, limit / (norm + 1e-6)) if limit else 1.0
    return norm, {name: g * factor for name, g in gradients.items()}


def trained_of(training, tensors):
    return [part for tensor in tensors if shapes.is_trained(training["trainable"], tensor.ours)
            for part in tensor.parts]


def gradients_of(loss, weights, trained):
    return dict(zip(trained, torch.autograd.grad(loss, [weights[name] for name in trained])))


def whole(folder, dtype=torch.float64):
    """Returns loss and gradients of the initial weights on all samples of the data as one batch."""
    training = files.read_json(os.path.join(folder, "training.json"))
    shape, tensors, weights = load(folder, training, dtype)
    trained, data = trained_of(training, tensors), Data(folder, training)
    for name in trained:
        weights[name].requires_grad_()
    tokens, starts, targets, bears = data.batch(range(data.samples), dtype)
    loss = model.loss(model.logits(shape, weights, tokens, starts), targets, bears)
    return loss.item(), gradients_of(loss, weights, trained)


def alone(folder, dtype=torch.float64):
    """Returns the same of packed data without packing: each example is a batch of its own, without padding and with
    positions from 0. Losses of all tokens that bear one are added up, and divided by their number."""
    training = files.read_json(os.path.join(folder, "training.json"))
    shape, tensors, weights = load(folder, training, dtype)
    trained = trained_of(training, tensors)
    for name in trained:
        weights[name].requires_grad_()
    examples = packed.cut(packed.read_examples(os.path.join(folder, training["examples"])), training["seq"])
    total, count = 0.0, 0
    for ids, bears in examples:
        tokens, targets, bears = (torch.tensor([row]) for row in (ids[:-1], ids[1:], bears[1:]))
        number = int(bears.sum().item())
        scores = model.logits(shape, weights, tokens, torch.zeros_like(tokens))
        total, count = total + model.loss(scores, targets, bears) * number, count + number
    loss = total / count
    return loss.item(), gradients_of(loss, weights, trained)


def train(folder, dtype=torch.float64, every=None):
    """Returns what expected.json has, gradients of the first step, weights after the last, and logits of the first
    sequence. With held-out data ("valid" in training.json), also their loss before the first step, at regular intervals
    and at the end."""
    training = files.read_json(os.path.join(folder, "training.json"))
    shape, tensors, weights = load(folder, training, dtype)
    data = Data(folder, training)
    valid = Data(folder, training, "valid") if training.get("valid") else None
    trained = trained_of(training, tensors)
    decayed = {part for tensor in tensors if tensor.matrix for part in tensor.parts}
    for name in trained:
        weights[name].requires_grad_()
    adamw = AdamW(weights, trained, decayed, training)
    result = {"losses": [], "gradient_norms": [], "rates": [], "tokens": [],
              "zero_gradients": [entry for entry in zero_gradients(shape, tensors) if entry["name"] in trained]}
    first, held_out = None, {}
    for t, samples in enumerate(samples_of_steps(training, data), start=1):
        if valid and (t - 1) % (every or training["steps"]) == 0:
            held_out[t - 1] = held_out_loss(shape, weights, valid, training["batch"], dtype)
        tokens, starts, targets, bears_loss = data.batch(samples, dtype)
        scores = model.logits(shape, weights, tokens, starts)
        loss = model.loss(scores, targets, bears_loss)
        gradients = gradients_of(loss, weights, trained)
        first = first or (gradients, scores[0].detach())
        norm, gradients = clipped(gradients, training["clip"])
        adamw.step(t, gradients)
        for key, value in (("losses", loss.item()), ("gradient_norms", norm),
                           ("rates", learning_rate(training, t)), ("tokens", int(bears_loss.sum().item()))):
            result[key].append(value)
    if valid:
        held_out[training["steps"]] = held_out_loss(shape, weights, valid, training["batch"], dtype)
        result["held_out"] = held_out
    return result, first[0], {name: weights[name].detach() for name in trained}, first[1]
