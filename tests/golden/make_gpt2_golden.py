#!/usr/bin/env python3
"""Writes the golden files that tests/trainer/golden_test.cc compares the engine with.

An implementation of its own, in double precision: GPT-2 in plain tensor operations with PyTorch's automatic
differentiation, and AdamW, clipping, learning rate and data order written out as CONTRACT.md states them. It shares
nothing with the engine. Files, all beside this script:

    gpt2_tokens.u16            the data: little-endian token ids
    gpt2_initial.safetensors   weights before the first step, F64, with Hugging Face's names
    gpt2_final.safetensors     weights after the last step
    gpt2_run.json              the run's settings, and the loss and gradient norm of each step

Run it with the system's Python (Debian's python3-torch): /usr/bin/python3 tests/golden/make_gpt2_golden.py
"""
import array
import json
import math
import pathlib
import struct
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
MODEL = {"layers": 2, "hidden": 24, "heads": 3, "vocab": 37, "max_seq_len": 12, "norm_eps": 1e-5}
RUN = {"seq_len": 8, "global_batch": 4, "steps": 10, "lr": 0.01, "min_lr": 0.001, "lr_schedule": "cosine",
       "warmup_steps": 3, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95, "adam_eps": 1e-8, "clip_norm": 1.5}
TOKENS = 101  # fewer than the run reads, and no multiple of the sequence: the data wraps around


def make_weights(generator):
    """Weights that leave nothing at zero or one, so that no mistake hides."""
    hidden, layers = MODEL["hidden"], MODEL["layers"]

    def normal(*shape, std=0.15, mean=0.0):
        return (torch.randn(*shape, dtype=torch.float64, generator=generator) * std + mean).requires_grad_()

    weights = {"transformer.wte.weight": normal(MODEL["vocab"], hidden),
               "transformer.wpe.weight": normal(MODEL["max_seq_len"], hidden)}
    for layer in range(layers):
        prefix = f"transformer.h.{layer}."
        weights[prefix + "ln_1.weight"] = normal(hidden, mean=1.0)
        weights[prefix + "ln_1.bias"] = normal(hidden)
        weights[prefix + "attn.c_attn.weight"] = normal(hidden, 3 * hidden)
        weights[prefix + "attn.c_attn.bias"] = normal(3 * hidden)
        weights[prefix + "attn.c_proj.weight"] = normal(hidden, hidden)
        weights[prefix + "attn.c_proj.bias"] = normal(hidden)
        weights[prefix + "ln_2.weight"] = normal(hidden, mean=1.0)
        weights[prefix + "ln_2.bias"] = normal(hidden)
        weights[prefix + "mlp.c_fc.weight"] = normal(hidden, 4 * hidden)
        weights[prefix + "mlp.c_fc.bias"] = normal(4 * hidden)
        weights[prefix + "mlp.c_proj.weight"] = normal(4 * hidden, hidden)
        weights[prefix + "mlp.c_proj.bias"] = normal(hidden)
    weights["transformer.ln_f.weight"] = normal(hidden, mean=1.0)
    weights["transformer.ln_f.bias"] = normal(hidden)
    return weights


def layer_norm(x, weights, name):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    normed = (x - mean) / torch.sqrt(variance + MODEL["norm_eps"])
    return normed * weights[name + ".weight"] + weights[name + ".bias"]


