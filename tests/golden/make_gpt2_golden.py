#!/usr/bin/env python3
"""Writes the golden files with which tests/trainer/golden_test.cc compares the engine.

An independent implementation in double precision: GPT-2 in plain tensor operations with PyTorch's automatic
differentiation. golden_run.py implements the training run. Shares no code with the engine. Writes these files beside this
script:

    gpt2_tokens.u16            the data: little-endian token ids
    gpt2_initial.safetensors   weights before the first step, F64, with Hugging Face's names
    gpt2_final.safetensors     weights after the last step
    gpt2_run.json              the run's settings, and the loss and gradient norm of each step

Run it with the system's Python (Debian's python3-torch): /usr/bin/python3 tests/golden/make_gpt2_golden.py
"""
import math

import golden_run
import torch

MODEL = {"layers": 2, "hidden": 24, "heads": 3, "vocab": 37, "max_seq_len": 12, "norm_eps": 1e-5}
RUN = {"seq_len": 8, "global_batch": 4, "steps": 10, "lr": 0.01, "min_lr": 0.001, "lr_schedule": "cosine",
       "warmup_steps": 3, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95, "adam_eps": 1e-8, "clip_norm": 1.5}
TOKENS = 101  # fewer than the run reads, and not a multiple of the sequence length: the data wraps around


def make_weights(generator):
    """Returns weights of which none is zero or one, so that errors cannot stay hidden."""
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


if __name__ == "__main__":
    golden_run.write_golden("gpt2", 20240601, MODEL, RUN, TOKENS, make_weights, mean_loss, initial_dtype="F64")