def linear(x, weights, name):
    return x @ weights[name + ".weight"] + weights[name + ".bias"]


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def attention(x, weights, name):
    batch, length, hidden = x.shape
    heads = MODEL["heads"]
    q, k, v = linear(x, weights, name + ".c_attn").chunk(3, dim=-1)
    q, k, v = (t.reshape(batch, length, heads, hidden // heads).permute(0, 2, 1, 3) for t in (q, k, v))
    scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(hidden // heads)
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    probabilities = scores.masked_fill(future, -math.inf).softmax(-1)
    mixed = torch.einsum("bhij,bhjd->bhid", probabilities, v)
    return linear(mixed.permute(0, 2, 1, 3).reshape(batch, length, hidden), weights, name + ".c_proj")


def mean_loss(weights, inputs, targets):
    x = weights["transformer.wte.weight"][inputs] + weights["transformer.wpe.weight"][: inputs.shape[1]]
    for layer in range(MODEL["layers"]):
        prefix = f"transformer.h.{layer}."
        x = x + attention(layer_norm(x, weights, prefix + "ln_1"), weights, prefix + "attn")
        inner = gelu(linear(layer_norm(x, weights, prefix + "ln_2"), weights, prefix + "mlp.c_fc"))
        x = x + linear(inner, weights, prefix + "mlp.c_proj")
    logits = layer_norm(x, weights, "transformer.ln_f") @ weights["transformer.wte.weight"].T
    log_probabilities = logits - logits.logsumexp(-1, keepdim=True)
    return -log_probabilities.gather(-1, targets.unsqueeze(-1)).mean()


def batch(tokens, step):
    length, size = RUN["seq_len"], RUN["global_batch"]
    rows = [[tokens[(n * length + i) % len(tokens)] for i in range(length + 1)]
            for n in range(step * size, (step + 1) * size)]
    rows = torch.tensor(rows)
    return rows[:, :-1], rows[:, 1:]


def learning_rate(step):
    warmup, last = RUN["warmup_steps"], RUN["steps"] - 1
    if step < warmup:
        return RUN["lr"] * (step + 1) / warmup
    progress = (step - warmup) / (last - warmup)
    return RUN["min_lr"] + 0.5 * (RUN["lr"] - RUN["min_lr"]) * (1 + math.cos(math.pi * progress))


def adamw(weights, moments, gradients, step, scale):
    b1, b2, lr = RUN["beta1"], RUN["beta2"], learning_rate(step)
    for name, parameter in weights.items():
        gradient = gradients[name] * scale
        first, second = moments[name]
        first.mul_(b1).add_(gradient * (1 - b1))
        second.mul_(b2).add_(gradient ** 2 * (1 - b2))
        decay = RUN["weight_decay"] if parameter.dim() >= 2 else 0.0
        update = (first / (1 - b1 ** (step + 1))) / ((second / (1 - b2 ** (step + 1))).sqrt() + RUN["adam_eps"])
        with torch.no_grad():
            parameter -= lr * decay * parameter + lr * update


def write_safetensors(path, weights):
    header, data = {}, b""
    for name, tensor in weights.items():
        values = tensor.detach().reshape(-1).tolist()
        raw = struct.pack(f"<{len(values)}d", *values)
        header[name] = {"dtype": "F64", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    generator = torch.Generator().manual_seed(20240601)
    torch.set_num_threads(1)
    tokens = torch.randint(MODEL["vocab"], (TOKENS,), generator=generator).tolist()
    ids = array.array("H", tokens)
    if sys.byteorder == "big":
        ids.byteswap()
    (HERE / "gpt2_tokens.u16").write_bytes(ids.tobytes())

    weights = make_weights(generator)
    write_safetensors(HERE / "gpt2_initial.safetensors", weights)
    moments = {name: (torch.zeros_like(w), torch.zeros_like(w)) for name, w in weights.items()}
    losses, norms = [], []
    for step in range(RUN["steps"]):
        loss = mean_loss(weights, *batch(tokens, step))
        gradients = dict(zip(weights, torch.autograd.grad(loss, list(weights.values()))))
        norm = math.sqrt(sum(float((g ** 2).sum()) for g in gradients.values()))
        adamw(weights, moments, gradients, step, min(1.0, RUN["clip_norm"] / (norm + 1e-6)))
        losses.append(float(loss))
        norms.append(norm)
    write_safetensors(HERE / "gpt2_final.safetensors", weights)
    run = {"made_by": f"make_gpt2_golden.py with torch {torch.__version__}", "model": MODEL, "run": RUN,
           "losses": losses, "grad_norms": norms}
    (HERE / "gpt2_run.json").write_text(json.dumps(run, indent=1) + "\n")


if __name__ == "__main__":
    main()
